// Convolutions as products of matrices in tiles.
#ifndef LS_DEVICE_CPU_CONV2D_TILES_H
#define LS_DEVICE_CPU_CONV2D_TILES_H

#include "device/cpu/cpu.h"
#include "device/cpu/tiles.h"

// Whether a pass of a convolution can be computed so: one group, channels and filters in whole tiles, BF16 factors.
int ls__cpu_conv2d_fits_tiles(const ls_kernel_spec *spec);
// The kernel, for what fits. *out is NULL where the layouts that the caller has settled are others. Errors: OUT_OF_MEMORY.
ls_status ls__cpu_conv2d_tiles_create(ls_cpu *cpu, const ls_kernel_spec *spec, const ls_tile_ops *tiles,
                                      ls_kernel **out);

#endif
