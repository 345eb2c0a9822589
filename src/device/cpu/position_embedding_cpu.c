// A table added to every sequence. Its gradient is summed sample by sample, in double; threads share out the elements.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/blocks_impl.h"
#include "device/cpu/cpu.h"

typedef struct position_embedding_kernel {
    ls_kernel base;
    ls_dtype dtype, table;
    int64_t samples, sample, rest;  // elements of a sequence, and of what is left of the table
    int threads;
} position_embedding_kernel;

LS_CLONES static void forward_sample(const position_embedding_kernel *k, const void *x, const void *w, void *y,
                                     int64_t n) {
    for (int64_t i = 0; i < k->sample; i += 16) {
        int64_t lanes = k->sample - i < 16 ? k->sample - i : 16;
        v16f sum = load_lanes(k->dtype, x, n * k->sample + i, lanes) + load_lanes(k->table, w, i, lanes);
        store_lanes(k->dtype, y, n * k->sample + i, sum, lanes);
    }
}

LS_CLONES static void sum_block(const position_embedding_kernel *k, const void *dy, float *dw, int64_t i) {
    int64_t count = k->sample - i < BLOCK ? k->sample - i : BLOCK;
    double sums[BLOCK] = {0};
    float v[BLOCK];
    for (int64_t n = 0; n < k->samples; n++) {
        load_block(k->dtype, dy, n * k->sample + i, count, v);
        for (int j = 0; j < BLOCK; j++) sums[j] += (double)v[j];
    }
    for (int j = 0; j < BLOCK; j++) v[j] = (float)sums[j];
    store_block(LS_DTYPE_F32, dw, i, count, v);
}

static ls_status run_forward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const position_embedding_kernel *k = (const position_embedding_kernel *)kernel;
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
    for (int64_t n = 0; n < k->samples; n++) forward_sample(k, args[LS_ARG_X], args[LS_ARG_W], args[LS_ARG_Y], n);
    return LS_OK;
}

static ls_status run_backward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const position_embedding_kernel *k = (const position_embedding_kernel *)kernel;
    float *dw = args[LS_ARG_DW];
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
    for (int64_t i = 0; i < k->sample; i += BLOCK) sum_block(k, args[LS_ARG_DY], dw, i);
    memset(dw + k->sample, 0, (size_t)k->rest * sizeof *dw);
    if (args[LS_ARG_DX] != args[LS_ARG_DY])
        memcpy(args[LS_ARG_DX], args[LS_ARG_DY], (size_t)(k->samples * k->sample) * ls_dtype_size(k->dtype));
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

ls_status ls__cpu_position_embedding_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops forward_ops = {run_forward, destroy}, backward_ops = {run_backward, destroy};
    int backward = spec->pass == LS_PASS_BACKWARD;
    const ls_layout *x, *w;
    ls_dtype table = backward ? LS_DTYPE_F32 : spec->w[0].dtype;
    LS_TRY(cpu->base.ops->layout_plain(&cpu->base, spec->x[0].shape, spec->x[0].dtype, 0, &x));
    LS_TRY(cpu->base.ops->layout_plain(&cpu->base, spec->w[0].shape, table, 1, &w));
    position_embedding_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = backward ? &backward_ops : &forward_ops;
    k->base.name = "loop:position_embedding";
    k->base.layout[backward ? LS_ARG_DX : LS_ARG_X] = x;
    k->base.layout[backward ? LS_ARG_DY : LS_ARG_Y] = x;
    k->base.layout[backward ? LS_ARG_DW : LS_ARG_W] = w;
    k->dtype = spec->x[0].dtype;
    k->table = table;
    k->samples = spec->x[0].shape.dim[0];
    k->sample = spec->x[0].shape.dim[1] * spec->x[0].shape.dim[2];
    k->rest = ls_shape_count(spec->w[0].shape) - k->sample;
    k->threads = cpu->base.options.threads;
    k->base.tiles = backward ? (k->sample + BLOCK - 1) / BLOCK : k->samples;
    ls__cpu_in_place(&k->base, backward ? LS_ARG_DX : LS_ARG_Y, backward ? LS_ARG_DY : LS_ARG_X);
    *out = &k->base;
    return LS_OK;
}
