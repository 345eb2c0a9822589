// The gradient of a bias: DY added up over samples and pixels, filter by filter.
#ifndef LS_DEVICE_CPU_BIAS_SUMS_H
#define LS_DEVICE_CPU_BIAS_SUMS_H

#include "device/cpu/cpu.h"

// How DY lies: samples x blocks of filters (planes), each of `pixels` x `block`, one after the other.
typedef struct ls_bias_sums {
    ls_dtype dtype;
    int64_t samples, planes, pixels, block, filters;
    int threads;  // which share blocks: each is added up by one of them, in the order of samples and pixels
} ls_bias_sums;

// How many filters lie together in a layout of images or volumes: all of them, 16, or 8. *block 0: it is none of these. Errors: OUT_OF_MEMORY.
ls_status ls__cpu_filters_block(ls_cpu *cpu, const ls_layout *layout, int64_t *block);
// Of Y's shape (samples, ..., filters).
ls_bias_sums ls__bias_sums(const ls_cpu *cpu, ls_shape y, ls_dtype dtype, int64_t block);
// Bytes of scratch memory.
int64_t ls__bias_sums_bytes(const ls_bias_sums *sums);
// Into dbias (filters), by way of sums in double.
void ls__bias_sums_run(const ls_bias_sums *sums, const void *dy, float *dbias, void *scratch);

// A kernel for a spec of LS_PASS_BACKWARD_WEIGHTS of which nothing but the bias is trained (spec->frozen): it reads DY alone. Leaves *out NULL where the weights are
// trained, too, or DY's layout is not settled or is none that is known here. Errors: OUT_OF_MEMORY.
ls_status ls__cpu_bias_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out);

#endif
