// The lanes at work: each replica of a worker is a thread that computes its run of micro-batches, then goes
// through the engine's step together with all others.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/flight.h"
#include "base/memory.h"
#include "base/watch.h"
#include "train/trainer_impl.h"

// --- failures --------------------------------------------------------------------------------------------------------

// Keeps a lane's first failure. It goes through the step all the same, so that nobody waits for it, and votes to end training.
void ls__replica_failed(ls_replica *r, ls_status status) {
    if (status == LS_OK || r->status != LS_OK) return;
    r->status = status;
    snprintf(r->failure, sizeof r->failure, "%s", ls_error_message());
}

// --- time ------------------------------------------------------------------------------------------------------------

// The time since the last lap was spent in `phase`, and is a span of the timeline. Laps follow each other without a gap, so that
// phases add up to the epoch.
static void lap(ls_replica *r, double *phase, ls_timeline_span span) {
    double now = ls_clock();
    *phase += now - r->since;
    if (span != LS_SPAN_NONE && ls_trace_on(r->trace)) ls_trace_add(r->trace, (int)span, 0, r->since, now);
    r->since = now;
}

void ls__replica_waited(ls_replica *r) { lap(r, &r->phases.wait, LS_SPAN_NONE); }

// The time between two steps is the main thread's own, for which the others wait.
static void lap_between(ls_replica *r) {
    const ls_timeline *l = r->trainer->timeline;
    if (r->index == 0)
        lap(r, &r->phases.serial, LS_SPAN_PROGRESS);
    else
        lap(r, &r->phases.wait, l ? (ls_timeline_span)(l->strategy_first + LS_STEP_WAIT) : LS_SPAN_NONE);
}

static void note_step_seconds(ls_replica *r, double seconds) {
    ls_watch_step(seconds);
    if (r->step_count == r->step_capacity) {
        int64_t larger = r->step_capacity ? r->step_capacity * 2 : 1024;
        double *grown = realloc(r->step_seconds, (size_t)larger * sizeof *grown);
        if (!grown) return;  // a statistic, not worth a failure
        r->step_seconds = grown;
        r->step_capacity = larger;
    }
    r->step_seconds[r->step_count++] = seconds;
}

// What this replica begins to do, for those who wait for it.
static void begins(const ls_replica *r, ls_flight_phase phase) {
    const ls_position *at = &r->trainer->at;
    int in_step = phase >= LS_FLIGHT_LOAD && phase <= LS_FLIGHT_EXCHANGE;
    if (r->index == 0)
        ls_flight_mark(phase, at->epoch, in_step ? at->step + 1 : at->step);
    else
        ls_flight_lane(r->index, phase);
}

// --- batches ---------------------------------------------------------------------------------------------------------

int64_t ls__ranges_count(const ls_trainer *t, const ls_epoch_shape *shape) {
    return shape->steps * ls__deal_maximum(t, shape->micro_batches);
}

int64_t ls__deal_maximum(const ls_trainer *t, int64_t micro_batches) {
    const ls_mesh *team = &t->spread.team;
    int64_t begin, end, maximum = 0;
    for (int lane = 0; lane < team->ranks * team->lanes; lane++) {
        ls_mesh_deal_lane(team, micro_batches, lane, &begin, &end);
        if (end - begin > maximum) maximum = end - begin;
    }
    return maximum;
}

void ls__replica_deal(const ls_replica *r, int64_t micro_batches, int64_t *begin, int64_t *end) {
    const ls_mesh *team = &r->trainer->spread.team;
    ls_mesh_deal_lane(team, micro_batches, team->ranks == 1 ? r->index : r->lane, begin, end);
}

// Which positions of the epoch's order this lane will load in steps [first, last), in the order it needs them.
static ls_status plan_ranges(ls_replica *r, const ls_epoch_shape *shape, int64_t first, int64_t last) {
    ls_trainer *t = r->trainer;
    free(r->ranges);
    r->range_count = 0;
    LS_TRY(ls_calloc(ls__ranges_count(t, shape), sizeof *r->ranges, &r->ranges));
    for (int64_t step = first; step < last; step++) {
        int64_t samples, micro_batches, begin, end;
        ls__epoch_step(shape, step, &samples, &micro_batches);
        if (shape == &t->train_shape)
            ls__replica_deal(r, micro_batches, &begin, &end);
        else
            ls_mesh_deal_lane(&t->spread.roles, micro_batches, r->lane, &begin, &end);
        for (int64_t v = begin; v < end; v++) {
            int64_t at = v * shape->micro_batch, left = samples - at;
            r->ranges[r->range_count++] =
                (ls_range){step * shape->batch + at, left < shape->micro_batch ? left : shape->micro_batch};
        }
    }
    return LS_OK;
}

static int64_t key_bytes(int64_t samples) {
    return (int64_t)sizeof(ls_random_key) + samples * (int64_t)sizeof(uint64_t);
}

static int64_t largest_micro_batch(const ls_trainer *t) {
    int64_t train = t->train_shape.micro_batch, eval = t->eval_shape.micro_batch;
    return train > eval ? train : eval;
}

// Room for input `index` of a batch in a device's own memory.
static int64_t input_bytes(const ls_trainer *t, int index) {
    return ls_round_up(largest_micro_batch(t) * t->inputs.bytes[index], LS_ALIGN);
}

// What a run is fed with.
typedef struct feeds {
    ls_span inputs[LS_MAX_FIELDS];
    ls_feeds all;
} feeds;

// The micro-batch that a replica computes, part by part.
struct ls_running {
    ls_batch *batch;  // NULL: none, or it failed before it was there
    feeds in;
    ls_plan *plan;
    int forward;  // steps of forward that are done
    ls_backward backward;
    double start, waited;  // when it began to compute, and what it had waited for the exchange by then
    double *row;
    int64_t samples;  // of the whole step
    ls_status status;
};
typedef struct ls_running running;

// The batch, where the loader has put it or copied to the device, and the key of everything random.
static ls_status feed(ls_replica *r, const ls_batch *batch, feeds *out) {
    const ls_trainer *t = r->trainer;
    int64_t offset = 0;
    out->all = (ls_feeds){.inputs = out->inputs, .random = {r->random, 0}};
    if (r->scale) {
        r->scale_host = (float)t->at.scale;  // which does not change before the queue is through
        out->all.scale = (ls_span){r->scale, 0};
        LS_TRY(ls_write(r->queue, out->all.scale, &r->scale_host, sizeof r->scale_host));
    }
    for (int i = 0; i < t->inputs.count; i++) {
        if (t->device->ops->host_memory) {
            out->inputs[i] = ls_span_of(r->inputs, (const char *)batch->feed[i] - (const char *)r->batches);
            continue;
        }
        out->inputs[i] = ls_span_of(r->inputs, offset);
        LS_TRY(ls_write(r->queue, out->inputs[i], batch->feed[i], batch->count * t->inputs.bytes[i]));
        offset += input_bytes(t, i);
    }
    r->key->seed = t->config.seed;
    r->key->epoch = (uint64_t)t->at.epoch;
    memcpy(r->key->samples, batch->samples, (size_t)batch->count * sizeof *batch->samples);
    LS_TRY(ls_write(r->queue, out->all.random, r->key, key_bytes(batch->count)));
    return ls_event_record(r->queue, r->fed);
}

// Gives the batch back to its loader once the device has what it copies of it.
static ls_status restore(ls_replica *r, ls_loader *loader, ls_batch **batch) {
    ls_status status = ls_event_synchronize(r->fed);
    ls_loader_restore(loader, batch);  // wakes the loader, which may take the core
    return status;
}

// The measures of the latest forward as a row of the table: there once the queue is through.
static ls_status take_measures(ls_replica *r, const ls_plan *plan, int64_t samples, double *row) {
    row[0] = (double)samples;
    return ls_read(r->queue, row + 1, ls_plan_measures(plan), (r->trainer->measures.width - 1) * (int64_t)sizeof *row);
}

// --- weights that are not home yet -----------------------------------------------------------------------------------

static ls_step_times times_of(const ls_replica *r) {
    ls_step_times times = {.since = r->since, .trace = r->trace};
    if (r->trace) times.trace_first = r->trainer->timeline->strategy_first;
    return times;
}

// What the engine has made this replica wait for is exchange that nothing has hidden.
static void add_times(ls_replica *r, const ls_step_times *times) {
    r->phases.exchange += ls_step_exchange(times);
    r->phases.update += ls_step_update(times);
    r->phases.wait += times->seconds[LS_STEP_WAIT];
    r->since = times->since;
}

// All weights of the latest step are home from here on. Does nothing where they were already.
static void come_home(ls_replica *r) {
    ls_trainer *t = r->trainer;
    if (r->home || !ls_engine_is_early(t->engine)) return;
    ls_step_times times = times_of(r);
    ls_status status = ls_engine_home(t->engine, r->index, r->queue, &times);
    add_times(r, &times);
    if (status != LS_OK) t->exchange_failed = 1;
    ls__replica_failed(r, status);
    r->home = 1;
    if (ls__not_finite_after(r, t->at.step)) r->stops = 1;
}

// The same between two steps: what is waited for there is time of the step before.
static void come_home_after(ls_replica *r) {
    double start = r->since;
    come_home(r);
    if (r->index == 0 && r->step_count > 0) r->step_seconds[r->step_count - 1] += r->since - start;
}

static ls_vote vote_of(const ls_replica *r) {
    const ls_trainer *t = r->trainer;
    ls_vote vote = r->index == 0 ? t->at.vote : LS_VOTE_GO_ON;
    if (r->index == 0 && vote == LS_VOTE_GO_ON && t->at.checkpoint_due) vote = LS_VOTE_CHECKPOINT;
    if (r->stops && vote < LS_VOTE_STOP && t->choices.not_finite == LS_NOT_FINITE_STOP) vote = LS_VOTE_STOP;
    return r->status != LS_OK ? LS_VOTE_FAILED : vote;
}

// What the engine asks for: before the last backward where it is early, so that until then a failure of this step is reported in it, and weights that are
// no finite numbers end training after the step that follows theirs; else once all kernels are in the queue.
static ls_vote vote(void *user, int lane) {
    ls_replica *r = user;
    (void)lane;
    if (ls_engine_is_early(r->trainer->engine)) {
        come_home(r);
        ls__timeline_exchange(r, r->trainer->at.step);
    } else {
        ls__replica_failed(r, ls_synchronize(r->queue));  // what the device could not do is known before the vote
    }
    return vote_of(r);
}

// The main thread's, from ls_comm_home: between two steps.
static void bring_home(void *user) {
    ls_trainer *t = user;
    ls_replica *r = &t->replica[0];
    lap_between(r);
    come_home_after(r);
}

void ls__weights_away(ls_trainer *t) {
    if (ls_engine_is_early(t->engine)) t->comm->away = (ls_away){bring_home, t};
}

ls_status ls__weights_home(ls_trainer *t) {
    const ls_replica *r = &t->replica[0];
    ls_comm_home(t->comm);
    if (!t->engine || !t->weights.buffer || ls_engine_is_home(t->engine, 0)) return LS_OK;
    if (r->status != LS_OK) return LS_FAIL(r->status, "%s", r->failure);
    return LS_FAIL(LS_STATUS_LIBRARY,
                   "the weights of step %lld have not come: another worker of this host could not communicate",
                   (long long)t->at.all_steps);
}

// --- an epoch --------------------------------------------------------------------------------------------------------

static ls_status start_loader(ls_replica *r, int64_t first, int64_t last) {
    ls_trainer *t = r->trainer;
    LS_TRY(plan_ranges(r, &t->train_shape, first, last));
    return ls_loader_start(r->train_loader, (uint32_t)t->at.epoch, t->order, r->ranges, r->range_count);
}

static void begin_epoch(ls_replica *r) {
    ls_trainer *t = r->trainer;
    if (t->at.step == 0) r->phases = (ls_phase_seconds){0};  // else the epoch is gone on with
    r->since = t->at.started;
    r->found = (ls_found_first){0};
    r->stops = 0;
    ls__replica_failed(r, ls_engine_forget_not_finite(t->engine, r->index, r->queue));
    if (!t->async) ls__replica_failed(r, start_loader(r, t->at.step, t->train_shape.steps));
    lap(r, &r->phases.serial, LS_SPAN_NONE);
    if (r->trace) ls_trace_add(r->trace, LS_SPAN_SET_UP, 0, t->at.started, r->since);
}

static void end_epoch(ls_replica *r) {
    lap_between(r);
    come_home_after(r);
    ls_loader_cancel(r->train_loader);  // the other loader has the memory next
    lap(r, &r->phases.serial, LS_SPAN_NONE);
    if (r->trace) ls_trace_add(r->trace, LS_SPAN_EPOCH, r->trainer->at.epoch, r->trainer->at.started, r->since);
}

// --- a micro-batch ---------------------------------------------------------------------------------------------------

// A worker that is to be slow sleeps as much longer as what it has computed since `start`, not waited for, took.
static void slow_down(const ls_trainer *t, double start) {
    double seconds = (ls_clock() - start) * (t->choices.slow_factor - 1);
    if (t->comm->rank != t->choices.slow_worker) return;
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

// The plan for a micro-batch of a step that has so many samples in all.
static ls_plan_kind train_kind(const ls_trainer *t, int64_t all, int64_t samples) {
    if (samples == t->train_shape.micro_batch) return LS_PLAN_KIND_TRAIN;
    return all == t->train_shape.batch ? LS_PLAN_KIND_TRAIN_REST : LS_PLAN_KIND_TRAIN_TAIL;
}

static ls_status begin_forward(ls_replica *r, running *m) {
    ls_trainer *t = r->trainer;
    begins(r, LS_FLIGHT_LOAD);
    LS_TRY(ls_loader_get(r->train_loader, &m->batch, NULL));
    lap(r, &r->phases.load, LS_SPAN_LOAD);
    m->start = r->since;
    m->waited = r->phases.exchange;
    m->plan = r->plan[train_kind(t, m->samples, m->batch->count)];
    return feed(r, m->batch, &m->in);
}

static ls_status end_forward(ls_replica *r, running *m, int64_t v) {
    LS_TRY(take_measures(r, m->plan, m->batch->count, m->row));
    ls__not_finite_look(r, m->plan, &m->in.all, v, m->batch->count, m->row);
    return LS_OK;
}

// Forward of a micro-batch, as far as weights are there.
static void forward(ls_replica *r, running *m, const ls_step_run *run) {
    ls_trainer *t = r->trainer;
    if (run->part == 0) {
        *m = (running){.row = m->row, .samples = m->samples};
        memset(r->ready, run->parts == 1, (size_t)t->bucket_count);
        m->status = begin_forward(r, m);
    }
    begins(r, LS_FLIGHT_FORWARD);
    if (run->parts > 1) r->ready[ls_engine_forward_bucket(t->engine, run->part)] = 1;
    const ls_buckets_ready ready = {t->bucket_ends, t->bucket_count, r->ready};
    if (m->status == LS_OK) m->status = ls_plan_forward_some(m->plan, r->queue, &m->in.all, &ready, &m->forward);
    if (run->part == run->parts - 1 && m->status == LS_OK) m->status = end_forward(r, m, run->micro_batch);
    lap(r, &r->phases.forward, LS_SPAN_FORWARD);
    ls__replica_failed(r, m->status);
    if (run->part < run->parts - 1) begins(r, LS_FLIGHT_EXCHANGE);  // the next bucket's weights may not be there yet
}

// Backward, until the gradients of a bucket are complete.
static void backward(ls_replica *r, running *m, const ls_step_run *run) {
    ls_trainer *t = r->trainer;
    int last = run->part == run->parts - 1;
    if (run->part == 0 && m->status == LS_OK) m->backward = ls_plan_backward_begin(m->plan);
    begins(r, LS_FLIGHT_BACKWARD);
    int64_t end = last ? ls_params_length(t->params) : t->bucket_ends[run->part];
    if (m->status == LS_OK)
        m->status = ls_plan_backward_until(m->plan, r->queue, &m->in.all, run->gradient, end, &m->backward);
    if (last && m->status == LS_OK) slow_down(t, m->start + r->phases.exchange - m->waited);
    lap(r, &r->phases.backward, LS_SPAN_BACKWARD);
    if (last && m->batch) {
        ls__replica_failed(r, restore(r, r->train_loader, &m->batch));
        lap(r, &r->phases.load, LS_SPAN_RESTORE);
    }
    ls__replica_failed(r, m->status);
    if (last) begins(r, LS_FLIGHT_EXCHANGE);
}

// The step of the epoch whose batch is computed.
static int64_t batch_of(const ls_trainer *t) { return t->async ? t->at.batch : t->at.step; }

static ls_step_info step_info(const ls_trainer *t) {
    int64_t step = batch_of(t);
    ls_step_info info = {.step = t->at.all_steps + 1, .lr = ls__learning_rate(t, step)};
    ls__epoch_step(&t->train_shape, step, &info.samples, &info.micro_batches);
    ls__loss_scale_begin(t, &info);
    // Steps that are left, this one too: those before may have been another number for each epoch.
    int64_t left = (t->config.epochs - t->at.epoch + 1) * t->train_shape.steps - t->at.step;
    info.slow_keeps = ls_lookahead_keeps(&t->choices.lookahead, info.step, t->at.all_steps + left);
    if (t->config.momentum_correction && info.step > 1) info.lr_before = ls__learning_rate(t, step - 1);
    return info;
}

// Asynchronous: the first replica pushes the batch and pulls the next one's weights.
static ls_vote call(void *user, ls_vote voted, const ls_step_info *info) {
    ls_replica *r = user;
    ls_status status;
    ls_vote vote = ls_async_exchange(r->trainer->async, r->queue, info, voted, &status);
    if (status != LS_OK) r->trainer->exchange_failed = 1;
    ls__replica_failed(r, status);
    return vote;
}

// The kernels of a step, with what the engine does in between. Communication that fails is reported by its own status: other hosts may wait for this one
// for ever.
static void go_through(ls_replica *r, const ls_step_info *info, int64_t row) {
    ls_trainer *t = r->trainer;
    ls_step_times times = times_of(r);
    ls_step_client client = {.user = r, .vote = vote, .call = t->async ? call : NULL};
    ls_step_run run;
    ls_vote decision;
    r->running->samples = info->samples;
    if (!r->home) begins(r, LS_FLIGHT_EXCHANGE);
    ls_status status = ls_engine_begin(t->engine, r->index, r->queue, info, &client, &times);
    while (status == LS_OK && ls_engine_next(t->engine, r->index, &run)) {
        add_times(r, &times);
        r->running->row = t->table + (row + run.micro_batch) * t->measures.width;
        if (r->status == LS_OK && run.backward)
            backward(r, r->running, &run);
        else if (r->status == LS_OK)
            forward(r, r->running, &run);
        times = times_of(r);
    }
    if (status == LS_OK) status = ls_engine_end(t->engine, r->index, &decision);
    add_times(r, &times);
    if (status != LS_OK) t->exchange_failed = 1;
    ls__replica_failed(r, status);
    if (r->running->batch) ls__replica_failed(r, restore(r, r->train_loader, &r->running->batch));
    r->home = !ls_engine_is_early(t->engine);
    if (r->home) ls__not_finite_after(r, t->at.step + 1);
    if (r->index != 0) return;
    t->at.decision = status == LS_OK ? decision : LS_VOTE_FAILED;
    t->at.learning_rate = info->lr;
}

static void run_step(ls_replica *r) {
    ls_trainer *t = r->trainer;
    ls_step_info info = step_info(t);
    int64_t row = batch_of(t) * t->train_shape.micro_batches;
    double end_of_last = r->since;
    ls__timeline_step(r, t->at.step);
    if (!ls_engine_is_early(t->engine)) ls__timeline_exchange(r, t->at.step);
    lap_between(r);
    double start = r->since;
    if (t->async) ls__replica_failed(r, start_loader(r, t->at.batch, t->at.batch + 1));
    lap(r, &r->phases.serial, LS_SPAN_NONE);
    go_through(r, &info, row);
    begins(r, LS_FLIGHT_BETWEEN);
    if (r->index == 0) note_step_seconds(r, r->since - start);
    if (ls_trace_on(r->trace)) ls_trace_add(r->trace, LS_SPAN_STEP, (int)t->at.all_steps + 1, end_of_last, r->since);
}

// --- evaluation ------------------------------------------------------------------------------------------------------

static ls_status evaluate_micro_batch(ls_replica *r, int64_t first, double *row) {
    ls_trainer *t = r->trainer;
    ls_batch *batch;
    feeds in;
    LS_TRY(ls_loader_get(r->eval_loader, &batch, NULL));
    double start = ls_clock();
    ls_plan *plan =
        r->plan[batch->count == t->eval_shape.micro_batch ? LS_PLAN_KIND_EVALUATE : LS_PLAN_KIND_EVALUATE_REST];
    ls_status status = feed(r, batch, &in);
    if (status == LS_OK) status = ls_plan_forward(plan, r->queue, &in.all);
    if (status == LS_OK) status = take_measures(r, plan, batch->count, row);
    if (status == LS_OK) status = ls__rows_take(&t->rows, r->queue, plan, first, batch->count);
    if (status == LS_OK && t->views.count) status = ls__views_take(r, plan, batch, first);
    if (ls_trace_on(r->trace)) ls_trace_add(r->trace, LS_SPAN_EVALUATE, 0, start, ls_clock());
    ls_status restored = restore(r, r->eval_loader, &batch);
    return status == LS_OK ? restored : status;
}

static void run_evaluation(ls_replica *r) {
    ls_trainer *t = r->trainer;
    double start = ls_clock();
    begins(r, LS_FLIGHT_EVALUATE);
    ls_status status = plan_ranges(r, &t->eval_shape, 0, t->eval_shape.steps);
    if (status == LS_OK)
        status = ls_loader_start(r->eval_loader, (uint32_t)t->views.now, t->order, r->ranges, r->range_count);
    for (int64_t i = 0; i < r->range_count && status == LS_OK; i++) {
        ls__timeline_evaluate(r, i);
        int64_t first = r->ranges[i].first;
        status = evaluate_micro_batch(r, first, t->table + first / t->eval_shape.micro_batch * t->measures.width);
    }
    ls__replica_failed(r, status);
    ls__replica_failed(r, ls_synchronize(r->queue));
    ls_loader_cancel(r->eval_loader);
    begins(r, LS_FLIGHT_BETWEEN);
    ls_engine_host_barrier(t->engine);
    if (r->trace) ls_trace_add(r->trace, LS_SPAN_EVALUATION, 0, start, ls_clock());
}

// --- memory ----------------------------------------------------------------------------------------------------------

int64_t ls__arena_bytes(const ls_replica *r) {
    int64_t bytes = 0;
    for (int i = 0; i < LS_PLAN_KINDS; i++)
        if (r->plan[i] && ls_plan_arena_bytes(r->plan[i]) > bytes) bytes = ls_plan_arena_bytes(r->plan[i]);
    return bytes;
}

static ls_status make_inputs(ls_replica *r) {
    ls_trainer *t = r->trainer;
    if (t->device->ops->host_memory) return ls_buffer_wrap(t->device, r->batches, ls__batches_bytes(t), &r->inputs);
    int64_t bytes = 0;
    for (int i = 0; i < t->inputs.count; i++) bytes += input_bytes(t, i);
    return ls_buffer_create(t->device, bytes, &r->inputs);
}

// Memory is touched first by the thread that works on it, so that it lies near its cores; the gradients' was by the worker's main thread.
static void place_gradients(const ls_replica *r) {
    const ls_trainer *t = r->trainer;
    int64_t bytes;
    void *gradients = ls_engine_lane_gradients(t->engine, r->index, &bytes);
    if (t->spread.bound) ls__topology_place(t->topology, t->spread.first[r->index], gradients, bytes);
}

static void allocate(ls_replica *r) {
    ls_trainer *t = r->trainer;
    int64_t key = key_bytes(largest_micro_batch(t));
    ls_status status = ls_buffer_create(t->device, ls__arena_bytes(r), &r->arena);
    if (status == LS_OK) status = ls_memory_alloc(ls__batches_bytes(t), &r->batches);
    if (status == LS_OK) status = ls_queue_create(t->device, &r->queue);
    if (status == LS_OK) r->queue->threads = ls__vector_threads(t->device);
    if (status == LS_OK) status = ls_event_create(t->device, &r->fed);
    if (status == LS_OK) status = make_inputs(r);
    if (status == LS_OK) status = ls_buffer_create(t->device, key, &r->random);
    if (status == LS_OK) status = ls_calloc(1, key, &r->key);
    if (status == LS_OK && t->choices.loss_scale.used) status = ls_buffer_create(t->device, LS_ALIGN, &r->scale);
    if (status == LS_OK) status = ls_calloc(1, sizeof *r->running, &r->running);
    if (status == LS_OK) status = ls_calloc(t->bucket_count, 1, &r->ready);
    ls__replica_failed(r, status);
    place_gradients(r);
    for (int i = 0; i < LS_PLAN_KINDS; i++)
        if (r->plan[i]) ls_plan_bind(r->plan[i], ls_span_of(r->arena, 0), t->weights, t->copies);
}

// --- threads ---------------------------------------------------------------------------------------------------------

static void run_command(ls_replica *r, ls_command command) {
    switch (command) {
    case LS_COMMAND_ALLOCATE: allocate(r); break;
    case LS_COMMAND_BEGIN: begin_epoch(r); break;
    case LS_COMMAND_STEP: run_step(r); break;
    case LS_COMMAND_END: end_epoch(r); break;
    case LS_COMMAND_EVALUATE: run_evaluation(r); break;
    case LS_COMMAND_EXIT: break;
    }
}

static void device_begin(const ls_trainer *t, ls_thread_fn each, void *user) {
    if (t->device->ops->thread_begin) t->device->ops->thread_begin(t->device, each, user);
}

// A core of its own for each thread of a replica.
static void bind_thread(void *user, int index) {
    const ls_replica *r = user;
    ls_topology_bind(r->trainer->topology, r->trainer->spread.first[r->index] + index, 1);
}

static void thread_begin(ls_replica *r) { device_begin(r->trainer, r->trainer->spread.bound ? bind_thread : NULL, r); }

static void *thread_main(void *user) {
    ls_replica *r = user;
    ls_trainer *t = r->trainer;
    thread_begin(r);
    for (;;) {
        ls_barrier_wait(&t->team);
        ls_command command = t->command;
        run_command(r, command);
        ls_barrier_wait(&t->team);
        if (command == LS_COMMAND_EXIT) return NULL;
    }
}

void ls__replicas_run_alone(ls_trainer *t, ls_command command) {
    t->command = command;
    // The caller's thread may have worked for another trainer or a predictor meanwhile.
    if (command == LS_COMMAND_STEP)
        device_begin(t, NULL, NULL);
    else
        thread_begin(&t->replica[0]);
    ls_barrier_wait(&t->team);
    run_command(&t->replica[0], command);
    ls_barrier_wait(&t->team);
}

// The first failure of this worker's replicas.
static ls_status failed_here(const ls_trainer *t) {
    for (int i = 0; i < t->spread.replicas; i++) {
        if (t->replica[i].status == LS_OK) continue;
        ls__error_set(t->replica[i].failure);
        return t->replica[i].status;
    }
    return LS_OK;
}

ls_status ls__replicas_trained(ls_trainer *t) { return ls_comm_agree(t->comm, failed_here(t)); }

ls_status ls__replicas_status(ls_trainer *t) {
    ls_status mine = failed_here(t);
    if (mine == LS_OK && t->at.failed != LS_OK) {
        mine = t->at.failed;
        ls__error_set(t->at.failure);
    }
    return t->exchange_failed ? mine : ls_comm_agree(t->comm, mine);
}

ls_status ls__replicas_run(ls_trainer *t, ls_command command) {
    ls__replicas_run_alone(t, command);
    return ls__replicas_status(t);
}

ls_status ls__replicas_start(ls_trainer *t) {
    ls_barrier_init(&t->team, t->spread.replicas, ls_engine_config_of(t->engine)->spin);
    thread_begin(&t->replica[0]);
    sigset_t all, before;  // signals are the main thread's business
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ls_status status = LS_OK;
    for (int i = 1; i < t->spread.replicas && status == LS_OK; i++) {
        ls_replica *r = &t->replica[i];
        r->started = pthread_create(&r->thread, NULL, thread_main, r) == 0;
        if (!r->started)
            status = LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "could not start thread %d of %d replicas: ask for fewer", i,
                             t->spread.replicas);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

void ls__replicas_stop(ls_trainer *t) {
    int started = 1;
    for (int i = 1; t->replica && i < t->spread.replicas; i++) started += t->replica[i].started;
    if (started > 1) {
        t->team.participants = (uint32_t)started;  // fewer than planned when starting them failed halfway
        t->command = LS_COMMAND_EXIT;
        ls_barrier_wait(&t->team);
        ls_barrier_wait(&t->team);
        for (int i = 1; i < t->spread.replicas; i++)
            if (t->replica[i].started) pthread_join(t->replica[i].thread, NULL);
    }
    if (t->topology && t->spread.bound) ls_topology_unbind(t->topology);
}
