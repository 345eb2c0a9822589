// The loops of winograd.h, for files that inline them.
#ifndef LS_DEVICE_CPU_WINOGRAD_IMPL_H
#define LS_DEVICE_CPU_WINOGRAD_IMPL_H

#include "device/cpu/conv2d_ending_impl.h"
#include "device/cpu/winograd.h"

LS_INLINE void filters_16(const ls_bf16 *w, int64_t count, int flipped, ls_bf16 *u, int64_t position) {
    v16f g[9], t[12];  // (3, 3), (4, 3)
#pragma GCC unroll 9
    for (int i = 0; i < 9; i++) g[i] = load16(LS_DTYPE_BF16, w, (flipped ? 8 - i : i) * count);
#pragma GCC unroll 3
    for (int j = 0; j < 3; j++) {
        v16f ends = g[j] + g[6 + j];
        t[j] = g[j];
        t[3 + j] = (ends + g[3 + j]) * 0.5f;
        t[6 + j] = (ends - g[3 + j]) * 0.5f;
        t[9 + j] = g[6 + j];
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        v16f a = t[3 * i], b = t[3 * i + 1], c = t[3 * i + 2], ends = a + c;
        store16(LS_DTYPE_BF16, u, (4 * i) * position, a);
        store16(LS_DTYPE_BF16, u, (4 * i + 1) * position, (ends + b) * 0.5f);
        store16(LS_DTYPE_BF16, u, (4 * i + 2) * position, (ends - b) * 0.5f);
        store16(LS_DTYPE_BF16, u, (4 * i + 3) * position, c);
    }
}

LS_INLINE void filters(const ls_bf16 *w, int64_t count, int flipped, ls_bf16 *u, int64_t position) {
    for (int64_t i = 0; i < count; i += 16) filters_16(w + i, count, flipped, u + i, position);
}

// Number i of B' d.
LS_INLINE v16f patch_row(int i, const v16f d[4]) {
    return i == 0 ? d[0] - d[2] : i == 1 ? d[1] + d[2] : i == 2 ? d[2] - d[1] : d[1] - d[3];
}

LS_INLINE void patch_rows(const ls_winograd_patch *p, int begin, int end, int64_t first, int64_t blocks, ls_bf16 *v,
                          int64_t position) {
    for (int64_t b = 0; b < blocks; b++) {
        v16f t[LS_WINOGRAD];
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            v16f d[4];
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++)
                d[i] = load16(LS_DTYPE_BF16, p->pixel[4 * i + j], (first + b) * p->block[4 * i + j]);
#pragma GCC unroll 4
            for (int i = begin; i < end; i++) t[4 * i + j] = patch_row(i, d);
        }
#pragma GCC unroll 4
        for (int i = begin; i < end; i++) {
            const v16f *d = t + 4 * i;
            ls_bf16 *to = v + b * 16 + 4 * i * position;
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) store16(LS_DTYPE_BF16, to, j * position, patch_row(j, d));
        }
    }
}

LS_INLINE void patch(const ls_winograd_patch *p, ls_winograd_rows rows, int64_t first, int64_t blocks, ls_bf16 *v,
                     int64_t position) {
    if (rows == LS_WINOGRAD_ALL)
        patch_rows(p, 0, 4, first, blocks, v, position);
    else if (rows == LS_WINOGRAD_UPPER)
        patch_rows(p, 0, 2, first, blocks, v, position);
    else
        patch_rows(p, 2, 4, first, blocks, v, position);
}

// Two vectors of 16 numbers, rounded, in turn.
LS_INLINE void store_pairs(ls_bf16 *to, v16f even, v16f odd) {
#ifdef LS_LOOPS_BF16
    const __m512i in_turn = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                             21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    __m512i pairs = _mm512_permutexvar_epi16(in_turn, (__m512i)_mm512_cvtne2ps_pbh((__m512)odd, (__m512)even));
#else
    v16u pairs = round16(even) >> 16 | (round16(odd) & 0xFFFF0000u);
#endif
    memcpy(to, &pairs, sizeof pairs);
}

// Number i of A dy.
LS_INLINE v16f gradient_row(int i, const v16f y[2]) {
    return i == 0 ? y[0] : i == 1 ? y[0] + y[1] : i == 2 ? y[0] - y[1] : -y[1];
}

LS_INLINE void gradient_rows(const ls_bf16 *dy, const ls_winograd_place places[2], int begin, int end, int64_t blocks,
                             ls_bf16 *d, int64_t column, int64_t position) {
    for (int64_t b = 0; b < blocks; b++) {
        v16f t[2][8];  // (4, 2)
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++)
#pragma GCC unroll 2
            for (int j = 0; j < 2; j++) {
                v16f y[2];
#pragma GCC unroll 2
                for (int i = 0; i < 2; i++) {
                    int64_t at = places[h].pixel[2 * i + j];
                    y[i] = at < 0 ? (v16f){0} : load16(LS_DTYPE_BF16, dy, at + b * places[h].block);
                }
#pragma GCC unroll 4
                for (int i = begin; i < end; i++) t[h][2 * i + j] = gradient_row(i, y);
            }
#pragma GCC unroll 4
        for (int i = begin; i < end; i++) {
            const v16f *even = t[0] + 2 * i, *odd = t[1] + 2 * i;
            ls_bf16 *to = d + b * column + 4 * i * position;
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) store_pairs(to + j * position, gradient_row(j, even), gradient_row(j, odd));
        }
    }
}

LS_INLINE void gradients(const ls_bf16 *dy, const ls_winograd_place places[2], ls_winograd_rows rows, int64_t blocks,
                         ls_bf16 *d, int64_t column, int64_t position) {
    if (rows == LS_WINOGRAD_ALL)
        gradient_rows(dy, places, 0, 4, blocks, d, column, position);
    else if (rows == LS_WINOGRAD_UPPER)
        gradient_rows(dy, places, 0, 2, blocks, d, column, position);
    else
        gradient_rows(dy, places, 2, 4, blocks, d, column, position);
}

LS_INLINE void weights(const float *m, int64_t position, int64_t count, float *dw, int64_t tap) {
    for (int64_t at = 0; at < count; at += 16) {
        v16f t[12];  // (3, 4)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            v16f c[4];
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) c[i] = load16(LS_DTYPE_F32, m, at + (4 * i + j) * position);
            v16f sum = (c[1] + c[2]) * 0.5f;
            t[j] = c[0] + sum;
            t[4 + j] = (c[1] - c[2]) * 0.5f;
            t[8 + j] = sum + c[3];
        }
#pragma GCC unroll 3
        for (int i = 0; i < 3; i++) {
            const v16f *c = t + 4 * i;
            v16f sum = (c[1] + c[2]) * 0.5f;
            store16(LS_DTYPE_F32, dw, at + (3 * i) * tap, c[0] + sum);
            store16(LS_DTYPE_F32, dw, at + (3 * i + 1) * tap, (c[1] - c[2]) * 0.5f);
            store16(LS_DTYPE_F32, dw, at + (3 * i + 2) * tap, sum + c[3]);
        }
    }
}

LS_INLINE void result_as(ls_dtype dtype, const float *m, int64_t position, const ls_winograd_place *place,
                         int64_t column, int64_t blocks, const ls_conv2d_ending *e) {
    for (int64_t b = 0; b < blocks; b++) {
        v16f t[8];  // (2, 4)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            v16f c[4];
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) c[i] = load16(LS_DTYPE_F32, m, b * 16 + (4 * i + j) * position);
            t[j] = c[0] + c[1] + c[2];
            t[4 + j] = c[1] - c[2] - c[3];
        }
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            const v16f *c = t + 4 * i;
            v16f y[2] = {c[0] + c[1] + c[2], c[1] - c[2] - c[3]};
#pragma GCC unroll 2
            for (int j = 0; j < 2; j++)
                if (place->pixel[2 * i + j] >= 0)
                    end16(dtype, e, place->pixel[2 * i + j] + (column / 16 + b) * place->block, column + b * 16, y[j]);
        }
    }
}

LS_INLINE void result(const float *m, int64_t position, const ls_winograd_place *place, int64_t column, int64_t blocks,
                      const ls_conv2d_ending *e) {
    if (e->dtype == LS_DTYPE_BF16)
        result_as(LS_DTYPE_BF16, m, position, place, column, blocks, e);
    else
        result_as(LS_DTYPE_F32, m, position, place, column, blocks, e);
}

#endif
