// The lanes at work: each replica of a worker is a thread that computes its run of micro-batches, then goes
// through the strategy's step together with all others.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "train/trainer_impl.h"

ls_epoch_shape ls__epoch_shape(int64_t count, int64_t batch, int64_t micro_batch) {
    int64_t steps = (count + batch - 1) / batch, last = count - (steps - 1) * batch;
    return (ls_epoch_shape){.count = count,
                            .batch = batch,
                            .micro_batch = micro_batch,
                            .steps = steps,
                            .micro_batches = (batch + micro_batch - 1) / micro_batch,
                            .tail = last % micro_batch};
}

void ls__epoch_step(const ls_epoch_shape *s, int64_t step, int64_t *samples, int64_t *micro_batches) {
    int64_t left = s->count - step * s->batch;
    *samples = left < s->batch ? left : s->batch;
    *micro_batches = (*samples + s->micro_batch - 1) / s->micro_batch;
}

// --- failures --------------------------------------------------------------------------------------------------------

// Keeps a lane's first failure. It goes through the step all the same, so that nobody waits for it, and votes to end training.
static void note_failure(ls_replica *r, ls_status status) {
    if (status == LS_OK || r->status != LS_OK) return;
    r->status = status;
    snprintf(r->failure, sizeof r->failure, "%s", ls_error_message());
}

// --- an epoch --------------------------------------------------------------------------------------------------------

int64_t ls__ranges_count(const ls_trainer *t, const ls_epoch_shape *shape) {
    return shape->steps * ls_strategy_deal_maximum(t->strategy, shape->micro_batches);
}

// Which positions of the epoch's order this lane will load, in the order it needs them.
static ls_status plan_ranges(ls_replica *r, const ls_epoch_shape *shape) {
    ls_trainer *t = r->trainer;
    free(r->ranges);
    r->range_count = 0;
    LS_TRY(ls_calloc(ls__ranges_count(t, shape), sizeof *r->ranges, &r->ranges));
    for (int64_t step = 0; step < shape->steps; step++) {
        int64_t samples, micro_batches, begin, end;
        ls__epoch_step(shape, step, &samples, &micro_batches);
        ls_strategy_deal(t->strategy, micro_batches, r->lane, &begin, &end);
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

// What a run is fed with: the batch, where the loader has put it, and the key of everything random.
typedef struct feeds {
    ls_span inputs[2];
    ls_feeds all;
} feeds;

static ls_status feed(ls_replica *r, const ls_batch *batch, feeds *out) {
    const ls_trainer *t = r->trainer;
    const char *base = r->feeds->memory;
    out->inputs[0] = ls_span_of(r->feeds, (const char *)batch->feed[LS_FEED_IMAGE] - base);
    out->inputs[1] = ls_span_of(r->feeds, (const char *)batch->feed[LS_FEED_LABEL] - base);
    out->all = (ls_feeds){out->inputs, {r->random, 0}};
    r->key->seed = t->config.seed;
    r->key->epoch = (uint64_t)t->epoch;
    memcpy(r->key->samples, batch->samples, (size_t)batch->count * sizeof *batch->samples);
    return ls_write(r->queue, out->all.random, r->key, key_bytes(batch->count));
}

// The measures of the latest forward as a row of the table.
static ls_status take_measures(ls_replica *r, const ls_plan *plan, int64_t samples, double *row) {
    row[0] = (double)samples;
    return ls_read(r->queue, row + 1, ls_plan_measures(plan), (r->trainer->measures.width - 1) * (int64_t)sizeof *row);
}

// The time since the last lap was spent in `phase`, and is a span of the timeline. Laps follow each other without a gap, so that
// phases add up to the epoch.
static void lap(ls_replica *r, double *phase, ls_timeline_span span) {
    double now = ls_clock();
    *phase += now - r->since;
    if (span != LS_SPAN_NONE && ls_trace_on(r->trace)) ls_trace_add(r->trace, (int)span, 0, r->since, now);
    r->since = now;
}

static ls_span gradient_span(const ls_replica *r, float *gradient, ls_buffer *buffer) {
    *buffer = (ls_buffer){.device = r->trainer->device, .memory = gradient, .borrowed = 1};
    return (ls_span){buffer, 0};
}

// Forward and backward of one micro-batch into the gradient memory the strategy gives.
static ls_status train_micro_batch(ls_replica *r, const ls_step_info *info, int64_t v, double *row) {
    ls_trainer *t = r->trainer;
    ls_batch *batch;
    feeds in;
    LS_TRY(ls_loader_get(r->train_loader, &batch, NULL));
    lap(r, &r->phases.load, LS_SPAN_LOAD);
    ls_plan *plan = batch->count == t->train_shape.micro_batch ? r->plans.train : r->plans.train_tail;
    ls_status status = feed(r, batch, &in);
    if (status == LS_OK) status = ls_plan_forward(plan, r->queue, &in.all);
    if (status == LS_OK) status = take_measures(r, plan, batch->count, row);
    lap(r, &r->phases.forward, LS_SPAN_FORWARD);
    float *gradient = ls_strategy_gradient_begin(t->strategy, r->index, info, v);
    ls_buffer wrapped;
    if (status == LS_OK)
        status = ls_plan_backward(plan, r->queue, &in.all, gradient_span(r, gradient, &wrapped), NULL, NULL);
    lap(r, &r->phases.backward, LS_SPAN_BACKWARD);
    ls_strategy_gradient_end(t->strategy, r->index, info);
    lap(r, &r->phases.exchange, LS_SPAN_ADD);
    ls_loader_restore(r->train_loader, &batch);  // wakes the loader, which may take the core
    lap(r, &r->phases.load, LS_SPAN_RESTORE);
    return status;
}

static void note_step_seconds(ls_replica *r, double seconds) {
    if (r->step_count == r->step_capacity) {
        int64_t larger = r->step_capacity ? r->step_capacity * 2 : 1024;
        double *grown = realloc(r->step_seconds, (size_t)larger * sizeof *grown);
        if (!grown) return;  // a statistic, not worth a failure
        r->step_seconds = grown;
        r->step_capacity = larger;
    }
    r->step_seconds[r->step_count++] = seconds;
}

// Tells the user where training is, from what this host has seen of the epoch. Returns what an ls_progress_fn does.
static int report_progress(ls_trainer *t, const ls_step_info *info, int64_t step, double epoch_start,
                           double *seen, int64_t *summed) {
    int64_t up_to = step * t->train_shape.micro_batches + info->micro_batches;
    double batch[LS_MAX_MEASURES] = {0};
    t->learning_rate = info->lr;
    for (; *summed < up_to; ++*summed) ls__measures_add(&t->measures, batch, t->metrics + *summed * t->measures.width);
    ls__measures_add(&t->measures, seen, batch);
    if (!t->progress) return LS_PROGRESS_GO_ON;
    double seconds = ls_clock() - epoch_start;
    int64_t done = (step + 1) * t->train_shape.batch;
    if (done > t->train_shape.count) done = t->train_shape.count;
    ls_progress p = {.epoch = t->epoch,
                     .epochs = t->config.epochs,
                     .step = step + 1,
                     .steps = t->train_shape.steps,
                     .seconds = seconds,
                     .loss = ls__measures_loss(&t->measures, seen),
                     .accuracy = ls__measures_accuracy(&t->measures, seen),
                     .images_per_second = (double)done / seconds,
                     .batch_loss = ls__measures_loss(&t->measures, batch),
                     .batch_accuracy = ls__measures_accuracy(&t->measures, batch),
                     .learning_rate = info->lr,
                     .rank = t->comm->rank};
    return t->progress(t->progress_user, &p);
}

// What `answer` has progress given after a step, on replica 0: the others hear of it now if they wait for it, else by the end of the
// next step, which they may be in already and which is then still done by all.
static void hear(ls_replica *r, const ls_step_info *info, int64_t step, int answer) {
    ls_trainer *t = r->trainer;
    int held = info->step == atomic_load(&t->held_step), stops = answer && answer != LS_PROGRESS_WAIT;
    if (stops && !atomic_load(&t->stop_step)) atomic_store(&t->stop_step, step + (held ? 1 : 2));
    if (held) {
        ls_barrier_wait(&t->team);
        lap(r, &r->phases.wait, t->timeline ? (ls_timeline_span)(t->timeline->strategy_first + LS_STEP_WAIT) : LS_SPAN_NONE);
    }
    // Not earlier: until they are at the barrier the others look at it.
    if (answer == LS_PROGRESS_WAIT) atomic_store(&t->held_step, info->step + 1);
}

// The rate of step `step` of the running epoch; step -1 is the last of the epoch before.
static double learning_rate(const ls_trainer *t, int64_t step) {
    const ls_train_config *c = &t->config;
    double scale = strcmp(c->lr_scaling, "linear") == 0 ? (double)c->batch_size / (double)c->lr_base_batch : 1;
    return ls_learning_rate(t->schedule, &t->schedule_params, t->optimizer_params.lr, scale, c->warmup_epochs,
                            strcmp(c->warmup, "constant") == 0,
                            t->epoch - 1 + (double)step / (double)t->train_shape.steps);
}

static ls_step_info step_info(const ls_trainer *t, int64_t step) {
    ls_step_info info = {.step = t->step + step + 1, .lr = learning_rate(t, step)};
    ls__epoch_step(&t->train_shape, step, &info.samples, &info.micro_batches);
    if (t->config.momentum_correction && info.step > 1) info.lr_before = learning_rate(t, step - 1);
    return info;
}

// The strategy's part of a step, which all lanes go through together; *decision is the same on all of them. Communication that fails
// is told by its own status: other hosts may wait for this one for ever.
static void exchange(ls_replica *r, const ls_step_info *info, ls_vote *decision) {
    ls_trainer *t = r->trainer;
    ls_step_times times = {.since = r->since, .trace = r->trace};
    if (r->trace) times.trace_first = t->timeline->strategy_first;
    ls_vote vote = r->status == LS_OK ? LS_VOTE_GO_ON : LS_VOTE_FAILED;
    ls_status status = ls_strategy_step(t->strategy, r->index, info, vote, decision, &times);
    r->phases.exchange += ls_step_exchange(&times);
    r->phases.update += ls_step_update(&times);
    r->phases.wait += times.seconds[LS_STEP_WAIT];
    r->since = times.since;
    if (status != LS_OK) t->exchange_failed = 1;
    note_failure(r, status);
}

static void run_epoch(ls_replica *r) {
    ls_trainer *t = r->trainer;
    const ls_epoch_shape *shape = &t->train_shape;
    r->phases = (ls_phase_seconds){0};
    r->since = t->epoch_start;
    ls_status status = plan_ranges(r, shape);
    if (status == LS_OK)
        status = ls_loader_start(r->train_loader, (uint32_t)t->epoch, t->order, r->ranges, r->range_count);
    note_failure(r, status);
    lap(r, &r->phases.serial, LS_SPAN_NONE);
    if (r->trace) ls_trace_add(r->trace, LS_SPAN_SET_UP, 0, t->epoch_start, r->since);
    double epoch_start = r->since;
    double seen[LS_MAX_MEASURES] = {0};
    int64_t summed = 0;
    for (int64_t step = 0; step < shape->steps; step++) {
        double step_start = r->since;
        ls__timeline_step(r, step);
        ls_step_info info = step_info(t, step);
        int64_t begin, end;
        ls_strategy_deal(t->strategy, info.micro_batches, r->lane, &begin, &end);
        lap(r, &r->phases.serial, LS_SPAN_NONE);
        for (int64_t v = begin; v < end && r->status == LS_OK; v++)
            note_failure(
                r, train_micro_batch(r, &info, v, t->metrics + (step * shape->micro_batches + v) * t->measures.width));
        ls_vote decision;
        exchange(r, &info, &decision);
        int answer = LS_PROGRESS_GO_ON;
        if (r->index == 0) {
            note_step_seconds(r, r->since - step_start);
            answer = report_progress(t, &info, step, epoch_start, seen, &summed);
            lap(r, &r->phases.serial, LS_SPAN_PROGRESS);
        }
        hear(r, &info, step, answer);
        if (ls_trace_on(r->trace)) ls_trace_add(r->trace, LS_SPAN_STEP, (int)info.step, step_start, r->since);
        int64_t stop = atomic_load(&t->stop_step);
        if (decision != LS_VOTE_GO_ON || (stop && stop <= step + 1)) break;
    }
    ls_loader_cancel(r->train_loader);  // the other loader has the memory next
    lap(r, &r->phases.serial, LS_SPAN_NONE);
    if (r->trace) ls_trace_add(r->trace, LS_SPAN_EPOCH, t->epoch, t->epoch_start, r->since);
}

// --- evaluation ------------------------------------------------------------------------------------------------------

static ls_status evaluate_micro_batch(ls_replica *r, double *row) {
    ls_trainer *t = r->trainer;
    ls_batch *batch;
    feeds in;
    LS_TRY(ls_loader_get(r->eval_loader, &batch, NULL));
    double start = ls_clock();
    ls_plan *plan = batch->count == t->eval_shape.micro_batch ? r->plans.eval : r->plans.eval_tail;
    ls_status status = feed(r, batch, &in);
    if (status == LS_OK) status = ls_plan_forward(plan, r->queue, &in.all);
    if (status == LS_OK) status = take_measures(r, plan, batch->count, row);
    if (ls_trace_on(r->trace)) ls_trace_add(r->trace, LS_SPAN_EVALUATE, 0, start, ls_clock());
    ls_loader_restore(r->eval_loader, &batch);
    return status;
}

static void run_evaluation(ls_replica *r) {
    ls_trainer *t = r->trainer;
    double start = ls_clock();
    ls_status status = plan_ranges(r, &t->eval_shape);
    if (status == LS_OK) status = ls_loader_start(r->eval_loader, 0, t->order, r->ranges, r->range_count);
    for (int64_t i = 0; i < r->range_count && status == LS_OK; i++) {
        ls__timeline_evaluate(r, i);
        status = evaluate_micro_batch(r, t->metrics + r->ranges[i].first / t->eval_shape.micro_batch * t->measures.width);
    }
    note_failure(r, status);
    ls_loader_cancel(r->eval_loader);
    ls_strategy_host_barrier(t->strategy);
    if (r->trace) ls_trace_add(r->trace, LS_SPAN_EVALUATION, 0, start, ls_clock());
}

// --- threads ---------------------------------------------------------------------------------------------------------

int64_t ls__arena_bytes(const ls_replica *r) {
    const ls_plan *plans[] = {r->plans.train, r->plans.train_tail, r->plans.eval, r->plans.eval_tail};
    int64_t bytes = 0;
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++)
        if (plans[i] && ls_plan_arena_bytes(plans[i]) > bytes) bytes = ls_plan_arena_bytes(plans[i]);
    return bytes;
}

// Memory is touched first by the thread that works on it, so that it lies near its cores.
static void allocate(ls_replica *r) {
    ls_trainer *t = r->trainer;
    ls_plan *plans[] = {r->plans.train, r->plans.train_tail, r->plans.eval, r->plans.eval_tail};
    int64_t samples = t->train_shape.micro_batch > t->eval_shape.micro_batch ? t->train_shape.micro_batch
                                                                             : t->eval_shape.micro_batch;
    ls_status status = ls_buffer_create(t->device, ls__arena_bytes(r), &r->arena);
    if (status == LS_OK) status = ls_queue_create(t->device, &r->queue);
    if (status == LS_OK) status = ls_buffer_create(t->device, key_bytes(samples), &r->random);
    if (status == LS_OK) status = ls_calloc(1, key_bytes(samples), &r->key);
    note_failure(r, status);
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++)
        if (plans[i]) ls_plan_bind(plans[i], (ls_span){r->arena, 0}, (ls_span){t->weights, 0}, (ls_span){t->copies, 0});
}

static void run_command(ls_replica *r, ls_command command) {
    switch (command) {
    case LS_COMMAND_ALLOCATE: allocate(r); break;
    case LS_COMMAND_EPOCH: run_epoch(r); break;
    case LS_COMMAND_EVALUATE: run_evaluation(r); break;
    case LS_COMMAND_EXIT: break;
    }
}

static void thread_begin(ls_replica *r) {
    ls_trainer *t = r->trainer;
    int threads = t->device->options.threads;
    if (t->bound) ls_topology_bind(t->topology, r->index * threads, threads);
    if (t->device->ops->thread_begin) t->device->ops->thread_begin(t->device);
}

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

ls_status ls__replicas_run(ls_trainer *t, ls_command command) {
    t->command = command;
    ls_barrier_wait(&t->team);
    run_command(&t->replica[0], command);
    ls_barrier_wait(&t->team);
    ls_status mine = LS_OK;
    for (int i = 0; i < t->replicas && mine == LS_OK; i++) {
        mine = t->replica[i].status;
        if (mine != LS_OK) ls__error_set(t->replica[i].failure);
    }
    return t->exchange_failed ? mine : ls_comm_agree(t->comm, mine);
}

ls_status ls__replicas_start(ls_trainer *t) {
    ls_barrier_init(&t->team, t->replicas, 0);
    thread_begin(&t->replica[0]);
    sigset_t all, before;  // signals are the main thread's business
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ls_status status = LS_OK;
    for (int i = 1; i < t->replicas && status == LS_OK; i++) {
        ls_replica *r = &t->replica[i];
        r->started = pthread_create(&r->thread, NULL, thread_main, r) == 0;
        if (!r->started)
            status = LS_FAIL(LS_STATUS_OUT_OF_MEMORY,
                             "could not start thread %d of %d replicas: ask for fewer with --replicas", i, t->replicas);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

void ls__replicas_stop(ls_trainer *t) {
    int started = 1;
    for (int i = 1; t->replica && i < t->replicas; i++) started += t->replica[i].started;
    if (started > 1) {
        t->team.participants = (uint32_t)started;  // fewer than planned when starting them failed halfway
        t->command = LS_COMMAND_EXIT;
        ls_barrier_wait(&t->team);
        ls_barrier_wait(&t->team);
        for (int i = 1; i < t->replicas; i++)
            if (t->replica[i].started) pthread_join(t->replica[i].thread, NULL);
    }
    if (t->topology && t->bound) ls_topology_unbind(t->topology);
}
