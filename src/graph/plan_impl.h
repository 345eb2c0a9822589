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
    void *scratch;       // the reorder's
} ls_param_copy;

struct ls_params {
    const ls_graph *graph;
    ls_device *device;
    ls_param_place *place;  // by parameter index
    int64_t used;           // floats placed so far
    ls_param_copy *copies;
    int copy_count;
    int64_t copies_bytes;
    void *scratch;
    int64_t scratch_bytes;
};

#define LS_MASTER (-1)

// Gives a parameter its place at the end of the vector, in `layout` (NULL: plain). Does nothing if it has one.
ls_status ls__params_place(ls_params *params, int index, const ls_layout *layout);
// Which copy of a placed parameter has `layout`: LS_MASTER, or the index of a copy (made if need be).
ls_status ls__params_want(ls_params *params, int index, const ls_layout *layout, int *copy);

// --- plan ------------------------------------------------------------------------------------------------------------

// Where an argument's memory is.
typedef enum ls_place {
    LS_PLACE_NONE,
    LS_PLACE_ARENA,     // index: buffer
    LS_PLACE_WEIGHT,    // index: parameter, from the masters
    LS_PLACE_COPY,      // index: working copy
    LS_PLACE_GRADIENT,  // index: parameter, in the gradient vector of this run
    LS_PLACE_IMAGES,    // the rest come with the run's input
    LS_PLACE_LABELS,
    LS_PLACE_RANDOM,
    LS_PLACE_METRICS,
} ls_place;

typedef struct ls_step_arg {
    unsigned char place;  // ls_place
    int index;
} ls_step_arg;

typedef struct ls_plan_step_impl {
    ls_kernel *kernel;
    int borrowed;  // the kernel is an earlier step's
    int node;
    const char *pass;     // "forward", "backward data", "reorder", ...
    ls_kernel_spec spec;  // with all layouts free; of reorders empty
    ls_step_arg arg[LS_ARG_COUNT];
    int64_t ready_offset, ready_count;  // gradients complete after this step; count 0: none
} ls_plan_step_impl;

// A piece of the arena, alive from its first step to its last.
typedef struct ls_buffer {
    int64_t bytes, offset;
    int first, last;
    int activation;  // 1: an activation or its gradient; 0: workspace or scratch
    int joins;       // 1 + the buffer whose memory this one takes over in place; 0: none
} ls_buffer;

struct ls_plan {
    const ls_graph *graph;
    ls_device *device;
    ls_params *params;
    ls_plan_config config;
    ls_plan_step_impl *steps;  // forward steps, then backward steps
    int step_count, step_capacity, forward_count;
    ls_buffer *buffers;
    int buffer_count, buffer_capacity;
    int logits;  // buffer
    int64_t arena_bytes;
    char *arena;  // bound
    float *weights;
    char *copies;
    ls_trace *trace;  // where steps are recorded; NULL: nowhere
    int trace_first;  // the name of step 0 there
};

// Places buffers so that those alive at the same time do not overlap: largest first, each at the lowest offset that is
// free for its whole life, but those that are the same as another. Returns the bytes needed.
int64_t ls__arena_place(ls_buffer *buffers, int count);

#endif
