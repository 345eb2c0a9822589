// What is done to training images at random. Every choice is a function of (seed, epoch, sample, which augmentation), so it
// does not matter who prepares a sample, in which batch, and which other augmentations are on.
//
// In the order in which an image goes through them:
//   resized-crop  a box of 8 to 100 % of the image's area and of a shape between 3:4 and 4:3 is cut out and resized to the
//                 whole image. Szegedy et al., "Going deeper with convolutions", CVPR 2015, section 6; drawn as torchvision's
//                 RandomResizedCrop draws it.
//   random-crop   of the image whose shorter side was brought to a size (ls_recipe.resize), any window of the size that is wanted.
//   crop          the image moves by up to an eighth of its side in either direction; what comes in is black (pixel 0).
//                 At 32 pixels: pad by 4 and crop back. He et al., "Deep residual learning", CVPR 2016, section 4.2.
//   translate     the image moves by up to a sixteenth of its side in either direction; what comes in is the image itself, reflected at its
//                 edge. At 32 pixels: by 2. K. Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024, section 3.1.
//   flip          half of the images are mirrored, left to right.
//   rotate        turned around its middle by any angle up to an amount; what comes in is black.
//   brightness, contrast, saturation, hue
//                 in any order, by factors from 1 - amount to 1 + amount, hue by a part of its circle: torchvision's ColorJitter.
//   lighting      red, green and blue move together along the principal components of ImageNet's colours. Krizhevsky et al.,
//                 "ImageNet classification with deep convolutional neural networks", NIPS 2012, section 4.1.
//   alternate-flip  half of the images are mirrored in the first epoch, the other half in the second, and so on in turn: two epochs
//                 that follow each other show every image both ways. The same, section 3.6.
//   cutout        after normalization, a square of half the image's side is set to 0. Its middle is any pixel, so part of it may lie
//                 outside. DeVries and Taylor, "Improved regularization of CNNs with cutout", 2017.
#ifndef LS_DATA_AUGMENT_H
#define LS_DATA_AUGMENT_H

#include <lockstep/status.h>
#include <lockstep/tensor.h>

typedef enum ls_augment {
    LS_AUGMENT_RESIZED_CROP = 1,
    LS_AUGMENT_CROP = 2,
    LS_AUGMENT_FLIP = 4,
    LS_AUGMENT_CUTOUT = 8,
    LS_AUGMENT_RANDOM_CROP = 16,
    LS_AUGMENT_BRIGHTNESS = 32,
    LS_AUGMENT_CONTRAST = 64,
    LS_AUGMENT_SATURATION = 128,
    LS_AUGMENT_HUE = 256,
    LS_AUGMENT_LIGHTING = 512,
    LS_AUGMENT_ROTATE = 1024,
    LS_AUGMENT_TRANSLATE = 2048,
    LS_AUGMENT_ALTERNATE_FLIP = 4096,
    // Not drawn, and in no list: the view of the image whose number (below LS_VIEWS) stands in the epoch's place. Of an evaluation that looks at
    // images several times: 2k: as it is, moved by one pixel up and left, down and right (k = 0, 1, 2), reflected; 2k + 1: the same mirrored.
    LS_AUGMENT_VIEW = 8192,
} ls_augment;

#define LS_VIEWS 6

// Those that look at the colours of a pixel, and those that need the image as a whole before it is normalized.
#define LS_AUGMENT_COLOURS                                                                                             \
    (LS_AUGMENT_BRIGHTNESS | LS_AUGMENT_CONTRAST | LS_AUGMENT_SATURATION | LS_AUGMENT_HUE | LS_AUGMENT_LIGHTING)
#define LS_AUGMENT_STAGED (LS_AUGMENT_COLOURS | LS_AUGMENT_ROTATE)

// How strong those are that have an amount; each counts where its bit is set.
typedef struct ls_augment_amounts {
    double brightness, contrast, saturation;  // factors are from 1 - amount (0 at least) to 1 + amount
    double hue;                               // part of the circle in either direction, up to 0.5
    double lighting;                          // standard deviation of the draws
    double rotate;                            // degrees in either direction
} ls_augment_amounts;

// The index-th word of a list of augmentations, "none" being the first, NULL past the last; *help gets one line about it.
const char *ls_augment_choice(int index, const char **help);

// "none", or augmentations separated by commas, in any order, some with an amount ("hue=0.1") → a set of LS_AUGMENT_ bits and their
// amounts. Errors: INVALID_ARGUMENT (an unknown word, one said twice, two that contradict each other, an amount that cannot be).
ls_status ls_augment_parse(const char *list, unsigned *out, ls_augment_amounts *amounts);

// Whether images that come out as `image` (H, W, C) are large enough for it, and have the channels. Errors: INVALID_ARGUMENT.
ls_status ls_augment_check(unsigned augment, ls_shape image);

typedef struct ls_rectangle {
    int64_t y, x, height, width;
} ls_rectangle;

// What was drawn for one sample.
typedef struct ls_augment_draw {
    ls_rectangle box;          // of the source, to be resized to the whole image
    int64_t shift_y, shift_x;  // the pixel at (y, x) is that of (y + shift_y, x + shift_x)
    int reflect;               // what comes in from beyond the edge: 0: black; 1: the image, reflected
    int mirror;
    ls_rectangle hole;  // of the image, to be set to 0; may be empty
} ls_augment_draw;

// What is drawn for `sample` in `epoch`: `source` (H, W, C) is what it is stored as, `image` (H, W, C) what it becomes.
ls_augment_draw ls_augment_sample(unsigned augment, uint64_t seed, uint32_t epoch, uint64_t sample, ls_shape source,
                                  ls_shape image);

// Where in an image of `full` (H, W) the window of `image` (H, W) begins that is drawn for random-crop; without it the one in the middle, as
// torchvision's CenterCrop takes it.
void ls_augment_window(unsigned augment, uint64_t seed, uint32_t epoch, uint64_t sample, ls_shape full, ls_shape image,
                       int64_t *y, int64_t *x);

// What is done to colours, and by which angle an image is turned.
typedef struct ls_augment_look {
    unsigned augment;                        // LS_AUGMENT_STAGED bits of it
    int order[4];                            // in which brightness (0), contrast (1), saturation (2) and hue (3) come
    float brightness, contrast, saturation;  // factors
    float hue;                               // added to it, of a circle of 1
    float lighting[3];                       // added to red, green and blue, of pixels 0 to 255
    float sine, cosine;                      // of the angle, counter-clockwise
} ls_augment_look;

ls_augment_look ls_augment_sample_look(unsigned augment, const ls_augment_amounts *amounts, uint64_t seed,
                                       uint32_t epoch, uint64_t sample);

#endif
