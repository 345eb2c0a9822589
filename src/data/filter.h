// Resampling by rules that look at more than two pixels: bicubic, area, and Pillow's with antialiasing. Rows and columns are resampled one after
// the other, by weights that are worked out for each position of an axis.
//
// bicubic          Keys's cubic with a = -0.75, edges repeated, no antialiasing: PyTorch's interpolate(mode="bicubic", align_corners=False),
//                  OpenCV's INTER_CUBIC.
// area             the mean of the area that a pixel covers: OpenCV's INTER_AREA where images become smaller.
// pillow-bilinear, pillow-bicubic
//                  Pillow's Image.resize (12.3; 13.0 may take columns first), to the bit: a triangle, or Keys's cubic with a = -0.5, as wide as an output pixel; weights are
//                  multiples of 2^-22 and each of the two passes rounds to bytes. torchvision's transforms do this to images that are not tensors.
//                  Source: Pillow, src/libImaging/Resample.c.
#ifndef LS_DATA_FILTER_H
#define LS_DATA_FILTER_H

#include <lockstep/status.h>

#include "data/resize.h"

typedef enum ls_interpolation {
    LS_INTERPOLATION_BILINEAR,  // data/resize.h
    LS_INTERPOLATION_BICUBIC,
    LS_INTERPOLATION_AREA,
    LS_INTERPOLATION_PILLOW_BILINEAR,
    LS_INTERPOLATION_PILLOW_BICUBIC,
} ls_interpolation;

// The index-th name, NULL past the last; *help gets one line about it.
const char *ls_interpolation_choice(int index, const char **help);
// Errors: INVALID_ARGUMENT (lists the names).
ls_status ls_interpolation_find(const char *name, ls_interpolation *out);
// Whether images are resampled as they are, however large, as another system would: they are not halved while they are decoded.
static inline int ls_interpolation_exact(ls_interpolation rule) { return rule >= LS_INTERPOLATION_PILLOW_BILINEAR; }

// An axis: position i is the sum over k of weight[i * most + k] * source[first[i] + k], k below taps[i]. All zero to begin with.
typedef struct ls_filter {
    int64_t count, most;
    int32_t *first, *taps;  // (count)
    float *weight;          // (count, most)
    int32_t *fixed;         // Pillow's weights, times 2^22
    int64_t room, weight_room;
} ls_filter;

// For an output of `count` positions; what `map->shift` brings in from beyond the edge has no taps. Errors: OUT_OF_MEMORY.
ls_status ls_filter_fill(ls_interpolation rule, const ls_axis_map *map, int64_t count, ls_filter *filter);
void ls_filter_free(ls_filter *filter);

// A row (W, channels), as wide as the filter's source, to (count, channels).
void ls_filter_row(const ls_filter *filter, const uint8_t *row, int64_t channels, float *out);
void ls_filter_row_fixed(const ls_filter *filter, const uint8_t *row, int64_t channels, uint8_t *out);
// Position i of a column filter, from rows of n values that lie behind each other, the first of them row `top`.
void ls_filter_blend(const ls_filter *filter, int64_t i, const float *rows, int64_t top, int64_t n, float *out);
void ls_filter_blend_fixed(const ls_filter *filter, int64_t i, const uint8_t *rows, int64_t top, int64_t n, float *out);

#endif
