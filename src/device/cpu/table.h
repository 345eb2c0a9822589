// Functions of one number of 16 bits, looked up: there are 65536 of them, and what occurs lies in a few kilobytes of a table, in the first-level cache.
#ifndef LS_DEVICE_CPU_TABLE_H
#define LS_DEVICE_CPU_TABLE_H

#include <stdint.h>

#include "device/cpu/cpu.h"

// Elements from which on a kernel gains more than its table costs.
#define LS_TABLE_PAYS 65536

// to[i] = f(from[i]) times[i]; without `times` f alone.
typedef void (*ls_table_fn)(ls_dtype dtype, void *to, const void *from, const void *times, int64_t n);

// f of every number of `dtype` (BF16 or F16), by its bits; the values are of `values`: `dtype` itself, or F32. Denormals are zeros in it, as in threads that compute. Made once for a
// device, which frees it. NULL: of a type of other size, or out of memory; then f has to be computed.
const void *ls__cpu_table(ls_cpu *cpu, ls_table_fn f, ls_dtype dtype, ls_dtype values);
void ls__cpu_tables_free(ls_cpu *cpu);

#endif
