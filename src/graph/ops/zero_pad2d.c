#include "base/error.h"
#include "graph/ops/window.h"

static ls_status infer(ls_graph *graph, ls_node *node, ls_shape x) {
    const int *pad = node->attrs.pad;
    LS_TRY(ls__images_check(node, x));
    for (int i = 0; i < 4; i++)
        if (pad[i] < 0)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: padding cannot be negative, but %d was asked for",
                           node->name, pad[i]);
    node->shape = LS_SHAPE(x.dim[0] + pad[0] + pad[2], x.dim[1] + pad[1] + pad[3], x.dim[2]);
    return LS_OK;
}

ls_value ls_zero_pad2d(ls_graph *graph, ls_value x, const ls_zero_pad2d_attrs *attrs) {
    const int(*p)[2] = attrs->padding;
    int standard = !p[0][0] && !p[0][1] && !p[1][0] && !p[1][1];
    ls_op_attrs a = {.pad = {p[0][0], p[1][0], p[0][1], p[1][1]}};
    for (int i = 0; i < 4 && standard; i++) a.pad[i] = 1;
    return ls__graph_add_inputs(graph, LS_OP_ZERO_PAD2D, &x, 1, attrs->name, &a);
}

const ls_op ls__op_zero_pad2d = {.kind = LS_OP_ZERO_PAD2D, .infer = infer};
