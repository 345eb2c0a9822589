// Rows and columns of zeros around each image.
#include <string.h>

#include "device/ref/ref.h"

// The offset in y of channel 0 of the pixel of x whose number is `pixel`, counting through all images.
static int64_t place(const ls_ref_args *a, int64_t pixel) {
    const int(*pad)[2] = LS_ATTRS(ls_zero_pad2d_attrs, &a->spec->attrs)->padding;
    const int64_t *x = a->spec->x[0].shape.dim, *y = a->spec->y[0].shape.dim;
    int64_t w = pixel % x[2], h = pixel / x[2] % x[1], n = pixel / x[2] / x[1];
    return ((n * y[1] + h + pad[0][0]) * y[2] + w + pad[1][0]) * y[3];
}

static void forward(const ls_ref_args *a) {
    int64_t c = a->spec->x[0].shape.dim[3], pixels = ls_shape_count(a->spec->x[0].shape) / c;
    memset(a->y[0], 0, (size_t)ls_shape_count(a->spec->y[0].shape) * sizeof *a->y[0]);
    for (int64_t p = 0; p < pixels; p++)
        for (int64_t k = 0; k < c; k++) a->y[0][place(a, p) + k] = a->x[0][p * c + k];
}

static void backward_data(const ls_ref_args *a) {
    int64_t c = a->spec->x[0].shape.dim[3], pixels = ls_shape_count(a->spec->x[0].shape) / c;
    for (int64_t p = 0; p < pixels; p++)
        for (int64_t k = 0; k < c; k++) a->dx[0][p * c + k] = a->dy[0][place(a, p) + k];
}

const ls_ref_op ls__ref_zero_pad2d = {.kind = LS_OP_ZERO_PAD2D, .forward = forward, .backward_data = backward_data};
