// The divergence of a normal distribution from the one of mean 0 and variance 1: the sum over a sample's channels of
// (mean^2 + variance - 1 - log variance) / 2, times the weight. A row has its means and then its log variances.
#include <math.h>

#include "device/ref/ref.h"

static double weight(const ls_ref_args *a) { return LS_ATTRS(ls_loss_attrs, &a->spec->attrs)->weight; }

static int64_t channels(const ls_ref_args *a) {
    ls_shape code = a->spec->x[0].shape;
    return code.dim[code.ndim - 1] / 2;
}

static void forward(const ls_ref_args *a) {
    int64_t c = channels(a), count = ls_shape_count(a->spec->x[0].shape) / 2;
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        const double *row = a->x[0] + i / c * 2 * c;
        double mean = row[i % c], logarithm = row[c + i % c];
        sum += (mean * mean + exp(logarithm) - 1 - logarithm) / 2;
    }
    a->y[0][0] = sum * weight(a);
}

static void backward_data(const ls_ref_args *a) {
    int64_t c = channels(a), count = ls_shape_count(a->spec->x[0].shape) / 2;
    for (int64_t i = 0; i < count; i++) {
        const double *row = a->x[0] + i / c * 2 * c;
        double *drow = a->dx[0] + i / c * 2 * c;
        drow[i % c] = weight(a) * row[i % c];
        drow[c + i % c] = weight(a) * (exp(row[c + i % c]) - 1) / 2;
    }
}

const ls_ref_op ls__ref_normal_divergence = {
    .kind = LS_OP_NORMAL_DIVERGENCE,
    .forward = forward,
    .backward_data = backward_data,
    .backward_reads = LS_REF_READS_X,
    .seeds_gradient = 1,
};
