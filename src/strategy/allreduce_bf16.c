// allreduce between hosts with LS_COMPRESS_BF16: sums travel both ways, new weights do not.
//
//     host 0: owner of a slice    <-- sums ---     host 1
//             adds up the tree    --- total -->    divides, updates
//             divides, updates
//
// The root of the tree is bf16, as all of its nodes are, and a weight is not. So what owners send to all hosts is the total, as it is, in half the
// bytes of the weights it makes; every host divides and updates everything itself, spread over its lanes. The weights are those of allreduce.c bit for
// bit; the price is that each host keeps the optimizer's state once, and updates all of it.
//
// Each worker of the job owns the sums of a run of every bucket, cut as allreduce.c cuts slices; who speaks to whom is as there, too: on another
// host the worker whose place is the owner's sends it that host's sums, and takes the total into memory that its host shares.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "strategy/strategy_impl.h"

typedef enum stage { IDLE, SUMS_AWAITED, TOTALS_AWAITED } stage;

// What is on its way of a bucket, sent and received.
typedef struct messages {
    ls_messages sums, totals;
    stage stage;
    ls_status status;  // of what lanes waited for before the bucket's turn
} messages;

typedef struct allreduce {
    ls_owners owners;  // of sums
    ls_totals totals;
    messages *messages;  // (bucket_count)
} allreduce;

static allreduce *impl_of(const ls_strategy *s) { return s->impl; }

// --- planning --------------------------------------------------------------------------------------------------------

static void destroy(ls_strategy *s) {
    allreduce *a = impl_of(s);
    for (int b = 0; a->messages && b < s->bucket_count; b++) {
        free(a->messages[b].sums.requests);
        free(a->messages[b].totals.requests);
    }
    free(a->messages);
    ls__owners_free(&a->owners);
    free(a);
}

static ls_status plan(ls_strategy *s) {
    const ls_comm *comm = s->config.comm;
    allreduce *a;
    LS_TRY(ls_calloc(1, sizeof *a, &a));
    s->impl = a;
    LS_TRY(ls__owners_find(s, ls__owners_all, &a->owners));
    int64_t most = comm->hosts + a->owners.served_count;
    LS_TRY(ls_calloc(s->bucket_count, sizeof *a->messages, &a->messages));
    for (int b = 0; b < s->bucket_count; b++) {
        LS_TRY(ls_calloc(most, sizeof(ls_request), &a->messages[b].sums.requests));
        LS_TRY(ls_calloc(most, sizeof(ls_request), &a->messages[b].totals.requests));
    }
    return ls__totals_want(s, &a->totals);
}

// --- messages --------------------------------------------------------------------------------------------------------

// The totals that this host has from the owners whom this worker speaks to.
static ls_status receive_totals(ls_strategy *s, int bucket) {
    allreduce *a = impl_of(s);
    for (int i = 0; i < a->owners.served_count; i++) {
        ls_slice theirs = a->owners.served[i].slices[bucket];
        LS_TRY(ls__receive(s, &a->messages[bucket].totals, ls__total_at(s, &a->totals, theirs.begin).host,
                           ls__slice_length(theirs), ls__sum_dtype(s), a->owners.served[i].rank,
                           ls__tag(LS_MESSAGE_MEAN, bucket)));
    }
    return LS_OK;
}

static ls_status send_total(ls_strategy *s, int bucket) {
    allreduce *a = impl_of(s);
    ls_slice mine = a->owners.slices[bucket];
    const ls_comm *comm = s->config.comm;
    for (int i = 1; i < comm->hosts; i++)
        LS_TRY(ls__send(s, &a->messages[bucket].totals, ls__total_at(s, &a->totals, mine.begin).host,
                        ls__slice_length(mine), ls__sum_dtype(s),
                        a->owners.remotes[(comm->host + i) % comm->hosts].rank, ls__tag(LS_MESSAGE_MEAN, bucket)));
    return LS_OK;
}

// --- phases ----------------------------------------------------------------------------------------------------------

static ls_status reduce_begin(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    allreduce *a = impl_of(s);
    messages *m = &a->messages[bucket];
    ls_status status = LS_OK;
    if (step->replica == 0) {
        m->stage = SUMS_AWAITED;
        status = ls__owners_receive(s, &a->owners, step->info->micro_batches, bucket, &m->sums);
        ls__keep(&status, receive_totals(s, bucket));
    }
    ls__keep(&status, ls__owners_send(step, &a->owners, bucket, &m->sums));
    return status;
}

// Of what this worker owns: what this host's lanes hold, and what has come.
static ls_status add_up(ls_lane_step *step, int bucket) {
    const allreduce *a = impl_of(step->strategy);
    ls__owners_sources(step, &a->owners, bucket);
    return ls__totals_add_up(step, &a->totals, a->owners.slices[bucket].begin, a->owners.slices[bucket].end);
}

// Of every bucket whose sums have come the total goes out, whoever is asked about: its turn may be later.
static ls_status go_on(ls_lane_step *step) {
    ls_strategy *s = step->strategy;
    allreduce *a = impl_of(s);
    for (int b = 0; b < s->bucket_count; b++) {
        messages *m = &a->messages[b];
        int pending;
        if (m->stage != SUMS_AWAITED) continue;
        LS_TRY(ls_comm_test_all(s->config.comm, m->sums.requests, m->sums.count, &pending));
        if (pending >= 0) continue;
        m->sums.count = 0;
        m->stage = TOTALS_AWAITED;
        LS_TRY(add_up(step, b));
        LS_TRY(send_total(s, b));
        ls__lap(step->times, LS_STEP_SEND);
    }
    return LS_OK;
}

// What every worker of this host takes has to be there.
static ls_status arrived(ls_lane_step *step, int bucket, int *peer) {
    ls_strategy *s = step->strategy;
    messages *m = &impl_of(s)->messages[bucket];
    int sums = 1;
    *peer = -1;
    while (sums) {  // again where the last of them have come since go_on() has looked
        int pending;
        LS_TRY(go_on(step));
        sums = m->stage == SUMS_AWAITED;
        ls_messages *awaited = sums ? &m->sums : &m->totals;
        LS_TRY(ls_comm_test_all(s->config.comm, awaited->requests, awaited->count, &pending));
        if (pending < 0) continue;
        *peer = awaited->requests[pending].peer;
        return LS_OK;
    }
    m->totals.count = 0;
    ls__totals_home(step, &impl_of(s)->totals, bucket, peer);
    return LS_OK;
}

// What go_on() does, of all buckets and by all replicas, who wait for it: all totals are on their way before the first one is waited for.
static ls_status send_totals(ls_lane_step *step) {
    ls_strategy *s = step->strategy;
    ls_status status = LS_OK;
    for (int b = 0; b < s->bucket_count; b++) {
        messages *m = &impl_of(s)->messages[b];
        if (step->replica == 0) m->status = ls__wait_messages(s, &m->sums);
        ls__meet(step, LS_STEP_SEND);
        ls__keep(&status, add_up(step, b));
        ls__meet(step, LS_STEP_WAIT);
        if (step->replica == 0) ls__keep(&m->status, send_total(s, b));
    }
    return status;
}

// What arrived() does, likewise, of bucket after bucket.
static ls_status wait_for_total(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    messages *m = &impl_of(s)->messages[bucket];
    ls_status status = bucket == 0 ? send_totals(step) : LS_OK;
    if (step->replica == 0) {
        ls__keep(&status, m->status);
        ls__keep(&status, ls__wait_messages(s, &m->totals));
        m->stage = IDLE;
    }
    ls__wait(s->host_barrier, step->times, LS_STEP_SEND);
    return status;
}

static ls_status reduce_end(ls_lane_step *step, int bucket) {
    ls_status status = step->alone ? LS_OK : wait_for_total(step, bucket);
    ls__totals_source(step, &impl_of(step->strategy)->totals, bucket);
    return status;
}

const ls_strategy_ops ls__strategy_allreduce_bf16 = {
    .name = "allreduce",
    .help = "allreduce between hosts of sums alone",
    .synchronous = 1,
    .weights_shared = 1,
    .plan = plan,
    .destroy = destroy,
    .slice = ls__owners_each_host,
    .reduce_begin = reduce_begin,
    .arrived = arrived,
    .reduce_end = reduce_end,
};
