#include <stddef.h>

#include "base/error.h"
#include "graph/ops/loss.h"

static const ls_attr rows[] = {
    {"k", LS_ATTR_INT, offsetof(ls_metric_attrs, k), .initial = 5, .minimum = 1, .help = "largest scores that count"},
    {.name = NULL},
};

static ls_status infer(ls_graph *graph, ls_node *node) {
    ls_metric_attrs *a = (ls_metric_attrs *)(void *)node->attrs.bytes;
    LS_TRY(ls__targets_of_classes(graph, node, &a->rows));
    int64_t classes = ls__input_type(graph, node, 0)->shape.dim[0];
    if (a->k > classes)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: k is %d, but there are only %lld classes: every sample would count; ask for a smaller k",
                       node->name, a->k, (long long)classes);
    return ls__node_output(node, LS_SHAPE(1), LS_DTYPE_F64);
}

ls_value ls_top_k_accuracy(ls_graph *graph, ls_value scores, ls_value targets, const ls_metric_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_TOP_K_ACCURACY, (ls_value[]){scores, targets}, 2, attrs);
}

const ls_op ls__op_top_k_accuracy = {
    .kind = LS_OP_TOP_K_ACCURACY,
    .part = LS_PART_METRIC,
    .keras_class = "TopKCategoricalAccuracy",
    .keras_name = "top_k_accuracy",
    .attrs = rows,
    .attrs_bytes = sizeof(ls_metric_attrs),
    .inputs = 2,
    .infer = infer,
};
