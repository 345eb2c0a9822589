// The mean over the steps of sequences that count: a block of channels at a time, summed in double.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/blocks_impl.h"
#include "device/cpu/cpu.h"

typedef struct global_average_pool1d_kernel {
    ls_kernel base;
    ls_dtype dtype;
    int64_t samples, length, width;
    int threads;
} global_average_pool1d_kernel;

// One over how many steps count, of a sample's mask; NULL: all do.
static double share_of(const global_average_pool1d_kernel *k, const int32_t *mask) {
    int64_t count = 0;
    for (int64_t t = 0; t < k->length; t++) count += !mask || mask[t] != 0;
    return count ? 1 / (double)count : 0;
}

LS_CLONES static void forward_sample(const global_average_pool1d_kernel *k, const void *x, const int32_t *mask, void *y,
                                     int64_t n) {
    float v[BLOCK];
    for (int64_t c = 0; c < k->width; c += BLOCK) {
        int64_t count = k->width - c < BLOCK ? k->width - c : BLOCK;
        double sums[BLOCK] = {0}, share = share_of(k, mask);
        for (int64_t t = 0; t < k->length; t++) {
            if (mask && !mask[t]) continue;
            load_block(k->dtype, x, (n * k->length + t) * k->width + c, count, v);
            for (int j = 0; j < BLOCK; j++) sums[j] += (double)v[j];
        }
        for (int j = 0; j < BLOCK; j++) v[j] = (float)(sums[j] * share);
        store_block(k->dtype, y, n * k->width + c, count, v);
    }
}

LS_CLONES static void backward_sample(const global_average_pool1d_kernel *k, const void *dy, const int32_t *mask,
                                      void *dx, int64_t n) {
    float v[BLOCK];
    const float none[BLOCK] = {0};
    for (int64_t c = 0; c < k->width; c += BLOCK) {
        int64_t count = k->width - c < BLOCK ? k->width - c : BLOCK;
        double share = share_of(k, mask);
        load_block(k->dtype, dy, n * k->width + c, count, v);
        for (int j = 0; j < BLOCK; j++) v[j] = (float)((double)v[j] * share);
        for (int64_t t = 0; t < k->length; t++)
            store_block(k->dtype, dx, (n * k->length + t) * k->width + c, count, mask && !mask[t] ? none : v);
    }
}

static const int32_t *mask_of(const global_average_pool1d_kernel *k, void *const args[LS_ARG_COUNT], int64_t n) {
    return k->base.layout[LS_ARG_X + 1] ? (const int32_t *)args[LS_ARG_X + 1] + n * k->length : NULL;
}

static ls_status run_forward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const global_average_pool1d_kernel *k = (const global_average_pool1d_kernel *)kernel;
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
    for (int64_t n = 0; n < k->samples; n++) forward_sample(k, args[LS_ARG_X], mask_of(k, args, n), args[LS_ARG_Y], n);
    return LS_OK;
}

static ls_status run_backward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const global_average_pool1d_kernel *k = (const global_average_pool1d_kernel *)kernel;
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
    for (int64_t n = 0; n < k->samples; n++)
        backward_sample(k, args[LS_ARG_DY], mask_of(k, args, n), args[LS_ARG_DX], n);
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

ls_status ls__cpu_global_average_pool1d_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops forward_ops = {run_forward, destroy}, backward_ops = {run_backward, destroy};
    int backward = spec->pass == LS_PASS_BACKWARD_DATA;
    const ls_layout *x, *y, *mask = NULL;
    LS_TRY(cpu->base.ops->layout_plain(&cpu->base, spec->x[0].shape, spec->x[0].dtype, 0, &x));
    LS_TRY(cpu->base.ops->layout_plain(&cpu->base, spec->y[0].shape, spec->x[0].dtype, 0, &y));
    if (spec->x_count > 1) LS_TRY(cpu->base.ops->layout_plain(&cpu->base, spec->x[1].shape, LS_DTYPE_I32, 0, &mask));
    global_average_pool1d_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = backward ? &backward_ops : &forward_ops;
    k->base.name = "loop:global_average_pool1d";
    k->base.layout[backward ? LS_ARG_DX : LS_ARG_X] = x;
    k->base.layout[backward ? LS_ARG_DY : LS_ARG_Y] = y;
    k->base.layout[LS_ARG_X + 1] = mask;
    k->dtype = spec->x[0].dtype;
    k->samples = spec->x[0].shape.dim[0];
    k->length = spec->x[0].shape.dim[1];
    k->width = spec->x[0].shape.dim[2];
    k->threads = cpu->base.options.threads;
    k->base.tiles = k->samples;
    *out = &k->base;
    return LS_OK;
}
