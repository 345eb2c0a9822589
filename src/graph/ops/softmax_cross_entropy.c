// The loss. Plans add it after the output; it is no layer of the graph, so there is no function to build it.
#include "base/error.h"
#include "graph/graph.h"

static ls_status infer(ls_graph *graph, ls_node *node, ls_shape x) {
    char text[LS_SHAPE_TEXT];
    if (x.ndim != 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: the output has one value per class, (None, classes), but its shape is %s; end with a dense "
                       "layer",
                       node->name, ls__shape_text(x, text));
    node->shape = x;
    return LS_OK;
}

const ls_op ls__op_softmax_cross_entropy = {.kind = LS_OP_SOFTMAX_CROSS_ENTROPY, .infer = infer, .backward_needs_x = 1};
