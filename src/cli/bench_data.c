// lockstep bench data: what a loader gives by itself, in images per second and core.
#include <jansson.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/median.h"
#include "cli/bench.h"

enum { MOST_ROUNDS = 1000, WARM_UP = 2 };

typedef struct settings {
    ls_train_config config;
    int64_t batch;
    double seconds;
    int json;
} settings;

#define AT(field) .offset = offsetof(settings, config.field)

static const ls_option table[] = {
    {"image-size", LS_OPTION_INT, AT(image_size), .metavar = "N", .min = 1, .max = 4096, .group = "Images",
     .help = "resize images to N x N pixels, as train does"},
    {"resize", LS_OPTION_INT, AT(resize), .metavar = "N", .max = 4096, .group = "Images", .help = "as train has it"},
    {"interpolation", LS_OPTION_TEXT, AT(interpolation), .metavar = "NAME", .group = "Images",
     .help = "as train has it"},
    {"augment", LS_OPTION_TEXT, AT(augment), .metavar = "LIST", .group = "Images", .help = "as train has it"},
    {"normalize", LS_OPTION_TEXT, AT(normalize), .metavar = "NAME", .group = "Images", .help = "as train has it"},
    {"mean", LS_OPTION_TEXT, AT(mean), .metavar = "A,B,C", .group = "Images", .help = "as train has it"},
    {"std", LS_OPTION_TEXT, AT(std), .metavar = "A,B,C", .group = "Images", .help = "as train has it"},
    {"scale", LS_OPTION_REAL, AT(scale), .metavar = "X", .max = 1e6, .group = "Images", .help = "as train has it"},
    {"channel-order", LS_OPTION_TEXT, AT(channel_order), .metavar = "rgb|bgr", .group = "Images",
     .help = "as train has it"},
    {"precision", LS_OPTION_TEXT, AT(precision), .metavar = "fp32|bf16|fp16", .group = "Images",
     .help = "type of what comes out"},
    {"seed", LS_OPTION_SEED, AT(seed), .metavar = "N", .group = "Images",
     .help = "what order and augmentation are drawn from"},
    {"loader-threads", LS_OPTION_INT, AT(loader_threads), .metavar = "N", .min = 1, .max = 64, .group = "Bench",
     .help = "threads that read, decode and prepare, all there are"},
    {"batch-size", LS_OPTION_COUNT, .offset = offsetof(settings, batch), .metavar = "B", .min = 1, .max = 65536,
     .group = "Bench", .help = "images of a batch"},
    {"seconds", LS_OPTION_REAL, .offset = offsetof(settings, seconds), .metavar = "S", .min = 0.1, .max = 86400,
     .group = "Bench", .help = "how long to measure"},
    {"json", LS_OPTION_FLAG, .offset = offsetof(settings, json), .group = "Bench", .help = "print JSON"},
    {.name = NULL},
};

typedef struct measured {
    double rate, per_core,
        cpu_rate;  // images per second: medians of rounds; of a thread; of a second of processor time
    int64_t images;
    int rounds;
} measured;

// Rounds of about a tenth of the time, as long as it lasts; the first warm up caches and buffers, and say how much a round is.
static ls_status measure(ls_data_bench *bench, const settings *set, measured *out) {
    static double rate[MOST_ROUNDS], cpu[MOST_ROUNDS];
    int64_t samples = set->batch * set->config.loader_threads;
    ls_data_round r = {0};
    for (int i = 0; i < WARM_UP; i++) {
        LS_TRY(ls_data_bench_round(bench, samples, &r));
        double wanted = r.seconds > 0 ? (double)r.samples * set->seconds / 10 / r.seconds : (double)samples;
        samples = wanted < 1e12 ? (int64_t)wanted / set->batch * set->batch : samples;
        if (samples < set->batch) samples = set->batch;
    }
    *out = (measured){.rounds = 0};
    for (double start = ls_clock(); out->rounds < 3 || ls_clock() - start < set->seconds; out->rounds++) {
        if (out->rounds == MOST_ROUNDS) break;
        LS_TRY(ls_data_bench_round(bench, samples, &r));
        rate[out->rounds] = (double)r.samples / r.seconds;
        cpu[out->rounds] = (double)r.samples / r.cpu_seconds;
        out->images += r.samples;
    }
    out->rate = ls_median(rate, out->rounds);
    out->cpu_rate = ls_median(cpu, out->rounds);
    out->per_core = out->rate / set->config.loader_threads;
    return LS_OK;
}

static void print_text(const char *spec, const settings *set, const measured *m) {
    int threads = set->config.loader_threads;
    char a[32];
    cli_say("%s: %s images in %d rounds, %d thread%s, batches of %lld in %s, augment %s", spec, cli_count(m->images, a),
            m->rounds, threads, threads == 1 ? "" : "s", (long long)set->batch, set->config.precision,
            set->config.augment);
    printf("\n%-28s%.0f\n", "Images per second", m->rate);
    printf("%-28s%.0f\n", "  of a thread", m->per_core);
    printf("%-28s%.0f (a thread that is never interrupted)\n", "  of a processor second", m->cpu_rate);
}

static ls_status print_json(const char *spec, const settings *set, const measured *m) {
    json_t *data = json_string(spec);
    json_t *root =
        json_pack("{s:o,s:i,s:s,s:s,s:i,s:I,s:I,s:i,s:f,s:f,s:f}", "data", data ? data : json_null(), "image_size",
                  set->config.image_size, "augment", set->config.augment, "precision", set->config.precision, "threads",
                  set->config.loader_threads, "batch_size", (json_int_t)set->batch, "images", (json_int_t)m->images,
                  "rounds", m->rounds, "images_per_second", m->rate, "images_per_second_per_thread", m->per_core,
                  "images_per_cpu_second", m->cpu_rate);
    if (!root) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(root);
    return LS_OK;
}

static ls_status run_all(cli *c, const char *spec, settings *set) {
    ls_dataset *dataset;
    ls_data_bench *bench = NULL;
    measured m;
    c->stage = CLI_STAGE_TOGETHER;
    LS_TRY(ls_context_create_alone(&c->context));
    LS_TRY(ls_dataset_open(c->context, spec, &dataset));
    ls_shape stored = ls_dataset_image_shape(dataset);
    if (!set->config.image_size && stored.ndim == 3 && stored.dim[0] == 0) set->config.image_size = 224;
    ls_status status = ls_data_bench_create(dataset, &set->config, set->batch, &bench);
    if (status == LS_OK) status = measure(bench, set, &m);
    ls_data_bench_destroy(&bench);
    ls_dataset_destroy(&dataset);
    LS_TRY(status);
    if (set->json) return print_json(spec, set, &m);
    print_text(spec, set, &m);
    return LS_OK;
}

ls_status cli_bench_data(cli *c, int argc, char **argv) {
    settings set = {.batch = 32, .seconds = 10};
    const ls_option_set options[] = {{table, &set}, {NULL, NULL}};
    ls_words words;
    ls_train_config_init(&set.config);
    set.config.loader_threads = 1;
    LS_TRY(ls_options_parse(options, argc, argv, 2, &words));
    if (words.help) {
        int width = cli_help_width();
        printf("Usage: lockstep bench data SPEC [OPTIONS]\n\n");
        ls_print_entry(
            stdout, "", 0, width,
            "Reads, decodes and prepares training images as training does, without a network, and tells how "
            "many a second. Images of different sizes become 224 x 224 where nothing else is said. Files are "
            "read once before they are measured, where there is time; what the disk gives 'lockstep data' tells.");
        ls_options_help(stdout, options, width);
        return LS_OK;
    }
    if (words.count < 2)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "which dataset? Usage: lockstep bench data SPEC; 'lockstep datasets' lists what there is");
    return run_all(c, words.word[1], &set);
}
