#include "graph/ops/mask.h"

#include "base/error.h"

ls_status ls__check_mask(const ls_graph *graph, const ls_node *node) {
    const ls_tensor_type *x = ls__input_type(graph, node, 0);
    char one[LS_SHAPE_TEXT], other[LS_SHAPE_TEXT];
    if (x->shape.ndim != 2 || x->dtype != LS_DTYPE_F32)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: a %s layer works on sequences of vectors (None, T, C), but its input is %s of %s",
                       node->name, ls__op_find(node->op)->keras_class, ls_dtype_name(x->dtype),
                       ls__shape_text(x->shape, one));
    if (node->input_count < 2) return LS_OK;
    const ls_tensor_type *mask = ls__input_type(graph, node, 1);
    if (mask->dtype == LS_DTYPE_I32 && mask->shape.ndim == 1 && mask->shape.dim[0] == x->shape.dim[0]) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%s: a mask has a whole number (i32) for each step of %s, but this is %s of %s", node->name,
                   ls__shape_text(x->shape, one), ls_dtype_name(mask->dtype), ls__shape_text(mask->shape, other));
}

ls_value ls__add_masked(ls_graph *graph, ls_op_kind op, ls_value x, ls_value mask, const void *attrs) {
    return ls__graph_add(graph, op, (ls_value[]){x, mask}, mask == LS_NO_VALUE ? 1 : 2, attrs);
}
