// Keras's Activation layer.
#include <stddef.h>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/plan_build.h"

static const ls_attr rows[] = {
    {"activation", LS_ATTR_CHOICE, offsetof(ls_activation_attrs, activation), .choices = ls__activation_names,
     .help = "what is applied to each element"},
    {.name = NULL},
};

static ls_status infer(ls_graph *graph, ls_node *node) {
    const ls_tensor_type *x = ls__input_type(graph, node, 0);
    ls_activation activation = LS_ATTRS(ls_activation_attrs, &node->attrs)->activation;
    if (x->dtype != LS_DTYPE_F32)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: activations are of floating values, not of %s", node->name,
                       ls_dtype_name(x->dtype));
    if (activation == LS_ACTIVATION_SOFTMAX && x->shape.ndim == 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: a softmax goes over the last axis of a sample, but a sample is one number", node->name);
    return ls__node_output(node, x->shape, x->dtype);
}

static ls_acts_as acts_as(const ls_attrs *attrs) {
    ls_activation activation = LS_ATTRS(ls_activation_attrs, attrs)->activation;
    return activation == LS_ACTIVATION_RELU    ? LS_ACTS_AS_RELU
           : activation == LS_ACTIVATION_RELU6 ? LS_ACTS_AS_RELU6
                                               : LS_ACTS_AS_ITSELF;
}

ls_value ls_activate(ls_graph *graph, ls_value x, ls_activation activation, const char *name) {
    if (activation == LS_ACTIVATION_NONE) return x;
    return ls__graph_add(graph, LS_OP_ACTIVATION, &x, 1, &(ls_activation_attrs){name, activation});
}

const ls_op ls__op_activation = {
    .kind = LS_OP_ACTIVATION,
    .keras_class = "Activation",
    .keras_name = "activation",
    .attrs = rows,
    .attrs_bytes = sizeof(ls_activation_attrs),
    .inputs = 1,
    .infer = infer,
    .backward = ls__backward_layer,
    .absorbs = LS_ABSORBS_MASK,
    .acts_as = acts_as,
    .traits = LS_OP_ACTIVATES,
    .recompute = LS_RECOMPUTE_LIGHT,
};
