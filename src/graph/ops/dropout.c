#include <stddef.h>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/plan_build.h"

static const ls_attr rows[] = {
    {"rate", LS_ATTR_FLOAT, offsetof(ls_dropout_attrs, rate), .maximum = 1, .help = "the fraction set to zero"},
    {"per_sample", LS_ATTR_FLAG, offsetof(ls_dropout_attrs, per_sample), .help = "whole samples, not elements"},
    {.name = NULL},
};

static ls_status infer(ls_graph *graph, ls_node *node) {
    ls_dropout_attrs *a = (ls_dropout_attrs *)(void *)node->attrs.bytes;
    const ls_tensor_type *x = ls__input_type(graph, node, 0);
    if (!(a->rate >= 0 && a->rate < 1))
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "%s: a dropout rate is the fraction set to zero, at least 0 and less than 1, but %g was asked for",
            node->name, (double)a->rate);
    a->layer = (uint32_t)graph->node_count;  // this node's index: no two layers draw the same
    return ls__node_output(node, x->shape, x->dtype);
}

ls_value ls_dropout(ls_graph *graph, ls_value x, const ls_dropout_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_DROPOUT, &x, 1, attrs);
}

const ls_op ls__op_dropout = {
    .kind = LS_OP_DROPOUT,
    .keras_class = "Dropout",
    .keras_name = "dropout",
    .attrs = rows,
    .attrs_bytes = sizeof(ls_dropout_attrs),
    .inputs = 1,
    .infer = infer,
    .backward = ls__backward_layer,
    .absorbs = LS_ABSORBS_MASK,
    .traits = LS_OP_RANDOM | LS_OP_RENAMES_IN_INFERENCE,
    .recompute = LS_RECOMPUTE_LIGHT,
};
