// Lanes that wait for the exchange's thread: for all that it does, for the votes, or for the weights that they read next.
#define _GNU_SOURCE
#include <errno.h>

#include "base/error.h"
#include "base/watch.h"
#include "strategy/overlap.h"

#define WATCH_SECONDS 0.2  // of waiting before the watch is told whom for

// The main thread tells the watch what it waits for. Returns whether that is another worker.
static int begin_watch(ls_overlap *o, uint64_t number) {
    char text[64];
    int count = o->strategy->bucket_count, named = o->peer >= 0;
    int bucket = named ? o->bucket : ls__overlap_awaited(o->strategy, number);
    if (named) {
        ls__say_bucket(text, sizeof text, bucket, o->next, count);
        ls_watch_begin(text, o->peer);
        return 1;
    }
    const char *words = ls__bucket_words(&bucket, o->next, count);
    ls_watch_within(words, bucket, count);
    ls_watch_begin_replicas();
    ls_watch_within(NULL, 0, 0);
    return 0;
}

static int is_there(const _Atomic uint64_t *mark, uint64_t number) { return mark && ls__is_at(mark, number); }

// Until the mark is at a step, or the thread is through with it, where communication has failed before it was. NULL: until the latter. Returns, for
// the main thread, what has failed in the step that the thread is through with.
static ls_status wait_until(ls_overlap *o, int replica, const _Atomic uint64_t *mark, uint64_t number) {
    int watched = 0, named = 0;
    ls_status status = LS_OK;
    pthread_mutex_lock(&o->lock);
    o->waiting++;
    while (o->finished < number && !is_there(mark, number))
        if (named || replica != 0) {
            pthread_cond_wait(&o->done, &o->lock);
        } else if (ls__overlap_wait_some(o, &o->done, WATCH_SECONDS) == ETIMEDOUT && o->finished < number &&
                   !is_there(mark, number) && (!watched || o->peer >= 0)) {
            named = begin_watch(o, number);
            watched = 1;
        }
    o->waiting--;
    if (replica == 0 && o->finished >= number && o->status != LS_OK) {
        status = o->status;
        ls__error_set(o->failure);
    }
    pthread_mutex_unlock(&o->lock);
    if (watched) ls_watch_end();
    return status;
}

static int is_through(ls_overlap *o, uint64_t number) {
    pthread_mutex_lock(&o->lock);
    int through = o->finished >= number;
    pthread_mutex_unlock(&o->lock);
    return through;
}

ls_status ls__overlap_wait(ls_lane_step *step) {
    ls_status status = wait_until(step->strategy->overlap, step->replica, NULL, step->number);
    ls__lap(step->times, LS_STEP_SEND);
    return status;
}

int ls__overlap_decided(ls_lane_step *step) {
    ls_overlap *o = step->strategy->overlap;
    const _Atomic uint64_t *mark = &o->home[step->strategy->bucket_count];
    if (!ls__is_at(mark, step->number)) wait_until(o, step->replica, mark, step->number);
    ls__lap(step->times, step->strategy->config.comm->hosts > 1 ? LS_STEP_SEND : LS_STEP_WAIT);
    return ls__is_at(mark, step->number);
}

int ls__overlap_reached(ls_strategy *s) {
    pthread_mutex_lock(&s->overlap->lock);
    int reached = s->overlap->reached;
    pthread_mutex_unlock(&s->overlap->lock);
    return reached;
}

int ls_strategy_is_early(const ls_strategy *s) { return ls__early(s); }

void ls_strategy_begin(ls_strategy *s, int replica) {
    (void)replica;  // whichever it is
    if (!ls__early(s)) return;
    pthread_mutex_lock(&s->overlap->lock);
    s->overlap->inside++;
    pthread_mutex_unlock(&s->overlap->lock);
}

// The bucket that an element lies in.
static int bucket_of(const ls_strategy *s, int64_t element) {
    int first = 0, last = s->bucket_count - 1;
    while (first < last) {
        int middle = (first + last) / 2;
        if (element < s->bucket_ends[middle])
            last = middle;
        else
            first = middle + 1;
    }
    return first;
}

// The first bucket of these elements that is not home; -1: all are.
static int first_away(const ls_strategy *s, int64_t offset, int64_t count, uint64_t number) {
    if (count <= 0) return -1;
    for (int b = bucket_of(s, offset), last = bucket_of(s, offset + count - 1); b <= last; b++)
        if (!ls__is_at(&s->overlap->home[b], number)) return b;
    return -1;
}

int ls_strategy_is_home(const ls_strategy *s, int replica, int64_t offset, int64_t count) {
    return !ls__early(s) || first_away(s, offset, count, (uint64_t)s->lane[replica]->steps) < 0;
}

void ls_strategy_await(ls_strategy *s, int replica, int64_t offset, int64_t count, ls_step_times *times) {
    uint64_t number = (uint64_t)s->lane[replica]->steps;
    if (!ls__early(s)) return;
    for (int b; (b = first_away(s, offset, count, number)) >= 0 && !ls__overlap_broken(s, number);)
        wait_until(s->overlap, replica, &s->overlap->home[b], number);
    ls__lap(times, LS_STEP_GATHER);
}

ls_status ls_strategy_home(ls_strategy *s, int replica, ls_queue *queue, ls_step_times *times) {
    ls_lane_step step = {.strategy = s, .lane = s->lane[replica], .replica = replica, .queue = queue};
    if (!ls__early(s)) return LS_OK;
    int through = is_through(s->overlap, (uint64_t)step.lane->steps);
    ls_status status = wait_until(s->overlap, replica, NULL, (uint64_t)step.lane->steps);
    if (s->config.find_not_finite) ls__keep(&status, ls__read_found(&step));
    if (times && !through) ls__lap(times, LS_STEP_GATHER);
    return status;
}
