#include "device/ref/ref.h"

// Visits every (output position, tap, channel, filter): offsets in x, y and the kernel.
static void visit(const ls_ref_args *a, ls_ref_tap at) {
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

static void forward(const ls_ref_args *a) { ls__ref_taps_forward(a, visit); }
static void backward_data(const ls_ref_args *a) { ls__ref_taps_backward_data(a, visit); }
static void backward_weights(const ls_ref_args *a) { ls__ref_taps_backward_weights(a, visit); }

const ls_ref_op ls__ref_conv3d = {
    .kind = LS_OP_CONV3D,
    .forward = forward,
    .backward_data = backward_data,
    .backward_weights = backward_weights,
    .backward_reads = LS_REF_READS_W,
};
