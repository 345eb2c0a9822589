// The library's convolutions and dense layers, shared by the threads of a replica.
//
// The library cuts a pass by the number of its threads, and where it adds up a weight gradient in pieces of a batch the sums have another order
// with each number. So it is never told of more than one: a pass is cut here, into passes of one thread each. Forward and data gradients are
// cut by samples, weight gradients by filters, in blocks of 16 or of the layout's.
//
// The bits do not depend on threads by construction. Of implementations that compute each sample, or each block of filters, by itself, which are known by
// name, each thread has a part. All others cut sums by how much they are given: their parts are a function of shapes alone, which one thread
// computes one after the other and several share; or there is one part.
#ifndef LS_DEVICE_CPU_CONV2D_PARTS_H
#define LS_DEVICE_CPU_CONV2D_PARTS_H

#include "device/cpu/cpu.h"

// Puts in place of *kernel, which `create` has made for `spec`, one of several parts, if these can be made by the same implementation in the same
// layouts; leaves it as it is otherwise, and then one thread computes it. Errors: OUT_OF_MEMORY.
ls_status ls__cpu_conv2d_share(ls_cpu *cpu, const ls_kernel_spec *spec, ls_cpu_create_fn create, ls_kernel **kernel);
// DX times (X > 0), both of the layout, whose samples lie one behind the other; by as many threads.
void ls__cpu_conv2d_mask(const ls_layout *layout, int threads, void *dx, const void *x);

#endif
