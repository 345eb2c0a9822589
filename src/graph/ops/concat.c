#include <stddef.h>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/plan_build.h"

static const ls_attr rows[] = {
    {"axis", LS_ATTR_INT, offsetof(ls_concat_attrs, axis), .initial = -1, .minimum = -LS_MAX_DIMS,
     .maximum = LS_MAX_DIMS, .help = "counting the batch as 0; negative: from the last"},
    {.name = NULL},
};

// Whether two shapes differ in no other dimension.
static int fits(ls_shape a, ls_shape b, int dim) {
    if (a.ndim != b.ndim) return 0;
    a.dim[dim] = b.dim[dim];
    return ls_shape_equal(a, b);
}

static ls_status infer(ls_graph *graph, ls_node *node) {
    ls_concat_attrs *a = (ls_concat_attrs *)(void *)node->attrs.bytes;
    char one[LS_SHAPE_TEXT], other[LS_SHAPE_TEXT];
    const ls_tensor_type *x = ls__input_type(graph, node, 0);
    ls_shape out = x->shape;
    int asked = a->axis;
    if (asked < 0) a->axis += out.ndim + 1;
    if (a->axis < 1 || a->axis > out.ndim)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: values of shape %s cannot be put together along axis %d",
                       node->name, ls__shape_text(out, one), asked);
    int dim = a->axis - 1;
    for (int k = 1; k < node->input_count; k++) {
        const ls_tensor_type *next = ls__input_type(graph, node, k);
        if (next->dtype != x->dtype)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: only values of one type can be put together, not %s and %s",
                           node->name, ls_dtype_name(x->dtype), ls_dtype_name(next->dtype));
        if (!fits(next->shape, x->shape, dim))
            return LS_FAIL(
                LS_STATUS_INVALID_ARGUMENT,
                "%s: values that are put together along axis %d have the same shape in the others, but %s and "
                "%s were given",
                node->name, a->axis, ls__shape_text(x->shape, one), ls__shape_text(next->shape, other));
        out.dim[dim] += next->shape.dim[dim];
    }
    return ls__node_output(node, out, x->dtype);
}

ls_value ls_concat(ls_graph *graph, const ls_value *x, int count, const ls_concat_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_CONCAT, x, count, attrs);
}

const ls_op ls__op_concat = {
    .kind = LS_OP_CONCAT,
    .keras_class = "Concatenate",
    .keras_name = "concatenate",
    .attrs = rows,
    .attrs_bytes = sizeof(ls_concat_attrs),
    .inputs = 2,
    .inputs_maximum = LS_MAX_INPUTS,
    .infer = infer,
    .backward = ls__backward_layer,
    .traits = LS_OP_WHOLE_NUMBERS,
    .recompute = LS_RECOMPUTE_LIGHT,
};
