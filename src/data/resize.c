#include "data/resize.h"

#include <math.h>
#include <string.h>

#include "base/clones.h"

void ls_axis_fill(const ls_axis_map *map, int64_t count, int32_t outside, ls_axis *axis) {
    // In floats and in this order, as TensorFlow has it: where the quotient is not exact, its rounding shows in the result.
    float scale = (float)map->length / (float)(map->full ? map->full : count);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = (map->mirror ? count - 1 - i : i) + map->shift;
        if (map->reflect && at < 0) at = -at;
        if (map->reflect && at >= count) at = 2 * (count - 1) - at;
        if (at < 0 || at >= count) {
            axis->lower[i] = axis->upper[i] = outside;
            axis->weight[i] = 0;
            continue;
        }
        float where = ((float)(at + map->window) + 0.5f) * scale - 0.5f, below = floorf(where);
        int64_t lower = (int64_t)below, upper = (int64_t)ceilf(where), last = map->length - 1;
        axis->lower[i] = (int32_t)(map->first + (lower > 0 ? lower : 0));
        axis->upper[i] = (int32_t)(map->first + (upper < last ? upper : last));
        axis->weight[i] = where - below;
    }
}

LS_CLONES static void resize_row(const float *restrict source, const int32_t *restrict lower,
                                 const int32_t *restrict upper, const float *restrict weight, int64_t n,
                                 float *restrict out) {
    for (int64_t i = 0; i < n; i++) {
        float low = source[lower[i]];
        out[i] = low + (source[upper[i]] - low) * weight[i];
    }
}

void ls_resize_row(const float *source, const ls_axis *axis, int64_t n, float *out) {
    resize_row(source, axis->lower, axis->upper, axis->weight, n, out);
}

// `top` and `bottom` are only read, and may be the same.
LS_CLONES void ls__resize_blend_f32(const float *top, const float *bottom, float weight, const float *restrict offset,
                                    const float *restrict divisor, float scale, int64_t n, float *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] = (top[i] + (bottom[i] - top[i]) * weight - offset[i]) / divisor[i] * scale;
}

// Rounded as ls_float_to_bf16 does, without its care for NaN, which cannot be here.
LS_CLONES void ls__resize_blend_bf16(const float *top, const float *bottom, float weight, const float *restrict offset,
                                     const float *restrict divisor, float scale, int64_t n, ls_bf16 *restrict out) {
    for (int64_t i = 0; i < n; i++) {
        float value = (top[i] + (bottom[i] - top[i]) * weight - offset[i]) / divisor[i] * scale;
        uint32_t u;
        memcpy(&u, &value, 4);
        out[i] = (ls_bf16)((u + 0x7FFFu + ((u >> 16) & 1)) >> 16);
    }
}

LS_CLONES void ls__resize_blend_fp16(const float *top, const float *bottom, float weight, const float *restrict offset,
                                     const float *restrict divisor, float scale, int64_t n, ls_fp16 *restrict out) {
    for (int64_t i = 0; i < n; i++)
        out[i] = ls_float_to_fp16((top[i] + (bottom[i] - top[i]) * weight - offset[i]) / divisor[i] * scale);
}
