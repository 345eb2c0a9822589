// Lanes: what they are dealt, the slots their gradients lie in, and the sums they end a step with.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "strategy/strategy_impl.h"
#include "strategy/topk.h"

// --- dealing ---------------------------------------------------------------------------------------------------------

ls_status ls_strategy_assign(const ls_strategy_ops *ops, ls_roles *roles) {
    if (ops->assign) return ops->assign(roles);
    if (roles->servers == 0) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%d server%s asked for, and the strategy %s has none: leave them out, or choose parameter-server",
                   roles->servers, roles->servers == 1 ? " was" : "s were", ops->name);
}

// Server i of S is the last worker of the i-th of as many even parts of all workers but the first.
static int server_position(const ls_roles *r, int server) {
    return (int)((int64_t)(server + 1) * (r->workers - 1) / r->servers);
}

int ls_roles_server(const ls_roles *r, int position) {
    for (int i = 0; i < r->servers; i++)
        if (server_position(r, i) == position) return i;
    return -1;
}

void ls_roles_deal(const ls_roles *r, int64_t micro_batches, int lane, int64_t *begin, int64_t *end) {
    int position = lane / r->replicas, before = 0, serves = 0;
    for (int i = 0; i < r->servers; i++) {
        before += server_position(r, i) < position;
        serves |= server_position(r, i) == position;
    }
    int computing = (r->workers - r->servers) * r->replicas, first = (position - before) * r->replicas;
    int64_t dealt = r->whole > micro_batches ? r->whole : micro_batches;
    ls_tree_run(dealt, serves ? first : first + lane % r->replicas, computing, begin, end);
    if (*begin > micro_batches) *begin = micro_batches;
    if (*end > micro_batches) *end = micro_batches;
    if (serves) *end = *begin;
}

void ls_strategy_deal(const ls_strategy *s, int64_t micro_batches, int lane, int64_t *begin, int64_t *end) {
    ls_roles_deal(&s->roles, micro_batches, lane, begin, end);
}

int64_t ls_strategy_deal_maximum(const ls_strategy *s, int64_t micro_batches) {
    int64_t begin, end, maximum = 0;
    for (int lane = 0; lane < s->lanes; lane++) {
        ls_strategy_deal(s, micro_batches, lane, &begin, &end);
        if (end - begin > maximum) maximum = end - begin;
    }
    return maximum;
}

void ls_strategy_any_order(ls_strategy *s, int any) { s->any_order = any; }

int ls__pieces(const ls_strategy *s, int64_t micro_batches, int64_t begin, int64_t end, ls_piece *pieces) {
    if (!s->any_order) return ls_tree_pieces(micro_batches, begin, end, pieces);
    pieces[0] = (ls_piece){begin, 0};
    return begin < end;
}

int ls__merge(const ls_strategy *s, int64_t micro_batches, ls_piece *stack, int *depth) {
    if (!s->any_order) return ls_tree_merge(micro_batches, stack, depth);
    if (*depth < 2) return 0;
    --*depth;
    return 1;
}

int ls__hosts_pieces(const ls_strategy *s, int64_t micro_batches, int first, int end, ls_piece *pieces) {
    int64_t from, to, unused;
    int replicas = s->config.replicas;
    ls_strategy_deal(s, micro_batches, s->host_first[first] * replicas, &from, &unused);
    ls_strategy_deal(s, micro_batches, s->host_first[end] * replicas - 1, &unused, &to);
    return ls__pieces(s, micro_batches, from, to, pieces);
}

int ls__host_piece_count(const ls_strategy *s, int64_t micro_batches, int host) {
    ls_piece pieces[LS_TREE_MAX_PIECES];
    return ls__hosts_pieces(s, micro_batches, host, host + 1, pieces);
}

int ls__most_pieces(const ls_strategy *s, int first, int end) {
    ls_piece pieces[LS_TREE_MAX_PIECES];
    int most = 1;
    for (int64_t v = 1; v <= s->config.micro_batches; v++) {
        int count = ls__hosts_pieces(s, v, first, end, pieces);
        if (count > most) most = count;
    }
    return most;
}

// --- slices ----------------------------------------------------------------------------------------------------------

void ls__share(int64_t begin, int64_t end, int part, int parts, int64_t *part_begin, int64_t *part_end) {
    int64_t units = (end - begin) / LS_SLICE_ALIGN;
    *part_begin = begin + units * part / parts * LS_SLICE_ALIGN;
    *part_end = begin + units * (part + 1) / parts * LS_SLICE_ALIGN;
}

void ls__slices(const ls_strategy *s, ls_cut *cut, int first, int last, ls_slice *slices) {
    int64_t before = 0, unused;
    for (int b = 0; b < s->bucket_count; b++) {
        cut(s, first, b, &slices[b].begin, &unused);
        cut(s, last, b, &unused, &slices[b].end);
        slices[b].first = before;
        before += ls__slice_length(slices[b]);
    }
}

static ls_status plan_buckets(ls_strategy *s) {
    const ls_strategy_config *config = &s->config;
    int64_t before = 0;
    s->bucket_count = config->bucket_ends ? config->bucket_count : 1;
    if (s->bucket_count < 1 || s->bucket_count > LS_MAX_BUCKETS)
        return LS_FAIL(LS_STATUS_INTERNAL, "%d buckets are asked for; there can be 1 to %d", s->bucket_count,
                       LS_MAX_BUCKETS);
    LS_TRY(ls_calloc(s->bucket_count, sizeof *s->bucket_ends, &s->bucket_ends));
    for (int b = 0; b < s->bucket_count; b++) {
        int64_t end = config->bucket_ends ? config->bucket_ends[b] : config->length;
        if (end <= before || end % LS_SLICE_ALIGN != 0) break;
        s->bucket_ends[b] = before = end;
    }
    if (before != config->length)
        return LS_FAIL(LS_STATUS_INTERNAL, "the buckets of a vector of %lld floats cover it up to %lld only",
                       (long long)config->length, (long long)before);
    return LS_OK;
}

// --- planning --------------------------------------------------------------------------------------------------------

// Buffers for partial sums: a run's pieces rise and fall in level, so a stack holds at most two of each.
static int block_count(int64_t micro_batches) { return 2 * (64 - __builtin_clzll((uint64_t)micro_batches)) + 2; }

static ls_status plan_lane(ls_strategy *s, int replica) {
    int far = !ls__host_memory(s);
    int64_t v = s->config.micro_batches;
    int position = s->config.comm->position * s->config.replicas + replica;
    LS_TRY(ls_memory_alloc(sizeof(ls_lane), &s->lane[replica]));
    ls_lane *lane = s->lane[replica];
    LS_TRY(ls_calloc(s->bucket_count, sizeof *lane->slices, &lane->slices));
    LS_TRY(ls_calloc(s->bucket_count, 1, &lane->begun));
    ls__slices(s, s->ops->slice, position, position, lane->slices);
    int64_t bytes = ls__slices_length(s, lane->slices) * (int64_t)sizeof(float);
    LS_TRY(ls__want(s, LS_STRATEGY_SUMS, replica, v * (int64_t)sizeof(ls_source), &lane->sources));
    LS_TRY(ls__want_span(s, LS_STRATEGY_SUMS, replica, block_count(v) * s->block * 4, &lane->blocks));
    if (far) LS_TRY(ls__want_span(s, LS_STRATEGY_GRADIENTS, replica, s->slots * s->config.length * 4, &lane->slots));
    if (ls__rounds(s)) LS_TRY(ls__want_span(s, LS_STRATEGY_SUMS, replica, s->block * 2, &lane->packed));
    if (far && (ls__clips(s) || ls__layerwise(s)))
        LS_TRY(ls__want_span(s, LS_STRATEGY_SUMS, replica, s->block / LS_SLICE_ALIGN * 2 * (int64_t)sizeof(double),
                             &lane->unit_sums));
    if (s->config.find_not_finite) {
        LS_TRY(ls__want_span(s, LS_STRATEGY_SUMS, replica, LS_ALIGN, &lane->found));
        LS_TRY(ls__want(s, LS_STRATEGY_SUMS, replica, LS_ALIGN, &lane->found_host));
    }
    if (ls__layerwise(s))
        LS_TRY(ls__want(s, LS_STRATEGY_SUMS, replica, s->run_count * (int64_t)sizeof *lane->norms, &lane->norms));
    if (ls__layerwise(s) || (ls__clips(s) && !s->makes_mean))
        LS_TRY(ls__want_span(s, LS_STRATEGY_SUMS, replica, bytes, &lane->kept));
    LS_TRY(ls__topk_plan_lane(s, replica));
    int states = s->config.optimizer->state_count(&s->config.params);
    for (int i = 0; i < states; i++) LS_TRY(ls__want_span(s, LS_STRATEGY_STATE, replica, bytes, &lane->state[i]));
    if (s->config.lookahead) LS_TRY(ls__want_span(s, LS_STRATEGY_STATE, replica, bytes, &lane->slow));
    return LS_OK;
}

ls_status ls__lanes_plan(ls_strategy *s) {
    for (int r = 0; r < s->config.replicas; r++) LS_TRY(plan_lane(s, r));
    return LS_OK;
}

// The slots a lane needs and the pieces a host can have, in a full step and in every shorter one: a short run may be cut at
// less even places than a long one.
static void find_bounds(ls_strategy *s) {
    ls_comm *comm = s->config.comm;
    s->slots = 1;
    s->host_pieces = 1;
    for (int64_t v = 1; v <= s->config.micro_batches; v++)
        for (int lane = 0; lane < s->lanes; lane++) {
            int64_t begin, end;
            ls_strategy_deal(s, v, lane, &begin, &end);
            int slots = ls_tree_slots(v, begin, end);
            if (slots > s->slots) s->slots = slots;
        }
    for (int host = 0; host < comm->hosts; host++) {
        int pieces = ls__most_pieces(s, host, host + 1);
        if (pieces > s->host_pieces) s->host_pieces = pieces;
    }
}

// Blocks stay small where a thread of its own exchanges behind backward: it goes through them by itself.
static int64_t block_length(const ls_strategy_config *config) {
    int64_t block = LS_BLOCK;
    if (!config->device->ops->host_memory)
        block = LS_FAR_BLOCK;
    else if (config->threads > 1 && !config->overlap)
        block = (int64_t)config->threads * LS_TEAM_BLOCK;
    return config->length < block ? config->length : block;
}

ls_status ls__common_plan(ls_strategy *s) {
    const ls_strategy_config *config = &s->config;
    ls_comm *comm = config->comm;
    s->roles = (ls_roles){.workers = comm->size, .replicas = config->replicas, .servers = config->servers};
    if (config->compress == LS_COMPRESS_TOPK) s->roles.whole = config->micro_batches;
    LS_TRY(ls_strategy_assign(s->ops, &s->roles));
    s->lanes = comm->size * config->replicas;
    s->host_lanes = comm->local_size * config->replicas;
    s->host_lane = comm->local_rank * config->replicas;
    s->block = block_length(config);

    LS_TRY(ls_calloc(comm->hosts + 1, sizeof(int), &s->host_first));
    for (int position = 0; position < comm->size; position++)
        s->host_first[comm->host_of[comm->order[position]] + 1] = position + 1;
    find_bounds(s);
    LS_TRY(plan_buckets(s));
    LS_TRY(ls__runs_create(s));
    LS_TRY(ls__topk_plan(s));
    LS_TRY(ls_calloc(config->replicas, sizeof *s->lane, &s->lane));

    LS_TRY(ls__want(s, LS_STRATEGY_SUMS, LS_HOST, sizeof(ls_barrier), &s->host_barrier));
    LS_TRY(ls__want(s, LS_STRATEGY_SUMS, LS_WORKER, sizeof(ls_barrier), &s->worker_barrier));
    LS_TRY(ls__votes_plan(s));
    LS_TRY(ls__overlap_plan(s));
    int whose = s->ops->weights_shared ? LS_HOST : LS_WORKER;
    int64_t column_bytes = config->length / LS_SLICE_ALIGN * (int64_t)sizeof(double);
    if (ls__clips(s)) LS_TRY(ls__want_window(s, LS_STRATEGY_SUMS, whose, column_bytes, &s->squares));
    if (ls__layerwise(s)) LS_TRY(ls__want_window(s, LS_STRATEGY_SUMS, whose, 2 * column_bytes, &s->layer_squares));
    return LS_OK;
}

void ls__common_free(ls_strategy *s) {
    ls__overlap_free(s);
    for (int r = 0; s->lane && r < s->config.replicas; r++) {
        if (!s->lane[r]) continue;
        free(s->lane[r]->slices);
        free(s->lane[r]->begun);
        free(s->lane[r]->turn);
        ls_memory_free(s->lane[r]);
    }
    free(s->lane);
    free(s->runs);
    ls__topk_free(s);
    free(s->bucket_ends);
    free(s->host_first);
    ls__votes_free(s);
    ls__wants_free(s);
}

// --- gradients -------------------------------------------------------------------------------------------------------

// Slot `index` of a lane of the host. Other workers' device memory is out of reach: there is only what they publish.
static ls_window slot(const ls_strategy *s, int host_lane, int index) {
    int64_t bytes = s->config.length * (int64_t)sizeof(float);
    int replica = host_lane - s->host_lane;
    ls_window w = ls__window_at(s->slots_window, ((int64_t)host_lane * s->slots + index) * bytes);
    if (!ls__host_memory(s) && replica >= 0 && replica < s->config.replicas)
        w.device = ls_span_at(s->lane[replica]->slots, index * bytes);
    return w;
}

void *ls_strategy_lane_gradients(const ls_strategy *s, int replica, int64_t *bytes) {
    int there = ls__host_memory(s) && s->slots_window.host;
    *bytes = there ? s->slots * s->config.length * (int64_t)sizeof(float) : 0;
    return there ? slot(s, s->host_lane + replica, 0).host : NULL;
}

int ls__lanes_sources(const ls_strategy *s, int64_t micro_batches, int first, int end, ls_source *sources) {
    int host_first = s->host_first[s->config.comm->host] * s->config.replicas, total = 0;
    for (int i = first; i < end; i++) {
        ls_piece pieces[LS_TREE_MAX_PIECES];
        int64_t from, to;
        ls_strategy_deal(s, micro_batches, host_first + i, &from, &to);
        int count = ls__pieces(s, micro_batches, from, to, pieces);
        for (int k = 0; k < count; k++)
            sources[total++] = (ls_source){.piece = pieces[k], .data = slot(s, i, k), .dtype = LS_DTYPE_F32};
    }
    return total;
}

int ls__received_sources(const ls_strategy *s, int64_t micro_batches, int first, int end, ls_window data, int64_t begin,
                         int64_t n, ls_source *sources) {
    ls_piece pieces[LS_TREE_MAX_PIECES];
    int count = ls__hosts_pieces(s, micro_batches, first, end, pieces);
    for (int k = 0; k < count; k++)
        sources[k] = (ls_source){.piece = pieces[k],
                                 .data = ls__window_at(data, k * n * ls__sum_bytes(s)),
                                 .first = begin,
                                 .dtype = ls__sum_dtype(s)};
    return count;
}

ls_status ls__publish(ls_lane_step *step, int64_t begin, int64_t end) {
    const ls_strategy *s = step->strategy;
    ls_piece pieces[LS_TREE_MAX_PIECES];
    int64_t first, last, micro_batches = step->info->micro_batches;
    int mine = s->host_lane + step->replica;
    if (ls__host_memory(s) || !s->slots_window.host) return LS_OK;
    ls_strategy_deal(s, micro_batches, s->config.comm->position * s->config.replicas + step->replica, &first, &last);
    int count = ls__pieces(s, micro_batches, first, last, pieces);
    for (int k = 0; k < count; k++)
        for (int64_t at = begin, n; (n = ls__trained(s, &at, end, end)) > 0; at += n) {
            ls_window w = ls__window_at(slot(s, mine, k), at * 4);
            LS_TRY(ls_read(step->queue, w.host, w.device, n * 4));
        }
    return LS_OK;
}

ls_span ls_strategy_gradient_begin(ls_strategy *s, int replica, const ls_step_info *info, int64_t micro_batch) {
    ls_lane *lane = s->lane[replica];
    int64_t begin, end;
    ls_strategy_deal(s, info->micro_batches, s->config.comm->position * s->config.replicas + replica, &begin, &end);
    assert(micro_batch >= begin && micro_batch < end);
    if (micro_batch == begin) lane->depth = 0;
    assert(lane->depth < s->slots);
    lane->stack[lane->depth] = (ls_piece){micro_batch, 0};
    lane->open = 1;
    return slot(s, s->host_lane + replica, lane->depth).device;
}

ls_status ls__gradient_merge(ls_strategy *s, int replica, ls_queue *queue, const ls_step_info *info, int64_t begin,
                             int64_t end) {
    const ls_lane *lane = s->lane[replica];
    int mine = s->host_lane + replica, depth = lane->depth + 1;
    ls_piece stack[LS_TREE_MAX_PIECES];
    ls_status status = LS_OK;
    if (s->topk) status = ls__topk_select(s, replica, queue, info, slot(s, mine, lane->depth).device, begin, end);
    memcpy(stack, lane->stack, (size_t)depth * sizeof *stack);
    while (ls__merge(s, info->micro_batches, stack, &depth)) {
        ls_span left = slot(s, mine, depth - 1).device, right = slot(s, mine, depth).device;
        for (int64_t at = begin, n; (n = ls__trained(s, &at, end, end - begin)) > 0; at += n) {
            ls_span sum = ls_span_at(left, at * 4);
            ls__keep(&status, ls__add(s, queue, sum, sum, ls_span_at(right, at * 4), n));
        }
    }
    return status;
}

void ls_strategy_gradient_drop(ls_strategy *s, int replica) { s->lane[replica]->open = 0; }

ls_status ls_strategy_gradient_end(ls_strategy *s, int replica, ls_queue *queue, const ls_step_info *info) {
    ls_lane *lane = s->lane[replica];
    ls_status status = LS_OK;
    for (int b = 0; b < s->bucket_count; b++) {
        int first = b;
        while (b < s->bucket_count && !lane->begun[b]) b++;
        if (b > first)
            ls__keep(&status,
                     ls__gradient_merge(s, replica, queue, info, ls__bucket_begin(s, first), s->bucket_ends[b - 1]));
    }
    lane->open = 0;
    lane->depth++;
    while (ls__merge(s, info->micro_batches, lane->stack, &lane->depth)) continue;
    return status;
}
