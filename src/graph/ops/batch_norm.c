#include <stddef.h>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/plan_build.h"

static const ls_attr rows[] = {
    {"momentum", LS_ATTR_FLOAT, offsetof(ls_batch_norm_attrs, momentum), .initial = 0.99,
     .help = "how much of the moving mean and variance a step leaves"},
    {"epsilon", LS_ATTR_FLOAT, offsetof(ls_batch_norm_attrs, epsilon), .initial = 1e-3,
     .help = "added to the variance"},
    {"no_scale", LS_ATTR_FLAG, offsetof(ls_batch_norm_attrs, no_scale), .help = "without gamma"},
    {.name = NULL},
};

static ls_status infer(ls_graph *graph, ls_node *node) {
    const ls_batch_norm_attrs *a = LS_ATTRS(ls_batch_norm_attrs, &node->attrs);
    ls_shape x = ls__input_type(graph, node, 0)->shape;
    if (x.ndim == 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: a batch normalization goes by the last axis of its input, which has none", node->name);
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
    for (int i = a->no_scale ? 1 : 0; i < 4; i++) {
        LS_TRY(ls__graph_param(graph, node, params[i].suffix, LS_SHAPE(channels), params[i].role,
                               LS_INITIALIZER_DEFAULT, params[i].initializer, channels, channels));
        graph->store->params[node->params[node->param_count - 1]].momentum = a->momentum;
    }
    return ls__node_output(node, x, LS_DTYPE_F32);
}

ls_value ls_batch_norm(ls_graph *graph, ls_value x, const ls_batch_norm_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_BATCH_NORM, &x, 1, attrs);
}

const ls_op ls__op_batch_norm = {
    .kind = LS_OP_BATCH_NORM,
    .keras_class = "BatchNormalization",
    .keras_name = "batch_normalization",
    .attrs = rows,
    .attrs_bytes = sizeof(ls_batch_norm_attrs),
    .inputs = 1,
    .infer = infer,
    .backward = ls__backward_joint,  // of input, residual and parameters, and the statistics
    .absorbs = LS_ABSORBS_RELU | LS_ABSORBS_RELU6 | LS_ABSORBS_RESIDUAL | LS_ABSORBS_ADDEND,
    .traits = LS_OP_MASKS_ITSELF,
    .recompute = LS_RECOMPUTE_LIGHT,
};
