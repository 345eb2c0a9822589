#include "device/ref/ref.h"

static void forward(const ls_ref_args *a) {
    int64_t count = ls_shape_count(a->spec->x);
    for (int64_t i = 0; i < count; i++) a->y[i] = a->x[i] > 0 ? a->x[i] : 0;
}

static void backward_data(const ls_ref_args *a) {
    int64_t count = ls_shape_count(a->spec->x);
    for (int64_t i = 0; i < count; i++) a->dx[i] = a->x[i] > 0 ? a->dy[i] : 0;
}

const ls_ref_op ls__ref_relu = {
    .kind = LS_OP_RELU,
    .forward = forward,
    .backward_data = backward_data,
    .backward_data_needs_x = 1,
};
