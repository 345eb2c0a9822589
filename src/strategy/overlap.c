// Exchange behind backward: a thread of each worker that sends, receives, sums and updates what lanes have handed over.
//
// A lane that has a bucket's gradients says so in the host's memory and goes on: nobody waits for anybody. Once all lanes of the host have
// said it, their workers' threads take the bucket through the phases of strategy.h, each for its own worker, all replicas of it one after the other; as many
// as IN_FLIGHT buckets are on their way at once, in an order that all workers have alike, or they would wait for each other. While a step runs this thread
// alone communicates; when the lanes come to the end of the step they wait for it, and the main thread has communication back.
//
//     lanes     backward ······ ready 0 ······ ready 1 ······ ready 2, vote | wait | copies are refreshed
//     thread             sum, send 0 ·· sum, send 1, update 0, gather 0 ·· ···· |
//
// Where a norm over all gradients has to be known before the first update, the thread ends with sums on their way, and the lanes do the rest.
//
// Of a strategy that is early (strategy.h) nobody waits for all: the thread refreshes copies as well, and says of each bucket when it is home.
// The next forward reads first what backward has made last. So only the first buckets, `in_order`, are taken as they come: as many as the
// exchange can begin while backward goes on. The others wait until it is over, and then the last goes first:
//
//     0 1 2 ... in_order - 1 | bucket_count - 1, bucket_count - 2, ... in_order
//
// How many that are each worker sees in every step, and tells the others with its next vote; one number counts for all in the step after that.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/flight.h"
#include "base/memory.h"
#include "base/watch.h"
#include "strategy/overlap.h"

#define IN_FLIGHT    4       // buckets whose sums are on their way
#define TEND_SECONDS 0.5     // between looks at the transport where no message is waited for
#define NAP_SECONDS  200e-6  // between looks at messages, and at what lanes of other workers say, on a shared core
#define REST_SECONDS 50e-3   // where only lanes of this worker are waited for, who wake the thread

// A step in the thread.
typedef struct overlapped {
    ls_overlap *o;
    ls_lane_step step;  // of whichever replica it works for
    ls_step_times times;
    int begun, reduced, gathered;  // buckets that have come so far
    int whole, home;               // of those that are early: new on all of the host, copies too
    int64_t low, high;             // elements between these are not whole
    int voted;                     // 1: votes are on their way; 2: they are there; 3: all of the host know the decision
    int next_in_order;
    int reached;    // once backward is over, else -1
    int broken;     // 1: messages cannot be looked for any more
    uint64_t seen;  // of told
    double tended;  // when the transport was last looked at
    ls_status status;
} overlapped;

// --- communication that is broken ------------------------------------------------------------------------------------

// One worker's thread that cannot go on says so, and why, to those of its host: they would wait for what it was to bring, and all their lanes with
// them, while its main thread has to get out of the step to end the job.
static void say_broken(ls_strategy *s, uint64_t number) {
    ls_broken *b = s->broken;
    if (!atomic_exchange(&b->begun, 1)) {
        b->rank = s->config.comm->rank;
        snprintf(b->sentence, sizeof b->sentence, "%.*s", (int)sizeof b->sentence - 1, s->overlap->failure);
        atomic_store_explicit(&b->whole, 1, memory_order_release);
    }
    atomic_store_explicit(&s->progress[s->bucket_count].reduced, number, memory_order_release);
}

static int host_broken(const ls_strategy *s, uint64_t number) {
    return atomic_load_explicit(&s->progress[s->bucket_count].reduced, memory_order_acquire) >= number;
}

int ls__overlap_broken(const ls_strategy *s, uint64_t number) { return number > 0 && host_broken(s, number); }

// Another worker of the host cannot go on: this one ends for its reason, and says it.
static void take_broken(overlapped *x) {
    ls_strategy *s = x->o->strategy;
    if (x->broken || x->status != LS_OK || !host_broken(s, x->step.number)) return;
    // Another one may be writing its sentence just now; one that was ended in the middle never comes to its end.
    for (int i = 0; i < 1000 && !atomic_load_explicit(&s->broken->whole, memory_order_acquire); i++) sched_yield();
    x->status =
        atomic_load_explicit(&s->broken->whole, memory_order_acquire)
            ? LS_FAIL(LS_STATUS_LIBRARY, "worker %d of this host has failed: %s", s->broken->rank, s->broken->sentence)
            : LS_FAIL(LS_STATUS_LIBRARY, "another worker of this host has failed in the exchange");
    snprintf(x->o->failure, sizeof x->o->failure, "%s", ls_error_message());
}

// --- what lanes say --------------------------------------------------------------------------------------------------

static int all_lanes(const ls_strategy *s, int bucket, uint64_t number) {
    uint64_t count = atomic_load_explicit(&s->progress[bucket].ready, memory_order_acquire);
    return count >= number * (uint64_t)s->host_lanes;
}

int ls__overlap_awaited(const ls_strategy *s, uint64_t number) {
    int bucket = 0;
    while (bucket < s->bucket_count - 1 && all_lanes(s, bucket, number)) bucket++;
    return bucket;
}

const char *ls__bucket_words(int *bucket, int next, int count) {
    if (*bucket < count) return "";
    *bucket = next < count ? next : count - 1;
    return next < count ? "votes of other hosts before " : "votes of other hosts after ";
}

void ls__say_bucket(char *out, size_t size, int bucket, int next, int count) {
    const char *words = ls__bucket_words(&bucket, next, count);
    snprintf(out, size, "%sbucket %d of %d", words, bucket, count);
}

void ls__overlap_tell(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    ls_overlap *o = s->overlap;
    atomic_fetch_add_explicit(&s->progress[bucket].ready, 1, memory_order_acq_rel);
    if (step->replica == 0 && bucket < s->bucket_count) ls_flight_bucket(bucket + 1, s->bucket_count);
    pthread_mutex_lock(&o->lock);
    if (o->asked < step->number) {
        o->asked = step->number;
        o->info = *step->info;
        o->ended = 0;
    }
    o->told++;
    pthread_cond_signal(&o->work);
    pthread_mutex_unlock(&o->lock);
}

void ls__overlap_end(ls_lane_step *step) {
    ls_overlap *o = step->strategy->overlap;
    pthread_mutex_lock(&o->lock);
    o->ended++;
    if (o->inside > 0) o->inside--;
    o->told++;
    pthread_cond_signal(&o->work);
    pthread_mutex_unlock(&o->lock);
}

int ls__overlap_wait_some(ls_overlap *o, pthread_cond_t *condition, double seconds) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(seconds * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return pthread_cond_timedwait(condition, &o->lock, &until);
}

// --- the thread ------------------------------------------------------------------------------------------------------

// The bucket that is taken as number `position`.
static int bucket_at(const overlapped *x, int position) {
    int in_order = x->o->in_order;
    return position < in_order ? position : x->o->strategy->bucket_count - 1 - (position - in_order);
}

// The bucket that comes next; their number: all have come.
static int next_bucket(const overlapped *x) {
    const ls_strategy *s = x->o->strategy;
    int done = ls__overlap_updates(s) ? x->gathered : x->begun;
    return done < s->bucket_count ? bucket_at(x, done) : s->bucket_count;
}

// Keeps the first failure, with the bucket that it was about, or that votes were before (-1: it is not known); the worker is in the sentence of a message. After a message that could not be sent or received, others
// wait for what does not come: no use in going on.
static void note(overlapped *x, ls_status status, int bucket) {
    if (status == LS_STATUS_LIBRARY && x->o->strategy->config.comm->hosts > 1) x->broken = 1;
    if (status == LS_OK || x->status != LS_OK) return;
    x->status = status;
    char what[64];
    ls__say_bucket(what, sizeof what, bucket, next_bucket(x), x->o->strategy->bucket_count);
    if (bucket >= 0) ls__fail_context(status, "%s: ", what);
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
    // Who waits for a bucket need not know of votes.
    int keeps = bucket == s->bucket_count && o->peer >= 0 && o->bucket < bucket;
    if (!keeps && (peer >= 0 || o->bucket == bucket)) o->peer = peer, o->bucket = bucket, o->next = next_bucket(x);
    pthread_mutex_unlock(&o->lock);
    return status == LS_OK && peer < 0;
}

// Takes whatever can go on one step further. Returns whether something could.
static int move(overlapped *x) {
    ls_strategy *s = x->o->strategy;
    int updates = ls__overlap_updates(s), moved = 0;
    if (x->begun < s->bucket_count && (!updates || x->begun - x->reduced < IN_FLIGHT) &&
        all_lanes(s, bucket_at(x, x->begun), x->step.number)) {
        ls__lap(&x->times, x->gathered < x->begun ? LS_STEP_SEND : LS_STEP_WAIT);
        for_replicas(x, s->ops->reduce_begin, bucket_at(x, x->begun++));
        moved = 1;
    }
    if (updates && x->gathered < x->reduced && arrived(x, bucket_at(x, x->gathered))) {
        ls__lap(&x->times, LS_STEP_GATHER);
        int bucket = bucket_at(x, x->gathered++);
        for_replicas(x, s->ops->gather_end, bucket);
        if (ls__early(s) && !x->broken)
            atomic_fetch_add_explicit(&s->progress[bucket].gathered, 1, memory_order_acq_rel);
        moved = 1;
    }
    if (updates && x->reduced < x->begun && !x->broken && arrived(x, bucket_at(x, x->reduced))) {
        ls__lap(&x->times, LS_STEP_SEND);
        for_replicas(x, ls__reduce_end, bucket_at(x, x->reduced++));
        moved = 1;
    }
    return moved;
}

static int move_votes(overlapped *x) {
    ls_strategy *s = x->o->strategy;
    int moved = 0;
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

// --- the thread of a strategy that is early --------------------------------------------------------------------------

// Something is there that lanes may wait for.
static void announce(ls_overlap *o, int index, uint64_t number) {
    atomic_store_explicit(&o->home[index], number, memory_order_release);
    pthread_mutex_lock(&o->lock);
    if (o->waiting > 0) pthread_cond_broadcast(&o->done);
    pthread_mutex_unlock(&o->lock);
}

// How many workers of the host have been there with all buckets of this step, as both counters count.
static uint64_t all_workers(const overlapped *x) {
    return x->step.number * (uint64_t)x->o->strategy->config.comm->local_size;
}

// This worker's part of the copies that are complete with a bucket that is whole.
static void refresh(overlapped *x, int bucket) {
    ls_strategy *s = x->o->strategy;
    const ls_strategy_config *config = &s->config;
    ls_homecoming h = {.begin = ls__bucket_begin(s, bucket), .end = s->bucket_ends[bucket]};
    if (h.begin == x->low)
        x->low = h.end;
    else
        x->high = h.begin;
    h.low = x->low;
    h.high = x->high;
    if (!config->refresh_some) return;
    int shared = ls__one_vector(s);
    ls__lap(&x->times, LS_STEP_GATHER);
    note(x,
         config->refresh_some(config->refresh_user, x->step.queue, s->weights.device, s->copies, &h,
                              shared ? config->comm->local_rank : 0, shared ? config->comm->local_size : 1),
         bucket);
    ls__lap(&x->times, LS_STEP_REFRESH);
}

static int move_home(overlapped *x) {
    ls_strategy *s = x->o->strategy;
    int moved = 0;
    if (x->whole < x->gathered) {
        ls_progress *p = &s->progress[bucket_at(x, x->whole)];
        if (ls__is_at(&p->gathered, all_workers(x))) {
            refresh(x, bucket_at(x, x->whole++));
            atomic_fetch_add_explicit(&p->fresh, 1, memory_order_acq_rel);
            moved = 1;
        }
    }
    if (x->home < x->whole && ls__is_at(&s->progress[bucket_at(x, x->home)].fresh, all_workers(x))) {
        announce(x->o, bucket_at(x, x->home++), x->step.number);
        moved = 1;
    }
    ls_progress *votes = &s->progress[s->bucket_count];
    if (x->voted == 2 && s->config.comm->local_rank == 0)
        atomic_store_explicit(&votes->decided, x->step.number, memory_order_release);
    if (x->voted == 2 && ls__is_at(&votes->decided, x->step.number)) {
        x->voted = 3;
        x->next_in_order = ls__vote_reached(&x->step);
        announce(x->o, s->bucket_count, x->step.number);
        moved = 1;
    }
    return moved;
}

// When backward is over: how many buckets the exchange has begun, or would have, had it not kept the others back.
static int count_reached(const overlapped *x) {
    int count = x->o->strategy->bucket_count, in_order = x->o->in_order;
    if (x->begun < in_order) return x->begun;
    int idle = x->gathered == x->begun, more = idle ? count / 8 + 1 : IN_FLIGHT - (x->begun - x->reduced);
    return in_order + more < count ? in_order + more : count;
}

// --- a step ----------------------------------------------------------------------------------------------------------

static int is_over(const overlapped *x) {
    const ls_strategy *s = x->o->strategy;
    int early = ls__early(s), last = early ? x->home : ls__overlap_updates(s) ? x->gathered : x->begun;
    pthread_mutex_lock(&x->o->lock);
    int quit = x->o->quit;  // in the middle of a step: ls_strategy_abandon
    pthread_mutex_unlock(&x->o->lock);
    return quit || x->broken || host_broken(s, x->step.number) ||
           (last == s->bucket_count && x->voted == (early ? 3 : 2));
}

// Lanes of another worker are waited for, not messages, of which the transport sees to it that others hear of the wait, and that it ends where nobody answers
// (base/watch.h).
static void look_at_watch(overlapped *x) {
    ls_comm *comm = x->o->strategy->config.comm;
    const char *why = x->broken ? NULL : ls_watch_given_up();
    if (why) note(x, LS_FAIL(LS_STATUS_LIBRARY, "worker %d %s", comm->rank, why), -1);
    double now = ls_clock();
    if (x->broken || now - x->tended < TEND_SECONDS) return;
    if (x->tended > 0) note(x, ls_comm_tend(comm), next_bucket(x));
    x->tended = now;
}

// Until a lane of this worker says something, or for a while: messages, and lanes of other workers, do not wake anybody.
static void nap(overlapped *x) {
    ls_overlap *o = x->o;
    look_at_watch(x);
    if (o->strategy->config.overlap_own_core) {
        sched_yield();
        return;
    }
    int looks = x->gathered < x->begun || x->voted == 1 || o->strategy->config.comm->local_size > 1;
    pthread_mutex_lock(&o->lock);
    if (o->told == x->seen) ls__overlap_wait_some(o, &o->work, looks ? NAP_SECONDS : REST_SECONDS);
    x->seen = o->told;
    pthread_mutex_unlock(&o->lock);
}

// Whether lanes have something to do that hides what this thread does; and whether all have come to the end of the step.
static int lanes_compute(ls_overlap *o, int *ended) {
    int replicas = o->strategy->config.replicas;
    pthread_mutex_lock(&o->lock);
    *ended = o->ended == replicas;
    int computing = ls__early(o->strategy) ? o->waiting < o->inside : o->waiting < replicas && !*ended;
    pthread_mutex_unlock(&o->lock);
    return computing;
}

static void run_step(ls_overlap *o, uint64_t number, const ls_step_info *info) {
    ls_strategy *s = o->strategy;
    overlapped x = {.o = o, .high = s->config.length, .next_in_order = s->bucket_count, .reached = -1};
    x.times = (ls_step_times){.since = ls_clock(), .trace = o->trace, .trace_first = o->trace_first};
    x.step = (ls_lane_step){.strategy = s, .queue = o->queue, .info = info, .times = &x.times, .number = number};
    x.step.alone = 1;
    x.step.factor = 1;
    x.step.lane = s->lane[0];
    for (double now = x.times.since; !is_over(&x);) {
        int busy = x.gathered < x.begun || x.voted == 1, ended, computing = lanes_compute(o, &ended);
        if (ended && x.reached < 0) x.reached = count_reached(&x);
        if (!(move(&x) | move_votes(&x) | (ls__early(s) && !x.broken && move_home(&x)))) nap(&x);
        double since = now;
        now = ls_clock();
        if (busy && computing) o->seconds += now - since;
    }
    if (x.broken) say_broken(s, number);
    take_broken(&x);
    note(&x, ls_synchronize(o->queue), -1);
    ls__lap(&x.times, x.voted >= 2 ? LS_STEP_GATHER : LS_STEP_SEND);
    o->status = x.status;
    if (!ls__early(s)) return;
    o->reached = x.reached < 0 ? s->bucket_count : x.reached;
    o->in_order = x.next_in_order;
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
    LS_TRY(ls__want(s, LS_STRATEGY_SUMS, LS_HOST, sizeof *s->broken, &s->broken));
    LS_TRY(ls_calloc(1, sizeof *s->overlap, &s->overlap));
    ls_overlap *o = s->overlap;
    LS_TRY(ls_calloc(s->bucket_count + 1, sizeof *o->home, &o->home));
    o->in_order = o->reached = s->bucket_count;
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
    free((void *)o->home);
    free(o);
    s->overlap = NULL;
}

void ls_strategy_overlap_record(ls_strategy *s, ls_trace *trace, int first) {
    if (!s->overlap) return;
    s->overlap->trace = trace;
    s->overlap->trace_first = first;
}

// For each bucket and replica what a lane has of it, five waits and copies for each bucket, three stretches for each level of hosts, and the end.
int64_t ls_strategy_overlap_events(const ls_strategy *s) {
    int64_t each = 14 * s->config.replicas + 6 + 3 * ls__levels(s->config.comm->hosts);
    return s->overlap ? each * s->bucket_count + 8 : 0;
}

double ls_strategy_overlap_seconds(const ls_strategy *s) { return s->overlap ? s->overlap->seconds : 0; }
