// The reference device: plain loops, the oracle of every differential test. Readable first.
//
// All loops work on doubles, in the logical layouts (NHWC, HWIO, row-major). The driver in ref.c widens a kernel's
// inputs from F32 or BF16 before, and narrows its outputs after; it also applies what may be fused to an op (the
// residual, the activation, the addend, mask_dx). So an op's file holds nothing but its mathematics, and tests can
// differentiate the very same loops in double precision.
#ifndef LS_DEVICE_REF_REF_H
#define LS_DEVICE_REF_REF_H

#include "device/device.h"

// What a pass of an op sees. Tensors it does not use are NULL, bias ones too where there is no bias.
typedef struct ls_ref_args {
    const ls_kernel_spec *spec;
    double *x, *x2, *w, *b, *y;       // inputs and output of the op
    double *dx, *dx2, *dw, *db, *dy;  // gradients; outputs hold anything before and are overwritten
    double *addend;
    double *mean, *variance, *dmean, *dvariance;  // (C)
    int32_t *workspace;                           // NULL in inference
    const int32_t *labels;                        // (N), or NULL with one_hot:
    const float *label_rows;                      // (N, C)
    ls_loss_metrics *metrics;
    const ls_random_key *random;
} ls_ref_args;

typedef struct ls_ref_op {
    ls_op_kind kind;
    void (*forward)(const ls_ref_args *a);           // training and inference
    void (*backward_data)(const ls_ref_args *a);     // NULL: the plan needs no kernel for it
    void (*backward_weights)(const ls_ref_args *a);  // NULL: the op has no weights
    int backward_data_needs_x;                       // backward_data reads X
    int keeps_workspace;                             // one int32_t per element of Y
} ls_ref_op;

const ls_ref_op *ls__ref_op_find(ls_op_kind kind);
// Runs the pass of a->spec, with what is fused to it.
void ls__ref_compute(const ls_ref_op *op, const ls_ref_args *a);

// The geometry of a moving window: images x (N, H, W, C) to y (N, OH, OW, OC).
typedef struct ls_ref_window {
    int64_t n, h, w, c, oh, ow, oc;
    int64_t kh, kw, sh, sw, top, left;
} ls_ref_window;

static inline ls_ref_window ls__ref_window(const ls_kernel_spec *spec) {
    const int64_t *x = spec->x.dim, *y = spec->y.dim;
    const ls_op_attrs *a = &spec->attrs;
    ls_ref_window g = {.n = x[0],
                       .h = x[1],
                       .w = x[2],
                       .c = x[3],
                       .oh = 1,
                       .ow = 1,
                       .oc = y[spec->y.ndim - 1],
                       .kh = a->kernel[0],
                       .kw = a->kernel[1],
                       .sh = a->strides[0],
                       .sw = a->strides[1],
                       .top = a->pad[0],
                       .left = a->pad[1]};
    if (spec->y.ndim == 4) {  // global pooling leaves no height and width
        g.oh = y[1];
        g.ow = y[2];
    }
    return g;
}

// The offset in x of the pixel (its channel 0) under position (i, j) of the window at output (n, oh, ow); -1 in the
// padding.
static inline int64_t ls__ref_pixel(const ls_ref_window *g, int64_t n, int64_t oh, int64_t ow, int64_t i, int64_t j) {
    int64_t h = oh * g->sh - g->top + i, w = ow * g->sw - g->left + j;
    if (h < 0 || h >= g->h || w < 0 || w >= g->w) return -1;
    return ((n * g->h + h) * g->w + w) * g->c;
}

#endif
