// Winograd's F(2x2, 3x3): 2 x 2 pixels of the result of a 3x3 convolution by 16 products for each channel and filter, where there are 36 otherwise;
// and what they add to the gradient of its weights.
//
//     Y = A' ((G g G') . (B' d B)) A      g: 3 x 3 weights; d: 4 x 4 pixels of the image; .: by element, added up over channels
//     DG = G' ((B' d B) . (A dy A')) G     dy: 2 x 2 pixels of the result's gradient; added up over patches
//
// The factors are BF16: of G g G', B' d B and A dy A', computed in F32, each number is rounded once. The rest is F32. Sums of untransformed factors, whose
// products F32 holds exactly, have next to no error before their result is rounded to BF16; these have about twice what that rounding makes.
#ifndef LS_DEVICE_CPU_WINOGRAD_H
#define LS_DEVICE_CPU_WINOGRAD_H

#include <stdint.h>

#include "base/bf16.h"
#include "device/cpu/conv2d_ending.h"

enum { LS_WINOGRAD = 16 };  // numbers of a transformed filter or patch: 4 x 4

// A patch of 4 x 4 pixels: where 16 channels of each are, and how far it is to its next 16.
typedef struct ls_winograd_patch {
    const ls_bf16 *pixel[LS_WINOGRAD];
    int64_t block[LS_WINOGRAD];
} ls_winograd_patch;

// The 2 x 2 pixels that come of a patch: where the first 16 columns of each are, in elements; -1: it lies outside the image.
typedef struct ls_winograd_place {
    int64_t pixel[4], block;
} ls_winograd_place;

// Which of the four rows of numbers are written.
typedef enum ls_winograd_rows { LS_WINOGRAD_ALL, LS_WINOGRAD_UPPER, LS_WINOGRAD_LOWER } ls_winograd_rows;

// Of every element that is written, number p of the 16 lies p * position elements behind the first.
typedef struct ls_winograd_loops {
    // G g G' of `count` (a multiple of 16) neighbouring weights, whose taps are `count` elements from each other; flipped: tap 8 is the first.
    void (*filters)(const ls_bf16 *w, int64_t count, int flipped, ls_bf16 *u, int64_t position);
    // B' d B of so many blocks of 16 channels, from block `first` on.
    void (*patch)(const ls_winograd_patch *patch, ls_winograd_rows rows, int64_t first, int64_t blocks, ls_bf16 *v,
                  int64_t position);
    // A dy A' of the pixels of two patches of DY, for so many blocks of 16 filters, which become pairs: element 2 f of what is written is the first
    // patch's of filter f, 2 f + 1 the second's. Blocks are written `column` elements from each other; pixels that lie outside count as zeros.
    void (*gradients)(const ls_bf16 *dy, const ls_winograd_place places[2], ls_winograd_rows rows, int64_t blocks,
                      ls_bf16 *d, int64_t column, int64_t position);
    // G' m G of `count` (a multiple of 16) neighbouring sums: their taps are written `tap` elements from each other.
    void (*weights)(const float *m, int64_t position, int64_t count, float *dw, int64_t tap);
    // A' m A of so many blocks of 16 columns, from column `column` of the result on.
    void (*result)(const float *m, int64_t position, const ls_winograd_place *place, int64_t column, int64_t blocks,
                   const ls_conv2d_ending *e);
} ls_winograd_loops;

// The same bits, the second in the instructions of AVX512-BF16: NULL where this processor has none.
const ls_winograd_loops *ls__winograd_loops(void);
const ls_winograd_loops *ls__winograd_loops_of_bf16(void);

#endif
