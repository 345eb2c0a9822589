#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/host.h"
#include "strategy/strategy_impl.h"

// Buffers for partial sums: a run's pieces rise and fall in level, so a stack holds at most two of each.
static int block_count(int64_t micro_batches) { return 2 * (64 - __builtin_clzll((uint64_t)micro_batches)) + 2; }

static ls_status plan_lane(ls_strategy_base *base, int replica) {
    int64_t v = base->head.config.micro_batches;
    LS_TRY(ls_memory_alloc(sizeof(ls_lane), &base->lane[replica]));
    ls_lane *lane = base->lane[replica];
    LS_TRY(ls__want(base, LS_STRATEGY_SUMS, replica, v * (int64_t)sizeof(ls_source), &lane->sources));
    LS_TRY(ls__want(base, LS_STRATEGY_SUMS, replica, (int64_t)block_count(v) * LS_BLOCK * 4, &lane->blocks));
    if (!ls__layerwise(base)) return LS_OK;
    return ls__want(base, LS_STRATEGY_SUMS, replica, base->run_count * (int64_t)sizeof *lane->norms, &lane->norms);
}

// The slots a lane needs and the pieces a host can have, in a full step and in every shorter one: a short run may be cut at
// less even places than a long one.
static void find_bounds(ls_strategy_base *base) {
    ls_comm *comm = base->head.config.comm;
    base->slots = 1;
    base->host_pieces = 1;
    for (int64_t v = 1; v <= base->head.config.micro_batches; v++) {
        for (int lane = 0; lane < base->lanes; lane++) {
            int64_t begin, end;
            ls_tree_run(v, lane, base->lanes, &begin, &end);
            int slots = ls_tree_slots(v, begin, end);
            if (slots > base->slots) base->slots = slots;
        }
        for (int host = 0; host < comm->hosts; host++) {
            int pieces = ls__host_piece_count(base, v, host);
            if (pieces > base->host_pieces) base->host_pieces = pieces;
        }
    }
}

ls_status ls__base_plan(ls_strategy_base *base, const ls_strategy_ops *ops, const ls_strategy_config *config) {
    ls_comm *comm = config->comm;
    base->head.ops = ops;
    base->head.config = *config;
    base->lanes = comm->size * config->replicas;
    base->host_lanes = comm->local_size * config->replicas;
    base->host_lane = comm->local_rank * config->replicas;

    LS_TRY(ls_calloc(comm->hosts + 1, sizeof(int), &base->host_first));
    for (int position = 0; position < comm->size; position++)
        base->host_first[comm->host_of[comm->order[position]] + 1] = position + 1;
    find_bounds(base);
    LS_TRY(ls__runs_create(base));

    LS_TRY(ls__want(base, LS_STRATEGY_SUMS, LS_HOST, sizeof(ls_barrier), &base->host_barrier));
    int64_t column_bytes = config->length / LS_SLICE_ALIGN * (int64_t)sizeof(double);
    if (config->clip_norm > 0) LS_TRY(ls__want(base, LS_STRATEGY_SUMS, LS_HOST, column_bytes, &base->squares));
    if (ls__layerwise(base)) LS_TRY(ls__want(base, LS_STRATEGY_SUMS, LS_HOST, 2 * column_bytes, &base->layer_squares));
    LS_TRY(ls__want(base, LS_STRATEGY_SUMS, LS_WORKER, sizeof(ls_barrier), &base->worker_barrier));
    LS_TRY(ls_calloc(config->replicas, sizeof *base->lane, &base->lane));
    for (int r = 0; r < config->replicas; r++) LS_TRY(plan_lane(base, r));
    return LS_OK;
}

ls_status ls__want_state(ls_strategy_base *base, int replica, int64_t n) {
    const ls_strategy_config *config = &base->head.config;
    int count = config->optimizer->state_count(&config->params);
    for (int i = 0; i < count; i++)
        LS_TRY(ls__want(base, LS_STRATEGY_STATE, replica, n * 4, &base->lane[replica]->state[i]));
    return LS_OK;
}

void ls__base_destroy(ls_strategy_base *base) {
    for (int i = 0; i < base->want_count; i++) ls_memory_free(base->wants[i].memory);
    for (int r = 0; base->lane && r < base->head.config.replicas; r++) ls_memory_free(base->lane[r]);
    free(base->wants);
    free(base->lane);
    free(base->runs);
    free(base->host_first);
    ls_comm_host_free(&base->gradients);
    ls_comm_host_free(&base->common);
}

void ls__share(int64_t begin, int64_t end, int part, int parts, int64_t *part_begin, int64_t *part_end) {
    int64_t units = (end - begin) / LS_SLICE_ALIGN;
    *part_begin = begin + units * part / parts * LS_SLICE_ALIGN;
    *part_end = begin + units * (part + 1) / parts * LS_SLICE_ALIGN;
}

void ls__host_run(const ls_strategy_base *base, int64_t micro_batches, int host, int64_t *begin, int64_t *end) {
    int64_t unused;
    int replicas = base->head.config.replicas;
    ls_tree_run(micro_batches, base->host_first[host] * replicas, base->lanes, begin, &unused);
    ls_tree_run(micro_batches, base->host_first[host + 1] * replicas - 1, base->lanes, &unused, end);
}

int ls__host_piece_count(const ls_strategy_base *base, int64_t micro_batches, int host) {
    ls_piece pieces[LS_TREE_MAX_PIECES];
    int64_t begin, end;
    ls__host_run(base, micro_batches, host, &begin, &end);
    return ls_tree_pieces(micro_batches, begin, end, pieces);
}

static float *slot(const ls_strategy_base *base, int host_lane, int index) {
    return (float *)base->gradients->base + ((int64_t)host_lane * base->slots + index) * base->head.config.length;
}

int ls__host_sources(const ls_strategy_base *base, int64_t micro_batches, ls_source *sources) {
    ls_comm *comm = base->head.config.comm;
    int first = base->host_first[comm->host] * base->head.config.replicas, total = 0;
    for (int i = 0; i < base->host_lanes; i++) {
        ls_piece pieces[LS_TREE_MAX_PIECES];
        int64_t begin, end;
        ls_tree_run(micro_batches, first + i, base->lanes, &begin, &end);
        int count = ls_tree_pieces(micro_batches, begin, end, pieces);
        for (int k = 0; k < count; k++) sources[total++] = (ls_source){pieces[k], slot(base, i, k), 0};
    }
    return total;
}

int ls__received_sources(const ls_strategy_base *base, int64_t micro_batches, int host, const float *data,
                         int64_t begin, int64_t n, ls_source *sources) {
    ls_piece pieces[LS_TREE_MAX_PIECES];
    int64_t run_begin, run_end;
    ls__host_run(base, micro_batches, host, &run_begin, &run_end);
    int count = ls_tree_pieces(micro_batches, run_begin, run_end, pieces);
    for (int k = 0; k < count; k++) sources[k] = (ls_source){pieces[k], n > 0 ? data + k * n : NULL, begin};
    return count;
}

float *ls_strategy_gradient_begin(ls_strategy *strategy, int replica, const ls_step_info *info, int64_t micro_batch) {
    ls_strategy_base *base = ls__base(strategy);
    ls_lane *lane = base->lane[replica];
    int64_t begin, end;
    ls_tree_run(info->micro_batches, strategy->config.comm->position * strategy->config.replicas + replica, base->lanes,
                &begin, &end);
    assert(micro_batch >= begin && micro_batch < end);
    if (micro_batch == begin) lane->depth = 0;
    assert(lane->depth < base->slots);
    lane->stack[lane->depth] = (ls_piece){micro_batch, 0};
    return slot(base, base->host_lane + replica, lane->depth);
}

void ls_strategy_gradient_end(ls_strategy *strategy, int replica, const ls_step_info *info) {
    ls_strategy_base *base = ls__base(strategy);
    ls_lane *lane = base->lane[replica];
    int mine = base->host_lane + replica;
    lane->depth++;
    while (ls_tree_merge(info->micro_batches, lane->stack, &lane->depth))
        ls__host_add(slot(base, mine, lane->depth - 1), slot(base, mine, lane->depth - 1),
                     slot(base, mine, lane->depth), strategy->config.length);
}

void ls__finish(ls_strategy_base *base, ls_barrier *barrier, ls_step_phase meeting, int part, int parts,
                ls_step_times *times) {
    ls_strategy *s = &base->head;
    ls_barrier_wait(barrier);
    ls__lap(times, meeting);
    if (!s->config.refresh) return;
    s->config.refresh(s->config.refresh_user, s->weights, s->copies, part, parts);
    ls__lap(times, LS_STEP_REFRESH);
    ls_barrier_wait(barrier);
    ls__lap(times, LS_STEP_WAIT);
}

ls_status ls_strategy_weights_changed(ls_strategy *strategy) {
    ls_strategy_config *config = &strategy->config;
    LS_TRY(ls_comm_host_barrier(config->comm));
    if (!config->refresh) return LS_OK;
    int part = strategy->weights_shared ? config->comm->local_rank : 0;
    int parts = strategy->weights_shared ? config->comm->local_size : 1;
    config->refresh(config->refresh_user, strategy->weights, strategy->copies, part, parts);
    LS_TRY(ls_comm_host_barrier(config->comm));
    return LS_OK;
}

void ls_strategy_host_barrier(ls_strategy *strategy) { ls_barrier_wait(ls__base(strategy)->host_barrier); }
