#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "graph/ops/window.h"
#include "graph/plan_build.h"

static const ls_attr rows[] = {
    {"padding", LS_ATTR_SIDES, offsetof(ls_zero_pad2d_attrs, padding), .initial = 1,
     .help = "rows at the top and bottom, columns at the left and right"},
    {.name = NULL},
};

static ls_status infer(ls_graph *graph, ls_node *node) {
    const int(*pad)[2] = LS_ATTRS(ls_zero_pad2d_attrs, &node->attrs)->padding;
    ls_shape x = ls__input_type(graph, node, 0)->shape;
    LS_TRY(ls__images_check(node, x));
    return ls__node_output(node, LS_SHAPE(x.dim[0] + pad[0][0] + pad[0][1], x.dim[1] + pad[1][0] + pad[1][1], x.dim[2]),
                           LS_DTYPE_F32);
}

ls_value ls_zero_pad2d(ls_graph *graph, ls_value x, const ls_zero_pad2d_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_ZERO_PAD2D, &x, 1, attrs);
}

static ls_acts_as acts_as(const ls_attrs *attrs) { return LS_ACTS_AS_PADDING; }

static void sides(const ls_attrs *attrs, int out[2][2]) {
    memcpy(out, LS_ATTRS(ls_zero_pad2d_attrs, attrs)->padding, sizeof(int[2][2]));
}

const ls_op ls__op_zero_pad2d = {
    .kind = LS_OP_ZERO_PAD2D,
    .keras_class = "ZeroPadding2D",
    .keras_name = "zero_padding2d",
    .attrs = rows,
    .attrs_bytes = sizeof(ls_zero_pad2d_attrs),
    .inputs = 1,
    .infer = infer,
    .backward = ls__backward_layer,
    .acts_as = acts_as,
    .sides = sides,
    .recompute = LS_RECOMPUTE_LIGHT,
};
