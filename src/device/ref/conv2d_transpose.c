// The reverse of a convolution: what each pixel of x (N, H, W, C) would have been read from in y (N, OH, OW, F) is where it goes.
#include "device/ref/ref.h"

// Visits every (pixel of x, pixel of y in its window); the window lies over y.
static void visit(const ls_ref_args *a, ls_ref_tap at) {
    const ls_conv2d_transpose_attrs *t = LS_ATTRS(ls_conv2d_transpose_attrs, &a->spec->attrs);
    const int64_t *x = a->spec->x[0].shape.dim, *y = a->spec->y[0].shape.dim;
    ls_ref_window g = {.n = y[0], .h = y[1], .w = y[2], .c = y[3], .oh = x[1], .ow = x[2], .oc = x[3]};
    g.kh = t->kernel[0], g.kw = t->kernel[1], g.sh = t->strides[0], g.sw = t->strides[1];
    g.dh = g.dw = 1, g.top = t->pad[0], g.left = t->pad[1];
    for (int64_t p = 0; p < g.n * g.oh * g.ow; p++)
        for (int64_t tap = 0; tap < g.kh * g.kw; tap++) {
            int64_t to = ls__ref_pixel(&g, p / g.ow / g.oh, p / g.ow % g.oh, p % g.ow, tap / g.kw, tap % g.kw);
            for (int64_t f = 0; to >= 0 && f < g.c; f++)
                for (int64_t c = 0; c < g.oc; c++) at(a, p * g.oc + c, to + f, (tap * g.c + f) * g.oc + c);
        }
}

static void forward(const ls_ref_args *a) { ls__ref_taps_forward(a, visit); }
static void backward_data(const ls_ref_args *a) { ls__ref_taps_backward_data(a, visit); }
static void backward_weights(const ls_ref_args *a) { ls__ref_taps_backward_weights(a, visit); }

const ls_ref_op ls__ref_conv2d_transpose = {
    .kind = LS_OP_CONV2D_TRANSPOSE,
    .forward = forward,
    .backward_data = backward_data,
    .backward_weights = backward_weights,
    .backward_reads = LS_REF_READS_W,
};
