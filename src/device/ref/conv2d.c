#include <string.h>

#include "device/ref/ref.h"

static ls_ref_window window_of(const ls_ref_args *a) {
    const ls_conv2d_attrs *c = LS_ATTRS(ls_conv2d_attrs, &a->spec->attrs);
    ls_ref_window g = ls__ref_window(a->spec, c->kernel, c->strides, c->pad);
    g.dh = c->dilation[0], g.dw = c->dilation[1];
    return g;
}

// Visits every (output pixel, window position): `y` is the output pixel's offset, `x` the input pixel's, `w` that of
// the (C / groups, OC) matrix of this position in the kernel.
#define FOR_EACH_TAP(g, y, x, w)                                                                                       \
    for (int64_t n = 0; n < (g).n; n++)                                                                                \
        for (int64_t oh = 0; oh < (g).oh; oh++)                                                                        \
            for (int64_t ow = 0; ow < (g).ow; ow++)                                                                    \
                for (int64_t i = 0; i < (g).kh; i++)                                                                   \
                    for (int64_t j = 0, x, y = ((n * (g).oh + oh) * (g).ow + ow) * (g).oc, w; j < (g).kw; j++)         \
                        if (w = (i * (g).kw + j) * (g).c / groups * (g).oc,                                            \
                            (x = ls__ref_pixel(&(g), n, oh, ow, i, j)) >= 0)

// Visits every (channel c, filter o) of one group; `at` is their place in the matrix.
#define FOR_EACH_PAIR(g, c, o, at)                                                                                     \
    for (int64_t c = 0; c < (g).c; c++)                                                                                \
        for (int64_t group = c / ((g).c / groups), per = (g).oc / groups, o = group * per,                             \
                     at = (c - group * ((g).c / groups)) * (g).oc + o;                                                 \
             o < (group + 1) * per; o++, at++)

static void forward(const ls_ref_args *a) {
    ls_ref_window g = window_of(a);
    int64_t groups = LS_ATTRS(ls_conv2d_attrs, &a->spec->attrs)->groups;
    for (int64_t p = 0; p < g.n * g.oh * g.ow; p++)
        for (int64_t o = 0; o < g.oc; o++) a->y[0][p * g.oc + o] = a->w[1] ? a->w[1][o] : 0;
    FOR_EACH_TAP(g, y, x, w) { FOR_EACH_PAIR(g, c, o, at) a->y[0][y + o] += a->x[0][x + c] * a->w[0][w + at]; }
}

static void backward_data(const ls_ref_args *a) {
    ls_ref_window g = window_of(a);
    int64_t groups = LS_ATTRS(ls_conv2d_attrs, &a->spec->attrs)->groups;
    memset(a->dx[0], 0, (size_t)(g.n * g.h * g.w * g.c) * sizeof *a->dx[0]);
    FOR_EACH_TAP(g, y, x, w) { FOR_EACH_PAIR(g, c, o, at) a->dx[0][x + c] += a->dy[0][y + o] * a->w[0][w + at]; }
}

static void backward_weights(const ls_ref_args *a) {
    ls_ref_window g = window_of(a);
    int64_t groups = LS_ATTRS(ls_conv2d_attrs, &a->spec->attrs)->groups;
    memset(a->dw[0], 0, (size_t)(g.kh * g.kw * g.c / groups * g.oc) * sizeof *a->dw[0]);
    FOR_EACH_TAP(g, y, x, w) { FOR_EACH_PAIR(g, c, o, at) a->dw[0][w + at] += a->x[0][x + c] * a->dy[0][y + o]; }
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
