// The mean over the steps of a sequence that count, x (N, T, C) to y (N, C).
#include "device/ref/ref.h"

static int counts(const ls_ref_args *a, int64_t step) { return !a->x[1] || a->x[1][step] != 0; }

// How many steps of a sample count.
static double count_of(const ls_ref_args *a, int64_t sample) {
    int64_t length = a->spec->x[0].shape.dim[1], count = 0;
    for (int64_t t = 0; t < length; t++) count += counts(a, sample * length + t);
    return (double)count;
}

static void forward(const ls_ref_args *a) {
    const int64_t *x = a->spec->x[0].shape.dim;
    for (int64_t i = 0; i < x[0] * x[2]; i++) {
        double sum = 0, count = count_of(a, i / x[2]);
        for (int64_t t = i / x[2] * x[1]; t < (i / x[2] + 1) * x[1]; t++)
            if (counts(a, t)) sum += a->x[0][t * x[2] + i % x[2]];
        a->y[0][i] = count > 0 ? sum / count : 0;
    }
}

static void backward_data(const ls_ref_args *a) {
    const int64_t *x = a->spec->x[0].shape.dim;
    for (int64_t i = 0; i < x[0] * x[2]; i++) {
        double count = count_of(a, i / x[2]);
        for (int64_t t = i / x[2] * x[1]; t < (i / x[2] + 1) * x[1]; t++)
            a->dx[0][t * x[2] + i % x[2]] = counts(a, t) ? a->dy[0][i] / count : 0;
    }
}

// Of the inputs the mask alone is read, and has no gradient.
static int uses(const ls_kernel_spec *s, int arg, int by_rule) {
    if (arg == LS_ARG_X && s->pass == LS_PASS_BACKWARD_DATA) return 0;
    return arg != LS_ARG_DX + 1 && by_rule;
}

const ls_ref_op ls__ref_global_average_pool1d = {
    .kind = LS_OP_GLOBAL_AVERAGE_POOL1D,
    .forward = forward,
    .backward_data = backward_data,
    .backward_reads = LS_REF_READS_X,
    .uses = uses,
};
