// Softmax cross-entropy of sequences, and perplexity: many rows of scores. Forward keeps the logarithm of each row's sum of exponentials.
// Sums over rows are made in a fixed number of pieces, which are what threads share out.
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/blocks_impl.h"
#include "device/cpu/loss.h"
#include "device/math.h"

enum { PIECES = 32 };

typedef struct sequence_loss_kernel {
    ls_kernel base;
    int64_t rows, classes;
    ls_dtype dx_dtype;
    int weights;          // targets are rows of weights, not class numbers
    double keep, spread;  // a target t becomes keep * t + spread
    double share;         // of a row in the sum: its loss's weight over the positions of a sample
    int threads;
} sequence_loss_kernel;

LS_INLINE double log_sum_exp(const sequence_loss_kernel *k, const float *x) {
    double lanes[LANES] = {0}, e[BLOCK];
    float v[BLOCK], most = x[0];
    for (int64_t c = 1; c < k->classes; c++) most = x[c] > most ? x[c] : most;
    for (int64_t c = 0; c < k->classes; c += BLOCK) {
        int64_t count = k->classes - c < BLOCK ? k->classes - c : BLOCK;
        load_block(LS_DTYPE_F32, x, c, count, v);
        for (int j = 0; j < BLOCK; j++) e[j] = ls__exp((double)v[j] - (double)most);
        for (int64_t j = count; j < BLOCK; j++) e[j] = 0;
        add_block(lanes, e);
    }
    return log(add_lanes(lanes)) + (double)most;
}

LS_INLINE double target(const sequence_loss_kernel *k, const void *targets, int64_t r, int64_t c) {
    double t = k->weights ? ((const float *)targets)[r * k->classes + c] : ((const int32_t *)targets)[r] == c;
    return k->keep * t + k->spread;
}

LS_INLINE double row_loss(const sequence_loss_kernel *k, const float *x, const void *targets, int64_t r, double all) {
    double loss = 0;
    if (!k->weights && k->spread == 0) return k->keep * (all - (double)x[((const int32_t *)targets)[r]]);
    for (int64_t c = 0; c < k->classes; c++) {
        double t = target(k, targets, r, c);
        if (t != 0) loss += t * (all - (double)x[c]);
    }
    return loss;
}

LS_CLONES static double forward_rows(const sequence_loss_kernel *k, const float *x, const void *targets, double *kept,
                                     int64_t from, int64_t to) {
    double loss = 0;
    for (int64_t r = from; r < to; r++) {
        double all = log_sum_exp(k, x + r * k->classes);
        if (kept) kept[r] = all;
        loss += row_loss(k, x + r * k->classes, targets, r, all);
    }
    return loss;
}

static ls_status run_forward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const sequence_loss_kernel *k = (const sequence_loss_kernel *)kernel;
    double pieces[PIECES], sum = 0, *kept = kernel->workspace_bytes ? args[LS_ARG_WORKSPACE] : NULL;
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
    for (int64_t p = 0; p < PIECES; p++)
        pieces[p] =
            forward_rows(k, args[LS_ARG_X], args[LS_ARG_X + 1], kept, k->rows * p / PIECES, k->rows * (p + 1) / PIECES);
    for (int p = 0; p < PIECES; p++) sum += pieces[p];
    *(double *)args[LS_ARG_Y] = sum * k->share;
    return LS_OK;
}

LS_CLONES static void backward_row(const sequence_loss_kernel *k, const float *x, const void *targets, void *dx,
                                   int64_t r, double all, double share) {
    float v[BLOCK];
    for (int64_t c = 0; c < k->classes; c += BLOCK) {
        int64_t count = k->classes - c < BLOCK ? k->classes - c : BLOCK;
        load_block(LS_DTYPE_F32, x, r * k->classes + c, count, v);
        for (int j = 0; j < BLOCK; j++) v[j] = (float)(share * (ls__exp((double)v[j] - all) - k->spread));
        int64_t right = ((const int32_t *)targets)[r] - c;
        if (right >= 0 && right < count)
            v[right] = (float)(share * (ls__exp((double)x[r * k->classes + c + right] - all) - k->spread - k->keep));
        store_block(k->dx_dtype, dx, r * k->classes + c, count, v);
    }
}

static ls_status run_backward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const sequence_loss_kernel *k = (const sequence_loss_kernel *)kernel;
    const double *kept = args[LS_ARG_WORKSPACE];
    double share = k->share * ls__loss_scale(spans);
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
    for (int64_t r = 0; r < k->rows; r++)
        backward_row(k, args[LS_ARG_X], args[LS_ARG_X + 1], args[LS_ARG_DX], r, kept[r], share);
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

ls_status ls__cpu_sequence_loss_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops forward_ops = {run_forward, destroy}, backward_ops = {run_backward, destroy};
    int backward = spec->pass == LS_PASS_BACKWARD_DATA, metric = spec->op == LS_OP_PERPLEXITY;
    ls_shape x = spec->x[0].shape;
    const ls_loss_attrs *loss = LS_ATTRS(ls_loss_attrs, &spec->attrs);
    double smoothing = metric || spec->pass == LS_PASS_INFERENCE ? 0 : loss->label_smoothing;
    sequence_loss_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = backward ? &backward_ops : &forward_ops;
    k->base.name = metric ? "loop:perplexity" : "loop:softmax_cross_entropy";
    k->classes = x.dim[x.ndim - 1];
    k->rows = ls_shape_count(x) / k->classes;
    k->dx_dtype = spec->x[0].gradient;
    k->weights = metric ? LS_ATTRS(ls_metric_attrs, &spec->attrs)->rows : loss->rows;
    k->keep = 1 - smoothing;
    k->spread = smoothing / (double)k->classes;
    k->share = (metric ? 1 : loss->weight) * ((double)x.dim[0] / (double)k->rows);
    k->threads = cpu->base.options.threads;
    k->base.tiles = backward ? k->rows : PIECES;
    if (!metric && spec->pass != LS_PASS_INFERENCE) k->base.workspace_bytes = k->rows * (int64_t)sizeof(double);
    return ls__cpu_loss_layouts(cpu, spec, &k->base, out);
}
