// What the pooling ops of volumes share.
#ifndef LS_GRAPH_OPS_POOL3D_H
#define LS_GRAPH_OPS_POOL3D_H

#include "graph/graph.h"
#include "graph/plan_build.h"

extern const ls_attr ls__pool3d_rows[];
ls_status ls__pool3d_infer(ls_graph *graph, ls_node *node);  // (D, H, W, C) -> (D', H', W', C)

#endif
