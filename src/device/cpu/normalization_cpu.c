// Channels less a given mean and over a given deviation: pixels one after the other, in plain rows. It is of a network's first layers,
// where images come so.
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/blocks_impl.h"
#include "device/cpu/cpu.h"

typedef struct normalization_kernel {
    ls_kernel base;
    ls_dtype dtype;
    int64_t pixels, channels;
    int backward, threads;
} normalization_kernel;

// Pixels [begin, end). mean, rate (channels): in double, and the mean of backward is zero.
LS_CLONES static void normalize(const normalization_kernel *k, void *to, const void *from, const double *mean,
                                const double *rate, int64_t begin, int64_t end) {
    float v[BLOCK];
    for (int64_t p = begin; p < end; p++)
        for (int64_t c = 0; c < k->channels; c += BLOCK) {
            int64_t count = k->channels - c < BLOCK ? k->channels - c : BLOCK;
            load_block(k->dtype, from, p * k->channels + c, count, v);
            for (int64_t j = 0; j < count; j++) v[j] = (float)(((double)v[j] - mean[c + j]) * rate[c + j]);
            store_block(k->dtype, to, p * k->channels + c, count, v);
        }
}

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const normalization_kernel *k = (const normalization_kernel *)kernel;
    const float *given = args[LS_ARG_W], *variance = args[LS_ARG_W + 1];
    double *mean = args[LS_ARG_SCRATCH], *rate = mean + k->channels;
    for (int64_t c = 0; c < k->channels; c++) {
        mean[c] = k->backward ? 0 : (double)given[c];
        rate[c] = 1 / fmax(sqrt((double)variance[c]), 1e-7);
    }
    void *to = args[k->backward ? LS_ARG_DX : LS_ARG_Y];
    const void *from = args[k->backward ? LS_ARG_DY : LS_ARG_X];
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
    for (int64_t t = 0; t < k->threads; t++)
        normalize(k, to, from, mean, rate, k->pixels * t / k->threads, k->pixels * (t + 1) / k->threads);
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

ls_status ls__cpu_normalization_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    int backward = spec->pass == LS_PASS_BACKWARD_DATA;
    ls_shape shape = spec->x[0].shape;
    int64_t channels = shape.dim[shape.ndim - 1];
    const ls_layout *layout, *vector;
    LS_TRY(cpu->base.ops->layout_plain(&cpu->base, shape, spec->x[0].dtype, 0, &layout));
    LS_TRY(cpu->base.ops->layout_plain(&cpu->base, LS_SHAPE(channels), LS_DTYPE_F32, 0, &vector));
    normalization_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &ops;
    k->base.name = "loop:normalization";
    k->dtype = spec->x[0].dtype;
    k->channels = channels;
    k->pixels = ls_shape_count(shape) / channels;
    k->backward = backward;
    k->threads = cpu->base.options.threads;
    k->base.tiles = k->pixels;
    k->base.scratch_bytes = 2 * channels * (int64_t)sizeof(double);
    k->base.layout[backward ? LS_ARG_DY : LS_ARG_X] = k->base.layout[backward ? LS_ARG_DX : LS_ARG_Y] = layout;
    k->base.layout[LS_ARG_W + 1] = vector;
    if (!backward) k->base.layout[LS_ARG_W] = vector;
    ls__cpu_in_place(&k->base, backward ? LS_ARG_DX : LS_ARG_Y, backward ? LS_ARG_DY : LS_ARG_X);
    *out = &k->base;
    return LS_OK;
}
