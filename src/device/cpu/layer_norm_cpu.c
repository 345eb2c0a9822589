// Layer normalization, a row at a time, in double between one rounding and the next. Forward keeps each row's mean and one over its
// deviation. Gradients of parameters are summed in a fixed number of pieces of rows, which are what threads share out.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/blocks_impl.h"
#include "device/cpu/cpu.h"

enum { PIECES = 32 };

typedef struct layer_norm_kernel {
    ls_kernel base;
    ls_dtype dtype;
    int64_t rows, width, pieces;
    double epsilon;
    int threads;
} layer_norm_kernel;

// Of a row, kept for backward.
typedef struct statistics {
    double mean, rate;
} statistics;

LS_INLINE double sum_of_row(const layer_norm_kernel *k, const void *x, int64_t at, double mean, int squares) {
    double lanes[LANES] = {0}, e[BLOCK];
    float v[BLOCK];
    for (int64_t i = 0; i < k->width; i += BLOCK) {
        int64_t count = k->width - i < BLOCK ? k->width - i : BLOCK;
        load_block(k->dtype, x, at + i, count, v);
        for (int j = 0; j < BLOCK; j++) e[j] = (double)v[j] - mean;
        for (int j = 0; j < BLOCK && squares; j++) e[j] *= e[j];
        for (int64_t j = count; j < BLOCK; j++) e[j] = 0;
        add_block(lanes, e);
    }
    return add_lanes(lanes);
}

LS_CLONES static void forward_row(const layer_norm_kernel *k, const void *x, void *y, const float *gamma,
                                  const float *beta, int64_t at, statistics *kept) {
    float v[BLOCK], g[BLOCK], b[BLOCK];
    double share = 1 / (double)k->width, mean = sum_of_row(k, x, at, 0, 0) * share;
    double rate = 1 / sqrt(sum_of_row(k, x, at, mean, 1) * share + k->epsilon);
    for (int64_t i = 0; i < k->width; i += BLOCK) {
        int64_t count = k->width - i < BLOCK ? k->width - i : BLOCK;
        load_block(k->dtype, x, at + i, count, v);
        load_block(LS_DTYPE_F32, gamma, i, count, g);
        load_block(LS_DTYPE_F32, beta, i, count, b);
        for (int j = 0; j < BLOCK; j++) v[j] = (float)(((double)v[j] - mean) * rate * (double)g[j] + (double)b[j]);
        store_block(k->dtype, y, at + i, count, v);
    }
    if (kept) *kept = (statistics){mean, rate};
}

// Blocks of a row in backward: dy, dy * gamma, and X normalized.
typedef struct gradient_block {
    double dy[BLOCK], scaled[BLOCK], normalized[BLOCK];
} gradient_block;

LS_INLINE void load_gradient(const layer_norm_kernel *k, const void *x, const void *dy, const float *gamma,
                             statistics s, int64_t at, int64_t i, int64_t count, gradient_block *b) {
    float v[BLOCK], d[BLOCK], g[BLOCK];
    load_block(k->dtype, x, at + i, count, v);
    load_block(k->dtype, dy, at + i, count, d);
    load_block(LS_DTYPE_F32, gamma, i, count, g);
    for (int j = 0; j < BLOCK; j++) {
        b->dy[j] = (double)d[j];
        b->scaled[j] = (double)d[j] * (double)g[j];
        b->normalized[j] = ((double)v[j] - s.mean) * s.rate;
    }
}

// dgamma, dbeta: sums so far, with room for whole blocks.
LS_CLONES static void backward_row(const layer_norm_kernel *k, const void *x, const void *dy, void *dx,
                                   const float *gamma, double *dgamma, double *dbeta, int64_t at, statistics s) {
    double sums[LANES] = {0}, dots[LANES] = {0}, e[BLOCK];
    float v[BLOCK];
    gradient_block b;
    for (int64_t i = 0; i < k->width; i += BLOCK) {
        int64_t count = k->width - i < BLOCK ? k->width - i : BLOCK;
        load_gradient(k, x, dy, gamma, s, at, i, count, &b);
        for (int j = 0; j < BLOCK; j++) {
            dgamma[i + j] += b.dy[j] * b.normalized[j];
            dbeta[i + j] += b.dy[j];
            e[j] = b.scaled[j] * b.normalized[j];
        }
        add_block(sums, b.scaled);
        add_block(dots, e);
    }
    double share = 1 / (double)k->width, mean = add_lanes(sums) * share, slope = add_lanes(dots) * share;
    for (int64_t i = 0; i < k->width; i += BLOCK) {
        int64_t count = k->width - i < BLOCK ? k->width - i : BLOCK;
        load_gradient(k, x, dy, gamma, s, at, i, count, &b);
        for (int j = 0; j < BLOCK; j++) v[j] = (float)((b.scaled[j] - mean - b.normalized[j] * slope) * s.rate);
        store_block(k->dtype, dx, at + i, count, v);
    }
}

static ls_status run_forward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const layer_norm_kernel *k = (const layer_norm_kernel *)kernel;
    statistics *kept = args[LS_ARG_WORKSPACE];
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
    for (int64_t r = 0; r < k->rows; r++)
        forward_row(k, args[LS_ARG_X], args[LS_ARG_Y], args[LS_ARG_W], args[LS_ARG_W + 1], r * k->width,
                    kept && kernel->workspace_bytes ? &kept[r] : NULL);
    return LS_OK;
}

static int64_t room(const layer_norm_kernel *k) { return ls_round_up(k->width, BLOCK); }

static ls_status run_backward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const layer_norm_kernel *k = (const layer_norm_kernel *)kernel;
    const statistics *kept = args[LS_ARG_WORKSPACE];
    double *sums = args[LS_ARG_SCRATCH];  // (pieces, 2, room)
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
    for (int64_t p = 0; p < k->pieces; p++) {
        double *mine = sums + p * 2 * room(k);
        memset(mine, 0, (size_t)(2 * room(k)) * sizeof *mine);
        for (int64_t r = k->rows * p / k->pieces; r < k->rows * (p + 1) / k->pieces; r++)
            backward_row(k, args[LS_ARG_X], args[LS_ARG_DY], args[LS_ARG_DX], args[LS_ARG_W], mine, mine + room(k),
                         r * k->width, kept[r]);
    }
    for (int64_t p = 1; p < k->pieces; p++)
        for (int64_t i = 0; i < 2 * room(k); i++) sums[i] += sums[p * 2 * room(k) + i];
    for (int64_t i = 0; i < k->width; i++) {
        ((float *)args[LS_ARG_DW])[i] = (float)sums[i];
        ((float *)args[LS_ARG_DW + 1])[i] = (float)sums[room(k) + i];
    }
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

ls_status ls__cpu_layer_norm_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops forward_ops = {run_forward, destroy}, backward_ops = {run_backward, destroy};
    int backward = spec->pass == LS_PASS_BACKWARD;
    layer_norm_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    ls_status status = ls__cpu_norm_layouts(cpu, spec, &k->base);
    if (status != LS_OK) {
        free(k);
        return status;
    }
    k->base.ops = backward ? &backward_ops : &forward_ops;
    k->base.name = "loop:layer_norm";
    k->dtype = spec->x[0].dtype;
    k->width = spec->w[0].shape.dim[0];
    k->rows = ls_shape_count(spec->x[0].shape) / k->width;
    k->pieces = k->rows < PIECES ? k->rows : PIECES;
    k->epsilon = (double)LS_ATTRS(ls_layer_norm_attrs, &spec->attrs)->epsilon;
    k->threads = cpu->base.options.threads;
    k->base.tiles = backward ? k->pieces : k->rows;
    if (spec->pass != LS_PASS_INFERENCE) k->base.workspace_bytes = k->rows * (int64_t)sizeof(statistics);
    if (backward) k->base.scratch_bytes = k->pieces * 2 * room(k) * (int64_t)sizeof(double);
    ls__cpu_in_place(&k->base, backward ? LS_ARG_DX : LS_ARG_Y, backward ? LS_ARG_DY : LS_ARG_X);
    *out = &k->base;
    return LS_OK;
}
