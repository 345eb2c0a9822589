// A row for each sample: its class, then the one with the largest score; of equals the first. The class of a row of targets is the first
// of its largest.
#include "device/ref/ref.h"

static int64_t largest(const double *x, int64_t c) {
    int64_t best = 0;
    for (int64_t k = 1; k < c; k++)
        if (x[k] > x[best]) best = k;
    return best;
}

static void forward(const ls_ref_args *a) {
    int64_t n = a->spec->x[0].shape.dim[0], c = a->spec->x[0].shape.dim[1];
    int rows = LS_ATTRS(ls_metric_attrs, &a->spec->attrs)->rows;
    for (int64_t i = 0; i < n; i++) {
        a->y[0][2 * i] = rows ? (double)largest(a->x[1] + i * c, c) : a->x[1][i];
        a->y[0][2 * i + 1] = (double)largest(a->x[0] + i * c, c);
    }
}

const ls_ref_op ls__ref_balanced_accuracy = {.kind = LS_OP_BALANCED_ACCURACY, .forward = forward};
