// Weight gradients by Winograd, some images at a time.
//
// The library's Winograd adds up a weight gradient in an order that goes by how many filters it is given, so parts of the filters have other bits
// than the whole, and one thread would compute all of it (conv2d_parts.h). Parts of the images are whole gradients by themselves: their number is a
// function of shapes, and they are added up in pairs, in their order. Threads share them, and one thread takes less time, too, as what is
// transformed at once lies in its cache.
#ifndef LS_DEVICE_CPU_CONV2D_BY_IMAGES_H
#define LS_DEVICE_CPU_CONV2D_BY_IMAGES_H

#include "device/cpu/cpu.h"

// For a spec of LS_PASS_BACKWARD_WEIGHTS for whose images `create` makes a kernel of the library. Leaves *out NULL where there are too few images,
// they do not lie in blocks of 16 channels, or the library would not use Winograd. Errors: those of `create`, OUT_OF_MEMORY.
ls_status ls__cpu_conv2d_by_images_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_cpu_create_fn create,
                                          ls_kernel **out);

#endif
