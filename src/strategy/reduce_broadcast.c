// Reduce to worker 0, average, broadcast; then every worker updates a full copy of the weights of its own.
//
// The scheme of many first programs with MPI, kept for comparison: worker 0 does all the adding and its wires carry everything,
// and the optimizer's state is stored once per worker. It adds in the same tree and updates with the same formulas, so
// its bits are those of `allreduce`. One lead worker of each host talks to worker 0, for all of that host. With LS_COMPRESS_BF16 worker 0
// sends the sum instead of the mean, since that is bf16, and leads divide.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/stream.h"
#include "strategy/strategy_impl.h"

typedef struct reduce_broadcast {
    char *partials;  // (host_pieces, length), on leads but worker 0: what their host has, bucket by bucket, as sent
    ls_window *received;   // (hosts), on worker 0: the same of each other host
    ls_window sum;         // (length), on worker 0 and other leads, with LS_COMPRESS_BF16: the whole tree's, as sent
    ls_request *requests;  // (bucket_count, hosts + 1)
    int *pending;          // (bucket_count)
} reduce_broadcast;

static reduce_broadcast *impl_of(const ls_strategy *s) { return s->impl; }

static int is_root(const ls_strategy *s) { return s->config.comm->position == 0; }
static int is_lead(const ls_strategy *s) { return s->config.comm->local_rank == 0 && !is_root(s); }

// Each worker updates all, its replicas share that.
static void slice(const ls_strategy *s, int lane, int bucket, int64_t *begin, int64_t *end) {
    ls__share(ls__bucket_begin(s, bucket), s->bucket_ends[bucket], lane % s->config.replicas, s->config.replicas, begin,
              end);
}

static void destroy(ls_strategy *s) {
    reduce_broadcast *b = impl_of(s);
    free(b->received);
    free(b->requests);
    free(b->pending);
    free(b);
}

static ls_status plan(ls_strategy *s) {
    ls_comm *comm = s->config.comm;
    reduce_broadcast *b;
    LS_TRY(ls_calloc(1, sizeof *b, &b));
    s->impl = b;
    s->makes_mean = 1;
    LS_TRY(ls__want_window(s, LS_STRATEGY_SUMS, LS_HOST, s->config.length * 4, &s->mean));
    if (comm->local_rank == 0) s->reads = s->config.length;
    if (comm->hosts == 1 || comm->local_rank != 0) return LS_OK;
    int64_t bytes = s->host_pieces * s->config.length * ls__sum_bytes(s);
    LS_TRY(ls_calloc((int64_t)s->bucket_count * (comm->hosts + 1), sizeof *b->requests, &b->requests));
    LS_TRY(ls_calloc(s->bucket_count, sizeof *b->pending, &b->pending));
    if (ls__rounds(s))
        LS_TRY(ls__want_window(s, LS_STRATEGY_SUMS, LS_WORKER, s->config.length * ls__sum_bytes(s), &b->sum));
    if (is_lead(s)) return ls__want(s, LS_STRATEGY_SUMS, LS_WORKER, bytes, &b->partials);
    LS_TRY(ls_calloc(comm->hosts, sizeof *b->received, &b->received));
    for (int h = 1; h < comm->hosts; h++)
        LS_TRY(ls__want_window(s, LS_STRATEGY_SUMS, LS_WORKER, bytes, &b->received[h]));
    return LS_OK;
}

// --- messages --------------------------------------------------------------------------------------------------------

static ls_request *next_request(const ls_strategy *s, int bucket) {
    reduce_broadcast *b = impl_of(s);
    return &b->requests[bucket * (s->config.comm->hosts + 1) + b->pending[bucket]];
}

// `count` of ls__sum_dtype.
static ls_status receive(ls_strategy *s, int bucket, void *data, int64_t count, int rank, ls_message message) {
    if (count == 0) return LS_OK;
    int tag = ls__tag(message, bucket);
    LS_TRY(ls_comm_irecv(s->config.comm, data, count, ls__sum_dtype(s), rank, tag, next_request(s, bucket)));
    impl_of(s)->pending[bucket]++;
    return LS_OK;
}

static ls_status send(ls_strategy *s, int bucket, const void *data, int64_t count, int rank, ls_message message) {
    if (count == 0) return LS_OK;
    int tag = ls__tag(message, bucket);
    LS_TRY(ls_comm_isend(s->config.comm, data, count, ls__sum_dtype(s), rank, tag, next_request(s, bucket)));
    impl_of(s)->pending[bucket]++;
    return LS_OK;
}

static ls_status wait_for(ls_strategy *s, int bucket) {
    reduce_broadcast *b = impl_of(s);
    int count = b->pending[bucket];
    b->pending[bucket] = 0;
    return ls_comm_wait_all(s->config.comm, &b->requests[bucket * (s->config.comm->hosts + 1)], count);
}

static int lead_of(const ls_strategy *s, int host) { return s->config.comm->order[s->host_first[host]]; }

static int64_t bucket_length(const ls_strategy *s, int bucket) {
    return s->bucket_ends[bucket] - ls__bucket_begin(s, bucket);
}

// Where a host's sums of a bucket, (pieces, bucket's length), are, in bytes: behind those of the buckets before.
static int64_t partials_at(const ls_strategy *s, int bucket) {
    return s->host_pieces * ls__bucket_begin(s, bucket) * ls__sum_bytes(s);
}

static ls_window received_at(const ls_strategy *s, int host, int bucket) {
    return ls__window_at(impl_of(s)->received[host], partials_at(s, bucket));
}

// What worker 0 sends of elements from `at` on.
static ls_window result_at(const ls_strategy *s, int64_t at) {
    return ls__window_at(ls__rounds(s) ? impl_of(s)->sum : s->mean, at * ls__sum_bytes(s));
}

static void *bucket_result(const ls_strategy *s, int bucket) { return result_at(s, ls__bucket_begin(s, bucket)).host; }

static ls_status receive_all(ls_strategy *s, int64_t micro_batches, int bucket) {
    for (int h = 1; h < s->config.comm->hosts; h++)
        LS_TRY(receive(s, bucket, received_at(s, h, bucket).host,
                       ls__host_piece_count(s, micro_batches, h) * bucket_length(s, bucket), lead_of(s, h),
                       LS_MESSAGE_GRADIENTS));
    return LS_OK;
}

static ls_status send_result(ls_strategy *s, int bucket) {
    for (int h = 1; h < s->config.comm->hosts; h++)
        LS_TRY(send(s, bucket, bucket_result(s, bucket), bucket_length(s, bucket), lead_of(s, h), LS_MESSAGE_MEAN));
    return LS_OK;
}

// --- phases ----------------------------------------------------------------------------------------------------------

// Leads send their host's sums to worker 0, which waits for them, and then for the mean.
static ls_status reduce_begin(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    reduce_broadcast *b = impl_of(s);
    int64_t micro_batches = step->info->micro_batches, begin = ls__bucket_begin(s, bucket);
    if (s->config.comm->hosts == 1) return LS_OK;
    if (is_root(s)) return step->replica == 0 ? receive_all(s, micro_batches, bucket) : LS_OK;
    if (!is_lead(s)) return LS_OK;
    char *partials = b->partials + partials_at(s, bucket);
    ls_status status = ls__host_partials(step, begin, s->bucket_ends[bucket], partials);
    ls__keep(&status, ls_synchronize(step->queue));
    ls__lap(step->times, LS_STEP_SUM);
    ls__meet(step, LS_STEP_WAIT);
    if (step->replica != 0) return status;
    ls__keep(&status,
             receive(s, bucket, bucket_result(s, bucket), bucket_length(s, bucket), lead_of(s, 0), LS_MESSAGE_MEAN));
    int pieces = ls__host_piece_count(s, micro_batches, s->config.comm->host);
    ls__keep(&status,
             send(s, bucket, partials, pieces * bucket_length(s, bucket), lead_of(s, 0), LS_MESSAGE_GRADIENTS));
    return status;
}

// A bucket of so many floats on average that a mean is in no cache any more when it is read.
enum { STREAMS_FROM = 4 << 20 };

// The mean of a slice, from the lane's sources, to where all of the host see it; and the sum, where that is what worker 0 is going to send.
static ls_status make_mean(ls_lane_step *step, ls_slice slice) {
    ls_strategy *s = step->strategy;
    int sends_sum = is_root(s) && impl_of(s)->sum.host;
    int streams = ls__host_memory(s) && s->config.length / s->bucket_count >= STREAMS_FROM;
    for (int64_t at = slice.begin, n; (n = ls__trained(s, &at, slice.end, s->block)) > 0; at += n) {
        ls_window to = ls__window_at(s->mean, at * 4);
        ls_span sum, mean = to.device.buffer && !streams ? to.device : ls__block(step, 0);
        LS_TRY(ls__sum_block(step, at, n, &sum));
        if (sends_sum) LS_TRY(ls__send_block(step, result_at(s, at).host, sum, n));
        LS_TRY(ls__scale_mean(step, at, mean, sum, n));
        if (streams)
            ls_stream(ls_span_host(to.device), ls_span_host(mean), n);
        else if (!to.device.buffer)
            LS_TRY(ls_read(step->queue, to.host, mean, n * 4));
    }
    return ls_synchronize(step->queue);
}

// Worker 0: gets the other hosts' sums, adds everything up, sends the mean.
static ls_status sum_at_root(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    ls_lane *lane = step->lane;
    int64_t micro_batches = step->info->micro_batches;
    int hosts = s->config.comm->hosts;
    ls_status status = LS_OK;
    if (hosts > 1) {
        if (step->replica == 0) status = wait_for(s, bucket);
        ls__meet(step, LS_STEP_SEND);
    }
    lane->source_count = ls__host_sources(s, micro_batches, lane->sources);
    for (int h = 1; h < hosts; h++)
        lane->source_count +=
            ls__received_sources(s, micro_batches, h, h + 1, received_at(s, h, bucket), ls__bucket_begin(s, bucket),
                                 bucket_length(s, bucket), lane->sources + lane->source_count);
    ls__keep(&status, make_mean(step, lane->slices[bucket]));
    ls__lap(step->times, LS_STEP_SUM);
    if (hosts > 1) {
        ls__meet(step, LS_STEP_WAIT);
        if (step->replica == 0) ls__keep(&status, send_result(s, bucket));
    }
    return status;
}

// A lead: gets the mean, or makes it of the sum.
static ls_status mean_at_lead(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    ls_lane *lane = step->lane;
    ls_status status = step->replica == 0 ? wait_for(s, bucket) : LS_OK;
    if (!ls__rounds(s)) return status;
    ls__meet(step, LS_STEP_SEND);
    int64_t begin = ls__bucket_begin(s, bucket);
    lane->sources[0] = (ls_source){.data = result_at(s, begin), .first = begin, .dtype = ls__sum_dtype(s)};
    lane->source_count = 1;
    ls__keep(&status, make_mean(step, lane->slices[bucket]));
    ls__lap(step->times, LS_STEP_SUM);
    return status;
}

// The mean is there for all workers of the host: those that exchange while others compute do not wait at a barrier for it.
static void note_mean(const ls_lane_step *step, int bucket) {
    atomic_store_explicit(&step->strategy->progress[bucket].reduced, step->number, memory_order_release);
}

static ls_status arrived(ls_lane_step *step, int bucket, int *peer) {
    ls_strategy *s = step->strategy;
    reduce_broadcast *b = impl_of(s);
    *peer = -1;
    if (s->config.comm->local_rank == 0 && s->config.comm->hosts > 1) {
        int pending;
        ls_request *requests = &b->requests[bucket * (s->config.comm->hosts + 1)];
        LS_TRY(ls_comm_test_all(s->config.comm, requests, b->pending[bucket], &pending));
        if (pending >= 0) *peer = requests[pending].peer;
    } else if (s->config.comm->local_rank > 0 &&
               atomic_load_explicit(&s->progress[bucket].reduced, memory_order_acquire) < step->number) {
        *peer = lead_of(s, s->config.comm->host);
    }
    return LS_OK;
}

// Until the mean is there nobody but worker 0 has anything to do.
static ls_status reduce_end(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    ls_status status = LS_OK;
    if (is_root(s))
        status = sum_at_root(step, bucket);
    else if (is_lead(s))
        status = mean_at_lead(step, bucket);
    if (!step->alone)
        ls__wait(s->host_barrier, step->times, LS_STEP_SEND);
    else if (step->replica == 0 && s->config.comm->local_rank == 0)
        note_mean(step, bucket);
    return status;
}

// What worker 0 sends has left it.
static ls_status gather_end(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    return is_root(s) && s->config.comm->hosts > 1 && step->replica == 0 ? wait_for(s, bucket) : LS_OK;
}

const ls_strategy_ops ls__strategy_reduce_broadcast = {
    .name = "reduce-broadcast",
    .help = "worker 0 sums and averages for all, and every worker updates weights of its own",
    .synchronous = 1,
    .plan = plan,
    .destroy = destroy,
    .slice = slice,
    .reduce_begin = reduce_begin,
    .arrived = arrived,
    .reduce_end = reduce_end,
    .gather_end = gather_end,
};
