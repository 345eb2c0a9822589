#include "base/error.h"
#include "graph/ops/loss.h"

static ls_status infer(ls_graph *graph, ls_node *node) {
    ls_metric_attrs *a = (ls_metric_attrs *)(void *)node->attrs.bytes;
    LS_TRY(ls__targets_of_positions(graph, node, &a->rows));
    return ls__node_output(node, LS_SHAPE(1), LS_DTYPE_F64);
}

ls_value ls_accuracy(ls_graph *graph, ls_value scores, ls_value targets, const ls_metric_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_ACCURACY, (ls_value[]){scores, targets}, 2, attrs);
}

const ls_op ls__op_accuracy = {
    .kind = LS_OP_ACCURACY,
    .part = LS_PART_METRIC,
    .keras_class = "Accuracy",
    .keras_name = "accuracy",
    .attrs_bytes = sizeof(ls_metric_attrs),
    .inputs = 2,
    .infer = infer,
    .is_accuracy = 1,
};
