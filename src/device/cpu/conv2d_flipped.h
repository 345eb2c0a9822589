// Data gradients as forward passes: DX is the convolution of DY with the weights turned by half a circle, filters and channels exchanged.
#ifndef LS_DEVICE_CPU_CONV2D_FLIPPED_H
#define LS_DEVICE_CPU_CONV2D_FLIPPED_H

#include "device/cpu/cpu.h"

// For a spec of LS_PASS_BACKWARD_DATA in bf16 with windows one pixel apart and whole blocks of 16 channels and filters: the weights' blocks are copied into their new
// places, and the library's forward kernel computes. Leaves *out NULL elsewhere, where it would not pay, and where images or weights would not lie in blocks of channels. `create` makes a kernel of the
// library, for one thread. Errors: those of `create`, OUT_OF_MEMORY.
ls_status ls__cpu_conv2d_flipped_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_cpu_create_fn create,
                                        ls_kernel **out);

#endif
