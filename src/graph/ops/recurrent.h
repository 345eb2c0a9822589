// What LSTM and GRU share.
#ifndef LS_GRAPH_OPS_RECURRENT_H
#define LS_GRAPH_OPS_RECURRENT_H

#include "graph/graph.h"

extern const ls_attr ls__recurrent_rows[];

// A recurrent layer with `gates` products of each unit's, and a bias of `biases` rows (0: none but (gates * units)).
ls_status ls__recurrent_infer(ls_graph *graph, ls_node *node, int gates, int biases, ls_initializer bias);

// Arithmetic of the input's and the state's products, of all steps.
double ls__recurrent_products(const ls_kernel_spec *s);

#endif
