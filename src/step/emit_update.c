// What is done with sums that have come together: updated at once, or measured first, where a norm
// decides what is applied.
#include "step/emitter.h"

// Elements before a lane's slice of a bucket in what it keeps of all its slices.
static int64_t kept_before(const ls_emitter *e, int lane, int bucket, int64_t *all) {
    int64_t before = 0, begin, end;
    *all = 0;
    for (int b = 0; b < e->c->bucket_count; b++) {
        e->c->ways.updates(e->c, e->rank, lane, b, &begin, &end);
        if (b == bucket) before = *all;
        *all += end - begin;
    }
    return before;
}

static ls_operand lane_region(ls_emitter *e, ls_region_kind kind, int lane, int bucket) {
    int64_t all, before = kept_before(e, lane, bucket, &all);
    ls_region region = {.kind = kind, .scope = LS_SCOPE_LANE, .rank = e->rank, .lane = lane, .device = 1};
    region.dtype = LS_DTYPE_F32;
    region.elements = all;
    return (ls_operand){ls__region(e, region), before, {0, 0}};
}

// A task for a lane's slice of a bucket, in the queue that updates for that lane; NULL: it has
// none.
static ls_task *slice_task(ls_emitter *e, ls_task_kind kind, int lane, int bucket) {
    ls_crowd updaters = ls__updaters(e, bucket);
    int64_t begin, end;
    e->c->ways.updates(e->c, e->rank, lane, bucket, &begin, &end);
    if (begin == end) return NULL;
    ls_task *t = ls__emit(e, updaters.count == 1 ? updaters.first : updaters.first + lane, kind, bucket);
    t->lane = lane, t->begin = begin, t->end = end;
    return t;
}

// Weights and state, and on to where others read the weights.
static void write_weights(ls_emitter *e, ls_task *t, int lane, int bucket) {
    ls_operand state = lane_region(e, LS_REGION_STATE, lane, bucket);
    int64_t begin = t->begin, end = t->end;
    t->output = ls__operand(e, e->weights, begin, (ls_piece){0, 0});
    t->outputs = 2;
    ls__operand(e, state.region, state.at, (ls_piece){0, 0});
    if (e->staged < 0) return;
    ls_crowd updaters = ls__updaters(e, bucket);
    ls_task *copy = ls__emit(e, updaters.count == 1 ? updaters.first : updaters.first + lane, LS_TASK_COPY, bucket);
    copy->lane = lane, copy->begin = begin, copy->end = end;
    copy->inputs = copy->outputs = 1;
    ls__operand(e, e->weights, begin, (ls_piece){0, 0});
    copy->output = ls__operand(e, e->staged, begin, (ls_piece){0, 0});
}

static void keep(ls_emitter *e, ls_task *t, int lane, int bucket) {
    ls_operand kept = lane_region(e, LS_REGION_KEPT, lane, bucket);
    t->output = ls__operand(e, kept.region, kept.at, (ls_piece){0, 0});
    t->outputs = 1;
}

void ls__emit_update(ls_emitter *e, int bucket, ls_list_fn *list, void *user) {
    const ls_emit_config *c = e->c;
    ls_task_kind kind = c->clips ? LS_TASK_MEASURE : c->layerwise ? LS_TASK_DIRECT : LS_TASK_UPDATE;
    for (int lane = 0; lane < c->mesh->lanes; lane++) {
        ls_task *t = slice_task(e, kind, lane, bucket);
        if (!t) continue;
        int count = list(user, e, e->rank, bucket, t->begin, e->scratch);
        ls__inputs(e, t, count);
        if (kind == LS_TASK_UPDATE)
            write_weights(e, t, lane, bucket);
        else
            keep(e, t, lane, bucket);
    }
}

// All lanes have measured; what others have measured comes; all know it.
static void meet(ls_emitter *e, int measured, int shared, int layers, void (*share)(void *, ls_emitter *, int),
                 void *user) {
    int lanes = e->c->mesh->lanes;
    for (int lane = 0; lane < lanes; lane++) ls__signal(e, lane, measured, -1);
    ls__wait(e, e->late, measured, 0, -1);
    share(user, e, layers);
    ls__signal(e, e->late, shared, -1);
    for (int lane = 0; lane < lanes; lane++) ls__wait(e, lane, shared, 0, -1);
}

void ls__share_nothing(void *user, ls_emitter *e, int layers) { (void)user, (void)e, (void)layers; }

static void direct_kept(ls_emitter *e) {
    const ls_emit_config *c = e->c;
    for (int lane = 0; lane < c->mesh->lanes; lane++)
        for (int b = 0; b < c->bucket_count; b++) {
            ls_task *t = slice_task(e, LS_TASK_DIRECT, lane, b);
            if (!t) continue;
            ls_operand kept = lane_region(e, LS_REGION_KEPT, lane, b);
            t->input = ls__operand(e, kept.region, kept.at, (ls_piece){0, 0});
            t->inputs = 1;
            keep(e, t, lane, b);
        }
}

// The squares of all who update these weights: of all ranks, or where sums or nodes come to
// everybody, of those that share them.
static void look_at(ls_emitter *e, ls_task_kind kind, int region, const int64_t *firsts) {
    const ls_mesh *m = e->c->mesh;
    const ls_ways *ways = &e->c->ways;
    int first = 0, end = m->ranks;
    if (ways->totals || ways->sparse) first = m->host_first[e->host], end = m->host_first[e->host + 1];
    if (!ways->weights_shared) first = e->rank, end = e->rank + 1;
    for (int lane = 0; lane < m->lanes; lane++) {
        ls_task *t = ls__emit(e, lane, kind, -1);
        t->lane = lane;
        t->begin = firsts[first], t->end = firsts[end];
        t->inputs = 1;
        ls__operand(e, region, firsts[first], (ls_piece){0, 0});
    }
}

void ls__emit_measured(ls_emitter *e, void (*share)(void *user, ls_emitter *e, int layers), void *user) {
    const ls_emit_config *c = e->c;
    if (c->clips) {
        meet(e, e->measured, e->shared, 0, share, user);
        look_at(e, LS_TASK_CLIP, e->squares, c->squares);
        if (c->layerwise) direct_kept(e);
    }
    if (c->layerwise) {
        meet(e, e->layers, e->layers_shared, 1, share, user);
        look_at(e, LS_TASK_NORMS, e->layer_squares, c->layer_squares);
    }
}

void ls__emit_update_kept(ls_emitter *e, int bucket) {
    for (int lane = 0; lane < e->c->mesh->lanes; lane++) {
        ls_task *t = slice_task(e, LS_TASK_UPDATE, lane, bucket);
        if (!t) continue;
        ls_operand kept = lane_region(e, LS_REGION_KEPT, lane, bucket);
        t->input = ls__operand(e, kept.region, kept.at, (ls_piece){0, 0});
        t->inputs = 1;
        write_weights(e, t, lane, bucket);
    }
}
