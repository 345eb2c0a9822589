// Rematerialization: activations that forward does not keep are computed again in backward, by the same kernels from the same
// inputs, so the bits are those of a plan that keeps everything. Works on the finished lists of steps: right before the first
// backward step that reads a dropped activation come the forward steps that make it, writing to memory of their own.
// Source: Chen et al., "Training deep nets with sublinear memory cost", 2016.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "graph/plan_build.h"

typedef struct remat {
    ls_builder *b;
    ls_plan_step_impl *old;  // the steps before
    int old_count;
    int moved;      // of the old steps; the others' kernels are still to be destroyed if compiling fails
    int *producer;  // by buffer: the forward step that makes it, if it is dropped; else -1
    int *replayed;  // by buffer: where it was made again; -1: not yet
} remat;

// What is cheap to make again, or not needed between the sums that end the blocks of a residual network. The sums
// themselves are kept, or making one again would take making all before it; so is what pooling has made small.
static int drops(const ls_plan_step_impl *s) { return s->recompute != LS_RECOMPUTE_NEVER; }

static void choose(remat *r) {
    ls_plan *p = r->b->plan;
    for (int i = 0; i < p->buffer_count; i++) r->producer[i] = r->replayed[i] = -1;
    for (int i = 0; i < p->forward_count; i++) {
        ls_step_arg y = r->old[i].arg[LS_ARG_Y];
        if (y.place != LS_PLACE_ARENA || p->buffers[y.index].stays) continue;
        // A buffer with several writers (a layer that renames its input) is kept.
        int first = r->producer[y.index] == -1;
        r->producer[y.index] = first && drops(&r->old[i]) ? i : -2;
    }
}

static ls_status append(remat *r, const ls_plan_step_impl *step, ls_plan_step_impl **out) {
    ls_plan *p = r->b->plan;
    LS_TRY(ls__steps_reserve(p));
    *out = &p->steps[p->step_count++];
    **out = *step;
    return LS_OK;
}

static ls_status replay(remat *r, int buffer);

// The step's arguments, with dropped activations made again first.
static ls_status map_inputs(remat *r, ls_plan_step_impl *step) {
    for (int a = 0; a < LS_ARG_COUNT; a++) {
        ls_step_arg *at = &step->arg[a];
        if (at->place != LS_PLACE_ARENA || r->producer[at->index] < 0 || a == LS_ARG_SCRATCH) continue;
        LS_TRY(replay(r, at->index));
        at->index = r->replayed[at->index];
    }
    return LS_OK;
}

static ls_status replay(remat *r, int buffer) {
    if (r->replayed[buffer] >= 0) return LS_OK;
    ls_plan *p = r->b->plan;
    ls_plan_step_impl step = r->old[r->producer[buffer]], *added;
    int64_t bytes = p->buffers[buffer].bytes;
    step.borrowed = 1;
    step.spec = NULL;
    step.pass = "again";
    step.arg[LS_ARG_Y].place = LS_PLACE_NONE;
    LS_TRY(map_inputs(r, &step));
    step.arg[LS_ARG_Y].place = LS_PLACE_ARENA;
    if (step.kernel->scratch_bytes)
        LS_TRY(ls__buffer_add(r->b, step.kernel->scratch_bytes, 0, &step.arg[LS_ARG_SCRATCH]));
    LS_TRY(ls__buffer_add(r->b, bytes, 1, &step.arg[LS_ARG_Y]));
    r->replayed[buffer] = step.arg[LS_ARG_Y].index;
    return append(r, &step, &added);
}

static ls_status rebuild(remat *r) {
    ls_plan *p = r->b->plan;
    for (int i = 0; i < r->old_count; i++) {
        ls_plan_step_impl step = r->old[i], *added;
        if (i >= p->forward_count) LS_TRY(map_inputs(r, &step));
        LS_TRY(append(r, &step, &added));
        r->moved++;
    }
    return LS_OK;
}

ls_status ls__plan_remat(ls_builder *b, ls_remat how) {
    ls_plan *p = b->plan;
    remat r = {.b = b, .old = p->steps, .old_count = p->step_count};
    int most = p->buffer_count + 2 * p->step_count;  // a replay adds an activation and perhaps scratch
    ls_status status;
    p->steps = NULL;
    p->step_count = p->step_capacity = 0;
    LS_TRY_GOTO(ls_calloc(most, sizeof *r.producer, &r.producer), done);
    LS_TRY_GOTO(ls_calloc(most, sizeof *r.replayed, &r.replayed), done);
    choose(&r);
    for (int i = p->buffer_count; i < most; i++) r.producer[i] = -1;
    LS_TRY_GOTO(rebuild(&r), done);
done:
    for (int i = r.moved; i < r.old_count; i++) {
        ls_kernel_destroy(&r.old[i].kernel);
        free(r.old[i].spec);
    }
    free(r.old);
    free(r.producer);
    free(r.replayed);
    return status;
}
