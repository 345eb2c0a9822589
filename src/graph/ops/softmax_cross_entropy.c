#include "base/error.h"
#include "graph/ops/loss.h"

static ls_status infer(ls_graph *graph, ls_node *node) {
    ls_loss_attrs *a = (ls_loss_attrs *)(void *)node->attrs.bytes;
    LS_TRY(ls__check_unused(node, "positive_weight", a->positive_weight));
    LS_TRY(ls__targets_of_positions(graph, node, &a->rows));
    if (!(a->label_smoothing < 1))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: the label smoothing is at least 0 and less than 1, not %g",
                       node->name, a->label_smoothing);
    LS_TRY(ls__check_logits(graph, node));
    return ls__node_output(node, LS_SHAPE(1), LS_DTYPE_F64);
}

ls_value ls_softmax_cross_entropy(ls_graph *graph, ls_value logits, ls_value targets, const ls_loss_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_SOFTMAX_CROSS_ENTROPY, (ls_value[]){logits, targets}, 2, attrs);
}

const ls_op ls__op_softmax_cross_entropy = {
    .kind = LS_OP_SOFTMAX_CROSS_ENTROPY,
    .part = LS_PART_LOSS,
    .keras_class = "SoftmaxCrossEntropy",
    .keras_name = "loss",
    .attrs = ls__loss_rows,
    .attrs_bytes = sizeof(ls_loss_attrs),
    .inputs = 2,
    .infer = infer,
    .backward = ls__backward_seed,
};
