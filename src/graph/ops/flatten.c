#include "graph/graph.h"
#include "graph/plan_build.h"

static ls_status infer(ls_graph *graph, ls_node *node) {
    const ls_tensor_type *x = ls__input_type(graph, node, 0);
    return ls__node_output(node, LS_SHAPE(ls_shape_count(x->shape)), x->dtype);
}

ls_value ls_flatten(ls_graph *graph, ls_value x, const char *name) {
    return ls__graph_add(graph, LS_OP_FLATTEN, &x, 1, &(ls_plain_attrs){name});
}

const ls_op ls__op_flatten = {
    .kind = LS_OP_FLATTEN,
    .keras_class = "Flatten",
    .keras_name = "flatten",
    .attrs_bytes = sizeof(ls_plain_attrs),
    .inputs = 1,
    .infer = infer,
    .backward = ls__backward_layer,
    .absorbs = LS_ABSORBS_MASK,
    .traits = LS_OP_RENAMES | LS_OP_WHOLE_NUMBERS,
};
