#include <stddef.h>

#include "base/error.h"
#include "graph/ops/window.h"
#include "graph/plan_build.h"

static const ls_attr rows[] = {
    {"size", LS_ATTR_PAIR, offsetof(ls_up_sampling2d_attrs, size), .initial = 2, .minimum = 1, .maximum = 1 << 15,
     .help = "rows and columns that each pixel becomes"},
    {.name = NULL},
};

static ls_status infer(ls_graph *graph, ls_node *node) {
    const int *size = LS_ATTRS(ls_up_sampling2d_attrs, &node->attrs)->size;
    ls_shape x = ls__input_type(graph, node, 0)->shape;
    LS_TRY(ls__images_check(node, x));
    return ls__node_output(node, LS_SHAPE(x.dim[0] * size[0], x.dim[1] * size[1], x.dim[2]), LS_DTYPE_F32);
}

ls_value ls_up_sampling2d(ls_graph *graph, ls_value x, const ls_up_sampling2d_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_UP_SAMPLING2D, &x, 1, attrs);
}

const ls_op ls__op_up_sampling2d = {
    .kind = LS_OP_UP_SAMPLING2D,
    .keras_class = "UpSampling2D",
    .keras_name = "up_sampling2d",
    .attrs = rows,
    .attrs_bytes = sizeof(ls_up_sampling2d_attrs),
    .inputs = 1,
    .infer = infer,
    .backward = ls__backward_layer,
    .absorbs = LS_ABSORBS_MASK,
    .recompute = LS_RECOMPUTE_LIGHT,
};
