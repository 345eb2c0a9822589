// lockstep bench: how fast a model trains on synthetic data, and how far that is from what the kernel library could do.
//
// The step is the trainer's own, loaders, exchange and update included. The floor is, for every convolution and dense layer
// and each of its passes, the fastest of all the library's algorithms, implementations and layouts for that shape, run on its
// own and hot in the caches, on as many cores at once as there are replicas; nothing else counts as necessary.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/median.h"
#include "base/memory.h"
#include "base/philox.h"
#include "cli/bench.h"

#define BLOCK_STEPS 4  // training steps between two rounds of the kernels

typedef struct settings {
    const char *input_shape;
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
    {"input-shape", LS_OPTION_TEXT, .offset = offsetof(settings, input_shape), .metavar = "HxWxC",
     .initial = "the network's own", .group = "Network", .help = "the shape of a sample, before --image-size"},
    {"workers", LS_OPTION_INT, .offset = offsetof(settings, workers), .metavar = "N", .min = 1, .max = 65536,
     .initial = "1, or as many as a launcher started", .group = "Workers, replicas, threads",
     .help = "processes to train with: starts them with mpirun, inside a Slurm allocation with srun"},
    {.name = NULL},
};

// Options of train that mean something else here, or nothing.
static const ls_option train_table[] = {
    {"batch-size", LS_OPTION_COUNT, .offset = offsetof(ls_train_config, batch_size), .metavar = "B", .min = 1,
     .max = LS_MAX_BATCH, .initial = "8 micro-batches, of 128 where --micro-batch says nothing", .group = "Training",
     .help = "the GLOBAL batch: samples per step over ALL workers together, NOT per worker"},
    {.name = "epochs"},
    {.name = "limit-train"},
    {.name = "limit-test"},
    {.name = "drop-remainder"},
    {.name = "evaluate"},
    {.name = "validate"},
    {.name = "tta"},
    {.name = NULL},
};

typedef struct bench {
    cli *cli;
    const char *model;
    settings set;
    ls_train_config config;
    ls_model_config network;
    ls_option_set options[5];
    uint8_t *images, *labels;
    int64_t samples;
    ls_dataset *data;  // of these
    ls_shape stored;   // (H, W, C) of the synthetic images: what the network is made for, before --image-size
    ls_graph *graph;
    ls_train_result result;
    ls_layer_bench *layers;  // NULL when neither floor nor layers are wanted
    // Training goes in blocks of steps, each followed by a round of the kernels, so that both see the same machine.
    double step[LS_LAYER_BENCH_ROUNDS], floor[LS_LAYER_BENCH_ROUNDS],
        ratio[LS_LAYER_BENCH_ROUNDS];  // by block: medians, sums, quotients
    double *steps;                     // of the running block
    double since;                      // its clock at the last step
    int blocks;                        // measured
} bench;

// --- synthetic data --------------------------------------------------------------------------------------------------

// Of synthetic tokens, which are bytes; 0: the network takes images.
static int vocabulary_of(const bench *b) {
    int vocabulary = b->network.vocabulary;
    ls_model_info m;
    for (int i = 0; !vocabulary && (m = ls_model_at(i)).name; i++)
        if (strcmp(m.name, b->model) == 0) vocabulary = m.vocabulary;
    return vocabulary > 256 ? 256 : vocabulary;
}

// How many steps are an epoch. The last one's exchange has no next forward to hide behind, unlike all others: between hosts, where no
// floor is measured after each block, all steps are one.
static int64_t block_steps(const bench *b) {
    int alone = ls_context_describe(b->cli->context).hosts == 1;
    return alone || b->set.floor || b->set.layers || b->set.steps < BLOCK_STEPS ? BLOCK_STEPS : b->set.steps;
}

static ls_status make_data(bench *b) {
    ls_shape image = b->stored;
    int64_t size = ls_shape_count(image), batch;
    if (__builtin_mul_overflow(size, b->config.batch_size, &batch) || batch > INT64_MAX / block_steps(b))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%lld samples of %lld bytes each are more than any memory: ask for a smaller --batch-size or "
                       "--input-shape",
                       (long long)b->config.batch_size, (long long)size);
    int64_t steps = batch > 0 ? (64 << 20) / batch : 1;
    if (steps < 1) steps = 1;
    if (steps > block_steps(b)) steps = block_steps(b);
    int64_t count = steps * b->config.batch_size, test = b->config.micro_batch;
    LS_TRY(ls_memory_alloc(count * size, &b->images));
    LS_TRY(ls_memory_alloc(count, &b->labels));
    for (int64_t i = 0; i < count * size; i += 4) {
        ls_philox4 r = ls_philox(1, (uint32_t)i, (uint32_t)(i >> 32), 0, ls_random_stream(LS_RANDOM_DATA, 0, 0));
        for (int64_t j = 0; j < 4 && i + j < count * size; j++) b->images[i + j] = (uint8_t)r.v[j];
    }
    int classes = ls_graph_classes(b->graph), told = classes < 256 ? classes : 256;
    for (int64_t i = 0; i < count; i++) b->labels[i] = (uint8_t)(told ? b->images[i * size] % told : 0);
    ls_field fields[] = {{"image", image, LS_DTYPE_U8, 0}, {"label", {0}, LS_DTYPE_U8, classes}};
    const uint8_t *answers = b->labels;
    int vocabulary = vocabulary_of(b);
    if (vocabulary) {  // what is foretold of a sequence are its own tokens
        for (int64_t i = 0; i < count * size; i++) b->images[i] = (uint8_t)(1 + b->images[i] % (vocabulary - 1));
        fields[0] = (ls_field){"tokens", image, LS_DTYPE_U8, vocabulary};
    }
    if (!classes) {
        fields[1] = (ls_field){"targets", image, LS_DTYPE_U8, vocabulary};
        answers = b->images;
    }
    ls_arrays_config data = {.name = "synthetic",
                             .fields = fields,
                             .field_count = 2,
                             .train = {count, {b->images, answers}},
                             .test = {test < count ? test : count, {b->images, answers}}};
    LS_TRY(ls_dataset_create_arrays(b->cli->context, &data, &b->data));
    b->samples = count;
    b->config.epochs = 1 + (int)((b->set.steps + steps - 1) / steps);
    return LS_OK;
}

// --- training in blocks ----------------------------------------------------------------------------------------------

static double micro_batches_per_lane(const ls_train_config *c, int lanes) {
    int64_t v = (c->batch_size + c->micro_batch - 1) / c->micro_batch, most = (v + lanes - 1) / lanes;
    return (double)most;
}

// The first block warms up. The others' steps are compared with the floor measured right after them.
static ls_status note_step(void *user, const ls_step_report *p, int *stop) {
    bench *b = user;
    b->steps[p->step - 1] = p->step == 1 ? p->seconds : p->seconds - b->since;
    b->since = p->seconds;
    if (p->step < p->steps) return LS_OK;
    if (b->layers)
        LS_TRY(ls_context_barrier(b->cli->context));  // nothing goes on beside the floor: not the exchange either
    double floor = b->layers ? ls_layer_bench_round(b->layers) : 0;
    if (p->epoch == 1 || b->blocks == LS_LAYER_BENCH_ROUNDS) return LS_OK;
    int lanes = b->result.workers * b->result.replicas_per_worker, i = b->blocks++;
    b->step[i] = ls_median(b->steps, (int)p->steps);
    b->floor[i] = floor * micro_batches_per_lane(&b->config, lanes);
    b->ratio[i] = floor > 0 ? b->step[i] / b->floor[i] : 0;
    return LS_OK;
}

static ls_status run_training(bench *b) {
    ls_trainer *trainer = NULL;
    ls_status status;
    ls_callbacks callbacks = {.user = b, .on_step = note_step};
    LS_TRY(ls_calloc(b->samples / b->config.batch_size, sizeof *b->steps, &b->steps));
    if (b->set.floor || b->set.layers)
        LS_TRY_GOTO(ls_layer_bench_create(b->graph, &b->config, b->set.floor, &b->layers), done);
    LS_TRY_GOTO(ls_trainer_create(b->cli->context, b->graph, b->data, &b->config, &trainer), done);
    LS_TRY_GOTO(ls_trainer_result(trainer, &b->result), done);
    b->config.threads = b->result.threads_per_replica;  // of layers, too
    if (b->layers) LS_TRY_GOTO(ls_layer_bench_start(b->layers, b->result.replicas_per_worker), done);
    LS_TRY_GOTO(ls_trainer_fit(trainer, &callbacks), done);
    LS_TRY_GOTO(ls_trainer_result(trainer, &b->result), done);
    b->result.step_seconds_median = ls_median(b->step, b->blocks);
done:
    ls_trainer_destroy(&trainer);
    free(b->steps);
    return status;
}

// --- output ----------------------------------------------------------------------------------------------------------

static int name_width(const bench *b) {
    int width = 20;
    for (int i = 0; i < ls_layer_bench_count(b->layers); i++) {
        int n = (int)strlen(ls_layer_bench_get(b->layers, i).node);
        if (n > width) width = n;
    }
    return width;
}

static void print_layers(const bench *b) {
    double seconds = 0, floor = 0, limit = 0, flops = 0, bytes = 0;
    int width = name_width(b);
    printf(
        "Medians of %d rounds; limit: what the machine's arithmetic or memory would allow; floor: the least of all "
        "rounds\n",
        b->blocks);
    printf("%-*s %-18s %-26s %9s %8s %8s %9s %9s %7s  %s\n", width, "Layer", "Pass", "Implementation", "ms", "GFLOP",
           "MB", "limit ms", "floor ms", "ratio", "fastest");
    for (int i = 0; i < ls_layer_bench_count(b->layers); i++) {
        ls_layer_time l = ls_layer_bench_get(b->layers, i);
        printf("%-*s %-18s %-26s %9.3f %8.3f %8.2f %9.3f", width, l.node, l.pass, l.implementation, 1e3 * l.seconds,
               1e-9 * l.flops, 1e-6 * l.bytes, 1e3 * l.limit_seconds);
        if (l.floor_seconds > 0)
            printf(" %9.3f %7.2f  %s", 1e3 * l.floor_seconds, l.seconds / l.floor_seconds, l.fastest);
        putchar('\n');
        seconds += l.seconds, floor += l.floor_seconds, limit += l.limit_seconds;
        flops += l.flops, bytes += l.bytes;
    }
    printf("%-*s %9.3f %8.3f %8.2f %9.3f", width + 46, "A micro-batch", 1e3 * seconds, 1e-9 * flops, 1e-6 * bytes,
           1e3 * limit);
    if (floor > 0) printf(" %9.3f %7.2f", 1e3 * floor, seconds / floor);
    printf("\n\n");
}

// The limit of a step's kernels on this worker's lanes; 0 where the device knows none.
static double step_limit(const bench *b, ls_machine_limit *limit) {
    int lanes = b->result.workers * b->result.replicas_per_worker;
    *limit = ls_layer_bench_limit(b->layers);
    return limit->micro_batch_seconds * micro_batches_per_lane(&b->config, lanes);
}

static void print_limit(const bench *b) {
    ls_machine_limit limit;
    double seconds = step_limit(b, &limit);
    if (seconds <= 0) return;
    printf("%-28s%.2f ms (%s %.0f GFLOP/s, memory %.1f GB/s)\n", "Limit of the machine", 1e3 * seconds,
           limit.instructions, 1e-9 * limit.flops, 1e-9 * limit.bytes);
    printf("%-28s%.2f\n", "Step over limit", b->result.step_seconds_median / seconds);
}

// Training cannot be faster than its kernels: where it seems to be, something else ran on the machine while they were measured.
static void print_ratio(bench *b) {
    double median = ls_median(b->ratio, b->blocks), least = b->ratio[0], most = b->ratio[b->blocks - 1];  // sorted
    if (median < 1)
        printf("%-28snot to be told: other work disturbed the floor (%.2f to %.2f in %d blocks)\n", "Step over floor",
               least, most, b->blocks);
    else
        printf("%-28s%.2f (median of %d blocks, %.2f to %.2f)\n", "Step over floor", median, b->blocks, least, most);
}

static void print_text(bench *b) {
    const ls_train_result *r = &b->result;
    const ls_phase_seconds *p = &r->phases;
    char count[32];
    double images = (double)r->global_batch / r->step_seconds_median;
    if (b->set.layers) print_layers(b);
    int compresses = strcmp(b->config.compress, "none") != 0;
    printf("%s, synthetic data, %s%s%s; %d worker%s x %d replica%s x %d thread%s; global batch %lld = %lld x %lld\n",
           b->model, b->config.precision, cli_compress_text(b->config.compress), compresses ? b->config.compress : "",
           r->workers, r->workers == 1 ? "" : "s", r->replicas_per_worker, r->replicas_per_worker == 1 ? "" : "s",
           r->threads_per_replica, r->threads_per_replica == 1 ? "" : "s", (long long)r->global_batch,
           (long long)((r->global_batch + r->micro_batch - 1) / r->micro_batch), (long long)r->micro_batch);
    int64_t tokens = vocabulary_of(b) ? ls_shape_count(b->stored) : 0;
    printf("%-28s%s\n", tokens ? "Sequences per second" : "Images per second",
           cli_count((int64_t)(images + 0.5), count));
    if (tokens) printf("%-28s%s\n", "Tokens per second", cli_count((int64_t)(images * (double)tokens + 0.5), count));
    double step = p->load + p->forward + p->backward + p->exchange + p->wait + p->update + p->serial;
    printf("%-28s%.2f ms (median; mean %.2f ms)\n", "Time per step", 1e3 * r->step_seconds_median, 1e3 * step);
    printf("%-28s%.2f, %.2f, %.2f ms\n", "  load, forward, backward", 1e3 * p->load, 1e3 * p->forward,
           1e3 * p->backward);
    printf("%-28s%.2f, %.2f, %.2f ms\n", "  exchange, wait, update", 1e3 * p->exchange, 1e3 * p->wait, 1e3 * p->update);
    if (r->buckets > 1)
        printf("%-28s%.2f ms, in %d buckets\n", "  exchange behind that", 1e3 * r->exchange_hidden, r->buckets);
    if (b->set.floor) {
        printf("%-28s%.2f ms\n", "Floor of the kernels", 1e3 * ls_median(b->floor, b->blocks));
        print_ratio(b);
    } else if (!b->layers) {  // else it is that of what was measured beside the training
        printf("%-28s%.0f MB\n", "Peak memory", (double)r->peak_rss_bytes / 1e6);
    }
    if (b->layers) print_limit(b);
}

static ls_status print_json(bench *b) {
    const ls_train_result *r = &b->result;
    json_t *root = json_pack(
        "{s:s,s:s,s:s,s:i,s:i,s:i,s:I,s:I,s:f,s:f,s:I}", "model", b->model, "precision", b->config.precision,
        "compress", b->config.compress, "workers", r->workers, "replicas_per_worker", r->replicas_per_worker,
        "threads_per_replica", r->threads_per_replica, "global_batch", (json_int_t)r->global_batch, "micro_batch",
        (json_int_t)r->micro_batch, "images_per_second", (double)r->global_batch / r->step_seconds_median, "step_ms",
        1e3 * r->step_seconds_median, "peak_rss_bytes", (json_int_t)r->peak_rss_bytes);
    if (!root) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    const ls_phase_seconds *p = &r->phases;
    json_object_set_new(root, "phases_ms",
                        json_pack("{s:f,s:f,s:f,s:f,s:f,s:f}", "load", 1e3 * p->load, "forward", 1e3 * p->forward,
                                  "backward", 1e3 * p->backward, "exchange", 1e3 * (p->exchange + p->wait), "wait",
                                  1e3 * p->wait, "update", 1e3 * p->update));
    json_object_set_new(root, "exchange_hidden_ms", json_real(1e3 * r->exchange_hidden));
    if (b->set.floor) {
        json_object_set_new(root, "floor_ms", json_real(1e3 * ls_median(b->floor, b->blocks)));
        double ratio = ls_median(b->ratio, b->blocks);
        json_object_set_new(root, "step_over_floor", ratio < 1 ? json_null() : json_real(ratio));
    }
    ls_machine_limit limit = {0};
    double limit_seconds = b->layers ? step_limit(b, &limit) : 0;
    if (limit_seconds > 0)
        json_object_set_new(
            root, "limit",
            json_pack("{s:f,s:s,s:f,s:f}", "step_ms", 1e3 * limit_seconds, "instructions", limit.instructions,
                      "flops_per_second", limit.flops, "memory_bytes_per_second", limit.bytes));
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
    ls_model_config_init(&b->network);
    b->options[0] = (ls_option_set){table, &b->set};
    b->options[1] = (ls_option_set){train_table, &b->config};
    b->options[2] = (ls_option_set){ls_train_options(), &b->config};
    b->options[3] = (ls_option_set){ls_model_options(), &b->network};
    b->options[4] = (ls_option_set){NULL, NULL};
}

static void help(const bench *b) {
    int width = cli_help_width();
    ls_option_set shown[6] = {{cli_course_options(), NULL}};  // without its top a network is refused
    memcpy(shown + 1, b->options, sizeof b->options);
    printf(
        "Usage: lockstep bench MODEL [OPTIONS]\n       lockstep bench exchange [OPTIONS]\n       lockstep bench data "
        "SPEC [OPTIONS]\n\n");
    ls_print_entry(stdout, "", 0, width,
                   "Trains a network on synthetic data and prints images per second, the time per step and its phases, "
                   "and how far that is from the kernel library's own best times for the model's shapes. Options of "
                   "train for the seed, the learning rate and the like are taken too; no time depends on them.");
    ls_options_help(stdout, shown, width);
}

// Micro-batches of 128 and eight of them in a step, where nothing else is said.
static void resolve_batch(bench *b) {
    ls_train_config *c = &b->config;
    if (c->batch_size == 0) c->batch_size = 8 * (c->micro_batch > 0 ? c->micro_batch : 128);
    if (c->micro_batch == 0) c->micro_batch = ls_micro_batch_default(c->batch_size);
}

// The network for images as it is made for them, or as --input-shape has them, once they are resized.
static ls_status create_graph(bench *b) {
    ls_model_config network = b->network;
    LS_TRY(cli_model_input(b->model, b->set.input_shape, &b->stored));
    network.input = ls_train_image_shape(&b->config, b->stored);
    LS_TRY(ls_model_build(b->model, &network, &b->graph));
    return ls_graph_check_classifier(b->graph);
}

static ls_status run_all(bench *b) {
    LS_TRY(create_graph(b));
    resolve_batch(b);
    LS_TRY(cli_job_check_batch(b->cli, &b->config, b->set.workers));
    LS_TRY(cli_job_launch(b->cli, b->set.workers));
    b->cli->stage = CLI_STAGE_TOGETHER;
    LS_TRY(cli_job_join(b->cli, "bench", b->set.workers));
    LS_TRY(ls_context_agree(b->cli->context, make_data(b)));
    LS_TRY(run_training(b));
    if (ls_context_rank(b->cli->context) != 0) return LS_OK;
    if (b->set.json) return print_json(b);
    print_text(b);
    return LS_OK;
}

static ls_status run_bench(cli *c, int argc, char **argv) {
    bench b = {.cli = c};
    ls_words words;
    if (argc > 0 && !strcmp(argv[0], "exchange")) return cli_bench_exchange(c, argc, argv);
    if (argc > 0 && !strcmp(argv[0], "data")) return cli_bench_data(c, argc, argv);
    defaults(&b);
    LS_TRY(ls_options_parse(b.options, argc, argv, 1, &words));
    if (words.help) {
        help(&b);
        return LS_OK;
    }
    if (words.count < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "which model? Usage: lockstep bench MODEL [OPTIONS]; 'lockstep models' lists them");
    b.model = words.word[0];
    ls_status status = run_all(&b);
    ls_layer_bench_destroy(&b.layers);  // their plans read the graph to the last
    ls_graph_destroy(&b.graph);
    ls_dataset_destroy(&b.data);
    ls_memory_free(b.images);
    ls_memory_free(b.labels);
    return status;
}

const cli_command cli_command_bench = {"bench", "time a network on synthetic data, beside the kernel library's floor",
                                       run_bench};
