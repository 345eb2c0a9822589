#include "train/measures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

ls_status ls__measures_create(const ls_graph *graph, ls_measures *out) {
    *out = (ls_measures){.width = 1, .accuracy = -1};
    LS_TRY(ls_calloc(graph->node_count, sizeof *out->list, &out->list));
    for (int i = 0; i < graph->node_count; i++) {
        const ls_node *n = &graph->nodes[i];
        const ls_op *op = ls__op_find(n->op);
        if (op->part == LS_PART_LAYER || op->traits & LS_OP_ROWS) continue;
        if (op->is_accuracy && out->accuracy < 0) out->accuracy = out->count;
        int count = (int)ls_shape_count(n->output[0].shape);
        out->list[out->count++] = (ls_measure){n->name, op, &n->attrs, out->width, count};
        out->width += count;
        if (out->width > LS_MAX_MEASURES)
            return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s: a graph has at most %d numbers of losses and metrics", graph->name,
                           LS_MAX_MEASURES - 1);
    }
    return LS_OK;
}

void ls__measures_destroy(ls_measures *m) {
    free(m->list);
    *m = (ls_measures){0};
}

void ls__measures_add(const ls_measures *m, double *sum, const double *row) {
    for (int i = 0; i < m->width; i++) sum[i] += row[i];
}

static double samples_of(const double *sum) { return sum[0] > 0 ? sum[0] : 1; }

double ls__measures_loss(const ls_measures *m, const double *sum) {
    double loss = 0;
    for (int i = 0; i < m->count; i++)
        if (m->list[i].op->part == LS_PART_LOSS) loss += sum[m->list[i].at];
    return loss / samples_of(sum);
}

double ls__measures_value(const ls_measures *m, int index, const double *sum) {
    const ls_measure *one = &m->list[index];
    if (one->op->finish) return one->op->finish(one->attrs, sum + one->at, sum[0]);
    return sum[one->at] / samples_of(sum);
}

double ls__measures_accuracy(const ls_measures *m, const double *sum) {
    return m->accuracy < 0 ? NAN : ls__measures_value(m, m->accuracy, sum);
}
