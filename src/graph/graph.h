// The graph from inside: nodes in execution order, parameters in creation order.
#ifndef LS_GRAPH_GRAPH_H
#define LS_GRAPH_GRAPH_H

#include <lockstep/graph.h>

#include "device/op.h"

#define LS_MAX_NODE_PARAMS 4
#define LS_MAX_NODE_INPUTS 2

typedef enum ls_param_role {
    LS_PARAM_KERNEL,
    LS_PARAM_BIAS,       // also the shift of a normalization (beta)
    LS_PARAM_SCALE,      // of a normalization (gamma)
    LS_PARAM_STATISTIC,  // not trained: moves towards what training saw (moving_mean, moving_variance)
} ls_param_role;

// A parameter: what Keras calls a weight variable.
typedef struct ls_param {
    char *name;      // "conv2d/kernel"
    ls_shape shape;  // Keras's: HWIO, (in, out), (out)
    ls_param_role role;
    ls_initializer initializer;  // never DEFAULT
    int64_t fan_in, fan_out;     // as Keras counts them, for the initializers
    int decay;                   // 1: a kernel, to which weight decay can be confined
    float momentum;              // statistics: the share of itself it keeps at each step
} ls_param;

typedef struct ls_node {
    ls_op_kind op;
    char *name;
    ls_op_attrs attrs;
    ls_value inputs[LS_MAX_NODE_INPUTS];          // the nodes it reads
    int input_count;                              // 0 for the input
    ls_shape shape;                               // output of one sample, without the batch
    int params[LS_MAX_NODE_PARAMS], param_count;  // indices in the graph's parameters: kernel, bias
                                                  // or gamma, beta, moving mean, moving variance
} ls_node;

struct ls_graph {
    char *name;
    ls_node *nodes;  // node i computes value i; inputs come before their readers
    int node_count;
    ls_param *params;
    int param_count;
    ls_value output;   // the logits, or the features, once finished
    int features;      // 1: finished without a classifier
    ls_status failed;  // the first failure, kept for ls_graph_finish
    char failure[512];
};

// What an op file says of its op: how shapes follow from shapes, which parameters it has.
typedef struct ls_op {
    ls_op_kind kind;
    // Checks and resolves node->attrs, fills node->shape from the (first) input's shape and adds parameters with
    // ls__graph_param.
    // The node has its name already; it is not in the graph yet. NULL for the input. Errors: INVALID_ARGUMENT or
    // UNSUPPORTED with a sentence that names the layer.
    ls_status (*infer)(ls_graph *graph, ls_node *node, ls_shape x);
    // Which tensors of forward the backward passes read.
    int backward_needs_x, backward_needs_y;
} ls_op;

const ls_op *ls__op_find(ls_op_kind kind);

// Adds a node of one input (for op files and builders). `name` NULL: automatic. The initializers replace those the op names
// for its parameters of that role; DEFAULT leaves them.
ls_value ls__graph_add(ls_graph *graph, ls_op_kind op, ls_value x, const char *name, const ls_op_attrs *attrs,
                       ls_initializer kernel_initializer, ls_initializer bias_initializer);
// The same with `count` inputs and the op's own initializers.
ls_value ls__graph_add_inputs(ls_graph *graph, ls_op_kind op, const ls_value *x, int count, const char *name,
                              const ls_op_attrs *attrs);
ls_status ls__graph_param(ls_graph *graph, ls_node *node, const char *suffix, ls_shape shape, ls_param_role role,
                          ls_initializer initializer, int64_t fan_in, int64_t fan_out);

// That a finished graph has a classifier to train. Errors: INVALID_ARGUMENT.
ls_status ls__graph_check_classifier(const ls_graph *graph);

// The shape of a batch of such samples, for people: "(None, 26, 26, 32)".
#define LS_SHAPE_TEXT 128
const char *ls__shape_text(ls_shape sample, char text[LS_SHAPE_TEXT]);

// The value a parameter starts with: `out` gets ls_shape_count(param->shape) floats in Keras's order, each a function of
// (seed, parameter index, element).
void ls_param_initialize(const ls_graph *graph, int param, uint64_t seed, float *out);

#endif
