// What a plan's arena holds when most of it is in use.
#include "base/memory.h"
#include "graph/plan_impl.h"

static int64_t room(const ls_plan_buffer *b) { return ls_round_up(b->bytes, LS_ALIGN); }

static int owns_memory(const ls_plan_buffer *b) { return b->bytes > 0 && b->first >= 0 && !b->joins; }

static int alive(const ls_plan_buffer *b, int step) { return owns_memory(b) && b->first <= step && step <= b->last; }

// The step at which the buffers alive are largest together; the first of equals.
static int fullest_step(const ls_plan *p) {
    int best = 0;
    int64_t most = -1;
    for (int i = 0; i < p->step_count; i++) {
        int64_t bytes = 0;
        for (int k = 0; k < p->buffer_count; k++)
            if (alive(&p->buffers[k], i)) bytes += room(&p->buffers[k]);
        if (bytes > most) most = bytes, best = i;
    }
    return best;
}

ls_arena_parts ls_plan_arena_parts(const ls_plan *p) {
    ls_arena_parts parts = {0};
    int step = fullest_step(p);
    for (int k = 0; k < p->buffer_count; k++) {
        const ls_plan_buffer *b = &p->buffers[k];
        if (!alive(b, step)) continue;
        if (!b->activation)
            parts.workspace += room(b);
        else if (b->first < p->forward_count)
            parts.activations += room(b);
        else
            parts.backward += room(b);
    }
    parts.unused = p->arena_bytes - parts.activations - parts.backward - parts.workspace;
    parts.node = p->step_count > 0 ? p->graph->nodes[p->steps[step].node].name : "";
    parts.pass = p->step_count > 0 ? p->steps[step].pass : "";
    return parts;
}
