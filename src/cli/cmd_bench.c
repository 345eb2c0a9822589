// lockstep bench: how fast a model trains on synthetic data, and how far that is from what the kernel library could do.
//
// The step is the trainer's own, loaders, exchange and update included. The floor is, for every convolution and dense layer
// and each of its passes, the fastest of all the library's algorithms, implementations and layouts for that shape, each
// measured alone on buffers of its own, on as many cores at once as there are replicas; nothing else counts as necessary.
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/philox.h"
#include "cli/cli.h"
#include "data/dataset.h"
#include "graph/plan.h"
#include "train/options.h"

#define STEP_ROUNDS 15  // how often each layer is timed; the least counts

typedef struct settings {
    int workers, steps, json, layers, floor;
} settings;

static const ls_option table[] = {
    {"steps", LS_OPTION_INT, .offset = offsetof(settings, steps), .metavar = "N", .min = 2, .group = "Bench",
     .help = "training steps to time; the median counts"},
    {"layers", LS_OPTION_FLAG, .offset = offsetof(settings, layers), .group = "Bench",
     .help = "print every layer's time, implementation and floor"},
    {"floor", LS_OPTION_FLAG, .offset = offsetof(settings, floor), .group = "Bench",
     .help = "do not measure the kernel library's floor"},
    {"json", LS_OPTION_FLAG, .offset = offsetof(settings, json), .group = "Bench", .help = "print JSON"},
    {"workers", LS_OPTION_INT, .offset = offsetof(settings, workers), .metavar = "N", .min = 1, .max = 65536,
     .initial = "1, or as many as a launcher started", .group = "Workers, replicas, threads",
     .help = "processes to train with: starts them with mpirun, inside a Slurm allocation with srun"},
    {.name = NULL},
};

typedef struct layer {
    ls_plan_step_info info;
    double seconds, floor;  // the least over rounds, mean over threads; floor 0: nothing counts
    char best[48];          // the floor's implementation, in the first thread
} layer;

typedef struct bench {
    cli *cli;
    const char *model;
    settings set;
    ls_train_config config;
    ls_option_set options[3];
    ls_dataset data;
    ls_graph *graph;
    ls_train_result result;
    layer *layers;
    int layer_count;
    double floor_seconds;  // of one micro-batch
} bench;

// --- synthetic data --------------------------------------------------------------------------------------------------

static ls_status make_data(bench *b) {
    ls_shape image = b->graph->nodes[0].shape;
    int64_t size = ls_shape_count(image), steps = (64 << 20) / (size * b->config.batch_size);
    if (steps < 1) steps = 1;
    if (steps > b->set.steps) steps = b->set.steps;
    int64_t count = steps * b->config.batch_size, test = b->config.micro_batch;
    uint8_t *images, *labels;
    LS_TRY(ls_memory_alloc(count * size, &images));
    b->data.train.images = images;
    LS_TRY(ls_memory_alloc(count, &labels));
    b->data.train.labels = labels;
    for (int64_t i = 0; i < count * size; i += 4) {
        ls_philox4 r = ls_philox(1, (uint32_t)i, (uint32_t)(i >> 32), 0, ls_random_stream(LS_RANDOM_DATA, 0, 0));
        for (int64_t j = 0; j < 4 && i + j < count * size; j++) images[i + j] = (uint8_t)r.v[j];
    }
    int classes = ls_graph_classes(b->graph);
    for (int64_t i = 0; i < count; i++) labels[i] = (uint8_t)(images[i * size] % (classes < 256 ? classes : 256));
    snprintf(b->data.name, sizeof b->data.name, "synthetic");
    b->data.image = image;
    b->data.classes = classes;
    b->data.train.count = count;
    b->data.test = b->data.train;
    b->data.test.count = test < count ? test : count;
    b->config.epochs = (int)((b->set.steps + steps - 1) / steps);
    return LS_OK;
}

// --- layers and their floor ------------------------------------------------------------------------------------------

// One thread's measurement, with a plan of its own.
typedef struct measurement {
    bench *bench;
    pthread_t thread;
    pthread_barrier_t *together;
    layer *layers;
    int count;
    ls_status status;
    char failure[1024];
} measurement;

typedef struct workspace {
    ls_device *device;
    ls_params *params;
    ls_plan *plan;
    void *arena, *copies, *images;
    float *weights, *gradient;
    int32_t *labels;
    uint64_t *samples;
} workspace;

static ls_status workspace_make(bench *b, workspace *w) {
    ls_device_options options = {.threads = b->config.threads};
    ls_dtype precision = strcmp(b->config.precision, "bf16") == 0 ? LS_DTYPE_BF16 : LS_DTYPE_F32;
    ls_plan_config config = {.batch = b->config.micro_batch, .precision = precision, .training = 1};
    LS_TRY(ls_device_create(b->config.device, &options, &w->device));
    if (w->device->ops->thread_begin) w->device->ops->thread_begin(w->device);
    LS_TRY(ls_params_create(b->graph, w->device, &w->params));
    LS_TRY(ls_plan_create(b->graph, w->device, w->params, &config, &w->plan));
    LS_TRY(ls_memory_alloc(ls_plan_arena_bytes(w->plan), &w->arena));
    LS_TRY(ls_memory_alloc(ls_params_copies_bytes(w->params), &w->copies));
    LS_TRY(ls_memory_alloc(ls_params_length(w->params) * 4, &w->weights));
    LS_TRY(ls_memory_alloc(ls_params_length(w->params) * 4, &w->gradient));
    LS_TRY(
        ls_memory_alloc(config.batch * ls_shape_count(b->data.image) * (int64_t)ls_dtype_size(precision), &w->images));
    LS_TRY(ls_memory_alloc(config.batch * 4, &w->labels));
    LS_TRY(ls_memory_alloc(config.batch * 8, &w->samples));
    for (int i = 0; i < b->graph->param_count; i++) {
        float *plain;
        LS_TRY(ls_memory_alloc(ls_shape_count(b->graph->params[i].shape) * 4, &plain));
        ls_param_initialize(b->graph, i, b->config.seed, plain);
        ls_status status = ls_params_set(w->params, i, w->weights, plain);
        ls_memory_free(plain);
        LS_TRY(status);
    }
    ls_params_refresh(w->params, w->weights, w->copies, 0, 1);
    ls_plan_bind(w->plan, w->arena, w->weights, w->copies);
    return LS_OK;
}

static void workspace_free(workspace *w) {
    ls_plan_destroy(&w->plan);
    ls_params_destroy(&w->params);
    ls_device_destroy(&w->device);
    ls_memory_free(w->arena), ls_memory_free(w->copies), ls_memory_free(w->images), ls_memory_free(w->labels);
    ls_memory_free(w->samples), ls_memory_free(w->weights), ls_memory_free(w->gradient);
}

static ls_status measure(measurement *m, workspace *w) {
    LS_TRY(workspace_make(m->bench, w));
    ls_plan_input input = {
        .images = w->images, .labels = w->labels, .random = {.seed = 1, .epoch = 1, .samples = w->samples}};
    m->count = ls_plan_step_count(w->plan);
    double *seconds;
    LS_TRY(ls_calloc(m->count, sizeof *m->layers, &m->layers));
    LS_TRY(ls_calloc(m->count, sizeof *seconds, &seconds));
    ls_status status = LS_OK;
    for (int round = 0; round < STEP_ROUNDS && status == LS_OK; round++) {
        memset(seconds, 0, (size_t)m->count * sizeof *seconds);
        status = ls_plan_time_steps(w->plan, &input, w->gradient, seconds);
        for (int i = 0; i < m->count; i++)
            if (round == 0 || seconds[i] < m->layers[i].seconds) m->layers[i].seconds = seconds[i];
    }
    free(seconds);
    for (int i = 0; i < m->count && status == LS_OK; i++) {
        layer *l = &m->layers[i];
        l->info = ls_plan_step(w->plan, i);
        if (l->info.flops > 0 && m->bench->set.floor)
            status = ls_plan_step_floor(w->plan, i, &l->floor, l->best, sizeof l->best);
    }
    return status;
}

static void *measure_thread(void *user) {
    measurement *m = user;
    workspace w = {0};
    pthread_barrier_wait(m->together);
    m->status = measure(m, &w);
    if (m->status != LS_OK) snprintf(m->failure, sizeof m->failure, "%s", ls_error_message());
    workspace_free(&w);
    return NULL;
}

static ls_status measure_layers(bench *b) {
    int threads = b->result.replicas_per_worker, started = 0;
    measurement *all;
    pthread_barrier_t together;
    LS_TRY(ls_calloc(threads, sizeof *all, &all));
    pthread_barrier_init(&together, NULL, (unsigned)threads);
    for (; started < threads; started++) {
        all[started] = (measurement){.bench = b, .together = &together};
        if (pthread_create(&all[started].thread, NULL, measure_thread, &all[started]) != 0) abort();
    }
    ls_status status = LS_OK;
    for (int t = 0; t < threads; t++) {
        pthread_join(all[t].thread, NULL);
        if (all[t].status != LS_OK && status == LS_OK) status = LS_FAIL(all[t].status, "%s", all[t].failure);
    }
    for (int t = 1; t < threads && status == LS_OK; t++)
        for (int i = 0; i < all[0].count; i++) {
            all[0].layers[i].seconds += all[t].layers[i].seconds;
            all[0].layers[i].floor += all[t].layers[i].floor;
        }
    b->layers = all[0].layers;
    b->layer_count = all[0].count;
    for (int i = 0; i < b->layer_count && status == LS_OK; i++) {
        b->layers[i].seconds /= threads;
        b->layers[i].floor /= threads;
        b->floor_seconds += b->layers[i].floor;
    }
    for (int t = 1; t < threads; t++) free(all[t].layers);
    pthread_barrier_destroy(&together);
    free(all);
    return status;
}

// --- output ----------------------------------------------------------------------------------------------------------

// Micro-batches one lane computes in a step, and so how often the floor is paid.
static double micro_batches_per_lane(const bench *b) {
    const ls_train_result *r = &b->result;
    int64_t v = r->global_batch / r->micro_batch, lanes = (int64_t)r->workers * r->replicas_per_worker;
    return (double)((v + lanes - 1) / lanes);
}

static void print_layers(const bench *b) {
    printf("\n%-20s %-18s %-32s %9s %9s %7s  %s\n", "Layer", "Pass", "Implementation", "ms", "floor ms", "ratio",
           "fastest");
    for (int i = 0; i < b->layer_count; i++) {
        const layer *l = &b->layers[i];
        printf("%-20s %-18s %-32s %9.3f", l->info.node, l->info.pass, l->info.implementation, 1e3 * l->seconds);
        if (l->floor > 0) printf(" %9.3f %7.2f  %s", 1e3 * l->floor, l->seconds / l->floor, l->best);
        putchar('\n');
    }
    putchar('\n');
}

static void print_text(const bench *b) {
    const ls_train_result *r = &b->result;
    const ls_phase_seconds *p = &r->phases;
    char count[32];
    double images = (double)r->global_batch / r->step_seconds_median;
    if (b->set.layers) print_layers(b);
    printf("%s, synthetic data, %s; %d worker%s x %d replica%s x %d thread%s; global batch %lld = %lld x %lld\n",
           b->model, b->config.precision, r->workers, r->workers == 1 ? "" : "s", r->replicas_per_worker,
           r->replicas_per_worker == 1 ? "" : "s", r->threads_per_replica, r->threads_per_replica == 1 ? "" : "s",
           (long long)r->global_batch, (long long)(r->global_batch / r->micro_batch), (long long)r->micro_batch);
    printf("%-28s%s\n", "Images per second", cli_count((int64_t)(images + 0.5), count));
    printf("%-28s%.2f ms (median)\n", "Time per step", 1e3 * r->step_seconds_median);
    printf("%-28s%.2f, %.2f, %.2f ms\n", "  load, forward, backward", 1e3 * p->load, 1e3 * p->forward,
           1e3 * p->backward);
    printf("%-28s%.2f, %.2f ms\n", "  exchange, update", 1e3 * p->exchange, 1e3 * p->update);
    if (b->floor_seconds > 0) {
        double floor = b->floor_seconds * micro_batches_per_lane(b);
        printf("%-28s%.2f ms (%.2f ms per micro-batch)\n", "Floor of the kernels", 1e3 * floor, 1e3 * b->floor_seconds);
        printf("%-28s%.2f\n", "Step over floor", r->step_seconds_median / floor);
    }
    printf("%-28s%.0f MB\n", "Peak memory", (double)r->peak_rss_bytes / 1e6);
}

static ls_status print_json(const bench *b) {
    const ls_train_result *r = &b->result;
    double floor = b->floor_seconds * micro_batches_per_lane(b);
    json_t *root =
        json_pack("{s:s,s:s,s:i,s:i,s:i,s:I,s:I,s:f,s:f,s:I}", "model", b->model, "precision", b->config.precision,
                  "workers", r->workers, "replicas_per_worker", r->replicas_per_worker, "threads_per_replica",
                  r->threads_per_replica, "global_batch", (json_int_t)r->global_batch, "micro_batch",
                  (json_int_t)r->micro_batch, "images_per_second", (double)r->global_batch / r->step_seconds_median,
                  "step_ms", 1e3 * r->step_seconds_median, "peak_rss_bytes", (json_int_t)r->peak_rss_bytes);
    if (!root) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    const ls_phase_seconds *p = &r->phases;
    json_object_set_new(
        root, "phases_ms",
        json_pack("{s:f,s:f,s:f,s:f,s:f}", "load", 1e3 * p->load, "forward", 1e3 * p->forward, "backward",
                  1e3 * p->backward, "exchange", 1e3 * p->exchange, "update", 1e3 * p->update));
    if (b->floor_seconds > 0) {
        json_object_set_new(root, "floor_ms", json_real(1e3 * floor));
        json_object_set_new(root, "step_over_floor", json_real(r->step_seconds_median / floor));
    }
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(root);
    return LS_OK;
}

// --- the command -----------------------------------------------------------------------------------------------------

static void defaults(bench *b) {
    b->set = (settings){.steps = 30, .floor = 1};
    ls_train_config_init(&b->config);
    b->config.batch_size = 0;  // resolved from the micro-batch
    b->config.evaluate = 0;
    b->options[0] = (ls_option_set){ls_train_options(), &b->config};
    b->options[1] = (ls_option_set){table, &b->set};
    b->options[2] = (ls_option_set){NULL, NULL};
}

// Micro-batches of 128 and eight of them in a step, where nothing else is said.
static void resolve_batch(bench *b) {
    ls_train_config *c = &b->config;
    if (c->batch_size == 0) c->batch_size = 8 * (c->micro_batch > 0 ? c->micro_batch : 128);
    if (c->micro_batch == 0) c->micro_batch = ls_micro_batch_default(c->batch_size);
}

static ls_status run_training(bench *b) {
    ls_trainer *trainer = NULL;
    ls_status status;
    LS_TRY_GOTO(ls_trainer_create(b->cli->context, b->graph, &b->data, &b->config, &trainer), done);
    LS_TRY_GOTO(ls_trainer_fit(trainer, NULL, NULL), done);
    LS_TRY_GOTO(ls_trainer_result(trainer, &b->result), done);
done:
    ls_trainer_destroy(&trainer);
    return status;
}

static ls_status run_all(bench *b) {
    LS_TRY(ls_model_create(b->model, (ls_shape){0}, 0, &b->graph));
    LS_TRY(cli_job_launch(b->cli, b->set.workers));
    b->cli->stage = CLI_STAGE_TOGETHER;
    LS_TRY(ls_context_create(&b->cli->context));
    resolve_batch(b);
    LS_TRY(make_data(b));
    LS_TRY(run_training(b));
    if (b->set.floor || b->set.layers) LS_TRY(measure_layers(b));
    if (ls_context_rank(b->cli->context) != 0) return LS_OK;
    if (b->set.json) return print_json(b);
    print_text(b);
    return LS_OK;
}

static ls_status run_bench(cli *c, int argc, char **argv) {
    bench b = {.cli = c};
    ls_words words;
    defaults(&b);
    LS_TRY(ls_options_parse(b.options, argc, argv, 1, &words));
    if (words.help) {
        printf(
            "Usage: lockstep bench MODEL [OPTIONS]\n\nTrains a network on synthetic data and prints images per second, "
            "the "
            "time per step and its\nphases, and how far that is from the kernel library's own best times for the "
            "model's shapes.\n");
        ls_options_help(stdout, b.options, cli_help_width());
        return LS_OK;
    }
    if (words.count < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "which model? Usage: lockstep bench MODEL [OPTIONS]; 'lockstep models' lists them");
    b.model = words.word[0];
    ls_status status = run_all(&b);
    ls_graph_destroy(&b.graph);
    ls_memory_free((void *)b.data.train.images);
    ls_memory_free((void *)b.data.train.labels);
    free(b.layers);
    return status;
}

const cli_command cli_command_bench = {"bench", "time a network on synthetic data, beside the kernel library's floor",
                                       run_bench};
