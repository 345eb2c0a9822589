// Whole numbers that say which steps of a sequence count.
#ifndef LS_GRAPH_OPS_MASK_H
#define LS_GRAPH_OPS_MASK_H

#include "graph/graph.h"

// Checks the second input of a node, if it has one: I32 (T), where its first is floating (T, C).
ls_status ls__check_mask(const ls_graph *graph, const ls_node *node);
// Adds a node of x and, unless it is LS_NO_VALUE, of a mask.
ls_value ls__add_masked(ls_graph *graph, ls_op_kind op, ls_value x, ls_value mask, const void *attrs);

#endif
