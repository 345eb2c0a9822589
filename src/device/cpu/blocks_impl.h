// For loops that compute in double: blocks of elements, of F32, BF16 or F16 in memory, and sums whose order is the same on every machine.
#ifndef LS_DEVICE_CPU_BLOCKS_IMPL_H
#define LS_DEVICE_CPU_BLOCKS_IMPL_H

#include "device/cpu/loops_impl.h"

enum { BLOCK = 64, LANES = 8 };

// `count` elements, and zeros behind them up to a block.
LS_INLINE void load_block(ls_dtype dtype, const void *from, int64_t at, int64_t count, float *v) {
    if (count < BLOCK) memset(v, 0, BLOCK * sizeof *v);
    if (dtype == LS_DTYPE_F32)
        memcpy(v, (const float *)from + at, (size_t)count * sizeof *v);
    else if (dtype == LS_DTYPE_F16)
        for (int64_t j = 0; j < count; j++) v[j] = ls_fp16_to_float(((const ls_fp16 *)from)[at + j]);
    else
        for (int64_t j = 0; j < count; j++) v[j] = ls_bf16_to_float(((const ls_bf16 *)from)[at + j]);
}

LS_INLINE void store_block(ls_dtype dtype, void *to, int64_t at, int64_t count, const float *v) {
    if (dtype == LS_DTYPE_F32)
        memcpy((float *)to + at, v, (size_t)count * sizeof *v);
    else if (dtype == LS_DTYPE_F16)
        for (int64_t j = 0; j < count; j++) ((ls_fp16 *)to)[at + j] = ls_float_to_fp16(v[j]);
    else
        for (int64_t j = 0; j < count; j++) ((ls_bf16 *)to)[at + j] = ls_float_to_bf16(v[j]);
}

// Sums have eight lanes, which are added up last, whatever the instruction set.
LS_INLINE void add_block(double lanes[LANES], const double *v) {
    for (int j = 0; j < BLOCK; j += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] += v[j + l];
}

LS_INLINE double add_lanes(const double *v) {
    return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
}

#endif
