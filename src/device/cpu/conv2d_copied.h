// Data gradients in the library's own layout, copied to where they are wanted.
#ifndef LS_DEVICE_CPU_CONV2D_COPIED_H
#define LS_DEVICE_CPU_CONV2D_COPIED_H

#include "device/cpu/cpu.h"

// *kernel is the library's for a convolution's spec, made by `create`. Where it is the library's reference for a data gradient, and DX in another layout is not, puts that one
// with a copy in its place; else leaves it. Errors: OUT_OF_MEMORY.
ls_status ls__cpu_conv2d_copied_replace(ls_cpu *cpu, const ls_kernel_spec *spec, ls_cpu_create_fn create,
                                        ls_kernel **kernel);

#endif
