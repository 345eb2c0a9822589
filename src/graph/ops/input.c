// What a graph starts from: ls_graph_create makes the one node of this kind.
#include "graph/graph.h"

const ls_op ls__op_input = {.kind = LS_OP_INPUT};
