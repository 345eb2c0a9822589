#include <string.h>

#include "device/ref/ref.h"

// In row-major order flattening moves nothing.

static void forward(const ls_ref_args *a) {
    memcpy(a->y[0], a->x[0], (size_t)ls_shape_count(a->spec->x[0].shape) * sizeof *a->x[0]);
}

static void backward_data(const ls_ref_args *a) {
    memcpy(a->dx[0], a->dy[0], (size_t)ls_shape_count(a->spec->x[0].shape) * sizeof *a->dx[0]);
}

const ls_ref_op ls__ref_flatten = {.kind = LS_OP_FLATTEN, .forward = forward, .backward_data = backward_data};
