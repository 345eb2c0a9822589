// What a job's exchange costs on this machine, measured apart from training.
#ifndef LOCKSTEP_BENCH_H
#define LOCKSTEP_BENCH_H

#include <lockstep/context.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// --- exchange --------------------------------------------------------------------------------------------------------

// Exchange and update as a training step has them, with nothing computed in between: each worker brings one micro-batch's gradient.
typedef struct ls_exchange_bench ls_exchange_bench;

// For `count` parameters (rounded up to what divides well), by the strategy allreduce and the optimizer adam. `own_cores`: 1: each worker has cores of its own and may
// spin while it waits; 0: they share cores. Borrows the context. Collective. The caller destroys it.
// Errors, on every worker: INVALID_ARGUMENT (no parameters), OUT_OF_MEMORY, and those of a communication that is not possible here.
ls_status ls_exchange_bench_create(ls_context *context, int64_t count, int own_cores, ls_exchange_bench **out);
void ls_exchange_bench_destroy(ls_exchange_bench **bench);
// One step: *seconds from the last worker's gradient to the new weights. Collective. Errors: LIBRARY, which may be one worker's alone.
ls_status ls_exchange_bench_step(ls_exchange_bench *bench, double *seconds);

#ifdef __cplusplus
}
#endif
#endif
