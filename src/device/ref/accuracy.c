// How many samples have their largest prediction where their largest target is; of equals the first counts. Of sequences, the sum of the
// shares of their positions.
#include "device/ref/ref.h"

static int64_t largest(const double *x, int64_t c) {
    int64_t best = 0;
    for (int64_t k = 1; k < c; k++)
        if (x[k] > x[best]) best = k;
    return best;
}

static void forward(const ls_ref_args *a) {
    ls_shape x = a->spec->x[0].shape;
    int64_t c = x.dim[x.ndim - 1], n = ls_shape_count(x) / c, positions = n / x.dim[0], correct = 0;
    int rows = LS_ATTRS(ls_metric_attrs, &a->spec->attrs)->rows;
    for (int64_t i = 0; i < n; i++) {
        int64_t label = rows ? largest(a->x[1] + i * c, c) : (int64_t)a->x[1][i];
        correct += largest(a->x[0] + i * c, c) == label;
    }
    a->y[0][0] = (double)correct / (double)positions;
}

const ls_ref_op ls__ref_accuracy = {.kind = LS_OP_ACCURACY, .forward = forward};
