// The same loops in the instructions of AVX512-BF16: bit for bit those of winograd.c, where denormals are zeros and no NaN comes in.
#include "device/cpu/winograd.h"

// clang has no target for a whole file; its programs have the other loops alone.
#if defined(__x86_64__) && __GNUC__ >= 10 && !defined(__clang__) && !defined(LS_SANITIZED)
#include <immintrin.h>
#include <string.h>

#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")

#define LS_LOOPS_BF16
#include "device/cpu/winograd_impl.h"

const ls_winograd_loops *ls__winograd_loops_of_bf16(void) {
    static const ls_winograd_loops loops = {filters, patch, gradients, weights, result};
    return __builtin_cpu_supports("avx512bf16") ? &loops : NULL;
}
#else
const ls_winograd_loops *ls__winograd_loops_of_bf16(void) { return NULL; }
#endif
