// The reference device: plain loops, the oracle of every differential test. Readable first.
//
// All loops work on doubles, in the logical layouts (NHWC, HWIO, row-major). The driver in ref.c widens a kernel's
// inputs before, and narrows its outputs after; it also applies what an op absorbs (the residual, the activation, the
// addend, mask_dx). So an op's file holds nothing but its mathematics, and tests can differentiate the very same loops in
// double precision.
#ifndef LS_DEVICE_REF_REF_H
#define LS_DEVICE_REF_REF_H

#include "device/device.h"

// What a pass of an op sees. Tensors it does not use are NULL, bias ones too where there is no bias. Whole numbers come as doubles.
typedef struct ls_ref_args {
    const ls_kernel_spec *spec;
    double *x[LS_MAX_INPUTS], *w[LS_MAX_PARAMS], *y[LS_MAX_OUTPUTS];
    double *dx[LS_MAX_INPUTS], *dw[LS_MAX_PARAMS],
        *dy[LS_MAX_OUTPUTS];  // outputs hold anything before and are overwritten
    double *residual, *dresidual, *addend;
    int32_t *workspace;  // NULL in inference
    double *scratch;     // as much as the op asks for, zeroed
    const ls_random_key *random;
} ls_ref_args;

// Which tensors of forward a backward pass reads besides the outputs' gradients.
enum { LS_REF_READS_X = 1, LS_REF_READS_W = 2, LS_REF_READS_Y = 4 };

typedef struct ls_ref_op {
    ls_op_kind kind;
    void (*forward)(const ls_ref_args *a);           // training and inference
    void (*backward_data)(const ls_ref_args *a);     // NULL: the plan needs no kernel for it
    void (*backward_weights)(const ls_ref_args *a);  // reads X and DY
    void (*backward)(const ls_ref_args *a);          // both at once
    unsigned backward_reads;                         // of backward_data and backward: LS_REF_READS_*
    int seeds_gradient;                              // 1: backward starts here, there is no DY (losses)
    int keeps_workspace;                             // one int32_t per element of Y
    int64_t (*scratch)(const ls_kernel_spec *spec);  // doubles it wants beside; NULL: none
    // That a pass can compute with the values it was given, before it does. NULL: it can with all.
    ls_status (*check)(const ls_ref_args *a);
    // Whether a pass uses an argument of those it is offered, where the rules above do not say it. NULL: they do.
    int (*uses)(const ls_kernel_spec *spec, int arg, int by_rule);
} ls_ref_op;

// Convolutions: what visits every (element of x, of y and of the kernel, by their offsets) that meet, in an order of its own, and the passes by it: the kernel is w[0], the bias, one of each channel
// of y, w[1].
typedef void (*ls_ref_tap)(const ls_ref_args *a, int64_t x, int64_t y, int64_t w);
typedef void (*ls_ref_visit)(const ls_ref_args *a, ls_ref_tap at);
void ls__ref_taps_forward(const ls_ref_args *a, ls_ref_visit visit);
void ls__ref_taps_backward_data(const ls_ref_args *a, ls_ref_visit visit);
void ls__ref_taps_backward_weights(const ls_ref_args *a, ls_ref_visit visit);

const ls_ref_op *ls__ref_op_find(ls_op_kind kind);
// Runs the pass of a->spec, with what is absorbed.
void ls__ref_compute(const ls_ref_op *op, const ls_ref_args *a);

// The geometry of a moving window: images x (N, H, W, C) to y (N, OH, OW, OC).
typedef struct ls_ref_window {
    int64_t n, h, w, c, oh, ow, oc;
    int64_t kh, kw, sh, sw, dh, dw, top, left;
} ls_ref_window;

ls_ref_window ls__ref_window(const ls_kernel_spec *spec, const int kernel[2], const int strides[2], const int pad[4]);

// The offset in x of the pixel (its channel 0) under position (i, j) of the window at output (n, oh, ow); -1 in the
// padding.
static inline int64_t ls__ref_pixel(const ls_ref_window *g, int64_t n, int64_t oh, int64_t ow, int64_t i, int64_t j) {
    int64_t h = oh * g->sh - g->top + i * g->dh, w = ow * g->sw - g->left + j * g->dw;
    if (h < 0 || h >= g->h || w < 0 || w >= g->w) return -1;
    return ((n * g->h + h) * g->w + w) * g->c;
}

// The same over volumes: x (N, in[0], in[1], in[2], C) to y (N, out[0], out[1], out[2], OC).
typedef struct ls_ref_volume {
    int64_t n, c, oc, in[3], out[3];
    int64_t size[3], strides[3], dilation[3], front[3];  // of the window; front: padding before each axis
    int64_t ins, outs, taps;                             // products: positions of x, of y, and in the window
} ls_ref_volume;

ls_ref_volume ls__ref_volume(ls_shape x, ls_shape y, const int size[3], const int strides[3], const int dilation[3],
                             const int pad[6]);

// The offset in x (channel 0) of what lies under position `tap` of the window at output position `at`, both counted row by row; -1 in
// the padding.
static inline int64_t ls__ref_voxel(const ls_ref_volume *g, int64_t n, int64_t at, int64_t tap) {
    int64_t place[3] = {at / (g->out[1] * g->out[2]), at / g->out[2] % g->out[1], at % g->out[2]};
    int64_t in_window[3] = {tap / (g->size[1] * g->size[2]), tap / g->size[2] % g->size[1], tap % g->size[2]};
    for (int i = 0; i < 3; i++) {
        int64_t x = place[i] * g->strides[i] - g->front[i] + in_window[i] * g->dilation[i];
        if (x < 0 || x >= g->in[i]) return -1;
        n = n * g->in[i] + x;
    }
    return n * g->c;
}

#endif
