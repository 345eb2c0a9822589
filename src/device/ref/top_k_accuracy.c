// How many samples have fewer than k scores above that of their class, so that equals at the edge all count; a sample with a score that
// is no finite number does not. As tf.math.in_top_k has it. The class of a row of targets is the first of its largest.
#include <math.h>

#include "device/ref/ref.h"

static int64_t largest(const double *x, int64_t c) {
    int64_t best = 0;
    for (int64_t k = 1; k < c; k++)
        if (x[k] > x[best]) best = k;
    return best;
}

static int in_top_k(const double *x, int64_t c, int64_t label, int k) {
    int64_t above = 0;
    for (int64_t i = 0; i < c; i++) {
        if (!isfinite(x[i])) return 0;
        above += x[i] > x[label];
    }
    return above < k;
}

static void forward(const ls_ref_args *a) {
    const ls_metric_attrs *attrs = LS_ATTRS(ls_metric_attrs, &a->spec->attrs);
    int64_t n = a->spec->x[0].shape.dim[0], c = a->spec->x[0].shape.dim[1], correct = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t label = attrs->rows ? largest(a->x[1] + i * c, c) : (int64_t)a->x[1][i];
        correct += in_top_k(a->x[0] + i * c, c, label, attrs->k);
    }
    a->y[0][0] = (double)correct;
}

const ls_ref_op ls__ref_top_k_accuracy = {.kind = LS_OP_TOP_K_ACCURACY, .forward = forward};
