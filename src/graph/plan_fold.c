// What a plan computes, and folding: a ReLU into the operation before it; a sum into the later of the two operations whose values it
// adds; a zero padding into the operation after it; the mask of a ReLU's gradient into the backward kernel of its one reader. An
// operation absorbs only what its allow-list names.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "graph/plan_build.h"

static const ls_op *op_of(const ls_builder *b, int i) { return ls__op_find(b->graph->nodes[i].op); }

static const ls_op *home_op(const ls_builder *b, ls_value home) { return op_of(b, b->graph->values[home].node); }

static ls_node_state *home_node(ls_builder *b, ls_value home) { return &b->nodes[b->graph->values[home].node]; }

// --- what is computed ------------------------------------------------------------------------------------------------

static void need_value(ls_builder *b, ls_value v) { b->nodes[b->graph->values[v].node].needed = 1; }

// Losses and metrics are computed for their own sake; rows of samples in evaluation, for who trains has no use for them.
static int measured(const ls_builder *b, const ls_op *op) {
    ls_plan_mode mode = b->plan->config.mode;
    if (op->part == LS_PART_LAYER || mode == LS_PLAN_PREDICTION) return 0;
    return mode == LS_PLAN_EVALUATION || !(op->traits & LS_OP_ROWS);
}

static void find_needed(ls_builder *b) {
    const ls_graph *g = b->graph;
    for (int i = 0; i < g->output_count && ls__gives_outputs(&b->plan->config); i++) need_value(b, g->outputs[i].value);
    for (int i = g->node_count - 1; i >= 0; i--) {
        const ls_node *n = &g->nodes[i];
        if (measured(b, op_of(b, i))) b->nodes[i].needed = 1;
        for (int k = 0; k < n->input_count && b->nodes[i].needed; k++) need_value(b, n->inputs[k]);
    }
    for (int i = 0; i < g->input_count; i++) b->plan->reads[i] = (char)b->nodes[g->values[g->inputs[i]].node].needed;
}

static void find_readers(ls_builder *b) {
    const ls_graph *g = b->graph;
    for (int v = 0; v < g->value_count; v++)
        b->values[v] = (ls_value_state){.home = v, .source = v, .last_reader = -1, .only_measured = 1, .holder = -1};
    for (int i = 0; i < g->node_count; i++) {
        b->nodes[i].residual = LS_NO_VALUE;
        for (int k = 0; k < g->nodes[i].input_count && b->nodes[i].needed; k++) {
            ls_value_state *v = &b->values[g->nodes[i].inputs[k]];
            v->readers++;
            v->last_reader = i;
            if (op_of(b, i)->part == LS_PART_LAYER) v->only_measured = 0;
        }
    }
    for (int i = 0; i < g->output_count && ls__gives_outputs(&b->plan->config); i++)
        b->values[g->outputs[i].value].readers++;  // the caller
}

// Gradients are wanted of what is computed from parameters that are trained.
static void find_gradients(ls_builder *b) {
    const ls_graph *g = b->graph;
    for (int i = 0; i < g->node_count && b->plan->config.mode == LS_PLAN_TRAINING; i++) {
        const ls_node *n = &g->nodes[i];
        ls_node_state *s = &b->nodes[i];
        for (int k = 0; k < n->param_count; k++) s->trains |= ls__graph_trains(g, n->params[k]);
        int wanted = s->trains;
        for (int k = 0; k < n->input_count; k++) wanted |= b->values[n->inputs[k]].wants_gradient;
        for (int k = 0; k < n->output_count; k++)
            b->values[n->value + k].wants_gradient = wanted && n->output[k].dtype == LS_DTYPE_F32;
    }
}

// --- folding ---------------------------------------------------------------------------------------------------------

static void fold_activation(ls_builder *b, int i, ls_activation activation, unsigned absorbs) {
    ls_value x = b->graph->nodes[i].inputs[0], home = b->values[x].home;
    if (b->values[x].readers != 1 || b->values[x].padding || home_node(b, home)->activation != LS_ACTIVATION_NONE ||
        !(home_op(b, home)->absorbs & absorbs))
        return;
    b->values[b->graph->nodes[i].value].home = home;
    home_node(b, home)->activation = activation;
}

// Not behind a sum, of which the kernel would have to keep more than whether it was positive.
static void fold_relu6(ls_builder *b, int i) {
    if (home_node(b, b->values[b->graph->nodes[i].inputs[0]].home)->residual == LS_NO_VALUE)
        fold_activation(b, i, LS_ACTIVATION_RELU6, LS_ABSORBS_RELU6);
}

// The later operation adds what the earlier one has computed by then.
static void fold_sum(ls_builder *b, int i) {
    const ls_value *x = b->graph->nodes[i].inputs;
    int later = b->values[x[0]].home > b->values[x[1]].home ? 0 : 1;
    ls_value home = b->values[x[later]].home, other = x[1 - later];
    ls_node_state *s = home_node(b, home);
    if (b->values[x[later]].readers != 1 || s->activation != LS_ACTIVATION_NONE || s->residual != LS_NO_VALUE ||
        b->values[x[later]].padding || b->values[other].padding || b->values[other].home >= home ||
        !(home_op(b, home)->absorbs & LS_ABSORBS_RESIDUAL))
        return;
    s->residual = other;
    b->values[b->graph->nodes[i].value].home = home;
}

static void fold_padding(ls_builder *b, int i) {
    const ls_node *n = &b->graph->nodes[i];
    ls_value v = n->value, x = n->inputs[0];
    int sides[2][2];
    if (b->values[v].readers != 1 || b->values[v].last_reader < 0 || b->values[x].padding) return;
    const ls_node *reader = &b->graph->nodes[b->values[v].last_reader];
    const ls_op *op = ls__op_find(reader->op);
    ls_attrs tried = reader->attrs;
    ls__op_find(n->op)->sides(&n->attrs, sides);
    if (!(op->absorbs & LS_ABSORBS_PADDING) || !op->absorb_padding(&tried, sides)) return;
    b->values[v].padding = 1;
    b->values[v].source = x;
    b->values[v].home = b->values[x].home;
}

// Whether what is computed at `home` has one reader, and its kernel can mask.
static int reader_masks(const ls_builder *b, ls_value home) {
    const ls_graph *g = b->graph;
    ls_value v = home;  // the last value folded into it
    for (int i = home + 1; i < g->value_count; i++)
        if (b->values[i].home == home && !b->values[i].padding) v = i;
    ls_value_state *s = &b->values[v];
    if (s->readers == 1 && s->last_reader >= 0 && b->values[g->nodes[s->last_reader].value].padding)
        s = &b->values[g->nodes[s->last_reader].value];
    if (s->readers != 1 || s->last_reader < 0) return 0;
    int reader = s->last_reader;
    // It is the first input whose gradient is masked.
    int first = b->values[b->values[g->nodes[reader].inputs[0]].source].home == home;
    return first && ls__has_kernel(b, reader) && (op_of(b, reader)->absorbs & LS_ABSORBS_MASK) != 0;
}

ls_status ls__plan_fold(ls_builder *b) {
    const ls_graph *g = b->graph;
    find_needed(b);
    find_readers(b);
    find_gradients(b);
    for (int i = 0; i < g->node_count; i++) {
        const ls_node *n = &g->nodes[i];
        const ls_op *op = op_of(b, i);
        if (n->input_count == 0 || !b->nodes[i].needed) continue;
        if (op->activation && op->activation(&n->attrs) == LS_ACTIVATION_RELU &&
            ls__activation_inside(op, &n->attrs) == LS_ACTIVATION_NONE)
            b->nodes[i].activation = LS_ACTIVATION_RELU;
        switch (ls__acts_as(op, &n->attrs)) {
        case LS_ACTS_AS_RELU: fold_activation(b, i, LS_ACTIVATION_RELU, LS_ABSORBS_RELU); break;
        case LS_ACTS_AS_RELU6: fold_relu6(b, i); break;
        case LS_ACTS_AS_SUM: fold_sum(b, i); break;
        case LS_ACTS_AS_PADDING: fold_padding(b, i); break;
        case LS_ACTS_AS_ITSELF: break;
        }
    }
    // What one kernel does forward and backward masks for itself; of others the reader may.
    for (int i = 0; i < g->node_count; i++)
        if (ls__has_kernel(b, i) && b->nodes[i].activation != LS_ACTIVATION_NONE &&
            !(op_of(b, i)->traits & LS_OP_MASKS_ITSELF))
            b->nodes[i].masked_by_reader = reader_masks(b, g->nodes[i].value);
    return LS_OK;
}
