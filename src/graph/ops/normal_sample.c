#include "base/error.h"
#include "graph/graph.h"
#include "graph/plan_build.h"

// The code has twice as many channels as the noise, in the same places.
static int fits(ls_shape code, ls_shape noise) {
    if (code.ndim < 1 || code.ndim != noise.ndim) return 0;
    for (int d = 0; d < code.ndim - 1; d++)
        if (code.dim[d] != noise.dim[d]) return 0;
    return code.dim[code.ndim - 1] == 2 * noise.dim[code.ndim - 1];
}

static ls_status infer(ls_graph *graph, ls_node *node) {
    char one[LS_SHAPE_TEXT], other[LS_SHAPE_TEXT];
    const ls_tensor_type *code = ls__input_type(graph, node, 0), *noise = ls__input_type(graph, node, 1);
    if (code->dtype != LS_DTYPE_F32 || noise->dtype != LS_DTYPE_F32)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: only floating values are drawn, not whole numbers", node->name);
    if (!fits(code->shape, noise->shape))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: it takes C means and behind them C log variances, (None, ..., 2 C), and noise "
                       "(None, ..., C), and was given %s and %s",
                       node->name, ls__shape_text(code->shape, one), ls__shape_text(noise->shape, other));
    return ls__node_output(node, noise->shape, LS_DTYPE_F32);
}

ls_value ls_normal_sample(ls_graph *graph, ls_value code, ls_value noise, const char *name) {
    return ls__graph_add(graph, LS_OP_NORMAL_SAMPLE, (ls_value[]){code, noise}, 2, &(ls_plain_attrs){name});
}

const ls_op ls__op_normal_sample = {
    .kind = LS_OP_NORMAL_SAMPLE,
    .keras_class = "Sampling",
    .keras_name = "sampling",
    .attrs_bytes = sizeof(ls_plain_attrs),
    .inputs = 2,
    .infer = infer,
    .backward = ls__backward_layer,
    .traits = LS_OP_DRAWS,
    .recompute = LS_RECOMPUTE_LIGHT,
};
