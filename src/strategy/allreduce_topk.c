// allreduce between hosts with LS_COMPRESS_TOPK: every host sends what is not zero of its sums to every other, and every host updates everything.
//
//     host 0: lanes add up    --- what is not zero --->    host 1: adds up all hosts' sums in the tree, its lanes update
//             adds up, too    <-- what is not zero ---             all slices of its own copy of the weights
//
// The other strategies send sums to an owner, and its new weights back: those are dense, whatever sums are. Here no weights travel; the
// price is that each host keeps the optimizer's state once and updates all of it, spread over its lanes.
//
// The chunks of a bucket (topk.h) are cut into *columns*, as many as the host with most lanes has of them, of which each lane of a host packs some into a
// message of its own, and its worker sends it to the worker that takes the column on every other host, into memory that the host shares. In words of 32 bits
// a message is
//
//     its length | where each piece of the first chunk begins, of the next, ..., and where all end | the chunks
//
// and so a lane finds any chunk of any piece without reading others.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "strategy/topk.h"

typedef struct sparse {
    int columns;
    int *first_chunk;  // (bucket_count + 1)
    int64_t **room;  // (hosts) of (bucket_count * columns + 1): words before what a host sends of a column of a bucket
    uint32_t **received;   // (hosts): of all workers of this host; NULL: this host
    uint32_t **sent;       // (bucket_count * columns): of those that this worker sends, else NULL
    ls_request *requests;  // (bucket_count, request_count)
    int request_count;
    int *pending;  // (bucket_count)
    // With config.overlap: (bucket_count, local_size), of the host: the step in which a worker last had what it takes.
    _Atomic uint64_t *home;
} sparse;

static sparse *impl_of(const ls_strategy *s) { return s->impl; }

static int lanes_of(const ls_strategy *s, int host) {
    return (s->host_first[host + 1] - s->host_first[host]) * s->config.replicas;
}

// The lane of a host that packs a column, and the rank of the worker that sends and takes it.
static int packer(const ls_strategy *s, int host, int column) { return column % lanes_of(s, host); }
static int speaker(const ls_strategy *s, int host, int column) {
    return s->config.comm->order[s->host_first[host] + packer(s, host, column) / s->config.replicas];
}
static int is_mine(const ls_strategy *s, int column) {
    return speaker(s, s->config.comm->host, column) == s->config.comm->rank;
}

// The chunks [*first, *end) of a column.
static void chunks_of(const ls_strategy *s, int bucket, int column, int *first, int *end) {
    const sparse *a = impl_of(s);
    int64_t before = a->first_chunk[bucket], count = a->first_chunk[bucket + 1] - before;
    *first = (int)(before + count * column / a->columns);
    *end = (int)(before + count * (column + 1) / a->columns);
}

// --- planning --------------------------------------------------------------------------------------------------------

static void destroy(ls_strategy *s) {
    sparse *a = impl_of(s);
    for (int h = 0; a->room && h < s->config.comm->hosts; h++) free(a->room[h]);
    free(a->first_chunk);
    free(a->room);
    free(a->received);
    free(a->sent);
    free(a->requests);
    free(a->pending);
    free(a);
}

// The most words that a host sends of a column.
static int64_t most_words(const ls_strategy *s, int host, int bucket, int column) {
    int64_t begin, end, unused, pieces = ls__most_pieces(s, host, host + 1);
    int first, last, replicas = s->config.replicas;
    ls_strategy_deal(s, s->config.micro_batches, s->host_first[host] * replicas, &begin, &unused);
    ls_strategy_deal(s, s->config.micro_batches, s->host_first[host + 1] * replicas - 1, &unused, &end);
    chunks_of(s, bucket, column, &first, &last);
    int64_t words = 2 + pieces * (last - first);
    for (int i = first; i < last; i++) {
        const ls_topk_chunk *chunk = &s->topk->chunks[i];
        // However the elements that stay are spread over pieces, each has at most one word with one index.
        int64_t all = pieces * (chunk->end - chunk->begin), few = ls__topk_words((end - begin) * chunk->keep) + pieces;
        words += few < all ? few : all;
    }
    return words;
}

static ls_status plan_host(ls_strategy *s, int host) {
    sparse *a = impl_of(s);
    int64_t before = 0;
    LS_TRY(ls_calloc((int64_t)s->bucket_count * a->columns + 1, sizeof(int64_t), &a->room[host]));
    for (int b = 0; b < s->bucket_count; b++)
        for (int c = 0; c < a->columns; c++) {
            int64_t words = most_words(s, host, b, c);
            if (words > INT32_MAX)
                return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                               "messages of %lld numbers are more than MPI can send: take smaller buckets",
                               (long long)words);
            a->room[host][b * a->columns + c] = before;
            before += words;
        }
    a->room[host][s->bucket_count * a->columns] = before;
    if (host == s->config.comm->host) return LS_OK;
    return ls__want(s, LS_STRATEGY_SUMS, LS_HOST, before * 4, &a->received[host]);
}

static int64_t room_of(const ls_strategy *s, int host, int bucket, int column) {
    const int64_t *room = impl_of(s)->room[host] + bucket * impl_of(s)->columns + column;
    return room[1] - room[0];
}

static ls_status plan_sent(ls_strategy *s) {
    sparse *a = impl_of(s);
    int host = s->config.comm->host, columns = 0;
    LS_TRY(ls_calloc((int64_t)s->bucket_count * a->columns, sizeof *a->sent, &a->sent));
    for (int c = 0; c < a->columns; c++) {
        if (!is_mine(s, c)) continue;
        columns++;
        for (int b = 0; b < s->bucket_count; b++) {
            int first, end;
            chunks_of(s, b, c, &first, &end);
            LS_TRY(ls__want(s, LS_STRATEGY_SUMS, LS_WORKER, room_of(s, host, b, c) * 4, &a->sent[b * a->columns + c]));
            for (int i = first; i < end; i++) s->reads += s->topk->chunks[i].end - s->topk->chunks[i].begin;
        }
    }
    a->request_count = 2 * columns * (s->config.comm->hosts - 1);
    LS_TRY(ls_calloc((int64_t)s->bucket_count * a->request_count, sizeof *a->requests, &a->requests));
    return ls_calloc(s->bucket_count, sizeof *a->pending, &a->pending);
}

static ls_status plan_columns(ls_strategy *s) {
    sparse *a = impl_of(s);
    for (int host = 0; host < s->config.comm->hosts; host++)
        if (lanes_of(s, host) > a->columns) a->columns = lanes_of(s, host);
    LS_TRY(ls_calloc(s->bucket_count + 1, sizeof *a->first_chunk, &a->first_chunk));
    for (int b = 0; b < s->bucket_count; b++) a->first_chunk[b + 1] = ls__topk_chunk_at(s->topk, s->bucket_ends[b]);
    for (int b = 0; b < s->bucket_count; b++)
        for (int c = 0; c < a->columns; c++) {
            int first, end;
            chunks_of(s, b, c, &first, &end);
            for (int i = first; i < end; i++) s->topk->chunks[i].column = c;
        }
    return LS_OK;
}

static ls_status plan(ls_strategy *s) {
    const ls_comm *comm = s->config.comm;
    sparse *a;
    LS_TRY(ls_calloc(1, sizeof *a, &a));
    s->impl = a;
    LS_TRY(plan_columns(s));
    LS_TRY(ls_calloc(comm->hosts, sizeof *a->room, &a->room));
    LS_TRY(ls_calloc(comm->hosts, sizeof *a->received, &a->received));
    for (int host = 0; host < comm->hosts; host++) LS_TRY(plan_host(s, host));
    LS_TRY(plan_sent(s));
    for (int b = 0; b < s->bucket_count; b++) {
        int64_t begin, end, unused;
        ls__owners_each_host(s, comm->position * s->config.replicas, b, &begin, &unused);
        ls__owners_each_host(s, (comm->position + 1) * s->config.replicas - 1, b, &unused, &end);
        s->reads += end - begin;
    }
    if (s->reads > s->config.length) s->reads = s->config.length;  // of its slices it may have sent some, too
    if (!s->config.overlap) return LS_OK;
    return ls__want(s, LS_STRATEGY_SUMS, LS_HOST,
                    (int64_t)s->bucket_count * comm->local_size * (int64_t)sizeof *a->home, &a->home);
}

// --- messages --------------------------------------------------------------------------------------------------------

static ls_request *requests_of(const ls_strategy *s, int bucket) {
    return &impl_of(s)->requests[(int64_t)bucket * impl_of(s)->request_count];
}

static uint32_t *received_at(const ls_strategy *s, int host, int bucket, int column) {
    const sparse *a = impl_of(s);
    return a->received[host] + a->room[host][bucket * a->columns + column];
}

static ls_status receive_all(ls_strategy *s, int bucket) {
    sparse *a = impl_of(s);
    ls_comm *comm = s->config.comm;
    for (int host = 0; host < comm->hosts; host++)
        for (int c = 0; c < a->columns && host != comm->host; c++) {
            if (!is_mine(s, c)) continue;
            LS_TRY(ls_comm_irecv_most(comm, received_at(s, host, bucket, c), room_of(s, host, bucket, c), LS_DTYPE_I32,
                                      speaker(s, host, c), ls__tag(LS_MESSAGE_GRADIENTS, bucket),
                                      &requests_of(s, bucket)[a->pending[bucket]]));
            a->pending[bucket]++;
        }
    return LS_OK;
}

static ls_status send_all(ls_strategy *s, int bucket) {
    sparse *a = impl_of(s);
    ls_comm *comm = s->config.comm;
    for (int host = 0; host < comm->hosts; host++)
        for (int c = 0; c < a->columns && host != comm->host; c++) {
            if (!is_mine(s, c)) continue;
            const uint32_t *message = a->sent[bucket * a->columns + c];
            LS_TRY(ls_comm_isend(comm, message, message[0], LS_DTYPE_I32, speaker(s, host, c),
                                 ls__tag(LS_MESSAGE_GRADIENTS, bucket), &requests_of(s, bucket)[a->pending[bucket]]));
            a->pending[bucket]++;
        }
    return LS_OK;
}

// A column of a bucket into its message: what this host has.
static ls_status pack(ls_lane_step *step, int bucket, int column) {
    ls_strategy *s = step->strategy;
    ls_lane *lane = step->lane;
    uint32_t *out = impl_of(s)->sent[bucket * impl_of(s)->columns + column];
    ls_span results[LS_TREE_MAX_PIECES] = {{.buffer = NULL}};
    int first, end, found;
    int pieces = ls__host_piece_count(s, step->info->micro_batches, s->config.comm->host);
    int count = ls__host_sources(s, step->info->micro_batches, lane->sources);
    chunks_of(s, bucket, column, &first, &end);
    int64_t chunks = end - first, at = 2 + pieces * chunks;
    // Chunk by chunk, since the pieces of one are in the caches together: they lie behind one another, and the table says which is whose.
    for (int i = first; i < end; i++) {
        const ls_topk_chunk *chunk = &s->topk->chunks[i];
        int64_t n = chunk->end - chunk->begin;
        LS_TRY(ls__reduce_block(step, lane->sources, count, chunk->begin, n, results, &found));
        for (int k = 0; k < found && lane->scratch; k++)
            LS_TRY(ls_read(step->queue, lane->scratch + (int64_t)k * LS_TOPK_CHUNK, results[k], n * 4));
        LS_TRY(ls_synchronize(step->queue));
        for (int k = 0; k < found; k++) {
            const float *sums = lane->scratch ? lane->scratch + (int64_t)k * LS_TOPK_CHUNK : ls_span_host(results[k]);
            out[1 + (i - first) * pieces + k] = (uint32_t)at;
            at += ls__topk_encode(sums, n, out + at);
        }
    }
    out[1 + pieces * chunks] = (uint32_t)at;
    out[0] = (uint32_t)at;
    return LS_OK;
}

// --- phases ----------------------------------------------------------------------------------------------------------

static ls_status reduce_begin(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    sparse *a = impl_of(s);
    int host = s->config.comm->host;
    ls_status status = step->replica == 0 ? receive_all(s, bucket) : LS_OK;
    for (int c = 0; c < a->columns; c++)
        if (packer(s, host, c) == s->host_lane + step->replica) ls__keep(&status, pack(step, bucket, c));
    ls__lap(step->times, LS_STEP_SUM);
    ls__meet(step, LS_STEP_WAIT);
    if (step->replica == 0) {
        ls__keep(&status, send_all(s, bucket));
        ls__lap(step->times, LS_STEP_SEND);
    }
    return status;
}

static _Atomic uint64_t *home_of(const ls_strategy *s, int bucket, int local_rank) {
    return &impl_of(s)->home[(int64_t)bucket * s->config.comm->local_size + local_rank];
}

// What every worker of this host takes has to be there.
static ls_status arrived(ls_lane_step *step, int bucket, int *peer) {
    ls_strategy *s = step->strategy;
    const ls_comm *comm = s->config.comm;
    ls_request *requests = requests_of(s, bucket);
    int pending;
    LS_TRY(ls_comm_test_all(s->config.comm, requests, impl_of(s)->pending[bucket], &pending));
    *peer = pending >= 0 ? requests[pending].peer : -1;
    if (pending >= 0) return LS_OK;
    atomic_store_explicit(home_of(s, bucket, comm->local_rank), step->number, memory_order_release);
    for (int i = 0; i < comm->local_size && *peer < 0; i++)
        if (atomic_load_explicit(home_of(s, bucket, i), memory_order_acquire) < step->number)
            *peer = comm->order[s->host_first[comm->host] + i];
    return LS_OK;
}

static void list_sources(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    const ls_comm *comm = s->config.comm;
    ls_lane *lane = step->lane;
    int64_t v = step->info->micro_batches;
    lane->source_count = 0;
    for (int host = 0; host < comm->hosts; host++) {
        ls_source *sources = lane->sources + lane->source_count;
        ls_piece pieces[LS_TREE_MAX_PIECES];
        if (host == comm->host) {
            lane->source_count += ls__host_sources(s, v, sources);
            continue;
        }
        int count = ls__hosts_pieces(s, v, host, host + 1, pieces);
        for (int k = 0; k < count; k++)
            sources[k] = (ls_source){
                .piece = pieces[k], .pieces = count, .index = k, .host = host, .bucket = bucket, .dtype = LS_DTYPE_F32};
        lane->source_count += count;
    }
}

static ls_status reduce_end(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    ls_status status = LS_OK;
    if (step->replica == 0) {
        status = ls_comm_wait_all(s->config.comm, requests_of(s, bucket), impl_of(s)->pending[bucket]);
        impl_of(s)->pending[bucket] = 0;
    }
    if (!step->alone) ls__wait(s->host_barrier, step->times, LS_STEP_SEND);
    list_sources(step, bucket);
    return status;
}

ls_status ls__topk_bring(ls_lane_step *step, const ls_source *source, int64_t offset, int64_t n, int block,
                         ls_span *out) {
    ls_strategy *s = step->strategy;
    const ls_topk *topk = s->topk;
    int far = !ls__host_memory(s);
    *out = ls__block(step, block);
    if (!far) LS_TRY(ls__memory(step->queue)->zero(step->queue, *out, n * 4));
    for (int i = ls__topk_chunk_at(topk, offset); i < topk->count && topk->chunks[i].begin < offset + n; i++) {
        const ls_topk_chunk *chunk = &topk->chunks[i];
        const uint32_t *message = received_at(s, source->host, source->bucket, chunk->column);
        int first, end;
        chunks_of(s, source->bucket, chunk->column, &first, &end);
        const uint32_t *at = message + 1 + (i - first) * source->pieces + source->index;
        int64_t from = chunk->begin > offset ? chunk->begin : offset;
        int64_t to = chunk->end < offset + n ? chunk->end : offset + n;
        ls_span part = ls_span_at(*out, (from - offset) * 4);
        float *values = far ? step->lane->scratch : ls_span_host(part);
        if (far)
            for (int64_t k = 0; k < to - from; k++) values[k] = 0;
        ls__topk_decode(message + at[0], at[1] - at[0], chunk->end - chunk->begin, from - chunk->begin, to - from,
                        values);
        if (far) LS_TRY(ls_write(step->queue, part, values, (to - from) * 4));
        if (far) LS_TRY(ls_synchronize(step->queue));
    }
    return LS_OK;
}

const ls_strategy_ops ls__strategy_allreduce_topk = {
    .name = "allreduce",
    .help = "allreduce between hosts of what is not zero",
    .synchronous = 1,
    .weights_shared = 1,
    .plan = plan,
    .destroy = destroy,
    .slice = ls__owners_each_host,
    .reduce_begin = reduce_begin,
    .arrived = arrived,
    .reduce_end = reduce_end,
};
