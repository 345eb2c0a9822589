#include "base/error.h"
#include "graph/graph.h"
#include "graph/plan_build.h"

// Whether the second has one value for each channel of the first.
static int by_channel(ls_shape x, ls_shape second) {
    if (x.ndim != second.ndim || x.ndim < 2) return 0;
    for (int d = 0; d < x.ndim - 1; d++)
        if (second.dim[d] != 1) return 0;
    return second.dim[x.ndim - 1] == x.dim[x.ndim - 1];
}

static ls_status infer(ls_graph *graph, ls_node *node) {
    char one[LS_SHAPE_TEXT], other[LS_SHAPE_TEXT];
    const ls_tensor_type *x = ls__input_type(graph, node, 0), *second = ls__input_type(graph, node, 1);
    if (!ls_shape_equal(x->shape, second->shape) && !by_channel(x->shape, second->shape))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: only values of one shape can be multiplied, or the second has one value for each channel "
                       "of the first, and not %s and %s",
                       node->name, ls__shape_text(x->shape, one), ls__shape_text(second->shape, other));
    if (x->dtype != LS_DTYPE_F32 || second->dtype != LS_DTYPE_F32)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: only floating values are multiplied, not whole numbers",
                       node->name);
    return ls__node_output(node, x->shape, LS_DTYPE_F32);
}

ls_value ls_multiply(ls_graph *graph, ls_value a, ls_value b, const char *name) {
    return ls__graph_add(graph, LS_OP_MULTIPLY, (ls_value[]){a, b}, 2, &(ls_plain_attrs){name});
}

const ls_op ls__op_multiply = {
    .kind = LS_OP_MULTIPLY,
    .keras_class = "Multiply",
    .keras_name = "multiply",
    .attrs_bytes = sizeof(ls_plain_attrs),
    .inputs = 2,
    .infer = infer,
    .backward = ls__backward_layer,
    .recompute = LS_RECOMPUTE_LIGHT,
};
