#include "base/error.h"
#include "graph/graph.h"
#include "graph/plan_build.h"

static ls_status infer(ls_graph *graph, ls_node *node) {
    const ls_tensor_type *x = ls__input_type(graph, node, 0);
    char text[LS_SHAPE_TEXT];
    if (x->shape.ndim != 2 || x->dtype != LS_DTYPE_F32)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: a %s layer works on sequences of vectors (None, T, C), but its input is %s of %s",
                       node->name, ls__op_find(node->op)->keras_class, ls_dtype_name(x->dtype),
                       ls__shape_text(x->shape, text));
    return ls__node_output(node, LS_SHAPE(x->shape.dim[1]), LS_DTYPE_F32);
}

ls_value ls_global_average_pool1d(ls_graph *graph, ls_value x, const char *name) {
    return ls__graph_add(graph, LS_OP_GLOBAL_AVERAGE_POOL1D, &x, 1, &(ls_plain_attrs){name});
}

const ls_op ls__op_global_average_pool1d = {
    .kind = LS_OP_GLOBAL_AVERAGE_POOL1D,
    .keras_class = "GlobalAveragePooling1D",
    .keras_name = "global_average_pooling1d",
    .attrs_bytes = sizeof(ls_plain_attrs),
    .inputs = 1,
    .infer = infer,
    .backward = ls__backward_layer,
};
