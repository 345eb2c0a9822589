// What convolutions cost: bench_conv [MICRO_BATCH] [fp32] [library] [threads=T] [NAME].
//
// Convolutions of ResNet50V2 at 128x128, convolutions and dense layers of mnist-cnn, all passes, with one thread: the least of several runs, what that
// is in GFLOP/s, and with `library` the library's fastest for the same shapes, of all its algorithms and layouts. With `threads` also the
// time that a team of T takes, in turn with the other, and what share of T times as fast that is (`by one`: its threads do not share it). Every run uses memory that has left the caches.
// NAME: only those whose name has it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "device/device.h"
#include "must.h"

enum { POOL_BYTES = 512 << 20, RUNS = 12 };

typedef struct layer {
    const char *name;
    int64_t size, channels;  // size 0: a dense layer
    int filters, kernel, stride, pad;
} layer;

static const layer layers[] = {
    {"mnist conv2d", 28, 1, 32, 3, 1, 0},     {"mnist dense", 0, 256, 1000, 1, 1, 0},
    {"mnist dense_1", 0, 1000, 100, 1, 1, 0}, {"mnist dense_2", 0, 100, 10, 1, 1, 0},
    {"mnist conv2d_1", 13, 32, 128, 3, 1, 0}, {"mnist conv2d_2", 5, 128, 256, 3, 1, 0},
    {"conv2 1x1", 32, 256, 64, 1, 1, 0},      {"conv2 3x3", 32, 64, 64, 3, 1, 1},
    {"conv2 1x1 out", 32, 64, 256, 1, 1, 0},  {"conv2 3x3 /2", 32, 64, 64, 3, 2, 1},
    {"conv3 1x1", 16, 512, 128, 1, 1, 0},     {"conv3 3x3", 16, 128, 128, 3, 1, 1},
    {"conv3 1x1 out", 16, 128, 512, 1, 1, 0}, {"conv4 1x1", 8, 1024, 256, 1, 1, 0},
    {"conv4 3x3", 8, 256, 256, 3, 1, 1},      {"conv4 1x1 out", 8, 256, 1024, 1, 1, 0},
    {"conv5 1x1", 4, 2048, 512, 1, 1, 0},     {"conv5 3x3", 4, 512, 512, 3, 1, 1},
    {"conv5 1x1 out", 4, 512, 2048, 1, 1, 0},
};

typedef struct bench {
    ls_device *device;
    ls_queue *queue;
    ls_buffer *memory;
    int64_t cursor;
} bench;

static ls_span cut(bench *b, int64_t bytes) {
    bytes = ls_round_up(bytes, 4096) + 64 * 17;
    if (b->cursor + bytes > POOL_BYTES) b->cursor = 0;
    ls_span at = ls_span_of(b->memory, b->cursor);
    b->cursor += bytes;
    return at;
}

static ls_kernel_spec spec_of(const layer *l, int64_t batch, ls_dtype dtype, ls_pass pass) {
    int64_t out = (l->size + 2 * l->pad - l->kernel) / l->stride + 1;
    ls_kernel_spec s = {.op = LS_OP_CONV2D, .pass = pass, .x_count = 1, .w_count = 1, .y_count = 1};
    s.x[0] = (ls_tensor_type){LS_SHAPE(batch, l->size, l->size, l->channels), dtype, dtype};
    s.y[0] = (ls_tensor_type){LS_SHAPE(batch, out, out, l->filters), dtype, dtype};
    s.w[0] = (ls_tensor_type){LS_SHAPE(l->kernel, l->kernel, l->channels, l->filters), dtype, LS_DTYPE_F32};
    if (!l->size) {
        s.op = LS_OP_DENSE;
        s.x[0].shape = LS_SHAPE(batch, l->channels);
        s.y[0].shape = LS_SHAPE(batch, l->filters);
        s.w[0].shape = LS_SHAPE(l->channels, l->filters);
        return s;
    }
    *(ls_conv2d_attrs *)(void *)s.attrs.bytes = (ls_conv2d_attrs){.filters = l->filters,
                                                                  .kernel = {l->kernel, l->kernel},
                                                                  .strides = {l->stride, l->stride},
                                                                  .no_bias = 1,
                                                                  .groups = 1,
                                                                  .dilation = {1, 1},
                                                                  .pad = {l->pad, l->pad, l->pad, l->pad}};
    return s;
}

static double run_once(bench *b, ls_kernel *k) {
    ls_span args[LS_ARG_COUNT] = {{0}};
    for (int i = 0; i < LS_ARG_COUNT; i++) {
        int64_t bytes = i == LS_ARG_SCRATCH ? k->scratch_bytes : k->layout[i] ? k->layout[i]->bytes : 0;
        if (bytes) args[i] = cut(b, bytes);
    }
    double start = ls_clock();
    MUST(ls_kernel_run(k, b->queue, args));
    return ls_clock() - start;
}

// The least times of a kernel, and of another that takes turns with it unless NULL.
static double seconds_of(bench *b, ls_kernel *k, ls_kernel *other, double *others) {
    double least = 1e30;
    for (int run = 0; run < (other ? 4 * RUNS : RUNS); run++) {
        double took = run_once(b, k);
        if (took < least) least = took;
        if (!other) continue;
        took = run_once(b, other);
        if (run == 0 || took < *others) *others = took;
    }
    return least;
}

int main(int argc, char **argv) {
    static const struct {
        ls_pass pass;
        const char *name;
    } passes[] = {{LS_PASS_TRAINING, "forward"},
                  {LS_PASS_BACKWARD_DATA, "backward data"},
                  {LS_PASS_BACKWARD_WEIGHTS, "backward weights"}};
    int64_t batch = 32;
    ls_dtype dtype = LS_DTYPE_BF16;
    int library = 0, threads = 0;
    const char *only = "";
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "fp32") == 0)
            dtype = LS_DTYPE_F32;
        else if (strcmp(argv[i], "library") == 0)
            library = 1;
        else if (strncmp(argv[i], "threads=", 8) == 0)
            threads = atoi(argv[i] + 8);
        else if (atoll(argv[i]) > 0)
            batch = atoll(argv[i]);
        else
            only = argv[i];
    }
    bench b = {0};
    ls_device *team = NULL;
    double all = 0, others = 0, shared = 0;
    MUST(ls_device_create("cpu", &(ls_device_options){.threads = 1}, &b.device));
    if (threads > 0) MUST(ls_device_create("cpu", &(ls_device_options){.threads = threads}, &team));
    (team ? team : b.device)->ops->thread_begin(team ? team : b.device, NULL, NULL);
    MUST(ls_queue_create(b.device, &b.queue));
    MUST(ls_buffer_create(b.device, POOL_BYTES, &b.memory));
    printf("%-16s %-17s %-32s %8s %8s%s\n", "Layer", "Pass", "Implementation", "ms", "GFLOP/s",
           library ? "  library ms" : "");
    if (threads) printf("with %d threads: ms, share of so many times as fast, at the end of each line\n", threads);
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++)
        for (size_t p = 0; p < 3 && strstr(layers[i].name, only); p++) {
            ls_kernel_spec s = spec_of(&layers[i], batch, dtype, passes[p].pass);
            double work = 2e-9 * (double)(ls_shape_count(s.y[0].shape) * layers[i].channels) * layers[i].kernel *
                          layers[i].kernel;
            ls_kernel *k, *best = NULL, *parts = NULL;
            MUST(ls_kernel_create(b.device, &s, &k));
            if (team) MUST(ls_kernel_create(team, &s, &parts));
            double other = 0, together = 0, took = seconds_of(&b, k, parts, &together);
            if (library) MUST(b.device->ops->fastest(b.device, &s, &best));
            if (best) other = seconds_of(&b, best, NULL, NULL);
            printf("%-16s %-17s %-32s %8.3f %8.0f", layers[i].name, passes[p].name, k->name, took * 1e3, work / took);
            if (best) printf("    %8.3f  %s", other * 1e3, best->name);
            if (parts) printf("    %8.3f  %3.0f %%", together * 1e3, 100 * took / together / threads);
            if (parts && parts->ops == k->ops) printf("  (by one)");
            printf("\n");
            all += took, others += other, shared += together;
            ls_kernel_destroy(&k);
            ls_kernel_destroy(&parts);
            ls_kernel_destroy(&best);
        }
    printf("%-16s %-17s %-32s %8.3f", "all", "", "", all * 1e3);
    if (library) printf("             %8.3f", others * 1e3);
    if (team) printf("             %8.3f  %3.0f %%", shared * 1e3, 100 * all / shared / threads);
    printf("\n");
    ls_buffer_destroy(&b.memory);
    ls_queue_destroy(&b.queue);
    ls_device_destroy(&team);
    ls_device_destroy(&b.device);
    return 0;
}
