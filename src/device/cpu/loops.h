// Our own vector loops, for passes that only move memory. Each exists once per instruction set and is picked when first
// called; all of them compute the same bits. n counts elements; pointers are aligned to 64 bytes where arenas place them,
// but nothing here depends on it.
#ifndef LS_DEVICE_CPU_LOOPS_H
#define LS_DEVICE_CPU_LOOPS_H

#include <stdint.h>

#include <lockstep/tensor.h>

// y[i] = x[i] > 0 ? x[i] : 0
void ls__loop_relu(ls_dtype dtype, void *y, const void *x, int64_t n);
// y[i] = x[i] + x2[i], or with relu that where it is positive, else 0
void ls__loop_add(ls_dtype dtype, void *y, const void *x, const void *x2, int relu, int64_t n);
// dx[i] = x[i] > 0 ? dy[i] : 0
void ls__loop_mask(ls_dtype dtype, void *dx, const void *dy, const void *x, int64_t n);

// keep[e] = whether dropout keeps element e of a sample (device/dropout.h), for e < n.
void ls__loop_dropout_keep(uint64_t key, uint64_t sample, uint32_t stream, uint32_t threshold, uint8_t *keep,
                           int64_t n);
// y[i] = keep[i] ? x[i] * factor : 0
void ls__loop_scale_kept(ls_dtype dtype, void *y, const void *x, const uint8_t *keep, float factor, int64_t n);

// Pooling over images whose channels lie in innermost blocks: (planes, height, width, block), where planes is samples
// times channel blocks. One window position per output pixel.
typedef struct ls_pool_shape {
    int64_t planes, block;
    int64_t height, width, out_height, out_width;
    int kernel[2], strides[2], pad_top, pad_left;
    int mask;       // X is a ReLU's output: what is not positive passes no gradient
    int pad_zeros;  // max pooling: the padding takes part as zeros, which pass no gradient
} ls_pool_shape;

typedef struct ls_pool_loops {
    // index (planes, out_height, out_width, block): which element of the window was the maximum, the first of equals, in
    // row-major order; 255 where no gradient passes. NULL: not wanted.
    void (*max)(const ls_pool_shape *s, const void *x, void *y, uint8_t *index);
    // line: room of its own for a row's sums, aligned to 64 bytes.
    void (*max_backward)(const ls_pool_shape *s, const void *dy, const uint8_t *index, void *dx, void *line);
    // The mean over the part of the window inside the image. Backward masks by x where s->mask, else x may be NULL; lines: room of its own for
    // what some rows of windows give, aligned to 64 bytes.
    void (*average)(const ls_pool_shape *s, const void *x, void *y);
    void (*average_backward)(const ls_pool_shape *s, const void *dy, const void *x, void *dx, void *lines);
} ls_pool_loops;

const ls_pool_loops *ls__pool_loops(ls_dtype dtype);
// Those of bf16 in the instructions of AVX512-BF16, which take denormals for zeros as threads that compute do; NULL where the compiler or
// the processor has none.
const ls_pool_loops *ls__pool_loops_of_bf16(void);
int64_t ls__loop_max_pool_line_bytes(const ls_pool_shape *s);
int64_t ls__loop_average_pool_line_bytes(const ls_pool_shape *s);

#endif
