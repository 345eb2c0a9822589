// What a step of training is made of: the tasks of each worker, in the order in which it does them.
#ifndef LOCKSTEP_PROGRAM_H
#define LOCKSTEP_PROGRAM_H

#include <lockstep/memory.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// The program of a full step of training `graph`, as worker `worker` of the job would run it. One
// task a line, first those of each replica, then those of each channel of the exchange. With `json`
// 1: an array of objects, of which each has its "queue" and its "task". Elements are those of the
// vector of all parameters, in the order in which backward completes them; a node is what
// micro-batches from "first" on, 2^level of them, add up to. Asynchronous training has the program
// of what a worker does between its exchanges.
//
// The same holds as for ls_memory_plan: nothing large is allocated, job->dataset may be NULL, and
// it is not collective. Errors: INVALID_ARGUMENT (the job has no such worker, and what
// ls_trainer_create refuses), OUT_OF_MEMORY. *text: free with free().
ls_status ls_program_text(const ls_context *context, const ls_graph *graph, const ls_memory_job *job,
                          const ls_train_config *config, int worker, int json, char **text);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
