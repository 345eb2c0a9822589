// The reverse of a convolution: what each position of x would have been read from in y is where it goes.
#include "device/ref/ref.h"

// Visits every (position of x, position of y in its window, channel, filter); the window lies over y.
static void visit(const ls_ref_args *a, ls_ref_tap at) {
    const ls_conv3d_transpose_attrs *t = LS_ATTRS(ls_conv3d_transpose_attrs, &a->spec->attrs);
    ls_ref_volume g = ls__ref_volume(a->spec->y[0].shape, a->spec->x[0].shape, t->kernel, t->strides, NULL, t->pad);
    for (int64_t p = 0; p < g.n * g.outs; p++)
        for (int64_t tap = 0; tap < g.taps; tap++) {
            int64_t to = ls__ref_voxel(&g, p / g.outs, p % g.outs, tap);
            for (int64_t f = 0; to >= 0 && f < g.c; f++)
                for (int64_t c = 0; c < g.oc; c++) at(a, p * g.oc + c, to + f, (tap * g.c + f) * g.oc + c);
        }
}

static void forward(const ls_ref_args *a) { ls__ref_taps_forward(a, visit); }
static void backward_data(const ls_ref_args *a) { ls__ref_taps_backward_data(a, visit); }
static void backward_weights(const ls_ref_args *a) { ls__ref_taps_backward_weights(a, visit); }

const ls_ref_op ls__ref_conv3d_transpose = {
    .kind = LS_OP_CONV3D_TRANSPOSE,
    .forward = forward,
    .backward_data = backward_data,
    .backward_weights = backward_weights,
    .backward_reads = LS_REF_READS_W,
};
