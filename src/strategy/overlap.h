// What the exchange's thread (overlap.c) and the lanes that wait for it (home.c) share.
#ifndef LS_STRATEGY_OVERLAP_H
#define LS_STRATEGY_OVERLAP_H

#include <pthread.h>

#include "strategy/strategy_impl.h"

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
    int ended;                 // its lanes that have come to the end of the step
    int inside;                // its lanes that have begun a step and not come to its end: those that compute, or wait
    int waiting;               // its lanes that wait for this thread now
    int reached;               // what in_order should have been in the latest step
    int peer, bucket,
        next;  // the rank that is waited for, -1: nobody, and for what: votes before bucket `next`, if it is no bucket
    ls_step_info info;  // of the step that was asked for last
    ls_status status;   // the first failure, and its sentence
    char failure[1024];
    _Atomic uint64_t
        *home;  // (bucket_count + 1): the step in which a bucket was home last; of the votes, whose decision is known
    // The thread's own:
    int in_order;
    ls_trace *trace;
    int trace_first;
    double seconds;  // ls_strategy_overlap_seconds
};

// Waits on a condition for so many seconds at most, with the lock held. 0, or ETIMEDOUT.
int ls__overlap_wait_some(ls_overlap *overlap, pthread_cond_t *condition, double seconds);

// What stands before "bucket B of N" where that is waited for; *bucket becomes B.
const char *ls__bucket_words(int *bucket, int next, int count);
// "bucket 3 of 12", or for what is no bucket "votes of other hosts before bucket 3 of 12", next being 3.
void ls__say_bucket(char *out, size_t size, int bucket, int next, int count);

// The first bucket that a lane of the host has not handed over in this step; the last one where all have.
int ls__overlap_awaited(const ls_strategy *s, uint64_t number);

// Whether what is counted by steps is at this one.
static inline int ls__is_at(const _Atomic uint64_t *mark, uint64_t number) {
    return atomic_load_explicit(mark, memory_order_acquire) >= number;
}

#endif
