// What batches bring along: ls_graph_add_input makes nodes of this kind.
#include "graph/graph.h"

const ls_op ls__op_input = {
    .kind = LS_OP_INPUT,
    .keras_class = "InputLayer",
    .keras_name = "input",
    .attrs_bytes = sizeof(ls_plain_attrs),
};
