// Weight gradients of dense layers of many vectors, from more channels than they have units, by our own loop.
#ifndef LS_DEVICE_CPU_DENSE_WEIGHTS_H
#define LS_DEVICE_CPU_DENSE_WEIGHTS_H

#include "device/cpu/cpu.h"

// *kernel is the library's for a spec of LS_PASS_BACKWARD_WEIGHTS of a dense layer of vectors. Puts ours in its place where it is one of the
// kernels that ours is faster than; else leaves it. Errors: OUT_OF_MEMORY.
ls_status ls__cpu_dense_weights_replace(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **kernel);

#endif
