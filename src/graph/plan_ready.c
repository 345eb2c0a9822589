// After which step of backward which gradients are complete and the weights they belong to are not read any more: from then on who
// exchanges may send the ones and write the others while backward goes on. And which weights each step of forward reads: it may run before the
// others are there.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "graph/plan_build.h"

// The last step of backward that writes the gradient of a parameter or reads its master weights; of those without a gradient 0.
static void find_last(const ls_plan *p, int *last) {
    for (int i = p->forward_count; i < p->step_count; i++)
        for (int a = 0; a < LS_ARG_COUNT; a++) {
            ls_step_arg at = p->steps[i].arg[a];
            if (at.place == LS_PLACE_GRADIENT || (at.place == LS_PLACE_WEIGHT && last[at.index] > 0))
                last[at.index] = i;
        }
}

// The trained parameter with the smallest offset from `from` on; -1: none.
static int next_trained(const ls_params *params, const int *last, int64_t from) {
    int next = -1;
    for (int i = 0; i < params->count; i++)
        if (last[i] > 0 && params->place[i].offset >= from &&
            (next < 0 || params->place[i].offset < params->place[next].offset))
            next = i;
    return next;
}

// The parameter whose weights an argument reads, from the masters or a copy; -1: none.
static int param_read(const ls_params *params, ls_step_arg at) {
    if (at.place == LS_PLACE_WEIGHT) return at.index;
    return at.place == LS_PLACE_COPY ? params->copies[at.index].param : -1;
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
    int *last, step = 0;
    find_needs(p);
    LS_TRY(ls_calloc(params->count, sizeof *last, &last));
    find_last(p, last);
    for (int i = next_trained(params, last, 0); i >= 0; i = next_trained(params, last, params->place[i].offset + 1)) {
        const ls_param_place *place = &params->place[i];
        if (last[i] > step) step = last[i];  // in the order of the vector: what comes before it is complete, too
        ls_plan_step_impl *at = &p->steps[step];
        if (at->ready_count == 0) at->ready_offset = place->offset;
        at->ready_count = place->offset + place->layout->bytes / (int64_t)sizeof(float) - at->ready_offset;
    }
    free(last);
    return LS_OK;
}
