// Layer normalization over the last dimension, x (rows, C). Backward computes the statistics again.
// Source: Ba, Kiros and Hinton, "Layer normalization", 2016.
#include <math.h>
#include <string.h>

#include "device/ref/ref.h"

typedef struct statistics {
    double mean, deviation;
} statistics;

static statistics statistics_of(const ls_ref_args *a, const double *x, int64_t c) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < c; i++) mean += x[i] / (double)c;
    for (int64_t i = 0; i < c; i++) variance += (x[i] - mean) * (x[i] - mean) / (double)c;
    return (statistics){mean, sqrt(variance + (double)LS_ATTRS(ls_layer_norm_attrs, &a->spec->attrs)->epsilon)};
}

static void forward(const ls_ref_args *a) {
    ls_shape shape = a->spec->x[0].shape;
    int64_t c = shape.dim[shape.ndim - 1];
    for (int64_t row = 0; row < ls_shape_count(shape); row += c) {
        const double *x = a->x[0] + row;
        statistics s = statistics_of(a, x, c);
        for (int64_t i = 0; i < c; i++) a->y[0][row + i] = a->w[0][i] * (x[i] - s.mean) / s.deviation + a->w[1][i];
    }
}

static void backward(const ls_ref_args *a) {
    ls_shape shape = a->spec->x[0].shape;
    int64_t c = shape.dim[shape.ndim - 1];
    memset(a->dw[0], 0, (size_t)c * sizeof *a->dw[0]);
    memset(a->dw[1], 0, (size_t)c * sizeof *a->dw[1]);
    for (int64_t row = 0; row < ls_shape_count(shape); row += c) {
        const double *x = a->x[0] + row, *dy = a->dy[0] + row;
        statistics s = statistics_of(a, x, c);
        double sum = 0, dot = 0;
        for (int64_t i = 0; i < c; i++) {
            double normalized = (x[i] - s.mean) / s.deviation;
            a->dw[0][i] += dy[i] * normalized;
            a->dw[1][i] += dy[i];
            sum += dy[i] * a->w[0][i];
            dot += dy[i] * a->w[0][i] * normalized;
        }
        for (int64_t i = 0; i < c; i++)
            a->dx[0][row + i] =
                (dy[i] * a->w[0][i] - sum / (double)c - (x[i] - s.mean) / s.deviation * dot / (double)c) / s.deviation;
    }
}

const ls_ref_op ls__ref_layer_norm = {
    .kind = LS_OP_LAYER_NORM,
    .forward = forward,
    .backward = backward,
    .backward_reads = LS_REF_READS_X | LS_REF_READS_W,
};
