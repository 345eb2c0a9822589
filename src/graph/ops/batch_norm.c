#include "base/error.h"
#include "graph/graph.h"

static ls_status infer(ls_graph *graph, ls_node *node, ls_shape x) {
    const ls_op_attrs *a = &node->attrs;
    if (!(a->epsilon > 0 && a->epsilon < 1) || !(a->momentum >= 0 && a->momentum < 1))
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "%s: batch normalization has an epsilon above 0 and below 1 and a momentum of at least 0 and below "
            "1, but %g and %g were asked for",
            node->name, (double)a->epsilon, (double)a->momentum);
    static const struct {
        const char *suffix;
        ls_param_role role;
        ls_initializer initializer;
    } params[] = {{"gamma", LS_PARAM_SCALE, LS_INITIALIZER_ONES},
                  {"beta", LS_PARAM_BIAS, LS_INITIALIZER_ZEROS},
                  {"moving_mean", LS_PARAM_STATISTIC, LS_INITIALIZER_ZEROS},
                  {"moving_variance", LS_PARAM_STATISTIC, LS_INITIALIZER_ONES}};
    int64_t channels = x.dim[x.ndim - 1];
    for (int i = 0; i < 4; i++) {
        LS_TRY(ls__graph_param(graph, node, params[i].suffix, LS_SHAPE(channels), params[i].role, params[i].initializer,
                               channels, channels));
        graph->params[graph->param_count - 1].momentum = a->momentum;
    }
    node->shape = x;
    return LS_OK;
}

ls_value ls_batch_norm(ls_graph *graph, ls_value x, const ls_batch_norm_attrs *attrs) {
    ls_op_attrs a = {.momentum = attrs->momentum ? attrs->momentum : 0.99f,
                     .epsilon = attrs->epsilon ? attrs->epsilon : 1e-3f};
    return ls__graph_add_inputs(graph, LS_OP_BATCH_NORM, &x, 1, attrs->name, &a);
}

const ls_op ls__op_batch_norm = {.kind = LS_OP_BATCH_NORM, .infer = infer, .backward_needs_x = 1};
