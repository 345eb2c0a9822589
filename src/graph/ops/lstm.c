#include "graph/ops/mask.h"
#include "graph/ops/recurrent.h"
#include "graph/plan_build.h"

static ls_status infer(ls_graph *graph, ls_node *node) {
    return ls__recurrent_infer(graph, node, 4, 0, LS_INITIALIZER_UNIT_FORGET);
}

ls_value ls_lstm(ls_graph *graph, ls_value x, ls_value mask, const ls_recurrent_attrs *attrs) {
    return ls__add_masked(graph, LS_OP_LSTM, x, mask, attrs);
}

const ls_op ls__op_lstm = {
    .kind = LS_OP_LSTM,
    .keras_class = "LSTM",
    .keras_name = "lstm",
    .attrs = ls__recurrent_rows,
    .attrs_bytes = sizeof(ls_recurrent_attrs),
    .inputs = 1,
    .inputs_maximum = 2,
    .infer = infer,
    .backward = ls__backward_joint,
    .absorbs = LS_ABSORBS_TABLE,
    .products = ls__recurrent_products,
};
