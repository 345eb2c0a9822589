// 3x3 convolutions of BF16 numbers by Winograd's F(2x2, 3x3) (winograd.h), as products in tiles.
//
//     forward            Y  = A' [sum over channels of U . V] A        U: transformed filters; V: transformed patches of X
//     backward data      DX, the same of DY, with filters turned over
//     backward weights   DW = G' [sum over patches of V . A DY A'] G
#ifndef LS_DEVICE_CPU_CONV2D_WINOGRAD_H
#define LS_DEVICE_CPU_CONV2D_WINOGRAD_H

#include "device/cpu/cpu.h"
#include "device/cpu/tiles.h"

// Whether a pass can be computed so: 3x3 without strides and dilation, one group, channels and filters in whole tiles, BF16 factors.
int ls__cpu_conv2d_fits_winograd(const ls_kernel_spec *spec);
// The kernel, for what fits. *out is NULL where the layouts that the caller has settled are others. Errors: OUT_OF_MEMORY.
ls_status ls__cpu_conv2d_winograd_create(ls_cpu *cpu, const ls_kernel_spec *spec, const ls_tile_ops *tiles,
                                         ls_kernel **out);

#endif
