// Weight gradients of convolutions with narrow groups, several groups at once.
#ifndef LS_DEVICE_CPU_CONV2D_MERGED_H
#define LS_DEVICE_CPU_CONV2D_MERGED_H

#include "device/cpu/cpu.h"

// For a spec of LS_PASS_BACKWARD_WEIGHTS. Leaves *out NULL where groups cannot be merged to whole blocks of channels.
ls_status ls__cpu_conv2d_merged_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out);

#endif
