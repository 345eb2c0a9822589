#include "graph/ops/pool3d.h"

ls_value ls_max_pool3d(ls_graph *graph, ls_value x, const ls_pool3d_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_MAX_POOL3D, &x, 1, attrs);
}

const ls_op ls__op_max_pool3d = {
    .kind = LS_OP_MAX_POOL3D,
    .keras_class = "MaxPooling3D",
    .keras_name = "max_pooling3d",
    .attrs = ls__pool3d_rows,
    .attrs_bytes = sizeof(ls_pool3d_attrs),
    .inputs = 1,
    .infer = ls__pool3d_infer,
    .backward = ls__backward_layer,
    .absorbs = LS_ABSORBS_MASK,
};
