// What losses and metrics share: a prediction and what it ought to be.
#ifndef LS_GRAPH_OPS_LOSS_H
#define LS_GRAPH_OPS_LOSS_H

#include "graph/graph.h"
#include "graph/plan_build.h"

extern const ls_attr ls__loss_rows[];

// Of losses that have no attribute but their weight.
extern const ls_attr ls__weight_rows[];

// Checks the targets of a classification, (classes) scores a sample: class numbers, or rows of weights. Sets *rows.
ls_status ls__targets_of_classes(const ls_graph *graph, const ls_node *node, int *rows);
// The same, and of a sequence: (T, classes) scores and (T) class numbers a sample.
ls_status ls__targets_of_positions(const ls_graph *graph, const ls_node *node, int *rows);
// Checks the targets of a prediction of any shape: one number for each of its elements.
ls_status ls__targets_of_elements(const ls_graph *graph, const ls_node *node);
// That the prediction comes from a layer without an activation, as what is computed from logits needs it.
ls_status ls__check_logits(const ls_graph *graph, const ls_node *node);
// Refuses an attribute of ls_loss_attrs that the loss does not have.
ls_status ls__check_unused(const ls_node *node, const char *attribute, double value);

#endif
