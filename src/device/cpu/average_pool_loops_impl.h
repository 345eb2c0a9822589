// Average pooling over images in blocks of channels, whatever the instructions (LS_LOOPS_BF16: those of AVX512-BF16).
#ifndef LS_DEVICE_CPU_AVERAGE_POOL_LOOPS_IMPL_H
#define LS_DEVICE_CPU_AVERAGE_POOL_LOOPS_IMPL_H

#include "device/cpu/pool_loops_impl.h"

LS_INLINE v16f mean_of(ls_dtype dtype, const ls_pool_shape *s, const window *win, const void *x, int64_t from,
                       int64_t lanes) {
    v16f sum = {0};
    for (int64_t h = win->h0; h < win->h1; h++)
        for (int64_t w = win->w0; w < win->w1; w++)
            sum += load_lanes(dtype, x, from + (h * s->width + w) * s->block, lanes);
    return sum / (float)((win->h1 - win->h0) * (win->w1 - win->w0));
}

LS_INLINE void average_pool_pixel(ls_dtype dtype, const ls_pool_shape *s, int64_t oh, int64_t ow, int64_t plane,
                                  int64_t at, const void *x, void *y) {
    window win = window_at(s, oh, ow);
    for (int64_t c = 0; c < s->block; c += 16) {
        int64_t lanes = s->block - c < 16 ? s->block - c : 16;
        v16f mean =
            lanes == 16 ? mean_of(dtype, s, &win, x, plane + c, 16) : mean_of(dtype, s, &win, x, plane + c, lanes);
        store_lanes(dtype, y, at + c, mean, lanes);
    }
}

LS_INLINE v16f sum_of_row(ls_dtype dtype, int64_t block, int kw, const void *x, int64_t from, v16f sum) {
    for (int j = 0; j < kw; j++) sum += load16(dtype, x, from + j * block);
    return sum;
}

LS_INLINE void end_row(ls_dtype dtype, int i, int kh, int kw, v16f sum, int64_t at, void *y, v16f *sums) {
    if (i == kh - 1)
        store16(dtype, y, at, sum / (float)(kh * kw));
    else
        *sums = sum;
}

// As max_pool_turn: the last row of a window writes its mean.
LS_INLINE void average_pool_turn(ls_dtype dtype, const ls_pool_shape *s, int i, int kh, int kw, int64_t count,
                                 int64_t from, int64_t at, const void *x, void *y, v16f *sums) {
    const int64_t block = s->block, step = s->strides[1] * block;
    from += i * s->width * block;
    // Each pixel is converted once, for three windows.
    if (dtype != LS_DTYPE_F32 && kw == 3 && step == 16 && count > 0) {
        v16f one = load16(dtype, x, from), two = load16(dtype, x, from + 16);
        for (int64_t n = 0; n < count; n++, from += 16, at += 16, sums++) {
            v16f three = load16(dtype, x, from + 32), sum = i ? *sums : (v16f){0};
            end_row(dtype, i, kh, kw, ((sum + one) + two) + three, at, y, sums);
            one = two;
            two = three;
        }
        return;
    }
    for (int64_t n = 0; n < count; n++, from += step, at += block)
        for (int64_t c = 0; c < block; c += 16, sums++)
            end_row(dtype, i, kh, kw, sum_of_row(dtype, block, kw, x, from + c, i ? *sums : (v16f){0}), at + c, y,
                    sums);
}

// A row of output pixels whose windows all lie inside the image, as max_pool_inside.
LS_INLINE void average_pool_inside(ls_dtype dtype, const ls_pool_shape *s, int kh, int kw, int64_t count, int64_t from,
                                   int64_t at, const void *x, void *y) {
    const int64_t block = s->block, most = TURN * 16 / block;
    v16f sums[TURN];
    if (most == 0) {
        for (int64_t n = 0; n < count; n++, from += s->strides[1] * block, at += block)
            for (int64_t c = 0; c < block; c += 16) {
                v16f sum = {0};
                for (int i = 0; i < kh; i++)
                    sum = sum_of_row(dtype, block, kw, x, from + c + i * s->width * block, sum);
                store16(dtype, y, at + c, sum / (float)(kh * kw));
            }
        return;
    }
    for (int64_t n = 0; n < count; n += most, from += most * s->strides[1] * block, at += most * block) {
        int64_t turn = count - n < most ? count - n : most;
        average_pool_turn(dtype, s, 0, kh, kw, turn, from, at, x, y, sums);
        for (int i = 1; i < kh - 1; i++) average_pool_turn(dtype, s, i, kh, kw, turn, from, at, x, y, sums);
        if (kh > 1) average_pool_turn(dtype, s, kh - 1, kh, kw, turn, from, at, x, y, sums);
    }
}

LS_INLINE void average_pool(ls_dtype dtype, const ls_pool_shape *s, const void *x, void *y) {
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
                average_pool_pixel(dtype, s, oh, ow, plane, at, x, y);
            int64_t h = oh * s->strides[0] - s->pad_top, w = ow * s->strides[1] - s->pad_left,
                    from = plane + (h * s->width + w) * s->block;
            if (k[0] == 2 && k[1] == 2)
                average_pool_inside(dtype, s, 2, 2, count, from, at, x, y);
            else if (k[0] == 3 && k[1] == 3)
                average_pool_inside(dtype, s, 3, 3, count, from, at, x, y);
            else
                average_pool_inside(dtype, s, k[0], k[1], count, from, at, x, y);
            ow += count, at += count * s->block;
            for (; ow < s->out_width; ow++, at += s->block) average_pool_pixel(dtype, s, oh, ow, plane, at, x, y);
        }
    }
}

// The share of the gradients of all windows in [rows] x [columns] that one pixel gets.
LS_INLINE v16f share_of(ls_dtype dtype, const ls_pool_shape *s, const void *dy, int64_t plane, const int64_t rows[2],
                        const int64_t columns[2], int64_t lanes) {
    v16f sum = {0};
    for (int64_t oh = rows[0]; oh <= rows[1]; oh++)
        for (int64_t ow = columns[0]; ow <= columns[1]; ow++) {
            window win = window_at(s, oh, ow);
            float area = (float)((win.h1 - win.h0) * (win.w1 - win.w0));
            sum += load_lanes(dtype, dy, plane + (oh * s->out_width + ow) * s->block, lanes) / area;
        }
    return sum;
}

LS_INLINE v16f masked(ls_dtype dtype, const ls_pool_shape *s, const void *x, int64_t at, v16f v) {
    return s->mask ? where16(positive16(load16(dtype, x, at)), v) : v;
}

LS_INLINE void store_masked(ls_dtype dtype, const ls_pool_shape *s, const void *x, void *dx, int64_t at, v16f v,
                            int64_t lanes) {
    if (s->mask) v = where16(positive16(load_lanes(dtype, x, at, lanes)), v);
    store_lanes(dtype, dx, at, v, lanes);
}

// One window over the whole image, as global pooling has it: all pixels get the same.
LS_INLINE void average_pool_backward_global(ls_dtype dtype, const ls_pool_shape *s, const void *dy, const void *x,
                                            void *dx) {
    static const int64_t first[2] = {0, 0};
    int64_t pixels = s->height * s->width;
    for (int64_t p = 0; p < s->planes; p++)
        for (int64_t c = 0; c < s->block; c += 16) {
            int64_t lanes = s->block - c < 16 ? s->block - c : 16, at = p * pixels * s->block + c;
            v16f share = share_of(dtype, s, dy, p * s->block + c, first, first, lanes);
            for (int64_t i = 0; i < pixels; i++, at += s->block) {
                if (lanes == 16)
                    store_masked(dtype, s, x, dx, at, share, 16);
                else
                    store_masked(dtype, s, x, dx, at, share, lanes);
            }
        }
}

// A sum of one share, which is no negative zero.
LS_INLINE v16f share_in(ls_dtype dtype, const void *dy, int64_t from, float area) {
    return (v16f){0} + load16(dtype, dy, from) / area;
}

// A row of DX, as max_pool_backward_line.
LS_INLINE void average_pool_backward_line(ls_dtype dtype, const ls_pool_shape *s, int kw, int64_t from, int64_t at,
                                          const void *dy, const void *x, void *dx) {
    const int64_t block = s->block;
    const float area = (float)(s->kernel[0] * kw);
    for (int64_t ow = 0; ow < s->out_width; ow++, from += block, at += kw * block) {
        if (kw == 2 && block == 16) {
            v16f share = share_in(dtype, dy, from, area);
            store_both(dtype, dx, at, masked(dtype, s, x, at, share), masked(dtype, s, x, at + 16, share));
            continue;
        }
        for (int j = 0; j < kw; j++)
            for (int64_t c = 0; c < block; c += 16)
                store16(dtype, dx, at + j * block + c,
                        masked(dtype, s, x, at + j * block + c, share_in(dtype, dy, from + c, area)));
    }
}

// Windows that do not overlap: all pixels of a window get the same share, and what no window covers gets zero.
LS_INLINE void average_pool_backward_apart(ls_dtype dtype, const ls_pool_shape *s, const void *dy, const void *x,
                                           void *dx) {
    int64_t line = s->width * s->block, covered_w = s->out_width * s->strides[1],
            covered_h = s->out_height * s->strides[0], size = (int64_t)ls_dtype_size(dtype), from = 0;
    for (int64_t p = 0; p < s->planes; p++) {
        int64_t plane = p * s->height * line;
        for (int64_t oh = 0; oh < s->out_height; oh++) {
            int64_t at = plane + oh * s->strides[0] * line;
            for (int kh = 0; kh < s->kernel[0]; kh++)
                if (s->kernel[1] == 2)
                    average_pool_backward_line(dtype, s, 2, from, at + kh * line, dy, x, dx);
                else
                    average_pool_backward_line(dtype, s, s->kernel[1], from, at + kh * line, dy, x, dx);
            from += s->out_width * s->block;
            zero_right(s, dx, plane + oh * s->strides[0] * line, covered_w, size);
        }
        memset((char *)dx + (plane + covered_h * line) * size, 0, (size_t)((s->height - covered_h) * line * size));
    }
}

// Row `oh` of a plane's windows: what each gives to a pixel. Divisions take longest, so there is one for each window.
LS_INLINE void shares_of_row(ls_dtype dtype, const ls_pool_shape *s, const void *dy, int64_t plane, int64_t oh,
                             int64_t lanes, v16f *line) {
    int64_t from = plane + oh * s->out_width * s->block;
    for (int64_t ow = 0; ow < s->out_width; ow++, from += s->block) {
        window win = window_at(s, oh, ow);
        line[ow] = load_lanes(dtype, dy, from, lanes) / (float)((win.h1 - win.h0) * (win.w1 - win.w0));
    }
}

// How many rows of windows lie over one row of DX at the most.
LS_INLINE int64_t ring_rows(const ls_pool_shape *s) {
    return s->kernel[0] < s->out_height ? s->kernel[0] : s->out_height;
}

// What pixel w of a row of DX gets, of the rows of windows [rows], whose shares are in `lines` (below).
LS_INLINE v16f share_of_pixel(const ls_pool_shape *s, int64_t w, const int64_t rows[2], const v16f *lines) {
    int64_t ring = ring_rows(s), turn = rows[0] % ring, columns[2];
    v16f sum = {0};
    covering(w, s->pad_left, s->kernel[1], s->strides[1], s->out_width, &columns[0], &columns[1]);
    for (int64_t oh = rows[0]; oh <= rows[1]; oh++, turn = turn + 1 < ring ? turn + 1 : 0)
        for (int64_t ow = columns[0]; ow <= columns[1]; ow++) sum += lines[turn * s->out_width + ow];
    return sum;
}

// The same where three rows of windows from oh on and three columns from ow on lie over it.
LS_INLINE v16f share_of_threes(const ls_pool_shape *s, int64_t ow, int64_t oh, const v16f *lines) {
    int64_t ring = ring_rows(s), turn = oh % ring;
    v16f sum = {0};
    for (int i = 0; i < 3; i++, turn = turn + 1 < ring ? turn + 1 : 0) {
        const v16f *line = lines + turn * s->out_width + ow;
        sum += line[0];
        sum += line[1];
        sum += line[2];
    }
    return sum;
}

// Any windows: those over a row of DX have their shares in `lines`, ring_rows of them, in turn; a pixel's sum goes over them in
// row-major order.
LS_INLINE void average_pool_backward_lanes(ls_dtype dtype, const ls_pool_shape *s, const void *dy, int64_t plane,
                                           const void *x, void *dx, int64_t at, int64_t lanes, v16f *lines) {
    int64_t known = 0, ring = ring_rows(s), rows[2];
    for (int64_t h = 0; h < s->height; h++) {
        covering(h, s->pad_top, s->kernel[0], s->strides[0], s->out_height, &rows[0], &rows[1]);
        for (; known <= rows[1]; known++)
            shares_of_row(dtype, s, dy, plane, known, lanes, lines + known % ring * s->out_width);
        int64_t w = 0;
        if (s->kernel[1] == 3 && s->strides[1] == 1 && s->block == 16 && rows[1] - rows[0] == 2) {
            for (; w + s->pad_left < 2 && w < s->width; w++, at += 16)
                store_masked(dtype, s, x, dx, at, share_of_pixel(s, w, rows, lines), 16);
            for (; w + s->pad_left + 1 < s->out_width && w + 1 < s->width; w += 2, at += 32) {
                v16f one = share_of_threes(s, w + s->pad_left - 2, rows[0], lines),
                     other = share_of_threes(s, w + s->pad_left - 1, rows[0], lines);
                store_both(dtype, dx, at, masked(dtype, s, x, at, one), masked(dtype, s, x, at + 16, other));
            }
        }
        for (; w < s->width; w++, at += s->block)
            store_masked(dtype, s, x, dx, at, share_of_pixel(s, w, rows, lines), lanes);
    }
}

LS_INLINE void average_pool_backward(ls_dtype dtype, const ls_pool_shape *s, const void *dy, const void *x, void *dx,
                                     v16f *lines) {
    for (int64_t p = 0; p < s->planes; p++)
        for (int64_t c = 0; c < s->block; c += 16) {
            int64_t lanes = s->block - c < 16 ? s->block - c : 16;
            int64_t plane = p * s->out_height * s->out_width * s->block + c,
                    at = p * s->height * s->width * s->block + c;
            if (lanes == 16)
                average_pool_backward_lanes(dtype, s, dy, plane, x, dx, at, 16, lines);
            else
                average_pool_backward_lanes(dtype, s, dy, plane, x, dx, at, lanes, lines);
        }
}

LS_INLINE int covers_all(const ls_pool_shape *s) {
    return s->out_height == 1 && s->out_width == 1 && s->kernel[0] - s->pad_top >= s->height &&
           s->kernel[1] - s->pad_left >= s->width;
}

LS_INLINE void average_pool_backward_any(ls_dtype dtype, const ls_pool_shape *s, const void *dy, const void *x,
                                         void *dx, void *lines) {
    if (covers_all(s))
        average_pool_backward_global(dtype, s, dy, x, dx);
    else if (windows_apart(s))
        average_pool_backward_apart(dtype, s, dy, x, dx);
    else
        average_pool_backward(dtype, s, dy, x, dx, lines);
}

#endif
