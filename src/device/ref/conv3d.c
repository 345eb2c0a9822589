#include <string.h>

#include "device/ref/ref.h"

// Visits every (output position, tap, channel, filter): offsets in x, y and the kernel.
static void visit(const ls_ref_args *a, void (*at)(const ls_ref_args *a, int64_t x, int64_t y, int64_t w)) {
    const ls_conv3d_attrs *t = LS_ATTRS(ls_conv3d_attrs, &a->spec->attrs);
    ls_ref_volume g =
        ls__ref_volume(a->spec->x[0].shape, a->spec->y[0].shape, t->kernel, t->strides, t->dilation, t->pad);
    for (int64_t p = 0; p < g.n * g.outs; p++)
        for (int64_t tap = 0; tap < g.taps; tap++) {
            int64_t from = ls__ref_voxel(&g, p / g.outs, p % g.outs, tap);
            for (int64_t c = 0; from >= 0 && c < g.c; c++)
                for (int64_t o = 0; o < g.oc; o++) at(a, from + c, p * g.oc + o, (tap * g.c + c) * g.oc + o);
        }
}

static void add_product(const ls_ref_args *a, int64_t x, int64_t y, int64_t w) {
    a->y[0][y] += a->x[0][x] * a->w[0][w];
}
static void add_to_dx(const ls_ref_args *a, int64_t x, int64_t y, int64_t w) {
    a->dx[0][x] += a->dy[0][y] * a->w[0][w];
}
static void add_to_dw(const ls_ref_args *a, int64_t x, int64_t y, int64_t w) {
    a->dw[0][w] += a->x[0][x] * a->dy[0][y];
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

const ls_ref_op ls__ref_conv3d = {
    .kind = LS_OP_CONV3D,
    .forward = forward,
    .backward_data = backward_data,
    .backward_weights = backward_weights,
    .backward_reads = LS_REF_READS_W,
};
