#include "data/convert.h"

#include <string.h>

#include "base/bf16.h"
#include "base/error.h"
#include "base/fp16.h"

static void copy_1(const void *in, int64_t n, void *out) { memcpy(out, in, (size_t)n); }
static void copy_4(const void *in, int64_t n, void *out) { memcpy(out, in, (size_t)n * 4); }

static void u8_to_i32(const void *in, int64_t n, void *out) {
    const uint8_t *restrict from = in;
    int32_t *restrict to = out;
    for (int64_t i = 0; i < n; i++) to[i] = from[i];
}

static void u8_to_f32(const void *in, int64_t n, void *out) {
    const uint8_t *restrict from = in;
    float *restrict to = out;
    for (int64_t i = 0; i < n; i++) to[i] = from[i];
}

static void u8_to_bf16(const void *in, int64_t n, void *out) {
    const uint8_t *restrict from = in;
    ls_bf16 *restrict to = out;
    for (int64_t i = 0; i < n; i++) to[i] = ls_float_to_bf16(from[i]);
}

static void u8_to_fp16(const void *in, int64_t n, void *out) {
    const uint8_t *restrict from = in;
    ls_fp16 *restrict to = out;
    for (int64_t i = 0; i < n; i++) to[i] = ls_float_to_fp16(from[i]);
}

static void i32_to_f32(const void *in, int64_t n, void *out) {
    const int32_t *restrict from = in;
    float *restrict to = out;
    for (int64_t i = 0; i < n; i++) to[i] = (float)from[i];
}

static void i32_to_bf16(const void *in, int64_t n, void *out) {
    const int32_t *restrict from = in;
    ls_bf16 *restrict to = out;
    for (int64_t i = 0; i < n; i++) to[i] = ls_float_to_bf16((float)from[i]);
}

static void i32_to_fp16(const void *in, int64_t n, void *out) {
    const int32_t *restrict from = in;
    ls_fp16 *restrict to = out;
    for (int64_t i = 0; i < n; i++) to[i] = ls_float_to_fp16((float)from[i]);
}

static void f32_to_bf16(const void *in, int64_t n, void *out) {
    const float *restrict from = in;
    ls_bf16 *restrict to = out;
    for (int64_t i = 0; i < n; i++) to[i] = ls_float_to_bf16(from[i]);
}

static void f32_to_fp16(const void *in, int64_t n, void *out) {
    const float *restrict from = in;
    ls_fp16 *restrict to = out;
    for (int64_t i = 0; i < n; i++) to[i] = ls_float_to_fp16(from[i]);
}

static const struct {
    ls_dtype from, to;
    ls_convert_fn convert;
} list[] = {
    {LS_DTYPE_U8, LS_DTYPE_U8, copy_1},         {LS_DTYPE_U8, LS_DTYPE_I32, u8_to_i32},
    {LS_DTYPE_U8, LS_DTYPE_F32, u8_to_f32},     {LS_DTYPE_U8, LS_DTYPE_BF16, u8_to_bf16},
    {LS_DTYPE_I32, LS_DTYPE_I32, copy_4},       {LS_DTYPE_I32, LS_DTYPE_F32, i32_to_f32},
    {LS_DTYPE_I32, LS_DTYPE_BF16, i32_to_bf16}, {LS_DTYPE_F32, LS_DTYPE_F32, copy_4},
    {LS_DTYPE_F32, LS_DTYPE_BF16, f32_to_bf16}, {LS_DTYPE_U8, LS_DTYPE_F16, u8_to_fp16},
    {LS_DTYPE_I32, LS_DTYPE_F16, i32_to_fp16},  {LS_DTYPE_F32, LS_DTYPE_F16, f32_to_fp16},
};

ls_status ls_convert_find(ls_dtype from, ls_dtype to, ls_convert_fn *out) {
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (list[i].from == from && list[i].to == to) {
            *out = list[i].convert;
            return LS_OK;
        }
    return LS_FAIL(LS_STATUS_UNSUPPORTED, "values in %s cannot be turned into %s without losing some",
                   ls_dtype_name(from), ls_dtype_name(to));
}
