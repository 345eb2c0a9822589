// Keras's Normalization: what it takes off and divides by are weights that files bring along, and that no step moves.
#include "base/error.h"
#include "graph/graph.h"
#include "graph/plan_build.h"

static ls_status infer(ls_graph *graph, ls_node *node) {
    const ls_tensor_type *x = ls__input_type(graph, node, 0);
    if (x->dtype != LS_DTYPE_F32 || x->shape.ndim == 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: channels of floating values are normalized, not whole numbers, and not a single number",
                       node->name);
    int64_t channels = x->shape.dim[x->shape.ndim - 1];
    static const struct {
        const char *suffix;
        int single;
        ls_initializer initializer;
    } params[] = {
        {"mean", 0, LS_INITIALIZER_ZEROS}, {"variance", 0, LS_INITIALIZER_ONES}, {"count", 1, LS_INITIALIZER_ZEROS}};
    for (int i = 0; i < 3; i++) {
        LS_TRY(ls__graph_param(graph, node, params[i].suffix, params[i].single ? (ls_shape){0} : LS_SHAPE(channels),
                               LS_PARAM_STATISTIC, LS_INITIALIZER_DEFAULT, params[i].initializer, channels, channels));
        graph->store->params[node->params[i]].frozen = 1;
    }
    return ls__node_output(node, x->shape, LS_DTYPE_F32);
}

ls_value ls_normalize(ls_graph *graph, ls_value x, const char *name) {
    return ls__graph_add(graph, LS_OP_NORMALIZATION, &x, 1, &(ls_plain_attrs){name});
}

const ls_op ls__op_normalization = {
    .kind = LS_OP_NORMALIZATION,
    .keras_class = "Normalization",
    .keras_name = "normalization",
    .attrs_bytes = sizeof(ls_plain_attrs),
    .inputs = 1,
    .infer = infer,
    .backward = ls__backward_layer,
    .recompute = LS_RECOMPUTE_LIGHT,
};
