// Channels x (rows, C) less a mean and over a deviation that are given. Source: keras/src/layers/preprocessing/normalization.py.
#include <math.h>

#include "device/ref/ref.h"

static double deviation(const ls_ref_args *a, int64_t c) { return fmax(sqrt(a->w[1][c]), 1e-7); }

static void forward(const ls_ref_args *a) {
    ls_shape x = a->spec->x[0].shape;
    int64_t count = ls_shape_count(x), channels = x.dim[x.ndim - 1];
    for (int64_t i = 0; i < count; i++) {
        int64_t c = i % channels;
        a->y[0][i] = (a->x[0][i] - a->w[0][c]) / deviation(a, c);
    }
}

static void backward_data(const ls_ref_args *a) {
    ls_shape x = a->spec->x[0].shape;
    int64_t count = ls_shape_count(x), channels = x.dim[x.ndim - 1];
    for (int64_t i = 0; i < count; i++) a->dx[0][i] = a->dy[0][i] / deviation(a, i % channels);
}

// The count is told with the others, and nothing reads it; backward has no use for the mean.
static int uses(const ls_kernel_spec *s, int arg, int by_rule) {
    if (arg == LS_ARG_W + 2 || (arg == LS_ARG_W && s->pass == LS_PASS_BACKWARD_DATA)) return 0;
    return by_rule;
}

const ls_ref_op ls__ref_normalization = {
    .kind = LS_OP_NORMALIZATION,
    .forward = forward,
    .backward_data = backward_data,
    .backward_reads = LS_REF_READS_W,
    .uses = uses,
};
