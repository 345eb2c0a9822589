// The state of training, as checkpoints see it.
#include <stdio.h>

#include "base/error.h"
#include "base/memory.h"
#include "optim/lookahead.h"
#include "step/engine_impl.h"

// How many lanes before this one keep the same elements of the bucket: strategies may have every
// worker keep all of them.
static int copies_before(const ls_engine *e, int lane, int bucket) {
    const ls_emit_config *c = &e->emit;
    int64_t mine, end, begin;
    int count = 0, lanes = e->config.lanes;
    c->ways.updates(c, lane / lanes, lane % lanes, bucket, &mine, &end);
    for (int other = 0; other < lane; other++) {
        c->ways.updates(c, other / lanes, other % lanes, bucket, &begin, &end);
        count += begin <= mine && mine < end;
    }
    return count;
}

typedef struct visit {
    ls_engine *engine;
    ls_queue *queue;
    ls_state_visitor fn;
    void *user;
} visit;

// Shows a piece that lies at `at`: as it is, or a copy on the host, which goes back.
static ls_status show(const visit *v, ls_state_piece *piece, ls_span at) {
    int64_t bytes = piece->count * (int64_t)sizeof(float);
    if (!v->engine->far) {
        piece->data = ls_span_host(at);
        return v->fn(v->user, piece);
    }
    LS_TRY(ls_memory_alloc(bytes, &piece->data));
    ls_status status = ls_read(v->queue, piece->data, at, bytes);
    if (status == LS_OK) status = ls_synchronize(v->queue);
    if (status == LS_OK) status = v->fn(v->user, piece);
    if (status == LS_OK) status = ls_write(v->queue, at, piece->data, bytes);
    if (status == LS_OK) status = ls_synchronize(v->queue);
    ls_memory_free(piece->data);
    return status;
}

static ls_status visit_residuals(const visit *v, const ls_lane *lane, int number) {
    int64_t length = v->engine->config.length;
    for (int64_t i = 0; i < lane->leaves; i++) {
        char name[32];
        snprintf(name, sizeof name, LS_RESIDUAL "%lld", (long long)(lane->first_leaf + i));
        ls_state_piece piece = {.vector = name, .lane = number, .count = length};
        LS_TRY(show(v, &piece, ls__topk_residual(v->engine, lane, i)));
    }
    return LS_OK;
}

static ls_status visit_lane(const visit *v, int index) {
    const ls_engine *e = v->engine;
    const ls_lane *lane = e->lane[index];
    int number = e->rank * e->config.lanes + index;
    int64_t before = 0, begin, end;
    LS_TRY(visit_residuals(v, lane, number));
    for (int b = 0; b < e->emit.bucket_count; b++, before += end - begin) {
        e->emit.ways.updates(&e->emit, e->rank, index, b, &begin, &end);
        if (begin == end) continue;
        int copy = copies_before(e, number, b);
        for (int i = 0; i <= LS_MAX_OPTIMIZER_STATE; i++) {
            int slow = i == LS_MAX_OPTIMIZER_STATE;
            ls_span at = slow ? lane->slow : lane->state[i];
            if (!at.buffer) continue;
            ls_state_piece piece = {.vector = slow ? LS_SLOW_WEIGHTS : e->config.optimizer->state_names[i],
                                    .lane = number,
                                    .copy = copy,
                                    .offset = begin,
                                    .count = end - begin};
            LS_TRY(show(v, &piece, ls_span_at(at, before * 4)));
        }
    }
    return LS_OK;
}

ls_status ls_engine_visit(ls_engine *e, ls_queue *queue, ls_state_visitor fn, void *user) {
    const ls_comm *comm = e->config.comm;
    visit v = {e, queue, fn, user};
    if (ls_engine_writes_weights(e)) {
        ls_state_piece piece = {.vector = "weights",
                                .lane = e->rank * e->config.lanes,
                                .copy = ls__one_vector(e) ? comm->host : comm->position,
                                .count = e->config.length};
        LS_TRY(show(&v, &piece, ls_engine_weights(e)));
    }
    for (int lane = 0; lane < e->config.lanes; lane++) LS_TRY(visit_lane(&v, lane));
    return LS_OK;
}
