// After which step of backward which gradients are complete and the weights they belong to are not read any more: from then on who
// exchanges may send the ones and write the others while backward goes on. And which weights each step of forward reads: it may run before the
// others are there.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "graph/plan_build.h"

// What backward does with a parameter: the last step that writes its gradient, 0: none does, and the last that reads its weights, from the masters
// or a copy, trained or not.
typedef struct param_steps {
    int written, read;
} param_steps;

// The parameter whose weights an argument reads, from the masters or a copy; -1: none.
static int param_read(const ls_params *params, ls_step_arg at) {
    if (at.place == LS_PLACE_WEIGHT) return at.index;
    return at.place == LS_PLACE_COPY ? params->copies[at.index].param : -1;
}

static void find_last(const ls_plan *p, param_steps *last) {
    for (int i = p->forward_count; i < p->step_count; i++)
        for (int a = 0; a < LS_ARG_COUNT; a++) {
            ls_step_arg at = p->steps[i].arg[a];
            int read = param_read(p->params, at);
            if (at.place == LS_PLACE_GRADIENT) last[at.index].written = i;
            if (read >= 0) last[read].read = i;
        }
}

// The placed parameter with the smallest offset from `from` on; -1: none.
static int next_placed(const ls_params *params, int64_t from) {
    int next = -1;
    for (int i = 0; i < params->count; i++)
        if (params->place[i].layout && params->place[i].offset >= from &&
            (next < 0 || params->place[i].offset < params->place[next].offset))
            next = i;
    return next;
}

static void find_needs(ls_plan *p) {
    for (int i = 0; i < p->forward_count; i++) {
        ls_plan_step_impl *step = &p->steps[i];
        for (int a = 0; a < LS_ARG_COUNT; a++) {
            int index = param_read(p->params, step->arg[a]);
            if (index < 0) continue;
            const ls_param_place *place = &p->params->place[index];
            int64_t begin = place->offset, end = begin + place->layout->bytes / (int64_t)sizeof(float);
            if (step->needs_count > 0 && step->needs_offset < begin) begin = step->needs_offset;
            if (step->needs_count > 0 && step->needs_offset + step->needs_count > end)
                end = step->needs_offset + step->needs_count;
            step->needs_offset = begin;
            step->needs_count = end - begin;
        }
    }
}

ls_status ls__plan_ready(ls_builder *b) {
    ls_plan *p = b->plan;
    const ls_params *params = p->params;
    param_steps *last;
    int step = 0;
    find_needs(p);
    LS_TRY(ls_calloc(params->count, sizeof *last, &last));
    find_last(p, last);
    for (int i = next_placed(params, 0); i >= 0; i = next_placed(params, params->place[i].offset + 1)) {
        const ls_param_place *place = &params->place[i];
        // In the order of the vector: what comes before it is complete, too, and of what is not trained all has been read.
        if (last[i].written > step) step = last[i].written;
        if (last[i].read > step) step = last[i].read;
        if (last[i].written == 0) continue;
        ls_plan_step_impl *at = &p->steps[step];
        if (at->ready_count == 0) at->ready_offset = place->offset;
        at->ready_count = place->offset + place->layout->bytes / (int64_t)sizeof(float) - at->ready_offset;
    }
    free(last);
    return LS_OK;
}
