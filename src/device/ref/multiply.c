// The product of two tensors, element by element.
#include "device/ref/ref.h"

static void forward(const ls_ref_args *a) {
    int64_t count = ls_shape_count(a->spec->x[0].shape);
    for (int64_t i = 0; i < count; i++) a->y[0][i] = a->x[0][i] * a->x[1][i];
}

static void backward_data(const ls_ref_args *a) {
    int64_t count = ls_shape_count(a->spec->x[0].shape);
    for (int64_t i = 0; i < count; i++) {
        a->dx[0][i] = a->dy[0][i] * a->x[1][i];
        a->dx[1][i] = a->dy[0][i] * a->x[0][i];
    }
}

const ls_ref_op ls__ref_multiply = {
    .kind = LS_OP_MULTIPLY,
    .forward = forward,
    .backward_data = backward_data,
    .backward_reads = LS_REF_READS_X,
};
