#include <inttypes.h>
#include <stddef.h>

#include "base/error.h"
#include "graph/ops/window.h"
#include "graph/plan_build.h"

static const ls_attr rows[] = {
    {"filters", LS_ATTR_INT, offsetof(ls_conv2d_attrs, filters), .help = "output channels"},
    {"kernel_size", LS_ATTR_PAIR, offsetof(ls_conv2d_attrs, kernel), .help = "height and width of the kernel"},
    {"strides", LS_ATTR_PAIR, offsetof(ls_conv2d_attrs, strides), .initial = 1, .help = "how far the kernel moves"},
    {"padding", LS_ATTR_CHOICE, offsetof(ls_conv2d_attrs, padding), .choices = ls__padding_names,
     .help = "same: the output is as large as the input over the strides"},
    {"activation", LS_ATTR_CHOICE, offsetof(ls_conv2d_attrs, activation), .choices = ls__activation_names,
     .help = "applied to the output"},
    {"no_bias", LS_ATTR_FLAG, offsetof(ls_conv2d_attrs, no_bias), .help = "without the bias"},
    {"kernel_initializer", LS_ATTR_CHOICE, offsetof(ls_conv2d_attrs, kernel_initializer),
     .choices = ls__initializer_names, .help = "of the kernel"},
    {"bias_initializer", LS_ATTR_CHOICE, offsetof(ls_conv2d_attrs, bias_initializer), .choices = ls__initializer_names,
     .help = "of the bias"},
    {"groups", LS_ATTR_INT, offsetof(ls_conv2d_attrs, groups), .initial = 1, .minimum = 1,
     .help = "each group of filters reads a group of channels"},
    {"dilation_rate", LS_ATTR_PAIR, offsetof(ls_conv2d_attrs, dilation), .initial = 1, .minimum = 1, .maximum = 1 << 15,
     .help = "from one element of the kernel to the next"},
    {.name = NULL},
};

static ls_status infer(ls_graph *graph, ls_node *node) {
    ls_conv2d_attrs *a = (ls_conv2d_attrs *)(void *)node->attrs.bytes;
    ls_shape x = ls__input_type(graph, node, 0)->shape;
    int64_t out[2];
    if (a->filters < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: a convolution has at least 1 filter, but %d were asked for",
                       node->name, a->filters);
    LS_TRY(ls__window_infer_dilated(node, x, "kernel", a->kernel, a->strides, a->dilation, a->padding, a->pad, out));
    if (x.dim[2] % a->groups != 0 || a->filters % a->groups != 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: %d groups do not divide its %" PRId64 " channels and %d filters", node->name, a->groups,
                       x.dim[2], a->filters);
    LS_TRY(ls__node_output(node, LS_SHAPE(out[0], out[1], a->filters), LS_DTYPE_F32));
    int64_t window = (int64_t)a->kernel[0] * a->kernel[1], channels = x.dim[2] / a->groups;
    LS_TRY(ls__graph_param(graph, node, "kernel", LS_SHAPE(a->kernel[0], a->kernel[1], channels, a->filters),
                           LS_PARAM_KERNEL, a->kernel_initializer, LS_INITIALIZER_GLOROT_UNIFORM, window * channels,
                           window * a->filters));
    if (a->no_bias) return LS_OK;
    return ls__graph_param(graph, node, "bias", LS_SHAPE(a->filters), LS_PARAM_BIAS, a->bias_initializer,
                           LS_INITIALIZER_ZEROS, a->filters, a->filters);
}

ls_value ls_conv2d(ls_graph *graph, ls_value x, const ls_conv2d_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_CONV2D, &x, 1, attrs);
}

static ls_activation activation(const ls_attrs *attrs) { return LS_ATTRS(ls_conv2d_attrs, attrs)->activation; }

static int absorb_padding(ls_attrs *attrs, const int sides[2][2]) {
    ls_conv2d_attrs *a = (ls_conv2d_attrs *)(void *)attrs->bytes;
    if (a->padding != LS_PADDING_VALID || !ls__window_can_absorb(a->kernel, a->dilation, sides)) return 0;
    ls__window_absorb(a->pad, sides);
    return 1;
}

static double flops(const ls_kernel_spec *s) {
    const ls_conv2d_attrs *a = LS_ATTRS(ls_conv2d_attrs, &s->attrs);
    return 2 * (double)ls_shape_count(s->y[0].shape) * a->kernel[0] * a->kernel[1] * (double)s->x[0].shape.dim[3] /
           a->groups;
}

const ls_op ls__op_conv2d = {
    .kind = LS_OP_CONV2D,
    .keras_class = "Conv2D",
    .keras_name = "conv2d",
    .attrs = rows,
    .attrs_bytes = sizeof(ls_conv2d_attrs),
    .inputs = 1,
    .infer = infer,
    .backward = ls__backward_layer,
    .absorbs = LS_ABSORBS_RELU | LS_ABSORBS_RESIDUAL | LS_ABSORBS_PADDING | LS_ABSORBS_MASK,
    .activation = activation,
    .absorb_padding = absorb_padding,
    .traits = LS_OP_CHOOSES_LAYOUT | LS_OP_WIDENS,
    .recompute = LS_RECOMPUTE_FULL,
    .flops = flops,
};
