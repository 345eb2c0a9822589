#include "graph/ops/pool2d.h"

ls_value ls_max_pool2d(ls_graph *graph, ls_value x, const ls_pool2d_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_MAX_POOL2D, &x, 1, attrs);
}

const ls_op ls__op_max_pool2d = {
    .kind = LS_OP_MAX_POOL2D,
    .keras_class = "MaxPooling2D",
    .keras_name = "max_pooling2d",
    .attrs = ls__pool2d_rows,
    .attrs_bytes = sizeof(ls_pool2d_attrs),
    .inputs = 1,
    .infer = ls__pool2d_infer,
    .backward = ls__backward_layer,
    .absorbs = LS_ABSORBS_MASK | LS_ABSORBS_PADDING,
    .absorb_padding = ls__pool2d_absorb_padding,
};
