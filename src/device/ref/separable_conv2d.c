// A depthwise convolution, and a 1 x 1 convolution of what it gives: value `b` of those between the two at an output pixel is made when it
// is wanted, of channel b / multiplier.
#include <string.h>

#include "device/ref/ref.h"

static ls_ref_window window_of(const ls_ref_args *a) {
    const ls_separable_conv2d_attrs *c = LS_ATTRS(ls_separable_conv2d_attrs, &a->spec->attrs);
    ls_ref_window g = ls__ref_window(a->spec, c->kernel, c->strides, c->pad);
    g.dh = c->dilation[0], g.dw = c->dilation[1];
    return g;
}

// The offset in x of the pixel under `tap` of the window at output pixel p; -1 in the padding.
static int64_t pixel_at(const ls_ref_window *g, int64_t p, int64_t tap) {
    return ls__ref_pixel(g, p / g->ow / g->oh, p / g->ow % g->oh, p % g->ow, tap / g->kw, tap % g->kw);
}

static double between(const ls_ref_args *a, const ls_ref_window *g, int64_t p, int64_t b, int64_t count) {
    double sum = 0;
    for (int64_t tap = 0; tap < g->kh * g->kw; tap++) {
        int64_t x = pixel_at(g, p, tap);
        if (x >= 0) sum += a->x[0][x + b / (count / g->c)] * a->w[0][tap * count + b];
    }
    return sum;
}

static void forward(const ls_ref_args *a) {
    ls_ref_window g = window_of(a);
    int64_t count = a->spec->w[1].shape.dim[2];
    for (int64_t p = 0; p < g.n * g.oh * g.ow; p++) {
        for (int64_t o = 0; o < g.oc; o++) a->y[0][p * g.oc + o] = a->w[2] ? a->w[2][o] : 0;
        for (int64_t b = 0; b < count; b++) {
            double value = between(a, &g, p, b, count);
            for (int64_t o = 0; o < g.oc; o++) a->y[0][p * g.oc + o] += value * a->w[1][b * g.oc + o];
        }
    }
}

// What value `b` at output pixel p gives to the gradients of the depthwise convolution.
static void backward_between(const ls_ref_args *a, const ls_ref_window *g, int64_t p, int64_t b, int64_t count,
                             double gradient) {
    for (int64_t tap = 0; tap < g->kh * g->kw; tap++) {
        int64_t x = pixel_at(g, p, tap), c = b / (count / g->c);
        if (x < 0) continue;
        a->dx[0][x + c] += gradient * a->w[0][tap * count + b];
        a->dw[0][tap * count + b] += gradient * a->x[0][x + c];
    }
}

static void zero(double *values, ls_shape shape) { memset(values, 0, (size_t)ls_shape_count(shape) * sizeof *values); }

static void backward(const ls_ref_args *a) {
    ls_ref_window g = window_of(a);
    int64_t count = a->spec->w[1].shape.dim[2];
    zero(a->dx[0], a->spec->x[0].shape);
    for (int k = 0; k < a->spec->w_count; k++) zero(a->dw[k], a->spec->w[k].shape);
    for (int64_t p = 0; p < g.n * g.oh * g.ow; p++) {
        const double *dy = a->dy[0] + p * g.oc;
        for (int64_t b = 0; b < count; b++) {
            double value = between(a, &g, p, b, count), gradient = 0;
            for (int64_t o = 0; o < g.oc; o++) {
                gradient += dy[o] * a->w[1][b * g.oc + o];
                a->dw[1][b * g.oc + o] += dy[o] * value;
            }
            backward_between(a, &g, p, b, count, gradient);
        }
        for (int64_t o = 0; o < g.oc && a->dw[2]; o++) a->dw[2][o] += dy[o];
    }
}

// The bias is of forward alone.
static int uses(const ls_kernel_spec *s, int arg, int by_rule) {
    return arg == LS_ARG_W + 2 && s->pass == LS_PASS_BACKWARD ? 0 : by_rule;
}

const ls_ref_op ls__ref_separable_conv2d = {
    .kind = LS_OP_SEPARABLE_CONV2D,
    .forward = forward,
    .backward = backward,
    .backward_reads = LS_REF_READS_X | LS_REF_READS_W,
    .uses = uses,
};
