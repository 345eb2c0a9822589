// What the loops of losses and metrics share on the cpu device. Few elements, and sums in double: plain loops.
#ifndef LS_DEVICE_CPU_LOSS_H
#define LS_DEVICE_CPU_LOSS_H

#include <string.h>

#include "base/bf16.h"
#include "base/fp16.h"
#include "device/cpu/cpu.h"

// The end of a creator: says how a loss or metric lies, all of it plain. Prediction and targets are read, the gradient of the prediction
// or the outputs written. Takes the kernel over.
ls_status ls__cpu_loss_layouts(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel *kernel, ls_kernel **out);

// Of sequences (N, T, classes), and perplexity: many rows.
ls_status ls__cpu_sequence_loss_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out);

// exp(x) for x <= 0 from plain arithmetic, so that its bits do not depend on the C library: 2^k * e^r with |r| <= ln2 / 2
// and a Taylor polynomial of degree 11, good to a relative 1e-14.
static inline double ls__exp_plain(double x) {
    if (x < -700) return 0;
    double k = (double)(int64_t)(x * 1.4426950408889634 - 0.5);
    double r = (x - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10;
    double p = 1;
    for (int i = 11; i > 0; i--) p = 1 + p * r / i;
    uint64_t bits = (uint64_t)(1023 + (int64_t)k) << 52;
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

// What the gradient is multiplied by.
static inline double ls__loss_scale(const ls_span spans[LS_ARG_COUNT]) {
    return spans[LS_ARG_SCALE].buffer ? *(const float *)ls_span_host(spans[LS_ARG_SCALE]) : 1;
}

// An element of a gradient, in its type.
static inline void ls__gradient_put(void *dx, ls_dtype dtype, int64_t i, float value) {
    if (dtype == LS_DTYPE_F32)
        ((float *)dx)[i] = value;
    else if (dtype == LS_DTYPE_F16)
        ((ls_fp16 *)dx)[i] = ls_float_to_fp16(value);
    else
        ((ls_bf16 *)dx)[i] = ls_float_to_bf16(value);
}

#endif
