// Pooling of bf16 in the instructions of AVX512-BF16: bit for bit that of pool_loops.c, where denormals are zeros and no NaN comes in.
#include "device/cpu/loops.h"

// clang has no target for a whole file; its programs have the loops for all types alone.
#if defined(__x86_64__) && __GNUC__ >= 10 && !defined(__clang__) && !defined(LS_SANITIZED)
#include <immintrin.h>
#include <string.h>

#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")

#define LS_LOOPS_BF16
#include "device/cpu/average_pool_loops_impl.h"
#include "device/cpu/pool_loops_impl.h"

static void max_bf16(const ls_pool_shape *s, const void *x, void *y, uint8_t *index) {
    max_pool(LS_DTYPE_BF16, s, x, y, index);
}

static void max_backward_bf16(const ls_pool_shape *s, const void *dy, const uint8_t *index, void *dx, void *line) {
    max_pool_backward_any(LS_DTYPE_BF16, s, dy, index, dx, line);
}

static void average_bf16(const ls_pool_shape *s, const void *x, void *y) { average_pool(LS_DTYPE_BF16, s, x, y); }

static void average_backward_bf16(const ls_pool_shape *s, const void *dy, const void *x, void *dx, void *lines) {
    average_pool_backward_any(LS_DTYPE_BF16, s, dy, x, dx, lines);
}

const ls_pool_loops *ls__pool_loops_of_bf16(void) {
    static const ls_pool_loops loops = {max_bf16, max_backward_bf16, average_bf16, average_backward_bf16};
    return __builtin_cpu_supports("avx512bf16") ? &loops : NULL;
}
#else
const ls_pool_loops *ls__pool_loops_of_bf16(void) { return NULL; }
#endif
