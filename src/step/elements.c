#include "step/elements.h"

#include "base/bf16.h"
#include "base/clones.h"
#include "base/fp16.h"

// No element depends on another one, also where out is a or b: loops may be vectorized.
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

// A loop over elements l of a and r of b.
#define LOOP(name, type, result, hint)                                                                                 \
    LS_CLONES static void name(type *out, const type *a, const type *b, int64_t n) {                                   \
        hint for (int64_t i = 0; i < n; i++) {                                                                         \
            type l = a[i], r = b[i];                                                                                   \
            out[i] = (result);                                                                                         \
        }                                                                                                              \
    }
#define JOIN(name, type, result) LOOP(name, type, result, INDEPENDENT)

#define WHOLE(type, unsigned_type)                                                                                     \
    JOIN(type##_sum, type, (type)((unsigned_type)l + (unsigned_type)r))                                                \
    JOIN(type##_min, type, l < r ? l : r)                                                                              \
    JOIN(type##_max, type, l > r ? l : r)
// What is not equal to itself is NaN, and to compare with one is false: either NaN is taken.
#define FLOATING(type)                                                                                                 \
    JOIN(type##_sum, type, l + r)                                                                                      \
    JOIN(type##_min, type, r != r || l > r ? r : l)                                                                    \
    JOIN(type##_max, type, r != r || l < r ? r : l)

WHOLE(uint8_t, uint32_t)
WHOLE(int32_t, uint32_t)
WHOLE(int64_t, uint64_t)
FLOATING(float)
FLOATING(double)

static inline float wide(ls_bf16 x) { return ls_bf16_to_float(x); }
static inline float wide_half(ls_fp16 x) { return ls_fp16_to_float(x); }

JOIN(bf16_sum, ls_bf16, ls_float_to_bf16(wide(l) + wide(r)))
JOIN(bf16_min, ls_bf16, wide(r) != wide(r) || wide(l) > wide(r) ? r : l)
JOIN(bf16_max, ls_bf16, wide(r) != wide(r) || wide(l) < wide(r) ? r : l)

// Halves are taken apart with branches: clang does not make vectors of them.
LOOP(fp16_sum, ls_fp16, ls_float_to_fp16(wide_half(l) + wide_half(r)), )
LOOP(fp16_min, ls_fp16, wide_half(r) != wide_half(r) || wide_half(l) > wide_half(r) ? r : l, )
LOOP(fp16_max, ls_fp16, wide_half(r) != wide_half(r) || wide_half(l) < wide_half(r) ? r : l, )

#define BY_OP(type, prefix)                                                                                            \
    do {                                                                                                               \
        if (op == LS_REDUCE_MIN)                                                                                       \
            prefix##_min((type *)out, (const type *)a, (const type *)b, n);                                            \
        else if (op == LS_REDUCE_MAX)                                                                                  \
            prefix##_max((type *)out, (const type *)a, (const type *)b, n);                                            \
        else                                                                                                           \
            prefix##_sum((type *)out, (const type *)a, (const type *)b, n);                                            \
    } while (0)

void ls__elements_join(ls_reduce_op op, ls_dtype dtype, void *out, const void *a, const void *b, int64_t n) {
    switch (dtype) {
    case LS_DTYPE_F32: BY_OP(float, float); break;
    case LS_DTYPE_F64: BY_OP(double, double); break;
    case LS_DTYPE_BF16: BY_OP(ls_bf16, bf16); break;
    case LS_DTYPE_F16: BY_OP(ls_fp16, fp16); break;
    case LS_DTYPE_U8: BY_OP(uint8_t, uint8_t); break;
    case LS_DTYPE_I32: BY_OP(int32_t, int32_t); break;
    case LS_DTYPE_I64: BY_OP(int64_t, int64_t); break;
    }
}

void ls__elements_divide(ls_dtype dtype, void *x, int64_t n, int64_t total) {
    if (dtype == LS_DTYPE_F64)
        for (int64_t i = 0; i < n; i++) ((double *)x)[i] /= (double)total;
    else if (dtype == LS_DTYPE_F32)
        for (int64_t i = 0; i < n; i++) ((float *)x)[i] /= (float)total;
    else if (dtype == LS_DTYPE_F16)
        for (int64_t i = 0; i < n; i++)
            ((ls_fp16 *)x)[i] = ls_float_to_fp16(wide_half(((ls_fp16 *)x)[i]) / (float)total);
    else
        for (int64_t i = 0; i < n; i++) ((ls_bf16 *)x)[i] = ls_float_to_bf16(wide(((ls_bf16 *)x)[i]) / (float)total);
}

const char *ls__reduce_name(ls_reduce_op op) {
    static const char *const names[] = {
#define X(name, text) text,
        LS_REDUCE_LIST(X)
#undef X
    };
    return (unsigned)op < sizeof names / sizeof names[0] ? names[op] : "unknown";
}
