// Reduce-scatter in tree order, sliced update, all-gather: the default.
//
// Each lane of the job owns a slice of each bucket: it adds up everyone's sums there, keeps the optimizer's state of it, and
// updates the weights of it in the vector its host shares. On one host nothing is sent: lanes read each other's gradients
// and write the one weights vector in place. Between hosts, the owners of slices get one message of partial sums from each other
// host and send one message of new weights to each, for each bucket and worker. On a host, the worker that *serves* a foreign
// slice does both for all: the one whose place on its host is the owner's (modulo the number of workers), so that the wires are
// shared evenly. Each host sends to the one after it first, and so on around: else all would send to the first host at once. These are
// the bytes of a bandwidth-optimal allreduce, if the hosts' runs of micro-batches are whole subtrees.
//
// Nothing but the table at the end says that every lane has a slice: mirrored.c, central.c and parameter_server.c have other owners.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "strategy/strategy_impl.h"

typedef struct allreduce {
    ls_owners owners;
    ls_messages *messages;  // (bucket_count): of each bucket; NULL: there is one host
    ls_messages shared;     // of sums of squares, of all buckets
} allreduce;

static allreduce *impl_of(const ls_strategy *s) { return s->impl; }

void ls__owners_destroy(ls_strategy *s) {
    allreduce *a = impl_of(s);
    for (int b = 0; a->messages && b < s->bucket_count; b++) free(a->messages[b].requests);
    free(a->shared.requests);
    free(a->messages);
    ls__owners_free(&a->owners);
    free(a);
}

ls_status ls__owners_plan(ls_strategy *s) {
    allreduce *a;
    LS_TRY(ls_calloc(1, sizeof *a, &a));
    s->impl = a;
    LS_TRY(ls__owners_find(s, s->ops->slice, &a->owners));
    if (s->config.comm->hosts == 1) return LS_OK;
    int64_t most = s->config.comm->hosts + a->owners.served_count;
    LS_TRY(ls_calloc(s->bucket_count, sizeof *a->messages, &a->messages));
    for (int b = 0; b < s->bucket_count; b++) LS_TRY(ls_calloc(most, sizeof(ls_request), &a->messages[b].requests));
    return ls_calloc(most * s->bucket_count, sizeof(ls_request), &a->shared.requests);
}

// What there is of this worker's slice of a bucket goes to every host, that of foreign slices comes straight into the host's
// `whole`, which has `per_unit` elements of dtype for each LS_SLICE_ALIGN elements of the vector.
static ls_status exchange_slices(ls_strategy *s, ls_messages *m, int bucket, void *whole, ls_dtype dtype, int per_unit,
                                 ls_message message) {
    const ls_owners *o = &impl_of(s)->owners;
    const ls_comm *comm = s->config.comm;
    int64_t size = ls_dtype_size(dtype);
    int tag = ls__tag(message, bucket);
    for (int i = 0; i < o->served_count; i++) {
        ls_slice theirs = o->served[i].slices[bucket];
        int64_t from = theirs.begin / LS_SLICE_ALIGN * per_unit, to = theirs.end / LS_SLICE_ALIGN * per_unit;
        LS_TRY(ls__receive(s, m, (char *)whole + from * size, to - from, dtype, o->served[i].rank, tag));
    }
    ls_slice mine = o->slices[bucket];
    int64_t from = mine.begin / LS_SLICE_ALIGN * per_unit, to = mine.end / LS_SLICE_ALIGN * per_unit;
    for (int i = 1; i < comm->hosts; i++) {
        const ls_remote *there = &o->remotes[(comm->host + i) % comm->hosts];
        LS_TRY(ls__send(s, m, (char *)whole + from * size, to - from, dtype, there->rank, tag));
    }
    return LS_OK;
}

// --- phases ----------------------------------------------------------------------------------------------------------

// Partial sums of foreign slices go out, those of this worker's slice come in.
ls_status ls__owners_reduce_begin(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    allreduce *a = impl_of(s);
    ls_status status = LS_OK;
    if (!a->messages) return LS_OK;
    if (step->replica == 0)
        status = ls__owners_receive(s, &a->owners, step->info->micro_batches, bucket, &a->messages[bucket]);
    ls__keep(&status, ls__owners_send(step, &a->owners, bucket, &a->messages[bucket]));
    return status;
}

ls_status ls__owners_arrived(ls_lane_step *step, int bucket, int *peer) {
    allreduce *a = impl_of(step->strategy);
    int pending = -1;
    if (a->messages) {
        const ls_messages *m = &a->messages[bucket];
        LS_TRY(ls_comm_test_all(step->strategy->config.comm, m->requests, m->count, &pending));
        if (pending >= 0) pending = m->requests[pending].peer;
    }
    *peer = pending;
    return LS_OK;
}

// The whole tree over the lane's slice.
ls_status ls__owners_reduce_end(ls_lane_step *step, int bucket) {
    allreduce *a = impl_of(step->strategy);
    ls_status status = LS_OK;
    if (a->messages) {
        if (step->replica == 0) status = ls__wait_messages(step->strategy, &a->messages[bucket]);
        ls__meet(step, LS_STEP_SEND);
    }
    ls__owners_sources(step, &a->owners, bucket);
    return status;
}

ls_status ls__owners_share(ls_lane_step *step, double *units, int columns) {
    ls_strategy *s = step->strategy;
    allreduce *a = impl_of(s);
    ls_status status = LS_OK;
    if (!a->messages) return LS_OK;
    ls_barrier_wait(s->worker_barrier);
    if (step->replica != 0) return LS_OK;
    for (int b = 0; b < s->bucket_count; b++)
        ls__keep(&status, exchange_slices(s, &a->shared, b, units, LS_DTYPE_U8, columns * (int)sizeof *units,
                                          LS_MESSAGE_SQUARES));
    ls__keep(&status, ls__wait_messages(s, &a->shared));
    return status;
}

ls_status ls__owners_gather_begin(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    allreduce *a = impl_of(s);
    if (!a->messages) return LS_OK;
    if (!step->alone) ls_barrier_wait(s->worker_barrier);
    if (step->replica != 0) return LS_OK;
    return exchange_slices(s, &a->messages[bucket], bucket, s->weights.host, LS_DTYPE_F32, LS_SLICE_ALIGN,
                           LS_MESSAGE_WEIGHTS);
}

ls_status ls__owners_gather_end(ls_lane_step *step, int bucket) {
    allreduce *a = impl_of(step->strategy);
    return a->messages && step->replica == 0 ? ls__wait_messages(step->strategy, &a->messages[bucket]) : LS_OK;
}

const ls_strategy_ops ls__strategy_allreduce = {
    LS_OWNERS_PHASES,
    .name = "allreduce",
    .help = "each lane sums and updates its slices of the parameters, then all gather them",
    .halving = &ls__strategy_allreduce_halving,
    .bf16 = &ls__strategy_allreduce_bf16,
    .topk = &ls__strategy_allreduce_topk,
    .slice = ls__owners_all,
};
