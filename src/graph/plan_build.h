// Compiling a graph into a plan, as its files and the ops share it. The order of work:
//   plan_fold.c      what is computed at all, and which layers become part of another layer's kernel
//   plan_forward.c   a kernel for each layer that is left
//   plan_backward.c  the same in reverse, as the ops emit it; gradients of values with several readers added up on the way
//   plan_remat.c     activations that are made again instead of kept
//   plan_place.c     weights and working copies, memory of buffers
// plan_steps.c has what forward and backward lay steps down with: steps, buffers, reorders.
#ifndef LS_GRAPH_PLAN_BUILD_H
#define LS_GRAPH_PLAN_BUILD_H

#include "graph/plan_impl.h"

// A tensor as the builder knows it: where it is and how it lies. layout NULL: there is none.
typedef struct ls_tensor {
    ls_step_arg at;
    const ls_layout *layout;
} ls_tensor;

// A parameter that a kernel asks for in a layout, settled when all layouts of masters are known.
typedef struct ls_param_request {
    int step, param;
    ls_arg arg;
} ls_param_request;

// What is known of a value while building.
typedef struct ls_value_state {
    ls_value home;    // the value whose kernel computes this one: itself, or the one it is folded into
    ls_value source;  // the value whose memory this one is read from: itself, or of a folded zero padding its input
    int padding;      // a zero padding that its reader does
    int readers, last_reader;  // nodes that are computed and read it
    int only_measured;         // losses and metrics alone read it
    int wants_gradient;        // something before it is trained
    ls_tensor value;           // what its kernel computes
    ls_tensor gradient;        // of `value`, from the readers so far
    // The first node whose output has a copy of `value`, and which of its inputs that is; -1: none.
    int holder, holder_input;
} ls_value_state;

// And of a node.
typedef struct ls_node_state {
    int needed;                // it leads to what the plan computes
    int trains;                // it has a parameter that is trained
    ls_value residual;         // added by its kernel before the activation; LS_NO_VALUE: none
    ls_activation activation;  // that its kernel ends in: RELU, RELU6; else NONE
    // Its kernel ends in a ReLU, and its one reader's kernel masks the gradient by it.
    int masked_by_reader;
    ls_tensor input[LS_MAX_INPUTS];  // what its kernel read, after any reorder
    ls_step_arg workspace;
    int64_t holds_pieces;  // of its forward kernel
    ls_kernel_spec *spec;  // the same kernel's
} ls_node_state;

typedef struct ls_builder {
    ls_plan *plan;
    const ls_graph *graph;
    ls_device *device;
    ls_value_state *values;
    ls_node_state *nodes;
    ls_param_request *requests;
    int request_count, request_capacity;
} ls_builder;

// The value whose kernel computes what input `index` of node `i` is read from.
static inline ls_value ls__input_home(const ls_builder *b, int i, int index) {
    return b->values[b->values[b->graph->nodes[i].inputs[index]].source].home;
}
// Whether a kernel of its own computes node `i`.
static inline int ls__has_kernel(const ls_builder *b, int i) {
    ls_value v = b->graph->nodes[i].value;
    return b->nodes[i].needed && b->graph->nodes[i].input_count > 0 && b->values[v].home == v;
}

// --- for ops: backward -----------------------------------------------------------------------------------------------

// The common case: one output, a gradient of each input, and of the parameters if there are any.
ls_status ls__backward_layer(ls_builder *b, int node);
// The same from one kernel (LS_PASS_BACKWARD), which may add what there is of its input's gradient already.
ls_status ls__backward_joint(ls_builder *b, int node);
// A loss: the gradient of its first input begins here.
ls_status ls__backward_seed(ls_builder *b, int node);

// The gradient of output `index` of a node, lying as the output does. layout NULL: nobody reads that output.
ls_status ls__gradient_of(ls_builder *b, int node, int index, ls_tensor *out);
// Adds a gradient of input `index` of a node. Does nothing where none is wanted.
ls_status ls__contribute(ls_builder *b, int node, int index, ls_tensor d);
// Emits a kernel of a backward pass. dy: (outputs); dx: (inputs), filled in where the kernel gives a gradient; NULL: none are wanted.
// Gradients of parameters go where they belong. `pass_name` is for traces.
ls_status ls__emit_backward(ls_builder *b, int node, ls_pass pass, const char *pass_name, const ls_tensor *dy,
                            ls_tensor *dx);

// --- plan_fold.c
ls_status ls__plan_fold(ls_builder *b);

// --- plan_steps.c
ls_status ls__buffer_add(ls_builder *b, int64_t bytes, int activation, ls_step_arg *out);
// Makes room for one more step.
ls_status ls__steps_reserve(ls_plan *plan);
// Appends a step; takes the kernel over, also when it fails. The arguments are filled in by the caller. `spec` may be NULL.
ls_status ls__step_add(ls_builder *b, ls_kernel *kernel, int node, const char *pass, const ls_kernel_spec *spec,
                       ls_plan_step_impl **out);
// The tensor in another layout (NULL: any): itself, or the result of a reorder step.
ls_status ls__in_layout(ls_builder *b, ls_tensor from, const ls_layout *layout, int node, ls_tensor *out);
// Requests the parameters that the step's kernel reads.
ls_status ls__request_params(ls_builder *b, int node, const ls_plan_step_impl *step);
// Hands the step the numbers by which the node's input was picked, where its kernel wants them.
void ls__pass_numbers(const ls_builder *b, int node, ls_plan_step_impl *step);
// The spec of a kernel that the plan itself asks for, of one shape and type throughout, with `inputs` inputs.
ls_kernel_spec ls__plain_spec(ls_acts_as what, ls_pass pass, ls_shape shape, ls_dtype dtype, int inputs);

// --- plan_forward.c
ls_shape ls__batched(const ls_builder *b, ls_shape sample);
// What a plan asks for node `i` if nothing is folded into it: its forward kernel, all layouts free.
void ls__node_spec(const ls_graph *graph, int i, const ls_plan_config *config, ls_kernel_spec *spec);
ls_status ls__plan_forward_steps(ls_builder *b);
// --- plan_backward.c
ls_status ls__plan_backward_steps(ls_builder *b);
// --- plan_remat.c
ls_status ls__plan_remat(ls_builder *b, ls_remat how);
// --- plan_place.c
// Decides where weights are, for all steps.
ls_status ls__plan_settle(ls_builder *b);
// Places buffers in the arena.
ls_status ls__plan_place(ls_builder *b);
// --- plan_ready.c
// What is complete after which step of backward, and what each step of forward reads, once steps are as they will run.
ls_status ls__plan_ready(ls_builder *b);

#endif
