// What losses and metrics share: a prediction and what it ought to be.
#ifndef LS_GRAPH_OPS_LOSS_H
#define LS_GRAPH_OPS_LOSS_H

#include "graph/graph.h"
#include "graph/plan_build.h"

extern const ls_attr ls__loss_rows[];

// Checks the targets of a classification, (classes) scores a sample: class numbers, or rows of weights. Sets *rows.
ls_status ls__targets_of_classes(const ls_graph *graph, const ls_node *node, int *rows);

#endif
