#include "data/filter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clones.h"
#include "base/error.h"
#include "base/memory.h"

// By the values of ls_interpolation.
static const char *const names[] = {"bilinear", "bicubic", "area", "pillow-bilinear", "pillow-bicubic"};
static const char *const help_of[] = {
    "between four pixels, as tf.image.resize and PyTorch's interpolate do it; no antialiasing",
    "between sixteen, as PyTorch's interpolate and OpenCV's INTER_CUBIC do it; no antialiasing",
    "the mean of what a pixel covers, as OpenCV's INTER_AREA",
    "as Pillow's and so torchvision's resize does it, with antialiasing, to the bit",
    "the same of Pillow's BICUBIC",
};

#define COUNT ((int)(sizeof names / sizeof names[0]))

const char *ls_interpolation_choice(int index, const char **help) {
    if (index >= COUNT) return NULL;
    *help = help_of[index];
    return names[index];
}

ls_status ls_interpolation_find(const char *name, ls_interpolation *out) {
    for (int i = 0; i < COUNT; i++)
        if (strcmp(names[i], name) == 0) {
            *out = (ls_interpolation)i;
            return LS_OK;
        }
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "unknown interpolation '%.64s': there are bilinear, bicubic, area, pillow-bilinear and "
                   "pillow-bicubic",
                   name);
}

// --- weights ---------------------------------------------------------------------------------------------------------

#define BITS 22  // of Pillow's weights behind the point

// Keys, "Cubic convolution interpolation for digital image processing", 1981.
static double cubic(double x, double a) {
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

// What one position of a rule looks at: source pixels first .. first + taps - 1 of `length`.
typedef struct position {
    int64_t first, taps;
    double *weight;  // (most)
} position;

// Weights of pixels beyond the edge count for the one at the edge.
static void bicubic(int64_t at, double scale, int64_t length, position *p) {
    double where = ((double)at + 0.5) * scale - 0.5, below = floor(where);
    int64_t first = (int64_t)below - 1, last = first + 3, from = first < 0 ? 0 : first;
    if (from > length - 1) from = length - 1;
    int64_t past = last > length - 1 ? length - 1 : last;
    p->first = from;
    p->taps = past - from + 1;
    for (int64_t k = 0; k < p->taps; k++) p->weight[k] = 0;
    for (int64_t k = first; k <= last; k++) {
        int64_t i = k < from ? from : k > past ? past : k;
        p->weight[i - from] += cubic(where - (double)k, -0.75);
    }
}

static void area(int64_t at, double scale, int64_t length, position *p) {
    double begin = (double)at * scale, end = (double)(at + 1) * scale;
    int64_t first = (int64_t)begin, past = (int64_t)ceil(end - 1e-9);
    if (past > length) past = length;
    if (first > length - 1) first = length - 1;
    if (past <= first) past = first + 1;
    p->first = first;
    p->taps = past - first;
    double sum = 0;
    for (int64_t k = 0; k < p->taps; k++) {
        double low = fmax(begin, (double)(first + k)), high = fmin(end, (double)(first + k + 1));
        p->weight[k] = high > low ? high - low : 0;
        sum += p->weight[k];
    }
    for (int64_t k = 0; k < p->taps; k++) p->weight[k] /= sum;
}

// Pillow's precompute_coeffs, operation by operation.
static void pillow(ls_interpolation rule, int64_t at, double scale, int64_t length, position *p) {
    int triangle = rule == LS_INTERPOLATION_PILLOW_BILINEAR;
    double wide = scale < 1 ? 1 : scale, support = (triangle ? 1.0 : 2.0) * wide, center = ((double)at + 0.5) * scale;
    double over = 1.0 / wide, sum = 0;
    int64_t first = (int64_t)(center - support + 0.5), past = (int64_t)(center + support + 0.5);
    if (first < 0) first = 0;
    if (past > length) past = length;
    p->first = first;
    p->taps = past - first;
    for (int64_t k = 0; k < p->taps; k++) {
        double x = ((double)(k + first) - center + 0.5) * over;
        p->weight[k] = triangle ? (fabs(x) < 1 ? 1 - fabs(x) : 0) : cubic(x, -0.5);
        sum += p->weight[k];
    }
    for (int64_t k = 0; k < p->taps && sum != 0; k++) p->weight[k] /= sum;
}

static int64_t most_taps(ls_interpolation rule, double scale) {
    double wide = scale < 1 ? 1 : scale;
    switch (rule) {
    case LS_INTERPOLATION_BICUBIC: return 4;
    case LS_INTERPOLATION_AREA: return (int64_t)ceil(scale) + 2;
    case LS_INTERPOLATION_PILLOW_BILINEAR: return (int64_t)ceil(wide) * 2 + 1;
    default: return (int64_t)ceil(2 * wide) * 2 + 1;
    }
}

static ls_status make_room(ls_filter *f, int64_t count, int64_t most) {
    if (count > f->room || count * most > f->weight_room) {
        ls_filter_free(f);
        LS_TRY(ls_calloc(count, sizeof *f->first, &f->first));
        LS_TRY(ls_calloc(count, sizeof *f->taps, &f->taps));
        LS_TRY(ls_calloc(count * most, sizeof *f->weight, &f->weight));
        LS_TRY(ls_calloc(count * most, sizeof *f->fixed, &f->fixed));
        f->room = count;
        f->weight_room = count * most;
    }
    f->count = count;
    f->most = most;
    return LS_OK;
}

static void keep(ls_filter *f, int64_t i, int64_t begin, const position *p) {
    f->first[i] = (int32_t)(begin + p->first);
    f->taps[i] = (int32_t)p->taps;
    for (int64_t k = 0; k < p->taps; k++) {
        double w = p->weight[k];
        f->weight[i * f->most + k] = (float)w;
        f->fixed[i * f->most + k] = (int32_t)((w < 0 ? -0.5 : 0.5) + w * (1 << BITS));
    }
}

ls_status ls_filter_fill(ls_interpolation rule, const ls_axis_map *map, int64_t count, ls_filter *f) {
    int64_t full = map->full ? map->full : count;
    double scale = (double)map->length / (double)full;
    int64_t most = most_taps(rule, scale);
    position p;
    LS_TRY(make_room(f, count, most));
    LS_TRY(ls_calloc(most, sizeof *p.weight, &p.weight));
    for (int64_t i = 0; i < count; i++) {
        int64_t at = (map->mirror ? count - 1 - i : i) + map->shift;
        if (map->reflect && at < 0) at = -at;
        if (map->reflect && at >= count) at = 2 * (count - 1) - at;
        f->first[i] = (int32_t)map->first;
        f->taps[i] = 0;
        if (at < 0 || at >= count) continue;
        at += map->window;
        if (rule == LS_INTERPOLATION_BICUBIC)
            bicubic(at, scale, map->length, &p);
        else if (rule == LS_INTERPOLATION_AREA)
            area(at, scale, map->length, &p);
        else
            pillow(rule, at, scale, map->length, &p);
        keep(f, i, map->first, &p);
    }
    free(p.weight);
    return LS_OK;
}

void ls_filter_free(ls_filter *f) {
    free(f->first);
    free(f->taps);
    free(f->weight);
    free(f->fixed);
    *f = (ls_filter){.count = 0};
}

// --- passes ----------------------------------------------------------------------------------------------------------

void ls_filter_row(const ls_filter *f, const uint8_t *row, int64_t channels, float *out) {
    for (int64_t i = 0; i < f->count; i++)
        for (int64_t c = 0; c < channels; c++) {
            const uint8_t *from = row + f->first[i] * channels + c;
            const float *weight = f->weight + i * f->most;
            float sum = 0;
            for (int64_t k = 0; k < f->taps[i]; k++) sum += weight[k] * (float)from[k * channels];
            *out++ = sum;
        }
}

static uint8_t to_byte(int32_t sum) {
    int32_t pixel = sum >> BITS;
    return (uint8_t)(pixel < 0 ? 0 : pixel > 255 ? 255 : pixel);
}

void ls_filter_row_fixed(const ls_filter *f, const uint8_t *row, int64_t channels, uint8_t *out) {
    for (int64_t i = 0; i < f->count; i++)
        for (int64_t c = 0; c < channels; c++) {
            const uint8_t *from = row + f->first[i] * channels + c;
            const int32_t *weight = f->fixed + i * f->most;
            int32_t sum = 1 << (BITS - 1);
            for (int64_t k = 0; k < f->taps[i]; k++) sum += weight[k] * from[k * channels];
            *out++ = to_byte(sum);
        }
}

LS_CLONES static void add_row(const float *restrict row, float weight, int64_t n, float *restrict out) {
    for (int64_t v = 0; v < n; v++) out[v] += weight * row[v];
}

void ls_filter_blend(const ls_filter *f, int64_t i, const float *rows, int64_t top, int64_t n, float *out) {
    memset(out, 0, (size_t)n * sizeof *out);
    for (int64_t k = 0; k < f->taps[i]; k++)
        add_row(rows + (f->first[i] + k - top) * n, f->weight[i * f->most + k], n, out);
}

void ls_filter_blend_fixed(const ls_filter *f, int64_t i, const uint8_t *rows, int64_t top, int64_t n, float *out) {
    const int32_t *weight = f->fixed + i * f->most;
    const uint8_t *from = rows + (f->first[i] - top) * n;
    for (int64_t v = 0; v < n; v++) {
        int32_t sum = 1 << (BITS - 1);
        for (int64_t k = 0; k < f->taps[i]; k++) sum += weight[k] * from[k * n + v];
        out[v] = to_byte(sum);
    }
}
