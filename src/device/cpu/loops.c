#include "device/cpu/loops.h"

#include "device/cpu/loops_impl.h"

// --- elementwise -----------------------------------------------------------------------------------------------------

LS_INLINE void mask_row(ls_dtype dtype, void *dx, const void *dy, const void *x, int64_t i, int64_t count) {
    row r = load_row(dtype, dy, i, count), by = load_row(dtype, x, i, count);
    for (int h = 0; h < 2; h++) r.v[h] = where16(positive16(by.v[h]), r.v[h]);
    store_row(dtype, dx, i, r, count);
}

LS_INLINE void mask(ls_dtype dtype, void *dx, const void *dy, const void *x, int64_t n) {
    int64_t i = 0;
    for (; i + ROW <= n; i += ROW) mask_row(dtype, dx, dy, x, i, ROW);
    if (i < n) mask_row(dtype, dx, dy, x, i, n - i);
}

LS_CLONES static void mask_f32(void *dx, const void *dy, const void *x, int64_t n) { mask(LS_DTYPE_F32, dx, dy, x, n); }
LS_CLONES static void mask_bf16(void *dx, const void *dy, const void *x, int64_t n) {
    mask(LS_DTYPE_BF16, dx, dy, x, n);
}
LS_CLONES static void mask_fp16(void *dx, const void *dy, const void *x, int64_t n) {
    mask(LS_DTYPE_F16, dx, dy, x, n);
}

void ls__loop_mask(ls_dtype dtype, void *dx, const void *dy, const void *x, int64_t n) {
    (dtype == LS_DTYPE_F32 ? mask_f32 : dtype == LS_DTYPE_F16 ? mask_fp16 : mask_bf16)(dx, dy, x, n);
}

void ls__loop_relu(ls_dtype dtype, void *y, const void *x, int64_t n) { ls__loop_mask(dtype, y, x, x, n); }

LS_INLINE void add_row(ls_dtype dtype, void *y, const void *x, const void *x2, int relu, int64_t i, int64_t count) {
    row r = load_row(dtype, x, i, count), other = load_row(dtype, x2, i, count);
    for (int h = 0; h < 2; h++) {
        r.v[h] += other.v[h];
        if (relu) r.v[h] = relu16(r.v[h]);
    }
    store_row(dtype, y, i, r, count);
}

LS_INLINE void add(ls_dtype dtype, void *y, const void *x, const void *x2, int relu, int64_t n) {
    int64_t i = 0;
    for (; i + ROW <= n; i += ROW) add_row(dtype, y, x, x2, relu, i, ROW);
    if (i < n) add_row(dtype, y, x, x2, relu, i, n - i);
}

LS_CLONES static void add_f32(void *y, const void *x, const void *x2, int relu, int64_t n) {
    add(LS_DTYPE_F32, y, x, x2, relu, n);
}
LS_CLONES static void add_bf16(void *y, const void *x, const void *x2, int relu, int64_t n) {
    add(LS_DTYPE_BF16, y, x, x2, relu, n);
}
LS_CLONES static void add_fp16(void *y, const void *x, const void *x2, int relu, int64_t n) {
    add(LS_DTYPE_F16, y, x, x2, relu, n);
}

void ls__loop_add(ls_dtype dtype, void *y, const void *x, const void *x2, int relu, int64_t n) {
    (dtype == LS_DTYPE_F32 ? add_f32 : dtype == LS_DTYPE_F16 ? add_fp16 : add_bf16)(y, x, x2, relu, n);
}

// --- dropout ---------------------------------------------------------------------------------------------------------

// Philox for sixteen neighbouring counters at once; the same numbers as ls_dropout_words gives one at a time.
LS_CLONES void ls__loop_dropout_keep(uint64_t key, uint64_t sample, uint32_t stream, uint32_t threshold, uint8_t *keep,
                                     int64_t n) {
    for (int64_t e = 0; e < n; e += 64) {
        uint32_t c0[16], c1[16], c2[16], c3[16], k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
        for (int i = 0; i < 16; i++) {
            c0[i] = (uint32_t)(e / 4) + (uint32_t)i;
            c1[i] = (uint32_t)sample;
            c2[i] = (uint32_t)(sample >> 32);
            c3[i] = stream;
        }
        for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
            for (int i = 0; i < 16; i++) {
                uint64_t p0 = (uint64_t)0xD2511F53u * c0[i], p1 = (uint64_t)0xCD9E8D57u * c2[i];
                c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
                c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
                c1[i] = (uint32_t)p1;
                c3[i] = (uint32_t)p0;
            }
        uint8_t block[64];
        for (int i = 0; i < 16; i++) {
            block[4 * i] = c0[i] >= threshold, block[4 * i + 1] = c1[i] >= threshold;
            block[4 * i + 2] = c2[i] >= threshold, block[4 * i + 3] = c3[i] >= threshold;
        }
        memcpy(keep + e, block, (size_t)(n - e < 64 ? n - e : 64));
    }
}

LS_INLINE void scale_kept16(ls_dtype dtype, void *y, const void *x, const uint8_t *keep, float factor, int64_t i,
                            int64_t lanes) {
    v16b bytes = {0};
    memcpy(&bytes, keep + i, (size_t)lanes);
    v16i kept = -(v16i)from_bytes(bytes);  // from 0 or 1
    store_lanes(dtype, y, i, where16(kept, load_lanes(dtype, x, i, lanes) * factor), lanes);
}

LS_INLINE void scale_kept(ls_dtype dtype, void *y, const void *x, const uint8_t *keep, float factor, int64_t n) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) scale_kept16(dtype, y, x, keep, factor, i, 16);
    if (i < n) scale_kept16(dtype, y, x, keep, factor, i, n - i);
}

LS_CLONES static void scale_kept_f32(void *y, const void *x, const uint8_t *keep, float factor, int64_t n) {
    scale_kept(LS_DTYPE_F32, y, x, keep, factor, n);
}
LS_CLONES static void scale_kept_bf16(void *y, const void *x, const uint8_t *keep, float factor, int64_t n) {
    scale_kept(LS_DTYPE_BF16, y, x, keep, factor, n);
}
LS_CLONES static void scale_kept_fp16(void *y, const void *x, const uint8_t *keep, float factor, int64_t n) {
    scale_kept(LS_DTYPE_F16, y, x, keep, factor, n);
}

void ls__loop_scale_kept(ls_dtype dtype, void *y, const void *x, const uint8_t *keep, float factor, int64_t n) {
    (dtype == LS_DTYPE_F32   ? scale_kept_f32
     : dtype == LS_DTYPE_F16 ? scale_kept_fp16
                             : scale_kept_bf16)(y, x, keep, factor, n);
}
