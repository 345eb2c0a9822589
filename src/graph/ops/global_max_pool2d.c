#include "graph/ops/pool2d.h"

ls_value ls_global_max_pool2d(ls_graph *graph, ls_value x, const char *name) {
    return ls__graph_add(graph, LS_OP_GLOBAL_MAX_POOL2D, &x, 1, &(ls_pool2d_attrs){.name = name});
}

const ls_op ls__op_global_max_pool2d = {
    .kind = LS_OP_GLOBAL_MAX_POOL2D,
    .keras_class = "GlobalMaxPooling2D",
    .keras_name = "global_max_pooling2d",
    .attrs = ls__global_pool2d_rows,
    .attrs_bytes = sizeof(ls_pool2d_attrs),
    .inputs = 1,
    .infer = ls__global_pool2d_infer,
    .backward = ls__backward_layer,
    .absorbs = LS_ABSORBS_MASK,
};
