// Where everything a step reads and writes is: weights in the vector of masters or in working copies, the rest in the arena.
#include <string.h>

#include "base/error.h"
#include "graph/plan_build.h"

// Once places and copies are sealed: a copy that is missing is made in every run, by a reorder at its beginning.
static ls_status settle_late(ls_builder *b) {
    ls_plan *p = b->plan;
    int missing = 0;
    for (int i = 0; i < b->request_count; i++)
        missing += p->steps[b->requests[i].step].arg[b->requests[i].arg].index == LS_NO_COPY;
    for (int i = 0; i < b->request_count && missing; i++) {
        ls_param_request r = b->requests[i];
        ls_step_arg *arg = &p->steps[r.step].arg[r.arg];
        if (arg->place != LS_PLACE_COPY || arg->index != LS_NO_COPY) continue;
        const ls_layout *layout = p->steps[r.step].kernel->layout[r.arg];
        ls_tensor made, master = {{LS_PLACE_WEIGHT, r.param, 0}, p->params->place[r.param].layout};
        LS_TRY(ls__in_layout(b, master, layout, p->steps[r.step].node, &made));
        ls_plan_step_impl last = p->steps[p->step_count - 1];
        memmove(p->steps + 1, p->steps, (size_t)(p->step_count - 1) * sizeof *p->steps);
        p->steps[0] = last;
        p->forward_count++;
        for (int k = 0; k < b->request_count; k++) b->requests[k].step++;
        for (int k = i; k < b->request_count; k++) {  // all that ask for the same
            ls_plan_step_impl *step = &p->steps[b->requests[k].step];
            if (b->requests[k].param == r.param && step->arg[b->requests[k].arg].index == LS_NO_COPY &&
                step->kernel->layout[b->requests[k].arg] == layout)
                step->arg[b->requests[k].arg] = made.at;
        }
    }
    return LS_OK;
}

ls_status ls__plan_settle(ls_builder *b) {
    ls_params *params = b->plan->params;
    for (int i = 0; i < params->count; i++) LS_TRY(ls__params_place(params, i, NULL));
    for (int i = 0; i < b->request_count; i++) {
        ls_param_request r = b->requests[i];
        ls_plan_step_impl *step = &b->plan->steps[r.step];
        int copy;
        LS_TRY(ls__params_want(params, r.param, step->kernel->layout[r.arg], &copy));
        step->arg[r.arg] =
            copy == LS_MASTER ? (ls_step_arg){LS_PLACE_WEIGHT, r.param, 0} : (ls_step_arg){LS_PLACE_COPY, copy, 0};
    }
    return settle_late(b);
}

static int root(const ls_plan *p, int buffer) {
    while (p->buffers[buffer].joins) buffer = p->buffers[buffer].joins - 1;
    return buffer;
}

static void find_lives(ls_plan *p) {
    for (int i = 0; i < p->step_count; i++)
        for (int a = 0; a < LS_ARG_COUNT; a++) {
            if (p->steps[i].arg[a].place != LS_PLACE_ARENA) continue;
            ls_plan_buffer *buffer = &p->buffers[p->steps[i].arg[a].index];
            if (buffer->first < 0) buffer->first = i;
            buffer->last = i;
        }
    for (int i = 0; i < p->buffer_count; i++)
        if (p->buffers[i].stays) p->buffers[i].last = p->step_count;
}

// Whether one of the first `count` outputs that a step can write in place has taken the memory of buffer `a`.
static int is_taken(const ls_plan *p, const ls_plan_step_impl *step, int count, int a) {
    for (int k = 0; k < count; k++) {
        ls_step_arg out = step->arg[step->kernel->in_place[k].output];
        if (out.place == LS_PLACE_ARENA && root(p, out.index) == a) return 1;
    }
    return 0;
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
            ls_plan_buffer *from = &p->buffers[a], *to = &p->buffers[b];
            if (a == b || from->last != i || to->first != i || from->bytes != to->bytes) continue;
            if (is_taken(p, step, k, a)) continue;
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
