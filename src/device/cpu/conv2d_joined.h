// Weight gradients of 1x1 convolutions over many small images, joined to one.
#ifndef LS_DEVICE_CPU_CONV2D_JOINED_H
#define LS_DEVICE_CPU_CONV2D_JOINED_H

#include "device/cpu/cpu.h"

// For a spec of LS_PASS_BACKWARD_WEIGHTS of a 1x1 convolution in bf16: as that over one large image, whose pixels those of all images are. The library goes through all of DW for each
// image, which lasts longer than the few pixels' arithmetic once DW has left the second-level cache. `create` makes a kernel of the library, for one thread. Leaves *out NULL where it would not
// pay, and where the images do not lie in blocks of channels. Errors: those of `create`, OUT_OF_MEMORY.
ls_status ls__cpu_conv2d_joined_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_cpu_create_fn create,
                                       ls_kernel **out);

#endif
