// The loss of a sample is the mean over its elements of (x - target)^2, times the weight.
#include "device/ref/ref.h"

static double weight(const ls_ref_args *a) { return LS_ATTRS(ls_loss_attrs, &a->spec->attrs)->weight; }

static int64_t elements(const ls_ref_args *a) {
    return ls_shape_count(a->spec->x[0].shape) / a->spec->x[0].shape.dim[0];
}

static void forward(const ls_ref_args *a) {
    int64_t n = a->spec->x[0].shape.dim[0], c = elements(a);
    double loss = 0;
    for (int64_t i = 0; i < n * c; i++) loss += (a->x[0][i] - a->x[1][i]) * (a->x[0][i] - a->x[1][i]);
    a->y[0][0] = loss * weight(a) / (double)c;
}

static void backward_data(const ls_ref_args *a) {
    int64_t n = a->spec->x[0].shape.dim[0], c = elements(a);
    for (int64_t i = 0; i < n * c; i++) a->dx[0][i] = 2 * (a->x[0][i] - a->x[1][i]) * weight(a) / (double)c;
}

const ls_ref_op ls__ref_mean_squared_error = {
    .kind = LS_OP_MEAN_SQUARED_ERROR,
    .forward = forward,
    .backward_data = backward_data,
    .backward_reads = LS_REF_READS_X,
    .seeds_gradient = 1,
};
