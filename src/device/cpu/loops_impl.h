// What the files of loops share: sixteen elements at a time, loaded from F32, BF16 or F16 and stored with one rounding. Only for
// files of loops: everything here is inlined into functions marked LS_CLONES.
#ifndef LS_DEVICE_CPU_LOOPS_IMPL_H
#define LS_DEVICE_CPU_LOOPS_IMPL_H

#include <stdint.h>
#include <string.h>

#include <lockstep/tensor.h>

#include "base/bf16.h"
#include "base/clones.h"
#include "base/fp16.h"

#ifdef LS_LOOPS_BF16
#include <immintrin.h>
#endif

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
LS_INLINE v16f where16(v16i which, v16f a) { return (v16f)(which & (v16i)a); }

// Comparisons, as masks of all ones or zero, by arithmetic alone: compilers take vectors wider than the registers apart by
// the piece for arithmetic, but by the element for comparisons, which costs ten times as much.
LS_INLINE v16i positive16(v16f x) { return (v16i)(~(v16u)x & -(v16u)x) >> 31; }    // x > 0
LS_INLINE v16i greater16(v16f a, v16f b) { return (v16i)((b - a) + 0.0f) >> 31; }  // a > b; -0 becomes 0
#ifdef LS_LOOPS_BF16
LS_INLINE v16i equal16(v16u a, v16u b) {
    return (v16i)_mm512_movm_epi32(_mm512_cmpeq_epi32_mask((__m512i)a, (__m512i)b));
}
#else
LS_INLINE v16i equal16(v16u a, v16u b) { return ~((v16i)((a ^ b) | -(a ^ b)) >> 31); }  // a == b
#endif
LS_INLINE v16f relu16(v16f x) { return (v16f)((v16i)x & ~((v16i)x >> 31)); }  // x > 0 ? x : 0

// Bytes and words of 16 bits to integers and back. In a file of AVX512-BF16 instructions (LS_LOOPS_BF16) by one each; else bytes by way of 16 bits: at
// once, compilers take the vector apart by the element.
#ifdef LS_LOOPS_BF16
LS_INLINE v16u from_bytes(v16b b) { return (v16u)_mm512_cvtepu8_epi32((__m128i)b); }
LS_INLINE v16b to_bytes(v16i i) { return (v16b)_mm512_cvtepi32_epi8((__m512i)i); }
LS_INLINE v16u from_words(v16h h) { return (v16u)_mm512_cvtepu16_epi32((__m256i)h); }
LS_INLINE v16h to_words(v16u i) { return (v16h)_mm512_cvtepi32_epi16((__m512i)i); }
#else
LS_INLINE v16u from_bytes(v16b b) { return __builtin_convertvector(__builtin_convertvector(b, v16h), v16u); }
LS_INLINE v16b to_bytes(v16i i) { return __builtin_convertvector(__builtin_convertvector((v16u)i, v16h), v16b); }
LS_INLINE v16u from_words(v16h h) { return __builtin_convertvector(h, v16u); }
LS_INLINE v16h to_words(v16u i) { return __builtin_convertvector(i, v16h); }
#endif

// Halves in the lower parts of words to floats, and back: base/fp16.h for sixteen at once, every case computed and one chosen.
LS_INLINE v16f from_halves(v16u h) {
    v16u a = h & 0x7FFF, normal = (a << 13) + (112u << 23);
    v16f small = __builtin_convertvector((v16i)a, v16f) * 0x1p-24f;  // exact
    v16u is_small = (v16u)((v16i)(a - 0x400) >> 31), is_special = (v16u)((v16i)(0x7BFF - a) >> 31);
    normal += is_special & (112u << 23);
    return (v16f)(((v16u)small & is_small) | (normal & ~is_small) | (h & 0x8000) << 16);
}

LS_INLINE v16u to_halves(v16f v) {
    v16u u = (v16u)v, a = u & 0x7FFFFFFFu;
    v16u normal = ((a + 0xFFFu + (a >> 13 & 1)) >> 13) - (112u << 10);
    // Beside a half, floats are multiples of 2^-24: the sum is rounded as is wanted.
    v16u small = (v16u)((v16f)a + 0.5f) - 0x3F000000u;
    v16u is_small = (v16u)((v16i)(a - 0x38800000u) >> 31), is_large = (v16u)((v16i)(0x477FEFFFu - a) >> 31);
    v16u is_nan = (v16u)((v16i)(0x7F800000u - a) >> 31);
    v16u h = (small & is_small) | (normal & ~is_small);
    h = (h & ~is_large) | (0x7C00 & is_large) | ((0x200 | (a >> 13 & 0x3FF)) & is_nan);
    return h | (u >> 16 & 0x8000);
}

LS_INLINE v16f load16(ls_dtype dtype, const void *p, int64_t at) {
    if (dtype == LS_DTYPE_F32) {
        v16f v;
        memcpy(&v, (const float *)p + at, sizeof v);
        return v;
    }
    v16h h;
    memcpy(&h, (const uint16_t *)p + at, sizeof h);
    if (dtype == LS_DTYPE_F16) return from_halves(from_words(h));
    return (v16f)(from_words(h) << 16);
}

// Rounds to bf16, which is left in the upper halves: base/bf16.h for sixteen at once, but for NaNs whose lower half is not
// zero, of which some become infinite. Those do not come out of arithmetic on bf16 numbers.
LS_INLINE v16u round16(v16f v) {
    v16u u = (v16u)v;
    return (u + 0x7FFFu) + ((u >> 16) & 1);
}

LS_INLINE void store16(ls_dtype dtype, void *p, int64_t at, v16f v) {
    if (dtype == LS_DTYPE_F32) {
        memcpy((float *)p + at, &v, sizeof v);
        return;
    }
#ifdef LS_LOOPS_BF16
    v16h h = dtype == LS_DTYPE_F16 ? to_words(to_halves(v)) : (v16h)_mm512_cvtneps_pbh((__m512)v);
#else
    v16h h = to_words(dtype == LS_DTYPE_F16 ? to_halves(v) : round16(v) >> 16);
#endif
    memcpy((uint16_t *)p + at, &h, sizeof h);
}

// What was loaded from numbers of the type, and chosen: there is nothing to round.
LS_INLINE void store16_exact(ls_dtype dtype, void *p, int64_t at, v16f v) {
    if (dtype != LS_DTYPE_BF16) {
        store16(dtype, p, at, v);
        return;
    }
    v16h h = to_words((v16u)v >> 16);
    memcpy((uint16_t *)p + at, &h, sizeof h);
}

// Two vectors that lie one behind the other. In a file of AVX512-BF16 instructions they are one line of the cache, written at once: it need not be read before.
LS_INLINE void store_both(ls_dtype dtype, void *p, int64_t at, v16f a, v16f b) {
#ifdef LS_LOOPS_BF16
    if (dtype == LS_DTYPE_BF16) {
        __m512bh both = _mm512_cvtne2ps_pbh((__m512)b, (__m512)a);
        memcpy((uint16_t *)p + at, &both, sizeof both);
        return;
    }
#endif
    store16(dtype, p, at, a);
    store16(dtype, p, at + 16, b);
}

LS_INLINE void store_both_exact(ls_dtype dtype, void *p, int64_t at, v16f a, v16f b) {
#ifdef LS_LOOPS_BF16
    if (dtype == LS_DTYPE_BF16) {
        const v16u upper = {0x30001,  0x70005,  0xB0009,  0xF000D,  0x130011, 0x170015, 0x1B0019, 0x1F001D,
                            0x230021, 0x270025, 0x2B0029, 0x2F002D, 0x330031, 0x370035, 0x3B0039, 0x3F003D};
        __m512i both = _mm512_permutex2var_epi16((__m512i)a, (__m512i)upper, (__m512i)b);
        memcpy((uint16_t *)p + at, &both, sizeof both);
        return;
    }
#endif
    store16_exact(dtype, p, at, a);
    store16_exact(dtype, p, at + 16, b);
}

// The same with fewer lanes: the others read as zero, and are not written.
LS_INLINE v16f load_lanes(ls_dtype dtype, const void *p, int64_t at, int64_t lanes) {
    if (lanes >= 16) return load16(dtype, p, at);
    if (dtype == LS_DTYPE_F32) {
        float values[16] = {0};
        for (int64_t i = 0; i < lanes; i++) values[i] = ((const float *)p)[at + i];
        return load16(dtype, values, 0);
    }
    uint16_t halves[16] = {0};
    for (int64_t i = 0; i < lanes; i++) halves[i] = ((const uint16_t *)p)[at + i];
    return load16(dtype, halves, 0);
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

LS_INLINE void store_lanes_exact(ls_dtype dtype, void *p, int64_t at, v16f v, int64_t lanes) {
    if (lanes >= 16) {
        store16_exact(dtype, p, at, v);
        return;
    }
    char bytes[64];
    store16_exact(dtype, bytes, 0, v);
    int64_t size = dtype == LS_DTYPE_F32 ? 4 : 2;
    for (int64_t i = 0; i < lanes * size; i++) ((char *)p)[at * size + i] = bytes[i];
}

// A row: 32 neighbouring elements. In F32 v[0] has the first sixteen; in BF16 and F16 the even ones, the lower halves of 32-bit words,
// and v[1] the odd ones, so that nothing has to cross lanes.
enum { ROW = 32 };

typedef struct row {
    v16f v[2];
} row;

// Where element e of a row is, counting through v[0] and v[1].
LS_INLINE int row_place(ls_dtype dtype, int e) { return dtype == LS_DTYPE_F32 ? e : e / 2 + e % 2 * 16; }

// Zeroes all but the first `count` elements.
LS_INLINE row first_of_row(ls_dtype dtype, row r, int64_t count) {
    const v16i lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    for (int h = 0; h < 2; h++) {
        v16i e = dtype == LS_DTYPE_F32 ? lane + 16 * h : 2 * lane + h;
        r.v[h] = where16((e - (int32_t)count) >> 31, r.v[h]);
    }
    return r;
}

// Asks for the row to be brought near.
LS_INLINE void fetch_row(ls_dtype dtype, const void *p, int64_t at) {
    const char *from = (const char *)p + at * (dtype == LS_DTYPE_F32 ? 4 : 2);
    __builtin_prefetch(from);
    if (dtype == LS_DTYPE_F32) __builtin_prefetch(from + 64);
}

LS_INLINE row load_whole_row(ls_dtype dtype, const void *p, int64_t at) {
    if (dtype == LS_DTYPE_F32) return (row){{load16(dtype, p, at), load16(dtype, p, at + 16)}};
    v16u pairs;
    memcpy(&pairs, (const uint16_t *)p + at, sizeof pairs);
    if (dtype == LS_DTYPE_F16) return (row){{from_halves(pairs & 0xFFFF), from_halves(pairs >> 16)}};
    return (row){{(v16f)(pairs << 16), (v16f)(pairs & 0xFFFF0000u)}};
}

LS_INLINE void store_whole_row(ls_dtype dtype, void *p, int64_t at, row r) {
    if (dtype == LS_DTYPE_F32) {
        store16(dtype, p, at, r.v[0]);
        store16(dtype, p, at + 16, r.v[1]);
        return;
    }
    v16u pairs = dtype == LS_DTYPE_F16 ? to_halves(r.v[0]) | to_halves(r.v[1]) << 16
                                       : round16(r.v[0]) >> 16 | (round16(r.v[1]) & 0xFFFF0000u);
    memcpy((uint16_t *)p + at, &pairs, sizeof pairs);
}

// Not by a call, which would cost all vector registers.
LS_INLINE void copy_elements(ls_dtype dtype, void *to, const void *from, int64_t count) {
    if (count == 16 && dtype == LS_DTYPE_F32)
        memcpy(to, from, 64);
    else if (count == 16)
        memcpy(to, from, 32);
    else if (dtype == LS_DTYPE_F32)
        for (volatile int64_t i = 0; i < count; i++) ((float *)to)[i] = ((const float *)from)[i];
    else
        for (volatile int64_t i = 0; i < count; i++) ((uint16_t *)to)[i] = ((const uint16_t *)from)[i];
}

// Of a row the first `count` elements: the others read as zero, and are not written. 32 as a constant costs nothing.
LS_INLINE row load_row(ls_dtype dtype, const void *p, int64_t at, int64_t count) {
    if (count == ROW) return load_whole_row(dtype, p, at);
    _Alignas(64) char bytes[4 * ROW] = {0};
    copy_elements(dtype, bytes, (const char *)p + at * (dtype == LS_DTYPE_F32 ? 4 : 2), count);
    return load_whole_row(dtype, bytes, 0);
}

LS_INLINE void store_row(ls_dtype dtype, void *p, int64_t at, row r, int64_t count) {
    if (count == ROW) {
        store_whole_row(dtype, p, at, r);
        return;
    }
    _Alignas(64) char bytes[4 * ROW];
    store_whole_row(dtype, bytes, 0, r);
    copy_elements(dtype, (char *)p + at * (dtype == LS_DTYPE_F32 ? 4 : 2), bytes, count);
}

#endif
