// Which cores this worker may use, and how its replicas are bound to them: <lockstep/machine.h> for those that have a
// communicator and no context.
#ifndef LS_TRAIN_TOPOLOGY_H
#define LS_TRAIN_TOPOLOGY_H

#include <lockstep/machine.h>

#include "comm/comm.h"
#include "train/spread.h"

// As ls_topology_create; hyperthreads 1: every hardware thread is a core. Collective on comm.
ls_status ls__topology_create(ls_comm *comm, int hyperthreads, ls_topology **out);
// This worker's cores.
ls_cores ls__topology_mine(const ls_topology *topology);
// The cores whose time control groups allow, of how many; 0: of all. Not collective.
double ls__topology_quota(const ls_topology *topology, int *of);
// Moves memory to the NUMA domain of one of this worker's cores, and has what is touched there later come from it, too. A hint: nothing happens
// where this worker has one domain or the system does not do so. Not collective.
void ls__topology_place(const ls_topology *topology, int core, void *memory, int64_t bytes);
// What the processor calls itself, as hwloc has it. Not collective.
void ls__topology_processor(const ls_topology *topology, char *text, size_t size);
// Those of all workers, each kind once, in the same order on all of them; the caller frees them with free(). Errors: OUT_OF_MEMORY.
ls_status ls__topology_kinds(const ls_topology *topology, ls_cores **out, int *count);

#endif
