// What the files of the plan share: the parameter vector's places and copies, and the plan's steps and buffers.
#ifndef LS_GRAPH_PLAN_IMPL_H
#define LS_GRAPH_PLAN_IMPL_H

#include "graph/plan.h"

// --- parameters ------------------------------------------------------------------------------------------------------

typedef struct ls_param_place {
    const ls_layout *layout, *plain;   // in the vector; as Keras has it. NULL: not placed yet
    int64_t offset;                    // in the vector, floats
    ls_kernel *to_plain, *from_plain;  // NULL where the layouts are the same
} ls_param_place;

typedef struct ls_param_copy {
    int param;
    const ls_layout *layout;
    int64_t offset;      // in the copies, bytes
    ls_kernel *reorder;  // master -> copy
    ls_buffer *scratch;  // the reorder's
} ls_param_copy;

struct ls_params {
    const ls_store *store;
    ls_device *device;
    int count;  // in the store when this was created
    int sealed;
    ls_param_place *place;  // by parameter index
    int64_t used;           // floats placed so far
    ls_param_copy *copies;
    int copy_count;
    int64_t copies_bytes;
    ls_buffer *scratch;  // of reorders to and from plain
};

#define LS_MASTER  (-1)
#define LS_NO_COPY (-2)

// Gives a parameter its place at the end of the vector, in `layout` (NULL: plain). Does nothing if it has one.
ls_status ls__params_place(ls_params *params, int index, const ls_layout *layout);
// Which copy of a placed parameter has `layout`: LS_MASTER, the index of a copy (made if need be), or LS_NO_COPY: there is none
// and none can be added any more.
ls_status ls__params_want(ls_params *params, int index, const ls_layout *layout, int *copy);

// --- plan ------------------------------------------------------------------------------------------------------------

// Whether a plan gives the graph's outputs.
static inline int ls__gives_outputs(const ls_plan_config *config) {
    return config->mode == LS_PLAN_PREDICTION || (config->mode == LS_PLAN_EVALUATION && config->outputs);
}

// Where an argument's memory is.
typedef enum ls_place {
    LS_PLACE_NONE,
    LS_PLACE_ARENA,     // index: buffer
    LS_PLACE_WEIGHT,    // index: parameter, from the masters
    LS_PLACE_COPY,      // index: working copy
    LS_PLACE_GRADIENT,  // index: parameter, in the gradient vector of this run
    LS_PLACE_INPUT,     // index: of the graph's inputs, with the run's feeds
    LS_PLACE_RANDOM,
    LS_PLACE_SCALE,
} ls_place;

typedef struct ls_step_arg {
    unsigned char place;  // ls_place
    int index;
    int offset;  // bytes
} ls_step_arg;

typedef struct ls_plan_step_impl {
    ls_kernel *kernel;
    int borrowed;  // the kernel is an earlier step's
    int node;
    const char *pass;        // "forward", "backward data", "reorder", ...
    ls_recompute recompute;  // of its output in forward
    double flops;
    ls_kernel_spec *spec;  // with all layouts free; of steps with arithmetic, else NULL
    ls_step_arg arg[LS_ARG_COUNT];
    int64_t ready_offset, ready_count;  // gradients complete after this step, their weights read; count 0: none
    int64_t needs_offset, needs_count;  // weights that a step of forward reads, with all between them; count 0: none
} ls_plan_step_impl;

// A piece of the arena, alive from its first step to its last.
typedef struct ls_plan_buffer {
    int64_t bytes, offset;
    int first, last;
    int activation;  // 1: an activation or its gradient; 0: workspace or scratch
    int joins;       // 1 + the buffer whose memory this one takes over in place; 0: none
    int stays;       // 1: read after the run
} ls_plan_buffer;

struct ls_plan {
    const ls_graph *graph;
    ls_device *device;
    ls_params *params;
    ls_plan_config config;
    ls_plan_step_impl *steps;  // forward steps, then backward steps
    int step_count, step_capacity, forward_count;
    ls_plan_buffer *buffers;
    int buffer_count, buffer_capacity;
    ls_dtype *feeds;               // (graph inputs): the type each is fed in
    char *reads;                   // (graph inputs)
    int measures, rows;            // buffers; -1: there is none
    int measure_count, row_count;  // doubles in them
    ls_step_arg *outputs;          // (graph outputs), where it gives them
    int64_t arena_bytes;
    ls_span arena, weights, copies;  // bound
    ls_trace *trace;                 // where steps are recorded; NULL: nowhere
    int trace_first;                 // the name of step 0 there
};

// Places buffers so that those alive at the same time do not overlap: largest first, each at the lowest offset that is
// free for its whole life, but those that are the same as another. Returns the bytes needed.
int64_t ls__arena_place(ls_plan_buffer *buffers, int count);

// plan_run.c. Where an argument of a forward step lies in a run with these feeds; and that step.
ls_span ls__plan_span(const ls_plan *plan, ls_step_arg arg, ls_queue *queue, const ls_feeds *feeds);
ls_status ls__plan_run_step(const ls_plan *plan, const ls_plan_step_impl *step, ls_queue *queue, const ls_feeds *feeds);

#endif
