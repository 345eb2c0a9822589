// Each channel of images x (N, H, W, C) with kernels of its own, (KH, KW, C, M), to M channels of y.
#include "device/ref/ref.h"

static ls_ref_window window_of(const ls_ref_args *a) {
    const ls_depthwise_conv2d_attrs *c = LS_ATTRS(ls_depthwise_conv2d_attrs, &a->spec->attrs);
    ls_ref_window g = ls__ref_window(a->spec, c->kernel, c->strides, c->pad);
    g.dh = c->dilation[0], g.dw = c->dilation[1];
    return g;
}

// Visits every (output element, window position inside of the image): `y` is the output's offset, `x` the input's, `w` the weight's.
static void visit(const ls_ref_args *a, ls_ref_tap at) {
    ls_ref_window g = window_of(a);
    int64_t multiplier = g.oc / g.c;
    for (int64_t p = 0; p < g.n * g.oh * g.ow; p++)
        for (int64_t tap = 0; tap < g.kh * g.kw; tap++) {
            int64_t x = ls__ref_pixel(&g, p / g.ow / g.oh, p / g.ow % g.oh, p % g.ow, tap / g.kw, tap % g.kw);
            for (int64_t o = 0; x >= 0 && o < g.oc; o++) at(a, x + o / multiplier, p * g.oc + o, tap * g.oc + o);
        }
}

static void forward(const ls_ref_args *a) { ls__ref_taps_forward(a, visit); }
static void backward_data(const ls_ref_args *a) { ls__ref_taps_backward_data(a, visit); }
static void backward_weights(const ls_ref_args *a) { ls__ref_taps_backward_weights(a, visit); }

const ls_ref_op ls__ref_depthwise_conv2d = {
    .kind = LS_OP_DEPTHWISE_CONV2D,
    .forward = forward,
    .backward_data = backward_data,
    .backward_weights = backward_weights,
    .backward_reads = LS_REF_READS_W,
};
