#include "graph/ops/pool2d.h"

ls_value ls_max_pool2d(ls_graph *graph, ls_value x, const ls_pool2d_attrs *attrs) {
    return ls__pool2d_add(graph, LS_OP_MAX_POOL2D, x, attrs);
}

const ls_op ls__op_max_pool2d = {.kind = LS_OP_MAX_POOL2D, .infer = ls__pool2d_infer};
