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

// Eight elements at a time, as sums have eight lanes.
typedef double v8d __attribute__((vector_size(64)));
typedef float v8f __attribute__((vector_size(32)));
typedef uint16_t v8h __attribute__((vector_size(16)));
typedef uint32_t v8u __attribute__((vector_size(32)));

// Zeros behind the first `count`.
LS_INLINE v8f load8(ls_dtype dtype, const void *from, int64_t at, int64_t count) {
    v8f v = {0};
    if (count >= LANES && dtype == LS_DTYPE_F32) {
        memcpy(&v, (const float *)from + at, sizeof v);
        return v;
    }
    if (count >= LANES && dtype == LS_DTYPE_BF16) {
        v8h h;
        memcpy(&h, (const ls_bf16 *)from + at, sizeof h);
        return (v8f)(__builtin_convertvector(h, v8u) << 16);
    }
    float block[BLOCK];
    load_block(dtype, from, at, count < LANES ? count : LANES, block);
    memcpy(&v, block, sizeof v);
    return v;
}

LS_INLINE v8d load_doubles(ls_dtype dtype, const void *from, int64_t at, int64_t count) {
    return __builtin_convertvector(load8(dtype, from, at, count), v8d);
}

LS_INLINE void store_doubles(ls_dtype dtype, void *to, int64_t at, int64_t count, v8d v) {
    v8f f = __builtin_convertvector(v, v8f);
    if (count >= LANES && dtype == LS_DTYPE_F32) {
        memcpy((float *)to + at, &f, sizeof f);
        return;
    }
    float block[LANES];
    memcpy(block, &f, sizeof f);
    store_block(dtype, to, at, count < LANES ? count : LANES, block);
}

LS_INLINE double add_vector(v8d v) {
    double lanes[LANES];
    memcpy(lanes, &v, sizeof v);
    return add_lanes(lanes);
}

LS_INLINE double sum_of_row(int64_t width, ls_dtype dtype, const void *x, int64_t at, double mean, int squares) {
    v8d sum = {0};
    for (int64_t i = 0; i < width; i += LANES) {
        v8d e = load_doubles(dtype, x, at + i, width - i) - mean;
        if (squares) e *= e;
        for (int64_t l = width - i; l < LANES; l++) e[l] = 0;
        sum += e;
    }
    return add_vector(sum);
}

LS_INLINE void forward_in(const layer_norm_kernel *k, ls_dtype dtype, const void *x, void *y, const float *gamma,
                          const float *beta, int64_t at, statistics *kept) {
    int64_t width = k->width;
    double share = 1 / (double)width, mean = sum_of_row(width, dtype, x, at, 0, 0) * share;
    double rate = 1 / sqrt(sum_of_row(width, dtype, x, at, mean, 1) * share + k->epsilon);
    for (int64_t i = 0; i < width; i += LANES) {
        v8d v = (load_doubles(dtype, x, at + i, width - i) - mean) * rate;
        v = v * load_doubles(LS_DTYPE_F32, gamma, i, width - i) + load_doubles(LS_DTYPE_F32, beta, i, width - i);
        store_doubles(dtype, y, at + i, width - i, v);
    }
    if (kept) *kept = (statistics){mean, rate};
}

LS_CLONES static void forward_row(const layer_norm_kernel *k, const void *x, void *y, const float *gamma,
                                  const float *beta, int64_t at, statistics *kept) {
    if (k->dtype == LS_DTYPE_F32)
        forward_in(k, LS_DTYPE_F32, x, y, gamma, beta, at, kept);
    else
        forward_in(k, k->dtype, x, y, gamma, beta, at, kept);
}

// Of a row in backward: dy, dy * gamma, and X normalized.
typedef struct gradient {
    v8d dy, scaled, normalized;
} gradient;

LS_INLINE gradient load_gradient(ls_dtype dtype, const void *x, const void *dy, const float *gamma, statistics s,
                                 int64_t at, int64_t i, int64_t count) {
    gradient g = {.dy = load_doubles(dtype, dy, at + i, count)};
    g.scaled = g.dy * load_doubles(LS_DTYPE_F32, gamma, i, count);
    g.normalized = (load_doubles(dtype, x, at + i, count) - s.mean) * s.rate;
    return g;
}

LS_INLINE void add8(double *sums, v8d v) {
    v8d sum;
    memcpy(&sum, sums, sizeof sum);
    sum += v;
    memcpy(sums, &sum, sizeof sum);
}

LS_INLINE void backward_in(const layer_norm_kernel *k, ls_dtype dtype, const void *x, const void *dy, void *dx,
                           const float *gamma, double *dgamma, double *dbeta, int64_t at, statistics s) {
    int64_t width = k->width;
    v8d sums = {0}, dots = {0};
    for (int64_t i = 0; i < width; i += LANES) {
        gradient g = load_gradient(dtype, x, dy, gamma, s, at, i, width - i);
        add8(dgamma + i, g.dy * g.normalized);
        add8(dbeta + i, g.dy);
        sums += g.scaled;
        dots += g.scaled * g.normalized;
    }
    double share = 1 / (double)width, mean = add_vector(sums) * share, slope = add_vector(dots) * share;
    for (int64_t i = 0; i < width; i += LANES) {
        gradient g = load_gradient(dtype, x, dy, gamma, s, at, i, width - i);
        store_doubles(dtype, dx, at + i, width - i, (g.scaled - mean - g.normalized * slope) * s.rate);
    }
}

// dgamma, dbeta: sums so far, with room for whole blocks.
LS_CLONES static void backward_row(const layer_norm_kernel *k, const void *x, const void *dy, void *dx,
                                   const float *gamma, double *dgamma, double *dbeta, int64_t at, statistics s) {
    if (k->dtype == LS_DTYPE_F32)
        backward_in(k, LS_DTYPE_F32, x, dy, dx, gamma, dgamma, dbeta, at, s);
    else
        backward_in(k, k->dtype, x, dy, dx, gamma, dgamma, dbeta, at, s);
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
