// The library's convolutions and dense layers, shared by the threads of a replica.
//
// The library cuts a pass by the number of its threads, and where it adds up a weight gradient in pieces of a batch the sums have another order
// with each number. So it is never told of more than one: a pass is cut here, into passes of one thread each. Forward and data gradients are
// cut by samples, weight gradients by filters, in blocks of 16 or of the layout's. What an element of the result is does not change with that.
//
// But for the library's Winograd and its products of matrices, which cut themselves by caches and by how much they are given, and may add up in
// another order with each. So parts of these are tried beside the whole when they are made (trial.h), and where a bit differs one thread
// computes the whole. Where an instruction set is pinned there is no Winograd (conv2d_cpu.c).
#ifndef LS_DEVICE_CPU_CONV2D_PARTS_H
#define LS_DEVICE_CPU_CONV2D_PARTS_H

#include "device/cpu/cpu.h"

// Puts in place of *kernel, which `create` has made for `spec`, one that the device's threads share, if there are several and the parts can
// be made by the same implementation in the same layouts; leaves it as it is otherwise, and then one thread computes it. Errors: OUT_OF_MEMORY.
ls_status ls__cpu_conv2d_share(ls_cpu *cpu, const ls_kernel_spec *spec, ls_cpu_create_fn create, ls_kernel **kernel);
// DX times (X > 0), both of the layout, whose samples lie one behind the other; by as many threads.
void ls__cpu_conv2d_mask(const ls_layout *layout, int threads, void *dx, const void *x);

#endif
