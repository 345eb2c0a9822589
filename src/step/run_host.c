// The executor for devices that a host thread feeds: lanes go through their queues, each in its own
// thread; where there is no progress thread the first lane communicates as well.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/flight.h"
#include "base/watch.h"
#include "step/progress.h"

#define WATCH_SECONDS 0.2     // of waiting before the watch is told whom for
#define POLL_SECONDS  200e-6  // between looks at what this lane has sent

const char *const ls_step_phase_words[LS_STEP_PHASES] = {
#define X(name, words) words,
    LS_STEP_PHASE_LIST(X)
#undef X
};

// --- tasks that wait for nothing -------------------------------------------------------------------------------------

static void raise_to(_Atomic int *vote, int to) {
    int now = atomic_load(vote);
    while (now < to && !atomic_compare_exchange_weak(vote, &now, to)) continue;
}

static ls_status clip(ls_worker *w, const ls_task *t) {
    ls_engine *e = w->engine;
    ls_lane *lane = e->lane[t->lane];
    int finite;
    lane->factor = ls__norms_clip(e, &finite);
    lane->skips = e->config.skip_not_finite && !w->info->takes_all && !finite;
    lane->skipped += lane->skips;
    return LS_OK;
}

static ls_status refresh(ls_worker *w, const ls_task *t) {
    const ls_engine_config *c = &w->engine->config;
    ls_span weights = ls_engine_weights(w->engine), copies = ls_engine_copies(w->engine);
    if (!c->refresh) return LS_OK;
    if (t->bucket < 0) return c->refresh(c->refresh_user, w->queue, weights, copies, t->part, t->parts);
    ls_homecoming home = {t->begin, t->end, t->value, t->high};
    return c->refresh_some(c->refresh_user, w->queue, weights, copies, &home, t->part, t->parts);
}

static ls_status signal(ls_worker *w, const ls_task *t) {
    const ls_program *p = w->program;
    ls_status status = w->engine->far ? ls_synchronize(w->queue) : LS_OK;  // others look at what was done before
    ls_signal_give(ls__signal_of(w->engine, p, t->signal), (uint32_t)p->signals[t->signal].per_step);
    if (w->lane >= 0) ls__progress_pulse(w->engine);
    return status;
}

ls_status ls__do_task(ls_worker *w, const ls_task *t) {
    switch ((ls_task_kind)t->kind) {
    case LS_TASK_SELECT: return ls__topk_select(w, t);
    case LS_TASK_ADD: return ls__add(w, t);
    case LS_TASK_ENCODE: return ls__topk_encode(w, t);
    case LS_TASK_MEASURE: return ls__measure(w, t);
    case LS_TASK_CLIP: return clip(w, t);
    case LS_TASK_DIRECT: return w->engine->lane[t->lane]->skips ? LS_OK : ls__direct(w, t);
    case LS_TASK_NORMS: ls__norms_of_layers(w->engine, w->engine->lane[t->lane]->norms); return LS_OK;
    case LS_TASK_UPDATE: return ls__update(w, t);
    case LS_TASK_COPY: return ls__copy(w, t);
    case LS_TASK_REFRESH: return refresh(w, t);
    case LS_TASK_SIGNAL: return signal(w, t);
    case LS_TASK_MERGE:
        raise_to(&w->engine->common->ballots[w->number % 3].all,
                 *(int32_t *)(void *)ls__place_at(w->engine, ls__input(w, t, 0), 0).host);
        return LS_OK;
    default: return LS_OK;
    }
}

ls_signal *ls__signal_of(const ls_engine *e, const ls_program *p, int signal) {
    return p->signals[signal].host ? &e->host_signals[signal] : &e->own_signals[signal - p->host_signals];
}

ls_step_phase ls__phase_of(const ls_engine *e, const ls_program *p, const ls_task *t) {
    switch ((ls_task_kind)t->kind) {
    case LS_TASK_WAIT:
        if (!p->signals[t->signal].messages) return LS_STEP_WAIT;
        return p->signals[t->signal].messages == 1 ? LS_STEP_SEND : LS_STEP_GATHER;
    case LS_TASK_SEND:
    case LS_TASK_RECEIVE: return t->tag % LS_TAGS == LS_TAG_BACK ? LS_STEP_GATHER : LS_STEP_SEND;
    case LS_TASK_UPDATE:
    case LS_TASK_MEASURE:
    case LS_TASK_DIRECT:
    case LS_TASK_CLIP:
    case LS_TASK_NORMS: return LS_STEP_UPDATE;
    case LS_TASK_REFRESH: return LS_STEP_REFRESH;
    case LS_TASK_CALL: return LS_STEP_GATHER;
    default: return LS_STEP_SUM;
    }
}

// --- a lane ----------------------------------------------------------------------------------------------------------

static void fail(ls_lane_step *x, ls_status status) {
    ls_common *c = x->w.engine->common;
    if (status == LS_OK) return;
    atomic_store(&c->failed[x->w.number % 2], (int)(x->w.number & 0x7fffffff));
    if (x->status != LS_OK) return;
    x->status = status;
    snprintf(x->failure, sizeof x->failure, "%s", ls_error_message());
}

// What a task of messages is about: a bucket, or what comes before one.
static const char *words_of(const ls_task *t, int *bucket) {
    int flow = t->tag % LS_TAGS;
    int message = t->kind == LS_TASK_SEND || t->kind == LS_TASK_RECEIVE;
    if (*bucket < 0) *bucket = 0;
    if (!message) return "";
    return flow == LS_TAG_VOTES     ? "votes of other hosts before "
           : flow >= LS_TAG_SQUARES ? "norms of all buckets before "
                                    : "";
}

// What lane 0 is about to wait for, should the watch be asked.
static void say_about(ls_lane_step *x, const ls_task *t) {
    ls_engine *e = x->w.engine;
    int bucket = t->bucket, count = e->emit.bucket_count;
    if (x->w.lane != 0) return;
    const char *before = words_of(t, &bucket);
    ls_watch_within(before, bucket, count);
    ls_flight_bucket(before[0] ? count : bucket, count);
    if (e->emit.mesh->hosts == 1 || e->progress) return;  // it sends nobody anything
    char *about = e->about[e->about_turn ^= 1];           // the watch may read the other one
    snprintf(about, sizeof e->about[0], "%sbucket %d of %d", before, bucket, count);
    e->config.comm->about = about;
}

// The failure of a message: others may wait for it for ever.
static void fail_message(ls_lane_step *x, const ls_task *t, ls_status status) {
    int bucket = t->bucket;
    if (status == LS_OK) return;
    const char *before = words_of(t, &bucket);
    ls__fail_context(status, "%sbucket %d of %d: ", before, bucket, x->w.engine->emit.bucket_count);
    fail(x, status);
    if (status == LS_STATUS_LIBRARY) ls__break(x->w.engine, ls_error_message());
}

// The worker whose message is waited for, by whom it is exchanged, and in what bucket; -1: none.
static int waited_peer(ls_engine *e, int *bucket) {
    ls_progress *p = e->progress;
    if (!p) return -1;
    pthread_mutex_lock(&p->lock);
    int peer = p->peer;
    if (peer >= 0) *bucket = p->bucket;
    pthread_mutex_unlock(&p->lock);
    return peer;
}

// The main thread tells the watch what it waits for: other replicas, or, once that is known,
// another worker. Each is said once, since a wait that is told of begins anew. *told: 0 nothing
// yet, 1 replicas, 2 a worker.
static void tell_watch(ls_engine *e, int bucket, int *told) {
    char text[64];
    int peer = *told < 2 ? waited_peer(e, &bucket) : -1;
    if (peer >= 0) {
        snprintf(text, sizeof text, "%sbucket %d of %d", bucket < 0 ? "votes of other hosts before " : "",
                 bucket < 0 ? 0 : bucket, e->emit.bucket_count);
        ls_watch_begin(text, peer);
        *told = 2;
    } else if (*told == 0) {
        ls_watch_begin_replicas();
        *told = 1;
    }
}

static void wait_for(ls_lane_step *x, const ls_task *t) {
    ls_engine *e = x->w.engine;
    ls_signal *s = ls__signal_of(e, x->w.program, t->signal);
    uint32_t target = ls__target_of(x->w.program, t, x->w.number);
    if (x->w.number <= (uint64_t)t->lag || ls_signal_is_at(s, target)) return;
    say_about(x, t);
    if (ls_signal_wait(s, target, e->config.spin, 0)) return;
    int told = 0, bucket = t->bucket < 0 ? 0 : t->bucket;
    if (x->w.lane == 0 && !e->progress) tell_watch(e, bucket, &told);
    ls__progress_waits(e, 1);
    while (!ls__is_broken(e) && !ls_signal_wait(s, target, 1, x->flying ? POLL_SECONDS : WATCH_SECONDS)) {
        int pending;
        if (x->w.lane != 0) continue;
        if (x->flying)
            fail_message(x, t, ls_comm_test_all(e->config.comm, x->channel.requests, e->request_count, &pending));
        else
            tell_watch(e, bucket, &told);
    }
    ls__progress_waits(e, -1);
    if (x->w.lane == 0) ls_watch_end();
}

static void vote(ls_lane_step *x) {
    ls_engine *e = x->w.engine;
    ls_vote mine = x->client.vote ? x->client.vote(x->client.user, x->w.lane) : LS_VOTE_GO_ON;
    if (x->status != LS_OK) mine = LS_VOTE_FAILED;
    raise_to(&e->common->ballots[x->w.number % 3].host, mine);
}

static void look(ls_lane_step *x) {
    ls_common *c = x->w.engine->common;
    const ls_ballot *ballot = &c->ballots[x->w.number % 3];
    int host = atomic_load(&ballot->host), all = atomic_load(&ballot->all);
    x->decision = (ls_vote)(host > all ? host : all);
    if (atomic_load(&c->failed[x->w.number % 2]) == (int)(x->w.number & 0x7fffffff) || ls__is_broken(x->w.engine))
        x->decision = LS_VOTE_FAILED;
    if (x->w.lane != 0 || x->w.engine->config.comm->local_rank != 0) return;
    // All who vote in this step have looked at the votes of the step before; they are used again in
    // the step after the next.
    ls_ballot *before = &c->ballots[(x->w.number + 2) % 3];
    atomic_store(&before->host, 0);
    atomic_store(&before->all, 0);
}

static void call(ls_lane_step *x) {
    ls_ballot *ballot = &x->w.engine->common->ballots[x->w.number % 3];
    ls_vote voted = (ls_vote)atomic_load(&ballot->host);
    raise_to(&ballot->all, x->client.call(x->client.user, voted, x->w.info));
}

// Lane 0 waits for its messages by the transport, which sees to it that others hear of the wait,
// and that it ends where nobody answers.
static void communicate(ls_lane_step *x, const ls_task_queue *tasks, int i) {
    ls_engine *e = x->w.engine;
    const ls_task *t = &tasks->tasks[i];
    if (ls__is_broken(e)) return;
    say_about(x, t);
    ls_status status = ls__post_ahead(&x->w, tasks, &x->channel, i);
    if (status == LS_OK && t->kind == LS_TASK_SEND) status = ls__send(&x->w, t, &x->channel.requests[i]);
    if (status == LS_OK && t->kind == LS_TASK_RECEIVE)
        status = ls_comm_wait_all(e->config.comm, &x->channel.requests[i], 1);
    x->flying |= t->kind == LS_TASK_SEND;
    e->config.comm->about = NULL;
    fail_message(x, t, status);
}

static void do_task(ls_lane_step *x, const ls_task_queue *tasks, int i) {
    const ls_task *t = &tasks->tasks[i];
    switch ((ls_task_kind)t->kind) {
    case LS_TASK_VOTE: vote(x); return;
    case LS_TASK_LOOK: look(x); return;
    case LS_TASK_CALL: call(x); break;
    case LS_TASK_WAIT: wait_for(x, t); break;
    case LS_TASK_SEND:
    case LS_TASK_RECEIVE: communicate(x, tasks, i); break;
    case LS_TASK_SIGNAL: fail(x, ls__do_task(&x->w, t)); return;
    default: fail(x, ls__do_task(&x->w, t)); break;
    }
    ls__lap(x->w.times, ls__phase_of(x->w.engine, x->w.program, t));
}

static ls_status read_found(ls_engine *e, ls_lane *lane, ls_queue *queue) {
    if (!e->config.find_not_finite) return LS_OK;
    LS_TRY(ls_read(queue, lane->found_host, lane->found, sizeof *lane->found_host));
    return e->far ? ls_synchronize(queue) : LS_OK;
}

// What lane 0 has sent has left, before its memory is used again.
static void end_messages(ls_lane_step *x, const ls_task_queue *tasks) {
    ls_engine *e = x->w.engine;
    if (!x->flying || ls__is_broken(e)) return;
    ls_status status = ls_comm_wait_all(e->config.comm, x->channel.requests, tasks->count);
    fail_message(x, &tasks->tasks[tasks->count - 1], status);
    x->flying = 0;
}

ls_status ls_engine_begin(ls_engine *e, int index, ls_queue *queue, const ls_step_info *info,
                          const ls_step_client *client, ls_step_times *times) {
    ls_lane *lane = e->lane[index];
    ls_lane_step *x = &lane->step;
    const ls_program *program;
    LS_TRY(ls__program_of(e, info->micro_batches, &program));
    *x = (ls_lane_step){.lane = lane, .info = *info};
    if (client) x->client = *client;
    x->w = (ls_worker){e, &lane->hand, queue, &x->info, program, (uint64_t)lane->steps + 1, times, index};
    if (index == 0 && !e->progress) x->channel.requests = e->requests;
    int64_t begin;
    ls_mesh_deal(e->mesh, info->micro_batches, e->rank, index, &begin, &x->end);
    ls__progress_begin(e, x->w.number, info);
    return LS_OK;
}

// The queue of the lane, up to the next kernels.
int ls_engine_next(ls_engine *e, int index, ls_step_run *run) {
    ls_lane_step *x = &e->lane[index]->step;
    const ls_task_queue *tasks = &x->w.program->queues[index];
    x->channel.task += x->runs;
    x->runs = 0;
    for (; x->channel.task < tasks->count; x->channel.task++) {
        const ls_task *t = &tasks->tasks[x->channel.task];
        if (t->kind != LS_TASK_RUN) {
            do_task(x, tasks, x->channel.task);
            continue;
        }
        *run = (ls_step_run){.micro_batch = t->value, .backward = t->pass == LS_RUN_BACKWARD, .part = t->part};
        run->parts = t->parts;
        run->last = t->value == x->end - 1;
        if (run->backward) run->gradient = ls__place_at(e, ls__output(&x->w, t, 0), -t->begin).device;
        x->runs = 1;
        return 1;
    }
    return 0;
}

void ls_engine_pass(ls_engine *e, int index) {
    ls_lane_step *x = &e->lane[index]->step;
    const ls_task_queue *tasks = &x->w.program->queues[index];
    x->channel.task += x->runs;
    x->runs = 0;
    for (; x->channel.task < tasks->count; x->channel.task++) {
        int kind = tasks->tasks[x->channel.task].kind;
        if (kind != LS_TASK_SELECT && kind != LS_TASK_ADD && kind != LS_TASK_COPY && kind != LS_TASK_SIGNAL) return;
        do_task(x, tasks, x->channel.task);
    }
}

ls_status ls_engine_end(ls_engine *e, int index, ls_vote *decision) {
    ls_lane *lane = e->lane[index];
    ls_lane_step *x = &lane->step;
    ls_step_run left;
    int early = ls_engine_is_early(e);
    *decision = LS_VOTE_FAILED;
    if (!x->w.engine) return LS_FAIL(LS_STATUS_INTERNAL, "a step ends that was not begun");
    while (ls_engine_next(e, index, &left)) continue;  // of who has failed
    if (x->channel.requests) end_messages(x, &x->w.program->queues[index]);
    ls__lap(x->w.times, LS_STEP_WAIT);
    ls__progress_ended(e);
    if (!early) fail(x, read_found(e, lane, x->w.queue));
    if (!lane->skips) ls__topk_taken(e, index, x->info.micro_batches);
    lane->steps++;
    lane->home = !early;
    if (!early && e->progress && index == 0) fail(x, ls_engine_home(e, 0, x->w.queue, NULL));
    if (index == 0 && x->status == LS_OK && ls__is_broken(e)) fail(x, ls__broken_status(e));
    *decision = x->status == LS_OK ? x->decision : LS_VOTE_FAILED;
    if (index == 0) ls_watch_within(NULL, 0, 0);
    if (index == 0) ls_flight_bucket(0, e->emit.bucket_count);
    if (x->status != LS_OK) ls__error_set(x->failure);
    x->w.engine = NULL;
    return x->status;
}

int ls_engine_is_early(const ls_engine *e) { return e->emit.early; }
int ls_engine_is_home(const ls_engine *e, int lane) { return e->lane[lane]->home || e->lane[lane]->steps == 0; }

// Lane 0 waits until the progress thread is through, the others for what they read.
ls_status ls_engine_home(ls_engine *e, int index, ls_queue *queue, ls_step_times *times) {
    ls_lane *lane = e->lane[index];
    ls_progress *p = e->progress;
    ls_status status = LS_OK;
    if (!p || (lane->home && index != 0)) return LS_OK;
    int waited = 0, told = 0;
    pthread_mutex_lock(&p->lock);
    while (p->finished < (uint64_t)lane->steps) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += (long)(WATCH_SECONDS * 1e9);
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        p->waiting++;
        int late = pthread_cond_timedwait(&p->done, &p->lock, &until) == ETIMEDOUT;
        p->waiting--;
        waited = 1;
        if (!late || index != 0 || p->finished >= (uint64_t)lane->steps) continue;
        pthread_mutex_unlock(&p->lock);
        tell_watch(e, 0, &told);
        pthread_mutex_lock(&p->lock);
    }
    if (index == 0 && p->status != LS_OK) {
        status = p->status;
        ls__error_set(p->failure);
    }
    pthread_mutex_unlock(&p->lock);
    if (waited && index == 0) ls_watch_end();
    if (!lane->home) ls__keep(&status, read_found(e, lane, queue));
    lane->home = status == LS_OK;
    if (times && waited) ls__lap(times, LS_STEP_GATHER);
    return status;
}

ls_span ls_engine_scratch_gradient(const ls_engine *e, int lane) {
    for (int i = 0; i < e->regions.count; i++) {
        const ls_region *r = &e->regions.list[i];
        if (r->kind == LS_REGION_GRADIENTS && r->rank == e->rank && r->lane == lane) return e->places[i].device;
    }
    return (ls_span){0};
}

int64_t ls_engine_not_finite(const ls_engine *e, int lane) {
    return e->config.find_not_finite ? *e->lane[lane]->found_host - 1 : -1;
}

ls_status ls_engine_forget_not_finite(ls_engine *e, int lane, ls_queue *queue) {
    if (!e->config.find_not_finite) return LS_OK;
    *e->lane[lane]->found_host = 0;
    return queue->device->ops->memory->zero(queue, e->lane[lane]->found, sizeof(int64_t));
}

int64_t ls_engine_skipped(const ls_engine *e) { return e->lane[0]->skipped; }

void ls_engine_host_barrier(ls_engine *e) { ls_barrier_wait(&e->common->barrier); }
