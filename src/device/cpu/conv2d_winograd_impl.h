// What the files of convolutions by Winograd share (conv2d_winograd.h): how images lie, and which pixels a patch has.
#ifndef LS_DEVICE_CPU_CONV2D_WINOGRAD_IMPL_H
#define LS_DEVICE_CPU_CONV2D_WINOGRAD_IMPL_H

#include "device/cpu/conv2d_winograd.h"
#include "device/cpu/winograd.h"

enum {
    LS_WINOGRAD_BLOCK = 2 * LS_TILE,  // rows and columns that are multiplied at once
    // Elements of BF16 between one matrix of the 16 and the next, whose rows would fall into the same places of a cache.
    LS_WINOGRAD_APART = 32,
};

// How an image lies: plain, or in blocks of 16 channels.
typedef struct ls_winograd_image {
    int64_t height, width, channels;
    int64_t pixel, block;  // elements from a pixel to the next, from 16 channels to the next 16
} ls_winograd_image;

// Patches of the images that are read, by what 2 x 2 pixels belong to each: of those that are written, in a weight gradient of DY.
typedef struct ls_winograd_grid {
    int64_t samples, down, across;  // patches of an image: (down, across)
    int64_t top, left;              // pixels of the first patch above the image and beside it
    ls_winograd_image from, to;
} ls_winograd_grid;

static inline int64_t ls__winograd_patches(const ls_winograd_grid *g) { return g->samples * g->down * g->across; }

// For the loops: 4 x 4 pixels of `from`, zeros outside; where the 2 x 2 pixels of `to` are.
void ls__winograd_find_patch(const ls_winograd_grid *g, const ls_bf16 *from, int64_t patch, ls_winograd_patch *out);
ls_winograd_place ls__winograd_find_place(const ls_winograd_grid *g, int64_t patch);

// The grid of a pass, and the layouts of its images: as the caller has settled them, else in blocks of 16 channels.
ls_status ls__winograd_settle(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel *kernel, ls_winograd_grid *out);

// The loops to use here.
const ls_winograd_loops *ls__winograd_fastest(void);

// The kernels of ls__cpu_conv2d_winograd_create: forward and backward data; backward weights.
ls_status ls__winograd_rows_create(ls_cpu *cpu, const ls_kernel_spec *spec, const ls_tile_ops *tiles, ls_kernel **out);
ls_status ls__winograd_weights_create(ls_cpu *cpu, const ls_kernel_spec *spec, const ls_tile_ops *tiles,
                                      ls_kernel **out);

#endif
