// The loader: a thread that fills a ring of micro-batches ahead of training.
//
// Each slot of the ring goes around: free → (thread fills it) → ready → (get) → taken → (restore) → free. One mutex
// guards the states and counters; the filling itself happens outside it, for a slot being filled is nobody else's.
#define _GNU_SOURCE
#include "data/loader.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"

typedef enum slot_state { SLOT_FREE, SLOT_READY, SLOT_TAKEN } slot_state;

typedef struct slot {
    ls_batch batch;  // first, so that a batch's address is its slot's
    slot_state state;
} slot;

struct ls_loader {
    ls_loader_config config;
    ls_preparer *preparer;  // the thread's
    int64_t stored, bytes;  // of an image: in the dataset, in a batch
    slot *slots;            // (depth): micro-batch n of an epoch goes through slot n % depth, n counted over all epochs
    void *memory;           // of the batches, where it is the loader's own
    pthread_t thread;
    int running;  // the thread and what it waits on exist
    pthread_mutex_t mutex;
    pthread_cond_t work;   // the thread waits here: for an epoch, a free slot, or the end
    pthread_cond_t ready;  // get waits here
    // Under the mutex:
    uint32_t epoch;
    const uint32_t *order;
    const ls_range *ranges;
    int64_t base;         // micro-batches of earlier epochs
    int64_t total;        // ... and with this one's
    int64_t made, taken;  // over all epochs
    int filling;          // the thread is at work on a batch
    int stop;
    ls_trace *trace;  // where the thread records; NULL: nowhere
    int trace_name;
};

// ---- filling -------------------------------------------------------------------------------------------------------

static void fill(const ls_loader *l, uint32_t epoch, const uint32_t *order, ls_range range, ls_batch *out) {
    const ls_split *split = l->config.split;
    out->count = range.count;
    for (int64_t i = 0; i < range.count; i++) {
        int64_t sample = order[range.first + i];
        ls_preparer_run(l->preparer, split->images + sample * l->stored, epoch, (uint64_t)sample,
                        (char *)out->images + i * l->bytes);
        out->labels[i] = split->labels[sample];
        out->samples[i] = (uint64_t)sample;
    }
}

static void *run(void *argument) {
    ls_loader *l = argument;
    pthread_mutex_lock(&l->mutex);
    while (!l->stop) {
        slot *s = &l->slots[l->made % l->config.depth];
        if (l->made == l->total || s->state != SLOT_FREE) {
            pthread_cond_wait(&l->work, &l->mutex);
            continue;
        }
        uint32_t epoch = l->epoch;
        const uint32_t *order = l->order;
        ls_range range = l->ranges[l->made - l->base];
        ls_trace *trace = ls_trace_on(l->trace) ? l->trace : NULL;
        int name = l->trace_name;
        l->filling = 1;
        pthread_mutex_unlock(&l->mutex);
        double start = trace ? ls_clock() : 0;
        fill(l, epoch, order, range, &s->batch);
        if (trace) ls_trace_add(trace, name, 0, start, ls_clock());
        pthread_mutex_lock(&l->mutex);
        l->filling = 0;
        s->state = SLOT_READY;
        l->made++;
        pthread_cond_signal(&l->ready);
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

// ---- create and destroy --------------------------------------------------------------------------------------------

static ls_status check(const ls_loader_config *c) {
    if (c->dtype != LS_DTYPE_F32 && c->dtype != LS_DTYPE_BF16)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a loader makes fp32 or bf16 images, not %s; ask for one of these",
                       ls_dtype_name(c->dtype));
    if (c->micro_batch < 1 || c->depth < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "a loader was asked for %d micro-batches of %lld samples; both must be at least 1", c->depth,
                       (long long)c->micro_batch);
    return LS_OK;
}

// Signals are the main thread's business: a thread inherits the mask of the one that starts it.
static ls_status start_thread(ls_loader *l) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->ready, NULL);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&l->thread, NULL, run, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        pthread_cond_destroy(&l->ready);
        pthread_cond_destroy(&l->work);
        pthread_mutex_destroy(&l->mutex);
        return LS_FAIL(LS_STATUS_LIBRARY, "cannot start a loader thread: %s; allow this user more threads (ulimit -u)",
                       strerror(error));
    }
    l->running = 1;
    return LS_OK;
}

static int64_t image_bytes(const ls_loader_config *c) {
    return ls_shape_count(ls_recipe_shape(&c->recipe, c->image)) * (int64_t)ls_dtype_size(c->dtype);
}

// A slot's memory: samples, labels, images.
static int64_t samples_bytes(const ls_loader_config *c) {
    return ls_round_up(c->micro_batch * (int64_t)sizeof(uint64_t), LS_ALIGN);
}
static int64_t labels_bytes(const ls_loader_config *c) {
    return ls_round_up(c->micro_batch * (int64_t)sizeof(int32_t), LS_ALIGN);
}
static int64_t slot_bytes(const ls_loader_config *c) {
    return samples_bytes(c) + labels_bytes(c) + ls_round_up(c->micro_batch * image_bytes(c), LS_ALIGN);
}

int64_t ls_loader_bytes(const ls_loader_config *config) { return config->depth * slot_bytes(config); }

static void place_batches(ls_loader *l, char *memory) {
    const ls_loader_config *c = &l->config;
    for (int i = 0; i < c->depth; i++, memory += slot_bytes(c)) {
        ls_batch *b = &l->slots[i].batch;
        b->samples = (uint64_t *)memory;
        b->labels = (int32_t *)(memory + samples_bytes(c));
        b->images = memory + samples_bytes(c) + labels_bytes(c);
    }
}

ls_status ls_loader_create(const ls_loader_config *config, ls_loader **out) {
    *out = NULL;
    LS_TRY(check(config));
    ls_loader *l;
    ls_status status;
    LS_TRY(ls_calloc(1, sizeof *l, &l));
    l->config = *config;
    l->stored = ls_shape_count(config->image);
    l->bytes = image_bytes(config);
    LS_TRY_GOTO(ls_preparer_create(&config->recipe, config->image, config->dtype, &l->preparer), fail);
    LS_TRY_GOTO(ls_calloc(config->depth, sizeof *l->slots, &l->slots), fail);
    if (!config->memory) LS_TRY_GOTO(ls_memory_alloc(ls_loader_bytes(config), &l->memory), fail);
    place_batches(l, config->memory ? config->memory : l->memory);
    LS_TRY_GOTO(start_thread(l), fail);
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
    if (l->running) {
        pthread_mutex_lock(&l->mutex);
        l->stop = 1;
        pthread_cond_signal(&l->work);
        pthread_mutex_unlock(&l->mutex);
        pthread_join(l->thread, NULL);
        pthread_cond_destroy(&l->ready);
        pthread_cond_destroy(&l->work);
        pthread_mutex_destroy(&l->mutex);
    }
    ls_memory_free(l->memory);
    free(l->slots);
    ls_preparer_destroy(&l->preparer);
    free(l);
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
            if (order[i] >= c->split->count)
                return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                               "a loader was asked for sample %u of a dataset of %lld; samples count from 0", order[i],
                               (long long)c->split->count);
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
        pthread_cond_signal(&l->work);
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
    l->total = l->made + l->filling;  // nothing new is begun
    while (l->filling) pthread_cond_wait(&l->ready, &l->mutex);
    for (int i = 0; i < l->config.depth; i++) l->slots[i].state = SLOT_FREE;
    l->taken = l->made;
    pthread_mutex_unlock(&l->mutex);
}

ls_status ls_loader_get(ls_loader *l, ls_batch **out, double *waited) {
    *out = NULL;
    if (waited) *waited = 0;
    pthread_mutex_lock(&l->mutex);
    slot *s = &l->slots[l->taken % l->config.depth];
    int over = l->taken == l->total, all_out = s->state == SLOT_TAKEN;
    if (!over && !all_out) {
        double start = s->state != SLOT_READY && waited ? ls_clock() : 0;
        while (s->state != SLOT_READY) pthread_cond_wait(&l->ready, &l->mutex);
        if (waited && start > 0) *waited = ls_clock() - start;
        s->state = SLOT_TAKEN;
        l->taken++;
        *out = &s->batch;
    }
    pthread_mutex_unlock(&l->mutex);
    if (over)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "all micro-batches of the epoch were taken; start the next epoch first");
    if (all_out)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "all %d micro-batches of the loader are borrowed; give one back first", l->config.depth);
    return LS_OK;
}

void ls_loader_restore(ls_loader *l, ls_batch **batch) {
    if (!*batch) return;
    pthread_mutex_lock(&l->mutex);
    ((slot *)*batch)->state = SLOT_FREE;
    pthread_cond_signal(&l->work);
    pthread_mutex_unlock(&l->mutex);
    *batch = NULL;
}
