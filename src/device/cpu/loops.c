#include "device/cpu/loops.h"

#include <string.h>

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

LS_INLINE float load1(ls_dtype dtype, const void *p, int64_t at) {
    return dtype == LS_DTYPE_F32 ? ((const float *)p)[at] : ls_bf16_to_float(((const ls_bf16 *)p)[at]);
}

LS_INLINE void store1(ls_dtype dtype, void *p, int64_t at, float v) {
    if (dtype == LS_DTYPE_F32)
        ((float *)p)[at] = v;
    else
        ((ls_bf16 *)p)[at] = ls_float_to_bf16(v);
}

// --- elementwise -----------------------------------------------------------------------------------------------------

LS_CLONES void ls__loop_accumulate(float *y, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] += x[i];
}

LS_INLINE void mask(ls_dtype dtype, void *dx, const void *dy, const void *x, int64_t n) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        store16(dtype, dx, i, select16(load16(dtype, x, i) > 0, load16(dtype, dy, i), (v16f){0}));
    for (; i < n; i++) store1(dtype, dx, i, load1(dtype, x, i) > 0 ? load1(dtype, dy, i) : 0);
}

LS_CLONES static void mask_f32(void *dx, const void *dy, const void *x, int64_t n) { mask(LS_DTYPE_F32, dx, dy, x, n); }
LS_CLONES static void mask_bf16(void *dx, const void *dy, const void *x, int64_t n) {
    mask(LS_DTYPE_BF16, dx, dy, x, n);
}

void ls__loop_mask(ls_dtype dtype, void *dx, const void *dy, const void *x, int64_t n) {
    (dtype == LS_DTYPE_F32 ? mask_f32 : mask_bf16)(dx, dy, x, n);
}

void ls__loop_relu(ls_dtype dtype, void *y, const void *x, int64_t n) { ls__loop_mask(dtype, y, x, x, n); }

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

LS_INLINE void scale_kept(ls_dtype dtype, void *y, const void *x, const uint8_t *keep, float factor, int64_t n) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        v16b bytes;
        memcpy(&bytes, keep + i, sizeof bytes);
        v16i kept = __builtin_convertvector(bytes, v16i) != 0;
        store16(dtype, y, i, select16(kept, load16(dtype, x, i) * factor, (v16f){0}));
    }
    for (; i < n; i++) store1(dtype, y, i, keep[i] ? load1(dtype, x, i) * factor : 0);
}

LS_CLONES static void scale_kept_f32(void *y, const void *x, const uint8_t *keep, float factor, int64_t n) {
    scale_kept(LS_DTYPE_F32, y, x, keep, factor, n);
}
LS_CLONES static void scale_kept_bf16(void *y, const void *x, const uint8_t *keep, float factor, int64_t n) {
    scale_kept(LS_DTYPE_BF16, y, x, keep, factor, n);
}

void ls__loop_scale_kept(ls_dtype dtype, void *y, const void *x, const uint8_t *keep, float factor, int64_t n) {
    (dtype == LS_DTYPE_F32 ? scale_kept_f32 : scale_kept_bf16)(y, x, keep, factor, n);
}

// --- pooling ---------------------------------------------------------------------------------------------------------

// The part of a window that lies inside the image.
typedef struct window {
    int64_t h0, h1, w0, w1;  // image rows and columns
    int first;               // window index of (h0, w0)
} window;

LS_INLINE window window_at(const ls_pool_shape *s, int64_t oh, int64_t ow) {
    int64_t h = oh * s->strides[0] - s->pad_top, w = ow * s->strides[1] - s->pad_left;
    window r = {h < 0 ? 0 : h, h + s->kernel[0], w < 0 ? 0 : w, w + s->kernel[1], 0};
    if (r.h1 > s->height) r.h1 = s->height;
    if (r.w1 > s->width) r.w1 = s->width;
    r.first = (int)((r.h0 - h) * s->kernel[1] + (r.w0 - w));
    return r;
}

LS_INLINE void max16(ls_dtype dtype, const ls_pool_shape *s, const window *win, const void *x, int64_t plane, int64_t c,
                     void *y, uint8_t *index, int64_t at) {
    v16f best = load16(dtype, x, plane + (win->h0 * s->width + win->w0) * s->block + c);
    v16i where = (v16i){0} + win->first;
    for (int64_t h = win->h0; h < win->h1; h++)
        for (int64_t w = win->w0; w < win->w1; w++) {
            v16f v = load16(dtype, x, plane + (h * s->width + w) * s->block + c);
            v16i more = v > best;
            int k = win->first + (int)((h - win->h0) * s->kernel[1] + (w - win->w0));
            best = select16(more, v, best);
            where = (more & k) | (~more & where);
        }
    store16(dtype, y, at, best);
    if (!index) return;
    if (s->mask) where |= ~(v16i)(best > 0);  // all ones: 255 as a byte
    v16b bytes = __builtin_convertvector(where, v16b);
    memcpy(index + at, &bytes, sizeof bytes);
}

LS_INLINE void max1(ls_dtype dtype, const ls_pool_shape *s, const window *win, const void *x, int64_t plane, int64_t c,
                    void *y, uint8_t *index, int64_t at) {
    float best = load1(dtype, x, plane + (win->h0 * s->width + win->w0) * s->block + c);
    int where = win->first;
    for (int64_t h = win->h0; h < win->h1; h++)
        for (int64_t w = win->w0; w < win->w1; w++) {
            float v = load1(dtype, x, plane + (h * s->width + w) * s->block + c);
            if (v > best) {
                best = v;
                where = win->first + (int)((h - win->h0) * s->kernel[1] + (w - win->w0));
            }
        }
    store1(dtype, y, at, best);
    if (index) index[at] = s->mask && !(best > 0) ? 255 : (uint8_t)where;
}

LS_INLINE void max_pool(ls_dtype dtype, const ls_pool_shape *s, const void *x, void *y, uint8_t *index) {
    int64_t at = 0;
    for (int64_t p = 0; p < s->planes; p++) {
        int64_t plane = p * s->height * s->width * s->block;
        for (int64_t oh = 0; oh < s->out_height; oh++)
            for (int64_t ow = 0; ow < s->out_width; ow++) {
                window win = window_at(s, oh, ow);
                int64_t c = 0;
                for (; c + 16 <= s->block; c += 16) max16(dtype, s, &win, x, plane, c, y, index, at + c);
                for (; c < s->block; c++) max1(dtype, s, &win, x, plane, c, y, index, at + c);
                at += s->block;
            }
    }
}

LS_CLONES static void max_pool_f32(const ls_pool_shape *s, const void *x, void *y, uint8_t *index) {
    max_pool(LS_DTYPE_F32, s, x, y, index);
}
LS_CLONES static void max_pool_bf16(const ls_pool_shape *s, const void *x, void *y, uint8_t *index) {
    max_pool(LS_DTYPE_BF16, s, x, y, index);
}

void ls__loop_max_pool(ls_dtype dtype, const ls_pool_shape *s, const void *x, void *y, uint8_t *index) {
    (dtype == LS_DTYPE_F32 ? max_pool_f32 : max_pool_bf16)(s, x, y, index);
}

// Which output positions' windows cover image position `at` along one dimension: [*first, *last].
LS_INLINE void covering(int64_t at, int pad, int kernel, int stride, int64_t out, int64_t *first, int64_t *last) {
    int64_t padded = at + pad;
    *first = padded < kernel ? 0 : (padded - kernel) / stride + 1;
    *last = padded / stride;
    if (*last >= out) *last = out - 1;
}

// Windows that do not overlap: every gradient goes to one element of its window, the window's other elements get zero, and
// so does what no window covers.
LS_INLINE void max_pool_backward_apart(ls_dtype dtype, const ls_pool_shape *s, const void *dy, const uint8_t *index,
                                       void *dx) {
    int64_t row = s->width * s->block, covered_w = s->out_width * s->strides[1],
            covered_h = s->out_height * s->strides[0];
    int64_t size = (int64_t)ls_dtype_size(dtype), from = 0;
    for (int64_t p = 0; p < s->planes; p++) {
        int64_t plane = p * s->height * row;
        for (int64_t oh = 0; oh < s->out_height; oh++) {
            int64_t at = plane + oh * s->strides[0] * row;
            for (int64_t ow = 0; ow < s->out_width; ow++, at += s->strides[1] * s->block)
                for (int64_t c = 0; c < s->block; c += 16, from += 16) {
                    v16b bytes;
                    memcpy(&bytes, index + from, sizeof bytes);
                    v16i where = __builtin_convertvector(bytes, v16i);
                    v16f g = load16(dtype, dy, from);
                    for (int kh = 0; kh < s->kernel[0]; kh++)
                        for (int kw = 0; kw < s->kernel[1]; kw++)
                            store16(dtype, dx, at + kh * row + kw * s->block + c,
                                    select16(where == kh * s->kernel[1] + kw, g, (v16f){0}));
                }
            if (covered_w < s->width)
                for (int kh = 0; kh < s->kernel[0]; kh++)
                    memset((char *)dx + (plane + (oh * s->strides[0] + kh) * row + covered_w * s->block) * size, 0,
                           (size_t)((s->width - covered_w) * s->block * size));
        }
        memset((char *)dx + (plane + covered_h * row) * size, 0, (size_t)((s->height - covered_h) * row * size));
    }
}

LS_INLINE int windows_apart(const ls_pool_shape *s) {
    return s->kernel[0] == s->strides[0] && s->kernel[1] == s->strides[1] && !s->pad_top && !s->pad_left &&
           s->block % 16 == 0 && s->out_height * s->strides[0] <= s->height && s->out_width * s->strides[1] <= s->width;
}

// Any windows: every element of DX sums, in float, the gradients of the windows whose maximum it was, and is written once.
LS_INLINE void max_pool_backward(ls_dtype dtype, const ls_pool_shape *s, const void *dy, const uint8_t *index,
                                 void *dx) {
    int64_t at = 0;
    for (int64_t p = 0; p < s->planes; p++) {
        int64_t plane = p * s->out_height * s->out_width * s->block;
        for (int64_t h = 0; h < s->height; h++) {
            int64_t oh0, oh1;
            covering(h, s->pad_top, s->kernel[0], s->strides[0], s->out_height, &oh0, &oh1);
            for (int64_t w = 0; w < s->width; w++, at += s->block) {
                int64_t ow0, ow1;
                covering(w, s->pad_left, s->kernel[1], s->strides[1], s->out_width, &ow0, &ow1);
                for (int64_t c = 0; c < s->block; c++) {
                    float sum = 0;
                    for (int64_t oh = oh0; oh <= oh1; oh++)
                        for (int64_t ow = ow0; ow <= ow1; ow++) {
                            int64_t from = plane + (oh * s->out_width + ow) * s->block + c;
                            int k = (int)((h + s->pad_top - oh * s->strides[0]) * s->kernel[1] +
                                          (w + s->pad_left - ow * s->strides[1]));
                            sum += index[from] == k ? load1(dtype, dy, from) : 0;
                        }
                    store1(dtype, dx, at + c, sum);
                }
            }
        }
    }
}

LS_CLONES static void max_pool_backward_f32(const ls_pool_shape *s, const void *dy, const uint8_t *index, void *dx) {
    if (windows_apart(s))
        max_pool_backward_apart(LS_DTYPE_F32, s, dy, index, dx);
    else
        max_pool_backward(LS_DTYPE_F32, s, dy, index, dx);
}
LS_CLONES static void max_pool_backward_bf16(const ls_pool_shape *s, const void *dy, const uint8_t *index, void *dx) {
    if (windows_apart(s))
        max_pool_backward_apart(LS_DTYPE_BF16, s, dy, index, dx);
    else
        max_pool_backward(LS_DTYPE_BF16, s, dy, index, dx);
}

void ls__loop_max_pool_backward(ls_dtype dtype, const ls_pool_shape *s, const void *dy, const uint8_t *index,
                                void *dx) {
    (dtype == LS_DTYPE_F32 ? max_pool_backward_f32 : max_pool_backward_bf16)(s, dy, index, dx);
}

// --- average pooling -------------------------------------------------------------------------------------------------

LS_CLONES void ls__loop_average_pool(ls_dtype dtype, const ls_pool_shape *s, const void *x, void *y) {
    int64_t at = 0;
    for (int64_t p = 0; p < s->planes; p++) {
        int64_t plane = p * s->height * s->width * s->block;
        for (int64_t oh = 0; oh < s->out_height; oh++)
            for (int64_t ow = 0; ow < s->out_width; ow++, at += s->block) {
                window win = window_at(s, oh, ow);
                float area = (float)((win.h1 - win.h0) * (win.w1 - win.w0));
                for (int64_t c = 0; c < s->block; c++) {
                    float sum = 0;
                    for (int64_t h = win.h0; h < win.h1; h++)
                        for (int64_t w = win.w0; w < win.w1; w++)
                            sum += load1(dtype, x, plane + (h * s->width + w) * s->block + c);
                    store1(dtype, y, at + c, sum / area);
                }
            }
    }
}

LS_CLONES void ls__loop_average_pool_backward(ls_dtype dtype, const ls_pool_shape *s, const void *dy, const void *x,
                                              void *dx) {
    int64_t at = 0;
    for (int64_t p = 0; p < s->planes; p++) {
        int64_t plane = p * s->out_height * s->out_width * s->block;
        for (int64_t h = 0; h < s->height; h++) {
            int64_t oh0, oh1;
            covering(h, s->pad_top, s->kernel[0], s->strides[0], s->out_height, &oh0, &oh1);
            for (int64_t w = 0; w < s->width; w++, at += s->block) {
                int64_t ow0, ow1;
                covering(w, s->pad_left, s->kernel[1], s->strides[1], s->out_width, &ow0, &ow1);
                for (int64_t c = 0; c < s->block; c++) {
                    float sum = 0;
                    for (int64_t oh = oh0; oh <= oh1; oh++)
                        for (int64_t ow = ow0; ow <= ow1; ow++) {
                            window win = window_at(s, oh, ow);
                            float area = (float)((win.h1 - win.h0) * (win.w1 - win.w0));
                            sum += load1(dtype, dy, plane + (oh * s->out_width + ow) * s->block + c) / area;
                        }
                    int pass = !s->mask || load1(dtype, x, at + c) > 0;
                    store1(dtype, dx, at + c, pass ? sum : 0);
                }
            }
        }
    }
}
