// Exchange behind backward: a thread of each worker that sends, receives, sums and updates what lanes have handed over.
//
// A lane that has a bucket's gradients says so in the host's memory and goes on: nobody waits for anybody. Once all lanes of the host have
// said it, their workers' threads take the bucket through the phases of strategy.h, each for its own worker, all replicas of it one after the other; as many
// as IN_FLIGHT buckets are on their way at once, always in order, so that the first are home first. While a step runs this thread alone
// communicates; when the lanes come to the end of the step they wait for it, and the main thread has communication back.
//
//     lanes     backward ······ ready 0 ······ ready 1 ······ ready 2, vote | wait | copies are refreshed
//     thread             sum, send 0 ·· sum, send 1, update 0, gather 0 ·· ···· |
//
// Where a norm over all gradients has to be known before the first update, the thread ends with sums on their way, and the lanes do the rest.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/watch.h"
#include "strategy/strategy_impl.h"

#define IN_FLIGHT     4       // buckets whose sums are on their way
#define NAP_SECONDS   200e-6  // between looks at messages, and at what lanes of other workers say, on a shared core
#define REST_SECONDS  50e-3   // where only lanes of this worker are waited for, who wake the thread
#define WATCH_SECONDS 0.2     // of waiting before the watch is told whom for

struct ls_overlap {
    ls_strategy *strategy;
    pthread_t thread;
    int started;
    ls_queue *queue;
    pthread_mutex_t lock;
    pthread_cond_t work, done;  // for the thread; for lanes
    // Under the lock:
    int quit;
    uint64_t asked, finished;  // steps
    uint64_t told;             // by lanes of this worker: something is new
    int waiting;               // its lanes that have come to the end of the step
    int peer, bucket;          // the rank that is waited for, -1: nobody, and for what
    ls_step_info info;         // of the step that was asked for last
    ls_status status;          // the first failure, and its sentence
    char failure[1024], watched[64];
    // The thread's own:
    ls_trace *trace;
    int trace_first;
    double seconds;  // ls_strategy_overlap_seconds
};

// A step in the thread.
typedef struct overlapped {
    ls_overlap *o;
    ls_lane_step step;  // of whichever replica it works for
    ls_step_times times;
    int begun, reduced, gathered;  // buckets that have come so far
    int voted;                     // 1: votes are on their way; 2: they are there
    int broken;                    // 1: messages cannot be looked for any more
    uint64_t seen;                 // of told
    ls_status status;
} overlapped;

// --- communication that is broken ------------------------------------------------------------------------------------

// One worker's thread that cannot go on says so to those of its host: they would wait for what it was to bring, and all their lanes with
// them, while its main thread has to get out of the step to end the job.
static void say_broken(ls_strategy *s, uint64_t number) {
    atomic_store_explicit(&s->progress[s->bucket_count].reduced, number, memory_order_release);
}

static int host_broken(const ls_strategy *s, uint64_t number) {
    return atomic_load_explicit(&s->progress[s->bucket_count].reduced, memory_order_acquire) >= number;
}

int ls__overlap_broken(const ls_lane_step *step) { return host_broken(step->strategy, step->number); }

// --- what lanes say --------------------------------------------------------------------------------------------------

static int all_lanes(const ls_strategy *s, int bucket, uint64_t number) {
    uint64_t count = atomic_load_explicit(&s->progress[bucket].ready, memory_order_acquire);
    return count >= number * (uint64_t)s->host_lanes;
}

void ls__overlap_tell(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    ls_overlap *o = s->overlap;
    atomic_fetch_add_explicit(&s->progress[bucket].ready, 1, memory_order_acq_rel);
    pthread_mutex_lock(&o->lock);
    if (o->asked < step->number) {
        o->asked = step->number;
        o->info = *step->info;
        o->waiting = 0;
    }
    o->waiting += bucket == s->bucket_count;
    o->told++;
    pthread_cond_signal(&o->work);
    pthread_mutex_unlock(&o->lock);
}

// Waits on a condition for so many seconds at most.
static int wait_some(ls_overlap *o, pthread_cond_t *condition, double seconds) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(seconds * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return pthread_cond_timedwait(condition, &o->lock, &until);
}

// The main thread tells the watch what it waits for.
static void begin_watch(ls_overlap *o) {
    if (o->peer >= 0 && o->bucket < o->strategy->bucket_count)
        snprintf(o->watched, sizeof o->watched, "bucket %d of %d", o->bucket, o->strategy->bucket_count);
    else
        snprintf(o->watched, sizeof o->watched, o->peer >= 0 ? "the votes of other hosts" : "the other replicas");
    ls_watch_begin(o->watched, o->peer);
}

ls_status ls__overlap_wait(ls_lane_step *step) {
    ls_overlap *o = step->strategy->overlap;
    int watched = 0;
    ls_status status = LS_OK;
    pthread_mutex_lock(&o->lock);
    while (o->finished < step->number)
        if (watched || step->replica != 0) {
            pthread_cond_wait(&o->done, &o->lock);
        } else if (wait_some(o, &o->done, WATCH_SECONDS) == ETIMEDOUT && o->finished < step->number) {
            begin_watch(o);
            watched = 1;
        }
    if (step->replica == 0 && o->status != LS_OK) {
        status = o->status;
        ls__error_set(o->failure);
    }
    pthread_mutex_unlock(&o->lock);
    if (watched) ls_watch_end();
    ls__lap(step->times, LS_STEP_SEND);
    return status;
}

// --- the thread ------------------------------------------------------------------------------------------------------

// Keeps the first failure, with the bucket that it was about; the worker is in the sentence of a message. After a message that could not be sent or received, others
// wait for what does not come: no use in going on.
static void note(overlapped *x, ls_status status, int bucket) {
    if (status == LS_STATUS_LIBRARY && x->o->strategy->config.comm->hosts > 1) x->broken = 1;
    if (status == LS_OK || x->status != LS_OK) return;
    x->status = status;
    if (bucket < x->o->strategy->bucket_count)
        ls__fail_context(status, "bucket %d of %d: ", bucket, x->o->strategy->bucket_count);
    snprintf(x->o->failure, sizeof x->o->failure, "%s", ls_error_message());
}

// A phase for all replicas, the first one last: it communicates for them.
static void for_replicas(overlapped *x, ls_status (*phase)(ls_lane_step *, int), int bucket) {
    ls_strategy *s = x->o->strategy;
    for (int r = s->config.replicas - 1; phase && r >= 0; r--) {
        x->step.replica = r;
        x->step.lane = s->lane[r];
        note(x, phase(&x->step, bucket), bucket);
    }
}

// Whether what is on its way for a bucket, or of the votes, is there.
static int arrived(overlapped *x, int bucket) {
    ls_overlap *o = x->o;
    ls_strategy *s = o->strategy;
    int peer = -1;
    ls_status status = LS_OK;
    if (bucket == s->bucket_count)
        status = ls__vote_arrived(&x->step, &peer);
    else if (s->ops->arrived)
        status = s->ops->arrived(&x->step, bucket, &peer);
    if (status != LS_OK) x->broken = 1;
    note(x, status, bucket);
    pthread_mutex_lock(&o->lock);
    if (peer >= 0 || o->bucket == bucket) o->peer = peer, o->bucket = bucket;
    pthread_mutex_unlock(&o->lock);
    return status == LS_OK && peer < 0;
}

// Takes whatever can go on one step further. Returns whether something could.
static int move(overlapped *x) {
    ls_strategy *s = x->o->strategy;
    int updates = ls__overlap_updates(s), moved = 0;
    if (x->begun < s->bucket_count && (!updates || x->begun - x->reduced < IN_FLIGHT) &&
        all_lanes(s, x->begun, x->step.number)) {
        ls__lap(&x->times, x->gathered < x->begun ? LS_STEP_SEND : LS_STEP_WAIT);
        for_replicas(x, s->ops->reduce_begin, x->begun++);
        moved = 1;
    }
    if (updates && x->gathered < x->reduced && arrived(x, x->gathered)) {
        ls__lap(&x->times, LS_STEP_GATHER);
        for_replicas(x, s->ops->gather_end, x->gathered++);
        moved = 1;
    }
    if (updates && x->reduced < x->begun && !x->broken && arrived(x, x->reduced)) {
        ls__lap(&x->times, LS_STEP_SEND);
        for_replicas(x, ls__reduce_end, x->reduced++);
        moved = 1;
    }
    x->step.replica = 0;
    x->step.lane = s->lane[0];
    if (x->voted == 0 && all_lanes(s, s->bucket_count, x->step.number)) {
        note(x, ls__vote_send(&x->step), s->bucket_count);
        x->voted = moved = 1;
    }
    if (x->voted == 1 && !x->broken && arrived(x, s->bucket_count)) {
        note(x, ls__vote_receive(&x->step), s->bucket_count);
        x->voted = 2;
        moved = 1;
    }
    return moved;
}

static int is_over(const overlapped *x) {
    const ls_strategy *s = x->o->strategy;
    int last = ls__overlap_updates(s) ? x->gathered : x->begun;
    pthread_mutex_lock(&x->o->lock);
    int quit = x->o->quit;  // in the middle of a step: ls_strategy_abandon
    pthread_mutex_unlock(&x->o->lock);
    return quit || x->broken || host_broken(s, x->step.number) || (last == s->bucket_count && x->voted == 2);
}

// Until a lane of this worker says something, or for a while: messages, and lanes of other workers, do not wake anybody.
static void nap(overlapped *x) {
    ls_overlap *o = x->o;
    if (o->strategy->config.overlap_own_core) {
        sched_yield();
        return;
    }
    int looks = x->gathered < x->begun || x->voted == 1 || o->strategy->config.comm->local_size > 1;
    pthread_mutex_lock(&o->lock);
    if (o->told == x->seen) wait_some(o, &o->work, looks ? NAP_SECONDS : REST_SECONDS);
    x->seen = o->told;
    pthread_mutex_unlock(&o->lock);
}

static int lanes_compute(ls_overlap *o) {
    pthread_mutex_lock(&o->lock);
    int computing = o->waiting < o->strategy->config.replicas;
    pthread_mutex_unlock(&o->lock);
    return computing;
}

static void run_step(ls_overlap *o, uint64_t number, const ls_step_info *info) {
    ls_strategy *s = o->strategy;
    overlapped x = {.o = o};
    x.times = (ls_step_times){.since = ls_clock(), .trace = o->trace, .trace_first = o->trace_first};
    x.step = (ls_lane_step){.strategy = s, .queue = o->queue, .info = info, .times = &x.times, .number = number};
    x.step.alone = 1;
    x.step.factor = 1;
    x.step.lane = s->lane[0];
    for (double now = x.times.since; !is_over(&x);) {
        int busy = x.gathered < x.begun || x.voted == 1, computing = lanes_compute(o);
        if (!move(&x)) nap(&x);
        double since = now;
        now = ls_clock();
        if (busy && computing) o->seconds += now - since;
    }
    if (x.broken) say_broken(s, number);
    note(&x, ls_synchronize(o->queue), s->bucket_count);
    ls__lap(&x.times, x.voted == 2 ? LS_STEP_GATHER : LS_STEP_SEND);
    o->status = x.status;
}

static void *thread_main(void *user) {
    ls_overlap *o = user;
    const ls_strategy_config *config = &o->strategy->config;
    if (config->overlap_begin) config->overlap_begin(config->overlap_user);
    // It computes as lanes do, denormals included.
    if (config->device->ops->thread_begin) config->device->ops->thread_begin(config->device, NULL, NULL);
    pthread_mutex_lock(&o->lock);
    for (;;) {
        while (!o->quit && o->asked == o->finished) pthread_cond_wait(&o->work, &o->lock);
        if (o->quit) break;
        uint64_t number = o->asked;
        ls_step_info info = o->info;
        o->peer = -1;
        pthread_mutex_unlock(&o->lock);
        run_step(o, number, &info);
        pthread_mutex_lock(&o->lock);
        o->finished = number;
        pthread_cond_broadcast(&o->done);
    }
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

// --- making one ------------------------------------------------------------------------------------------------------

ls_status ls__overlap_plan(ls_strategy *s) {
    if (!s->config.overlap) return LS_OK;
    if (!s->config.comm->any_thread)
        return LS_FAIL(LS_STATUS_INTERNAL, "exchange behind backward takes MPI_THREAD_SERIALIZED, which is not there");
    LS_TRY(ls__want(s, LS_STRATEGY_SUMS, LS_HOST, (s->bucket_count + 1) * (int64_t)sizeof *s->progress, &s->progress));
    LS_TRY(ls_calloc(1, sizeof *s->overlap, &s->overlap));
    ls_overlap *o = s->overlap;
    pthread_condattr_t monotonic;
    o->strategy = s;
    o->peer = -1;
    pthread_mutex_init(&o->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&o->work, &monotonic);
    pthread_cond_init(&o->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return LS_OK;
}

ls_status ls__overlap_start(ls_strategy *s) {
    ls_overlap *o = s->overlap;
    sigset_t all, before;  // signals are the main thread's business
    if (!o) return LS_OK;
    LS_TRY(ls_queue_create(s->config.device, &o->queue));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    o->started = pthread_create(&o->thread, NULL, thread_main, o) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!o->started) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "could not start the thread that exchanges gradients");
    return LS_OK;
}

void ls__overlap_free(ls_strategy *s) {
    ls_overlap *o = s->overlap;
    if (!o) return;
    if (o->started) {
        pthread_mutex_lock(&o->lock);
        o->quit = 1;
        pthread_cond_signal(&o->work);
        pthread_mutex_unlock(&o->lock);
        pthread_join(o->thread, NULL);
    }
    ls_queue_destroy(&o->queue);
    pthread_cond_destroy(&o->work);
    pthread_cond_destroy(&o->done);
    pthread_mutex_destroy(&o->lock);
    free(o);
    s->overlap = NULL;
}

void ls_strategy_overlap_record(ls_strategy *s, ls_trace *trace, int first) {
    if (!s->overlap) return;
    s->overlap->trace = trace;
    s->overlap->trace_first = first;
}

// For each bucket and replica what a lane has of it, three waits for each bucket, three stretches for each level of hosts, and the end.
int64_t ls_strategy_overlap_events(const ls_strategy *s) {
    int64_t each = 14 * s->config.replicas + 4 + 3 * ls__levels(s->config.comm->hosts);
    return s->overlap ? each * s->bucket_count + 8 : 0;
}

double ls_strategy_overlap_seconds(const ls_strategy *s) { return s->overlap ? s->overlap->seconds : 0; }
