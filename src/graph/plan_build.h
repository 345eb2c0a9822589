// Compiling a graph into a plan, as its files share it. The order of work:
//   plan_fold.c      which layers become part of another layer's kernel
//   plan_forward.c   a kernel for each layer that is left, and the loss
//   plan_backward.c  the same in reverse, gradients of values with several readers added up on the way
//   plan_remat.c     activations that are made again instead of kept
//   plan_place.c     weights and working copies, memory of buffers
// plan_steps.c has what forward and backward lay steps down with: steps, buffers, reorders.
#ifndef LS_GRAPH_PLAN_BUILD_H
#define LS_GRAPH_PLAN_BUILD_H

#include "graph/plan_impl.h"

// A tensor as the builder knows it: where it is and how it lies.
typedef struct ls_tensor {
    ls_step_arg at;
    const ls_layout *layout;
} ls_tensor;

// A kernel's wish for a parameter in a layout, settled when all layouts of masters are known.
typedef struct ls_wish {
    int step, param;
    ls_arg arg;
} ls_wish;

// What is known of a node while building.
typedef struct ls_node_state {
    ls_value home;      // the node whose kernel computes this value: the node itself, or the one it is folded into
    ls_value source;    // the value whose memory this one is read from: itself, or of a folded zero padding its input
    int padding;        // a zero padding that its reader does
    ls_value residual;  // added by its kernel before the activation; LS_NO_VALUE: nothing
    int relu;           // its kernel ends in a ReLU
    // A convolution or dense layer that ends in a ReLU, and its one reader's kernel masks the gradient by it.
    int masked_by_reader;
    ls_tensor value;         // what its kernel computes
    ls_tensor input, other;  // what its kernel read, after any reorder: X and X2
    ls_tensor gradient;      // of `value`, from the readers met so far; layout NULL: none yet
    ls_step_arg workspace;
    ls_kernel_spec spec;  // of its forward kernel
} ls_node_state;

typedef struct ls_builder {
    ls_plan *plan;
    const ls_graph *graph;
    ls_device *device;
    ls_node_state *nodes;
    ls_wish *wishes;
    int wish_count, wish_capacity;
} ls_builder;

static inline int ls__has_weights(ls_op_kind op) { return op == LS_OP_CONV2D || op == LS_OP_DENSE; }

// The node whose kernel computes the value that input `index` of node `i` is read from.
static inline ls_value ls__input_home(const ls_builder *b, int i, int index) {
    return b->nodes[b->nodes[b->graph->nodes[i].inputs[index]].source].home;
}

// --- plan_fold.c
ls_status ls__plan_fold(ls_builder *b);

// --- plan_steps.c
ls_shape ls__batched(const ls_builder *b, ls_shape sample);
ls_status ls__buffer_add(ls_builder *b, int64_t bytes, int activation, ls_step_arg *out);
// Makes room for one more step.
ls_status ls__steps_reserve(ls_plan *plan);
// Appends a step; takes the kernel over, also when it fails. The arguments are filled in by the caller.
ls_status ls__step_add(ls_builder *b, ls_kernel *kernel, int node, const char *pass, const ls_kernel_spec *spec,
                       ls_plan_step_impl **out);
// The tensor in another layout (NULL: any): itself, or the result of a reorder step.
ls_status ls__in_layout(ls_builder *b, ls_tensor from, const ls_layout *layout, int node, ls_tensor *out);
ls_status ls__wish_add(ls_builder *b, const ls_plan_step_impl *step, int param, ls_arg arg);
ls_kernel_spec ls__loss_spec(const ls_builder *b, ls_pass pass);

// --- plan_forward.c
ls_status ls__plan_forward_steps(ls_builder *b, ls_tensor *logits);
// --- plan_backward.c
ls_status ls__plan_backward_steps(ls_builder *b, ls_tensor logits);
// --- plan_remat.c
ls_status ls__plan_remat(ls_builder *b, ls_remat how);
// --- plan_place.c
// Decides where weights are, for all steps.
ls_status ls__plan_settle(ls_builder *b);
// Places buffers in the arena.
ls_status ls__plan_place(ls_builder *b);

#endif
