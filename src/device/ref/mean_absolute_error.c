// Loss and metric. The loss of a sample is the mean over its elements of |x - target|, times the weight. Its slope at 0 is taken to be 0.
#include <math.h>

#include "device/ref/ref.h"

static double weight(const ls_ref_args *a) {
    return a->spec->op == LS_OP_MEAN_ABSOLUTE_ERROR ? LS_ATTRS(ls_loss_attrs, &a->spec->attrs)->weight : 1;
}

static int64_t elements(const ls_ref_args *a) {
    return ls_shape_count(a->spec->x[0].shape) / a->spec->x[0].shape.dim[0];
}

static void forward(const ls_ref_args *a) {
    int64_t n = a->spec->x[0].shape.dim[0], c = elements(a);
    double loss = 0;
    for (int64_t i = 0; i < n * c; i++) loss += fabs(a->x[0][i] - a->x[1][i]);
    a->y[0][0] = loss * weight(a) / (double)c;
}

static void backward_data(const ls_ref_args *a) {
    int64_t n = a->spec->x[0].shape.dim[0], c = elements(a);
    for (int64_t i = 0; i < n * c; i++) {
        double e = a->x[0][i] - a->x[1][i];
        a->dx[0][i] = ((e > 0) - (e < 0)) * weight(a) / (double)c;
    }
}

const ls_ref_op ls__ref_mean_absolute_error = {
    .kind = LS_OP_MEAN_ABSOLUTE_ERROR,
    .forward = forward,
    .backward_data = backward_data,
    .backward_reads = LS_REF_READS_X,
    .seeds_gradient = 1,
};

const ls_ref_op ls__ref_mean_absolute_error_metric = {.kind = LS_OP_MEAN_ABSOLUTE_ERROR_METRIC, .forward = forward};
