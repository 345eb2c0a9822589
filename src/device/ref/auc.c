// A row for each sample: the scores of all labels, then the targets of all; a class number is the target 1 of its class and 0 of the
// others.
#include "device/ref/ref.h"

static void forward(const ls_ref_args *a) {
    int64_t n = a->spec->x[0].shape.dim[0], c = a->spec->x[0].shape.dim[1];
    int rows = LS_ATTRS(ls_metric_attrs, &a->spec->attrs)->rows;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < c; k++) {
            a->y[0][2 * i * c + k] = a->x[0][i * c + k];
            a->y[0][(2 * i + 1) * c + k] = rows ? a->x[1][i * c + k] : a->x[1][i] == (double)k;
        }
}

const ls_ref_op ls__ref_auc = {.kind = LS_OP_AUC, .forward = forward};
