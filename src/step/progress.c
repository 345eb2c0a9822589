// The progress thread: goes through the queues of the exchange, whichever can go on, and looks at
// messages. While a step runs it alone communicates.
#define _GNU_SOURCE
#include "step/progress.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/watch.h"

#define LOOK_SECONDS 0.5     // between looks at the transport where no message is waited for
#define NAP_SECONDS  200e-6  // between looks at messages, and at signals of other workers, on a shared core
#define REST_SECONDS 50e-3   // where only lanes of this worker are waited for, who wake the thread
#define AHEAD        64      // tasks for which receives are posted ahead

// --- what lanes report -----------------------------------------------------------------------------------------------

void ls__progress_pulse(ls_engine *e) {
    if (e->progress) ls_signal_wake(&e->progress->pulse);
}

void ls__progress_begin(ls_engine *e, uint64_t number, const ls_step_info *info) {
    ls_progress *p = e->progress;
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    // An early engine's thread may be at the step before still: it keeps what it needs of that.
    if (p->asked < number) {
        p->asked = number;
        p->info[number % 2] = *info;
        pthread_cond_signal(&p->work);
    }
    p->inside++;
    pthread_mutex_unlock(&p->lock);
}

void ls__progress_ended(ls_engine *e) {
    ls_progress *p = e->progress;
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->inside--;
    pthread_mutex_unlock(&p->lock);
    ls_signal_wake(&p->pulse);
}

void ls__progress_waits(ls_engine *e, int more) {
    ls_progress *p = e->progress;
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->waiting += more;
    pthread_mutex_unlock(&p->lock);
}

// --- receives --------------------------------------------------------------------------------------------------------

static int is_message(const ls_task *t) { return t->kind == LS_TASK_SEND || t->kind == LS_TASK_RECEIVE; }

static int own_memory(const ls_worker *w, const ls_task *t) {
    ls_region_kind kind = w->engine->regions.list[ls__output(w, t, 0)->region].kind;
    return kind == LS_REGION_MESSAGE;
}

static ls_status post(ls_worker *w, const ls_task *t, ls_request *request) {
    return request->native ? LS_OK : ls__receive(w, t, request);
}

ls_status ls__post_ahead(ls_worker *w, const ls_task_queue *tasks, ls_channel *c, int at) {
    // Into messages some time ahead; into what lanes read only when the task is near.
    for (; c->posted < tasks->count && c->posted <= at + AHEAD; c->posted++) {
        const ls_task *t = &tasks->tasks[c->posted];
        if (t->kind == LS_TASK_RECEIVE && own_memory(w, t)) LS_TRY(post(w, t, &c->requests[c->posted]));
    }
    for (int i = at; i < tasks->count && is_message(&tasks->tasks[i]); i++) {
        const ls_task *t = &tasks->tasks[i];
        if (t->kind == LS_TASK_RECEIVE && !own_memory(w, t)) LS_TRY(post(w, t, &c->requests[i]));
    }
    return LS_OK;
}

// --- a step ----------------------------------------------------------------------------------------------------------

typedef struct progressing {
    ls_progress *p;
    ls_worker w;
    ls_step_times times;
    int waits_for_messages;  // in the latest look
    int peer, bucket;
} progressing;

static void note(progressing *x, ls_status status, const ls_task *t) {
    ls_progress *p = x->p;
    if (status == LS_OK) return;
    int bucket = t && t->bucket >= 0 ? t->bucket : 0;
    const char *before = t && is_message(t) && t->tag % LS_TAGS == LS_TAG_VOTES ? "votes of other hosts before " : "";
    if (t) ls__fail_context(status, "%sbucket %d of %d: ", before, bucket, p->engine->emit.bucket_count);
    if (status == LS_STATUS_LIBRARY) ls__break(p->engine, ls_error_message());
    pthread_mutex_lock(&p->lock);
    if (p->status == LS_OK) {
        p->status = status;
        snprintf(p->failure, sizeof p->failure, "%s", ls_error_message());
    }
    pthread_mutex_unlock(&p->lock);
    atomic_store(&p->engine->common->failed[x->w.number % 2], (int)(x->w.number & 0x7fffffff));
}

// Whether a message has come, or left.
static int is_through(progressing *x, ls_request *request, const ls_task *t) {
    int pending;
    if (ls__is_broken(x->p->engine)) return 1;
    ls_status status = ls_comm_test_all(x->p->engine->config.comm, request, 1, &pending);
    note(x, status, t);
    if (status != LS_OK || pending < 0) return 1;
    x->waits_for_messages = 1;
    x->peer = request->peer;
    x->bucket = t->bucket;
    return 0;
}

static int is_signalled(progressing *x, const ls_task *t) {
    const ls_worker *w = &x->w;
    if (w->number <= (uint64_t)t->lag) return 1;
    return ls_signal_is_at(ls__signal_of(w->engine, w->program, t->signal), ls__target_of(w->program, t, w->number)) ||
           ls__is_broken(w->engine);
}

// Does a task if it need not wait. Returns whether it has.
static int try_task(progressing *x, const ls_task_queue *tasks, ls_channel *c) {
    const ls_task *t = &tasks->tasks[c->task];
    ls_engine *e = x->p->engine;
    if (t->kind == LS_TASK_WAIT) return is_signalled(x, t);
    if (is_message(t) && !ls__is_broken(e)) {
        note(x, ls__post_ahead(&x->w, tasks, c, c->task), t);
        if (t->kind == LS_TASK_SEND && !ls__is_broken(e)) note(x, ls__send(&x->w, t, &c->requests[c->task]), t);
        return t->kind == LS_TASK_SEND || is_through(x, &c->requests[c->task], t);
    }
    if (is_message(t)) return 1;
    double start = ls_clock();
    ls_step_phase phase = ls__phase_of(e, x->w.program, t);
    if (t->kind != LS_TASK_SIGNAL)
        ls__spent(&x->times, x->waits_for_messages ? LS_STEP_SEND : LS_STEP_WAIT, x->times.since, start);
    if (t->kind != LS_TASK_SIGNAL) x->times.since = start;
    note(x, ls__do_task(&x->w, t), t);
    if (t->kind != LS_TASK_SIGNAL) ls__lap(&x->times, phase);
    return 1;
}

// One bucket of a queue, as far as it goes. Returns whether it went on.
static int advance(progressing *x, int index) {
    ls_channel *c = &x->p->channels[index];
    const ls_task_queue *tasks = &x->w.program->queues[x->w.program->lanes + index];
    int moved = 0, bucket = c->task < tasks->count ? tasks->tasks[c->task].bucket : 0;
    while (c->task < tasks->count && tasks->tasks[c->task].bucket == bucket && try_task(x, tasks, c)) {
        c->task++;
        moved = 1;
    }
    // What was sent moves on, and is through before its memory is used again.
    for (; c->sent < c->task; c->sent++)
        if (tasks->tasks[c->sent].kind == LS_TASK_SEND && !is_through(x, &c->requests[c->sent], &tasks->tasks[c->sent]))
            break;
    return moved;
}

static int is_over(const progressing *x) {
    for (int i = 0; i < x->p->channel_count; i++) {
        const ls_task_queue *tasks = &x->w.program->queues[x->w.program->lanes + i];
        if (x->p->channels[i].sent < tasks->count) return 0;
    }
    return 1;
}

// Lanes of another worker are waited for, not messages, of which the transport sees to it that
// others hear of the wait, and that it ends where nobody answers (base/watch.h).
static void look_at_watch(progressing *x) {
    ls_comm *comm = x->p->engine->config.comm;
    const char *why = ls__is_broken(x->p->engine) ? NULL : ls_watch_given_up();
    if (why) note(x, LS_FAIL(LS_STATUS_LIBRARY, "worker %d %s", comm->rank, why), NULL);
    double now = ls_clock();
    if (ls__is_broken(x->p->engine) || now - x->p->looked < LOOK_SECONDS) return;
    if (x->p->looked > 0) note(x, ls_comm_tend(comm), NULL);
    x->p->looked = now;
}

static void nap(progressing *x, uint32_t pulse) {
    ls_engine *e = x->p->engine;
    look_at_watch(x);
    if (e->config.own_core) {
        sched_yield();
        return;
    }
    int looks = x->waits_for_messages || e->config.comm->local_size > 1;
    ls_signal_nap(&x->p->pulse, pulse, looks ? NAP_SECONDS : REST_SECONDS);
}

// Whether lanes have something to do that hides what this thread does. Who is waited for is there
// for the main thread to tell.
static int lanes_compute(progressing *x, int *quit) {
    ls_progress *p = x->p;
    pthread_mutex_lock(&p->lock);
    *quit = p->quit;
    p->peer = x->waits_for_messages ? x->peer : -1;
    p->bucket = x->bucket;
    int computing = p->waiting < p->inside;
    pthread_mutex_unlock(&p->lock);
    return computing;
}

static void run_step(ls_progress *p, uint64_t number, const ls_step_info *info) {
    ls_engine *e = p->engine;
    progressing x = {.p = p, .peer = -1};
    x.times = (ls_step_times){.since = ls_clock(), .trace = p->trace, .trace_first = p->trace_first};
    x.w = (ls_worker){e,      &e->progress_hand, p->queue, info, ls_engine_program(e, info->micro_batches, NULL),
                      number, &x.times,          -1};
    for (int i = 0; i < p->channel_count; i++) p->channels[i].task = p->channels[i].posted = p->channels[i].sent = 0;
    int quit = 0;
    for (double now = x.times.since; !is_over(&x) && !quit;) {
        uint32_t pulse = atomic_load(&p->pulse);
        int moved = 0, busy = x.waits_for_messages, computing = lanes_compute(&x, &quit);
        x.waits_for_messages = 0;
        for (int i = 0; i < p->channel_count; i++) moved |= advance(&x, i);
        double since = now;
        if (!moved) nap(&x, pulse);
        now = ls_clock();
        if ((busy || moved) && computing) p->seconds += now - since;
    }
    note(&x, ls_synchronize(p->queue), NULL);
    ls__lap(&x.times, LS_STEP_GATHER);
}

static void *thread_main(void *user) {
    ls_progress *p = user;
    const ls_engine_config *config = &p->engine->config;
    if (config->progress_begin) config->progress_begin(config->progress_user);
    // It computes as lanes do, denormals included.
    if (config->device->ops->thread_begin) config->device->ops->thread_begin(config->device, NULL, NULL);
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->quit && p->asked == p->finished) pthread_cond_wait(&p->work, &p->lock);
        if (p->quit) break;
        uint64_t number = p->finished + 1;
        ls_step_info info = p->info[number % 2];
        pthread_mutex_unlock(&p->lock);
        run_step(p, number, &info);
        pthread_mutex_lock(&p->lock);
        p->finished = number;
        p->peer = -1;
        pthread_cond_broadcast(&p->done);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

// --- making one ------------------------------------------------------------------------------------------------------

ls_status ls__progress_plan(ls_engine *e) {
    if (!e->config.progress) return LS_OK;
    if (!e->config.comm->any_thread)
        return LS_FAIL(LS_STATUS_INTERNAL, "exchange behind backward takes MPI_THREAD_SERIALIZED, which is not there");
    ls_progress *p;
    LS_TRY(ls_calloc(1, sizeof *p, &p));
    e->progress = p;
    p->engine = e;
    p->peer = -1;
    p->channel_count = e->programs[0]->queue_count - e->programs[0]->lanes;
    LS_TRY(ls_calloc(p->channel_count, sizeof *p->channels, &p->channels));
    pthread_condattr_t monotonic;
    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&p->work, &monotonic);
    pthread_cond_init(&p->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return LS_OK;
}

ls_status ls__progress_start(ls_engine *e) {
    ls_progress *p = e->progress;
    sigset_t all, before;  // signals are the main thread's business
    if (!p) return LS_OK;
    LS_TRY(ls_queue_create(e->config.device, &p->queue));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    p->started = pthread_create(&p->thread, NULL, thread_main, p) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!p->started) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "could not start the thread that exchanges gradients");
    return LS_OK;
}

void ls__progress_free(ls_engine *e) {
    ls_progress *p = e->progress;
    if (!p) return;
    if (p->started) {
        pthread_mutex_lock(&p->lock);
        p->quit = 1;
        pthread_cond_signal(&p->work);
        pthread_mutex_unlock(&p->lock);
        ls_signal_wake(&p->pulse);
        pthread_join(p->thread, NULL);
    }
    ls_queue_destroy(&p->queue);
    for (int i = 0; p->channels && i < p->channel_count; i++) free(p->channels[i].requests);
    free(p->channels);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->done);
    pthread_mutex_destroy(&p->lock);
    free(p);
    e->progress = NULL;
}

void ls_engine_record(ls_engine *e, ls_trace *trace, int first) {
    if (!e->progress) return;
    e->progress->trace = trace;
    e->progress->trace_first = first;
}

double ls_engine_hidden_seconds(const ls_engine *e) { return e->progress ? e->progress->seconds : 0; }
