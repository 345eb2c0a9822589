#include "base/error.h"
#include "graph/graph.h"
#include "graph/plan_build.h"

static ls_status infer(ls_graph *graph, ls_node *node) {
    char one[LS_SHAPE_TEXT], other[LS_SHAPE_TEXT];
    ls_shape x = ls__input_type(graph, node, 0)->shape, second = ls__input_type(graph, node, 1)->shape;
    if (!ls_shape_equal(x, second))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: only values of one shape can be added, not %s and %s",
                       node->name, ls__shape_text(x, one), ls__shape_text(second, other));
    if (ls__input_type(graph, node, 1)->dtype != LS_DTYPE_F32)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: only floating values are added, not whole numbers", node->name);
    return ls__node_output(node, x, LS_DTYPE_F32);
}

ls_value ls_add(ls_graph *graph, ls_value a, ls_value b, const char *name) {
    return ls__graph_add(graph, LS_OP_ADD, (ls_value[]){a, b}, 2, &(ls_plain_attrs){name});
}

// Both inputs receive the gradient of the output as it is.
static ls_status backward(ls_builder *b, int i) {
    ls_tensor d;
    LS_TRY(ls__gradient_of(b, i, 0, &d));
    LS_TRY(ls__contribute(b, i, 0, d));
    return ls__contribute(b, i, 1, d);
}

static ls_acts_as acts_as(const ls_attrs *attrs) { return LS_ACTS_AS_SUM; }

const ls_op ls__op_add = {
    .kind = LS_OP_ADD,
    .keras_class = "Add",
    .keras_name = "add",
    .attrs_bytes = sizeof(ls_plain_attrs),
    .inputs = 2,
    .infer = infer,
    .backward = backward,
    .acts_as = acts_as,
};
