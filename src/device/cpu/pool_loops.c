#include "device/cpu/average_pool_loops_impl.h"
#include "device/cpu/loops.h"
#include "device/cpu/pool_loops_impl.h"

#define LOOPS(type, dtype)                                                                                             \
    LS_CLONES static void max_##type(const ls_pool_shape *s, const void *x, void *y, uint8_t *index) {                 \
        max_pool(dtype, s, x, y, index);                                                                               \
    }                                                                                                                  \
    LS_CLONES static void max_backward_##type(const ls_pool_shape *s, const void *dy, const uint8_t *index, void *dx,  \
                                              void *line) {                                                            \
        max_pool_backward_any(dtype, s, dy, index, dx, line);                                                          \
    }                                                                                                                  \
    LS_CLONES static void average_##type(const ls_pool_shape *s, const void *x, void *y) {                             \
        average_pool(dtype, s, x, y);                                                                                  \
    }                                                                                                                  \
    LS_CLONES static void average_backward_##type(const ls_pool_shape *s, const void *dy, const void *x, void *dx,     \
                                                  void *lines) {                                                       \
        average_pool_backward_any(dtype, s, dy, x, dx, lines);                                                         \
    }                                                                                                                  \
    static const ls_pool_loops loops_##type = {max_##type, max_backward_##type, average_##type, average_backward_##type}

LOOPS(f32, LS_DTYPE_F32);
LOOPS(bf16, LS_DTYPE_BF16);
LOOPS(fp16, LS_DTYPE_F16);

const ls_pool_loops *ls__pool_loops(ls_dtype dtype) {
    return dtype == LS_DTYPE_F32 ? &loops_f32 : dtype == LS_DTYPE_F16 ? &loops_fp16 : &loops_bf16;
}

int64_t ls__loop_max_pool_line_bytes(const ls_pool_shape *s) { return line_pixels(s) * (int64_t)sizeof(v16f); }

int64_t ls__loop_average_pool_line_bytes(const ls_pool_shape *s) {
    return ring_rows(s) * s->out_width * (int64_t)sizeof(v16f);
}
