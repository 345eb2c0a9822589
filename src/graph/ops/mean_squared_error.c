#include "base/error.h"
#include "graph/ops/loss.h"

static ls_status infer(ls_graph *graph, ls_node *node) {
    const ls_loss_attrs *a = LS_ATTRS(ls_loss_attrs, &node->attrs);
    LS_TRY(ls__check_unused(node, "label_smoothing", a->label_smoothing));
    LS_TRY(ls__check_unused(node, "positive_weight", a->positive_weight));
    LS_TRY(ls__targets_of_elements(graph, node));
    return ls__node_output(node, LS_SHAPE(1), LS_DTYPE_F64);
}

ls_value ls_mean_squared_error(ls_graph *graph, ls_value prediction, ls_value targets, const ls_loss_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_MEAN_SQUARED_ERROR, (ls_value[]){prediction, targets}, 2, attrs);
}

const ls_op ls__op_mean_squared_error = {
    .kind = LS_OP_MEAN_SQUARED_ERROR,
    .part = LS_PART_LOSS,
    .keras_class = "MeanSquaredError",
    .keras_name = "mean_squared_error",
    .attrs = ls__weight_rows,
    .attrs_bytes = sizeof(ls_loss_attrs),
    .inputs = 2,
    .infer = infer,
    .backward = ls__backward_seed,
};
