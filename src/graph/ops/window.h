// What convolution and pooling share: a window that moves over an image.
#ifndef LS_GRAPH_OPS_WINDOW_H
#define LS_GRAPH_OPS_WINDOW_H

#include "graph/graph.h"

// Checks the window of node->attrs against images x (H, W, C), turns its padding into numbers and gives the (height,
// width) of the output. `what` names the window in sentences ("kernel"). Errors: INVALID_ARGUMENT.
ls_status ls__window_infer(ls_node *node, ls_shape x, const char *what, int64_t out[2]);

// Checks that x is images (H, W, C). Errors: INVALID_ARGUMENT.
ls_status ls__images_check(const ls_node *node, ls_shape x);

#endif
