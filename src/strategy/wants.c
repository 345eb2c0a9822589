// The memory of a strategy: first only wanted, so that its size is known before there is any, then allocated.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "strategy/strategy_impl.h"

ls_status ls__want(ls_strategy_base *base, ls_strategy_part part, int replica, int64_t bytes, void *out) {
    *(void **)out = NULL;
    if (bytes <= 0) return LS_OK;
    if (base->want_count == base->want_capacity) {
        int capacity = base->want_capacity ? 2 * base->want_capacity : 16;
        ls_want *grown = realloc(base->wants, (size_t)capacity * sizeof *grown);
        if (!grown) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
        base->wants = grown;
        base->want_capacity = capacity;
    }
    base->wants[base->want_count++] = (ls_want){.part = part, .replica = replica, .bytes = bytes, .out = out};
    return LS_OK;
}

// --- sizes -----------------------------------------------------------------------------------------------------------

static int64_t common_bytes(const ls_strategy_base *base) {
    int64_t bytes = 0;
    for (int i = 0; i < base->want_count; i++)
        if (base->wants[i].replica == LS_HOST) bytes += ls_round_up(base->wants[i].bytes, LS_ALIGN);
    return bytes;
}

static int64_t lane_gradient_bytes(const ls_strategy_base *base) {
    return base->slots * base->head.config.length * (int64_t)sizeof(float);
}

static int64_t gradients_bytes(const ls_strategy_base *base) { return base->host_lanes * lane_gradient_bytes(base); }

// This worker zeroes the gradients of its own lanes, and reads its part of each sum that the others end a step with.
static int64_t gradients_seen(const ls_strategy_base *base) {
    int64_t micro_batches = base->head.config.micro_batches, sums = 0;
    int replicas = base->head.config.replicas;
    int first = base->host_first[base->head.config.comm->host] * replicas;
    for (int lane = 0; lane < base->host_lanes; lane++) {
        ls_piece pieces[LS_TREE_MAX_PIECES];
        int64_t begin, end;
        if (lane >= base->host_lane && lane < base->host_lane + replicas) continue;
        ls_tree_run(micro_batches, first + lane, base->lanes, &begin, &end);
        sums += ls_tree_pieces(micro_batches, begin, end, pieces);
    }
    return replicas * lane_gradient_bytes(base) + sums * base->reads * (int64_t)sizeof(float);
}

static void add_wants(const ls_strategy_base *base, ls_strategy_memory *m) {
    for (int i = 0; i < base->want_count; i++) {
        const ls_want *want = &base->wants[i];
        ls_strategy_bytes *part = &m->part[want->part];
        if (want->replica == LS_HOST)
            part->shared += ls_round_up(want->bytes, LS_ALIGN);
        else
            part->own += ls_memory_size(want->bytes);
    }
    for (int r = 0; r < base->head.config.replicas; r++) {
        int64_t bytes[LS_STRATEGY_PARTS] = {0};
        for (int i = 0; i < base->want_count; i++)
            if (base->wants[i].replica == r) bytes[base->wants[i].part] += ls_memory_size(base->wants[i].bytes);
        for (int p = 0; p < LS_STRATEGY_PARTS; p++)
            if (bytes[p] > m->part[p].replica) m->part[p].replica = bytes[p];
    }
}

ls_strategy_memory ls_strategy_memory_of(const ls_strategy *strategy) {
    const ls_strategy_base *base = (const ls_strategy_base *)strategy;
    ls_strategy_memory m = {.gradient_buffers = base->slots};
    ls_strategy_bytes *gradients = &m.part[LS_STRATEGY_GRADIENTS];
    int alone = strategy->config.comm->local_size == 1;  // then what it shares is memory as any other
    add_wants(base, &m);
    if (alone) m.part[LS_STRATEGY_SUMS].shared += ls_memory_size(common_bytes(base)) - common_bytes(base);
    for (int p = 0; p < LS_STRATEGY_PARTS; p++) m.part[p].seen = m.part[p].shared;
    gradients->replica = lane_gradient_bytes(base);
    gradients->shared = alone ? ls_memory_size(gradients_bytes(base)) : gradients_bytes(base);
    gradients->seen = alone ? gradients->shared : gradients_seen(base);
    return m;
}

int64_t ls_strategy_memory_bytes(const ls_strategy *strategy) {
    ls_strategy_memory m = ls_strategy_memory_of(strategy);
    int64_t bytes = 0;
    for (int p = 0; p < LS_STRATEGY_PARTS; p++)
        bytes += m.part[p].own + m.part[p].shared / strategy->config.comm->local_size;
    return bytes;
}

// --- memory ----------------------------------------------------------------------------------------------------------

static void give(const ls_want *want, void *memory) { memcpy(want->out, &memory, sizeof memory); }

// The host's memory, collective over its workers: what all read, and the gradients, of which each has its lanes' near itself.
static ls_status allocate_common(ls_strategy_base *base) {
    const ls_strategy_config *config = &base->head.config;
    LS_TRY(ls_comm_host_alloc(config->comm, common_bytes(base), &base->common));
    char *at = base->common->base;
    for (int i = 0; i < base->want_count; i++) {
        if (base->wants[i].replica != LS_HOST) continue;
        give(&base->wants[i], at);
        at += ls_round_up(base->wants[i].bytes, LS_ALIGN);
    }
    if (config->comm->local_rank == 0) ls_barrier_init(base->host_barrier, base->host_lanes, config->spin);
    return ls_comm_host_alloc(config->comm, gradients_bytes(base), &base->gradients);
}

static ls_status allocate_own(ls_strategy_base *base) {
    for (int i = 0; i < base->want_count; i++) {
        ls_want *want = &base->wants[i];
        if (want->replica == LS_HOST) continue;
        LS_TRY(ls_memory_alloc(want->bytes, &want->memory));
        give(want, want->memory);
    }
    ls_barrier_init(base->worker_barrier, base->head.config.replicas, base->head.config.spin);
    return LS_OK;
}

ls_status ls_strategy_allocate(ls_strategy *strategy) {
    ls_strategy_base *base = ls__base(strategy);
    ls_status status = allocate_common(base);
    if (status == LS_OK) status = allocate_own(base);
    LS_TRY(ls_comm_agree(strategy->config.comm, status));
    return LS_OK;
}
