// The loader: threads that fill a ring of micro-batches ahead of training.
//
// Each slot of the ring goes around: free → filling (threads hand its samples out among them) → ready → (get) → taken → (restore) →
// free. One mutex guards the states and counters; the filling itself happens outside it, for a run of samples is one thread's only.
#define _GNU_SOURCE
#include "data/loader.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "data/pace.h"

#define MOST_THREADS 1024
#define MOST_BROKEN  100  // samples in a row

typedef enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_TAKEN } slot_state;

typedef struct slot {
    ls_batch batch;  // first, so that a batch's address is its slot's
    slot_state state;
    int64_t left;      // samples that are not done yet
    ls_status status;  // of its first sample that could not be read: at `failed`, with a sentence
    int64_t failed;
    char message[1024];
    int64_t replaced;  // samples that others stand in for; why, of one of them
    char why[512];
} slot;

typedef struct worker {
    struct ls_loader *loader;
    int index;
    ls_feeder *feeder;
    void *scratch;
    pthread_t thread;
} worker;

struct ls_loader {
    ls_loader_config config;  // threads: how many there are
    slot *slots;      // (depth): micro-batch n of an epoch goes through slot n % depth, n counted over all epochs
    void *memory;     // of the batches, where it is the loader's own
    worker *workers;  // (threads)
    int running;      // threads that were started
    pthread_mutex_t mutex;
    pthread_cond_t work;   // threads wait here: for an epoch, a free slot, or the end
    pthread_cond_t ready;  // get waits here
    // Under the mutex:
    uint32_t epoch;
    const uint32_t *order;
    const ls_range *ranges;
    int64_t base;   // micro-batches of earlier epochs
    int64_t total;  // ... and with this one's
    int64_t dealt;  // over all epochs: those of which every sample was handed out; samples of the next one that were:
    int64_t dealt_samples;
    int64_t taken;  // over all epochs
    int filling;    // threads at work on samples
    int stop;
    int64_t replaced;  // in batches that were taken
    char why[512];
    double reading, preparing;  // seconds of all threads
    ls_pace pace;               // its threads that take samples: the first so many
    _Atomic int dropping;       // what is being prepared is not wanted any more
    ls_trace *trace;            // where the first thread records; NULL: nowhere
    int trace_name;
};

// ---- filling -------------------------------------------------------------------------------------------------------

// Samples of one batch that one thread prepares.
typedef struct job {
    slot *slot;
    uint32_t epoch;
    const uint32_t *order;  // from the job's first sample on
    int64_t at, count;      // in the batch
    const uint32_t *next;   // the same places of the batch behind it
    int64_t next_count;
} job;

// One thread takes whole batches. Several take a quarter of their share at a time, so that none waits long for the last.
static int64_t portion(const ls_loader *l, int64_t count) {
    int64_t parts = l->pace.threads == 1 ? 1 : 4 * (int64_t)l->pace.threads;
    return (count + parts - 1) / parts;
}

// The next samples to be prepared, in order; 0: there are none now. Under the mutex.
static int take_job(ls_loader *l, job *j) {
    for (;;) {
        slot *s = &l->slots[l->dealt % l->config.depth];
        if (l->dealt == l->total || (l->dealt_samples == 0 && s->state != SLOT_FREE)) return 0;
        ls_range range = l->ranges[l->dealt - l->base];
        if (l->dealt_samples == 0) {
            s->batch.count = s->left = range.count;
            s->status = LS_OK;
            s->replaced = 0;
            s->state = range.count ? SLOT_FILLING : SLOT_READY;
        }
        int64_t at = l->dealt_samples, left = range.count - at, most = portion(l, range.count);
        *j = (job){s, l->epoch, l->order + range.first + at, at, left < most ? left : most, NULL, 0};
        ls_range next = l->dealt + 1 < l->total ? l->ranges[l->dealt + 1 - l->base] : (ls_range){0, 0};
        if (next.count > at) {
            j->next = l->order + next.first + at;
            j->next_count = next.count - at < j->count ? next.count - at : j->count;
        }
        l->dealt_samples += j->count;
        if (l->dealt_samples == range.count) l->dealt++, l->dealt_samples = 0;
        if (range.count) return 1;
        pthread_cond_signal(&l->ready);
    }
}

// What a batch's sample is filled with, and how many of its samples were not what was asked for.
typedef struct filled {
    int64_t failed;  // the place in the batch of the sample that could not be read
    int64_t replaced;
    char why[512];
} filled;

static int is_broken(ls_status status) { return status == LS_STATUS_BAD_DATA || status == LS_STATUS_UNSUPPORTED; }

// The sample, or where it is broken one that stands in for it, into place `at`. Who does depends on the files alone.
static ls_status fill_sample(const worker *w, const job *j, int64_t wanted, int64_t at, filled *f) {
    const ls_loader *l = w->loader;
    ls_batch *b = &j->slot->batch;
    int64_t sample = wanted, count = l->config.split.count;
    ls_status status = ls_feeder_run(w->feeder, w->scratch, j->epoch, sample, b->feed, at);
    if (is_broken(status) && l->config.replace_broken) {
        char first[sizeof f->why];
        snprintf(first, sizeof first, "%s", ls_error_message());
        for (int n = 1; is_broken(status) && n < MOST_BROKEN && n < count; n++) {
            sample = (wanted + n) % count;
            status = ls_feeder_run(w->feeder, w->scratch, j->epoch, sample, b->feed, at);
        }
        if (status == LS_OK && f->replaced++ == 0) memcpy(f->why, first, sizeof first);
    }
    b->samples[at] = (uint64_t)sample;
    return status;
}

// So that reads of a whole batch are under way while the one before is decoded. Of an epoch's first batch they are not.
static void ask_ahead(const worker *w, const job *j) {
    const ls_source *source = w->loader->config.split.source;
    for (int64_t i = 0; source->ops->ahead && i < j->next_count; i++) source->ops->ahead(source, j->next[i]);
}

// On failure, failed is the place in the batch of the sample that could not be read. Outside the mutex.
static ls_status fill(const worker *w, const job *j, filled *f) {
    ask_ahead(w, j);
    for (int64_t i = 0; i < j->count; i++) {
        if (atomic_load_explicit(&w->loader->dropping, memory_order_relaxed)) return LS_OK;
        f->failed = j->at + i;
        LS_TRY(fill_sample(w, j, j->order[i], j->at + i, f));
    }
    return LS_OK;
}

// Of several failures the first in the batch is kept, whoever was faster. Under the mutex.
static void end_job(ls_loader *l, const job *j, ls_status status, const filled *f) {
    slot *s = j->slot;
    if (f->replaced && s->replaced == 0) memcpy(s->why, f->why, sizeof s->why);
    s->replaced += f->replaced;
    if (status != LS_OK && (s->status == LS_OK || f->failed < s->failed)) {
        s->status = status;
        s->failed = f->failed;
        snprintf(s->message, sizeof s->message, "%s", ls_error_message());
    }
    s->left -= j->count;
    if (s->left == 0) s->state = SLOT_READY;
    l->filling--;
    pthread_cond_signal(&l->ready);
}

static void *run(void *argument) {
    worker *w = argument;
    ls_loader *l = w->loader;
    pthread_mutex_lock(&l->mutex);
    while (!l->stop) {
        job j;
        if (w->index >= l->pace.threads || !take_job(l, &j)) {
            pthread_cond_wait(&l->work, &l->mutex);
            continue;
        }
        ls_trace *trace = w->index == 0 && ls_trace_on(l->trace) ? l->trace : NULL;
        int name = l->trace_name;
        l->filling++;
        pthread_mutex_unlock(&l->mutex);
        double start = trace ? ls_clock() : 0;
        filled f = {.failed = 0};
        ls_status status = fill(w, &j, &f);
        if (trace) ls_trace_add(trace, name, 0, start, ls_clock());
        double reading, preparing;
        ls_feeder_spent(w->feeder, &reading, &preparing);
        pthread_mutex_lock(&l->mutex);
        l->reading += reading;
        l->preparing += preparing;
        end_job(l, &j, status, &f);
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

// ---- create and destroy --------------------------------------------------------------------------------------------

static ls_status check(const ls_loader_config *c) {
    if (c->micro_batch < 1 || c->depth < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "a loader was asked for %d micro-batches of %lld samples; both must be at least 1", c->depth,
                       (long long)c->micro_batch);
    if (c->threads < 0 || c->threads > MOST_THREADS)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a loader was asked for %d threads; there may be 1 to %d",
                       c->threads, MOST_THREADS);
    if (c->split.count < 0 || c->split.count > c->split.source->count)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "a loader was asked for the first %lld samples of %s, which has %lld", (long long)c->split.count,
                       c->split.source->name, (long long)c->split.source->count);
    return LS_OK;
}

// Signals are the main thread's business: a thread inherits the mask of the one that starts it.
static ls_status start_threads(ls_loader *l) {
    sigset_t all, before;
    int error = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (l->running < l->config.threads && !error) {
        error = pthread_create(&l->workers[l->running].thread, NULL, run, &l->workers[l->running]);
        if (!error) l->running++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return LS_FAIL(
            LS_STATUS_LIBRARY,
            "cannot start a loader thread: %s; allow this user more threads (ulimit -u) or addresses (ulimit -v)",
            strerror(error));
    return LS_OK;
}

static int thread_count(const ls_loader_config *c) { return c->threads ? c->threads : 1; }

// A slot's memory: samples, then the feeds.
static int64_t samples_bytes(const ls_loader_config *c) {
    return ls_round_up(c->micro_batch * (int64_t)sizeof(uint64_t), LS_ALIGN);
}
static int64_t feed_bytes(const ls_loader_config *c, int f) {
    return ls_round_up(c->micro_batch * ls_feed_bytes(&c->feed[f], c->split.source), LS_ALIGN);
}
static int64_t scratch_bytes(const ls_loader_config *c) {
    return ls_round_up(c->split.source->scratch_bytes, LS_ALIGN);
}

int64_t ls_loader_bytes(const ls_loader_config *c) {
    int64_t batch = samples_bytes(c);
    for (int f = 0; f < c->feed_count; f++) batch += feed_bytes(c, f);
    return c->depth * batch + thread_count(c) * scratch_bytes(c);
}

// Slot by slot, then the threads' scratch, of which this is the beginning.
static char *place_batches(ls_loader *l, char *memory) {
    const ls_loader_config *c = &l->config;
    for (int i = 0; i < c->depth; i++) {
        ls_batch *b = &l->slots[i].batch;
        b->samples = (uint64_t *)memory;
        memory += samples_bytes(c);
        for (int f = 0; f < c->feed_count; f++) {
            b->feed[f] = memory;
            memory += feed_bytes(c, f);
        }
    }
    return memory;
}

// Feeders come first: they say what is wrong with the feeds, which sizes go by.
static ls_status make_workers(ls_loader *l) {
    const ls_loader_config *c = &l->config;
    LS_TRY(ls_calloc(c->threads, sizeof *l->workers, &l->workers));
    for (int i = 0; i < c->threads; i++) {
        l->workers[i] = (worker){.loader = l, .index = i};
        LS_TRY(ls_feeder_create(c->feed, c->feed_count, c->split.source, &l->workers[i].feeder));
    }
    LS_TRY(ls_calloc(c->depth, sizeof *l->slots, &l->slots));
    if (!c->memory) LS_TRY(ls_memory_alloc(ls_loader_bytes(c), &l->memory));
    char *scratch = place_batches(l, c->memory ? c->memory : l->memory);
    for (int i = 0; i < c->threads; i++) l->workers[i].scratch = scratch + i * scratch_bytes(c);
    return LS_OK;
}

ls_status ls_loader_create(const ls_loader_config *config, ls_loader **out) {
    *out = NULL;
    LS_TRY(check(config));
    ls_loader *l;
    ls_status status;
    LS_TRY(ls_calloc(1, sizeof *l, &l));
    l->config = *config;
    l->config.threads = thread_count(config);
    l->pace = ls_pace_create(l->config.threads, l->config.depth, config->adapt);
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->ready, NULL);
    LS_TRY_GOTO(make_workers(l), fail);
    LS_TRY_GOTO(start_threads(l), fail);
    *out = l;
    return LS_OK;
fail:
    ls_loader_destroy(&l);
    return status;
}

void ls_loader_destroy(ls_loader **loader) {
    ls_loader *l = *loader;
    *loader = NULL;
    if (!l) return;
    pthread_mutex_lock(&l->mutex);
    l->stop = 1;
    atomic_store(&l->dropping, 1);
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->mutex);
    for (int i = 0; i < l->running; i++) pthread_join(l->workers[i].thread, NULL);
    for (int i = 0; l->workers && i < l->config.threads; i++) ls_feeder_destroy(&l->workers[i].feeder);
    pthread_cond_destroy(&l->ready);
    pthread_cond_destroy(&l->work);
    pthread_mutex_destroy(&l->mutex);
    ls_memory_free(l->memory);
    free(l->workers);
    free(l->slots);
    free(l);
}

// ---- how many threads ----------------------------------------------------------------------------------------------

int ls_loader_threads(ls_loader *l) {
    pthread_mutex_lock(&l->mutex);
    int threads = l->pace.threads;
    pthread_mutex_unlock(&l->mutex);
    return threads;
}

int ls_loader_measured(ls_loader *l) {
    pthread_mutex_lock(&l->mutex);
    int measured = l->pace.measured;
    pthread_mutex_unlock(&l->mutex);
    return measured;
}

// ---- serving -------------------------------------------------------------------------------------------------------

static ls_status check_ranges(const ls_loader *l, const uint32_t *order, const ls_range *ranges, int64_t range_count) {
    const ls_loader_config *c = &l->config;
    for (int64_t r = 0; r < range_count; r++) {
        if (ranges[r].count < 0 || ranges[r].count > c->micro_batch || ranges[r].first < 0)
            return LS_FAIL(
                LS_STATUS_INVALID_ARGUMENT,
                "a loader with room for %lld samples was asked for %lld from position %lld on; ask for fewer",
                (long long)c->micro_batch, (long long)ranges[r].count, (long long)ranges[r].first);
        for (int64_t i = ranges[r].first; i < ranges[r].first + ranges[r].count; i++)
            if (order[i] >= c->split.count)
                return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                               "a loader was asked for sample %u of a dataset of %lld; samples count from 0", order[i],
                               (long long)c->split.count);
    }
    return LS_OK;
}

void ls_loader_record(ls_loader *l, ls_trace *trace, int name) {
    pthread_mutex_lock(&l->mutex);
    l->trace = trace;
    l->trace_name = name;
    pthread_mutex_unlock(&l->mutex);
}

ls_status ls_loader_start(ls_loader *l, uint32_t epoch, const uint32_t *order, const ls_range *ranges,
                          int64_t range_count) {
    LS_TRY(check_ranges(l, order, ranges, range_count));
    pthread_mutex_lock(&l->mutex);
    int64_t left = l->total - l->taken;
    if (left == 0) {
        l->epoch = epoch;
        l->order = order;
        l->ranges = ranges;
        l->base = l->total;
        l->total += range_count;
        ls_pace_start(&l->pace);
        pthread_cond_broadcast(&l->work);
    }
    pthread_mutex_unlock(&l->mutex);
    if (left)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "an epoch was begun with %lld micro-batches of the previous one left; take them first",
                       (long long)left);
    return LS_OK;
}

void ls_loader_cancel(ls_loader *l) {
    pthread_mutex_lock(&l->mutex);
    if (l->dealt_samples) l->dealt++;  // the rest of a batch is not handed out either
    l->dealt_samples = 0;
    l->total = l->dealt;  // nothing new is begun
    atomic_store(&l->dropping, 1);
    while (l->filling) pthread_cond_wait(&l->ready, &l->mutex);
    atomic_store(&l->dropping, 0);
    for (int i = 0; i < l->config.depth; i++) l->slots[i].state = SLOT_FREE;
    l->taken = l->dealt;
    pthread_mutex_unlock(&l->mutex);
}

// The sentence of a batch that could not be read, in the thread that wanted it.
static ls_status batch_failed(ls_status status, const char *message) {
    ls__error_set(message);
    return ls__fail_passed(status, __FILE__, __LINE__);
}

ls_status ls_loader_get(ls_loader *l, ls_batch **out, double *waited) {
    ls_status status = LS_OK;
    char message[sizeof l->slots->message];
    *out = NULL;
    if (waited) *waited = 0;
    pthread_mutex_lock(&l->mutex);
    slot *s = &l->slots[l->taken % l->config.depth];
    int over = l->taken == l->total, all_out = s->state == SLOT_TAKEN;
    if (!over && !all_out) {
        double start = ls_clock(), now = start;
        if (s->state != SLOT_READY) {
            while (s->state != SLOT_READY) pthread_cond_wait(&l->ready, &l->mutex);
            now = ls_clock();
        }
        if (waited) *waited = now - start;
        if (ls_pace_take(&l->pace, now, now - start)) pthread_cond_broadcast(&l->work);
        l->taken++;
        status = s->status;
        if (status == LS_OK) {
            s->state = SLOT_TAKEN;
            *out = &s->batch;
            if (s->replaced && l->replaced == 0) memcpy(l->why, s->why, sizeof l->why);
            l->replaced += s->replaced;
        } else {
            memcpy(message, s->message, sizeof message);
            s->state = SLOT_FREE;
            pthread_cond_broadcast(&l->work);
        }
    }
    pthread_mutex_unlock(&l->mutex);
    if (over)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "all micro-batches of the epoch were taken; start the next epoch first");
    if (all_out)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "all %d micro-batches of the loader are borrowed; give one back first", l->config.depth);
    return status == LS_OK ? LS_OK : batch_failed(status, message);
}

int64_t ls_loader_replaced(const ls_loader *l, const char **why) {
    if (why) *why = l->why;
    return l->replaced;
}

void ls_loader_spent(ls_loader *l, double *reading, double *preparing) {
    pthread_mutex_lock(&l->mutex);
    *reading = l->reading;
    *preparing = l->preparing;
    pthread_mutex_unlock(&l->mutex);
}

void ls_loader_restore(ls_loader *l, ls_batch **batch) {
    if (!*batch) return;
    pthread_mutex_lock(&l->mutex);
    ((slot *)*batch)->state = SLOT_FREE;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->mutex);
    *batch = NULL;
}
