// Sixteen sums become results (conv2d_ending.h), for files of loops.
#ifndef LS_DEVICE_CPU_CONV2D_ENDING_IMPL_H
#define LS_DEVICE_CPU_CONV2D_ENDING_IMPL_H

#include "device/cpu/conv2d_ending.h"
#include "device/cpu/loops_impl.h"

// Sums of columns from `column` on, which lie `at` elements behind e->to. dtype: e's, a constant where loops are to be made for it.
LS_INLINE void end16(ls_dtype dtype, const ls_conv2d_ending *e, int64_t at, int64_t column, v16f v) {
    if (e->bias) v += load16(LS_DTYPE_F32, e->bias, column);
    if (e->residual) v += load16(dtype, e->residual, at);
    if (e->relu) v = relu16(v);
    if (e->mask) v = where16(positive16(load16(dtype, e->mask, at)), v);
    store16(dtype, e->to, at, v);
}

#endif
