// The memory of a strategy: first only wanted, so that its size is known before there is any, then allocated.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "strategy/strategy_impl.h"

static ls_status want(ls_strategy *s, ls_want what) {
    if (what.bytes <= 0) return LS_OK;
    if (s->want_count == s->want_capacity) {
        int capacity = s->want_capacity ? 2 * s->want_capacity : 16;
        ls_want *grown = realloc(s->wants, (size_t)capacity * sizeof *grown);
        if (!grown) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
        s->wants = grown;
        s->want_capacity = capacity;
    }
    s->wants[s->want_count++] = what;
    return LS_OK;
}

ls_status ls__want(ls_strategy *s, ls_strategy_part part, int replica, int64_t bytes, void *out) {
    *(void **)out = NULL;
    return want(s, (ls_want){part, LS_WANT_POINTER, replica, bytes, out, NULL, NULL});
}

ls_status ls__want_span(ls_strategy *s, ls_strategy_part part, int replica, int64_t bytes, ls_span *out) {
    *out = (ls_span){0};
    return want(s, (ls_want){part, LS_WANT_SPAN, replica, bytes, out, NULL, NULL});
}

ls_status ls__want_window(ls_strategy *s, ls_strategy_part part, int replica, int64_t bytes, ls_window *out) {
    *out = (ls_window){0};
    return want(s, (ls_want){part, LS_WANT_WINDOW, replica, bytes, out, NULL, NULL});
}

void ls__wants_free(ls_strategy *s) {
    for (int i = 0; i < s->want_count; i++) {
        ls_buffer_destroy(&s->wants[i].buffer);
        ls_memory_free(s->wants[i].memory);
    }
    ls_buffer_destroy(&s->slots_buffer);
    free(s->wants);
    ls_comm_host_free(&s->gradients);
    ls_comm_host_free(&s->common);
}

// --- sizes -----------------------------------------------------------------------------------------------------------

static int64_t common_bytes(const ls_strategy *s) {
    int64_t bytes = 0;
    for (int i = 0; i < s->want_count; i++)
        if (s->wants[i].replica == LS_HOST) bytes += ls_round_up(s->wants[i].bytes, LS_ALIGN);
    return bytes;
}

static int64_t lane_gradient_bytes(const ls_strategy *s) {
    return s->slots * s->config.length * (int64_t)sizeof(float);
}

// Of the host's memory: all of them, or on devices that are far from it what the workers of a host tell each other.
static int64_t gradients_bytes(const ls_strategy *s) {
    int alone = s->config.comm->local_size == 1;
    return alone && !ls__host_memory(s) ? 0 : s->host_lanes * lane_gradient_bytes(s);
}

// This worker zeroes the gradients of its own lanes, and reads its part of each sum that the others end a step with.
static int64_t gradients_seen(const ls_strategy *s) {
    int64_t micro_batches = s->config.micro_batches, sums = 0;
    int replicas = s->config.replicas;
    int first = s->host_first[s->config.comm->host] * replicas;
    for (int lane = 0; lane < s->host_lanes; lane++) {
        ls_piece pieces[LS_TREE_MAX_PIECES];
        int64_t begin, end;
        if (lane >= s->host_lane && lane < s->host_lane + replicas) continue;
        ls_strategy_deal(s, micro_batches, first + lane, &begin, &end);
        sums += ls__pieces(s, micro_batches, begin, end, pieces);
    }
    return replicas * lane_gradient_bytes(s) + sums * s->reads * (int64_t)sizeof(float);
}

static void add_wants(const ls_strategy *s, ls_strategy_memory *m) {
    for (int i = 0; i < s->want_count; i++) {
        const ls_want *want = &s->wants[i];
        ls_strategy_bytes *part = &m->part[want->part];
        if (want->replica == LS_HOST)
            part->shared += ls_round_up(want->bytes, LS_ALIGN);
        else
            part->own += ls_memory_size(want->bytes);
    }
    for (int r = 0; r < s->config.replicas; r++) {
        int64_t bytes[LS_STRATEGY_PARTS] = {0};
        for (int i = 0; i < s->want_count; i++)
            if (s->wants[i].replica == r) bytes[s->wants[i].part] += ls_memory_size(s->wants[i].bytes);
        for (int p = 0; p < LS_STRATEGY_PARTS; p++)
            if (bytes[p] > m->part[p].replica) m->part[p].replica = bytes[p];
    }
}

ls_strategy_memory ls_strategy_memory_of(const ls_strategy *s) {
    ls_strategy_memory m = {.gradient_buffers = s->slots};
    ls_strategy_bytes *gradients = &m.part[LS_STRATEGY_GRADIENTS];
    int alone = s->config.comm->local_size == 1;  // then what it shares is memory as any other
    add_wants(s, &m);
    if (alone) m.part[LS_STRATEGY_SUMS].shared += ls_memory_size(common_bytes(s)) - common_bytes(s);
    for (int p = 0; p < LS_STRATEGY_PARTS; p++) m.part[p].seen = m.part[p].shared;
    if (ls__host_memory(s)) gradients->replica = lane_gradient_bytes(s);
    gradients->shared = gradients_bytes(s);
    if (alone && gradients->shared > 0) gradients->shared = ls_memory_size(gradients->shared);
    gradients->seen = alone ? gradients->shared : gradients_seen(s);
    return m;
}

int64_t ls_strategy_memory_bytes(const ls_strategy *s) {
    ls_strategy_memory m = ls_strategy_memory_of(s);
    int64_t bytes = 0;
    for (int p = 0; p < LS_STRATEGY_PARTS; p++) bytes += m.part[p].own + m.part[p].shared / s->config.comm->local_size;
    return bytes;
}

// --- memory ----------------------------------------------------------------------------------------------------------

// Hands a block over: host memory at `memory`, or device memory where that is NULL.
static ls_status give(const ls_strategy *s, ls_want *want, void *memory) {
    ls_device *device = s->config.device;
    ls_window window = {.host = memory};
    if (!memory)
        LS_TRY(ls_buffer_create(device, want->bytes, &want->buffer));
    else if (want->kind != LS_WANT_POINTER && ls__host_memory(s))
        LS_TRY(ls_buffer_wrap(device, memory, want->bytes, &want->buffer));
    window.device = (ls_span){want->buffer, 0};
    switch (want->kind) {
    case LS_WANT_POINTER: memcpy(want->out, &memory, sizeof memory); break;
    case LS_WANT_SPAN: *(ls_span *)want->out = window.device; break;
    case LS_WANT_WINDOW: *(ls_window *)want->out = window; break;
    }
    return LS_OK;
}

// The gradients, of which each worker has its lanes' near itself. Workers that need none of it take part.
static ls_status allocate_gradients(ls_strategy *s) {
    int64_t bytes = gradients_bytes(s);
    LS_TRY(ls_comm_host_alloc(s->config.comm, bytes, &s->gradients));
    if (bytes == 0) return LS_OK;
    s->slots_window.host = s->gradients->base;
    if (!ls__host_memory(s)) return LS_OK;
    LS_TRY(ls_buffer_wrap(s->config.device, s->gradients->base, bytes, &s->slots_buffer));
    s->slots_window.device = (ls_span){s->slots_buffer, 0};
    return LS_OK;
}

// The host's memory, collective over its workers.
static ls_status allocate_common(ls_strategy *s) {
    const ls_strategy_config *config = &s->config;
    LS_TRY(ls_comm_host_alloc(config->comm, common_bytes(s), &s->common));
    char *at = s->common->base;
    ls_status status = LS_OK;
    for (int i = 0; i < s->want_count; i++) {
        if (s->wants[i].replica != LS_HOST) continue;
        ls__keep(&status, give(s, &s->wants[i], at));
        at += ls_round_up(s->wants[i].bytes, LS_ALIGN);
    }
    if (config->comm->local_rank == 0) ls_barrier_init(s->host_barrier, s->host_lanes, config->spin);
    ls__keep(&status, allocate_gradients(s));
    return status;
}

static ls_status allocate_own(ls_strategy *s) {
    for (int i = 0; i < s->want_count; i++) {
        ls_want *want = &s->wants[i];
        if (want->replica == LS_HOST) continue;
        if (want->kind != LS_WANT_SPAN) LS_TRY(ls_memory_alloc(want->bytes, &want->memory));
        LS_TRY(give(s, want, want->memory));
    }
    ls_barrier_init(s->worker_barrier, s->config.replicas, s->config.spin);
    return LS_OK;
}

ls_status ls_strategy_allocate(ls_strategy *s) {
    ls_status status = allocate_common(s);
    if (status == LS_OK) status = allocate_own(s);
    const ls_strategy *other = s->config.weights_of;
    if (other) s->weights = other->weights;
    if (other && ls__shares_copies(s)) s->copies = other->copies;
    if (status == LS_OK) status = ls__overlap_start(s);
    LS_TRY(ls_comm_agree(s->config.comm, status));
    return LS_OK;
}
