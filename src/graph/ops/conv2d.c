#include "base/error.h"
#include "graph/ops/window.h"

static ls_status infer(ls_graph *graph, ls_node *node, ls_shape x) {
    const ls_op_attrs *a = &node->attrs;
    int64_t out[2];
    if (a->filters < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: a convolution has at least 1 filter, but %d were asked for",
                       node->name, a->filters);
    LS_TRY(ls__window_infer(node, x, "kernel", out));
    node->shape = LS_SHAPE(out[0], out[1], a->filters);
    int64_t window = (int64_t)a->kernel[0] * a->kernel[1], channels = x.dim[2];
    LS_TRY(ls__graph_param(graph, node, "kernel", LS_SHAPE(a->kernel[0], a->kernel[1], channels, a->filters),
                           LS_PARAM_KERNEL, LS_INITIALIZER_GLOROT_UNIFORM, window * channels, window * a->filters));
    if (a->use_bias)
        LS_TRY(ls__graph_param(graph, node, "bias", LS_SHAPE(a->filters), LS_PARAM_BIAS, LS_INITIALIZER_ZEROS,
                               a->filters, a->filters));
    return LS_OK;
}

ls_value ls_conv2d(ls_graph *graph, ls_value x, const ls_conv2d_attrs *attrs) {
    int default_strides = !attrs->strides[0] && !attrs->strides[1];
    ls_op_attrs a = {
        .filters = attrs->filters,
        .kernel = {attrs->kernel[0], attrs->kernel[1]},
        .strides = {default_strides ? 1 : attrs->strides[0], default_strides ? 1 : attrs->strides[1]},
        .padding = attrs->padding,
        .activation = attrs->activation,
        .use_bias = !attrs->no_bias,
    };
    return ls__graph_add(graph, LS_OP_CONV2D, x, attrs->name, &a, attrs->kernel_initializer, attrs->bias_initializer);
}

const ls_op ls__op_conv2d = {.kind = LS_OP_CONV2D, .infer = infer, .backward_needs_x = 1};
