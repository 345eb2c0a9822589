#include <stddef.h>

#include "base/error.h"
#include "graph/ops/loss.h"

static const ls_attr rows[] = {
    {"per_label", LS_ATTR_FLAG, offsetof(ls_metric_attrs, per_label),
     .help = "the accuracy of each label beside their mean"},
    {.name = NULL},
};

static ls_status infer(ls_graph *graph, ls_node *node) {
    const ls_metric_attrs *a = LS_ATTRS(ls_metric_attrs, &node->attrs);
    const ls_tensor_type *x = ls__input_type(graph, node, 0);
    char text[LS_SHAPE_TEXT];
    LS_TRY(ls__targets_of_elements(graph, node));
    if (a->per_label && x->shape.ndim != 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: the accuracy of each label is of predictions (None, labels), not %s", node->name,
                       ls__shape_text(x->shape, text));
    return ls__node_output(node, a->per_label ? x->shape : LS_SHAPE(1), LS_DTYPE_F64);
}

ls_value ls_binary_accuracy(ls_graph *graph, ls_value logits, ls_value targets, const ls_metric_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_BINARY_ACCURACY, (ls_value[]){logits, targets}, 2, attrs);
}

const ls_op ls__op_binary_accuracy = {
    .kind = LS_OP_BINARY_ACCURACY,
    .part = LS_PART_METRIC,
    .keras_class = "BinaryAccuracy",
    .keras_name = "binary_accuracy",
    .attrs = rows,
    .attrs_bytes = sizeof(ls_metric_attrs),
    .inputs = 2,
    .infer = infer,
    .is_accuracy = 1,
};
