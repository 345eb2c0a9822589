// What halving.c and halving_plan.c share: with whom a worker exchanges which slices, round by round.
#ifndef LS_STRATEGY_HALVING_H
#define LS_STRATEGY_HALVING_H

#include "strategy/strategy_impl.h"

// Consecutive hosts.
typedef struct ls_host_group {
    int first, count;
} ls_host_group;

// What a worker gets from one other in a round, or sends to it: sums of slices. New weights, or totals, go back in the same memory.
typedef struct ls_parcel {
    int rank, column;
    ls_host_group of;  // the hosts whose sums they are
    int *owners;       // (owner_count): hosts, in order
    int owner_count;
    // (bucket_count, owner_count + 1): elements before each owner's slice; the last of all: how many there are.
    int64_t *starts;
    int64_t stride;  // bytes of memory for each element
    ls_window data;  // of what is sent: host memory
} ls_parcel;

typedef struct ls_halving_round {
    ls_host_group sibling;  // whose sums come
    ls_parcel *sends, *receives;
    int send_count, receive_count;
    int first_request;
} ls_halving_round;

typedef struct ls_halving {
    int columns;  // of the job: the most workers that a host has
    ls_halving_round *rounds;
    int round_count, request_count;
    // Of each bucket: messages on their way, those of a round behind one another.
    ls_request *requests;  // (bucket_count, request_count)
    int *pending;          // (bucket_count, round_count): how many there are
    int *round;            // (bucket_count): the first round that is not over
    char *gathers;         // (bucket_count): 1: weights or totals come, and no sums
    ls_totals totals;      // where these come
} ls_halving;

static inline ls_halving *ls__halving_of(const ls_strategy *s) { return s->impl; }
static inline int64_t *ls__parcel_starts(const ls_parcel *p, int bucket) {
    return p->starts + bucket * (p->owner_count + 1);
}

ls_status ls__halving_plan(ls_strategy *strategy);
void ls__halving_destroy(ls_strategy *strategy);
// What a host's worker in a column owns of a bucket.
void ls__halving_owned(const ls_strategy *strategy, int host, int column, int bucket, int64_t *begin, int64_t *end);

#endif
