#include "graph/ops/pool2d.h"

ls_value ls_global_max_pool2d(ls_graph *graph, ls_value x, const char *name) {
    return ls__global_pool2d_add(graph, LS_OP_GLOBAL_MAX_POOL2D, x, name);
}

const ls_op ls__op_global_max_pool2d = {.kind = LS_OP_GLOBAL_MAX_POOL2D, .infer = ls__global_pool2d_infer};
