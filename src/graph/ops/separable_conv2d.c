// Both convolutions of it are one op, as in Keras they are one layer: what lies between them is seen by its kernels alone.
#include <inttypes.h>
#include <stddef.h>

#include "base/error.h"
#include "graph/ops/window.h"
#include "graph/plan_build.h"

#define AT(field) offsetof(ls_separable_conv2d_attrs, field)

static const ls_attr rows[] = {
    {"filters", LS_ATTR_INT, AT(filters), .help = "output channels"},
    {"kernel_size", LS_ATTR_PAIR, AT(kernel), .help = "height and width of the kernel"},
    {"strides", LS_ATTR_PAIR, AT(strides), .initial = 1, .help = "how far the kernel moves"},
    {"padding", LS_ATTR_CHOICE, AT(padding), .choices = ls__padding_names,
     .help = "same: the output is as large as the input over the strides"},
    {"depth_multiplier", LS_ATTR_INT, AT(multiplier), .initial = 1, .minimum = 1,
     .help = "outputs of each channel, of which the filters are made"},
    {"dilation_rate", LS_ATTR_PAIR, AT(dilation), .initial = 1, .minimum = 1, .maximum = 1 << 15,
     .help = "from one element of the kernel to the next"},
    {"activation", LS_ATTR_CHOICE, AT(activation), .choices = ls__activation_names, .help = "applied to the output"},
    {"no_bias", LS_ATTR_FLAG, AT(no_bias), .help = "without the bias"},
    {"depthwise_initializer", LS_ATTR_CHOICE, AT(depthwise_initializer), .choices = ls__initializer_names,
     .help = "of the kernel of each channel"},
    {"pointwise_initializer", LS_ATTR_CHOICE, AT(pointwise_initializer), .choices = ls__initializer_names,
     .help = "of the kernel of the filters"},
    {"bias_initializer", LS_ATTR_CHOICE, AT(bias_initializer), .choices = ls__initializer_names, .help = "of the bias"},
    {.name = NULL},
};

static ls_status infer(ls_graph *graph, ls_node *node) {
    ls_separable_conv2d_attrs *a = (ls_separable_conv2d_attrs *)(void *)node->attrs.bytes;
    ls_shape x = ls__input_type(graph, node, 0)->shape;
    int64_t out[2];
    if (a->filters < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: a convolution has at least 1 filter, but %d were asked for",
                       node->name, a->filters);
    LS_TRY(ls__window_infer_dilated(node, x, "kernel", a->kernel, a->strides, a->dilation, a->padding, a->pad, out));
    int64_t window = (int64_t)a->kernel[0] * a->kernel[1], channels = x.dim[2], between = channels * a->multiplier;
    if (between > INT32_MAX)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: %" PRId64 " channels times %d are too many", node->name,
                       channels, a->multiplier);
    LS_TRY(ls__node_output(node, LS_SHAPE(out[0], out[1], a->filters), LS_DTYPE_F32));
    LS_TRY(ls__graph_param(
        graph, node, "depthwise_kernel", LS_SHAPE(a->kernel[0], a->kernel[1], channels, a->multiplier), LS_PARAM_KERNEL,
        a->depthwise_initializer, LS_INITIALIZER_GLOROT_UNIFORM, window * channels, window * a->multiplier));
    LS_TRY(ls__graph_param(graph, node, "pointwise_kernel", LS_SHAPE(1, 1, between, a->filters), LS_PARAM_KERNEL,
                           a->pointwise_initializer, LS_INITIALIZER_GLOROT_UNIFORM, between, a->filters));
    if (a->no_bias) return LS_OK;
    return ls__graph_param(graph, node, "bias", LS_SHAPE(a->filters), LS_PARAM_BIAS, a->bias_initializer,
                           LS_INITIALIZER_ZEROS, a->filters, a->filters);
}

ls_value ls_separable_conv2d(ls_graph *graph, ls_value x, const ls_separable_conv2d_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_SEPARABLE_CONV2D, &x, 1, attrs);
}

static ls_activation activation(const ls_attrs *attrs) {
    return LS_ATTRS(ls_separable_conv2d_attrs, attrs)->activation;
}

static double flops(const ls_kernel_spec *s) {
    const ls_separable_conv2d_attrs *a = LS_ATTRS(ls_separable_conv2d_attrs, &s->attrs);
    double between = (double)s->x[0].shape.dim[3] * a->multiplier,
           pixels = (double)ls_shape_count(s->y[0].shape) / a->filters;
    double forward = 2 * pixels * between * ((double)a->kernel[0] * a->kernel[1] + a->filters);
    return s->pass == LS_PASS_BACKWARD ? 2 * forward : forward;
}

const ls_op ls__op_separable_conv2d = {
    .kind = LS_OP_SEPARABLE_CONV2D,
    .keras_class = "SeparableConv2D",
    .keras_name = "separable_conv2d",
    .attrs = rows,
    .attrs_bytes = sizeof(ls_separable_conv2d_attrs),
    .inputs = 1,
    .infer = infer,
    .backward = ls__backward_joint,
    .activation = activation,
    .traits = LS_OP_CHOOSES_LAYOUT,
    .recompute = LS_RECOMPUTE_FULL,
    .flops = flops,
};
