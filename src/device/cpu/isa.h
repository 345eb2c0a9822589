// The instruction set that kernels are chosen by, the library's and ours: the processor's, or one that was pinned.
#ifndef LS_DEVICE_CPU_ISA_H
#define LS_DEVICE_CPU_ISA_H

#include <oneapi/dnnl/dnnl.h>

#include <lockstep/status.h>

// Pins it for all of the process, by name: "avx2", "avx512", "avx512-bf16", "amx", with oneDNN 3 "avx512-fp16" and "amx-fp16"; NULL leaves it as it is. Before the process makes its first
// kernel. Errors: INVALID_ARGUMENT (no such name, with those there are), UNSUPPORTED (this processor has not got it; the process computes with
// another one already).
ls_status ls__cpu_isa_pin(const char *name);
// Whether kernels may use all of an instruction set.
int ls__cpu_isa_has(dnnl_cpu_isa_t isa);
// Whether the library has products of fp16 in all passes, with this instruction set, and products in AMX tiles of them.
int ls__cpu_has_half(void);
int ls__cpu_has_half_tiles(void);
// Channels of the blocks in which the library's kernels have images: one vector of floats.
int ls__cpu_block(void);
// The one in use, as the library calls it ("avx512_core_bf16").
const char *ls__cpu_isa_name(void);

#endif
