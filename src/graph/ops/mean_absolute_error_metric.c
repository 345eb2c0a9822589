#include "base/error.h"
#include "graph/ops/loss.h"

static ls_status infer(ls_graph *graph, ls_node *node) {
    LS_TRY(ls__targets_of_elements(graph, node));
    return ls__node_output(node, LS_SHAPE(1), LS_DTYPE_F64);
}

ls_value ls_mean_absolute_error_metric(ls_graph *graph, ls_value prediction, ls_value targets,
                                       const ls_metric_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_MEAN_ABSOLUTE_ERROR_METRIC, (ls_value[]){prediction, targets}, 2, attrs);
}

const ls_op ls__op_mean_absolute_error_metric = {
    .kind = LS_OP_MEAN_ABSOLUTE_ERROR_METRIC,
    .part = LS_PART_METRIC,
    .keras_class = "MeanAbsoluteErrorMetric",
    .keras_name = "mean_absolute_error_metric",
    .attrs_bytes = sizeof(ls_metric_attrs),
    .inputs = 2,
    .infer = infer,
};
