// A step as data: what one rank does in it, made while planning, proven by a checker
// (step/check.h), run by an executor (step/engine.h).
//
//     lanes       RUN forward, RUN backward, ADD nodes of the tree, SIGNAL ready 0, SIGNAL ready 1, ... WAIT whole, LOOK
//     exchange    WAIT ready 0, ADD, SEND, RECEIVE, UPDATE, SEND, RECEIVE, SIGNAL whole 0, WAIT ready 1, ...
//
// A *queue* is a list of tasks that are done in order. Queues of a rank run side by side; what one
// of them has to know of another it waits for (SIGNAL, WAIT, or a message). A *region* is memory by
// name; tasks name elements of regions, never addresses. A program is periodic: regions and signals
// live over a step's end, and a WAIT may be for the step before (`lag`).
//
// What elements hold is a node of the tree over micro-batches (step/tree.h), or weights. What tasks
// say they read is what must be there.
#ifndef LS_STEP_PROGRAM_H
#define LS_STEP_PROGRAM_H

#include <lockstep/tensor.h>
#include <stdio.h>

#include "mesh/mesh.h"
#include "step/tree.h"

// --- memory ----------------------------------------------------------------------------------------------------------

#define LS_REGION_LIST(X)                                                                                              \
    X(GRADIENTS, "gradients")   /* of a lane: (slots, length) */                                                       \
    X(PUBLISHED, "published")   /* the same on the host, where others cannot read the device's */                      \
    X(WEIGHTS, "weights")       /* masters: (length) */                                                                \
    X(STAGED, "staged weights") /* the same on the host, likewise */                                                   \
    X(COPIES, "copies")         /* of weights, as kernels read them */                                                 \
    X(TOTALS, "totals")         /* (length): the root of the tree, where it travels in place of weights */             \
    X(KEPT, "kept")             /* of a lane's slices: the mean gradient until norms are known, or the direction */    \
    X(STATE, "state")           /* of a lane's slices: the optimizer's */                                              \
    X(SQUARES, "squares")       /* sums of squares for the norm of the gradient */                                     \
    X(LAYER_SQUARES, "layer squares") /* the same of each parameter, for layer-wise optimizers */                      \
    X(MESSAGE, "message")             /* of a rank: what it sends or receives */                                       \
    X(SPARSE, "sparse")               /* encoded nodes from a host, or of this one */                                  \
    X(VOTES, "votes")                 /* of a host */                                                                  \
    X(PUSH, "push")                   /* asynchronous: the sum of a worker's batch, or one that a server applies */

typedef enum ls_region_kind {
#define X(name, words) LS_REGION_##name,
    LS_REGION_LIST(X)
#undef X
        LS_REGION_KINDS
} ls_region_kind;

// Who sees it.
typedef enum ls_scope { LS_SCOPE_LANE, LS_SCOPE_RANK, LS_SCOPE_HOST } ls_scope;

typedef struct ls_region {
    ls_region_kind kind;
    ls_scope scope;
    int rank;    // whose; of the host's: the host's first rank, unless it belongs to one rank and others read it
    int lane;    // -1: none
    int index;   // number of the message, or of the host that it is from
    int device;  // 1: the device's memory
    ls_dtype dtype;
    int64_t elements;  // the most that any of the programs takes
} ls_region;

// The regions that the programs of a rank share: one program for each number of micro-batches.
// Those of the host come first, in an order that all of the host's ranks have alike.
typedef struct ls_regions {
    ls_region *list;
    int count, capacity, shared;  // shared: the first so many are the host's
    int *table, table_size;       // hashed
} ls_regions;

// --- tasks -----------------------------------------------------------------------------------------------------------

#define LS_TASK_LIST(X)                                                                                                \
    X(RUN, "run")         /* kernels of micro-batch `value`: forward, or backward into the output's bucket */          \
    X(SELECT, "select")   /* of a leaf only the largest elements stay (step/topk.h) */                                 \
    X(ADD, "add")         /* inputs, nodes in the order of the tree, to outputs, as far as they are siblings */        \
    X(ENCODE, "encode")   /* the same into messages of what is not zero */                                             \
    X(MEASURE, "measure") /* the mean gradient of the inputs, kept, and its sums of squares */                         \
    X(CLIP, "clip")       /* the factor of clipping, and whether the step is skipped, from all squares */              \
    X(DIRECT, "direct")   /* what a layer-wise optimizer is going to apply, kept, and its sums of squares */           \
    X(NORMS, "norms")     /* of all parameters, from all of these */                                                   \
    X(UPDATE, "update")   /* weights and state, from the root that inputs add up to, or from what was kept */          \
    X(COPY, "copy")                                                                                                    \
    X(REFRESH, "refresh") /* working copies of weights */                                                              \
    X(SEND, "send")       /* the input to `peer` */                                                                    \
    X(RECEIVE, "receive") /* the output from `peer` */                                                                 \
    X(SIGNAL, "signal")                                                                                                \
    X(WAIT, "wait")                                                                                                    \
    X(VOTE, "vote")   /* what this lane wants after the step */                                                        \
    X(MERGE, "merge") /* votes of another host */                                                                      \
    X(LOOK, "look")   /* the decision: the step's one look by the host */                                              \
    X(CALL, "call")   /* asynchronous: the driver pushes and pulls */

typedef enum ls_task_kind {
#define X(name, words) LS_TASK_##name,
    LS_TASK_LIST(X)
#undef X
        LS_TASK_KINDS
} ls_task_kind;

enum { LS_RUN_FORWARD = 0, LS_RUN_BACKWARD = 1 };

// Element `at` of a region is element task.begin of the vector (or whatever the task counts), and
// the next ones follow.
typedef struct ls_operand {
    int region;  // of ls_regions
    int64_t at;
    ls_piece node;
} ls_operand;

typedef struct ls_task {
    unsigned char kind;
    unsigned char pass;                  // of RUN
    int bucket;                          // -1: none, or all
    int lane;                            // whose slice, gradients or part; -1: none
    int64_t begin, end;                  // elements of the vector; of what is none, how many: [0, end)
    int input, inputs, output, outputs;  // in program->operands
    int64_t
        value;  // RUN, SELECT: the micro-batch. REFRESH: low, high: in begin and end what is new, between these what is not there yet
    int64_t high;
    int peer, tag;    // SEND, RECEIVE: rank of the mesh
    int signal, lag;  // SIGNAL, WAIT; lag: 1: that of the step before
    int part, parts;  // REFRESH; RUN forward: part `part` of it, of so many
} ls_task;

typedef struct ls_task_queue {
    ls_task *tasks;
    int count, capacity;
} ls_task_queue;

// How often each is signalled in a step: the same in all programs, so that steps can be counted by
// it.
typedef struct ls_signal_plan {
    int per_step;
    int host;      // 1: the host's; its number is the same on all ranks of the host
    int messages;  // 1: who waits for it waits for messages, on the way of sums; 2: on the way back
} ls_signal_plan;

typedef struct ls_program {
    int rank, lanes;
    int64_t micro_batches;
    ls_task_queue *queues;  // (queue_count): the lanes', then those of the exchange
    int queue_count;
    ls_operand *operands;
    int operand_count, operand_capacity;
    ls_signal_plan *signals;  // (signal_count): the host's first
    int signal_count, host_signals;
} ls_program;

extern const char *const ls_region_words[LS_REGION_KINDS];
extern const char *const ls_task_words[LS_TASK_KINDS];

void ls_program_destroy(ls_program **program);
// A region of this name, made where there is none, of at least so many elements from now on.
// Returns its number, -1: out of memory.
int ls_regions_find(ls_regions *regions, ls_region region);
void ls_regions_free(ls_regions *regions);
// One task a line, with the micro-batches of nodes in braces; or JSON, an array of tasks with their
// queue.
void ls_program_print(const ls_program *program, const ls_regions *regions, int json, FILE *out);

#endif
