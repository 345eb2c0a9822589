#include "graph/graph.h"
#include "graph/plan_build.h"

static ls_acts_as acts_as(const ls_attrs *attrs) { return LS_ACTS_AS_RELU; }

ls_value ls_relu(ls_graph *graph, ls_value x, const char *name) {
    return ls__graph_add(graph, LS_OP_RELU, &x, 1, &(ls_plain_attrs){name});
}

const ls_op ls__op_relu = {
    .kind = LS_OP_RELU,
    .keras_class = "ReLU",
    .keras_name = "re_lu",
    .attrs_bytes = sizeof(ls_plain_attrs),
    .inputs = 1,
    .backward = ls__backward_layer,
    .absorbs = LS_ABSORBS_MASK,
    .acts_as = acts_as,
    .traits = LS_OP_ACTIVATES,
    .recompute = LS_RECOMPUTE_LIGHT,
};
