// Max pooling over images in blocks of channels, and what all pooling needs, whatever the instructions (LS_LOOPS_BF16: those of AVX512-BF16).
#ifndef LS_DEVICE_CPU_POOL_LOOPS_IMPL_H
#define LS_DEVICE_CPU_POOL_LOOPS_IMPL_H

#include "device/cpu/loops.h"
#include "device/cpu/loops_impl.h"

// --- max pooling -----------------------------------------------------------------------------------------------------

// The part of a window that lies inside the image, which may be none of it.
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

// Where no gradient passes. All ones, so that it is 255 as a byte.
enum { NOWHERE = -1 };

typedef struct maximum {
    v16f best;
    v16i where;
} maximum;

// The maximum so far, or what is greater: that of window index k.
LS_INLINE maximum or_greater(maximum m, v16f v, int k) {
#ifdef LS_LOOPS_BF16
    __mmask16 more = _mm512_cmp_ps_mask((__m512)v, (__m512)m.best, _CMP_NLE_UQ);
    m.best = (v16f)_mm512_mask_mov_ps((__m512)m.best, more, (__m512)v);
    m.where = (v16i)_mm512_mask_set1_epi32((__m512i)m.where, more, k);
#else
    v16i more = greater16(v, m.best);
    m.best = select16(more, v, m.best);
    m.where = (more & k) | (~more & m.where);
#endif
    return m;
}

// Padding whose turn it is, in row-major order, when the maximum so far is this.
LS_INLINE maximum with_zero(maximum m) { return or_greater(m, (v16f){0}, NOWHERE); }

// The maximum over a window, for `lanes` channels that begin at `from` in the image's first pixel.
LS_INLINE maximum maximum_of(ls_dtype dtype, const ls_pool_shape *s, int64_t oh, int64_t ow, const void *x,
                             int64_t from, int64_t lanes) {
    window win = window_at(s, oh, ow);
    int empty = win.h0 >= win.h1 || win.w0 >= win.w1;
    int clipped_below = oh * s->strides[0] - s->pad_top + s->kernel[0] > s->height;
    int clipped_right = ow * s->strides[1] - s->pad_left + s->kernel[1] > s->width;
    maximum m = {(v16f){0}, (v16i){0} + NOWHERE};  // as a window does that begins in the padding
    if (empty) return m;
    if (!s->pad_zeros || win.first == 0) {
        m.best = load_lanes(dtype, x, from + (win.h0 * s->width + win.w0) * s->block, lanes);
        m.where = (v16i){0} + win.first;
    }
    for (int64_t h = win.h0; h < win.h1; h++) {
        for (int64_t w = win.w0; w < win.w1; w++) {
            v16f v = load_lanes(dtype, x, from + (h * s->width + w) * s->block, lanes);
            m = or_greater(m, v, win.first + (int)((h - win.h0) * s->kernel[1] + (w - win.w0)));
        }
        if (s->pad_zeros && clipped_right) m = with_zero(m);
    }
    return s->pad_zeros && clipped_below ? with_zero(m) : m;
}

// The same of row i of a window of kw columns that lies inside the image, and all sixteen lanes: goes on from `m`, which is that of the rows above.
LS_INLINE maximum maximum_of_row(ls_dtype dtype, int64_t block, int i, int kw, const void *x, int64_t from, maximum m) {
    if (i == 0) m = (maximum){load16(dtype, x, from), (v16i){0}};
    for (int j = i ? 0 : 1; j < kw; j++) m = or_greater(m, load16(dtype, x, from + j * block), i * kw + j);
    return m;
}

LS_INLINE void put_maximum(ls_dtype dtype, const ls_pool_shape *s, maximum m, int64_t at, int64_t lanes, void *y,
                           uint8_t *index) {
    store_lanes_exact(dtype, y, at, m.best, lanes);
    if (!index) return;
    if (s->mask) m.where |= ~positive16(m.best);
    v16b bytes = to_bytes(m.where);
    if (lanes == 16)
        memcpy(index + at, &bytes, 16);
    else
        for (int64_t i = 0; i < lanes; i++) index[at + i] = bytes[i];
}

// One output pixel, wherever its window lies.
LS_INLINE void max_pool_pixel(ls_dtype dtype, const ls_pool_shape *s, int64_t oh, int64_t ow, int64_t plane, int64_t at,
                              const void *x, void *y, uint8_t *index) {
    for (int64_t c = 0; c < s->block; c += 16) {
        int64_t lanes = s->block - c < 16 ? s->block - c : 16;
        maximum m = lanes == 16 ? maximum_of(dtype, s, oh, ow, x, plane + c, 16)
                                : maximum_of(dtype, s, oh, ow, x, plane + c, lanes);
        put_maximum(dtype, s, m, at + c, lanes, y, index);
    }
}

// Vectors of a row of windows that go on from one row of the image to the next, in the first-level cache. So the image is read from one end to the other, and the
// processor fetches ahead; of windows that are read one by one it takes the lines that it has asked for, which are too few.
enum { TURN = 64 };

// Row i of `count` windows, whose corners begin at `from`; the last row of a window writes its maximum.
LS_INLINE void max_pool_turn(ls_dtype dtype, const ls_pool_shape *s, int i, int last, int kw, int64_t count,
                             int64_t from, int64_t at, const void *x, void *y, uint8_t *index, maximum *found) {
    const int64_t block = s->block, step = s->strides[1] * block;
    from += i * s->width * block;
    for (int64_t n = 0; n < count; n++, from += step, at += block)
        for (int64_t c = 0; c < block; c += 16, found++) {
            maximum m = maximum_of_row(dtype, block, i, kw, x, from + c, i ? *found : (maximum){0});
            if (last)
                put_maximum(dtype, s, m, at + c, 16, y, index);
            else
                *found = m;
        }
}

// A row of output pixels whose windows all lie inside the image; `from` is the first one's corner. With the kernel's sizes
// as constants the loops over a window unroll.
LS_INLINE void max_pool_inside(ls_dtype dtype, const ls_pool_shape *s, int kh, int kw, int64_t count, int64_t from,
                               int64_t at, const void *x, void *y, uint8_t *index) {
    const int64_t block = s->block, most = TURN * 16 / block;
    maximum found[TURN];
    if (most == 0) {  // so many channels that a pixel is a stream by itself
        for (int64_t n = 0; n < count; n++, from += s->strides[1] * block, at += block)
            for (int64_t c = 0; c < block; c += 16) {
                maximum m = maximum_of_row(dtype, block, 0, kw, x, from + c, (maximum){0});
                for (int i = 1; i < kh; i++)
                    m = maximum_of_row(dtype, block, i, kw, x, from + c + i * s->width * block, m);
                put_maximum(dtype, s, m, at + c, 16, y, index);
            }
        return;
    }
    for (int64_t n = 0; n < count; n += most, from += most * s->strides[1] * block, at += most * block) {
        int64_t turn = count - n < most ? count - n : most;
        max_pool_turn(dtype, s, 0, kh == 1, kw, turn, from, at, x, y, index, found);
        for (int i = 1; i < kh - 1; i++) max_pool_turn(dtype, s, i, 0, kw, turn, from, at, x, y, index, found);
        if (kh > 1) max_pool_turn(dtype, s, kh - 1, 1, kw, turn, from, at, x, y, index, found);
    }
}

// The output positions along one dimension whose windows lie inside the image: [*first, *end).
LS_INLINE void inside(int64_t size, int pad, int kernel, int stride, int64_t out, int64_t *first, int64_t *end) {
    *first = (pad + stride - 1) / stride;
    *end = size + pad < kernel ? 0 : (size + pad - kernel) / stride + 1;
    if (*end > out) *end = out;
    if (*first > *end) *first = *end;
}

LS_INLINE void max_pool(ls_dtype dtype, const ls_pool_shape *s, const void *x, void *y, uint8_t *index) {
    const int *k = s->kernel;
    int64_t oh0, oh1, ow0, ow1, at = 0;
    inside(s->height, s->pad_top, k[0], s->strides[0], s->out_height, &oh0, &oh1);
    inside(s->width, s->pad_left, k[1], s->strides[1], s->out_width, &ow0, &ow1);
    if (s->block % 16) oh1 = oh0;
    for (int64_t p = 0; p < s->planes; p++) {
        int64_t plane = p * s->height * s->width * s->block;
        for (int64_t oh = 0; oh < s->out_height; oh++) {
            int64_t ow = 0, count = oh >= oh0 && oh < oh1 ? ow1 - ow0 : 0;
            for (; ow < (count ? ow0 : s->out_width); ow++, at += s->block)
                max_pool_pixel(dtype, s, oh, ow, plane, at, x, y, index);
            int64_t h = oh * s->strides[0] - s->pad_top, w = ow * s->strides[1] - s->pad_left,
                    from = plane + (h * s->width + w) * s->block;
            if (k[0] == 3 && k[1] == 3)
                max_pool_inside(dtype, s, 3, 3, count, from, at, x, y, index);
            else if (k[0] == 2 && k[1] == 2)
                max_pool_inside(dtype, s, 2, 2, count, from, at, x, y, index);
            else if (k[0] == 1 && k[1] == 1)
                max_pool_inside(dtype, s, 1, 1, count, from, at, x, y, index);
            else
                max_pool_inside(dtype, s, k[0], k[1], count, from, at, x, y, index);
            ow += count, at += count * s->block;
            for (; ow < s->out_width; ow++, at += s->block) max_pool_pixel(dtype, s, oh, ow, plane, at, x, y, index);
        }
    }
}

// Which output positions' windows cover image position `at` along one dimension: [*first, *last].
LS_INLINE void covering(int64_t at, int pad, int kernel, int stride, int64_t out, int64_t *first, int64_t *last) {
    int64_t padded = at + pad;
    *first = padded < kernel ? 0 : stride == 1 ? padded - kernel + 1 : (padded - kernel) / stride + 1;
    *last = stride == 1 ? padded : padded / stride;
    if (*last >= out) *last = out - 1;
}

// What lies to the right of a row of windows that do not overlap, whose first pixel is `at`: from column `from` on.
LS_INLINE void zero_right(const ls_pool_shape *s, void *dx, int64_t at, int64_t from, int64_t size) {
    for (int kh = 0; kh < s->kernel[0] && from < s->width; kh++)
        memset((char *)dx + (at + (kh * s->width + from) * s->block) * size, 0,
               (size_t)((s->width - from) * s->block * size));
}

// Gradients of sixteen windows' channels, and the window's index of the element that each goes to.
typedef struct gradient {
    v16f g;
    v16u where;
} gradient;

LS_INLINE gradient gradient_at(ls_dtype dtype, const void *dy, const uint8_t *index, int64_t from) {
    v16b bytes;
    memcpy(&bytes, index + from, sizeof bytes);
    return (gradient){load16(dtype, dy, from), from_bytes(bytes)};
}

LS_INLINE v16f part_of(gradient d, int k) { return where16(equal16(d.where, (v16u){0} + (uint32_t)k), d.g); }

// Row kh of a row of windows, whose gradients are from element `from` on. Rows of DX come one after the other, so that memory is written from one end to the
// other: gradients and indices stay in the first-level cache meanwhile.
LS_INLINE void max_pool_backward_line(ls_dtype dtype, const ls_pool_shape *s, int kh, int kw, int64_t from, int64_t at,
                                      const void *dy, const uint8_t *index, void *dx) {
    const int64_t block = s->block;
    const int k = kh * kw;
    for (int64_t ow = 0; ow < s->out_width; ow++, from += block, at += kw * block) {
        if (kw == 2 && block == 16) {
            gradient d = gradient_at(dtype, dy, index, from);
            store_both_exact(dtype, dx, at, part_of(d, k), part_of(d, k + 1));
            continue;
        }
        for (int j = 0; j < kw; j++)
            for (int64_t c = 0; c < block; c += 16)
                store16_exact(dtype, dx, at + j * block + c, part_of(gradient_at(dtype, dy, index, from + c), k + j));
    }
}

// Windows that do not overlap: every gradient goes to one element of its window, the window's other elements get zero, and
// so does what no window covers.
LS_INLINE void max_pool_backward_apart(ls_dtype dtype, const ls_pool_shape *s, const void *dy, const uint8_t *index,
                                       void *dx) {
    int64_t line = s->width * s->block, covered_w = s->out_width * s->strides[1],
            covered_h = s->out_height * s->strides[0];
    int64_t size = (int64_t)ls_dtype_size(dtype), from = 0;
    for (int64_t p = 0; p < s->planes; p++) {
        int64_t plane = p * s->height * line;
        for (int64_t oh = 0; oh < s->out_height; oh++) {
            int64_t at = plane + oh * s->strides[0] * line;
            for (int kh = 0; kh < s->kernel[0]; kh++)
                if (s->kernel[1] == 2)
                    max_pool_backward_line(dtype, s, kh, 2, from, at + kh * line, dy, index, dx);
                else
                    max_pool_backward_line(dtype, s, kh, s->kernel[1], from, at + kh * line, dy, index, dx);
            from += s->out_width * s->block;
            zero_right(s, dx, plane + oh * s->strides[0] * line, covered_w, size);
        }
        memset((char *)dx + (plane + covered_h * line) * size, 0, (size_t)((s->height - covered_h) * line * size));
    }
}

LS_INLINE int windows_apart(const ls_pool_shape *s) {
    return s->kernel[0] == s->strides[0] && s->kernel[1] == s->strides[1] && !s->pad_top && !s->pad_left &&
           s->block % 16 == 0 && s->out_height * s->strides[0] <= s->height && s->out_width * s->strides[1] <= s->width;
}

// How many columns the windows and the image have, from the first window's first.
LS_INLINE int64_t line_pixels(const ls_pool_shape *s) {
    int64_t windows = (s->out_width - 1) * s->strides[1] + s->kernel[1], image = s->pad_left + s->width;
    return windows > image ? windows : image;
}

// Any windows: a row of DX at a time, for sixteen channels, is summed up in `line`, in float, from the gradients of the
// windows over it whose maximum it had; rows of windows in ascending order, windows in ascending order. The line has room for
// what windows cover of the padding.
LS_INLINE void add_gradients(ls_dtype dtype, const ls_pool_shape *s, int kw, int stride, const void *dy,
                             const uint8_t *index, int64_t from, int first, int64_t lanes, v16f *line) {
    for (int64_t ow = 0; ow < s->out_width; ow++, from += s->block, line += stride) {
        v16b bytes = {0};
        if (lanes == 16)
            memcpy(&bytes, index + from, 16);
        else
            for (int64_t i = 0; i < lanes; i++) bytes[i] = index[from + i];
        v16u where = from_bytes(bytes);
        v16f g = load_lanes(dtype, dy, from, lanes);
        for (int j = 0; j < kw; j++) line[j] += where16(equal16(where, (v16u){0} + (uint32_t)(first + j)), g);
    }
}

// The same of windows of three columns, two columns apart, of one row of windows or two: a column belongs to one window, or to the last of one and the first
// of the next, so its sum stays in registers. Row r of windows has its gradients from from[r] on, and k[r] is the window's index of its first element there.
LS_INLINE void gradients_of_threes(ls_dtype dtype, const ls_pool_shape *s, int rows, const void *dy,
                                   const uint8_t *index, const int64_t from[2], const int k[2], v16f *line) {
    gradient before[2] = {{{0}, {0}}, {{0}, {0}}}, now[2];
    for (int64_t ow = 0; ow < s->out_width; ow++, line += 2) {
        line[0] = line[1] = (v16f){0};
        for (int r = 0; r < rows; r++) {
            now[r] = gradient_at(dtype, dy, index, from[r] + ow * s->block);
            line[0] += part_of(before[r], k[r] + 2);
            line[0] += part_of(now[r], k[r]);
            line[1] += part_of(now[r], k[r] + 1);
            before[r] = now[r];
        }
    }
    line[0] = (v16f){0};
    for (int r = 0; r < rows; r++) line[0] += part_of(before[r], k[r] + 2);
}

LS_INLINE void max_pool_backward_row(ls_dtype dtype, const ls_pool_shape *s, const void *dy, const uint8_t *index,
                                     int64_t plane, int64_t h, int64_t lanes, v16f *line) {
    int kw = s->kernel[1], stride = s->strides[1];
    int64_t first, last, done = 0;
    covering(h, s->pad_top, s->kernel[0], s->strides[0], s->out_height, &first, &last);
    if (kw == 3 && stride == 2 && lanes == 16 && (last == first || last == first + 1)) {
        int64_t step = s->out_width * s->block, from[2] = {plane + first * step, plane + first * step + step};
        int below = (int)(h + s->pad_top - first * s->strides[0]), k[2] = {below * kw, (below - s->strides[0]) * kw};
        if (last > first)
            gradients_of_threes(dtype, s, 2, dy, index, from, k, line);
        else
            gradients_of_threes(dtype, s, 1, dy, index, from, k, line);
        done = 2 * s->out_width + 1;
        first = last + 1;
    }
    for (int64_t i = done; i < line_pixels(s); i++) line[i] = (v16f){0};
    for (int64_t oh = first; oh <= last; oh++) {
        int64_t from = plane + oh * s->out_width * s->block;
        int k = (int)((h + s->pad_top - oh * s->strides[0]) * kw);
        if (lanes == 16)
            add_gradients(dtype, s, kw, stride, dy, index, from, k, 16, line);
        else
            add_gradients(dtype, s, kw, stride, dy, index, from, k, lanes, line);
    }
}

LS_INLINE void max_pool_backward(ls_dtype dtype, const ls_pool_shape *s, const void *dy, const uint8_t *index, void *dx,
                                 v16f *line) {
    const int64_t block = s->block, width = s->width;
    const v16f *sums = line + s->pad_left;
    int64_t at = 0;
    for (int64_t p = 0; p < s->planes; p++) {
        int64_t plane = p * s->out_height * s->out_width * block;
        for (int64_t h = 0; h < s->height; h++, at += width * block)
            for (int64_t c = 0; c < block; c += 16) {
                int64_t lanes = block - c < 16 ? block - c : 16;
                max_pool_backward_row(dtype, s, dy, index, plane + c, h, lanes, line);
                int64_t w = 0;
                if (block == 16)
                    for (; w + 1 < width; w += 2) store_both(dtype, dx, at + w * 16, sums[w], sums[w + 1]);
                if (lanes == 16)
                    for (; w < width; w++) store16(dtype, dx, at + c + w * block, sums[w]);
                else
                    for (; w < width; w++) store_lanes(dtype, dx, at + c + w * block, sums[w], lanes);
            }
    }
}

LS_INLINE void max_pool_backward_any(ls_dtype dtype, const ls_pool_shape *s, const void *dy, const uint8_t *index,
                                     void *dx, void *line) {
    if (windows_apart(s))
        max_pool_backward_apart(dtype, s, dy, index, dx);
    else
        max_pool_backward(dtype, s, dy, index, dx, line);
}

#endif
