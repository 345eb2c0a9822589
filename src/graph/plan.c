// Compiling a graph into a plan: plan_build.h says how the work is divided.
#include "graph/plan.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "graph/plan_build.h"

static ls_status check(const ls_graph *g, const ls_params *params, ls_plan_mode mode) {
    LS_TRY(ls__graph_check_finished(g));
    if (g->store != params->store)
        return LS_FAIL(LS_STATUS_INTERNAL, "a plan of model %s was asked for with parameters of another store",
                       g->name);
    if (g->param_count > params->count)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "model %s has parameters that were added to its store too late: build all graphs that share a "
                       "store before the first plan",
                       g->name);
    if (mode != LS_PLAN_PREDICTION && !ls__graph_has_losses(g))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "model %s has no loss: there is nothing to train it towards or to evaluate", g->name);
    return LS_OK;
}

// With elements of all kinds and all that is kept for backward, what is asked for can still be counted in bytes.
static ls_status check_batch(const ls_graph *g, int64_t batch) {
    int64_t elements;
    for (int v = 0; v < g->value_count; v++) {
        int64_t sample = ls_shape_count(ls__value_type(g, v)->shape);
        if (!__builtin_mul_overflow(sample, batch, &elements) && elements <= LS_MOST_ELEMENTS * 1024) continue;
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "model %s: %lld samples at a time, of %lld elements each after layer %s, are more than any memory "
            "holds",
            g->name, (long long)batch, (long long)sample, ls__value_node(g, v)->name);
    }
    return LS_OK;
}

static ls_status build(ls_builder *b) {
    ls_plan *p = b->plan;
    LS_TRY(check(b->graph, p->params, p->config.mode));
    LS_TRY(check_batch(b->graph, p->config.batch));
    LS_TRY(ls_calloc(b->graph->node_count, sizeof *b->nodes, &b->nodes));
    LS_TRY(ls_calloc(b->graph->value_count, sizeof *b->values, &b->values));
    LS_TRY(ls_calloc(b->graph->input_count, sizeof *p->feeds, &p->feeds));
    LS_TRY(ls_calloc(b->graph->input_count, 1, &p->reads));
    LS_TRY(ls_calloc(b->graph->output_count, sizeof *p->outputs, &p->outputs));
    LS_TRY(ls__plan_fold(b));
    LS_TRY(ls__plan_forward_steps(b));
    if (p->config.mode == LS_PLAN_TRAINING) LS_TRY(ls__plan_backward_steps(b));
    LS_TRY(ls__plan_settle(b));
    if (p->config.mode == LS_PLAN_TRAINING && p->config.remat != LS_REMAT_NONE)
        LS_TRY(ls__plan_remat(b, p->config.remat));
    LS_TRY(ls__plan_place(b));
    return p->config.mode == LS_PLAN_TRAINING ? ls__plan_ready(b) : LS_OK;
}

ls_status ls_plan_create(const ls_graph *graph, ls_device *device, ls_params *params, const ls_plan_config *config,
                         ls_plan **out) {
    ls_plan *p;
    LS_TRY(ls_calloc(1, sizeof *p, &p));
    *p = (ls_plan){.graph = graph, .device = device, .params = params, .config = *config, .measures = -1, .rows = -1};
    ls_builder b = {.plan = p, .graph = graph, .device = device};
    ls_status status = build(&b);
    for (int i = 0; b.nodes && i < graph->node_count; i++) free(b.nodes[i].spec);
    free(b.nodes);
    free(b.values);
    free(b.requests);
    if (status != LS_OK) {
        ls_plan_destroy(&p);
        return status;
    }
    *out = p;
    return LS_OK;
}
