// Weights in F32 to BF16 pairs, as the kernels of this device take them: of two neighbouring channels, or of two neighbouring filters. The
// library has these copies, too, but walks through them with strides of pages: it takes 3 to 10 times as long.
#ifndef LS_DEVICE_CPU_REORDER_PAIRS_H
#define LS_DEVICE_CPU_REORDER_PAIRS_H

#include "device/cpu/cpu.h"

// For X plain or in blocks of 16 channels and 16 filters, and numbers of both that make whole blocks of Y; *out stays NULL for anything else.
// Rounds as the library does, to even, denormal numbers to zero; what is no number stays none. Errors: OUT_OF_MEMORY, LIBRARY.
ls_status ls__reorder_pairs_create(ls_cpu *cpu, const ls_layout *from, const ls_layout *to, ls_kernel **out);

#endif
