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

// A worker of another host: what this worker has for the sums that it owns, and takes of them.
typedef struct served {
    int rank;
    ls_slice *slices;  // (bucket_count)
    char *partials;    // (host_pieces, length) of each slice behind one another, as sent
} served;

// Another host, as the sums see it that this worker owns.
typedef struct remote {
    int rank;            // the worker there that speaks for it
    ls_window partials;  // as above: what that host has; none on this worker's own host
} remote;

typedef enum stage { IDLE, SUMS_AWAITED, TOTALS_AWAITED } stage;

// What is on its way of a bucket.
typedef struct messages {
    ls_request *sums, *totals;  // both sent and received
    int sum_count, total_count;
    stage stage;
} messages;

typedef struct totals {
    ls_slice *slices;  // (bucket_count): the sums this worker owns
    served *served;    // (served_count)
    int served_count;
    remote *remotes;     // (hosts)
    ls_window total;     // (length), of the host: of the whole tree, as sent
    messages *messages;  // (bucket_count)
    // With config.overlap: (bucket_count, local_size), of the host: the step in which a worker last had what it takes.
    _Atomic uint64_t *home;
} totals;

static totals *impl_of(const ls_strategy *s) { return s->impl; }

// The lanes of a host share its update.
static void slice(const ls_strategy *s, int lane, int bucket, int64_t *begin, int64_t *end) {
    const ls_comm *comm = s->config.comm;
    int host = comm->host_of[comm->order[lane / s->config.replicas]], replicas = s->config.replicas;
    ls__share(ls__bucket_begin(s, bucket), s->bucket_ends[bucket], lane - s->host_first[host] * replicas,
              (s->host_first[host + 1] - s->host_first[host]) * replicas, begin, end);
}

// The sums that the worker at `position` owns: (bucket_count).
static void owned(const ls_strategy *s, int position, ls_slice *slices) {
    int replicas = s->config.replicas;
    int64_t before = 0, unused;
    for (int b = 0; b < s->bucket_count; b++) {
        ls__owners_all(s, position * replicas, b, &slices[b].begin, &unused);
        ls__owners_all(s, (position + 1) * replicas - 1, b, &unused, &slices[b].end);
        slices[b].first = before;
        before += ls__slice_length(slices[b]);
    }
}

// The position of the worker on `host` that speaks to the owner at `position`.
static int speaker(const ls_strategy *s, int host, int position) {
    int owner_host = s->config.comm->host_of[s->config.comm->order[position]];
    int place = position - s->host_first[owner_host];
    return s->host_first[host] + place % (s->host_first[host + 1] - s->host_first[host]);
}

// --- planning --------------------------------------------------------------------------------------------------------

static void destroy(ls_strategy *s) {
    totals *a = impl_of(s);
    for (int i = 0; i < a->served_count; i++) free(a->served[i].slices);
    for (int b = 0; a->messages && b < s->bucket_count; b++) {
        free(a->messages[b].sums);
        free(a->messages[b].totals);
    }
    free(a->slices);
    free(a->served);
    free(a->remotes);
    free(a->messages);
    free(a);
}

static ls_status plan_served(ls_strategy *s) {
    totals *a = impl_of(s);
    ls_comm *comm = s->config.comm;
    LS_TRY(ls_calloc(comm->size, sizeof *a->served, &a->served));
    for (int i = 0; i < comm->size; i++) {
        int position = (s->host_first[comm->host + 1] + i) % comm->size, rank = comm->order[position];
        if (comm->host_of[rank] == comm->host || speaker(s, comm->host, position) != comm->position) continue;
        served *to = &a->served[a->served_count];
        LS_TRY(ls_calloc(s->bucket_count, sizeof *to->slices, &to->slices));
        a->served_count++;
        to->rank = rank;
        owned(s, position, to->slices);
        int64_t length = ls__slices_length(s, to->slices);
        LS_TRY(ls__want(s, LS_STRATEGY_SUMS, LS_WORKER, s->host_pieces * length * ls__sum_bytes(s), &to->partials));
        s->reads += length;
    }
    return LS_OK;
}

static ls_status plan_remotes(ls_strategy *s) {
    totals *a = impl_of(s);
    ls_comm *comm = s->config.comm;
    int64_t bytes = s->host_pieces * ls__slices_length(s, a->slices) * ls__sum_bytes(s);
    LS_TRY(ls_calloc(comm->hosts, sizeof *a->remotes, &a->remotes));
    for (int host = 0; host < comm->hosts; host++) {
        if (host == comm->host) continue;
        a->remotes[host].rank = comm->order[speaker(s, host, comm->position)];
        LS_TRY(ls__want_window(s, LS_STRATEGY_SUMS, LS_WORKER, bytes, &a->remotes[host].partials));
    }
    return LS_OK;
}

static ls_status plan(ls_strategy *s) {
    const ls_comm *comm = s->config.comm;
    totals *a;
    LS_TRY(ls_calloc(1, sizeof *a, &a));
    s->impl = a;
    LS_TRY(ls_calloc(s->bucket_count, sizeof *a->slices, &a->slices));
    owned(s, comm->position, a->slices);
    s->reads = ls__slices_length(s, a->slices);
    LS_TRY(plan_remotes(s));
    LS_TRY(plan_served(s));
    int64_t most = comm->hosts + a->served_count;
    LS_TRY(ls_calloc(s->bucket_count, sizeof *a->messages, &a->messages));
    for (int b = 0; b < s->bucket_count; b++) {
        LS_TRY(ls_calloc(most, sizeof(ls_request), &a->messages[b].sums));
        LS_TRY(ls_calloc(most, sizeof(ls_request), &a->messages[b].totals));
    }
    LS_TRY(ls__want_window(s, LS_STRATEGY_SUMS, LS_HOST, s->config.length * ls__sum_bytes(s), &a->total));
    if (!s->config.overlap) return LS_OK;
    return ls__want(s, LS_STRATEGY_SUMS, LS_HOST,
                    (int64_t)s->bucket_count * comm->local_size * (int64_t)sizeof *a->home, &a->home);
}

// --- messages --------------------------------------------------------------------------------------------------------

// `count` elements from or to `rank`, unless there are none.
static ls_status receive(ls_strategy *s, ls_request *requests, int *pending, void *data, int64_t count, int rank,
                         int tag) {
    if (count == 0) return LS_OK;
    LS_TRY(ls_comm_irecv(s->config.comm, data, count, ls__sum_dtype(s), rank, tag, &requests[*pending]));
    ++*pending;
    return LS_OK;
}

static ls_status send(ls_strategy *s, ls_request *requests, int *pending, const void *data, int64_t count, int rank,
                      int tag) {
    if (count == 0) return LS_OK;
    LS_TRY(ls_comm_isend(s->config.comm, data, count, ls__sum_dtype(s), rank, tag, &requests[*pending]));
    ++*pending;
    return LS_OK;
}

static void *partials_of(const ls_strategy *s, const served *to, int bucket) {
    return to->partials + s->host_pieces * to->slices[bucket].first * ls__sum_bytes(s);
}

static ls_window received_at(const ls_strategy *s, int host, int bucket) {
    const totals *a = impl_of(s);
    return ls__window_at(a->remotes[host].partials, s->host_pieces * a->slices[bucket].first * ls__sum_bytes(s));
}

static ls_window total_at(const ls_strategy *s, int64_t at) {
    return ls__window_at(impl_of(s)->total, at * ls__sum_bytes(s));
}

// All that is going to come: others' sums of what this worker owns, and the totals that its host has from it.
static ls_status receive_all(ls_strategy *s, int64_t micro_batches, int bucket) {
    const totals *a = impl_of(s);
    messages *m = &a->messages[bucket];
    for (int host = 0; host < s->config.comm->hosts; host++) {
        if (host == s->config.comm->host) continue;
        int64_t count = ls__host_piece_count(s, micro_batches, host) * ls__slice_length(a->slices[bucket]);
        LS_TRY(receive(s, m->sums, &m->sum_count, received_at(s, host, bucket).host, count, a->remotes[host].rank,
                       ls__tag(LS_MESSAGE_GRADIENTS, bucket)));
    }
    for (int i = 0; i < a->served_count; i++) {
        ls_slice theirs = a->served[i].slices[bucket];
        LS_TRY(receive(s, m->totals, &m->total_count, total_at(s, theirs.begin).host, ls__slice_length(theirs),
                       a->served[i].rank, ls__tag(LS_MESSAGE_MEAN, bucket)));
    }
    return LS_OK;
}

static ls_status send_sums(ls_strategy *s, int64_t micro_batches, int bucket) {
    const totals *a = impl_of(s);
    messages *m = &a->messages[bucket];
    int pieces = ls__host_piece_count(s, micro_batches, s->config.comm->host);
    for (int i = 0; i < a->served_count; i++) {
        const served *to = &a->served[i];
        LS_TRY(send(s, m->sums, &m->sum_count, partials_of(s, to, bucket),
                    pieces * ls__slice_length(to->slices[bucket]), to->rank, ls__tag(LS_MESSAGE_GRADIENTS, bucket)));
    }
    return LS_OK;
}

static ls_status send_total(ls_strategy *s, int bucket) {
    const totals *a = impl_of(s);
    messages *m = &a->messages[bucket];
    ls_slice mine = a->slices[bucket];
    const ls_comm *comm = s->config.comm;
    for (int i = 1; i < comm->hosts; i++)
        LS_TRY(send(s, m->totals, &m->total_count, total_at(s, mine.begin).host, ls__slice_length(mine),
                    a->remotes[(comm->host + i) % comm->hosts].rank, ls__tag(LS_MESSAGE_MEAN, bucket)));
    return LS_OK;
}

// --- phases ----------------------------------------------------------------------------------------------------------

static ls_status reduce_begin(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    totals *a = impl_of(s);
    ls_status status = LS_OK;
    if (step->replica == 0) {
        a->messages[bucket].stage = SUMS_AWAITED;
        status = receive_all(s, step->info->micro_batches, bucket);
    }
    for (int i = 0; i < a->served_count; i++) {
        const served *to = &a->served[i];
        ls_slice theirs = to->slices[bucket];
        ls__keep(&status, ls__host_partials(step, theirs.begin, theirs.end, partials_of(s, to, bucket)));
    }
    ls__keep(&status, ls_synchronize(step->queue));
    ls__lap(step->times, LS_STEP_SUM);
    ls__meet(step, LS_STEP_WAIT);
    if (step->replica == 0) {
        ls__keep(&status, send_sums(s, step->info->micro_batches, bucket));
        ls__lap(step->times, LS_STEP_SEND);
    }
    return status;
}

// The whole tree of what this worker owns, this replica's share of it or all: what this host's lanes hold, and what has come.
static ls_status add_up(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    ls_lane *lane = step->lane;
    ls_slice mine = impl_of(s)->slices[bucket];
    int64_t v = step->info->micro_batches, from = mine.begin, to = mine.end;
    lane->source_count = 0;
    for (int host = 0; host < s->config.comm->hosts; host++) {
        ls_source *sources = lane->sources + lane->source_count;
        lane->source_count += host == s->config.comm->host
                                  ? ls__host_sources(s, v, sources)
                                  : ls__received_sources(s, v, host, host + 1, received_at(s, host, bucket), mine.begin,
                                                         ls__slice_length(mine), sources);
    }
    if (!step->alone) ls__share(mine.begin, mine.end, step->replica, s->config.replicas, &from, &to);
    for (int64_t at = from, n; (n = ls__trained(s, &at, to, s->block)) > 0; at += n) {
        ls_span sum;
        LS_TRY(ls__sum_block(step, at, n, &sum));
        LS_TRY(ls__send_block(step, total_at(s, at).host, sum, n));
    }
    LS_TRY(ls_synchronize(step->queue));
    ls__lap(step->times, LS_STEP_SUM);
    return LS_OK;
}

// Of every bucket whose sums have come the total goes out, whoever is asked about: its turn may be later.
static ls_status go_on(ls_lane_step *step) {
    ls_strategy *s = step->strategy;
    totals *a = impl_of(s);
    for (int b = 0; b < s->bucket_count; b++) {
        messages *m = &a->messages[b];
        int pending;
        if (m->stage != SUMS_AWAITED) continue;
        LS_TRY(ls_comm_test_all(s->config.comm, m->sums, m->sum_count, &pending));
        if (pending >= 0) continue;
        m->sum_count = 0;
        m->stage = TOTALS_AWAITED;
        LS_TRY(add_up(step, b));
        LS_TRY(send_total(s, b));
        ls__lap(step->times, LS_STEP_SEND);
    }
    return LS_OK;
}

static _Atomic uint64_t *home_of(const ls_strategy *s, int bucket, int local_rank) {
    return &impl_of(s)->home[(int64_t)bucket * s->config.comm->local_size + local_rank];
}

// What every worker of this host takes has to be there.
static ls_status arrived(ls_lane_step *step, int bucket, int *peer) {
    ls_strategy *s = step->strategy;
    const ls_comm *comm = s->config.comm;
    messages *m = &impl_of(s)->messages[bucket];
    int sums = 1;
    *peer = -1;
    while (sums) {  // again where the last of them have come since go_on() has looked
        int pending;
        LS_TRY(go_on(step));
        sums = m->stage == SUMS_AWAITED;
        ls_request *requests = sums ? m->sums : m->totals;
        LS_TRY(ls_comm_test_all(s->config.comm, requests, sums ? m->sum_count : m->total_count, &pending));
        if (pending < 0) continue;
        *peer = requests[pending].peer;
        return LS_OK;
    }
    m->total_count = 0;
    atomic_store_explicit(home_of(s, bucket, comm->local_rank), step->number, memory_order_release);
    for (int i = 0; i < comm->local_size && *peer < 0; i++)
        if (atomic_load_explicit(home_of(s, bucket, i), memory_order_acquire) < step->number)
            *peer = comm->order[s->host_first[comm->host] + i];
    return LS_OK;
}

static ls_status wait_for(ls_strategy *s, ls_request *requests, int *pending) {
    int count = *pending;
    *pending = 0;
    return ls_comm_wait_all(s->config.comm, requests, count);
}

// What arrived() does, by all replicas, who wait for it.
static ls_status wait_for_total(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    messages *m = &impl_of(s)->messages[bucket];
    ls_status status = step->replica == 0 ? wait_for(s, m->sums, &m->sum_count) : LS_OK;
    ls__meet(step, LS_STEP_SEND);
    ls__keep(&status, add_up(step, bucket));
    ls__meet(step, LS_STEP_WAIT);
    if (step->replica == 0) {
        ls__keep(&status, send_total(s, bucket));
        ls__keep(&status, wait_for(s, m->totals, &m->total_count));
        m->stage = IDLE;
    }
    ls__wait(s->host_barrier, step->times, LS_STEP_SEND);
    return status;
}

static ls_status reduce_end(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    int64_t begin = ls__bucket_begin(s, bucket);
    ls_status status = step->alone ? LS_OK : wait_for_total(step, bucket);
    step->lane->sources[0] = (ls_source){.data = total_at(s, begin), .first = begin, .dtype = ls__sum_dtype(s)};
    step->lane->source_count = 1;
    return status;
}

const ls_strategy_ops ls__strategy_allreduce_bf16 = {
    .name = "allreduce",
    .help = "allreduce between hosts of sums alone",
    .synchronous = 1,
    .weights_shared = 1,
    .plan = plan,
    .destroy = destroy,
    .slice = slice,
    .reduce_begin = reduce_begin,
    .arrived = arrived,
    .reduce_end = reduce_end,
};
