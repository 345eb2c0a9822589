// Each channel of images x (N, H, W, C) with kernels of its own, (KH, KW, C, M), to M channels of y.
#include <string.h>

#include "device/ref/ref.h"

static ls_ref_window window_of(const ls_ref_args *a) {
    const ls_depthwise_conv2d_attrs *c = LS_ATTRS(ls_depthwise_conv2d_attrs, &a->spec->attrs);
    ls_ref_window g = ls__ref_window(a->spec, c->kernel, c->strides, c->pad);
    g.dh = c->dilation[0], g.dw = c->dilation[1];
    return g;
}

// Visits every (output element, window position inside of the image): `y` is the output's offset, `x` the input's, `w` the weight's.
static void visit(const ls_ref_args *a, void (*at)(const ls_ref_args *a, int64_t y, int64_t x, int64_t w)) {
    ls_ref_window g = window_of(a);
    int64_t multiplier = g.oc / g.c;
    for (int64_t p = 0; p < g.n * g.oh * g.ow; p++)
        for (int64_t tap = 0; tap < g.kh * g.kw; tap++) {
            int64_t x = ls__ref_pixel(&g, p / g.ow / g.oh, p / g.ow % g.oh, p % g.ow, tap / g.kw, tap % g.kw);
            for (int64_t o = 0; x >= 0 && o < g.oc; o++) at(a, p * g.oc + o, x + o / multiplier, tap * g.oc + o);
        }
}

static void add_product(const ls_ref_args *a, int64_t y, int64_t x, int64_t w) {
    a->y[0][y] += a->x[0][x] * a->w[0][w];
}
static void add_to_dx(const ls_ref_args *a, int64_t y, int64_t x, int64_t w) {
    a->dx[0][x] += a->dy[0][y] * a->w[0][w];
}
static void add_to_dw(const ls_ref_args *a, int64_t y, int64_t x, int64_t w) {
    a->dw[0][w] += a->dy[0][y] * a->x[0][x];
}

static void zero(double *values, ls_shape shape) { memset(values, 0, (size_t)ls_shape_count(shape) * sizeof *values); }

static void forward(const ls_ref_args *a) {
    int64_t filters = a->spec->y[0].shape.dim[3];
    for (int64_t i = 0; i < ls_shape_count(a->spec->y[0].shape); i++) a->y[0][i] = a->w[1] ? a->w[1][i % filters] : 0;
    visit(a, add_product);
}

static void backward_data(const ls_ref_args *a) {
    zero(a->dx[0], a->spec->x[0].shape);
    visit(a, add_to_dx);
}

static void backward_weights(const ls_ref_args *a) {
    int64_t filters = a->spec->y[0].shape.dim[3];
    zero(a->dw[0], a->spec->w[0].shape);
    visit(a, add_to_dw);
    if (!a->dw[1]) return;
    zero(a->dw[1], a->spec->w[1].shape);
    for (int64_t i = 0; i < ls_shape_count(a->spec->y[0].shape); i++) a->dw[1][i % filters] += a->dy[0][i];
}

const ls_ref_op ls__ref_depthwise_conv2d = {
    .kind = LS_OP_DEPTHWISE_CONV2D,
    .forward = forward,
    .backward_data = backward_data,
    .backward_weights = backward_weights,
    .backward_reads = LS_REF_READS_W,
};
