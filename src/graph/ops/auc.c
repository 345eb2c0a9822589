#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "graph/ops/loss.h"

// A sample's row: the scores of all labels, then whether each is there.
static ls_status infer(ls_graph *graph, ls_node *node) {
    ls_metric_attrs *a = (ls_metric_attrs *)(void *)node->attrs.bytes;
    if (ls__input_type(graph, node, 1)->dtype == LS_DTYPE_F32 && ls__input_type(graph, node, 0)->shape.ndim == 1) {
        a->rows = 1;
        LS_TRY(ls__targets_of_elements(graph, node));
    } else {
        LS_TRY(ls__targets_of_classes(graph, node, &a->rows));
    }
    return ls__node_output(node, LS_SHAPE(2, ls__input_type(graph, node, 0)->shape.dim[0]), LS_DTYPE_F64);
}

typedef struct scored {
    double score;
    int there;
} scored;

static int by_score(const void *a, const void *b) {
    double x = ((const scored *)a)->score, y = ((const scored *)b)->score;
    return (x > y) - (x < y);
}

// The share of pairs, one sample with the label and one without, in which the first has the larger score; equals count half. That is
// the area under the ROC curve (Hanley and McNeil, "The meaning and use of the area under a receiver operating characteristic curve",
// Radiology 143, 1982). Counted in halves, in whole numbers: exact while there are fewer than 2^52 of them.
static double area(scored *s, int64_t count) {
    int64_t there = 0, below = 0;
    double halves = 0;
    qsort(s, (size_t)count, sizeof *s, by_score);
    for (int64_t i = 0, next; i < count; i = next) {
        int64_t with = 0;
        for (next = i; next < count && s[next].score == s[i].score; next++) with += s[next].there;
        int64_t without = next - i - with;
        halves += (double)with * (2 * (double)below + (double)without);
        there += with;
        below += without;
    }
    if (there == 0 || below == 0) return NAN;
    return halves / (2 * (double)there * (double)below);
}

static ls_status finish(const ls_finish *from, double *values) {
    scored *s;
    LS_TRY(ls_calloc(from->samples, sizeof *s, &s));
    for (int label = 0; label < from->parts; label++) {
        int numbers = 1;
        for (int64_t n = 0; n < from->samples; n++) {
            const double *row = from->from + n * from->count;
            s[n] = (scored){row[label], row[from->parts + label] > 0.5};
            numbers &= !isnan(row[label]);
        }
        values[label] = numbers ? area(s, from->samples) : NAN;
    }
    free(s);
    return LS_OK;
}

ls_value ls_auc(ls_graph *graph, ls_value scores, ls_value targets, const ls_metric_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_AUC, (ls_value[]){scores, targets}, 2, attrs);
}

const ls_op ls__op_auc = {
    .kind = LS_OP_AUC,
    .part = LS_PART_METRIC,
    .keras_class = "AUC",
    .keras_name = "auc",
    .attrs_bytes = sizeof(ls_metric_attrs),
    .inputs = 2,
    .infer = infer,
    .traits = LS_OP_ROWS,
    .tells_labels = 1,
    .finish = finish,
};
