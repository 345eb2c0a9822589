// What becomes of the sums of a convolution's forward pass or data gradient: what the operation has absorbed is done to them on their way out.
#ifndef LS_DEVICE_CPU_CONV2D_ENDING_H
#define LS_DEVICE_CPU_CONV2D_ENDING_H

#include "device/kernel.h"

// By a kernel's spec.
typedef struct ls_conv2d_absorbs {
    ls_pass pass;
    ls_dtype result;  // of Y or DX
    int64_t columns;  // channels of the same
    int bias, residual, relu, mask;
} ls_conv2d_absorbs;

static inline ls_conv2d_absorbs ls__conv2d_absorbs(const ls_kernel_spec *spec) {
    int data = spec->pass == LS_PASS_BACKWARD_DATA, weights = spec->pass == LS_PASS_BACKWARD_WEIGHTS;
    const ls_tensor_type *to = data ? &spec->x[0] : &spec->y[0];
    return (ls_conv2d_absorbs){.pass = spec->pass,
                               .result = to->dtype,
                               .columns = to->shape.dim[3],
                               .bias = spec->w_count > 1 && !data,
                               .residual = !data && !weights && spec->residual,
                               .relu = !data && !weights && spec->activation == LS_ACTIVATION_RELU,
                               .mask = data && spec->mask_dx};
}

// In one run of it.
typedef struct ls_conv2d_ending {
    ls_dtype dtype;
    void *to;
    const float *bias;     // (columns)
    const void *residual;  // as `to`
    const void *mask;      // as `to`: what is not positive there passes nothing
    int relu;
    int64_t columns;
} ls_conv2d_ending;

static inline ls_conv2d_ending ls__conv2d_ending(const ls_conv2d_absorbs *a, void *const args[LS_ARG_COUNT]) {
    return (ls_conv2d_ending){.dtype = a->result,
                              .to = args[a->pass == LS_PASS_BACKWARD_DATA ? LS_ARG_DX : LS_ARG_Y],
                              .bias = a->bias ? args[LS_ARG_W + 1] : NULL,
                              .residual = a->residual ? args[LS_ARG_RESIDUAL] : NULL,
                              .mask = a->mask ? args[LS_ARG_X] : NULL,
                              .relu = a->relu,
                              .columns = a->columns};
}

#endif
