// lockstep gan: two networks against each other, trained in turn: a generator that draws images of noise, and a discriminator that tells them from those of
// a dataset.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/samples.h"

enum { SIDE = 8, PATH = 4096 };  // a sheet has SIDE x SIDE images

typedef struct settings {
    const char *data, *samples, *save;
    int workers, verbose;
} settings;

static const ls_option table[] = {
    {"data", LS_OPTION_TEXT, .offset = offsetof(settings, data), .metavar = "SPEC", .group = "Training",
     .help = "the dataset whose images are to be drawn: digits, mnist:DIR, ...; 'lockstep datasets' lists them"},
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
    ls_gan gan;
    ls_shape shape;  // of its images
    ls_trainer *trainer[NETWORKS];
    ls_predictor *predictor;  // of the worker that speaks
    float *noise, *drawn;     // (SIDE * SIDE, noise), (SIDE * SIDE, H, W, C)
} game;

static int speaks(const game *g) { return ls_context_rank(g->cli->context) == 0; }

static void defaults(game *g) {
    g->set = (settings){.data = "digits", .verbose = 1};
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
    ls_predict_config c;
    int64_t images = SIDE * SIDE;
    if (!g->set.samples || !speaks(g)) return LS_OK;
    LS_TRY(ls_calloc(images * g->gan.noise, sizeof *g->noise, &g->noise));
    LS_TRY(ls_calloc(images * ls_shape_count(g->shape), sizeof *g->drawn, &g->drawn));
    for (int64_t i = 0; i < images; i++) ls_train_draw_noise(&g->config, i, g->gan.noise, g->noise + i * g->gan.noise);
    ls_predict_config_init(&c);
    c.device = g->config.device;
    c.precision = g->config.precision;
    c.isa = g->config.isa;
    c.batch = images;
    return ls_predictor_create(g->gan.drawing, &c, &g->predictor);
}

static ls_status draw(game *g, int epoch) {
    const void *inputs[] = {g->noise};
    float *outputs[] = {g->drawn};
    char path[PATH];
    uint8_t *pixels;
    int64_t n = SIDE * SIDE * ls_shape_count(g->shape);
    if (!g->predictor) return LS_OK;
    snprintf(path, sizeof path, "%s/epoch-%04d.png", g->set.samples, epoch);
    LS_TRY(cli_take_weights(g->gan.drawing, g->trainer[GENERATOR], g->predictor));
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
    ls_text_add(line, sizeof line, &used, "data=%.*s; samples=%s; save=%s; ", (int)(format < 80 ? format : 80),
                g->set.data, g->set.samples ? "yes" : "no", g->set.save ? "yes" : "no");
    ls_options_line((ls_option_set[]){{ls_train_options(), (void *)&g->config}, {NULL, NULL}}, line + used,
                    sizeof line - used);
    return ls_context_check_equal(g->cli->context, "the options", line);
}

static ls_status check_files(const game *g) {
    if (!speaks(g)) return LS_OK;
    if (g->set.samples) LS_TRY(cli_samples_check(g->set.samples));
    return g->set.save ? ls_weights_file_check(g->set.save) : LS_OK;
}

static ls_status build(game *g) {
    LS_TRY(ls_dataset_open(g->cli->context, g->set.data, &g->dataset));
    ls_shape stored = ls_dataset_image_shape(g->dataset);
    if (stored.ndim == 3 && stored.dim[0] == 0 && !g->config.image_size)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the images of %s have different sizes: --image-size N says to which they are resized",
                       g->set.data);
    g->shape = ls_train_image_shape(&g->config, stored);
    LS_TRY(ls_gan_build(g->shape, &g->gan));
    const ls_graph *graphs[NETWORKS] = {g->gan.discriminator, g->gan.generator};
    for (int i = 0; i < NETWORKS; i++)
        LS_TRY(ls_trainer_create(g->cli->context, graphs[i], g->dataset, &g->config, &g->trainer[i]));
    return ls_context_agree(g->cli->context, begin_samples(g));
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
            cli_count(ls_graph_trainable_parameter_count(g->gan.generator), a),
            cli_count(ls_graph_trainable_parameter_count(g->gan.discriminator), b), g->set.data,
            cli_count(samples(g), c));
    cli_say("%d worker%s x %d replica%s x %d thread%s; global batch %lld in micro-batches of %lld; %s, %s", r.workers,
            r.workers == 1 ? "" : "s", r.replicas_per_worker, r.replicas_per_worker == 1 ? "" : "s",
            r.threads_per_replica, r.threads_per_replica == 1 ? "" : "s", (long long)r.global_batch,
            (long long)r.micro_batch, g->config.precision, g->config.optimizer);
    fflush(stdout);
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
        ls_gan_destroy(&g.gan);
        ls_dataset_destroy(&g.dataset);
    }
    free(g.noise);
    free(g.drawn);
    return status;
}

const cli_command cli_command_gan = {"gan", "train a generator of images against a discriminator, in turn", run};
