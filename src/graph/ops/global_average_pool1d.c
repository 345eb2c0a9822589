#include "base/error.h"
#include "graph/graph.h"
#include "graph/ops/mask.h"
#include "graph/plan_build.h"

static ls_status infer(ls_graph *graph, ls_node *node) {
    LS_TRY(ls__check_mask(graph, node));
    return ls__node_output(node, LS_SHAPE(ls__input_type(graph, node, 0)->shape.dim[1]), LS_DTYPE_F32);
}

ls_value ls_global_average_pool1d(ls_graph *graph, ls_value x, const char *name) {
    return ls__graph_add(graph, LS_OP_GLOBAL_AVERAGE_POOL1D, &x, 1, &(ls_plain_attrs){name});
}

ls_value ls_global_average_pool1d_masked(ls_graph *graph, ls_value x, ls_value mask, const char *name) {
    return ls__add_masked(graph, LS_OP_GLOBAL_AVERAGE_POOL1D, x, mask, &(ls_plain_attrs){name});
}

const ls_op ls__op_global_average_pool1d = {
    .kind = LS_OP_GLOBAL_AVERAGE_POOL1D,
    .keras_class = "GlobalAveragePooling1D",
    .keras_name = "global_average_pooling1d",
    .attrs_bytes = sizeof(ls_plain_attrs),
    .inputs = 1,
    .inputs_maximum = 2,
    .infer = infer,
    .backward = ls__backward_layer,
};
