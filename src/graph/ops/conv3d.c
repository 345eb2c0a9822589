#include <stddef.h>

#include "base/error.h"
#include "graph/ops/window.h"
#include "graph/plan_build.h"

#define AT(field) offsetof(ls_conv3d_attrs, field)

static const ls_attr rows[] = {
    {"filters", LS_ATTR_INT, AT(filters), .minimum = 1, .help = "output channels"},
    {"kernel_size", LS_ATTR_TRIPLE, AT(kernel), .minimum = 1, .maximum = LS_MOST_VOLUME_SIDE,
     .help = "depth, height and width of the kernel"},
    {"strides", LS_ATTR_TRIPLE, AT(strides), .initial = 1, .minimum = 1, .help = "how far the kernel moves"},
    {"padding", LS_ATTR_CHOICE, AT(padding), .choices = ls__padding_names,
     .help = "same: the output is as large as the input over the strides"},
    {"activation", LS_ATTR_CHOICE, AT(activation), .choices = ls__activation_names, .help = "applied to the output"},
    {"no_bias", LS_ATTR_FLAG, AT(no_bias), .help = "without the bias"},
    {"kernel_initializer", LS_ATTR_CHOICE, AT(kernel_initializer), .choices = ls__initializer_names,
     .help = "of the kernel"},
    {"bias_initializer", LS_ATTR_CHOICE, AT(bias_initializer), .choices = ls__initializer_names, .help = "of the bias"},
    {"dilation_rate", LS_ATTR_TRIPLE, AT(dilation), .initial = 1, .minimum = 1, .maximum = LS_MOST_VOLUME_SIDE,
     .help = "from one element of the kernel to the next"},
    {.name = NULL},
};

static ls_status infer(ls_graph *graph, ls_node *node) {
    ls_conv3d_attrs *a = (ls_conv3d_attrs *)(void *)node->attrs.bytes;
    ls_shape x = ls__input_type(graph, node, 0)->shape;
    const int *k = a->kernel;
    int64_t out[3];
    LS_TRY(ls__window_infer3d(node, x, "kernel", k, a->strides, a->dilation, a->padding, a->pad, out));
    LS_TRY(ls__node_output(node, LS_SHAPE(out[0], out[1], out[2], a->filters), LS_DTYPE_F32));
    int64_t window = (int64_t)k[0] * k[1] * k[2], channels = x.dim[3];
    LS_TRY(ls__graph_param(graph, node, "kernel", LS_SHAPE(k[0], k[1], k[2], channels, a->filters), LS_PARAM_KERNEL,
                           a->kernel_initializer, LS_INITIALIZER_GLOROT_UNIFORM, window * channels,
                           window * a->filters));
    if (a->no_bias) return LS_OK;
    return ls__graph_param(graph, node, "bias", LS_SHAPE(a->filters), LS_PARAM_BIAS, a->bias_initializer,
                           LS_INITIALIZER_ZEROS, a->filters, a->filters);
}

ls_value ls_conv3d(ls_graph *graph, ls_value x, const ls_conv3d_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_CONV3D, &x, 1, attrs);
}

static ls_activation activation(const ls_attrs *attrs) { return LS_ATTRS(ls_conv3d_attrs, attrs)->activation; }

static double flops(const ls_kernel_spec *s) {
    const int *k = LS_ATTRS(ls_conv3d_attrs, &s->attrs)->kernel;
    return 2 * (double)ls_shape_count(s->y[0].shape) * k[0] * k[1] * k[2] * (double)s->x[0].shape.dim[4];
}

const ls_op ls__op_conv3d = {
    .kind = LS_OP_CONV3D,
    .keras_class = "Conv3D",
    .keras_name = "conv3d",
    .attrs = rows,
    .attrs_bytes = sizeof(ls_conv3d_attrs),
    .inputs = 1,
    .infer = infer,
    .backward = ls__backward_layer,
    .absorbs = LS_ABSORBS_RELU | LS_ABSORBS_RESIDUAL | LS_ABSORBS_MASK,
    .activation = activation,
    .traits = LS_OP_CHOOSES_LAYOUT | LS_OP_WIDENS,
    .recompute = LS_RECOMPUTE_FULL,
    .flops = flops,
};
