// Every pixel of x (N, H, W, C) as a rectangle of y.
#include <string.h>

#include "device/ref/ref.h"

// The offset in x of the element of y at `i`.
static int64_t source(const ls_ref_args *a, int64_t i) {
    const int *size = LS_ATTRS(ls_up_sampling2d_attrs, &a->spec->attrs)->size;
    const int64_t *x = a->spec->x[0].shape.dim, *y = a->spec->y[0].shape.dim;
    int64_t c = i % y[3], w = i / y[3] % y[2], h = i / y[3] / y[2] % y[1], n = i / y[3] / y[2] / y[1];
    return ((n * x[1] + h / size[0]) * x[2] + w / size[1]) * x[3] + c;
}

static void forward(const ls_ref_args *a) {
    for (int64_t i = 0; i < ls_shape_count(a->spec->y[0].shape); i++) a->y[0][i] = a->x[0][source(a, i)];
}

static void backward_data(const ls_ref_args *a) {
    memset(a->dx[0], 0, (size_t)ls_shape_count(a->spec->x[0].shape) * sizeof *a->dx[0]);
    for (int64_t i = 0; i < ls_shape_count(a->spec->y[0].shape); i++) a->dx[0][source(a, i)] += a->dy[0][i];
}

const ls_ref_op ls__ref_up_sampling2d = {
    .kind = LS_OP_UP_SAMPLING2D, .forward = forward, .backward_data = backward_data};
