// The sum over samples of the mean cross-entropy of their positions, x (N, C) or (N, T, C): e to the mean of it is the perplexity.
#include <math.h>

#include "device/ref/ref.h"

static double log_sum_exp(const double *x, int64_t c) {
    double most = x[0], sum = 0;
    for (int64_t k = 1; k < c; k++) most = x[k] > most ? x[k] : most;
    for (int64_t k = 0; k < c; k++) sum += exp(x[k] - most);
    return log(sum) + most;
}

static void forward(const ls_ref_args *a) {
    ls_shape shape = a->spec->x[0].shape;
    int64_t c = shape.dim[shape.ndim - 1], rows = ls_shape_count(shape) / c;
    int weights = LS_ATTRS(ls_metric_attrs, &a->spec->attrs)->rows;
    double sum = 0;
    for (int64_t i = 0; i < rows; i++) {
        const double *x = a->x[0] + i * c;
        double all = log_sum_exp(x, c);
        for (int64_t k = 0; k < c; k++) {
            double t = weights ? a->x[1][i * c + k] : a->x[1][i] == (double)k;
            if (t != 0) sum += t * (all - x[k]);
        }
    }
    a->y[0][0] = sum * ((double)shape.dim[0] / (double)rows);
}

const ls_ref_op ls__ref_perplexity = {.kind = LS_OP_PERPLEXITY, .forward = forward};
