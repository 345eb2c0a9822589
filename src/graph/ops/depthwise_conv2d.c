#include <inttypes.h>
#include <stddef.h>

#include "base/error.h"
#include "graph/ops/window.h"
#include "graph/plan_build.h"

#define AT(field) offsetof(ls_depthwise_conv2d_attrs, field)

static const ls_attr rows[] = {
    {"kernel_size", LS_ATTR_PAIR, AT(kernel), .help = "height and width of the kernel"},
    {"strides", LS_ATTR_PAIR, AT(strides), .initial = 1, .help = "how far the kernel moves"},
    {"padding", LS_ATTR_CHOICE, AT(padding), .choices = ls__padding_names,
     .help = "same: the output is as large as the input over the strides"},
    {"depth_multiplier", LS_ATTR_INT, AT(multiplier), .initial = 1, .minimum = 1, .help = "outputs of each channel"},
    {"dilation_rate", LS_ATTR_PAIR, AT(dilation), .initial = 1, .minimum = 1, .maximum = 1 << 15,
     .help = "from one element of the kernel to the next"},
    {"activation", LS_ATTR_CHOICE, AT(activation), .choices = ls__activation_names, .help = "applied to the output"},
    {"no_bias", LS_ATTR_FLAG, AT(no_bias), .help = "without the bias"},
    {"depthwise_initializer", LS_ATTR_CHOICE, AT(kernel_initializer), .choices = ls__initializer_names,
     .help = "of the kernel"},
    {"bias_initializer", LS_ATTR_CHOICE, AT(bias_initializer), .choices = ls__initializer_names, .help = "of the bias"},
    {.name = NULL},
};

static ls_status infer(ls_graph *graph, ls_node *node) {
    ls_depthwise_conv2d_attrs *a = (ls_depthwise_conv2d_attrs *)(void *)node->attrs.bytes;
    ls_shape x = ls__input_type(graph, node, 0)->shape;
    int64_t out[2];
    LS_TRY(ls__window_infer_dilated(node, x, "kernel", a->kernel, a->strides, a->dilation, a->padding, a->pad, out));
    int64_t window = (int64_t)a->kernel[0] * a->kernel[1], channels = x.dim[2], filters = channels * a->multiplier;
    if (filters > INT32_MAX)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: %" PRId64 " channels times %d are too many", node->name,
                       channels, a->multiplier);
    LS_TRY(ls__node_output(node, LS_SHAPE(out[0], out[1], filters), LS_DTYPE_F32));
    LS_TRY(ls__graph_param(graph, node, "kernel", LS_SHAPE(a->kernel[0], a->kernel[1], channels, a->multiplier),
                           LS_PARAM_KERNEL, a->kernel_initializer, LS_INITIALIZER_GLOROT_UNIFORM, window * channels,
                           window * a->multiplier));
    if (a->no_bias) return LS_OK;
    return ls__graph_param(graph, node, "bias", LS_SHAPE(filters), LS_PARAM_BIAS, a->bias_initializer,
                           LS_INITIALIZER_ZEROS, filters, filters);
}

ls_value ls_depthwise_conv2d(ls_graph *graph, ls_value x, const ls_depthwise_conv2d_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_DEPTHWISE_CONV2D, &x, 1, attrs);
}

static ls_activation activation(const ls_attrs *attrs) {
    return LS_ATTRS(ls_depthwise_conv2d_attrs, attrs)->activation;
}

static int absorb_padding(ls_attrs *attrs, const int sides[2][2]) {
    ls_depthwise_conv2d_attrs *a = (ls_depthwise_conv2d_attrs *)(void *)attrs->bytes;
    if (a->padding != LS_PADDING_VALID || !ls__window_can_absorb(a->kernel, a->dilation, sides)) return 0;
    ls__window_absorb(a->pad, sides);
    return 1;
}

static double flops(const ls_kernel_spec *s) {
    const int *kernel = LS_ATTRS(ls_depthwise_conv2d_attrs, &s->attrs)->kernel;
    return 2 * (double)ls_shape_count(s->y[0].shape) * kernel[0] * kernel[1];
}

const ls_op ls__op_depthwise_conv2d = {
    .kind = LS_OP_DEPTHWISE_CONV2D,
    .keras_class = "DepthwiseConv2D",
    .keras_name = "depthwise_conv2d",
    .attrs = rows,
    .attrs_bytes = sizeof(ls_depthwise_conv2d_attrs),
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
