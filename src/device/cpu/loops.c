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

LS_INLINE v16f select16(v16i which, v16f a, v16f b) {
    return (v16f)((which & (v16i)a) | (~which & (v16i)b));
}

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
LS_CLONES static void mask_bf16(void *dx, const void *dy, const void *x, int64_t n) { mask(LS_DTYPE_BF16, dx, dy, x, n); }

void ls__loop_mask(ls_dtype dtype, void *dx, const void *dy, const void *x, int64_t n) {
    (dtype == LS_DTYPE_F32 ? mask_f32 : mask_bf16)(dx, dy, x, n);
}

void ls__loop_relu(ls_dtype dtype, void *y, const void *x, int64_t n) { ls__loop_mask(dtype, y, x, x, n); }

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

// Backward gathers: every element of DX sums, in float, the gradients of the windows whose maximum it was, and is written
// once.
LS_INLINE void max_pool_backward(ls_dtype dtype, const ls_pool_shape *s, const void *dy, const uint8_t *index, void *dx) {
    int64_t at = 0;
    for (int64_t p = 0; p < s->planes; p++) {
        int64_t plane = p * s->out_height * s->out_width * s->block;
        for (int64_t h = 0; h < s->height; h++) {
            int64_t oh0, oh1;
            covering(h, s->pad_top, s->kernel[0], s->strides[0], s->out_height, &oh0, &oh1);
            for (int64_t w = 0; w < s->width; w++, at += s->block) {
                int64_t ow0, ow1, c = 0;
                covering(w, s->pad_left, s->kernel[1], s->strides[1], s->out_width, &ow0, &ow1);
                for (; c + 16 <= s->block; c += 16) {
                    v16f sum = {0};
                    for (int64_t oh = oh0; oh <= oh1; oh++)
                        for (int64_t ow = ow0; ow <= ow1; ow++) {
                            int64_t from = plane + (oh * s->out_width + ow) * s->block + c;
                            int k = (int)((h + s->pad_top - oh * s->strides[0]) * s->kernel[1] +
                                          (w + s->pad_left - ow * s->strides[1]));
                            v16b bytes;
                            memcpy(&bytes, index + from, sizeof bytes);
                            v16i here = __builtin_convertvector(bytes, v16i) == k;
                            sum += select16(here, load16(dtype, dy, from), (v16f){0});
                        }
                    store16(dtype, dx, at + c, sum);
                }
                for (; c < s->block; c++) {
                    float sum = 0;
                    for (int64_t oh = oh0; oh <= oh1; oh++)
                        for (int64_t ow = ow0; ow <= ow1; ow++) {
                            int64_t from = plane + (oh * s->out_width + ow) * s->block + c;
                            int k = (int)((h + s->pad_top - oh * s->strides[0]) * s->kernel[1] +
                                          (w + s->pad_left - ow * s->strides[1]));
                            if (index[from] == k) sum += load1(dtype, dy, from);
                        }
                    store1(dtype, dx, at + c, sum);
                }
            }
        }
    }
}

LS_CLONES static void max_pool_backward_f32(const ls_pool_shape *s, const void *dy, const uint8_t *index, void *dx) {
    max_pool_backward(LS_DTYPE_F32, s, dy, index, dx);
}
LS_CLONES static void max_pool_backward_bf16(const ls_pool_shape *s, const void *dy, const uint8_t *index, void *dx) {
    max_pool_backward(LS_DTYPE_BF16, s, dy, index, dx);
}

void ls__loop_max_pool_backward(ls_dtype dtype, const ls_pool_shape *s, const void *dy, const uint8_t *index, void *dx) {
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
