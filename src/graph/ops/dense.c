#include <stddef.h>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/plan_build.h"

static const ls_attr rows[] = {
    {"units", LS_ATTR_INT, offsetof(ls_dense_attrs, units), .help = "outputs"},
    {"activation", LS_ATTR_CHOICE, offsetof(ls_dense_attrs, activation), .choices = ls__activation_names,
     .help = "applied to the output"},
    {"no_bias", LS_ATTR_FLAG, offsetof(ls_dense_attrs, no_bias), .help = "without the bias"},
    {"kernel_initializer", LS_ATTR_CHOICE, offsetof(ls_dense_attrs, kernel_initializer),
     .choices = ls__initializer_names, .help = "of the kernel"},
    {"bias_initializer", LS_ATTR_CHOICE, offsetof(ls_dense_attrs, bias_initializer), .choices = ls__initializer_names,
     .help = "of the bias"},
    {.name = NULL},
};

static ls_status infer(ls_graph *graph, ls_node *node) {
    const ls_dense_attrs *a = LS_ATTRS(ls_dense_attrs, &node->attrs);
    ls_shape x = ls__input_type(graph, node, 0)->shape;
    char text[LS_SHAPE_TEXT];
    if (a->units < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: a dense layer has at least 1 unit, but %d were asked for",
                       node->name, a->units);
    if (x.ndim != 1 && x.ndim != 2)
        return LS_FAIL(LS_STATUS_UNSUPPORTED,
                       "%s: a dense layer takes one vector per sample, (None, C), or a sequence of them, (None, T, C), "
                       "but its input has "
                       "shape %s; put a "
                       "flatten or a global pooling layer before it",
                       node->name, ls__shape_text(x, text));
    ls_shape out = x;
    int64_t channels = x.dim[x.ndim - 1];
    out.dim[x.ndim - 1] = a->units;
    LS_TRY(ls__node_output(node, out, LS_DTYPE_F32));
    LS_TRY(ls__graph_param(graph, node, "kernel", LS_SHAPE(channels, a->units), LS_PARAM_KERNEL, a->kernel_initializer,
                           LS_INITIALIZER_GLOROT_UNIFORM, channels, a->units));
    if (a->no_bias) return LS_OK;
    return ls__graph_param(graph, node, "bias", LS_SHAPE(a->units), LS_PARAM_BIAS, a->bias_initializer,
                           LS_INITIALIZER_ZEROS, a->units, a->units);
}

ls_value ls_dense(ls_graph *graph, ls_value x, const ls_dense_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_DENSE, &x, 1, attrs);
}

static ls_activation activation(const ls_attrs *attrs) { return LS_ATTRS(ls_dense_attrs, attrs)->activation; }

static double flops(const ls_kernel_spec *s) {
    return 2 * (double)ls_shape_count(s->y[0].shape) * (double)s->w[0].shape.dim[0];
}

const ls_op ls__op_dense = {
    .kind = LS_OP_DENSE,
    .keras_class = "Dense",
    .keras_name = "dense",
    .attrs = rows,
    .attrs_bytes = sizeof(ls_dense_attrs),
    .inputs = 1,
    .infer = infer,
    .backward = ls__backward_layer,
    .absorbs = LS_ABSORBS_RELU | LS_ABSORBS_MASK,
    .activation = activation,
    .traits = LS_OP_CHOOSES_LAYOUT | LS_OP_WIDENS,
    .flops = flops,
};
