// lockstep gan: two networks against each other, trained in turn: a generator that draws images of noise, and a discriminator that tells them from those of
// a dataset.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/memory.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/samples.h"

enum { SIDE = 8, PATH = 4096, MOST_STAGES = 8 };  // a sheet has SIDE x SIDE images

typedef struct settings {
    const char *data, *samples, *save;
    int workers, verbose;
    int grow;  // stages; 1: it does not grow
} settings;

static const ls_option table[] = {
    {"data", LS_OPTION_TEXT, .offset = offsetof(settings, data), .metavar = "SPEC", .group = "Training",
     .help = "the dataset whose images are to be drawn: digits, mnist:DIR, ...; 'lockstep datasets' lists them"},
    {"grow", LS_OPTION_INT, .offset = offsetof(settings, grow), .metavar = "STAGES", .min = 1, .max = MOST_STAGES,
     .group = "Training",
     .help = "in so many stages, each with its share of the epochs: sides of images are half as large in the one "
             "before; 1: it does not grow"},
    {"samples", LS_OPTION_TEXT, .offset = offsetof(settings, samples), .metavar = "DIR", .group = "Output",
     .help = "draw 64 images after each epoch, of the same noise, to DIR/epoch-0001.png, ..."},
    {"save", LS_OPTION_TEXT, .offset = offsetof(settings, save), .metavar = "FILE", .group = "Output",
     .help = "write the weights of both after training to FILE: safetensors"},
    {"verbose", LS_OPTION_INT, .offset = offsetof(settings, verbose), .metavar = "LEVEL", .max = 1, .group = "Output",
     .help = "0: silent; 1: one line an epoch"},
    {"workers", LS_OPTION_INT, .offset = offsetof(settings, workers), .metavar = "N", .min = 1, .max = 65536,
     .initial = "1, or as many as a launcher started", .group = "Workers, replicas, threads",
     .help = "processes to train with: starts them with mpirun, inside a Slurm allocation with srun"},
    {.name = NULL},
};

// Options of train that mean nothing here.
static const ls_option hidden[] = {
    {.name = "evaluate"},           {.name = "validate"},        {.name = "limit-test"}, {.name = "augment"},
    {.name = "normalize"},          {.name = "noise"},           {.name = "async"},      {.name = "staleness"},
    {.name = "delay-compensation"}, {.name = "push-log"},        {.name = "replay"},     {.name = "slow"},
    {.name = "positive-weight"},    {.name = "label-smoothing"}, {.name = NULL}};

enum { DISCRIMINATOR, GENERATOR, NETWORKS };

typedef struct game {
    cli *cli;
    settings set;
    ls_train_config config;
    ls_option_set options[5];
    ls_dataset *dataset;
    ls_gan gan[MOST_STAGES];  // of each stage, on one store
    int stage;
    ls_shape shape;                 // of its images
    ls_trainer *trainer[NETWORKS];  // of the stage
    ls_predictor *predictor;        // of the worker that speaks
    float *noise, *drawn;           // (SIDE * SIDE, noise), (SIDE * SIDE, H, W, C)
} game;

static int speaks(const game *g) { return ls_context_rank(g->cli->context) == 0; }

static void defaults(game *g) {
    g->set = (settings){.data = "digits", .verbose = 1, .grow = 1};
    ls_train_config_init(&g->config);
    // As of the paper.
    g->config.lr = 0.0002;
    g->config.beta1 = 0.5;
    ls_cluster_init(&g->cli->cluster);
    const ls_option_set options[] = {{table, &g->set},
                                     {hidden, NULL},
                                     {cli_cluster_options(), &g->cli->cluster},
                                     {ls_train_options(), &g->config},
                                     {NULL, NULL}};
    memcpy(g->options, options, sizeof options);
}

static void help(const game *g) {
    printf("Usage: lockstep gan [--data SPEC] [--samples DIR] [OPTIONS]\n\n");
    ls_print_entry(
        stdout, "", 0, cli_help_width(),
        "Trains two networks in turn: a generator, which makes images of noise, and a discriminator, which learns "
        "to tell them from a dataset's. The same data and recipe give the same bits, and the same pictures, for any "
        "number of workers.");
    ls_options_help(stdout, g->options, cli_help_width());
}

// --- pictures --------------------------------------------------------------------------------------------------------

// The same noise after every epoch.
static ls_status begin_samples(game *g) {
    int64_t images = SIDE * SIDE, noise = g->gan->noise;
    if (!g->set.samples || !speaks(g)) return LS_OK;
    LS_TRY(ls_calloc(images * noise, sizeof *g->noise, &g->noise));
    LS_TRY(ls_calloc(images * ls_shape_count(g->shape), sizeof *g->drawn, &g->drawn));
    for (int64_t i = 0; i < images; i++) ls_train_draw_noise(&g->config, i, noise, g->noise + i * noise);
    return LS_OK;
}

static ls_status begin_drawing(game *g) {
    ls_predict_config c;
    if (!g->noise) return LS_OK;
    ls_predictor_destroy(&g->predictor);
    ls_predict_config_init(&c);
    c.device = g->config.device;
    c.precision = g->config.precision;
    c.isa = g->config.isa;
    c.batch = SIDE * SIDE;
    return ls_predictor_create(g->gan[g->stage].drawing, &c, &g->predictor);
}

static ls_status draw(game *g, int epoch) {
    const void *inputs[] = {g->noise};
    float *outputs[] = {g->drawn};
    char path[PATH];
    uint8_t *pixels;
    int64_t n = SIDE * SIDE * ls_shape_count(g->shape);
    if (!g->predictor) return LS_OK;
    snprintf(path, sizeof path, "%s/epoch-%04d.png", g->set.samples, epoch);
    LS_TRY(cli_take_weights(g->gan[g->stage].drawing, g->trainer[GENERATOR], g->predictor));
    LS_TRY(ls_predictor_run(g->predictor, SIDE * SIDE, inputs, outputs));
    LS_TRY(ls_calloc(n, 1, &pixels));
    for (int64_t i = 0; i < n; i++) pixels[i] = (uint8_t)(255 * g->drawn[i] + 0.5F);
    ls_status status = cli_sheet_write(path, pixels, g->shape, SIDE, SIDE);
    free(pixels);
    return status;
}

// --- training --------------------------------------------------------------------------------------------------------

// Before the workers do anything together that depends on it.
static ls_status check_options(const game *g) {
    char line[4096];
    size_t used = 0, format = strcspn(g->set.data, ":");
    ls_text_add(line, sizeof line, &used, "data=%.*s; samples=%s; save=%s; grow=%d; ", (int)(format < 80 ? format : 80),
                g->set.data, g->set.samples ? "yes" : "no", g->set.save ? "yes" : "no", g->set.grow);
    ls_options_line((ls_option_set[]){{ls_train_options(), (void *)&g->config}, {NULL, NULL}}, line + used,
                    sizeof line - used);
    return ls_context_check_equal(g->cli->context, "the options", line);
}

static ls_status check_files(const game *g) {
    if (!speaks(g)) return LS_OK;
    if (g->set.samples) LS_TRY(cli_samples_check(g->set.samples));
    return g->set.save ? ls_weights_file_check(g->set.save) : LS_OK;
}

// Where the epochs of a stage begin.
static int first_epoch(const game *g, int stage) { return (int)((int64_t)g->config.epochs * stage / g->set.grow); }

// The trainers of a stage, made before those of the last go, with which the weights would.
static ls_status begin_stage(game *g, int stage) {
    ls_trainer *before[NETWORKS];
    ls_train_config config = g->config;
    ls_status status = LS_OK;
    config.epochs = first_epoch(g, stage + 1) - first_epoch(g, stage);
    const ls_graph *graphs[NETWORKS] = {g->gan[stage].discriminator, g->gan[stage].generator};
    memcpy(before, g->trainer, sizeof before);
    memset(g->trainer, 0, sizeof g->trainer);
    g->stage = stage;
    for (int i = 0; i < NETWORKS && status == LS_OK; i++)
        status = ls_trainer_create(g->cli->context, graphs[i], g->dataset, &config, &g->trainer[i]);
    LS_TRY(status);  // a failure may be this worker's alone: nobody takes leave of the others then (run)
    for (int i = NETWORKS - 1; i >= 0; i--) ls_trainer_destroy(&before[i]);
    return ls_context_agree(g->cli->context, begin_drawing(g));
}

// Of a host: what a stage's networks take each for itself, and what all of them have in common, of which the largest counts.
typedef struct stage_memory {
    int64_t own[MOST_STAGES];
    int64_t common[LS_MEMORY_PARTS];
} stage_memory;

// The dataset; the program of each worker; the one vector of weights that all trainers of the store have, and what it is worked with as.
static int is_common(ls_memory_part part) {
    return part == LS_MEMORY_DATASET || part == LS_MEMORY_PROGRAM || part == LS_MEMORY_WEIGHTS ||
           part == LS_MEMORY_COPIES;
}

static ls_status plan_stage(const game *g, int stage, stage_memory *all) {
    ls_context_info info = ls_context_describe(g->cli->context);
    ls_memory_job job = {.workers = info.size, .hosts = info.hosts, .dataset = g->dataset};
    const ls_graph *graphs[NETWORKS] = {g->gan[stage].discriminator, g->gan[stage].generator};
    ls_train_config config = g->config;
    if (!config.loader_threads) config.loader_threads = 1;  // trainers make do with so many
    for (int i = 0; i < NETWORKS; i++) {
        ls_memory m;
        LS_TRY(ls_memory_plan(g->cli->context, graphs[i], &job, &config, &m));
        for (int part = 0; part < LS_MEMORY_PARTS; part++) {
            int64_t bytes = m.part[part].host, *most = &all->common[part];
            if (!is_common(part))
                all->own[stage] += bytes;
            else if (bytes > *most)
                *most = bytes;
        }
    }
    return LS_OK;
}

// Trainers check their memory when they are made, each by itself, and those of later stages long after the first step. At the change of a stage those of
// both are there. The limit is the trainers' own. One worker of each host asks.
static ls_status check_stages(const game *g) {
    stage_memory all = {.own = {0}};
    int64_t common = 0;
    double limit = ls_limits_memory();
    char needs[32], has[32];
    for (int stage = 0; stage < g->set.grow; stage++) LS_TRY(plan_stage(g, stage, &all));
    for (int part = 0; part < LS_MEMORY_PARTS; part++) common += all.common[part];
    for (int stage = 0; stage < g->set.grow && limit > 0; stage++) {
        int64_t need = common + all.own[stage] + (stage ? all.own[stage - 1] : 0);
        if ((double)need > 1.02 * limit)
            return LS_FAIL(
                LS_STATUS_OUT_OF_MEMORY,
                "the workers of a host would take %s when stage %d of %d begins, and there is only %s: use a "
                "smaller --micro-batch or --batch-size, --remat, fewer replicas or workers, or smaller images "
                "(--image-size)",
                ls_bytes_text(need, needs), stage + 1, g->set.grow, ls_bytes_text((int64_t)limit, has));
    }
    return LS_OK;
}

static ls_status build(game *g) {
    LS_TRY(ls_dataset_open(g->cli->context, g->set.data, &g->dataset));
    ls_shape stored = ls_dataset_image_shape(g->dataset);
    if (stored.ndim == 3 && stored.dim[0] == 0 && !g->config.image_size)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the images of %s have different sizes: --image-size N says to which they are resized",
                       g->set.data);
    if (g->config.epochs < g->set.grow)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "--grow %d trains in %d stages of an epoch at least: give --epochs %d or more", g->set.grow,
                       g->set.grow, g->set.grow);
    g->shape = ls_train_image_shape(&g->config, stored);
    LS_TRY(g->set.grow == 1 ? ls_gan_build(g->shape, g->gan) : ls_gan_build_growing(g->shape, g->set.grow, g->gan));
    LS_TRY(ls_context_agree(g->cli->context, begin_samples(g)));
    if (g->set.grow > 1)
        LS_TRY(ls_context_agree(g->cli->context,
                                ls_context_describe(g->cli->context).local_rank == 0 ? check_stages(g) : LS_OK));
    return begin_stage(g, 0);
}

static int64_t samples(const game *g) {
    int64_t all = ls_dataset_train_count(g->dataset), limit = g->config.limit_train;
    return limit > 0 && limit < all ? limit : all;
}

static void print_head(const game *g) {
    char a[32], b[32], c[32];
    ls_train_result r;
    if (ls_trainer_result(g->trainer[DISCRIMINATOR], &r) != LS_OK) return;
    cli_say("generator: %s parameters; discriminator: %s; %s: %s samples",
            cli_count(ls_graph_trainable_parameter_count(g->gan[g->set.grow - 1].generator), a),
            cli_count(ls_graph_trainable_parameter_count(g->gan[g->set.grow - 1].discriminator), b), g->set.data,
            cli_count(samples(g), c));
    cli_say("%d worker%s x %d replica%s x %d thread%s; global batch %lld in micro-batches of %lld; %s, %s", r.workers,
            r.workers == 1 ? "" : "s", r.replicas_per_worker, r.replicas_per_worker == 1 ? "" : "s",
            r.threads_per_replica, r.threads_per_replica == 1 ? "" : "s", (long long)r.global_batch,
            (long long)r.micro_batch, g->config.precision, g->config.optimizer);
    fflush(stdout);
}

static void print_stage(const game *g) {
    int64_t part = (int64_t)1 << (g->set.grow - 1 - g->stage);
    printf("Stage %d/%d: images of %lld x %lld\n", g->stage + 1, g->set.grow, (long long)(g->shape.dim[0] / part),
           (long long)(g->shape.dim[1] / part));
}

// A step of the discriminator, then one of the generator on the same noise.
static ls_status run_epoch(game *g, ls_epoch_result result[NETWORKS]) {
    for (int i = 0; i < NETWORKS; i++) LS_TRY(ls_trainer_begin_epoch(g->trainer[i]));
    while (ls_trainer_steps_left(g->trainer[0]) > 0)
        for (int i = 0; i < NETWORKS; i++) LS_TRY(ls_trainer_step(g->trainer[i], NULL));
    for (int i = 0; i < NETWORKS; i++) LS_TRY(ls_trainer_end_epoch(g->trainer[i], &result[i]));
    return LS_OK;
}

static ls_status play(game *g) {
    int loud = speaks(g) && g->set.verbose;
    if (loud) print_head(g);
    for (int epoch = 1; epoch <= g->config.epochs; epoch++) {
        ls_epoch_result r[NETWORKS];
        if (epoch > first_epoch(g, g->stage + 1)) LS_TRY(begin_stage(g, g->stage + 1));
        if (loud && g->set.grow > 1 && epoch == first_epoch(g, g->stage) + 1) print_stage(g);
        LS_TRY(run_epoch(g, r));
        if (loud)
            printf("Epoch %d/%d - %.0fs - discriminator loss: %.4f - accuracy: %.4f - generator loss: %.4f\n", epoch,
                   g->config.epochs, r[0].seconds > r[1].seconds ? r[0].seconds : r[1].seconds, r[DISCRIMINATOR].loss,
                   r[DISCRIMINATOR].accuracy, r[GENERATOR].loss);
        fflush(stdout);
        LS_TRY(ls_context_agree(g->cli->context, draw(g, epoch)));
    }
    return LS_OK;
}

static ls_status work(game *g) {
    cli *c = g->cli;
    ls_train_result result;
    LS_TRY(cli_cluster_find(c, g->set.workers));
    LS_TRY(cli_job_launch(c, g->set.workers));
    c->stage = CLI_STAGE_TOGETHER;
    LS_TRY(cli_job_join(c, "gan", g->set.workers));
    LS_TRY(check_options(g));
    LS_TRY(ls_context_agree(c->context, check_files(g)));
    LS_TRY(build(g));
    c->stage = CLI_STAGE_ALONE;
    ls_status status = play(g);
    if (status == LS_OK || status == LS_STATUS_DIVERGED) c->stage = CLI_STAGE_TOGETHER;
    LS_TRY(status);
    if (g->set.save) LS_TRY(ls_trainer_save_weights(g->trainer[DISCRIMINATOR], g->set.save));
    LS_TRY(ls_trainer_result(g->trainer[DISCRIMINATOR], &result));
    if (speaks(g) && g->set.verbose)
        printf("\n%-16s%s\n%-28s%s\n", "Weights digest", result.weights_digest, "  on", result.device_description);
    return LS_OK;
}

static ls_status run(cli *c, int argc, char **argv) {
    game g = {.cli = c};
    ls_words words;
    defaults(&g);
    ls_status status = ls_options_parse(g.options, argc, argv, 0, &words);
    g.config.evaluate = 0;
    if (status == LS_OK && words.help)
        help(&g);
    else if (status == LS_OK)
        status = work(&g);
    ls_predictor_destroy(&g.predictor);  // it borrows the graph
    // After a failure that may be this worker's alone, taking leave of the others would wait for them.
    if (status == LS_OK || c->stage != CLI_STAGE_ALONE) {
        for (int i = NETWORKS - 1; i >= 0; i--) ls_trainer_destroy(&g.trainer[i]);
        for (int i = 0; i < g.set.grow; i++) ls_gan_destroy(&g.gan[i]);
        ls_dataset_destroy(&g.dataset);
    }
    free(g.noise);
    free(g.drawn);
    return status;
}

const cli_command cli_command_gan = {"gan", "train a generator of images against a discriminator, in turn", run};
