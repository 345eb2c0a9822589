// What emitters are made of: tasks, operands, signals, and who does what for a bucket.
#include "step/emitter.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

// --- lists -----------------------------------------------------------------------------------------------------------

static int grow(ls_emitter *e, void **list, int *capacity, int count, size_t size) {
    if (count < *capacity) return 1;
    int larger = *capacity ? 2 * *capacity : 64;
    void *grown = realloc(*list, (size_t)larger * size);
    if (!grown) {
        if (e->status == LS_OK) e->status = LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for a step's program");
        return 0;
    }
    *list = grown;
    *capacity = larger;
    return 1;
}

ls_task *ls__emit(ls_emitter *e, int queue, ls_task_kind kind, int bucket) {
    static _Thread_local ls_task nowhere;
    ls_task_queue *q = &e->p->queues[queue];
    ls_task *t = &nowhere;
    if (grow(e, (void **)&q->tasks, &q->capacity, q->count, sizeof *q->tasks)) t = &q->tasks[q->count++];
    *t = (ls_task){.kind = (unsigned char)kind, .bucket = bucket, .lane = -1, .peer = -1, .signal = -1};
    t->input = t->output = e->p->operand_count;
    return t;
}

int ls__operand(ls_emitter *e, int region, int64_t at, ls_piece node) {
    ls_program *p = e->p;
    if (grow(e, (void **)&p->operands, &p->operand_capacity, p->operand_count, sizeof *p->operands))
        p->operands[p->operand_count++] = (ls_operand){region < 0 ? 0 : region, at, node};
    return p->operand_count - 1;
}

void ls__inputs(ls_emitter *e, ls_task *t, int count) {
    t->input = e->p->operand_count;
    t->inputs = count;
    for (int i = 0; i < count; i++) ls__operand(e, e->scratch[i].region, e->scratch[i].at, e->scratch[i].node);
}

int ls__region(ls_emitter *e, ls_region region) {
    int found = ls_regions_find(e->regions, region);
    if (found < 0 && e->status == LS_OK) e->status = LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for regions");
    return found < 0 ? 0 : found;
}

// --- signals ---------------------------------------------------------------------------------------------------------

int ls__new_signal(ls_emitter *e, int count, int per_step, int host, int messages) {
    ls_program *p = e->p;
    int first = p->signal_count;
    ls_signal_plan *grown = realloc(p->signals, (size_t)(first + count) * sizeof *grown);
    if (!grown) {
        if (e->status == LS_OK) e->status = LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for signals");
        return 0;
    }
    p->signals = grown;
    for (int i = 0; i < count; i++) grown[first + i] = (ls_signal_plan){per_step, host, e->hosts > 1 ? messages : 0};
    p->signal_count += count;
    if (host) p->host_signals = p->signal_count;
    return first;
}

void ls__signal(ls_emitter *e, int queue, int signal, int bucket) {
    ls__emit(e, queue, LS_TASK_SIGNAL, bucket)->signal = signal;
}

void ls__wait(ls_emitter *e, int queue, int signal, int lag, int bucket) {
    ls_task *t = ls__emit(e, queue, LS_TASK_WAIT, bucket);
    t->signal = signal;
    t->lag = lag;
}

void ls__join(ls_emitter *e, ls_crowd from, int to, int bucket) {
    if (from.count == 1 && from.first == to) return;
    int signal = ls__new_signal(e, 1, from.count, 0, 0);
    for (int i = 0; i < from.count; i++) ls__signal(e, from.first + i, signal, bucket);
    ls__wait(e, to, signal, 0, bucket);
}

void ls__fork(ls_emitter *e, int from, ls_crowd to, int bucket) {
    if (to.count == 1 && to.first == from) return;
    int signal = ls__new_signal(e, 1, 1, 0, 1);
    ls__signal(e, from, signal, bucket);
    for (int i = 0; i < to.count; i++) ls__wait(e, to.first + i, signal, 0, bucket);
}

// --- who does what ---------------------------------------------------------------------------------------------------

void ls_emit_share(int64_t begin, int64_t end, int part, int parts, int64_t *part_begin, int64_t *part_end) {
    int64_t units = (end - begin) / LS_SLICE_ALIGN;
    *part_begin = begin + units * part / parts * LS_SLICE_ALIGN;
    *part_end = begin + units * (part + 1) / parts * LS_SLICE_ALIGN;
}

void ls_emit_slice(const ls_emit_config *c, ls_cut *cut, int rank, int bucket, int64_t *begin, int64_t *end) {
    int64_t unused;
    cut(c, rank, 0, bucket, begin, &unused);
    cut(c, rank, c->mesh->lanes - 1, bucket, &unused, end);
}

int ls_emit_slots(const ls_emit_config *c, int host) {
    int most = 1;
    int64_t count = c->any_count ? c->counts[0] : c->count_count;
    for (int64_t i = 0; i < count; i++)
        for (int rank = c->mesh->host_first[host]; rank < c->mesh->host_first[host + 1]; rank++)
            for (int lane = 0; lane < c->mesh->lanes; lane++) {
                int64_t begin, end, v = c->any_count ? i + 1 : c->counts[i];
                ls_mesh_deal(c->mesh, v, rank, lane, &begin, &end);
                int slots = ls_tree_slots(v, begin, end);
                if (slots > most) most = slots;
            }
    return most;
}

// A run has at most two nodes of each level.
int ls_emit_most_nodes(const ls_emit_config *c) {
    int levels = ls_tree_levels(c->counts[0]);
    return levels > 0 ? 2 * levels : 2;
}

int ls__bucket_at(const ls_emit_config *c, int position) {
    if (!c->early || position < c->in_order) return position;
    return c->bucket_count - 1 - (position - c->in_order);
}

static int position_of(const ls_emit_config *c, int bucket) {
    if (!c->early || bucket < c->in_order) return bucket;
    return c->bucket_count - 1 - (bucket - c->in_order);
}

int ls__communicates(const ls_emitter *e, int bucket) {
    return e->c->progress ? e->c->mesh->lanes + position_of(e->c, bucket) % LS_CHANNELS : 0;
}

ls_crowd ls__adders(const ls_emitter *e, int bucket) {
    return e->c->progress ? (ls_crowd){ls__communicates(e, bucket), 1} : (ls_crowd){0, e->c->mesh->lanes};
}

// Where norms have to be known first all buckets are updated at once, in the end, when lanes have
// nothing else to do.
ls_crowd ls__updaters(const ls_emitter *e, int bucket) {
    return e->c->clips || e->c->layerwise ? (ls_crowd){0, e->c->mesh->lanes} : ls__adders(e, bucket);
}

// --- nodes -----------------------------------------------------------------------------------------------------------

ls_operand ls__gradient(ls_emitter *e, int rank, int lane, int slot, int64_t at, ls_piece node) {
    int others = e->c->far && rank != e->rank;
    ls_region region = {.kind = others ? LS_REGION_PUBLISHED : LS_REGION_GRADIENTS,
                        .scope = e->c->far && !others ? LS_SCOPE_LANE : LS_SCOPE_HOST,
                        .rank = rank,
                        .lane = lane,
                        .index = 0,
                        .device = !others,
                        .dtype = LS_DTYPE_F32,
                        .elements = e->slots * e->c->length};
    return (ls_operand){ls__region(e, region), slot * e->c->length + at, node};
}

int ls__host_nodes(ls_emitter *e, int64_t at, ls_operand *out) {
    const ls_mesh *m = e->c->mesh;
    int count = 0;
    for (int rank = m->host_first[e->host]; rank < m->host_first[e->host + 1]; rank++)
        for (int lane = 0; lane < m->lanes; lane++) {
            ls_piece nodes[LS_TREE_MAX_PIECES];
            int64_t begin, end;
            ls_mesh_deal(m, e->v, rank, lane, &begin, &end);
            int n = ls_tree_pieces(e->v, begin, end, nodes);
            for (int k = 0; k < n; k++) out[count++] = ls__gradient(e, rank, lane, k, at, nodes[k]);
        }
    return count;
}

// --- the whole -------------------------------------------------------------------------------------------------------

// The host's regions and signals, in an order that its ranks have alike.
static void declare_host(ls_emitter *e) {
    const ls_emit_config *c = e->c;
    const ls_mesh *m = c->mesh;
    int first = m->host_first[e->host], shared = c->ways.weights_shared;
    ls_scope whose = shared && !c->far ? LS_SCOPE_HOST : LS_SCOPE_RANK;
    int owner = whose == LS_SCOPE_HOST ? first : e->rank, several = m->ranks > 1;
    if (!c->far || e->host_ranks > 1)
        for (int rank = first; rank < m->host_first[e->host + 1]; rank++)
            for (int lane = 0; lane < m->lanes; lane++)
                ls__region(e, (ls_region){.kind = c->far ? LS_REGION_PUBLISHED : LS_REGION_GRADIENTS,
                                          .scope = LS_SCOPE_HOST,
                                          .rank = rank,
                                          .lane = lane,
                                          .device = !c->far,
                                          .dtype = LS_DTYPE_F32,
                                          .elements = e->slots * c->length});
    ls_region weights = {.kind = LS_REGION_WEIGHTS, .scope = whose, .rank = owner, .lane = -1, .device = 1};
    weights.dtype = LS_DTYPE_F32;
    weights.elements = c->length;
    if (whose == LS_SCOPE_HOST) e->weights = ls__region(e, weights);
    ls_region copies = weights;
    copies.kind = LS_REGION_COPIES;
    copies.dtype = LS_DTYPE_U8;
    copies.elements = c->copies_bytes;
    if (whose == LS_SCOPE_HOST && c->copies_bytes > 0) ls__region(e, copies);
    ls_region one = weights;
    one.scope = LS_SCOPE_HOST;
    one.rank = first;
    one.device = 0;
    e->staged = -1;
    if (c->far && shared && several) {
        one.kind = LS_REGION_STAGED;
        e->staged = ls__region(e, one);
    }
    e->totals = -1;
    if (c->ways.totals) {
        one.kind = LS_REGION_TOTALS;
        one.device = !c->far;
        one.dtype = c->rounds_nodes ? LS_DTYPE_BF16 : LS_DTYPE_F32;
        e->totals = ls__region(e, one);
    }
    one.kind = LS_REGION_VOTES;
    one.device = 0;
    one.dtype = LS_DTYPE_I32;
    one.elements = 64;
    e->votes = ls__region(e, one);
    // Norms are the host's, unless each rank has weights of its own.
    ls_region squares = one;
    squares.dtype = LS_DTYPE_I64;  // doubles
    if (!shared) squares.scope = LS_SCOPE_RANK, squares.rank = e->rank;
    squares.kind = LS_REGION_SQUARES;
    squares.elements = c->squares ? c->squares[m->ranks] : 0;
    if (c->clips && shared) e->squares = ls__region(e, squares);
    ls_region layers = squares;
    layers.kind = LS_REGION_LAYER_SQUARES;
    layers.elements = c->layer_squares ? c->layer_squares[m->ranks] : 0;
    if (c->layerwise && shared) e->layer_squares = ls__region(e, layers);
    ls_regions *r = e->regions;
    if (c->ways.sparse)
        for (int host = 0; host < e->hosts; host++) {
            int64_t words = 0;
            for (int b = 0; b < c->bucket_count && host != e->host; b++)
                for (int k = 0; k < c->column_count; k++) words += c->sparse_words(c->sparse_user, host, b, k);
            one.kind = LS_REGION_SPARSE;
            one.index = host;
            one.dtype = LS_DTYPE_I32;
            one.elements = words;
            ls__region(e, one);
        }
    if (r->shared == 0) r->shared = r->count;
    if (whose == LS_SCOPE_RANK) e->weights = ls__region(e, weights);
    if (whose == LS_SCOPE_RANK && c->copies_bytes > 0) ls__region(e, copies);
    if (c->clips && !shared) e->squares = ls__region(e, squares);
    if (c->layerwise && !shared) e->layer_squares = ls__region(e, layers);
}

// How often so many ranks say of a bucket that their part of the weights is there: who updates, and
// who receives.
static int bringing(const ls_emitter *e, int ranks) {
    ls_crowd updaters = ls__updaters(e, 0);
    int one = updaters.count == 1 && updaters.first == ls__communicates(e, 0);
    if (e->c->ways.push) return ranks;
    if (e->c->ways.totals || e->c->ways.sparse) return ranks * updaters.count;
    return ranks * (one ? 1 : updaters.count + (e->hosts > 1));
}

static void declare_signals(ls_emitter *e) {
    const ls_emit_config *c = e->c;
    int buckets = c->bucket_count, lanes = c->mesh->lanes * e->host_ranks;
    int shared = c->ways.weights_shared, one_vector = shared && !c->far;
    e->ready = ls__new_signal(e, buckets, lanes, 1, 0);
    e->voted = ls__new_signal(e, 1, lanes, 1, 0);
    e->decided = ls__new_signal(e, 1, 1, 1, 2);
    if (c->ways.totals) {
        int adders = ls__adders(e, 0).count, separate = e->hosts > 1 && !c->progress;
        e->total = ls__new_signal(e, buckets, e->host_ranks * (adders + separate), 1, 1);
    }
    if (c->ways.sparse) e->total = ls__new_signal(e, buckets, e->host_ranks, 1, 1);
    if (shared) e->whole = ls__new_signal(e, buckets, bringing(e, e->host_ranks), 1, 2);
    if (one_vector)
        e->fresh = ls__new_signal(e, c->early ? buckets : 1, c->early ? e->host_ranks : lanes, 1, c->early ? 2 : 0);
    if (c->clips && shared) e->measured = ls__new_signal(e, 1, lanes, 1, 0);
    if (c->clips && shared) e->shared = ls__new_signal(e, 1, e->host_ranks, 1, 1);
    if (c->layerwise && shared) e->layers = ls__new_signal(e, 1, lanes, 1, 0);
    if (c->layerwise && shared) e->layers_shared = ls__new_signal(e, 1, e->host_ranks, 1, 1);
    if (!shared) e->whole = ls__new_signal(e, buckets, bringing(e, 1), 0, 2);
    if (!one_vector)
        e->fresh = ls__new_signal(e, c->early ? buckets : 1, c->early ? 1 : c->mesh->lanes, 0, c->early ? 2 : 0);
    if (c->clips && !shared) e->measured = ls__new_signal(e, 1, c->mesh->lanes, 0, 0);
    if (c->clips && !shared) e->shared = ls__new_signal(e, 1, 1, 0, 1);
    if (c->layerwise && !shared) e->layers = ls__new_signal(e, 1, c->mesh->lanes, 0, 0);
    if (c->layerwise && !shared) e->layers_shared = ls__new_signal(e, 1, 1, 0, 1);
    if (c->far) e->taken = ls__new_signal(e, 1, c->mesh->lanes, 0, 0);
}

static ls_status begin(ls_emitter *e) {
    const ls_emit_config *c = e->c;
    ls_program *p = e->p;
    int queues = c->mesh->lanes + (c->progress ? LS_CHANNELS + 3 : 0);
    p->rank = e->rank;
    p->lanes = c->mesh->lanes;
    p->micro_batches = e->v;
    p->queue_count = queues;
    LS_TRY(ls_calloc(queues, sizeof *p->queues, &p->queues));
    int64_t most = ((int64_t)e->host_ranks * c->mesh->lanes + e->hosts + 2) * LS_TREE_MAX_PIECES;
    LS_TRY(ls_calloc(most, sizeof *e->scratch, &e->scratch));
    e->late = c->progress ? c->mesh->lanes + LS_CHANNELS : 0;
    e->votes_queue = c->progress ? e->late + 1 : 0;
    e->fresh_queue = c->progress ? e->late + 2 : 0;
    e->slots = ls_emit_slots(c, e->host);
    declare_host(e);
    declare_signals(e);
    return e->status;
}

static void emit_all(ls_emitter *e) {
    const ls_ways *ways = &e->c->ways;
    if (ways->push) {
        ls__emit_push(e);
        return;
    }
    ls__emit_lanes_begin(e);
    if (e->c->progress) ls__emit_votes(e);
    if (ways->sparse)
        ls__emit_sparse(e);
    else
        ls__emit_routes(e);
    ls__emit_lanes_end(e);
}

ls_status ls_emit(const ls_emit_config *config, int rank, int64_t micro_batches, ls_regions *regions,
                  ls_program **out) {
    const ls_mesh *m = config->mesh;
    ls_emitter e = {.c = config, .rank = rank, .v = micro_batches, .regions = regions, .hosts = m->hosts};
    *out = NULL;
    e.host = ls_mesh_host(m, rank);
    e.place = rank - m->host_first[e.host];
    e.host_ranks = ls_mesh_host_ranks(m, e.host);
    LS_TRY(ls_calloc(1, sizeof *e.p, &e.p));
    ls_status status = begin(&e);
    if (status == LS_OK) emit_all(&e);
    free(e.scratch);
    if (status == LS_OK) status = e.status;
    if (status != LS_OK) {
        ls_program_destroy(&e.p);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    *out = e.p;
    return LS_OK;
}
