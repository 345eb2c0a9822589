// Bilinear resampling of images by the rule of tf.image.resize(method="bilinear", antialias=False), which is also that of
// PyTorch's interpolate(align_corners=False): pixels are squares with their value in the middle ("half-pixel centers"), and
// outside of the image its edge goes on. Rows and columns are resampled one after the other: the same numbers, in the same
// order of operations, as TensorFlow's kernel has them (tensorflow/core/kernels/image/resize_bilinear_op.cc).
#ifndef LS_DATA_RESIZE_H
#define LS_DATA_RESIZE_H

#include <stdint.h>

#include "base/bf16.h"
#include "base/fp16.h"

// How the `count` positions of an output's axis are taken from the source: resample source[first .. first + length - 1] to
// `full` positions, take `count` of them from `window` on, move these by `shift` (position i gets what was at i + shift), then mirror them.
typedef struct ls_axis_map {
    int64_t first, length;
    int64_t shift;
    int mirror;
    int64_t full, window;  // full 0: count
    int reflect;  // what `shift` brings in: 0: see ls_axis_fill; 1: the axis, reflected at its first and last position
} ls_axis_map;

// Position i is source[lower[i]] + (source[upper[i]] - source[lower[i]]) * weight[i].
typedef struct ls_axis {
    int32_t *lower, *upper;  // (count)
    float *weight;           // (count)
} ls_axis;

// Fills `axis` for an output of `count` positions. What `shift`, which is less than that, brings in from beyond the edge is source[outside], unless it is reflected.
void ls_axis_fill(const ls_axis_map *map, int64_t count, int32_t outside, ls_axis *axis);

// One row: `axis` has a position for each of its n values.
void ls_resize_row(const float *source, const ls_axis *axis, int64_t n, float *out);

// Between two such rows, normalized: (top + (bottom - top) * weight - offset) / divisor * scale, value by value.
void ls__resize_blend_f32(const float *top, const float *bottom, float weight, const float *offset,
                          const float *divisor, float scale, int64_t n, float *out);
void ls__resize_blend_bf16(const float *top, const float *bottom, float weight, const float *offset,
                           const float *divisor, float scale, int64_t n, ls_bf16 *out);
void ls__resize_blend_fp16(const float *top, const float *bottom, float weight, const float *offset,
                           const float *divisor, float scale, int64_t n, ls_fp16 *out);

#endif
