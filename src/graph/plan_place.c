// Where everything a step reads and writes is: weights in the vector of masters or in working copies, the rest in the arena.
#include "base/error.h"
#include "graph/plan_build.h"

ls_status ls__plan_settle(ls_builder *b) {
    ls_params *params = b->plan->params;
    for (int i = 0; i < b->graph->param_count; i++) LS_TRY(ls__params_place(params, i, NULL));
    for (int i = 0; i < b->wish_count; i++) {
        ls_wish w = b->wishes[i];
        ls_plan_step_impl *step = &b->plan->steps[w.step];
        int copy;
        LS_TRY(ls__params_want(params, w.param, step->kernel->layout[w.arg], &copy));
        step->arg[w.arg] =
            copy == LS_MASTER ? (ls_step_arg){LS_PLACE_WEIGHT, w.param} : (ls_step_arg){LS_PLACE_COPY, copy};
    }
    return LS_OK;
}

static int root(const ls_plan *p, int buffer) {
    while (p->buffers[buffer].joins) buffer = p->buffers[buffer].joins - 1;
    return buffer;
}

static void find_lives(ls_plan *p) {
    for (int i = 0; i < p->step_count; i++)
        for (int a = 0; a < LS_ARG_COUNT; a++) {
            if (p->steps[i].arg[a].place != LS_PLACE_ARENA) continue;
            ls_buffer *buffer = &p->buffers[p->steps[i].arg[a].index];
            if (buffer->first < 0) buffer->first = i;
            buffer->last = i;
        }
    p->buffers[p->logits].last = p->step_count;  // ls_plan_logits reads them afterwards
}

// An output takes the memory of an input that nobody reads later, where the kernel can work in place.
static void share_in_place(ls_plan *p) {
    for (int i = 0; i < p->step_count; i++) {
        const ls_plan_step_impl *step = &p->steps[i];
        for (int k = 0; k < step->kernel->in_place_count; k++) {
            ls_step_arg out = step->arg[step->kernel->in_place[k].output],
                        in = step->arg[step->kernel->in_place[k].input];
            if (out.place != LS_PLACE_ARENA || in.place != LS_PLACE_ARENA) continue;
            int a = root(p, in.index), b = root(p, out.index);
            ls_buffer *from = &p->buffers[a], *to = &p->buffers[b];
            if (a == b || from->last != i || to->first != i || from->bytes != to->bytes) continue;
            from->last = to->last;
            to->joins = a + 1;
        }
    }
}

ls_status ls__plan_place(ls_builder *b) {
    ls_plan *p = b->plan;
    find_lives(p);
    share_in_place(p);
    p->arena_bytes = ls__arena_place(p->buffers, p->buffer_count);
    if (p->arena_bytes < 0) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    for (int i = 0; i < p->buffer_count; i++) p->buffers[i].offset = p->buffers[root(p, i)].offset;
    return LS_OK;
}
