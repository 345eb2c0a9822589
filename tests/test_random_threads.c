// Threads do not show: random networks train on 1, 2, 3, 5 and 7 threads to the same weights and losses, for each instruction set that the
// processor has.
//
//     test_random_threads [NETWORKS [SEED [ISA]]]
//
// so many for each instruction set, or for one ("default": none is pinned). What differs is printed as a network and a line of options.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/lockstep.h>

#include "base/text.h"
#include "device/device.h"

enum { COUNTS = 5, WORK = 8000000 };  // products of a layer at most, of all its samples
static const int thread_counts[COUNTS] = {1, 2, 3, 5, 7};

// --- drawing ---------------------------------------------------------------------------------------------------------

typedef struct drawing {
    uint64_t state;
    char text[4096], data[64];
    size_t used;
    int64_t height, width, channels;  // where the next layer begins
    int micro, batch, train, classes, bf16, adam;
    double clip;
} drawing;

// From 0 to n - 1.
static int below(drawing *d, int n) {
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (int)((d->state >> 33) % (unsigned)n);
}

static int one_of(drawing *d, const int *values, int count) { return values[below(d, count)]; }
#define ONE_OF(d, ...) one_of(d, (const int[]){__VA_ARGS__}, (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))

#define LINE(d, ...) ls_text_add((d)->text, sizeof(d)->text, &(d)->used, __VA_ARGS__)

static int wide(drawing *d) {
    return ONE_OF(d, 1, 2, 3, 5, 7, 8, 12, 16, 16, 17, 24, 32, 32, 33, 48, 64, 64, 80, 96, 128, 128, 160, 256);
}

static int fits(const drawing *d, int64_t products) { return products * d->height * d->width * d->micro <= WORK; }

static void convolution(drawing *d) {
    int tall = ONE_OF(d, 1, 3, 3, 3, 5, 7), broad = below(d, 5) ? tall : ONE_OF(d, 1, 2, 3, 5), filters = wide(d);
    int stride = below(d, 4) ? 1 : 2, same = below(d, 3) || tall > d->height || broad > d->width;
    int groups = below(d, 8) ? 1 : ONE_OF(d, 2, 4, 8);
    if (d->channels % groups || filters % groups) groups = 1;
    if (!fits(d, tall * broad * d->channels / groups * filters)) return;
    LINE(d, "conv2d filters=%d kernel_size=%dx%d strides=%d padding=%s groups=%d%s%s\n", filters, tall, broad, stride,
         same ? "same" : "valid", groups, below(d, 2) ? " activation=relu" : "", below(d, 3) ? "" : " no_bias");
    d->height = ((same ? d->height : d->height - tall + 1) + stride - 1) / stride;
    d->width = ((same ? d->width : d->width - broad + 1) + stride - 1) / stride;
    d->channels = filters;
}

static void image_layer(drawing *d, int number) {
    switch (below(d, 13)) {
    case 0: LINE(d, "depthwise_conv2d kernel_size=3 padding=same\n"); break;
    case 1:
        if (!fits(d, d->channels * 32)) break;
        LINE(d, "separable_conv2d filters=32 kernel_size=3 padding=same\n");
        d->channels = 32;
        break;
    case 2:
        if (!fits(d, 9 * d->channels * 16 * 4)) break;
        LINE(d, "conv2d_transpose filters=16 kernel_size=3 strides=2 padding=same\n");
        d->height *= 2, d->width *= 2, d->channels = 16;
        break;
    case 3: LINE(d, "batch_norm\n%s", below(d, 2) ? "relu\n" : ""); break;
    case 4:
        if (d->height < 2 || d->width < 2) break;
        LINE(d, "%s_pool2d\n", below(d, 2) ? "max" : "average");
        d->height /= 2, d->width /= 2;
        break;
    case 5:
        if (!fits(d, 9 * d->channels * d->channels)) break;
        LINE(d, "in%d = relu\nc%d = conv2d filters=channels kernel_size=3 padding=same\nadd from c%d, in%d\n", number,
             number, number, number);
        break;
    default: convolution(d);
    }
}

static void images(drawing *d) {
    int layers = 1 + below(d, 4);
    for (int i = 0; i < layers; i++) image_layer(d, i);
    LINE(d, below(d, 4) ? "flatten\n" : "global_average_pool2d\n");
}

static void volumes(drawing *d) {
    LINE(d, "reshape target_shape=%d,%d,%d,%d\n", (int)d->height, (int)d->width, (int)d->channels, 1);
    LINE(d, "conv3d filters=%d kernel_size=%d padding=same activation=relu\n", ONE_OF(d, 3, 8, 16, 32),
         ONE_OF(d, 1, 3));
    if (below(d, 2)) LINE(d, "conv3d filters=%d kernel_size=3 padding=same\n", ONE_OF(d, 5, 16));
    LINE(d, "flatten\n");
}

static void sequences(drawing *d) {
    int units = ONE_OF(d, 3, 8, 16, 24, 32, 64, 96);
    LINE(d, "reshape target_shape=%d,%d\n", (int)d->height, (int)(d->width * d->channels));
    for (int layers = 1 + below(d, 3); layers > 0; layers--) {
        int heads = ONE_OF(d, 1, 2, 4);
        switch (below(d, 4)) {
        case 0: LINE(d, "lstm units=%d return_sequences\n", units); break;
        case 1: LINE(d, "gru units=%d return_sequences\n", units); break;
        case 2: LINE(d, "dense units=%d\nattention num_heads=%d\n", 3 * 8 * heads, heads); break;
        default: LINE(d, "dense units=%d activation=relu\nlayer_norm\n", wide(d));
        }
    }
    LINE(d, below(d, 3) ? "global_average_pool1d\n" : "flatten\n");
}

static void draw(drawing *d, uint64_t seed, int can_bf16) {
    *d = (drawing){.state = seed * 0x9E3779B97F4A7C15u + 1};
    for (int i = 0; i < 4; i++) below(d, 1);
    int kind = below(d, 10), small = kind > 7;
    d->height = small ? 1 + below(d, 6) : 1 + below(d, below(d, 3) ? 14 : 34);
    d->width = small ? 1 + below(d, 6) : below(d, 2) ? d->height : 1 + below(d, 34);
    d->channels = small ? ONE_OF(d, 1, 2) : ONE_OF(d, 1, 1, 2, 3, 4, 16, 32, 64, 128);
    d->micro = 1 + below(d, 9);
    if (below(d, 12) == 0) d->micro = 16 + below(d, 48), d->height = 1 + d->height / 3;
    d->batch = d->micro * (1 + below(d, 2));
    d->train = d->batch + 1 + below(d, d->batch);
    d->classes = 2 + below(d, 9);
    d->bf16 = can_bf16 && below(d, 2);
    d->adam = below(d, 2);
    d->clip = below(d, 4) ? 0 : 5;
    snprintf(d->data, sizeof d->data, "synthetic:%dx%dx%d,%d,%d,%d", (int)d->height, (int)d->width, (int)d->channels,
             d->classes, d->train, 1 + below(d, 12));
    LINE(d, "input %dx%dx%d\n", (int)d->height, (int)d->width, (int)d->channels);
    if (kind == 9)
        volumes(d);
    else if (kind >= 6 && kind < 8)
        sequences(d);
    else if (kind >= 1)
        images(d);
    else
        LINE(d, "flatten\n");
    for (int layers = below(d, 3); layers > 0; layers--)
        LINE(d, "dense units=%d activation=%s\n", 1 + below(d, 150), below(d, 2) ? "relu" : "tanh");
    LINE(d, "dense units=%d\n", d->classes);
}

// --- training --------------------------------------------------------------------------------------------------------

typedef struct outcome {
    char digest[65];
    double train, test;
} outcome;

static ls_status train_once(ls_context *context, const ls_graph *graph, ls_dataset *data, const ls_train_config *config,
                            outcome *out) {
    ls_trainer *t;
    ls_train_result r;
    ls_status status = ls_trainer_create(context, graph, data, config, &t);
    if (status != LS_OK) return status;
    status = ls_trainer_fit(t, NULL);
    if (status == LS_OK) status = ls_trainer_evaluate(t, NULL, NULL);
    if (status == LS_OK) status = ls_trainer_result(t, &r);
    if (status == LS_OK) {
        *out = (outcome){.train = r.train_loss, .test = r.test_loss};
        snprintf(out->digest, sizeof out->digest, "%s", r.weights_digest);
    }
    ls_trainer_destroy(&t);
    return status;
}

static int same(const outcome *a, const outcome *b) {
    return strcmp(a->digest, b->digest) == 0 && memcmp(&a->train, &b->train, sizeof a->train) == 0 &&
           memcmp(&a->test, &b->test, sizeof a->test) == 0;
}

static ls_status train_all(ls_context *context, const drawing *d, const char *isa, int *differs) {
    ls_graph *graph;
    ls_dataset *data = NULL;
    ls_model_config model;
    ls_train_config config;
    outcome first, other;
    ls_model_config_init(&model);
    ls_train_config_init(&config);
    config.epochs = 1, config.replicas = 1, config.bind = 0, config.micro_batch = d->micro,
    config.batch_size = d->batch;
    config.isa = isa, config.precision = d->bf16 ? "bf16" : "fp32", config.optimizer = d->adam ? "adam" : "sgd";
    config.clip_norm = d->clip, config.not_finite = "continue";
    ls_status status = ls_network_read("drawn.net", d->text, &model, &graph);
    if (status != LS_OK) return status;
    status = ls_dataset_open(context, d->data, &data);
    *differs = 0;
    for (int i = 0; i < COUNTS && status == LS_OK && !*differs; i++) {
        config.threads = thread_counts[i];
        status = train_once(context, graph, data, &config, i ? &other : &first);
        if (status == LS_OK && i && !same(&first, &other)) *differs = thread_counts[i];
    }
    ls_dataset_destroy(&data);
    ls_graph_destroy(&graph);
    return status;
}

static void report(const drawing *d, const char *isa, uint64_t seed, int threads) {
    printf(
        "WRONG: network %llu has other bits with %d threads than with one:\n%s"
        "train drawn.net --data %s --epochs 1 --batch-size %d --micro-batch %d --precision %s --optimizer %s "
        "--clip-norm %g "
        "--replicas 1 --threads %d%s%s\n",
        (unsigned long long)seed, threads, d->text, d->data, d->batch, d->micro, d->bf16 ? "bf16" : "fp32",
        d->adam ? "adam" : "sgd", d->clip, threads, isa ? " --isa " : "", isa ? isa : "");
    fflush(stdout);
}

// Exit status: 77 where the processor has not got the instruction set.
static int run(int networks, uint64_t seed, const char *isa) {
    ls_context *context;
    ls_device *device;
    int wrong = 0, refused = 0;
    if (ls_context_create(&context) != LS_OK) return 1;
    if (ls_device_create("cpu", &(ls_device_options){.isa = isa}, &device) != LS_OK) return 77;
    int can_bf16 = device->ops->supports(device, LS_DTYPE_BF16) == LS_OK;
    for (int i = 0; i < networks; i++) {
        drawing d;
        int differs = 0;
        draw(&d, seed + (uint64_t)i, can_bf16);
        if (train_all(context, &d, isa, &differs) != LS_OK) {
            if (refused++ == 0) fprintf(stderr, "refused: %s\n%s", ls_error_message(), d.text);
        } else if (differs) {
            wrong++;
            report(&d, isa, seed + (uint64_t)i, differs);
        }
    }
    ls_device_destroy(&device);
    ls_context_destroy(&context);
    printf("%s: %d of %d networks differ, %d were refused\n", isa ? isa : "default", wrong, networks, refused);
    return wrong || refused * 10 > networks;
}

int main(int argc, char **argv) {
    static char *const sets[] = {"default", "avx2", "avx512", "avx512-bf16", "amx"};
    char *networks = argc > 1 ? argv[1] : "16", *seed = argc > 2 ? argv[2] : "14";
    int failed = 0;
    if (argc > 3) return run(atoi(networks), strtoull(seed, NULL, 10), strcmp(argv[3], "default") ? argv[3] : NULL);
    setenv("OMP_WAIT_POLICY", "passive", 1);  // more threads than cores; each instruction set has a process of its own
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            execl("/proc/self/exe", argv[0], networks, seed, sets[i], (char *)NULL);
            _exit(1);
        }
        if (child < 0 || waitpid(child, &status, 0) != child) return 1;
        failed |= !WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 77);
    }
    return failed;
}
