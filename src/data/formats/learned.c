#include "data/formats/learned.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

enum { MOST_LABELS = 10000 };

ls_status ls__learned_targets(const ls__learned *a, const ls__learned *first) {
    if (!a->floats && !(a->pixels && a->ndim >= 3))
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s: %s has whole numbers of %d dimensions, and of these only uint8 images, (samples, height, "
                       "width) and with channels, are learned: write numbers as floating ones",
                       a->path, a->name, a->ndim);
    int same = a->ndim <= 4 && a->ndim == first->ndim && a->pixels == first->pixels && a->floats == first->floats;
    int64_t each = 1;
    for (int d = 1; d < a->ndim && same; d++) {
        same = a->dim[d] == first->dim[d] && a->dim[d] > 0 && a->dim[d] <= INT32_MAX / 4 / each;
        each *= same ? a->dim[d] : 1;
    }
    if (same) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA,
                   "%s: %s has targets of another shape or type than those to train on, or of none, or too many for a "
                   "sample",
                   a->path, a->name);
}

ls_status ls__learned_finite(const ls__learned *a, const float *values, int64_t from, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return LS_FAIL(LS_STATUS_BAD_DATA, "%s: value %lld of %s is no finite number", a->path,
                           (long long)(from + i), a->name);
    return LS_OK;
}

int ls__learned_small(const ls__learned *a) {
    return a->ndim <= 2 && (a->ndim < 2 || a->dim[1] <= LS__LEARNED_SMALL / (int)sizeof(float));
}

ls_field ls__learned_field(const ls__learned *a, int planes) {
    ls_field field = {"target", {0}, a->pixels ? LS_DTYPE_U8 : LS_DTYPE_F32, 0};
    field.shape.ndim = a->ndim - 1;
    for (int d = 1; d < a->ndim; d++) field.shape.dim[d - 1] = a->dim[d];
    if (a->ndim == 3) field.shape = LS_SHAPE(a->dim[1], a->dim[2], 1);
    if (a->ndim == 4 && planes) field.shape = LS_SHAPE(a->dim[2], a->dim[3], a->dim[1]);
    return field;
}

// How much a dimension is like one of channels.
static int likeness(int64_t n) { return n == 1 || n == 3 ? 2 : n == 2 || n == 4; }

int ls__learned_layout(const ls__learned *a, const char *layout, int as) {
    if (a->ndim != 4) return 0;
    if (layout) return strcmp(layout, "chw") == 0;
    int first = likeness(a->dim[1]), last = likeness(a->dim[3]), doubt = as < 0 ? 0 : 1;
    // Of 1 x 1 there are numbers and no images: they lie in one order in both layouts.
    if (a->dim[1] == 1 && a->dim[2] == 1) return 0;
    return first - last > doubt ? 1 : last - first > doubt ? 0 : as;
}

ls_status ls__learned_no_layout(const ls__learned *a) {
    return LS_FAIL(LS_STATUS_BAD_DATA,
                   "%s: samples of %s are %lldx%lldx%lld, which does not tell where their channels are: say layout=hwc "
                   "(height, width, channels) or layout=chw",
                   a->path, a->name, (long long)a->dim[1], (long long)a->dim[2], (long long)a->dim[3]);
}

ls_status ls__learned_width(const ls__learned *a, int *width) {
    *width = 0;
    if (a->ndim == 1 || (a->ndim == 2 && a->dim[1] == 1)) return LS_OK;
    if (a->ndim == 2 && a->dim[1] > 1 && a->dim[1] <= MOST_LABELS) {
        *width = (int)a->dim[1];
        return LS_OK;
    }
    return LS_FAIL(
        LS_STATUS_BAD_DATA,
        "%s: %s has %d dimensions, the second of %lld: classes are (samples) or (samples, 1), several labels "
        "at once (samples, labels), up to %d",
        a->path, a->name, a->ndim, (long long)(a->ndim > 1 ? a->dim[1] : 1), MOST_LABELS);
}

ls_status ls__learned_label(const ls__learned *a, int64_t i, double value, uint8_t *out) {
    *out = value == 1;
    if (value == 0 || value == 1) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA,
                   "%s: value %lld of %s, of %lld labels for each sample, is %g: a label is there, 1, or not, 0",
                   a->path, (long long)i, a->name, (long long)a->dim[1], value);
}

ls_status ls__learned_several(const ls__learned *a, const uint8_t *rows, int64_t count, int width) {
    for (int64_t i = 0; i < count; i++) {
        int there = 0;
        for (int k = 0; k < width; k++) there += rows[i * width + k];
        if (there != 1) return LS_OK;
    }
    return LS_FAIL(
        LS_STATUS_BAD_DATA,
        "%s: each sample of %s has exactly one of its %d labels, so these are classes, written as rows: write "
        "a whole number for each (in Python, argmax(1))",
        a->path, a->name, width);
}
