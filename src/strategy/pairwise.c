// The strategy `tree`: sums go up a binary tree of workers to worker 0, which updates everything; new weights go down again.
//
// There are two trees of one form, of the workers of each host and of the hosts. In both, node i has a parent, i without its lowest bit that
// is set, and so speaks to it for a run of nodes from i on, whose micro-batches are a run, too. What is added is siblings of the tree over
// micro-batches (tree.h), so any number of workers gives the same bits; what has no sibling in the run yet goes up as it is.
//
//     workers   0 <- 1    2 <- 3    4 <- 5     through memory: a sum lies where the first of what is in it lay
//               0 <------ 2         4
//               0 <---------------- 4          then hosts do the same with messages, the first worker of each for all of it
//
// A host's new weights come into the one vector of its workers, and go on from there.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "strategy/strategy_impl.h"

// A host that sends its sums here, with those of the hosts below it: [first, end).
typedef struct child {
    int rank;
    int first, end;
    int64_t pieces;      // the most that it sends
    ls_window partials;  // (pieces, length), bucket by bucket, as sent
} child;

// What the messages of a bucket, on their way, are.
typedef enum stage { SUMS_COME, SUMS_GO, WEIGHTS_GO_ON } stage;

typedef struct pairwise {
    // Of the first worker of a host, where there are several:
    child *children;  // (child_count)
    int child_count;
    int parent;             // a rank; -1: this is worker 0
    int end;                // this host speaks for those from itself up to this one
    int64_t pieces;         // the most that it sends
    char *partials;         // (pieces, length), bucket by bucket, as sent; NULL: none
    ls_request *requests;   // (bucket_count, child_count + 2)
    int *pending;           // (bucket_count)
    unsigned char *stages;  // (bucket_count)
    ls_request *shared;     // (child_count + 1): of sums of squares
    // With config.overlap: (bucket_count, local_size), of the host: the step in which a worker last had joined its workers' sums.
    _Atomic uint64_t *joined;
} pairwise;

static pairwise *impl_of(const ls_strategy *s) { return s->impl; }

static int is_root(const ls_strategy *s) { return s->config.comm->position == 0; }
static int is_lead(const ls_strategy *s) { return s->config.comm->hosts > 1 && s->config.comm->local_rank == 0; }

// Whether node i of n has child i + stride.
static int has_child(int i, int stride, int n) { return i % (2 * stride) == 0 && i + stride < n; }

static int smaller(int a, int b) { return a < b ? a : b; }

// Worker 0 updates all, its replicas share that.
static void slice(const ls_strategy *s, int lane, int bucket, int64_t *begin, int64_t *end) {
    *begin = *end = s->bucket_ends[bucket];
    if (lane < s->config.replicas)
        ls__share(ls__bucket_begin(s, bucket), s->bucket_ends[bucket], lane, s->config.replicas, begin, end);
}

// --- planning --------------------------------------------------------------------------------------------------------

static void destroy(ls_strategy *s) {
    pairwise *p = impl_of(s);
    free(p->children);
    free(p->requests);
    free(p->pending);
    free(p->stages);
    free(p->shared);
    free(p);
}

static int lead_of(const ls_strategy *s, int host) { return s->config.comm->order[s->host_first[host]]; }

static ls_status plan_child(ls_strategy *s, int first, int end) {
    child *c = &impl_of(s)->children[impl_of(s)->child_count++];
    *c = (child){.rank = lead_of(s, first), .first = first, .end = end, .pieces = ls__most_pieces(s, first, end)};
    return ls__want_window(s, LS_STRATEGY_SUMS, LS_WORKER, c->pieces * s->config.length * ls__sum_bytes(s),
                           &c->partials);
}

static ls_status plan_lead(ls_strategy *s) {
    pairwise *p = impl_of(s);
    int host = s->config.comm->host, hosts = s->config.comm->hosts, children = 0, stride = 1;
    for (; stride < hosts && host % (2 * stride) == 0; stride *= 2) children += has_child(host, stride, hosts);
    p->parent = host == 0 ? -1 : lead_of(s, host - stride);
    p->end = smaller(host + stride, hosts);
    p->pieces = ls__most_pieces(s, host, p->end);
    LS_TRY(ls_calloc(children, sizeof *p->children, &p->children));
    for (stride = 1; stride < hosts; stride *= 2)
        if (has_child(host, stride, hosts)) LS_TRY(plan_child(s, host + stride, smaller(host + 2 * stride, hosts)));
    LS_TRY(ls_calloc((int64_t)s->bucket_count * (children + 2), sizeof *p->requests, &p->requests));
    LS_TRY(ls_calloc(s->bucket_count, sizeof *p->pending, &p->pending));
    LS_TRY(ls_calloc(s->bucket_count, 1, &p->stages));
    LS_TRY(ls_calloc(children + 1, sizeof *p->shared, &p->shared));
    if (host == 0) return LS_OK;
    return ls__want(s, LS_STRATEGY_SUMS, LS_WORKER, p->pieces * s->config.length * ls__sum_bytes(s), &p->partials);
}

static ls_status plan(ls_strategy *s) {
    ls_comm *comm = s->config.comm;
    pairwise *p;
    LS_TRY(ls_calloc(1, sizeof *p, &p));
    s->impl = p;
    if (has_child(comm->local_rank, 1, comm->local_size)) s->reads = s->config.length;
    if (s->config.overlap && comm->local_size > 1)
        LS_TRY(ls__want(s, LS_STRATEGY_SUMS, LS_HOST,
                        (int64_t)s->bucket_count * comm->local_size * (int64_t)sizeof *p->joined, &p->joined));
    return is_lead(s) ? plan_lead(s) : LS_OK;
}

// --- messages --------------------------------------------------------------------------------------------------------

static ls_request *requests_of(const ls_strategy *s, int bucket) {
    pairwise *p = impl_of(s);
    return &p->requests[bucket * (p->child_count + 2)];
}

static ls_status receive(ls_strategy *s, int bucket, void *data, int64_t count, ls_dtype dtype, int rank,
                         ls_message message) {
    int *pending = &impl_of(s)->pending[bucket];
    if (count == 0) return LS_OK;
    LS_TRY(ls_comm_irecv(s->config.comm, data, count, dtype, rank, ls__tag(message, bucket),
                         &requests_of(s, bucket)[*pending]));
    ++*pending;
    return LS_OK;
}

static ls_status send(ls_strategy *s, int bucket, const void *data, int64_t count, ls_dtype dtype, int rank,
                      ls_message message) {
    int *pending = &impl_of(s)->pending[bucket];
    if (count == 0) return LS_OK;
    LS_TRY(ls_comm_isend(s->config.comm, data, count, dtype, rank, ls__tag(message, bucket),
                         &requests_of(s, bucket)[*pending]));
    ++*pending;
    return LS_OK;
}

static ls_status wait_for(ls_strategy *s, int bucket) {
    int count = impl_of(s)->pending[bucket];
    impl_of(s)->pending[bucket] = 0;
    return ls_comm_wait_all(s->config.comm, requests_of(s, bucket), count);
}

static int64_t bucket_length(const ls_strategy *s, int bucket) {
    return s->bucket_ends[bucket] - ls__bucket_begin(s, bucket);
}

static ls_window partials_of(const ls_strategy *s, const child *c, int bucket) {
    return ls__window_at(c->partials, c->pieces * ls__bucket_begin(s, bucket) * ls__sum_bytes(s));
}

static char *own_partials(const ls_strategy *s, int bucket) {
    pairwise *p = impl_of(s);
    return p->partials + p->pieces * ls__bucket_begin(s, bucket) * ls__sum_bytes(s);
}

static float *weights_at(const ls_strategy *s, int bucket) {
    return (float *)s->weights.host + ls__bucket_begin(s, bucket);
}

// New weights of a bucket go to the children: the one with most hosts below it first.
static ls_status send_weights(ls_strategy *s, int bucket) {
    pairwise *p = impl_of(s);
    p->stages[bucket] = WEIGHTS_GO_ON;
    for (int i = p->child_count - 1; i >= 0; i--)
        LS_TRY(send(s, bucket, weights_at(s, bucket), bucket_length(s, bucket), LS_DTYPE_F32, p->children[i].rank,
                    LS_MESSAGE_WEIGHTS));
    return LS_OK;
}

// --- joining the workers of a host -----------------------------------------------------------------------------------

// The sums of workers [first, end) of this host once they are joined: each where the first of what is in it was. One worker's are those of its
// lanes, which nobody has joined yet.
static int joined_sources(const ls_strategy *s, int64_t micro_batches, int first, int end, ls_source *sources) {
    ls_piece pieces[LS_TREE_MAX_PIECES];
    int replicas = s->config.replicas, position = s->host_first[s->config.comm->host];
    int64_t begin, stop, unused;
    ls_strategy_deal(s, micro_batches, (position + first) * replicas, &begin, &unused);
    ls_strategy_deal(s, micro_batches, (position + end) * replicas - 1, &unused, &stop);
    int all = ls__lanes_sources(s, micro_batches, first * replicas, end * replicas, sources);
    if (end - first == 1) return all;
    int count = ls__pieces(s, micro_batches, begin, stop, pieces), k = 0;
    for (int i = 0; i < all && k < count; i++)
        if (sources[i].piece.first == pieces[k].first) {
            sources[k] = sources[i];
            sources[k].piece = pieces[k];
            k++;
        }
    return count;
}

// A block of sums, to where a source lies: on the device, and on the host where other workers may read it.
static ls_status put(ls_lane_step *step, ls_window to, ls_span sums, int64_t n) {
    if (to.device.buffer) LS_TRY(ls_copy(step->queue, to.device, sums, n * 4));
    if (!to.host || ls__host_memory(step->strategy)) return LS_OK;
    return ls_read(step->queue, to.host, sums, n * 4);
}

// What sources are added up to: piece k of them is the sum of sources [first[k], first[k + 1]).
typedef struct joint {
    int pieces, first[LS_TREE_MAX_PIECES + 1];
} joint;

static joint find_joint(const ls_strategy *s, const ls_source *sources, int count, int64_t micro_batches) {
    ls_piece stack[LS_TREE_MAX_PIECES];
    joint j = {0};
    for (int i = 0; i < count; i++) {
        stack[j.pieces] = sources[i].piece;
        j.first[j.pieces++] = i;
        while (ls__merge(s, micro_batches, stack, &j.pieces)) continue;
    }
    j.first[j.pieces] = count;
    return j;
}

// This replica's share of a bucket: adds the sums of the workers that the one at `stride` from here speaks for to those that this one speaks
// for. What is new lies where the first of it was; what has no sibling yet stays.
static ls_status join(ls_lane_step *step, int bucket, int stride) {
    const ls_strategy *s = step->strategy;
    const ls_comm *comm = s->config.comm;
    ls_source *sources = step->lane->sources;
    int64_t v = step->info->micro_batches, begin, end;
    int middle = comm->local_rank + stride, last = smaller(middle + stride, comm->local_size), pieces;
    int count = joined_sources(s, v, comm->local_rank, middle, sources);
    count += joined_sources(s, v, middle, last, sources + count);
    joint j = find_joint(s, sources, count, v);
    ls_span results[LS_TREE_MAX_PIECES];
    ls__share(ls__bucket_begin(s, bucket), s->bucket_ends[bucket], step->replica, s->config.replicas, &begin, &end);
    for (int64_t at = begin, n; (n = ls__trained(s, &at, end, s->block)) > 0; at += n) {
        LS_TRY(ls__reduce_block(step, sources, count, at, n, results, &pieces));
        for (int k = 0; k < j.pieces; k++)
            if (j.first[k + 1] - j.first[k] > 1)
                LS_TRY(put(step, ls__window_at(sources[j.first[k]].data, at * 4), results[k], n));
    }
    return LS_OK;
}

static _Atomic uint64_t *joined_of(const ls_strategy *s, int bucket, int local_rank) {
    return &impl_of(s)->joined[(int64_t)bucket * s->config.comm->local_size + local_rank];
}

// The workers of this host that this one waits for have joined theirs: *peer is -1, else the rank of the first that has not.
static void find_unjoined(const ls_lane_step *step, int bucket, int *peer) {
    const ls_strategy *s = step->strategy;
    const ls_comm *comm = s->config.comm;
    *peer = -1;
    for (int stride = 1; stride < comm->local_size && *peer < 0; stride *= 2)
        if (has_child(comm->local_rank, stride, comm->local_size) &&
            atomic_load_explicit(joined_of(s, bucket, comm->local_rank + stride), memory_order_acquire) < step->number)
            *peer = comm->order[comm->position + stride];
}

// The lanes of a host wait for each other after every level. Where they compute meanwhile, a thread joins all levels once those below have
// said that they are through (find_unjoined).
static ls_status join_workers(ls_lane_step *step, int bucket) {
    const ls_strategy *s = step->strategy;
    const ls_comm *comm = s->config.comm;
    ls_status status = LS_OK;
    for (int stride = 1; stride < comm->local_size; stride *= 2) {
        if (has_child(comm->local_rank, stride, comm->local_size)) ls__keep(&status, join(step, bucket, stride));
        if (step->alone) continue;
        ls__keep(&status, ls_synchronize(step->queue));
        ls__lap(step->times, LS_STEP_SUM);
        ls__wait(s->host_barrier, step->times, LS_STEP_WAIT);
    }
    if (!step->alone || comm->local_size == 1) return status;
    ls__keep(&status, ls_synchronize(step->queue));
    ls__lap(step->times, LS_STEP_SUM);
    if (step->replica == 0)
        atomic_store_explicit(joined_of(s, bucket, comm->local_rank), step->number, memory_order_release);
    return status;
}

// --- phases ----------------------------------------------------------------------------------------------------------

// What the hosts below have is going to come.
static ls_status reduce_begin(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    pairwise *p = impl_of(s);
    ls_piece pieces[LS_TREE_MAX_PIECES];
    if (!is_lead(s) || step->replica != 0) return LS_OK;
    p->stages[bucket] = SUMS_COME;
    for (int i = 0; i < p->child_count; i++) {
        const child *c = &p->children[i];
        int count = ls__hosts_pieces(s, step->info->micro_batches, c->first, c->end, pieces);
        LS_TRY(receive(s, bucket, partials_of(s, c, bucket).host, count * bucket_length(s, bucket), ls__sum_dtype(s),
                       c->rank, LS_MESSAGE_GRADIENTS));
    }
    return LS_OK;
}

// Weights that have come go on to the children before anybody hears that they are there.
static ls_status arrived(ls_lane_step *step, int bucket, int *peer) {
    ls_strategy *s = step->strategy;
    pairwise *p = impl_of(s);
    *peer = -1;
    if (p->joined) find_unjoined(step, bucket, peer);
    if (*peer >= 0 || !is_lead(s)) return LS_OK;
    int pending;
    LS_TRY(ls_comm_test_all(s->config.comm, requests_of(s, bucket), p->pending[bucket], &pending));
    if (pending < 0 && p->stages[bucket] == SUMS_GO && p->child_count > 0) {
        p->pending[bucket] = 0;
        LS_TRY(send_weights(s, bucket));
        LS_TRY(ls_comm_test_all(s->config.comm, requests_of(s, bucket), p->pending[bucket], &pending));
    }
    if (pending >= 0) *peer = requests_of(s, bucket)[pending].peer;
    return LS_OK;
}

// What this host and those below it have of a bucket, into the lane's sources, in tree order.
static void list_sources(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    const pairwise *p = impl_of(s);
    ls_lane *lane = step->lane;
    lane->source_count = joined_sources(s, step->info->micro_batches, 0, s->config.comm->local_size, lane->sources);
    for (int i = 0; i < p->child_count; i++) {
        const child *c = &p->children[i];
        lane->source_count += ls__received_sources(s, step->info->micro_batches, c->first, c->end,
                                                   partials_of(s, c, bucket), ls__bucket_begin(s, bucket),
                                                   bucket_length(s, bucket), lane->sources + lane->source_count);
    }
}

// This replica's share of that, added up, into a message.
static ls_status pack(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    ls_span results[LS_TREE_MAX_PIECES];
    int64_t first = ls__bucket_begin(s, bucket), length = bucket_length(s, bucket), begin, end;
    char *out = own_partials(s, bucket);
    int pieces;
    ls__share(first, s->bucket_ends[bucket], step->replica, s->config.replicas, &begin, &end);
    for (int64_t at = begin, n; (n = ls__trained(s, &at, end, s->block)) > 0; at += n) {
        LS_TRY(ls__reduce_block(step, step->lane->sources, step->lane->source_count, at, n, results, &pieces));
        for (int k = 0; k < pieces; k++)
            LS_TRY(ls__send_block(step, out + (k * length + (at - first)) * ls__sum_bytes(s), results[k], n));
    }
    return LS_OK;
}

// The first worker of a host: sends the sums up, and is going to be sent the new weights.
static ls_status send_up(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    pairwise *p = impl_of(s);
    ls_piece pieces[LS_TREE_MAX_PIECES];
    ls_status status = pack(step, bucket);
    ls__keep(&status, ls_synchronize(step->queue));
    ls__lap(step->times, LS_STEP_SUM);
    ls__meet(step, LS_STEP_WAIT);
    if (step->replica != 0) return status;
    p->stages[bucket] = SUMS_GO;
    int64_t length = bucket_length(s, bucket);
    int count = ls__hosts_pieces(s, step->info->micro_batches, s->config.comm->host, p->end, pieces);
    ls__keep(&status, receive(s, bucket, weights_at(s, bucket), length, LS_DTYPE_F32, p->parent, LS_MESSAGE_WEIGHTS));
    ls__keep(&status, send(s, bucket, own_partials(s, bucket), count * length, ls__sum_dtype(s), p->parent,
                           LS_MESSAGE_GRADIENTS));
    return status;
}

static ls_status reduce_end(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    ls_status status = join_workers(step, bucket);
    step->lane->source_count = 0;
    if (!is_root(s) && !is_lead(s)) return status;
    if (is_lead(s)) {
        if (step->replica == 0) ls__keep(&status, wait_for(s, bucket));
        ls__meet(step, LS_STEP_SEND);
    }
    list_sources(step, bucket);
    if (!is_root(s)) ls__keep(&status, send_up(step, bucket));
    return status;
}

// Worker 0 has all, and they go the way of the weights.
static ls_status share(ls_lane_step *step, double *units, int columns) {
    ls_strategy *s = step->strategy;
    pairwise *p = impl_of(s);
    ls_comm *comm = s->config.comm;
    int64_t bytes = s->config.length / LS_SLICE_ALIGN * columns * (int64_t)sizeof *units;
    int tag = ls__tag(LS_MESSAGE_SQUARES, 0), count = 0;
    if (!is_lead(s)) return LS_OK;
    if (is_root(s)) ls_barrier_wait(s->worker_barrier);
    if (step->replica != 0) return LS_OK;
    if (!is_root(s)) {
        LS_TRY(ls_comm_irecv(comm, units, bytes, LS_DTYPE_U8, p->parent, tag, &p->shared[0]));
        LS_TRY(ls_comm_wait_all(comm, p->shared, 1));
    }
    for (int i = p->child_count - 1; i >= 0; i--)
        LS_TRY(ls_comm_isend(comm, units, bytes, LS_DTYPE_U8, p->children[i].rank, tag, &p->shared[count++]));
    return ls_comm_wait_all(comm, p->shared, count);
}

static ls_status gather_begin(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    if (!is_root(s) || !is_lead(s)) return LS_OK;
    if (!step->alone) ls_barrier_wait(s->worker_barrier);
    return step->replica == 0 ? send_weights(s, bucket) : LS_OK;
}

static ls_status gather_end(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    if (!is_lead(s) || step->replica != 0) return LS_OK;
    LS_TRY(wait_for(s, bucket));
    if (impl_of(s)->stages[bucket] == WEIGHTS_GO_ON) return LS_OK;
    LS_TRY(send_weights(s, bucket));
    return wait_for(s, bucket);
}

const ls_strategy_ops ls__strategy_tree = {
    .name = "tree",
    .help = "sums go up a binary tree of workers and hosts to worker 0, which updates; weights go down",
    .synchronous = 1,
    .weights_shared = 1,
    .plan = plan,
    .destroy = destroy,
    .slice = slice,
    .reduce_begin = reduce_begin,
    .arrived = arrived,
    .reduce_end = reduce_end,
    .share = share,
    .gather_begin = gather_begin,
    .gather_end = gather_end,
};
