// Weight gradients of convolutions in fp16 and bf16, computed in fp32.
#ifndef LS_DEVICE_CPU_CONV2D_WIDE_H
#define LS_DEVICE_CPU_CONV2D_WIDE_H

#include "device/cpu/cpu.h"

// For a spec of LS_PASS_BACKWARD_WEIGHTS of F16 or BF16 factors: X and DY are widened to F32 first. Errors: those of the library, OUT_OF_MEMORY.
ls_status ls__cpu_conv2d_wide_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out);

#endif
