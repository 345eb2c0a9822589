#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "graph/ops/loss.h"

// A sample's row: its class, then the one that it is taken for. One value comes of all rows.
static ls_status infer(ls_graph *graph, ls_node *node) {
    ls_metric_attrs *a = (ls_metric_attrs *)(void *)node->attrs.bytes;
    LS_TRY(ls__targets_of_classes(graph, node, &a->rows));
    return ls__node_output(node, LS_SHAPE(2, 1), LS_DTYPE_F64);
}

// The mean over classes of the share of a class's samples that are taken for it (scikit-learn's balanced_accuracy_score).
static ls_status finish(const ls_finish *from, double *values) {
    int64_t classes = 0, found = 0, *samples;
    for (int64_t n = 0; n < from->samples; n++)
        if (from->from[2 * n] >= (double)classes) classes = (int64_t)from->from[2 * n] + 1;
    LS_TRY(ls_calloc(2 * classes + 1, sizeof *samples, &samples));
    int64_t *right = samples + classes;
    for (int64_t n = 0; n < from->samples; n++) {
        int64_t class = (int64_t)from->from[2 * n];
        samples[class]++;
        right[class] += from->from[2 * n] == from->from[2 * n + 1];
    }
    *values = 0;
    for (int64_t c = 0; c < classes; c++) {
        if (!samples[c]) continue;
        *values += (double)right[c] / (double)samples[c];
        found++;
    }
    *values = found ? *values / (double)found : NAN;
    free(samples);
    return LS_OK;
}

ls_value ls_balanced_accuracy(ls_graph *graph, ls_value scores, ls_value targets, const ls_metric_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_BALANCED_ACCURACY, (ls_value[]){scores, targets}, 2, attrs);
}

const ls_op ls__op_balanced_accuracy = {
    .kind = LS_OP_BALANCED_ACCURACY,
    .part = LS_PART_METRIC,
    .keras_class = "BalancedAccuracy",
    .keras_name = "balanced_accuracy",
    .attrs_bytes = sizeof(ls_metric_attrs),
    .inputs = 2,
    .infer = infer,
    .traits = LS_OP_ROWS,
    .tells_classes = 1,
    .finish = finish,
};
