#include <string.h>

#include "device/ref/ref.h"

static ls_ref_window window_of(const ls_ref_args *a) {
    const ls_conv2d_attrs *c = LS_ATTRS(ls_conv2d_attrs, &a->spec->attrs);
    return ls__ref_window(a->spec, c->kernel, c->strides, c->pad);
}

// Visits every (output pixel, window position): `y` is the output pixel's offset, `x` the input pixel's, `w` that of
// the (C, OC) matrix of this position in the kernel.
#define FOR_EACH_TAP(g, y, x, w)                                                                                       \
    for (int64_t n = 0; n < (g).n; n++)                                                                                \
        for (int64_t oh = 0; oh < (g).oh; oh++)                                                                        \
            for (int64_t ow = 0; ow < (g).ow; ow++)                                                                    \
                for (int64_t i = 0; i < (g).kh; i++)                                                                   \
                    for (int64_t j = 0, x, y = ((n * (g).oh + oh) * (g).ow + ow) * (g).oc, w; j < (g).kw; j++)         \
                        if (w = (i * (g).kw + j) * (g).c * (g).oc, (x = ls__ref_pixel(&(g), n, oh, ow, i, j)) >= 0)

static void forward(const ls_ref_args *a) {
    ls_ref_window g = window_of(a);
    for (int64_t p = 0; p < g.n * g.oh * g.ow; p++)
        for (int64_t o = 0; o < g.oc; o++) a->y[0][p * g.oc + o] = a->w[1] ? a->w[1][o] : 0;
    FOR_EACH_TAP(g, y, x, w) {
        for (int64_t c = 0; c < g.c; c++)
            for (int64_t o = 0; o < g.oc; o++) a->y[0][y + o] += a->x[0][x + c] * a->w[0][w + c * g.oc + o];
    }
}

static void backward_data(const ls_ref_args *a) {
    ls_ref_window g = window_of(a);
    memset(a->dx[0], 0, (size_t)(g.n * g.h * g.w * g.c) * sizeof *a->dx[0]);
    FOR_EACH_TAP(g, y, x, w) {
        for (int64_t c = 0; c < g.c; c++)
            for (int64_t o = 0; o < g.oc; o++) a->dx[0][x + c] += a->dy[0][y + o] * a->w[0][w + c * g.oc + o];
    }
}

static void backward_weights(const ls_ref_args *a) {
    ls_ref_window g = window_of(a);
    memset(a->dw[0], 0, (size_t)(g.kh * g.kw * g.c * g.oc) * sizeof *a->dw[0]);
    FOR_EACH_TAP(g, y, x, w) {
        for (int64_t c = 0; c < g.c; c++)
            for (int64_t o = 0; o < g.oc; o++) a->dw[0][w + c * g.oc + o] += a->x[0][x + c] * a->dy[0][y + o];
    }
    if (!a->dw[1]) return;
    memset(a->dw[1], 0, (size_t)g.oc * sizeof *a->dw[1]);
    for (int64_t p = 0; p < g.n * g.oh * g.ow; p++)
        for (int64_t o = 0; o < g.oc; o++) a->dw[1][o] += a->dy[0][p * g.oc + o];
}

const ls_ref_op ls__ref_conv2d = {
    .kind = LS_OP_CONV2D,
    .forward = forward,
    .backward_data = backward_data,
    .backward_weights = backward_weights,
    .backward_reads = LS_REF_READS_W,
};
