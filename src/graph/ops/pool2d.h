// What the pooling ops share.
#ifndef LS_GRAPH_OPS_POOL2D_H
#define LS_GRAPH_OPS_POOL2D_H

#include "graph/graph.h"
#include "graph/plan_build.h"

extern const ls_attr ls__pool2d_rows[], ls__global_pool2d_rows[];
ls_status ls__pool2d_infer(ls_graph *graph, ls_node *node);         // (H, W, C) -> (H', W', C)
ls_status ls__global_pool2d_infer(ls_graph *graph, ls_node *node);  // (H, W, C) -> (C), (1, 1, C)
int ls__pool2d_absorb_padding(ls_attrs *attrs, const int sides[2][2]);

#endif
