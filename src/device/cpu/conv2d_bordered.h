// Weight gradients of images that are smaller than the kernel, with their border of zeros.
#ifndef LS_DEVICE_CPU_CONV2D_BORDERED_H
#define LS_DEVICE_CPU_CONV2D_BORDERED_H

#include "device/cpu/cpu.h"

// For a spec of LS_PASS_BACKWARD_WEIGHTS of one group: X is copied into a frame of zeros, and what computes is the kernel for padded images. With AVX2 the
// library has nothing but its reference where an image is smaller than the kernel, as 2x2 is than 3x3. Leaves *out NULL where nothing is padded, channels do
// not fill blocks, or X does not lie in them. Errors: those of ls__cpu_conv2d_create, OUT_OF_MEMORY.
ls_status ls__cpu_conv2d_bordered_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out);

#endif
