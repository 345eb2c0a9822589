#include "graph/graph.h"

static ls_status infer(ls_graph *graph, ls_node *node, ls_shape x) {
    node->shape = LS_SHAPE(ls_shape_count(x));
    return LS_OK;
}

ls_value ls_flatten(ls_graph *graph, ls_value x, const char *name) {
    return ls__graph_add(graph, LS_OP_FLATTEN, x, name, &(ls_op_attrs){0}, LS_INITIALIZER_DEFAULT,
                         LS_INITIALIZER_DEFAULT);
}

const ls_op ls__op_flatten = {.kind = LS_OP_FLATTEN, .infer = infer};
