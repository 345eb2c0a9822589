// What arrays in files have beside images: numbers or images that are learned of them, and rows of several labels. One for all formats of arrays.
#ifndef LS_DATA_FORMATS_LEARNED_H
#define LS_DATA_FORMATS_LEARNED_H

#include <lockstep/data.h>

enum { LS__LEARNED_SMALL = 256 };

// An array, as a format describes it.
typedef struct ls__learned {
    const char *path, *name;  // for sentences
    int pixels, floats;       // of U8; floating ones. Neither: of another type
    int ndim;
    const int64_t *dim;  // (ndim): samples first
} ls__learned;

// That an array is one of targets: floating numbers of any shape, or images of pixels; `first` those to train on, which the others are like (or itself).
// Errors: BAD_DATA.
ls_status ls__learned_targets(const ls__learned *mine, const ls__learned *first);
// That floating numbers are finite; `values` begin with value number `from`. Errors: BAD_DATA, with the first that is not.
ls_status ls__learned_finite(const ls__learned *mine, const float *values, int64_t from, int64_t count);
// Whether targets are so few numbers for each sample, LS__LEARNED_SMALL bytes, that they are in memory, as an index of files would be. Others, and images, are read
// with the images that they are learned of.
int ls__learned_small(const ls__learned *mine);
// The field "target" of a sample: a number, a row of them, or an image (H, W, C), of which grey ones have no C in the file.
// `planes`: the file has (C, H, W).
ls_field ls__learned_field(const ls__learned *mine, int planes);
// Whether an array of images of 4 dimensions has (channels, height, width), 1, or (height, width, channels), 0: as the
// `layout` that is asked for, hwc or chw, or where that is NULL as one end is more like channels, of which there are 1 or 3,
// else 2 or 4. `as`: that of the images that these are learned of, which count unless they leave no doubt; of images -1, which
// is returned where nothing is certain.
int ls__learned_layout(const ls__learned *images, const char *layout, int as);
// BAD_DATA: the layout is to be told.
ls_status ls__learned_no_layout(const ls__learned *images);

// How many labels a sample has at once in an array of labels: (samples, labels), more than one; 0: one class for each sample, (samples) or (samples, 1).
// Errors: BAD_DATA (another shape, more than there may be).
ls_status ls__learned_width(const ls__learned *mine, int *width);
// Value number i of such rows: 1, the label is there, or 0. Errors: BAD_DATA.
ls_status ls__learned_label(const ls__learned *mine, int64_t i, double value, uint8_t *out);
// That rows (count, width) to train on are not classes that were written as rows, a 1 in each. Errors: BAD_DATA.
ls_status ls__learned_several(const ls__learned *mine, const uint8_t *rows, int64_t count, int width);

#endif
