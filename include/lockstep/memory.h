// Where the memory of training goes, before and after it is taken.
#ifndef LOCKSTEP_MEMORY_H
#define LOCKSTEP_MEMORY_H

#include <lockstep/train.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// Where the memory of a training run goes.
//   enum name    text
#define LS_MEMORY_LIST(X)                                                                                              \
    X(WEIGHTS, "Weights")                                                                                              \
    X(COPIES, "Working copies of weights")                                                                             \
    X(GRADIENTS, "Gradients")                                                                                          \
    X(STATE, "Optimizer state")                                                                                        \
    X(RESIDUALS, "Residuals of gradients")                                                                             \
    X(SUMS, "Partial sums")                                                                                            \
    X(ACTIVATIONS, "Activations")                                                                                      \
    X(BACKWARD, "Gradients of activations")                                                                            \
    X(WORKSPACE, "Workspaces, scratch")                                                                                \
    X(UNUSED, "Between buffers")                                                                                       \
    X(BATCHES, "Batches being loaded")                                                                                 \
    X(DATASET, "Dataset")                                                                                              \
    X(CHECKPOINT, "Snapshot for checkpoints")                                                                          \
    X(RECORDS, "Order of samples, metrics")                                                                            \
    X(PROGRAM, "Program, libraries, kernels")
typedef enum ls_memory_part {
#define LS_MEMORY_ENUM(name, text) LS_MEMORY_##name,
    LS_MEMORY_LIST(LS_MEMORY_ENUM)
#undef LS_MEMORY_ENUM
        LS_MEMORY_PARTS
} ls_memory_part;

const char *ls_memory_part_name(ls_memory_part part);  // NULL: there is no such part

// Bytes. A worker's are those that are resident in its process, memory it shares with other workers included; on a host, shared
// memory counts once.
typedef struct ls_memory_bytes {
    int64_t replica;  // the largest replica's own; part of the worker's
    int64_t worker;   // the largest worker's
    int64_t host;     // the largest host's
} ls_memory_bytes;

// One of the plans a replica runs; they share its arena, which holds activations, their gradients and workspaces.
typedef struct ls_memory_arena {
    int64_t samples;  // of a run; 0: there is no such plan
    int64_t bytes;
} ls_memory_arena;

typedef struct ls_memory {
    ls_memory_bytes part[LS_MEMORY_PARTS], total;
    // Of a worker's first replica. Rest: the shorter last micro-batch of a full step; tails: that of the epoch's last step, and of
    // an evaluation.
    ls_memory_arena train, train_rest, train_tail, evaluate, evaluate_tail;
    int workers, hosts, workers_per_host, replicas_per_worker, threads_per_replica;
    int64_t global_batch, micro_batch;
    int gradient_buffers;              // of each replica
    char replicas_reason[160];         // why so many replicas
    int cores_per_worker, idle_cores;  // the least that a worker has; of them without work
    char cores_advice[240];            // what would give those work; "": they are few
} ls_memory;

// A job that is only thought of. All zero: one worker without a dataset.
typedef struct ls_memory_job {
    int workers, hosts;         // 0: 1
    const ls_dataset *dataset;  // NULL: of no size, its images as the graph takes them
    // Bytes of the program, its libraries and kernels. 0: measured, as what this process took when it created the context and
    // what making the kernels adds to that; right in a process that has made none before.
    int64_t program;
    int checkpoints;  // 1: it takes them
    int64_t more;     // bytes that a worker's process takes beside what can be measured in this one: MPI, say
} ls_memory_job;

// Where the memory of training `graph` would go, found by the code that trains: kernels are created, nothing large is
// allocated. config->batch_size 0: one micro-batch for each replica. job->dataset may be NULL, where there is none yet: then it counts
// for nothing and images are as the graph takes them, of U8; all else is needed. Not collective. Errors: INVALID_ARGUMENT, and those of
// ls_trainer_create that one worker can find alone.
ls_status ls_memory_plan(const ls_context *context, const ls_graph *graph, const ls_memory_job *job,
                         const ls_train_config *config, ls_memory *out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
