// The lanes at work: each replica of a worker is a thread that computes its run of micro-batches, then goes
// through the strategy's step together with all others.
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
    return shape->steps * ls_strategy_deal_maximum(t->strategy, shape->micro_batches);
}

void ls__replica_deal(const ls_replica *r, int64_t micro_batches, int64_t *begin, int64_t *end) {
    const ls_roles *team = &r->trainer->spread.team;
    ls_roles_deal(team, micro_batches, team->workers == 1 ? r->index : r->lane, begin, end);
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
            ls_roles_deal(&t->spread.roles, micro_batches, r->lane, &begin, &end);
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

// What the strategy has made this replica wait for is exchange that nothing has hidden.
static void add_times(ls_replica *r, const ls_step_times *times) {
    r->phases.exchange += ls_step_exchange(times);
    r->phases.update += ls_step_update(times);
    r->phases.wait += times->seconds[LS_STEP_WAIT];
    r->since = times->since;
}

// In forward of the lane's first micro-batch of a step: the next kernel reads these.
static void await_weights(void *user, int64_t offset, int64_t count) {
    ls_replica *r = user;
    ls_strategy *s = r->trainer->strategy;
    if (ls_strategy_is_home(s, r->index, offset, count)) return;
    lap(r, &r->phases.forward, LS_SPAN_FORWARD);
    begins(r, LS_FLIGHT_EXCHANGE);
    ls_step_times times = times_of(r);
    ls_strategy_await(s, r->index, offset, count, &times);
    add_times(r, &times);
    begins(r, LS_FLIGHT_FORWARD);
}

// All weights of the latest step are home from here on. Does nothing where they were already.
static void come_home(ls_replica *r) {
    ls_trainer *t = r->trainer;
    if (r->home || !ls_strategy_is_early(t->strategy)) return;
    ls_step_times times = times_of(r);
    ls_status status = ls_strategy_home(t->strategy, r->index, r->queue, &times);
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

// Votes before backward where the strategy can: until then a failure of this step is told in it, and weights that are no finite numbers end training
// after the step that follows theirs.
static void vote_early(ls_replica *r, const ls_step_info *info) {
    ls_trainer *t = r->trainer;
    if (!ls_strategy_is_early(t->strategy)) return;
    come_home(r);
    ls__timeline_exchange(r, t->at.step);
    ls_step_times times = times_of(r);
    ls_status status = ls_strategy_vote(t->strategy, r->index, r->queue, info, vote_of(r), &times);
    add_times(r, &times);
    if (status != LS_OK) t->exchange_failed = 1;
    ls__replica_failed(r, status);
}

// The main thread's, from ls_comm_home: between two steps.
static void bring_home(void *user) {
    ls_trainer *t = user;
    ls_replica *r = &t->replica[0];
    lap_between(r);
    come_home_after(r);
}

void ls__weights_away(ls_trainer *t) {
    if (ls_strategy_is_early(t->strategy)) t->comm->away = (ls_away){bring_home, t};
}

ls_status ls__weights_home(ls_trainer *t) {
    const ls_replica *r = &t->replica[0];
    ls_comm_home(t->comm);
    if (!t->strategy || !t->weights.buffer || ls_strategy_is_home(t->strategy, 0, 0, ls_params_length(t->params)))
        return LS_OK;
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
    ls__replica_failed(r, ls_strategy_forget_not_finite(t->strategy, r->index, r->queue));
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

// In backward of the lane's last micro-batch of a step: the gradients [0, offset + count) are complete, or not trained. What is left is the
// step's to hand over.
static void hand_over(void *user, int64_t offset, int64_t count) {
    ls_replica *r = user;
    ls_trainer *t = r->trainer;
    if (r->ready == t->bucket_count || t->bucket_ends[r->ready] > offset + count) return;
    lap(r, &r->phases.backward, LS_SPAN_BACKWARD);
    ls_step_times times = times_of(r);
    while (r->ready < t->bucket_count && t->bucket_ends[r->ready] <= offset + count)
        ls__replica_failed(
            r, ls_strategy_bucket_ready(t->strategy, r->index, r->queue, r->ready_info, r->ready++, &times));
    r->phases.exchange += ls_step_exchange(&times);
    r->since = times.since;
}

// --- a micro-batch ---------------------------------------------------------------------------------------------------

// A worker that is to be slow sleeps as much longer as what it has computed since `start`, not waited for, took.
static void slow_down(const ls_trainer *t, double start) {
    double seconds = (ls_clock() - start) * (t->choices.slow_factor - 1);
    if (t->comm->rank != t->choices.slow_worker) return;
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

static ls_plan_kind train_kind(const ls_trainer *t, const ls_step_info *info, int64_t samples) {
    if (samples == t->train_shape.micro_batch) return LS_PLAN_KIND_TRAIN;
    return info->samples == t->train_shape.batch ? LS_PLAN_KIND_TRAIN_REST : LS_PLAN_KIND_TRAIN_TAIL;
}

// Forward and backward of one micro-batch, the lane's last of the step or not, into the gradient memory the strategy gives.
static ls_status train_micro_batch(ls_replica *r, const ls_step_info *info, int64_t v, int last, double *row) {
    ls_trainer *t = r->trainer;
    ls_batch *batch;
    feeds in;
    begins(r, LS_FLIGHT_LOAD);
    LS_TRY(ls_loader_get(r->train_loader, &batch, NULL));
    lap(r, &r->phases.load, LS_SPAN_LOAD);
    double start = r->since, waited = r->phases.exchange;
    begins(r, LS_FLIGHT_FORWARD);
    ls_plan *plan = r->plan[train_kind(t, info, batch->count)];
    ls_status status = feed(r, batch, &in);
    if (status == LS_OK) status = ls_plan_forward(plan, r->queue, &in.all, r->home ? NULL : await_weights, r);
    if (status == LS_OK) status = take_measures(r, plan, batch->count, row);
    if (!r->home) {  // what forward does not read, and backward is going to write
        lap(r, &r->phases.forward, LS_SPAN_FORWARD);
        begins(r, LS_FLIGHT_EXCHANGE);
        come_home(r);
    }
    if (status == LS_OK) ls__not_finite_look(r, plan, &in.all, v, batch->count, row);
    lap(r, &r->phases.forward, LS_SPAN_FORWARD);
    ls__replica_failed(r, status);
    if (last) vote_early(r, info);
    begins(r, LS_FLIGHT_BACKWARD);
    ls_span gradient = ls_strategy_gradient_begin(t->strategy, r->index, info, v);
    r->ready_info = info;
    r->ready = 0;
    ls_bucket_ready_fn ready = last && t->bucket_count > 1 ? hand_over : NULL;
    if (status == LS_OK) status = ls_plan_backward(plan, r->queue, &in.all, gradient, ready, r);
    slow_down(t, start + r->phases.exchange - waited);
    lap(r, &r->phases.backward, LS_SPAN_BACKWARD);
    ls_status added = ls_strategy_gradient_end(t->strategy, r->index, r->queue, info);
    lap(r, &r->phases.exchange, LS_SPAN_ADD);
    ls_status restored = restore(r, r->train_loader, &batch);
    lap(r, &r->phases.load, LS_SPAN_RESTORE);
    return status != LS_OK ? status : added != LS_OK ? added : restored;
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

// The strategy's part of a step, which all lanes go through together; the decision is the same on all of them. Communication that
// fails is told by its own status: other hosts may wait for this one for ever.
static void exchange(ls_replica *r, const ls_step_info *info) {
    ls_trainer *t = r->trainer;
    ls_vote decision;
    ls__replica_failed(r, ls_synchronize(r->queue));  // what the device could not do is known before the vote
    begins(r, LS_FLIGHT_EXCHANGE);
    vote_early(r, info);  // of a lane that computed nothing, or failed before its last micro-batch
    ls_step_times times = times_of(r);
    ls_status status = ls_strategy_step(t->strategy, r->index, r->queue, info, vote_of(r), &decision, &times);
    add_times(r, &times);
    if (status != LS_OK) t->exchange_failed = 1;
    ls__replica_failed(r, status);
    r->home = !ls_strategy_is_early(t->strategy);
    if (r->home) ls__not_finite_after(r, t->at.step + 1);
    if (r->index != 0) return;
    t->at.decision = decision;
    t->at.learning_rate = info->lr;
}

static void run_step(ls_replica *r) {
    ls_trainer *t = r->trainer;
    ls_step_info info = step_info(t);
    int64_t begin, end, row = batch_of(t) * t->train_shape.micro_batches;
    double end_of_last = r->since;
    ls__timeline_step(r, t->at.step);
    if (!ls_strategy_is_early(t->strategy)) ls__timeline_exchange(r, t->at.step);
    lap_between(r);
    double start = r->since;
    ls_strategy_begin(t->strategy, r->index);
    ls__replica_deal(r, info.micro_batches, &begin, &end);
    if (t->async) ls__replica_failed(r, start_loader(r, t->at.batch, t->at.batch + 1));
    lap(r, &r->phases.serial, LS_SPAN_NONE);
    for (int64_t v = begin; v < end && r->status == LS_OK; v++)
        ls__replica_failed(r, train_micro_batch(r, &info, v, v == end - 1, t->table + (row + v) * t->measures.width));
    exchange(r, &info);
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
    if (status == LS_OK) status = ls_plan_forward(plan, r->queue, &in.all, NULL, NULL);
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
    ls_strategy_host_barrier(t->strategy);
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
    void *gradients = ls_strategy_lane_gradients(t->strategy, r->index, &bytes);
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
    ls_barrier_init(&t->team, t->spread.replicas, ls_strategy_config_of(t->strategy)->spin);
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
