#include "base/error.h"
#include "graph/graph.h"

static ls_status infer(ls_graph *graph, ls_node *node, ls_shape x) {
    if (!(node->attrs.rate >= 0 && node->attrs.rate < 1))
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "%s: a dropout rate is the fraction set to zero, at least 0 and less than 1, but %g was asked for",
            node->name, (double)node->attrs.rate);
    node->attrs.layer = (uint32_t)graph->node_count;  // this node's index: no two layers draw the same
    node->shape = x;
    return LS_OK;
}

ls_value ls_dropout(ls_graph *graph, ls_value x, const ls_dropout_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_DROPOUT, x, attrs->name, &(ls_op_attrs){.rate = attrs->rate},
                         LS_INITIALIZER_DEFAULT, LS_INITIALIZER_DEFAULT);
}

// Backward draws the same mask again, so nothing is kept.
const ls_op ls__op_dropout = {.kind = LS_OP_DROPOUT, .infer = infer};
