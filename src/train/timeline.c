#include "train/timeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "train/trainer_impl.h"

#define WARM_UP      2          // steps of an epoch left out before recording begins, where enough follow
#define MOST_EVENTS  (1 << 20)  // of the whole job: viewers get slow, and a file of 100 MB is enough
#define STEP_EVENTS  16         // of a step besides its micro-batches and the engine: the step's own
#define BATCH_EVENTS 8          // of a micro-batch besides the plan's steps

// --- names -----------------------------------------------------------------------------------------------------------

// The category a phase of the engine counts for.
static const char *category(ls_step_phase phase) {
    switch (phase) {
    case LS_STEP_WAIT: return "wait";
    case LS_STEP_UPDATE:
    case LS_STEP_REFRESH: return "update";
    default: return "exchange";
    }
}

static const char *add_text(ls_timeline *l, size_t *used, const char *node, const char *pass) {
    char *text = l->texts + *used;
    *used += (size_t)sprintf(text, "%s %s", node, pass) + 1;
    return text;
}

// Replica 0 has every kind of plan, the same on all workers: so names have the same numbers everywhere.
static ls_status make_names(ls_timeline *l, ls_plan *const *plan, int first[LS_PLAN_KINDS]) {
    static const ls_trace_name spans[] = {
#define X(name, text, category) {text, category},
        LS_SPAN_LIST(X)
#undef X
    };
    int count = LS_SPANS + LS_STEP_PHASES;
    size_t bytes = 0, used = 0;
    for (int p = 0; p < LS_PLAN_KINDS; p++)
        for (int i = 0; plan[p] && i < ls_plan_step_count(plan[p]); i++, count++)
            bytes += strlen(ls_plan_step(plan[p], i).node) + strlen(ls_plan_step(plan[p], i).pass) + 2;
    LS_TRY(ls_calloc(count, sizeof *l->names, &l->names));
    LS_TRY(ls_calloc((int64_t)bytes, 1, &l->texts));
    for (int i = 0; i < LS_SPANS; i++) l->names[l->name_count++] = spans[i];
    l->strategy_first = l->name_count;
    for (int i = 0; i < LS_STEP_PHASES; i++)
        l->names[l->name_count++] = (ls_trace_name){ls_step_phase_words[i], category((ls_step_phase)i)};
    for (int p = 0; p < LS_PLAN_KINDS; p++) {
        first[p] = l->name_count;
        for (int i = 0; plan[p] && i < ls_plan_step_count(plan[p]); i++) {
            ls_plan_step_info step = ls_plan_step(plan[p], i);
            l->names[l->name_count++] = (ls_trace_name){add_text(l, &used, step.node, step.pass),
                                                        p <= LS_PLAN_KIND_TRAIN_TAIL ? "layer" : "evaluation"};
        }
    }
    return LS_OK;
}

// --- how much ----------------------------------------------------------------------------------------------------------

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static int steps_of(const ls_plan *plan) { return plan ? ls_plan_step_count(plan) : 0; }

void ls__timeline_choose(ls_timeline *l, int64_t steps, int64_t epochs, int64_t room, int64_t need) {
    l->steps = smaller(l->asked, steps);
    if (l->steps > room / need / epochs) l->steps = larger(room / need / epochs, 1);
    l->epochs = (int)smaller(epochs, larger(room / need / l->steps, 1));
    l->first = smaller(WARM_UP, steps - l->steps);
}

static int64_t most_steps(ls_plan *const *plan, ls_plan_kind first, ls_plan_kind last) {
    int64_t most = 0;
    for (int p = first; p <= (int)last; p++) most = larger(most, steps_of(plan[p]));
    return most;
}

// Decides what is recorded, the same on all workers, and returns how many events a replica may need for it.
static int64_t make_room(const ls_trainer *t, ls_timeline *l) {
    ls_plan *const *plan = t->replica[0].plan;
    int64_t run = ls__deal_maximum(t, t->train_shape.micro_batches);
    int64_t need = run * (most_steps(plan, LS_PLAN_KIND_TRAIN, LS_PLAN_KIND_TRAIN_TAIL) + BATCH_EVENTS) + STEP_EVENTS +
                   ls_engine_lane_events(t->engine) + ls_engine_progress_events(t->engine) + 4 * t->bucket_count;
    int64_t room = MOST_EVENTS / t->spread.lanes, epochs = larger(t->config.epochs, 1);
    ls__timeline_choose(l, t->train_shape.steps, epochs, room, need);
    int64_t batch = most_steps(plan, LS_PLAN_KIND_EVALUATE, LS_PLAN_KIND_EVALUATE_REST) + BATCH_EVENTS;
    int64_t evaluations = t->config.validate ? epochs : 1;
    l->evaluated = smaller(l->steps * run, larger(room / (evaluations * batch), 1));
    return l->epochs * l->steps * need + evaluations * (l->evaluated * batch + 4) + 4 * epochs;
}

// --- recording -------------------------------------------------------------------------------------------------------

static ls_status attach(ls_trainer *t, ls_timeline *l, const int first[LS_PLAN_KINDS], int64_t capacity) {
    l->track_count = 2 * t->spread.replicas + (ls_engine_progress_events(t->engine) > 0);
    LS_TRY(ls_calloc(l->track_count, sizeof *l->tracks, &l->tracks));
    int64_t run = ls__deal_maximum(t, t->train_shape.micro_batches);
    for (int i = 0; i < l->track_count; i++) {
        LS_TRY(ls_memory_alloc(sizeof **l->tracks, &l->tracks[i]));
        int64_t ahead = l->epochs * (l->steps * run + 8);  // a loader prepares little more than is used
        LS_TRY(
            ls_trace_allocate(l->tracks[i], i < t->spread.replicas || i == 2 * t->spread.replicas ? capacity : ahead));
    }
    for (int i = 0; i < t->spread.replicas; i++) {
        ls_replica *r = &t->replica[i];
        r->trace = l->tracks[i];
        r->loader_trace = l->tracks[t->spread.replicas + i];
        for (int p = 0; p < LS_PLAN_KINDS; p++)
            if (r->plan[p]) ls_plan_record(r->plan[p], r->trace, first[p]);
        ls_loader_record(r->train_loader, r->loader_trace, LS_SPAN_PREPARE);
    }
    if (l->track_count > 2 * t->spread.replicas)
        ls_engine_record(t->engine, l->tracks[2 * t->spread.replicas], l->strategy_first);
    return LS_OK;
}

static ls_status set_up(ls_trainer *t, ls_timeline *l) {
    int first[LS_PLAN_KINDS];
    LS_TRY(make_names(l, t->replica[0].plan, first));
    return attach(t, l, first, make_room(t, l));
}

ls_status ls__timeline_create(ls_trainer *t, int64_t steps, ls_timeline **out) {
    ls_timeline *l;
    *out = NULL;
    ls_status status = ls_calloc(1, sizeof *l, &l);
    if (status == LS_OK) {
        t->timeline = *out = l;
        l->asked = steps;
        status = set_up(t, l);
    }
    status = ls_comm_agree(t->comm, status);
    double error;
    if (status == LS_OK) status = ls__clock_offset(t->comm, ls_clock, &l->clock.offset_from, &error);
    if (status == LS_OK) {
        l->clock.from = ls_clock();
        return LS_OK;
    }
    ls__timeline_destroy(t);
    *out = NULL;
    return ls__fail_passed(status, __FILE__, __LINE__);
}

void ls__timeline_destroy(ls_trainer *t) {
    ls_timeline *l = t->timeline;
    if (!l) return;
    for (int i = 0; t->replica && i < t->spread.replicas; i++) {
        ls_replica *r = &t->replica[i];
        for (int p = 0; p < LS_PLAN_KINDS; p++)
            if (r->plan[p]) ls_plan_record(r->plan[p], NULL, 0);
        if (r->train_loader) ls_loader_record(r->train_loader, NULL, 0);
        r->trace = r->loader_trace = NULL;
    }
    if (t->engine) ls_engine_record(t->engine, NULL, 0);
    for (int i = 0; l->tracks && i < l->track_count; i++) {
        if (l->tracks[i]) ls_trace_release(l->tracks[i]);
        ls_memory_free(l->tracks[i]);
    }
    free(l->tracks);
    free(l->names);
    free(l->texts);
    free(l);
    t->timeline = NULL;
}

static int records(const ls_trainer *t, int64_t step) {
    const ls_timeline *l = t->timeline;
    return t->at.epoch <= l->epochs && step >= l->first && step < l->first + l->steps;
}

void ls__timeline_step(ls_replica *r, int64_t step) {
    if (!r->trace) return;
    int on = records(r->trainer, step);
    ls_trace_switch(r->trace, on);
    ls_trace_switch(r->loader_trace, on);
}

void ls__timeline_exchange(ls_replica *r, int64_t step) {
    const ls_timeline *l = r->trainer->timeline;
    if (r->index == 0 && l && l->track_count > 2 * r->trainer->spread.replicas)
        ls_trace_switch(l->tracks[l->track_count - 1], records(r->trainer, step));
}

void ls__timeline_evaluate(ls_replica *r, int64_t micro_batch) {
    if (r->trace) ls_trace_switch(r->trace, micro_batch < r->trainer->timeline->evaluated);
}
