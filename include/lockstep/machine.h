// The machine under a job: the cores that each worker has, and what this build can compute and communicate with on it.
//
// For programs that look before they train, as `lockstep check` does; a trainer finds all of it out by itself.
#ifndef LOCKSTEP_MACHINE_H
#define LOCKSTEP_MACHINE_H

#include <lockstep/context.h>
#include <lockstep/tensor.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

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

// --- what this build has ---------------------------------------------------------------------------------------------

// The kernels that compute on a device ("cpu", "ref"), with their versions and the instruction set, for people: `text` holds `size`
// bytes. Not collective. Errors: NOT_FOUND (the device), LIBRARY.
ls_status ls_machine_kernels(const char *device, char *text, size_t size);
// Whether the device computes in this type: LS_OK, or UNSUPPORTED and why not. Not collective. Errors: as above.
ls_status ls_machine_computes(const char *device, ls_dtype precision);

// The MPI library and its version, for people. Not collective; works before the job is joined.
void ls_machine_mpi(char *text, size_t size);
// What MPI allows beside the main thread ("MPI_THREAD_SERIALIZED"); NULL while it is not running. Not collective.
const char *ls_machine_mpi_thread_level(void);
// What MPI adds to the memory of a process that joins a job, in bytes: a child process starts it, alone, and tells. 0 where
// that cannot be found out, or without MPI. Before the job is joined, from a process of one thread. Not collective.
int64_t ls_machine_mpi_bytes(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
