#include "graph/ops/recurrent.h"

#include <limits.h>
#include <stddef.h>

#include "base/error.h"
#include "graph/ops/mask.h"

const ls_attr ls__recurrent_rows[] = {
    {"units", LS_ATTR_INT, offsetof(ls_recurrent_attrs, units), .minimum = 1, .maximum = INT_MAX / 4,
     .help = "of the state, which is the output"},
    {"return_sequences", LS_ATTR_FLAG, offsetof(ls_recurrent_attrs, return_sequences),
     .help = "the state after each step, not after the last alone"},
    {"go_backwards", LS_ATTR_FLAG, offsetof(ls_recurrent_attrs, backwards), .help = "from the last step to the first"},
    {"kernel_initializer", LS_ATTR_CHOICE, offsetof(ls_recurrent_attrs, kernel_initializer),
     .choices = ls__initializer_names, .help = "of the input's products"},
    {"recurrent_initializer", LS_ATTR_CHOICE, offsetof(ls_recurrent_attrs, recurrent_initializer),
     .choices = ls__initializer_names, .help = "of the state's products"},
    {"bias_initializer", LS_ATTR_CHOICE, offsetof(ls_recurrent_attrs, bias_initializer),
     .choices = ls__initializer_names, .help = "of the bias"},
    {.name = NULL},
};

ls_status ls__recurrent_infer(ls_graph *graph, ls_node *node, int gates, int biases, ls_initializer bias) {
    const ls_recurrent_attrs *a = LS_ATTRS(ls_recurrent_attrs, &node->attrs);
    LS_TRY(ls__check_mask(graph, node));
    ls_shape x = ls__input_type(graph, node, 0)->shape;
    int64_t channels = x.dim[1], units = a->units, products = gates * units;
    LS_TRY(ls__graph_param(graph, node, "kernel", LS_SHAPE(channels, products), LS_PARAM_KERNEL, a->kernel_initializer,
                           LS_INITIALIZER_GLOROT_UNIFORM, channels, products));
    LS_TRY(ls__graph_param(graph, node, "recurrent_kernel", LS_SHAPE(units, products), LS_PARAM_KERNEL,
                           a->recurrent_initializer, LS_INITIALIZER_ORTHOGONAL, units, products));
    LS_TRY(ls__graph_param(graph, node, "bias", biases ? LS_SHAPE(biases, products) : LS_SHAPE(products), LS_PARAM_BIAS,
                           a->bias_initializer, bias, products, products));
    return ls__node_output(node, a->return_sequences ? LS_SHAPE(x.dim[0], units) : LS_SHAPE(units), LS_DTYPE_F32);
}

double ls__recurrent_products(const ls_kernel_spec *s) {
    double steps = (double)s->x[0].shape.dim[0] * (double)s->x[0].shape.dim[1];
    return 2 * steps * ((double)ls_shape_count(s->w[0].shape) + (double)ls_shape_count(s->w[1].shape));
}
