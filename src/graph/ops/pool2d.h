// What the pooling ops share.
#ifndef LS_GRAPH_OPS_POOL2D_H
#define LS_GRAPH_OPS_POOL2D_H

#include "graph/graph.h"

ls_status ls__pool2d_infer(ls_graph *graph, ls_node *node, ls_shape x);         // (H, W, C) -> (H', W', C)
ls_status ls__global_pool2d_infer(ls_graph *graph, ls_node *node, ls_shape x);  // (H, W, C) -> (C)
ls_value ls__pool2d_add(ls_graph *graph, ls_op_kind op, ls_value x, const ls_pool2d_attrs *attrs);
ls_value ls__global_pool2d_add(ls_graph *graph, ls_op_kind op, ls_value x, const char *name);

#endif
