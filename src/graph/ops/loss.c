#include "graph/ops/loss.h"

#include <stddef.h>

#include "base/error.h"

const ls_attr ls__loss_rows[] = {
    {"weight", LS_ATTR_REAL, offsetof(ls_loss_attrs, weight), .initial = 1, .help = "in the sum of all losses"},
    {"label_smoothing", LS_ATTR_REAL, offsetof(ls_loss_attrs, label_smoothing), .maximum = 1,
     .help = "S: training goes towards (1 - S) t + S / classes in place of a target t"},
    {.name = NULL},
};

const ls_attr ls__weight_rows[] = {
    {"weight", LS_ATTR_REAL, offsetof(ls_loss_attrs, weight), .initial = 1, .help = "in the sum of all losses"},
    {.name = NULL},
};

ls_status ls__check_unused(const ls_node *node, const char *attribute, double value) {
    if (value == 0) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: a %s layer has no %s, but %g was asked for", node->name,
                   ls__op_find(node->op)->keras_class, attribute, value);
}

ls_status ls__check_logits(const ls_graph *graph, const ls_node *node) {
    const ls_node *last = ls__value_node(graph, node->inputs[0]);
    const ls_op *op = ls__op_find(last->op);
    if (op->traits & LS_OP_ACTIVATES || last->input_count == 0 ||
        (op->activation && op->activation(&last->attrs) != LS_ACTIVATION_NONE))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "model %s ends in layer %s: the last layer must give logits, without an activation", graph->name,
                       last->name);
    return LS_OK;
}

ls_status ls__targets_of_elements(const ls_graph *graph, const ls_node *node) {
    const ls_tensor_type *x = ls__input_type(graph, node, 0), *t = ls__input_type(graph, node, 1);
    char one[LS_SHAPE_TEXT], other[LS_SHAPE_TEXT];
    if (x->dtype != LS_DTYPE_F32 || t->dtype != LS_DTYPE_F32)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: predictions and targets are floating (fp32), but they are %s and %s", node->name,
                       ls_dtype_name(x->dtype), ls_dtype_name(t->dtype));
    // One number a sample may be told as (None) or (None, 1).
    if (ls_shape_equal(x->shape, t->shape) || (ls_shape_count(x->shape) == 1 && ls_shape_count(t->shape) == 1))
        return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: targets have the shape of the prediction, %s, not %s", node->name,
                   ls__shape_text(x->shape, one), ls__shape_text(t->shape, other));
}

ls_status ls__targets_of_positions(const ls_graph *graph, const ls_node *node, int *rows) {
    const ls_tensor_type *x = ls__input_type(graph, node, 0), *t = ls__input_type(graph, node, 1);
    char one[LS_SHAPE_TEXT], other[LS_SHAPE_TEXT];
    if (x->shape.ndim != 2) return ls__targets_of_classes(graph, node, rows);
    *rows = 0;
    if (x->dtype == LS_DTYPE_F32 && t->dtype == LS_DTYPE_I32 && t->shape.ndim == 1 &&
        t->shape.dim[0] == x->shape.dim[0])
        return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%s: of a sequence it takes scores (None, T, classes) and a class number for each position, "
                   "(None, T) of i32, but was given %s of %s and %s of %s",
                   node->name, ls__shape_text(x->shape, one), ls_dtype_name(x->dtype), ls__shape_text(t->shape, other),
                   ls_dtype_name(t->dtype));
}

ls_status ls__targets_of_classes(const ls_graph *graph, const ls_node *node, int *rows) {
    const ls_tensor_type *x = ls__input_type(graph, node, 0), *t = ls__input_type(graph, node, 1);
    char one[LS_SHAPE_TEXT], other[LS_SHAPE_TEXT];
    if (x->shape.ndim != 1 || x->dtype != LS_DTYPE_F32)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: it takes one score per class, (None, classes), but was given %s of %s", node->name,
                       ls__shape_text(x->shape, one), ls_dtype_name(x->dtype));
    *rows = t->dtype == LS_DTYPE_F32;
    if (*rows && !ls_shape_equal(x->shape, t->shape))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: targets that are rows of weights have the shape of the scores, %s, not %s", node->name,
                       ls__shape_text(x->shape, one), ls__shape_text(t->shape, other));
    if (!*rows && ls_shape_count(t->shape) != 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: targets that are class numbers are one a sample, (None), but their shape is %s", node->name,
                       ls__shape_text(t->shape, other));
    return LS_OK;
}
