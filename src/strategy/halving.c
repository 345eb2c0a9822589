// allreduce between many hosts: sums by recursive halving, weights by recursive doubling.
//
// As in allreduce.c every lane owns a slice, the lanes of a host add up first, and worker p of a host speaks to worker p of others for all
// slices whose owner has place p on its host: a *column*. But no worker speaks to all other hosts. The hosts are halved again and again, until every
// group is one host. From the smallest groups up, two halves of a group are made one: what either half has added up is sent to the one host
// of the two that holds it from then on, about half of it in each direction. Above all there is the group of all hosts, in which a host holds its
// own slices. New weights go the same ways back.
//
//     hosts      0     1     2     3            owners whose sums a host holds: all
//     round 0    0 <-> 1     2 <-> 3            0: {0 2}  1: {1 3}  2: {0 2}  3: {1 3}
//     round 1    0 <-----> 2  1 <-----> 3       0: {0}    1: {1}    2: {2}    3: {3}
//
// Groups are runs of hosts, so their micro-batches are runs, too, and what is added are siblings of the tree (tree.h): what has none yet
// travels as it is. A host adds up what it sends when it sends it, from its lanes' sums and everything that has come for it: nothing is
// added twice, and bytes are those of direct messages, in log2(hosts) messages each way, or up to twice as many where the hosts are no power of two.
//
// With LS_COMPRESS_BF16 what goes back are totals, in half the bytes, and every host updates everything, as in allreduce_bf16.c: the second table.
#include <string.h>

#include "base/error.h"
#include "strategy/halving.h"

// --- parcels ---------------------------------------------------------------------------------------------------------

static int64_t parcel_length(const ls_parcel *p, int bucket) {
    const int64_t *starts = ls__parcel_starts(p, bucket);
    return starts[p->owner_count] - starts[0];
}

static ls_window bucket_at(const ls_parcel *p, int bucket) {
    return ls__window_at(p->data, ls__parcel_starts(p, bucket)[0] * p->stride);
}

static int pieces_of(const ls_strategy *s, const ls_parcel *p, int64_t micro_batches) {
    ls_piece pieces[LS_TREE_MAX_PIECES];
    return ls__hosts_pieces(s, micro_batches, p->of.first, p->of.first + p->of.count, pieces);
}

// Where owner i's slice of a bucket begins in a parcel of sums, of so many pieces.
static int64_t sums_at(const ls_strategy *s, const ls_parcel *p, int bucket, int owner, int pieces) {
    const int64_t *starts = ls__parcel_starts(p, bucket);
    return (starts[owner] - starts[0]) * pieces * ls__sum_bytes(s);
}

// What has come in a round for what `owner` owns in a column, as sources. Returns how many; 0: nothing.
static int received_sources(const ls_strategy *s, int64_t micro_batches, const ls_halving_round *r, int owner,
                            int column, int bucket, ls_source *sources) {
    for (int i = 0; i < r->receive_count; i++) {
        const ls_parcel *p = &r->receives[i];
        for (int k = 0; p->column == column && k < p->owner_count; k++) {
            if (p->owners[k] != owner) continue;
            int64_t begin, end;
            ls__halving_owned(s, owner, column, bucket, &begin, &end);
            ls_window at =
                ls__window_at(bucket_at(p, bucket), sums_at(s, p, bucket, k, pieces_of(s, p, micro_batches)));
            return ls__received_sources(s, micro_batches, p->of.first, p->of.first + p->of.count, at, begin,
                                        end - begin, sources);
        }
    }
    return 0;
}

// All that there is here before round `before` for what `owner` owns in a column, in tree order: what came from the left, the outermost
// first; this host's own; what came from the right.
static int list_sources(const ls_lane_step *step, int before, int owner, int column, int bucket, ls_source *sources) {
    const ls_strategy *s = step->strategy;
    const ls_halving *h = ls__halving_of(s);
    int64_t v = step->info->micro_batches;
    int count = 0, me = s->config.comm->host;
    for (int k = before - 1; k >= 0; k--)
        if (h->rounds[k].sibling.first < me)
            count += received_sources(s, v, &h->rounds[k], owner, column, bucket, sources + count);
    count += ls__host_sources(s, v, sources + count);
    for (int k = 0; k < before; k++)
        if (h->rounds[k].sibling.first > me)
            count += received_sources(s, v, &h->rounds[k], owner, column, bucket, sources + count);
    return count;
}

// This replica's share of a parcel, or all of it: added up as it is sent.
static ls_status fill(ls_lane_step *step, int k, const ls_parcel *p, int bucket) {
    ls_strategy *s = step->strategy;
    ls_lane *lane = step->lane;
    ls_span results[LS_TREE_MAX_PIECES] = {{.buffer = NULL}};
    int pieces = pieces_of(s, p, step->info->micro_batches);
    char *out = bucket_at(p, bucket).host;
    for (int i = 0; i < p->owner_count; i++) {
        int64_t begin, end, from, to;
        ls__halving_owned(s, p->owners[i], p->column, bucket, &begin, &end);
        char *slice = out + sums_at(s, p, bucket, i, pieces);
        from = begin, to = end;
        if (!step->alone) ls__share(begin, end, step->replica, s->config.replicas, &from, &to);
        int count = list_sources(step, k, p->owners[i], p->column, bucket, lane->sources), found;
        for (int64_t at = from, n; (n = ls__trained(s, &at, to, s->block)) > 0; at += n) {
            LS_TRY(ls__reduce_block(step, lane->sources, count, at, n, results, &found));
            for (int j = 0; j < found; j++)
                LS_TRY(
                    ls__send_block(step, slice + (j * (end - begin) + (at - begin)) * ls__sum_bytes(s), results[j], n));
        }
    }
    return LS_OK;
}

// --- messages --------------------------------------------------------------------------------------------------------

static ls_request *requests_at(const ls_strategy *s, int bucket, int k) {
    ls_halving *h = ls__halving_of(s);
    return &h->requests[(int64_t)bucket * h->request_count + h->rounds[k].first_request];
}

static int *pending_at(const ls_strategy *s, int bucket, int k) {
    ls_halving *h = ls__halving_of(s);
    return &h->pending[(int64_t)bucket * h->round_count + k];
}

static ls_status receive(ls_strategy *s, int bucket, int k, void *data, int64_t count, ls_dtype dtype, int rank,
                         ls_message message) {
    int *pending = pending_at(s, bucket, k);
    if (count == 0) return LS_OK;
    LS_TRY(ls_comm_irecv(s->config.comm, data, count, dtype, rank, ls__tag(message, bucket),
                         &requests_at(s, bucket, k)[*pending]));
    ++*pending;
    return LS_OK;
}

static ls_status send(ls_strategy *s, int bucket, int k, const void *data, int64_t count, ls_dtype dtype, int rank,
                      ls_message message) {
    int *pending = pending_at(s, bucket, k);
    if (count == 0) return LS_OK;
    LS_TRY(ls_comm_isend(s->config.comm, data, count, dtype, rank, ls__tag(message, bucket),
                         &requests_at(s, bucket, k)[*pending]));
    ++*pending;
    return LS_OK;
}

static ls_status wait_for(ls_strategy *s, int bucket, int k) {
    int *pending = pending_at(s, bucket, k), count = *pending;
    *pending = 0;
    return ls_comm_wait_all(s->config.comm, requests_at(s, bucket, k), count);
}

// All that is going to come of sums.
static ls_status receive_sums(ls_strategy *s, int64_t micro_batches, int bucket) {
    const ls_halving *h = ls__halving_of(s);
    for (int k = 0; k < h->round_count; k++)
        for (int i = 0; i < h->rounds[k].receive_count; i++) {
            const ls_parcel *p = &h->rounds[k].receives[i];
            LS_TRY(receive(s, bucket, k, bucket_at(p, bucket).host,
                           pieces_of(s, p, micro_batches) * parcel_length(p, bucket), ls__sum_dtype(s), p->rank,
                           LS_MESSAGE_GRADIENTS));
        }
    return LS_OK;
}

static ls_status send_sums(ls_strategy *s, int64_t micro_batches, int bucket, int k) {
    const ls_halving_round *r = &ls__halving_of(s)->rounds[k];
    for (int i = 0; i < r->send_count; i++) {
        const ls_parcel *p = &r->sends[i];
        LS_TRY(send(s, bucket, k, bucket_at(p, bucket).host, pieces_of(s, p, micro_batches) * parcel_length(p, bucket),
                    ls__sum_dtype(s), p->rank, LS_MESSAGE_GRADIENTS));
    }
    return LS_OK;
}

// One round of sums goes out: each replica adds up its share, the first one sends; or one thread does it all.
static ls_status begin_round(ls_lane_step *step, int bucket, int k) {
    ls_strategy *s = step->strategy;
    const ls_halving_round *r = &ls__halving_of(s)->rounds[k];
    ls_status status = LS_OK;
    for (int i = 0; i < r->send_count; i++) ls__keep(&status, fill(step, k, &r->sends[i], bucket));
    ls__keep(&status, ls_synchronize(step->queue));
    ls__lap(step->times, LS_STEP_SUM);
    ls__meet(step, LS_STEP_WAIT);
    if (step->replica == 0 || step->alone) {
        ls__keep(&status, send_sums(s, step->info->micro_batches, bucket, k));
        ls__lap(step->times, LS_STEP_SEND);
    }
    return status;
}

// --- weights, and whatever else goes their way -----------------------------------------------------------------------

// The vector with `unit` bytes for each LS_SLICE_ALIGN elements, of which slices go to all hosts.
typedef struct cargo {
    char *whole;
    int64_t unit;
} cargo;

static int sends_totals(const ls_strategy *s) { return s->ops == &ls__strategy_allreduce_halving_bf16; }

// What goes back to all hosts: new weights, or totals.
static cargo weights_of(const ls_strategy *s) {
    if (sends_totals(s)) return (cargo){ls__halving_of(s)->totals.total.host, LS_SLICE_ALIGN * ls__sum_bytes(s)};
    return (cargo){(char *)s->weights.host, LS_SLICE_ALIGN * (int64_t)sizeof(float)};
}

static ls_dtype weights_dtype(const ls_strategy *s) { return sends_totals(s) ? ls__sum_dtype(s) : LS_DTYPE_F32; }

// Owner i's slice of a bucket, where it belongs. Returns its bytes.
static int64_t slice_of(const ls_strategy *s, const ls_parcel *p, cargo c, int bucket, int owner, char **at) {
    int64_t begin, end;
    ls__halving_owned(s, p->owners[owner], p->column, bucket, &begin, &end);
    *at = c.whole + begin / LS_SLICE_ALIGN * c.unit;
    return (end - begin) / LS_SLICE_ALIGN * c.unit;
}

// Copies a parcel's slices of a bucket into memory behind one another, or out of it. Returns their bytes.
static int64_t pack(const ls_strategy *s, const ls_parcel *p, cargo c, int bucket, char *packed, int out) {
    int64_t bytes = 0;
    for (int i = 0; i < p->owner_count; i++) {
        char *at;
        int64_t n = slice_of(s, p, c, bucket, i, &at);
        if (n == 0 || !at) continue;  // without any there may be no memory either
        memcpy(out ? at : packed + bytes, out ? packed + bytes : at, (size_t)n);
        bytes += n;
    }
    return bytes;
}

// Where a parcel's weights are while they travel: one slice where it belongs, several in the memory of the sums that went the other way.
static void *travelling(const ls_strategy *s, const ls_parcel *p, int bucket) {
    char *at = bucket_at(p, bucket).host;
    if (p->owner_count == 1) slice_of(s, p, weights_of(s), bucket, 0, &at);
    return at;
}

// Weights go from the largest groups to the smallest: the rounds backwards.
static ls_status receive_weights(ls_strategy *s, int bucket) {
    const ls_halving *h = ls__halving_of(s);
    for (int k = h->round_count - 1; k >= 0; k--)
        for (int i = 0; i < h->rounds[k].send_count; i++) {
            const ls_parcel *p = &h->rounds[k].sends[i];
            LS_TRY(receive(s, bucket, k, travelling(s, p, bucket), parcel_length(p, bucket), weights_dtype(s), p->rank,
                           LS_MESSAGE_WEIGHTS));
        }
    return LS_OK;
}

static ls_status send_weights(ls_strategy *s, int bucket, int k) {
    const ls_halving_round *r = &ls__halving_of(s)->rounds[k];
    for (int i = 0; i < r->receive_count; i++) {
        const ls_parcel *p = &r->receives[i];
        char *at = travelling(s, p, bucket);
        if (p->owner_count > 1) pack(s, p, weights_of(s), bucket, at, 0);
        LS_TRY(send(s, bucket, k, at, parcel_length(p, bucket), weights_dtype(s), p->rank, LS_MESSAGE_WEIGHTS));
    }
    return LS_OK;
}

static void take_weights(ls_strategy *s, int bucket, int k) {
    const ls_halving_round *r = &ls__halving_of(s)->rounds[k];
    for (int i = 0; i < r->send_count; i++)
        if (r->sends[i].owner_count > 1)
            pack(s, &r->sends[i], weights_of(s), bucket, travelling(s, &r->sends[i], bucket), 1);
}

// --- phases ----------------------------------------------------------------------------------------------------------

static ls_status reduce_begin(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    ls_halving *h = ls__halving_of(s);
    ls_status status = LS_OK;
    if (step->alone && step->replica != 0) return LS_OK;
    if (step->replica == 0) {
        h->round[bucket] = 0;
        h->gathers[bucket] = 0;
        status = receive_sums(s, step->info->micro_batches, bucket);
    }
    ls__keep(&status, begin_round(step, bucket, 0));
    return status;
}

// What has come in a round is there: goes on with the next one.
static ls_status end_round(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    ls_halving *h = ls__halving_of(s);
    int k = h->round[bucket];
    *pending_at(s, bucket, k) = 0;
    if (h->gathers[bucket]) {
        take_weights(s, bucket, k);
        h->round[bucket] = --k;
        return k >= 0 ? send_weights(s, bucket, k) : LS_OK;
    }
    h->round[bucket] = ++k;
    ls__lap(step->times, LS_STEP_SEND);
    return k < h->round_count ? begin_round(step, bucket, k) : LS_OK;
}

// As far as it goes without waiting: *peer is -1 where that is to the end.
static ls_status arrived(ls_lane_step *step, int bucket, int *peer) {
    ls_strategy *s = step->strategy;
    ls_halving *h = ls__halving_of(s);
    *peer = -1;
    while (h->round[bucket] >= 0 && h->round[bucket] < h->round_count) {
        int k = h->round[bucket], pending;
        const ls_request *requests = requests_at(s, bucket, k);
        LS_TRY(ls_comm_test_all(s->config.comm, requests_at(s, bucket, k), *pending_at(s, bucket, k), &pending));
        if (pending >= 0) {
            *peer = requests[pending].peer;
            return LS_OK;
        }
        LS_TRY(end_round(step, bucket));
    }
    return LS_OK;
}

// All rounds of sums, by lanes who wait for them; then the lane's sources are all there is for what this worker owns.
static ls_status reduce_end(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    const ls_halving *h = ls__halving_of(s);
    ls_lane *lane = step->lane;
    ls_status status = LS_OK;
    for (int k = 0; k < h->round_count && !step->alone; k++) {
        if (step->replica == 0) ls__keep(&status, wait_for(s, bucket, k));
        ls__meet(step, LS_STEP_SEND);
        if (k + 1 < h->round_count) ls__keep(&status, begin_round(step, bucket, k + 1));
    }
    lane->source_count =
        list_sources(step, h->round_count, s->config.comm->host, s->config.comm->local_rank, bucket, lane->sources);
    return status;
}

// What is sent back is there.
static ls_status go_back(ls_strategy *s, int bucket) {
    ls_halving *h = ls__halving_of(s);
    h->round[bucket] = h->round_count - 1;
    h->gathers[bucket] = 1;
    LS_TRY(receive_weights(s, bucket));
    return send_weights(s, bucket, h->round_count - 1);
}

static ls_status gather_begin(ls_lane_step *step, int bucket) {
    if (!step->alone) ls_barrier_wait(step->strategy->worker_barrier);
    return step->replica == 0 ? go_back(step->strategy, bucket) : LS_OK;
}

static ls_status gather_end(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    const ls_halving *h = ls__halving_of(s);
    if (step->replica != 0) return LS_OK;
    while (h->round[bucket] >= 0) {
        LS_TRY(wait_for(s, bucket, h->round[bucket]));
        LS_TRY(end_round(step, bucket));
    }
    return LS_OK;
}

// The sums that were in the memory of the parcels are used up: squares of all buckets go through it in one message.
static ls_status share_round(ls_strategy *s, cargo c, int k) {
    const ls_halving_round *r = &ls__halving_of(s)->rounds[k];
    for (int i = 0; i < r->send_count; i++) {
        const ls_parcel *p = &r->sends[i];
        int64_t bytes = p->starts[s->bucket_count * (p->owner_count + 1) - 1] / LS_SLICE_ALIGN * c.unit;
        LS_TRY(receive(s, 0, k, p->data.host, bytes, LS_DTYPE_U8, p->rank, LS_MESSAGE_SQUARES));
    }
    for (int i = 0; i < r->receive_count; i++) {
        const ls_parcel *p = &r->receives[i];
        int64_t bytes = 0;
        for (int b = 0; b < s->bucket_count; b++) bytes += pack(s, p, c, b, (char *)p->data.host + bytes, 0);
        LS_TRY(send(s, 0, k, p->data.host, bytes, LS_DTYPE_U8, p->rank, LS_MESSAGE_SQUARES));
    }
    LS_TRY(wait_for(s, 0, k));
    for (int i = 0; i < r->send_count; i++) {
        const ls_parcel *p = &r->sends[i];
        int64_t bytes = 0;
        for (int b = 0; b < s->bucket_count; b++) bytes += pack(s, p, c, b, (char *)p->data.host + bytes, 1);
    }
    return LS_OK;
}

static ls_status share(ls_lane_step *step, double *units, int columns) {
    ls_strategy *s = step->strategy;
    ls_barrier_wait(s->worker_barrier);
    if (step->replica != 0) return LS_OK;
    for (int k = ls__halving_of(s)->round_count - 1; k >= 0; k--)
        LS_TRY(share_round(s, (cargo){(char *)units, columns * (int64_t)sizeof *units}, k));
    return LS_OK;
}

// --- totals ----------------------------------------------------------------------------------------------------------

static ls_status plan_totals(ls_strategy *s) {
    LS_TRY(ls__halving_plan(s));
    ls_halving *h = ls__halving_of(s);
    for (int b = 0; b < s->bucket_count; b++) h->gathers[b] = 1, h->round[b] = -1;  // none is on its way
    return ls__totals_want(s, &h->totals);
}

// Of what this worker owns. Its sources are listed.
static ls_status add_up(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    const ls_comm *comm = s->config.comm;
    int64_t from, to;
    ls__halving_owned(s, comm->host, comm->local_rank, bucket, &from, &to);
    return ls__totals_add_up(step, &ls__halving_of(s)->totals, from, to);
}

// There and back, as far as it goes without waiting.
static ls_status go_on(ls_lane_step *step, int bucket, int *peer) {
    LS_TRY(arrived(step, bucket, peer));
    if (*peer >= 0 || ls__halving_of(step->strategy)->gathers[bucket]) return LS_OK;
    LS_TRY(reduce_end(step, bucket));
    LS_TRY(add_up(step, bucket));
    LS_TRY(go_back(step->strategy, bucket));
    return arrived(step, bucket, peer);
}

// What every worker of this host takes has to be there. All buckets that are on their way go on, whoever is asked about.
static ls_status totals_arrived(ls_lane_step *step, int bucket, int *peer) {
    ls_strategy *s = step->strategy;
    const ls_halving *h = ls__halving_of(s);
    for (int b = 0; b < s->bucket_count; b++)
        if (b != bucket && !(h->gathers[b] && h->round[b] < 0)) LS_TRY(go_on(step, b, peer));
    LS_TRY(go_on(step, bucket, peer));
    if (*peer < 0) ls__totals_home(step, &h->totals, bucket, peer);
    return LS_OK;
}

// The same by all replicas, who wait for it: all totals are on their way before the first one is waited for.
static ls_status wait_for_total(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    ls_status status = LS_OK;
    for (int b = 0; bucket == 0 && b < s->bucket_count; b++) {
        ls__keep(&status, reduce_end(step, b));
        ls__keep(&status, add_up(step, b));
        ls__meet(step, LS_STEP_WAIT);
        if (step->replica == 0) ls__keep(&status, go_back(s, b));
    }
    if (step->replica == 0) ls__keep(&status, gather_end(step, bucket));
    ls__wait(s->host_barrier, step->times, LS_STEP_SEND);
    return status;
}

static ls_status totals_end(ls_lane_step *step, int bucket) {
    ls_status status = step->alone ? LS_OK : wait_for_total(step, bucket);
    ls__totals_source(step, &ls__halving_of(step->strategy)->totals, bucket);
    return status;
}

const ls_strategy_ops ls__strategy_allreduce_halving_bf16 = {
    .name = "allreduce",
    .help = "allreduce between many hosts, in rounds, of sums alone",
    .synchronous = 1,
    .weights_shared = 1,
    .plan = plan_totals,
    .destroy = ls__halving_destroy,
    .slice = ls__owners_each_host,
    .reduce_begin = reduce_begin,
    .arrived = totals_arrived,
    .reduce_end = totals_end,
};

const ls_strategy_ops ls__strategy_allreduce_halving = {
    .name = "allreduce",
    .help = "allreduce between many hosts, in rounds",
    .synchronous = 1,
    .weights_shared = 1,
    .bf16 = &ls__strategy_allreduce_halving_bf16,
    .plan = ls__halving_plan,
    .destroy = ls__halving_destroy,
    .slice = ls__owners_all,
    .reduce_begin = reduce_begin,
    .arrived = arrived,
    .reduce_end = reduce_end,
    .share = share,
    .gather_begin = gather_begin,
    .gather_end = gather_end,
};
