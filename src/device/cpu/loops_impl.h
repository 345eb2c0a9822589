// What the files of loops share: sixteen elements at a time, loaded from F32 or BF16 and stored with one rounding. Only for
// files of loops: everything here is inlined into functions marked LS_CLONES.
#ifndef LS_DEVICE_CPU_LOOPS_IMPL_H
#define LS_DEVICE_CPU_LOOPS_IMPL_H

#include <stdint.h>
#include <string.h>

#include <lockstep/tensor.h>

#include "base/bf16.h"
#include "base/clones.h"

// No vector crosses a call: everything below is inlined, so the calling convention gcc warns of is never used.
#pragma GCC diagnostic ignored "-Wpsabi"

#define LS_INLINE static inline __attribute__((always_inline))

// Sixteen elements at a time in the compiler's own vectors: one 512-bit register, two of 256, four of 128.
typedef float v16f __attribute__((vector_size(64)));
typedef int32_t v16i __attribute__((vector_size(64)));
typedef uint32_t v16u __attribute__((vector_size(64)));
typedef uint16_t v16h __attribute__((vector_size(32)));
typedef uint8_t v16b __attribute__((vector_size(16)));

LS_INLINE v16f select16(v16i which, v16f a, v16f b) { return (v16f)((which & (v16i)a) | (~which & (v16i)b)); }

LS_INLINE v16f load16(ls_dtype dtype, const void *p, int64_t at) {
    if (dtype == LS_DTYPE_F32) {
        v16f v;
        memcpy(&v, (const float *)p + at, sizeof v);
        return v;
    }
    v16h h;
    memcpy(&h, (const uint16_t *)p + at, sizeof h);
    return (v16f)(__builtin_convertvector(h, v16u) << 16);
}

LS_INLINE void store16(ls_dtype dtype, void *p, int64_t at, v16f v) {
    if (dtype == LS_DTYPE_F32) {
        memcpy((float *)p + at, &v, sizeof v);
        return;
    }
    v16u u = (v16u)v;
    v16u rounded = (u + 0x7FFFu + ((u >> 16) & 1)) >> 16;
    v16i nan = (v16i)((u & 0x7FFFFFFFu) > 0x7F800000u);
    v16u bits = ((v16u)nan & ((u >> 16) | 0x40)) | (~(v16u)nan & rounded);
    v16h h = __builtin_convertvector(bits, v16h);
    memcpy((uint16_t *)p + at, &h, sizeof h);
}

// The same with fewer lanes: the others read as zero, and are not written.
LS_INLINE v16f load_lanes(ls_dtype dtype, const void *p, int64_t at, int64_t lanes) {
    if (lanes >= 16) return load16(dtype, p, at);
    uint32_t words[16] = {0};
    for (int64_t i = 0; i < lanes; i++)
        words[i] =
            dtype == LS_DTYPE_F32 ? ((const uint32_t *)p)[at + i] : (uint32_t)((const uint16_t *)p)[at + i] << 16;
    v16f v;
    memcpy(&v, words, sizeof v);
    return v;
}

LS_INLINE void store_lanes(ls_dtype dtype, void *p, int64_t at, v16f v, int64_t lanes) {
    if (lanes >= 16) {
        store16(dtype, p, at, v);
        return;
    }
    char bytes[64];
    store16(dtype, bytes, 0, v);
    int64_t size = dtype == LS_DTYPE_F32 ? 4 : 2;
    for (int64_t i = 0; i < lanes * size; i++) ((char *)p)[at * size + i] = bytes[i];
}

LS_INLINE float load1(ls_dtype dtype, const void *p, int64_t at) {
    return dtype == LS_DTYPE_F32 ? ((const float *)p)[at] : ls_bf16_to_float(((const ls_bf16 *)p)[at]);
}

LS_INLINE void store1(ls_dtype dtype, void *p, int64_t at, float v) {
    if (dtype == LS_DTYPE_F32)
        ((float *)p)[at] = v;
    else
        ((ls_bf16 *)p)[at] = ls_float_to_bf16(v);
}

#endif
