// From pixels 0 .. 255 to the numbers a network sees: (pixel - offset) / divisor, channel by channel.
#ifndef LS_DATA_NORMALIZE_H
#define LS_DATA_NORMALIZE_H

#include "data/source.h"

typedef enum ls_normalization {
    LS_NORMALIZATION_UNIT,       // pixel / 255: [0, 1]
    LS_NORMALIZATION_SYMMETRIC,  // (pixel - 127.5) / 127.5: [-1, 1], Keras's preprocess_input for ResNetV2 and MobileNet
    LS_NORMALIZATION_DATASET,    // each channel of the training set has mean 0 and deviation 1
    LS_NORMALIZATION_NONE,       // pixels as they are, [0, 255]: of networks that begin with a rescaling of their own
} ls_normalization;

// The index-th name, NULL past the last; *help gets one line about it.
const char *ls_normalization_choice(int index, const char **help);
// Errors: INVALID_ARGUMENT (lists the names).
ls_status ls_normalization_find(const char *name, ls_normalization *out);

// Sums over pixels, as integers, so that the order of adding does not matter: parts of a set add up.
typedef struct ls_channel_sums {
    int64_t count, sum, squares;
} ls_channel_sums;

// Adds the images of samples begin .. end-1 to `sums` (C). `field` is the source's field of images, (H, W, C) in U8.
// Errors: OUT_OF_MEMORY, those of reading a sample.
ls_status ls_channel_sums_add(const ls_source *source, int field, int64_t begin, int64_t end, ls_channel_sums *sums);

// Mean and deviation (of the whole set, divided by its count) in pixel values 0 .. 255.
void ls_channel_moments(const ls_channel_sums *sums, double *mean, double *deviation);

#endif
