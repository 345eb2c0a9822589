// Compiling a graph into a plan: plan_build.h says how the work is divided.
#include "graph/plan.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "graph/plan_build.h"

static ls_status check(const ls_graph *g) {
    LS_TRY(ls__graph_check_classifier(g));
    if (g->output == LS_NO_VALUE || g->nodes[g->output].shape.ndim != 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "model %s does not end in one score per class: finish it with a layer of shape (None, classes)",
                       g->name);
    const ls_node *last = &g->nodes[g->output];
    if (last->op == LS_OP_RELU || last->attrs.activation != LS_ACTIVATION_NONE || last->op == LS_OP_INPUT)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "model %s ends in layer %s: the last layer must give logits, without an activation", g->name,
                       last->name);
    return LS_OK;
}

static ls_status build(ls_builder *b) {
    ls_plan *p = b->plan;
    ls_tensor logits;
    LS_TRY(check(b->graph));
    LS_TRY(ls_calloc(b->graph->node_count, sizeof *b->nodes, &b->nodes));
    LS_TRY(ls__plan_fold(b));
    LS_TRY(ls__plan_forward_steps(b, &logits));
    if (p->config.training) LS_TRY(ls__plan_backward_steps(b, logits));
    LS_TRY(ls__plan_settle(b));
    if (p->config.training && p->config.remat != LS_REMAT_NONE) LS_TRY(ls__plan_remat(b, p->config.remat));
    return ls__plan_place(b);
}

ls_status ls_plan_create(const ls_graph *graph, ls_device *device, ls_params *params, const ls_plan_config *config,
                         ls_plan **out) {
    ls_plan *p;
    LS_TRY(ls_calloc(1, sizeof *p, &p));
    *p = (ls_plan){.graph = graph, .device = device, .params = params, .config = *config};
    ls_builder b = {.plan = p, .graph = graph, .device = device};
    ls_status status = build(&b);
    free(b.nodes);
    free(b.wishes);
    if (status != LS_OK) {
        ls_plan_destroy(&p);
        return status;
    }
    *out = p;
    return LS_OK;
}
