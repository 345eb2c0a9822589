// How many logits are above 0 where their target is above 0.5, and not where it is not: a sum for each label, or of all elements of a
// sample the share.
#include "device/ref/ref.h"

static void forward(const ls_ref_args *a) {
    int64_t n = a->spec->x[0].shape.dim[0], c = ls_shape_count(a->spec->x[0].shape) / n;
    int per_label = LS_ATTRS(ls_metric_attrs, &a->spec->attrs)->per_label;
    for (int64_t k = 0; k < (per_label ? c : 1); k++) a->y[0][k] = 0;
    for (int64_t i = 0; i < n * c; i++) a->y[0][per_label ? i % c : 0] += (a->x[0][i] > 0) == (a->x[1][i] > 0.5);
    if (!per_label) a->y[0][0] /= (double)c;
}

const ls_ref_op ls__ref_binary_accuracy = {.kind = LS_OP_BINARY_ACCURACY, .forward = forward};
