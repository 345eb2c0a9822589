// Whether memory that the workers of a host are about to share is really there.
#ifndef LS_COMM_RESERVE_H
#define LS_COMM_RESERVE_H

#include <lockstep/status.h>

#include <stdint.h>

// Takes `bytes` and what MPI needs beside them for `workers` processes, once, and gives them back: MPI's own call fails on one worker alone when
// they are not there, which then leaves the others waiting, or ends the process at the first touch. In `place` ("/dev/shm"; one that
// is not there, or has no limit, is not asked). Not collective; by one worker of a host. Errors: OUT_OF_MEMORY (says how large it must be).
ls_status ls__reserve_shared(const char *place, int64_t bytes, int workers);
// Whether this process may map so much more: its limit (ulimit -v) is its own. By every worker. Errors: OUT_OF_MEMORY.
ls_status ls__reserve_addresses(int64_t bytes);
// Whether MPI may start: map the `bytes` of addresses that it takes (ulimit -v), and let files grow (ulimit -f) to what it keeps in shared memory. Where it may not, Open MPI
// has been seen to wait for ever. By every worker, before MPI_Init. Errors: OUT_OF_MEMORY, UNSUPPORTED.
ls_status ls__reserve_start(int64_t bytes);

#endif
