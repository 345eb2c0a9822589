// How much memory and processor time this process may have: the machine's, or what control groups leave of it.
#ifndef LS_BASE_LIMITS_H
#define LS_BASE_LIMITS_H

#include <stddef.h>
#include <stdint.h>

// The processors' worth of time that control groups allow, as 1.5; -1: no limit. `mount` is where they are (/sys/fs/cgroup), version 1's or
// version 2's, and `self` the file that names this process's (/proc/self/cgroup).
double ls_limits_group_cpus_in(const char *mount, const char *self);
double ls_limits_group_cpus(void);
// What tells the group that has that limit from those of other processes of this host.
void ls_limits_group_cpus_name(char *text, size_t size);
// The memory that control groups allow; -1: as much as there is.
double ls_limits_group_memory(void);
// What the machine has, swap included, or control groups allow. More than that ends in a kill, not in a failed call. -1: not known.
double ls_limits_memory(void);
// How much of that is left now. -1: not known.
double ls_limits_memory_left(void);
// How often the kernel has killed a process of this control group for memory; -1: not known.
int64_t ls_limits_kills(void);

#endif
