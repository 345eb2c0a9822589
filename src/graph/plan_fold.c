// Folding: a ReLU into the convolution, dense layer, batch normalization or addition before it; an addition into the later of
// the two layers whose values it adds; a zero padding into the convolution or pooling after it.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "graph/plan_build.h"

typedef struct readers {
    int count;
    int last;  // the last of them
} readers;

static int takes_residual(ls_op_kind op) { return op == LS_OP_CONV2D || op == LS_OP_BATCH_NORM; }

static int takes_relu(ls_op_kind op) { return ls__has_weights(op) || op == LS_OP_BATCH_NORM; }

static void fold_relu(ls_builder *b, const readers *r, int i) {
    ls_value x = b->graph->nodes[i].inputs[0], home = b->nodes[x].home;
    if (r[x].count != 1 || b->nodes[x].padding || b->nodes[home].relu || !takes_relu(b->graph->nodes[home].op)) return;
    b->nodes[i].home = home;
    b->nodes[home].relu = 1;
}

// The later layer adds what the earlier one has computed by then.
static void fold_add(ls_builder *b, const readers *r, int i) {
    const ls_value *x = b->graph->nodes[i].inputs;
    int later = b->nodes[x[0]].home > b->nodes[x[1]].home ? 0 : 1;
    ls_value home = b->nodes[x[later]].home, other = x[1 - later];
    ls_node_state *s = &b->nodes[home];
    if (r[x[later]].count != 1 || s->relu || s->residual != LS_NO_VALUE || b->nodes[x[later]].padding ||
        b->nodes[other].padding || b->nodes[other].home >= home || !takes_residual(b->graph->nodes[home].op))
        return;
    s->residual = other;
    b->nodes[i].home = home;
}

static void fold_padding(ls_builder *b, const readers *r, int i) {
    const ls_node *reader = &b->graph->nodes[r[i].last];
    int windowed = reader->op == LS_OP_CONV2D || reader->op == LS_OP_MAX_POOL2D;
    if (r[i].count != 1 || !windowed || reader->attrs.padding != LS_PADDING_VALID) return;
    ls_value x = b->graph->nodes[i].inputs[0];
    if (b->nodes[x].padding) return;
    b->nodes[i].padding = 1;
    b->nodes[i].source = x;
    b->nodes[i].home = b->nodes[x].home;
}

static int masks(ls_op_kind op) {
    return op != LS_OP_ADD && op != LS_OP_BATCH_NORM && op != LS_OP_ZERO_PAD2D && op != LS_OP_SOFTMAX_CROSS_ENTROPY;
}

// Whether what is computed at `home` has one reader, and its kernel can mask.
static int reader_masks(const ls_builder *b, const readers *r, ls_value home) {
    ls_value v = home;  // the last value folded into it
    for (int i = home + 1; i < b->graph->node_count; i++)
        if (b->nodes[i].home == home && !b->nodes[i].padding) v = i;
    if (r[v].count == 1 && b->nodes[r[v].last].padding) v = r[v].last;
    if (r[v].count != 1) return 0;
    int reader = r[v].last;
    return b->nodes[reader].home == reader && masks(b->graph->nodes[reader].op);
}

ls_status ls__plan_fold(ls_builder *b) {
    const ls_graph *g = b->graph;
    readers *r;
    LS_TRY(ls_calloc(g->node_count, sizeof *r, &r));
    for (int i = 0; i < g->node_count; i++) {
        b->nodes[i].home = b->nodes[i].source = i;
        b->nodes[i].residual = LS_NO_VALUE;
        for (int k = 0; k < g->nodes[i].input_count; k++) {
            r[g->nodes[i].inputs[k]].count++;
            r[g->nodes[i].inputs[k]].last = i;
        }
    }
    for (int i = 1; i < g->node_count; i++) {
        const ls_node *n = &g->nodes[i];
        b->nodes[i].relu = ls__has_weights(n->op) && n->attrs.activation == LS_ACTIVATION_RELU;
        if (n->op == LS_OP_RELU || n->op == LS_OP_ACTIVATION) fold_relu(b, r, i);
        if (n->op == LS_OP_ADD) fold_add(b, r, i);
        if (n->op == LS_OP_ZERO_PAD2D) fold_padding(b, r, i);
    }
    for (int i = 1; i < g->node_count; i++)
        if (b->nodes[i].home == i && b->nodes[i].relu && ls__has_weights(g->nodes[i].op))
            b->nodes[i].masked_by_reader = reader_masks(b, r, i);
    free(r);
    return LS_OK;
}
