#include "base/error.h"
#include "graph/ops/loss.h"

static ls_status infer(ls_graph *graph, ls_node *node) {
    const ls_loss_attrs *a = LS_ATTRS(ls_loss_attrs, &node->attrs);
    const ls_tensor_type *code = ls__input_type(graph, node, 0);
    char text[LS_SHAPE_TEXT];
    LS_TRY(ls__check_unused(node, "label_smoothing", a->label_smoothing));
    LS_TRY(ls__check_unused(node, "positive_weight", a->positive_weight));
    if (code->dtype != LS_DTYPE_F32 || code->shape.ndim < 1 || code->shape.dim[code->shape.ndim - 1] % 2 != 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: it takes C means and behind them C log variances, (None, ..., 2 C) of fp32, and was given "
                       "%s of %s",
                       node->name, ls__shape_text(code->shape, text), ls_dtype_name(code->dtype));
    return ls__node_output(node, LS_SHAPE(1), LS_DTYPE_F64);
}

ls_value ls_normal_divergence(ls_graph *graph, ls_value code, const ls_loss_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_NORMAL_DIVERGENCE, &code, 1, attrs);
}

const ls_op ls__op_normal_divergence = {
    .kind = LS_OP_NORMAL_DIVERGENCE,
    .part = LS_PART_LOSS,
    .keras_class = "NormalDivergence",
    .keras_name = "normal_divergence",
    .attrs = ls__weight_rows,
    .attrs_bytes = sizeof(ls_loss_attrs),
    .inputs = 1,
    .infer = infer,
    .backward = ls__backward_seed,
};
