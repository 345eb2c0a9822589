// How much memory this process may have: the machine's, or what control groups leave of it.
#ifndef LS_BASE_LIMITS_H
#define LS_BASE_LIMITS_H

#include <stdint.h>

// The least over this process's control group and those above it of what `read` gives for a group's folder, of version 2 or of version 1's
// `controller`; -1 where none has one. `read` returns -1 for none.
double ls_limits_group(const char *controller, double (*read)(const char *folder));
// The memory that control groups allow; -1: as much as there is.
double ls_limits_group_memory(void);
// What the machine has, swap included, or control groups allow. More than that ends in a kill, not in a failed call. -1: not known.
double ls_limits_memory(void);
// How much of that is left now. -1: not known.
double ls_limits_memory_left(void);
// How often the kernel has killed a process of this control group for memory; -1: not known.
int64_t ls_limits_kills(void);

#endif
