// From a stored image to what a network trains on: resized, augmented, normalized, in the type it computes in.
#ifndef LS_DATA_PREPARE_H
#define LS_DATA_PREPARE_H

#include <lockstep/status.h>
#include <lockstep/tensor.h>

#include "data/image.h"

// What is to become of images. All zero: pixel / 255.
typedef struct ls_recipe {
    int64_t height, width;          // resized to these (see data/resize.h); 0: as they are
    unsigned augment;               // LS_AUGMENT_ bits (see data/augment.h)
    uint64_t seed;                  // what augmentation and noise are drawn from
    const float *offset, *divisor;  // (C): (pixel - offset) / divisor; NULL: 0 and 255. Copied
    double noise;  // normal noise on all that, of this deviation of pixel / 255 (data/noise.h); 0: none
} ls_recipe;

// The shape that images (H, W, C) have afterwards.
ls_shape ls_recipe_shape(const ls_recipe *recipe, ls_shape source);

// For one thread at a time.
typedef struct ls_preparer ls_preparer;
// `source` is the shape (H, W, C) of stored images, or (0, 0, C): pictures of any size; `dtype` F32 or BF16. Errors: INVALID_ARGUMENT (too
// small for its augmentation; pictures, and a recipe without a size), OUT_OF_MEMORY.
ls_status ls_preparer_create(const ls_recipe *recipe, ls_shape source, ls_dtype dtype, ls_preparer **out);
void ls_preparer_destroy(ls_preparer **preparer);

// `image` is (H, W, C) as stored, `out` in the shape of ls_recipe_shape. `epoch` and `sample` are what augmentation is
// drawn for.
void ls_preparer_run(ls_preparer *preparer, const uint8_t *image, uint32_t epoch, uint64_t sample, void *out);

// The same of a picture, decoded into `buffer`: no more of it than is wanted, see ls_image_shrink. Errors: as ls_image_decode.
ls_status ls_preparer_picture(ls_preparer *preparer, const ls_image_file *file, ls_image_buffer *buffer, uint32_t epoch,
                              uint64_t sample, void *out);

#endif
