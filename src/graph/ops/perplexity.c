#include <math.h>

#include "base/error.h"
#include "graph/ops/loss.h"

static ls_status infer(ls_graph *graph, ls_node *node) {
    ls_metric_attrs *a = (ls_metric_attrs *)(void *)node->attrs.bytes;
    LS_TRY(ls__targets_of_positions(graph, node, &a->rows));
    LS_TRY(ls__check_logits(graph, node));
    return ls__node_output(node, LS_SHAPE(1), LS_DTYPE_F64);
}

static ls_status finish(const ls_finish *from, double *values) {
    *values = from->samples ? exp(from->from[0] / (double)from->samples) : NAN;
    return LS_OK;
}

ls_value ls_perplexity(ls_graph *graph, ls_value logits, ls_value targets, const ls_metric_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_PERPLEXITY, (ls_value[]){logits, targets}, 2, attrs);
}

const ls_op ls__op_perplexity = {
    .kind = LS_OP_PERPLEXITY,
    .part = LS_PART_METRIC,
    .keras_class = "Perplexity",
    .keras_name = "perplexity",
    .attrs_bytes = sizeof(ls_metric_attrs),
    .inputs = 2,
    .infer = infer,
    .finish = finish,
};
