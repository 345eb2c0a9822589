#include "graph/ops/mask.h"
#include "graph/ops/recurrent.h"
#include "graph/plan_build.h"

static ls_status infer(ls_graph *graph, ls_node *node) {
    return ls__recurrent_infer(graph, node, 3, 2, LS_INITIALIZER_ZEROS);
}

ls_value ls_gru(ls_graph *graph, ls_value x, ls_value mask, const ls_recurrent_attrs *attrs) {
    return ls__add_masked(graph, LS_OP_GRU, x, mask, attrs);
}

const ls_op ls__op_gru = {
    .kind = LS_OP_GRU,
    .keras_class = "GRU",
    .keras_name = "gru",
    .attrs = ls__recurrent_rows,
    .attrs_bytes = sizeof(ls_recurrent_attrs),
    .inputs = 1,
    .inputs_maximum = 2,
    .infer = infer,
    .backward = ls__backward_joint,
    .absorbs = LS_ABSORBS_TABLE,
    .products = ls__recurrent_products,
};
