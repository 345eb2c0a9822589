// The machine under a job: the cores that each worker has, and what this build can compute and communicate with on it.
//
// For programs that look before they train, as `lockstep check` does; a trainer finds all of it out by itself.
#ifndef LOCKSTEP_MACHINE_H
#define LOCKSTEP_MACHINE_H

#include <lockstep/context.h>

#ifdef __cplusplus
extern "C" {
#endif

// --- cores -----------------------------------------------------------------------------------------------------------

typedef struct ls_topology ls_topology;

// Finds the cores the system lets this process run on. Workers of a host that were given the same cores divide them in
// rank order; workers that were given cores of their own (srun does that) keep them. Collective. The caller destroys it.
// Errors: LIBRARY (hwloc cannot read the machine), OUT_OF_MEMORY.
ls_status ls_topology_create(ls_context *context, ls_topology **out);
void ls_topology_destroy(ls_topology **topology);

int ls_topology_cores(const ls_topology *topology);        // for this worker alone; 0: fewer cores than workers
int ls_topology_cores_least(const ls_topology *topology);  // the least of any worker: the same number on all
int ls_topology_host_cores(const ls_topology *topology);   // that this host's workers may use together

// Binds the calling thread to cores [first, first + count) of this worker's. Not collective; best effort.
void ls_topology_bind(const ls_topology *topology, int first, int count);
// Lets the calling thread run wherever the process could at the start. Not collective.
void ls_topology_unbind(const ls_topology *topology);

#ifdef __cplusplus
}
#endif
#endif
