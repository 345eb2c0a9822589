#include "base/error.h"
#include "graph/graph.h"

static ls_status infer(ls_graph *graph, ls_node *node, ls_shape x) {
    char one[LS_SHAPE_TEXT], other[LS_SHAPE_TEXT];
    ls_shape second = graph->nodes[node->inputs[1]].shape;
    if (!ls_shape_equal(x, second))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: only values of one shape can be added, not %s and %s",
                       node->name, ls__shape_text(x, one), ls__shape_text(second, other));
    node->shape = x;
    return LS_OK;
}

ls_value ls_add(ls_graph *graph, ls_value a, ls_value b, const char *name) {
    return ls__graph_add_inputs(graph, LS_OP_ADD, (ls_value[]){a, b}, 2, name, &(ls_op_attrs){0});
}

const ls_op ls__op_add = {.kind = LS_OP_ADD, .infer = infer};
