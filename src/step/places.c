// Regions, and what else an engine keeps, become memory: first only planned, so that its size is
// known before there is any, then allocated.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "step/progress.h"

// --- what is no region -----------------------------------------------------------------------------------------------

static ls_status want(ls_engine *e, ls_want what) {
    if (what.bytes <= 0) return LS_OK;
    if (e->want_count == e->want_capacity) {
        int capacity = e->want_capacity ? 2 * e->want_capacity : 16;
        ls_want *grown = realloc(e->wants, (size_t)capacity * sizeof *grown);
        if (!grown) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
        e->wants = grown;
        e->want_capacity = capacity;
    }
    e->wants[e->want_count++] = what;
    return LS_OK;
}

ls_status ls__want(ls_engine *e, ls_engine_part part, int lane, int64_t bytes, void *out) {
    *(void **)out = NULL;
    return want(e, (ls_want){.part = part, .lane = lane, .bytes = bytes, .out = out});
}

ls_status ls__want_span(ls_engine *e, ls_engine_part part, int lane, int64_t bytes, ls_span *out) {
    *out = (ls_span){0};
    return want(e, (ls_want){.part = part, .lane = lane, .device = 1, .bytes = bytes, .out = out});
}

// --- regions ---------------------------------------------------------------------------------------------------------

static int is_gradients(const ls_region *r) {
    return (r->kind == LS_REGION_GRADIENTS || r->kind == LS_REGION_PUBLISHED) && r->scope == LS_SCOPE_HOST;
}

static int is_others(const ls_engine *e, const ls_region *r) {
    return e->config.weights_of && (r->kind == LS_REGION_WEIGHTS || r->kind == LS_REGION_STAGED);
}

// State is the lanes' own, in as many vectors as the optimizer has (ls_lane).
static int64_t bytes_of(const ls_engine *e, const ls_region *r) {
    if (r->kind == LS_REGION_STATE || is_others(e, r)) return 0;
    return r->elements * ls__size_of(r);
}

static ls_engine_part part_of(const ls_region *r) {
    switch (r->kind) {
    case LS_REGION_WEIGHTS:
    case LS_REGION_STAGED: return LS_ENGINE_WEIGHTS;
    case LS_REGION_COPIES: return LS_ENGINE_COPIES;
    case LS_REGION_GRADIENTS:
    case LS_REGION_PUBLISHED: return LS_ENGINE_GRADIENTS;
    default: return LS_ENGINE_SUMS;
    }
}

static int64_t common_bytes(const ls_engine *e) {
    int64_t signals = e->programs[0]->host_signals * (int64_t)sizeof(ls_signal);
    return ls_round_up(sizeof(ls_common), LS_ALIGN) + ls_round_up(signals, LS_ALIGN);
}

// The host's memory but gradients: what its workers tell each other, signals, regions.
static int64_t shared_bytes(const ls_engine *e) {
    int64_t bytes = common_bytes(e);
    for (int i = 0; i < e->regions.shared; i++)
        if (!is_gradients(&e->regions.list[i])) bytes += ls_round_up(bytes_of(e, &e->regions.list[i]), LS_ALIGN);
    return bytes;
}

static int64_t gradient_bytes(const ls_engine *e) {
    int64_t bytes = 0;
    for (int i = 0; i < e->regions.shared; i++)
        if (is_gradients(&e->regions.list[i])) bytes += bytes_of(e, &e->regions.list[i]);
    return bytes;
}

ls_status ls__places_plan(ls_engine *e) {
    int64_t own = e->programs[0]->signal_count - e->programs[0]->host_signals;
    LS_TRY(ls_calloc(e->regions.count, sizeof *e->places, &e->places));
    return ls__want(e, LS_ENGINE_SUMS, -1, own * (int64_t)sizeof(ls_signal), &e->own_signals);
}

// A region in host memory, which the device sees, too, if it can.
static ls_status place_on_host(ls_engine *e, int region, char *memory) {
    ls_place *p = &e->places[region];
    int64_t bytes = bytes_of(e, &e->regions.list[region]);
    p->host = memory;
    if (e->far) return LS_OK;
    LS_TRY(ls_buffer_wrap(e->config.device, memory, bytes, &p->buffer));
    p->device = (ls_span){p->buffer, 0};
    return LS_OK;
}

static ls_status place_own(ls_engine *e, int region) {
    const ls_region *r = &e->regions.list[region];
    ls_place *p = &e->places[region];
    int64_t bytes = bytes_of(e, r);
    if (bytes == 0) return LS_OK;
    if (r->device && e->far) {
        LS_TRY(ls_buffer_create(e->config.device, bytes, &p->buffer));
        p->device = (ls_span){p->buffer, 0};
        return LS_OK;
    }
    LS_TRY(ls_memory_alloc(bytes, &p->memory));
    return place_on_host(e, region, p->memory);
}

// Collective over the host's workers.
static ls_status allocate_shared(ls_engine *e) {
    LS_TRY(ls_comm_host_alloc(e->config.comm, shared_bytes(e), &e->shared));
    char *at = e->shared->base;
    ls_status status = LS_OK;
    e->common = (ls_common *)(void *)at;
    e->host_signals = (ls_signal *)(void *)(at + ls_round_up(sizeof(ls_common), LS_ALIGN));
    at += common_bytes(e);
    for (int i = 0; i < e->regions.shared; i++) {
        int64_t bytes = bytes_of(e, &e->regions.list[i]);
        if (is_gradients(&e->regions.list[i])) continue;
        if (bytes > 0) ls__keep(&status, place_on_host(e, i, at));
        at += ls_round_up(bytes, LS_ALIGN);
    }
    if (e->config.comm->local_rank == 0)
        ls_barrier_init(&e->common->barrier, e->config.comm->local_size * e->config.lanes, e->config.spin);
    // The gradients, of which each worker has its lanes' near itself. Workers that need none of it
    // take part.
    ls_status gradients = ls_comm_host_alloc(e->config.comm, gradient_bytes(e), &e->gradients);
    LS_TRY(gradients);
    at = e->gradients->base;
    for (int i = 0; i < e->regions.shared; i++) {
        if (!is_gradients(&e->regions.list[i])) continue;
        if (bytes_of(e, &e->regions.list[i]) > 0) ls__keep(&status, place_on_host(e, i, at));
        at += bytes_of(e, &e->regions.list[i]);
    }
    return status;
}

static ls_status allocate_want(ls_engine *e, ls_want *w) {
    if (!w->device) {
        LS_TRY(ls_memory_alloc(w->bytes, &w->memory));
        memcpy(w->out, &w->memory, sizeof w->memory);
        return LS_OK;
    }
    LS_TRY(ls_buffer_create(e->config.device, w->bytes, &w->buffer));
    *(ls_span *)w->out = (ls_span){w->buffer, 0};
    return LS_OK;
}

static ls_status allocate_own(ls_engine *e) {
    for (int i = e->regions.shared; i < e->regions.count; i++) LS_TRY(place_own(e, i));
    for (int i = 0; i < e->want_count; i++) LS_TRY(allocate_want(e, &e->wants[i]));
    return LS_OK;
}

// The weights of the engine that the two take turns with.
static void borrow(ls_engine *e) {
    const ls_engine *other = e->config.weights_of;
    for (int i = 0; other && i < e->regions.count; i++)
        for (int k = 0; is_others(e, &e->regions.list[i]) && k < other->regions.count; k++)
            if (other->regions.list[k].kind == e->regions.list[i].kind) {
                e->places[i] = other->places[k];
                e->places[i].borrowed = 1;
            }
}

ls_status ls__places_allocate(ls_engine *e) {
    ls_status status = allocate_shared(e);
    if (status == LS_OK) status = allocate_own(e);
    borrow(e);
    return status;
}

void ls__places_free(ls_engine *e) {
    for (int i = 0; e->places && i < e->regions.count; i++) {
        if (e->places[i].borrowed) continue;
        ls_buffer_destroy(&e->places[i].buffer);
        ls_memory_free(e->places[i].memory);
    }
    for (int i = 0; i < e->want_count; i++) {
        ls_buffer_destroy(&e->wants[i].buffer);
        ls_memory_free(e->wants[i].memory);
    }
    free(e->places);
    free(e->wants);
    ls_comm_host_free(&e->gradients);
    ls_comm_host_free(&e->shared);
}

// --- sizes -----------------------------------------------------------------------------------------------------------

// Elements of other workers' gradients that this one reads in a full step.
static int64_t foreign_elements(const ls_engine *e) {
    const ls_program *p = e->programs[0];
    int64_t elements = 0;
    for (int q = 0; q < p->queue_count; q++)
        for (int i = 0; i < p->queues[q].count; i++) {
            const ls_task *t = &p->queues[q].tasks[i];
            for (int k = 0; k < t->inputs; k++) {
                const ls_region *r = &e->regions.list[p->operands[t->input + k].region];
                if (is_gradients(r) && r->rank != e->rank) elements += t->end - t->begin;
            }
        }
    return elements;
}

static int64_t lane_gradient_bytes(const ls_engine *e) { return e->slots * e->config.length * (int64_t)sizeof(float); }

static void add_wants(const ls_engine *e, ls_engine_memory *m) {
    for (int i = 0; i < e->want_count; i++) m->part[e->wants[i].part].own += ls_memory_size(e->wants[i].bytes);
    for (int i = e->regions.shared; i < e->regions.count; i++) {
        const ls_region *r = &e->regions.list[i];
        if (bytes_of(e, r) > 0) m->part[part_of(r)].own += ls_memory_size(bytes_of(e, r));
    }
    for (int lane = 0; lane < e->config.lanes; lane++) {
        int64_t bytes[LS_ENGINE_PARTS] = {0};
        for (int i = 0; i < e->want_count; i++)
            if (e->wants[i].lane == lane) bytes[e->wants[i].part] += ls_memory_size(e->wants[i].bytes);
        for (int i = e->regions.shared; i < e->regions.count; i++) {
            const ls_region *r = &e->regions.list[i];
            if (r->lane == lane && bytes_of(e, r) > 0) bytes[part_of(r)] += ls_memory_size(bytes_of(e, r));
        }
        for (int p = 0; p < LS_ENGINE_PARTS; p++)
            if (bytes[p] > m->part[p].lane) m->part[p].lane = bytes[p];
    }
}

ls_engine_memory ls_engine_memory_of(const ls_engine *e) {
    ls_engine_memory m = {.gradient_buffers = e->slots};
    ls_engine_bytes *gradients = &m.part[LS_ENGINE_GRADIENTS];
    int alone = e->config.comm->local_size == 1;  // then what it shares is memory as any other
    add_wants(e, &m);
    for (int i = 0; i < e->regions.shared; i++) {
        const ls_region *r = &e->regions.list[i];
        if (!is_gradients(r)) m.part[part_of(r)].shared += ls_round_up(bytes_of(e, r), LS_ALIGN);
    }
    m.part[LS_ENGINE_SUMS].shared += common_bytes(e);
    if (alone) m.part[LS_ENGINE_SUMS].shared += ls_memory_size(shared_bytes(e)) - shared_bytes(e);
    for (int p = 0; p < LS_ENGINE_PARTS; p++) m.part[p].seen = m.part[p].shared;
    if (!e->far) gradients->lane = lane_gradient_bytes(e);
    gradients->shared = gradient_bytes(e);
    if (alone && gradients->shared > 0) gradients->shared = ls_memory_size(gradients->shared);
    gradients->seen = gradients->shared;
    if (!alone)
        gradients->seen = e->config.lanes * lane_gradient_bytes(e) + foreign_elements(e) * (int64_t)sizeof(float);
    if (gradients->seen > gradients->shared) gradients->seen = gradients->shared;
    return m;
}

int64_t ls_engine_memory_bytes(const ls_engine *e) {
    ls_engine_memory m = ls_engine_memory_of(e);
    int64_t bytes = 0;
    for (int p = 0; p < LS_ENGINE_PARTS; p++) bytes += m.part[p].own + m.part[p].shared / e->config.comm->local_size;
    return bytes;
}
