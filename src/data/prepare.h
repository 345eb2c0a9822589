// From a stored image to what a network trains on: resized, augmented, normalized, in the type it computes in.
#ifndef LS_DATA_PREPARE_H
#define LS_DATA_PREPARE_H

#include <lockstep/status.h>
#include <lockstep/tensor.h>

#include "data/augment.h"
#include "data/filter.h"
#include "data/image.h"

// What is to become of images. All zero: pixel / 255.
typedef struct ls_recipe {
    int64_t height, width;  // resized to these (see data/resize.h); 0: as they are
    // N: the shorter side becomes N pixels, and height x width of that are cut out: from the middle, or where random-crop has it. Not of images of which
    // resized-crop has cut a box out, which becomes height x width. 0: the whole image becomes height x width.
    int64_t resize;
    ls_interpolation interpolation;
    unsigned augment;  // LS_AUGMENT_ bits (see data/augment.h)
    ls_augment_amounts amounts;
    uint64_t seed;                  // what augmentation is drawn from
    const float *offset, *divisor;  // (C): (pixel - offset) / divisor * scale; NULL: 0 and 255. Copied
    float scale;                    // 0: 1
    int bgr;       // 1: the last channel comes first; offset and divisor are in the order that comes out
    double noise;  // normal noise on all that, of this deviation of pixel / 255 (data/noise.h); 0: none
} ls_recipe;

// The shape that images (H, W, C) have afterwards.
ls_shape ls_recipe_shape(const ls_recipe *recipe, ls_shape source);

// Whether images that come out as `image` (H, W, C) can be made by it. Errors: INVALID_ARGUMENT (too small for an augmentation, channels that it is not for,
// `resize` to less than is cut out).
ls_status ls_recipe_check(const ls_recipe *recipe, ls_shape image);

// For one thread at a time.
typedef struct ls_preparer ls_preparer;
// `source` is the shape (H, W, C) of stored images, or (0, 0, C): pictures of any size; `dtype` F32, BF16 or F16. Errors: those of
// ls_recipe_check, INVALID_ARGUMENT (pictures, and a recipe without a size), OUT_OF_MEMORY.
ls_status ls_preparer_create(const ls_recipe *recipe, ls_shape source, ls_dtype dtype, ls_preparer **out);
void ls_preparer_destroy(ls_preparer **preparer);

// `image` is (H, W, C) as stored, `out` in the shape of ls_recipe_shape. `epoch` and `sample` are what augmentation is
// drawn for. Errors: OUT_OF_MEMORY (of interpolations with filters).
ls_status ls_preparer_run(ls_preparer *preparer, const uint8_t *image, uint32_t epoch, uint64_t sample, void *out);

// The same of a picture, decoded into `buffer`: no more of it than is wanted, see ls_image_shrink. Errors: as ls_image_decode.
ls_status ls_preparer_picture(ls_preparer *preparer, const ls_image_file *file, ls_image_buffer *buffer, uint32_t epoch,
                              uint64_t sample, void *out);

// What one takes, beside pictures, for images or pictures of `source`: bytes, roughly. 0 where everything is done row by row.
int64_t ls_preparer_bytes(const ls_recipe *recipe, ls_shape source);

#endif
