// Images without rows and columns at their borders.
#include <string.h>

#include "device/ref/ref.h"

// The offset in x of channel 0 of the pixel of y whose number is `pixel`, counting through all images.
static int64_t place(const ls_ref_args *a, int64_t pixel) {
    const int(*crop)[2] = LS_ATTRS(ls_cropping2d_attrs, &a->spec->attrs)->cropping;
    const int64_t *x = a->spec->x[0].shape.dim, *y = a->spec->y[0].shape.dim;
    int64_t w = pixel % y[2], h = pixel / y[2] % y[1], n = pixel / y[2] / y[1];
    return ((n * x[1] + h + crop[0][0]) * x[2] + w + crop[1][0]) * x[3];
}

static void forward(const ls_ref_args *a) {
    int64_t c = a->spec->y[0].shape.dim[3], pixels = ls_shape_count(a->spec->y[0].shape) / c;
    for (int64_t p = 0; p < pixels; p++)
        for (int64_t k = 0; k < c; k++) a->y[0][p * c + k] = a->x[0][place(a, p) + k];
}

static void backward_data(const ls_ref_args *a) {
    int64_t c = a->spec->y[0].shape.dim[3], pixels = ls_shape_count(a->spec->y[0].shape) / c;
    memset(a->dx[0], 0, (size_t)ls_shape_count(a->spec->x[0].shape) * sizeof *a->dx[0]);
    for (int64_t p = 0; p < pixels; p++)
        for (int64_t k = 0; k < c; k++) a->dx[0][place(a, p) + k] = a->dy[0][p * c + k];
}

const ls_ref_op ls__ref_cropping2d = {.kind = LS_OP_CROPPING2D, .forward = forward, .backward_data = backward_data};
