#include <stddef.h>

#include "base/error.h"
#include "graph/ops/window.h"
#include "graph/plan_build.h"

#define AT(field) offsetof(ls_conv2d_transpose_attrs, field)

static const ls_attr rows[] = {
    {"filters", LS_ATTR_INT, AT(filters), .minimum = 1, .help = "output channels"},
    {"kernel_size", LS_ATTR_PAIR, AT(kernel), .minimum = 1, .help = "height and width of the kernel"},
    {"strides", LS_ATTR_PAIR, AT(strides), .initial = 1, .minimum = 1,
     .help = "how far the kernel moves in the output"},
    {"padding", LS_ATTR_CHOICE, AT(padding), .choices = ls__padding_names,
     .help = "same: the output is as large as the input times the strides"},
    {"activation", LS_ATTR_CHOICE, AT(activation), .choices = ls__activation_names, .help = "applied to the output"},
    {"no_bias", LS_ATTR_FLAG, AT(no_bias), .help = "without the bias"},
    {"kernel_initializer", LS_ATTR_CHOICE, AT(kernel_initializer), .choices = ls__initializer_names,
     .help = "of the kernel"},
    {"bias_initializer", LS_ATTR_CHOICE, AT(bias_initializer), .choices = ls__initializer_names, .help = "of the bias"},
    {.name = NULL},
};

static ls_status infer(ls_graph *graph, ls_node *node) {
    ls_conv2d_transpose_attrs *a = (ls_conv2d_transpose_attrs *)(void *)node->attrs.bytes;
    ls_shape x = ls__input_type(graph, node, 0)->shape;
    int64_t out[2];
    LS_TRY(ls__images_check(node, x));
    ls__window_infer_transposed(2, x, a->kernel, a->strides, a->padding, a->pad, out);
    LS_TRY(ls__node_output(node, LS_SHAPE(out[0], out[1], a->filters), LS_DTYPE_F32));
    int64_t window = (int64_t)a->kernel[0] * a->kernel[1], channels = x.dim[2];
    LS_TRY(ls__graph_param(graph, node, "kernel", LS_SHAPE(a->kernel[0], a->kernel[1], a->filters, channels),
                           LS_PARAM_KERNEL, a->kernel_initializer, LS_INITIALIZER_GLOROT_UNIFORM, window * a->filters,
                           window * channels));
    if (a->no_bias) return LS_OK;
    return ls__graph_param(graph, node, "bias", LS_SHAPE(a->filters), LS_PARAM_BIAS, a->bias_initializer,
                           LS_INITIALIZER_ZEROS, a->filters, a->filters);
}

ls_value ls_conv2d_transpose(ls_graph *graph, ls_value x, const ls_conv2d_transpose_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_CONV2D_TRANSPOSE, &x, 1, attrs);
}

static ls_activation activation(const ls_attrs *attrs) {
    return LS_ATTRS(ls_conv2d_transpose_attrs, attrs)->activation;
}

static double flops(const ls_kernel_spec *s) {
    const ls_conv2d_transpose_attrs *a = LS_ATTRS(ls_conv2d_transpose_attrs, &s->attrs);
    return 2 * (double)ls_shape_count(s->x[0].shape) * a->kernel[0] * a->kernel[1] * a->filters;
}

const ls_op ls__op_conv2d_transpose = {
    .kind = LS_OP_CONV2D_TRANSPOSE,
    .keras_class = "Conv2DTranspose",
    .keras_name = "conv2d_transpose",
    .attrs = rows,
    .attrs_bytes = sizeof(ls_conv2d_transpose_attrs),
    .inputs = 1,
    .infer = infer,
    .backward = ls__backward_layer,
    .activation = activation,
    .traits = LS_OP_CHOOSES_LAYOUT,
    .recompute = LS_RECOMPUTE_FULL,
    .flops = flops,
};
