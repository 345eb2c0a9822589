#include <limits.h>
#include <stddef.h>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/plan_build.h"

static const ls_attr rows[] = {
    {"groups", LS_ATTR_INT, offsetof(ls_group_norm_attrs, groups), .initial = 32, .minimum = -1, .maximum = INT_MAX,
     .help = "of neighbouring channels; -1: each channel is one, which is instance normalization"},
    {"epsilon", LS_ATTR_FLOAT, offsetof(ls_group_norm_attrs, epsilon), .initial = 1e-3, .maximum = 1,
     .help = "added to the variance"},
    {.name = NULL},
};

static ls_status infer(ls_graph *graph, ls_node *node) {
    const ls_tensor_type *x = ls__input_type(graph, node, 0);
    if (x->shape.ndim == 0 || x->dtype != LS_DTYPE_F32)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: a group normalization is of floating values with channels as their last axis; its input "
                       "has none",
                       node->name);
    int64_t channels = x->shape.dim[x->shape.ndim - 1];
    int groups = LS_ATTRS(ls_group_norm_attrs, &node->attrs)->groups;
    if (groups > 0 && channels % groups)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: %lld channels cannot be cut into %d groups of as many: give a number that divides them, or "
                       "-1 for one of each",
                       node->name, (long long)channels, groups);
    LS_TRY(ls__graph_scale_and_shift(graph, node, channels));
    return ls__node_output(node, x->shape, LS_DTYPE_F32);
}

ls_value ls_group_norm(ls_graph *graph, ls_value x, const ls_group_norm_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_GROUP_NORM, &x, 1, attrs);
}

const ls_op ls__op_group_norm = {
    .kind = LS_OP_GROUP_NORM,
    .keras_class = "GroupNormalization",
    .keras_name = "group_normalization",
    .attrs = rows,
    .attrs_bytes = sizeof(ls_group_norm_attrs),
    .inputs = 1,
    .infer = infer,
    .backward = ls__backward_joint,
    .recompute = LS_RECOMPUTE_LIGHT,
};
