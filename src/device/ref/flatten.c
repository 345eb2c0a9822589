#include <string.h>

#include "device/ref/ref.h"

// In row-major order flattening moves nothing.

static void forward(const ls_ref_args *a) { memcpy(a->y, a->x, (size_t)ls_shape_count(a->spec->x) * sizeof *a->x); }

static void backward_data(const ls_ref_args *a) {
    memcpy(a->dx, a->dy, (size_t)ls_shape_count(a->spec->x) * sizeof *a->dx);
}

const ls_ref_op ls__ref_flatten = {.kind = LS_OP_FLATTEN, .forward = forward, .backward_data = backward_data};
