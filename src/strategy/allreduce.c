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

// A worker of another host whose slices this worker serves.
typedef struct served {
    int rank;
    ls_slice *slices;  // (bucket_count)
    char *partials;    // (host_pieces, length) of each slice behind one another, as sent: what this host has for it
} served;

// Another host, as this worker's own slices see it.
typedef struct remote {
    int rank;            // the worker there that serves this worker's slices
    ls_window partials;  // as above: what that host has for them; none on this worker's own host
} remote;

// Messages on their way.
typedef struct messages {
    ls_request *requests;
    int count;
} messages;

typedef struct allreduce {
    ls_slice *slices;  // (bucket_count): this worker's
    served *served;    // (served_count)
    int served_count;
    remote *remotes;     // (hosts); NULL: there is one
    messages *messages;  // (bucket_count): of each bucket
    messages shared;     // of sums of squares, of all buckets
} allreduce;

static allreduce *impl_of(const ls_strategy *s) { return s->impl; }

void ls__owners_all(const ls_strategy *s, int lane, int bucket, int64_t *begin, int64_t *end) {
    ls__share(ls__bucket_begin(s, bucket), s->bucket_ends[bucket], lane, s->lanes, begin, end);
}

static void slices_of_worker(const ls_strategy *s, int position, ls_slice *slices) {
    int replicas = s->config.replicas;
    ls__slices(s, position * replicas, (position + 1) * replicas - 1, slices);
}

// The position of the worker on `host` that serves the slices of the worker at `position`.
static int server(const ls_strategy *s, int host, int position) {
    int owner_host = s->config.comm->host_of[s->config.comm->order[position]];
    int place = position - s->host_first[owner_host];
    return s->host_first[host] + place % (s->host_first[host + 1] - s->host_first[host]);
}

void ls__owners_destroy(ls_strategy *s) {
    allreduce *a = impl_of(s);
    for (int i = 0; i < a->served_count; i++) free(a->served[i].slices);
    for (int b = 0; a->messages && b < s->bucket_count; b++) free(a->messages[b].requests);
    free(a->shared.requests);
    free(a->slices);
    free(a->served);
    free(a->remotes);
    free(a->messages);
    free(a);
}

static ls_status plan_served(ls_strategy *s) {
    allreduce *a = impl_of(s);
    ls_comm *comm = s->config.comm;
    LS_TRY(ls_calloc(comm->size, sizeof *a->served, &a->served));
    for (int i = 0; i < comm->size; i++) {
        int position = (s->host_first[comm->host + 1] + i) % comm->size, rank = comm->order[position];
        if (comm->host_of[rank] == comm->host || server(s, comm->host, position) != comm->position) continue;
        served *to = &a->served[a->served_count];
        LS_TRY(ls_calloc(s->bucket_count, sizeof *to->slices, &to->slices));
        a->served_count++;
        to->rank = rank;
        slices_of_worker(s, position, to->slices);
        int64_t length = ls__slices_length(s, to->slices);
        LS_TRY(ls__want(s, LS_STRATEGY_SUMS, LS_WORKER, s->host_pieces * length * ls__sum_bytes(s), &to->partials));
        s->reads += length;
    }
    return LS_OK;
}

// What only jobs of several hosts need.
static ls_status plan_remote(ls_strategy *s) {
    allreduce *a = impl_of(s);
    ls_comm *comm = s->config.comm;
    LS_TRY(ls_calloc(comm->hosts, sizeof *a->remotes, &a->remotes));
    for (int host = 0; host < comm->hosts; host++) {
        if (host == comm->host) continue;
        a->remotes[host].rank = comm->order[server(s, host, comm->position)];
        LS_TRY(ls__want_window(s, LS_STRATEGY_SUMS, LS_WORKER,
                               s->host_pieces * ls__slices_length(s, a->slices) * ls__sum_bytes(s),
                               &a->remotes[host].partials));
    }
    LS_TRY(plan_served(s));
    int64_t maximum = comm->hosts + a->served_count;
    LS_TRY(ls_calloc(s->bucket_count, sizeof *a->messages, &a->messages));
    for (int b = 0; b < s->bucket_count; b++) LS_TRY(ls_calloc(maximum, sizeof(ls_request), &a->messages[b].requests));
    return ls_calloc(maximum * s->bucket_count, sizeof(ls_request), &a->shared.requests);
}

ls_status ls__owners_plan(ls_strategy *s) {
    allreduce *a;
    LS_TRY(ls_calloc(1, sizeof *a, &a));
    s->impl = a;
    LS_TRY(ls_calloc(s->bucket_count, sizeof *a->slices, &a->slices));
    slices_of_worker(s, s->config.comm->position, a->slices);
    s->reads = ls__slices_length(s, a->slices);
    return s->config.comm->hosts > 1 ? plan_remote(s) : LS_OK;
}

// --- messages --------------------------------------------------------------------------------------------------------

// `count` elements from or to `rank`, unless there are none.
static ls_status receive(ls_comm *comm, messages *m, void *data, int64_t count, ls_dtype dtype, int rank, int tag) {
    if (count == 0) return LS_OK;
    LS_TRY(ls_comm_irecv(comm, data, count, dtype, rank, tag, &m->requests[m->count]));
    m->count++;
    return LS_OK;
}

static ls_status send(ls_comm *comm, messages *m, const void *data, int64_t count, ls_dtype dtype, int rank, int tag) {
    if (count == 0) return LS_OK;
    LS_TRY(ls_comm_isend(comm, data, count, dtype, rank, tag, &m->requests[m->count]));
    m->count++;
    return LS_OK;
}

static ls_status wait_for(ls_comm *comm, messages *m) {
    int count = m->count;
    m->count = 0;
    return ls_comm_wait_all(comm, m->requests, count);
}

// What another host has for this worker's slice of a bucket.
static ls_window received_at(const ls_strategy *s, int host, int bucket) {
    const allreduce *a = impl_of(s);
    return ls__window_at(a->remotes[host].partials, s->host_pieces * a->slices[bucket].first * ls__sum_bytes(s));
}

static ls_status receive_partials(ls_strategy *s, int64_t micro_batches, int bucket) {
    allreduce *a = impl_of(s);
    ls_comm *comm = s->config.comm;
    ls_slice mine = a->slices[bucket];
    for (int host = 0; host < comm->hosts; host++) {
        if (host == comm->host) continue;
        int64_t count = ls__host_piece_count(s, micro_batches, host) * ls__slice_length(mine);
        LS_TRY(receive(comm, &a->messages[bucket], received_at(s, host, bucket).host, count, ls__sum_dtype(s),
                       a->remotes[host].rank, ls__tag(LS_MESSAGE_GRADIENTS, bucket)));
    }
    return LS_OK;
}

static void *partials_of(const ls_strategy *s, const served *to, int bucket) {
    return to->partials + s->host_pieces * to->slices[bucket].first * ls__sum_bytes(s);
}

// Where a host with one sum has elements from `at` on: it is sent from there, without a copy. NULL: there are several, or messages do not
// reach or have it as it is. Nobody writes it before the step's weights are home, and with them this message has gone.
static const void *only_sum(const ls_lane_step *step, int64_t at) {
    const ls_strategy *s = step->strategy;
    ls_source *sources = step->lane->sources;
    if (ls__rounds(s) || !ls__host_memory(s)) return NULL;
    if (ls__host_sources(s, step->info->micro_batches, sources) != 1) return NULL;
    return ls__window_at(sources[0].data, (at - sources[0].first) * (int64_t)sizeof(float)).host;
}

static ls_status send_partials(const ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    allreduce *a = impl_of(s);
    ls_comm *comm = s->config.comm;
    int pieces = ls__host_piece_count(s, step->info->micro_batches, comm->host);
    for (int i = 0; i < a->served_count; i++) {
        const served *to = &a->served[i];
        ls_slice theirs = to->slices[bucket];
        const void *sum = only_sum(step, theirs.begin);
        LS_TRY(send(comm, &a->messages[bucket], sum ? sum : partials_of(s, to, bucket),
                    pieces * ls__slice_length(theirs), ls__sum_dtype(s), to->rank,
                    ls__tag(LS_MESSAGE_GRADIENTS, bucket)));
    }
    return LS_OK;
}

// What there is of this worker's slice of a bucket goes to every host, that of foreign slices comes straight into the host's
// `whole`, which has `per_unit` elements of dtype for each LS_SLICE_ALIGN elements of the vector.
static ls_status exchange_slices(ls_strategy *s, messages *m, int bucket, void *whole, ls_dtype dtype, int per_unit,
                                 ls_message message) {
    allreduce *a = impl_of(s);
    ls_comm *comm = s->config.comm;
    int64_t size = ls_dtype_size(dtype);
    int tag = ls__tag(message, bucket);
    for (int i = 0; i < a->served_count; i++) {
        ls_slice theirs = a->served[i].slices[bucket];
        int64_t from = theirs.begin / LS_SLICE_ALIGN * per_unit, to = theirs.end / LS_SLICE_ALIGN * per_unit;
        LS_TRY(receive(comm, m, (char *)whole + from * size, to - from, dtype, a->served[i].rank, tag));
    }
    ls_slice mine = a->slices[bucket];
    int64_t from = mine.begin / LS_SLICE_ALIGN * per_unit, to = mine.end / LS_SLICE_ALIGN * per_unit;
    for (int i = 1; i < comm->hosts; i++) {
        const remote *there = &a->remotes[(comm->host + i) % comm->hosts];
        LS_TRY(send(comm, m, (char *)whole + from * size, to - from, dtype, there->rank, tag));
    }
    return LS_OK;
}

// --- phases ----------------------------------------------------------------------------------------------------------

// Partial sums of foreign slices go out, those of this worker's slice come in.
ls_status ls__owners_reduce_begin(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    allreduce *a = impl_of(s);
    ls_status status = LS_OK;
    if (!a->remotes) return LS_OK;
    if (step->replica == 0) status = receive_partials(s, step->info->micro_batches, bucket);
    for (int i = 0; i < a->served_count; i++) {
        const served *to = &a->served[i];
        ls_slice theirs = to->slices[bucket];
        if (only_sum(step, theirs.begin)) continue;
        ls__keep(&status, ls__host_partials(step, theirs.begin, theirs.end, partials_of(s, to, bucket)));
    }
    ls__keep(&status, ls_synchronize(step->queue));
    ls__lap(step->times, LS_STEP_SUM);
    ls__meet(step, LS_STEP_WAIT);
    if (step->replica == 0) {
        ls__keep(&status, send_partials(step, bucket));
        ls__lap(step->times, LS_STEP_SEND);
    }
    return status;
}

ls_status ls__owners_arrived(ls_lane_step *step, int bucket, int *peer) {
    allreduce *a = impl_of(step->strategy);
    int pending = -1;
    if (a->remotes) {
        const messages *m = &a->messages[bucket];
        LS_TRY(ls_comm_test_all(step->strategy->config.comm, m->requests, m->count, &pending));
        if (pending >= 0) pending = m->requests[pending].peer;
    }
    *peer = pending;
    return LS_OK;
}

// The whole tree over the lane's slice: what this host's lanes hold, and what came from the others.
ls_status ls__owners_reduce_end(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    allreduce *a = impl_of(s);
    ls_lane *lane = step->lane;
    ls_comm *comm = s->config.comm;
    int64_t micro_batches = step->info->micro_batches;
    ls_slice mine = a->slices[bucket];
    ls_status status = LS_OK;
    if (a->remotes) {
        if (step->replica == 0) status = wait_for(comm, &a->messages[bucket]);
        ls__meet(step, LS_STEP_SEND);
    }
    lane->source_count = 0;
    for (int host = 0; host < comm->hosts; host++) {
        ls_source *sources = lane->sources + lane->source_count;
        lane->source_count += host == comm->host || !a->remotes
                                  ? ls__host_sources(s, micro_batches, sources)
                                  : ls__received_sources(s, micro_batches, host, host + 1, received_at(s, host, bucket),
                                                         mine.begin, ls__slice_length(mine), sources);
    }
    return status;
}

ls_status ls__owners_share(ls_lane_step *step, double *units, int columns) {
    ls_strategy *s = step->strategy;
    allreduce *a = impl_of(s);
    ls_status status = LS_OK;
    if (!a->remotes) return LS_OK;
    ls_barrier_wait(s->worker_barrier);
    if (step->replica != 0) return LS_OK;
    for (int b = 0; b < s->bucket_count; b++)
        ls__keep(&status, exchange_slices(s, &a->shared, b, units, LS_DTYPE_U8, columns * (int)sizeof *units,
                                          LS_MESSAGE_SQUARES));
    ls__keep(&status, wait_for(s->config.comm, &a->shared));
    return status;
}

ls_status ls__owners_gather_begin(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    allreduce *a = impl_of(s);
    if (!a->remotes) return LS_OK;
    if (!step->alone) ls_barrier_wait(s->worker_barrier);
    if (step->replica != 0) return LS_OK;
    return exchange_slices(s, &a->messages[bucket], bucket, s->weights.host, LS_DTYPE_F32, LS_SLICE_ALIGN,
                           LS_MESSAGE_WEIGHTS);
}

ls_status ls__owners_gather_end(ls_lane_step *step, int bucket) {
    allreduce *a = impl_of(step->strategy);
    return a->remotes && step->replica == 0 ? wait_for(step->strategy->config.comm, &a->messages[bucket]) : LS_OK;
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
