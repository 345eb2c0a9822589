#include "graph/graph.h"

static ls_status infer(ls_graph *graph, ls_node *node, ls_shape x) {
    node->shape = x;
    return LS_OK;
}

ls_value ls_relu(ls_graph *graph, ls_value x, const char *name) {
    return ls__graph_add(graph, LS_OP_RELU, x, name, &(ls_op_attrs){0}, LS_INITIALIZER_DEFAULT, LS_INITIALIZER_DEFAULT);
}

ls_value ls_activate(ls_graph *graph, ls_value x, ls_activation activation, const char *name) {
    if (activation == LS_ACTIVATION_NONE) return x;
    return ls__graph_add(graph, LS_OP_ACTIVATION, x, name, &(ls_op_attrs){.activation = activation},
                         LS_INITIALIZER_DEFAULT, LS_INITIALIZER_DEFAULT);
}

const ls_op ls__op_relu = {.kind = LS_OP_RELU, .infer = infer, .backward_needs_x = 1};
const ls_op ls__op_activation = {.kind = LS_OP_ACTIVATION, .infer = infer, .backward_needs_x = 1};
