// Whether a pass that is cut into parts computes the bits of the whole: found by trying.
#ifndef LS_DEVICE_CPU_TRIAL_H
#define LS_DEVICE_CPU_TRIAL_H

#include "device/cpu/cpu.h"

// Runs both kernels, which were made for `spec` and have the same layouts, once on the same drawn numbers in memory of their own, and compares
// what they write. Another order of adding shows in some element of nearly any numbers. Answers are remembered by the device, by shapes,
// layouts and `parts`, the number of parts of the second. Where there is no memory to try, or it
// would take half of the host's, *same is 0. Errors: what running them gives.
ls_status ls__cpu_same_bits(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel *whole, ls_kernel *cut, int parts,
                            int *same);
// Forgets all answers.
void ls__cpu_trials_free(ls_cpu *cpu);

#endif
