// The reverse of a convolution: what each position of x would have been read from in y is where it goes.
#include <string.h>

#include "device/ref/ref.h"

// Visits every (position of x, position of y in its window, channel, filter); the window lies over y.
static void visit(const ls_ref_args *a, void (*at)(const ls_ref_args *a, int64_t x, int64_t y, int64_t w)) {
    const ls_conv3d_transpose_attrs *t = LS_ATTRS(ls_conv3d_transpose_attrs, &a->spec->attrs);
    ls_ref_volume g = ls__ref_volume(a->spec->y[0].shape, a->spec->x[0].shape, t->kernel, t->strides, NULL, t->pad);
    for (int64_t p = 0; p < g.n * g.outs; p++)
        for (int64_t tap = 0; tap < g.taps; tap++) {
            int64_t to = ls__ref_voxel(&g, p / g.outs, p % g.outs, tap);
            for (int64_t f = 0; to >= 0 && f < g.c; f++)
                for (int64_t c = 0; c < g.oc; c++) at(a, p * g.oc + c, to + f, (tap * g.c + f) * g.oc + c);
        }
}

static void add_product(const ls_ref_args *a, int64_t x, int64_t y, int64_t w) {
    a->y[0][y] += a->x[0][x] * a->w[0][w];
}
static void add_to_dx(const ls_ref_args *a, int64_t x, int64_t y, int64_t w) {
    a->dx[0][x] += a->dy[0][y] * a->w[0][w];
}
static void add_to_dw(const ls_ref_args *a, int64_t x, int64_t y, int64_t w) {
    a->dw[0][w] += a->dy[0][y] * a->x[0][x];
}

static void zero(double *values, ls_shape shape) { memset(values, 0, (size_t)ls_shape_count(shape) * sizeof *values); }

static void forward(const ls_ref_args *a) {
    int64_t filters = a->spec->y[0].shape.dim[4];
    for (int64_t i = 0; i < ls_shape_count(a->spec->y[0].shape); i++) a->y[0][i] = a->w[1] ? a->w[1][i % filters] : 0;
    visit(a, add_product);
}

static void backward_data(const ls_ref_args *a) {
    zero(a->dx[0], a->spec->x[0].shape);
    visit(a, add_to_dx);
}

static void backward_weights(const ls_ref_args *a) {
    int64_t filters = a->spec->y[0].shape.dim[4];
    zero(a->dw[0], a->spec->w[0].shape);
    visit(a, add_to_dw);
    if (!a->dw[1]) return;
    zero(a->dw[1], a->spec->w[1].shape);
    for (int64_t i = 0; i < ls_shape_count(a->spec->y[0].shape); i++) a->dw[1][i % filters] += a->dy[0][i];
}

const ls_ref_op ls__ref_conv3d_transpose = {
    .kind = LS_OP_CONV3D_TRANSPOSE,
    .forward = forward,
    .backward_data = backward_data,
    .backward_weights = backward_weights,
    .backward_reads = LS_REF_READS_W,
};
