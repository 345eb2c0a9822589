#include <stddef.h>

#include "base/error.h"
#include "graph/ops/loss.h"

static const ls_attr rows[] = {
    {"weight", LS_ATTR_REAL, offsetof(ls_loss_attrs, weight), .initial = 1, .help = "in the sum of all losses"},
    {"label_smoothing", LS_ATTR_REAL, offsetof(ls_loss_attrs, label_smoothing), .maximum = 1,
     .help = "S: training goes towards (1 - S) t + S / 2 in place of a target t"},
    {"positive_weight", LS_ATTR_REAL, offsetof(ls_loss_attrs, positive_weight), .initial = 1,
     .help = "of what a label that is there adds to the loss, as one that is rarer than not may need it"},
    {.name = NULL},
};

static ls_status infer(ls_graph *graph, ls_node *node) {
    LS_TRY(ls__targets_of_elements(graph, node));
    LS_TRY(ls__check_logits(graph, node));
    return ls__node_output(node, LS_SHAPE(1), LS_DTYPE_F64);
}

ls_value ls_binary_cross_entropy(ls_graph *graph, ls_value logits, ls_value targets, const ls_loss_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_BINARY_CROSS_ENTROPY, (ls_value[]){logits, targets}, 2, attrs);
}

const ls_op ls__op_binary_cross_entropy = {
    .kind = LS_OP_BINARY_CROSS_ENTROPY,
    .part = LS_PART_LOSS,
    .traits = LS_OP_UNIT_TARGETS,
    .keras_class = "BinaryCrossentropy",
    .keras_name = "binary_cross_entropy",
    .attrs = rows,
    .attrs_bytes = sizeof(ls_loss_attrs),
    .inputs = 2,
    .infer = infer,
    .backward = ls__backward_seed,
};
