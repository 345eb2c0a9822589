#include "base/error.h"
#include "graph/graph.h"

static ls_status infer(ls_graph *graph, ls_node *node, ls_shape x) {
    const ls_op_attrs *a = &node->attrs;
    char text[LS_SHAPE_TEXT];
    if (a->filters < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: a dense layer has at least 1 unit, but %d were asked for",
                       node->name, a->filters);
    if (x.ndim != 1)
        return LS_FAIL(LS_STATUS_UNSUPPORTED,
                       "%s: a dense layer takes one vector per sample, (None, C), but its input has shape %s; put a "
                       "flatten or a global pooling layer before it",
                       node->name, ls__shape_text(x, text));
    node->shape = LS_SHAPE(a->filters);
    LS_TRY(ls__graph_param(graph, node, "kernel", LS_SHAPE(x.dim[0], a->filters), LS_PARAM_KERNEL,
                           LS_INITIALIZER_GLOROT_UNIFORM, x.dim[0], a->filters));
    if (a->use_bias)
        LS_TRY(ls__graph_param(graph, node, "bias", LS_SHAPE(a->filters), LS_PARAM_BIAS, LS_INITIALIZER_ZEROS,
                               a->filters, a->filters));
    return LS_OK;
}

ls_value ls_dense(ls_graph *graph, ls_value x, const ls_dense_attrs *attrs) {
    ls_op_attrs a = {.filters = attrs->units, .activation = attrs->activation, .use_bias = !attrs->no_bias};
    return ls__graph_add(graph, LS_OP_DENSE, x, attrs->name, &a, attrs->kernel_initializer, attrs->bias_initializer);
}

const ls_op ls__op_dense = {.kind = LS_OP_DENSE, .infer = infer, .backward_needs_x = 1};
