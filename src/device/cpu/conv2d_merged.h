// Weight gradients of convolutions with narrow groups, several groups at once, and of few channels, filled up to a block.
#ifndef LS_DEVICE_CPU_CONV2D_MERGED_H
#define LS_DEVICE_CPU_CONV2D_MERGED_H

#include "device/cpu/cpu.h"

// For a spec of LS_PASS_BACKWARD_WEIGHTS. Leaves *out NULL where groups cannot be merged to whole blocks of channels, or
// where the only one lies in blocks already.
ls_status ls__cpu_conv2d_merged_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out);

#endif
