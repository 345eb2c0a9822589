// Norms over the vector, whoever owns what of it: of all gradients, to clip them, and of each
// kernel, for layer-wise optimizers.
//
// The order of summation is fixed. A parameter's sum of squares is a binary tree over its units of
// LS_SLICE_ALIGN elements, by the rule of step/tree.h; the sum over all parameters is such a tree
// over them, in their order. No slice cuts a unit, so whoever owns a run of units sums the fewest
// nodes that cover it, and all others need of it these sums alone. Where a parameter is cut over
// ranks one day, each part is a segment with a tree of its own.
//
// Clipping: the mean gradient g becomes g * clip_norm / max(|g|, clip_norm), |g| over all
// parameters that are trained. Source: Pascanu et al., "On the difficulty of training recurrent
// neural networks", ICML 2013; Keras's global_clipnorm.
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "step/engine_impl.h"

// A parameter that counts.
typedef struct segment {
    int64_t begin, end;
    int statistic;
    int adapted;  // its number among those whose norms are needed; -1: it is none
} segment;

// A sum that some lane makes, and its place among all.
typedef struct entry {
    int segment;
    ls_piece node;
    int64_t at;
} entry;

// Those of clipping, and those of layer-wise optimizers, which are two numbers each.
typedef struct sums {
    int64_t *rank_first;   // (ranks + 1)
    int64_t *slice_first;  // (lanes, buckets): of this rank
    entry *entries;        // (count): of all whose sums come here, in the order of the tree
    int64_t count, capacity;
    int region;
} sums;

struct ls_norms {
    segment *segments;
    int segment_count;
    sums of[2];
};

static int64_t units_of(const segment *s) { return (s->end - s->begin) / LS_SLICE_ALIGN; }

static int segment_at(const ls_norms *n, int64_t offset) {
    int low = 0, high = n->segment_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (n->segments[middle].end <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// --- planning --------------------------------------------------------------------------------------------------------

static ls_status find_segments(const ls_engine *e, ls_norms *n) {
    const ls_engine_config *c = &e->config;
    const ls_segment whole = {.end = c->length, .kernel = 1};
    const ls_segment *segments = c->segments ? c->segments : &whole;
    int count = c->segments ? c->segment_count : 1, adapted = 0;
    LS_TRY(ls_calloc(count, sizeof *n->segments, &n->segments));
    for (int i = 0; i < count; i++) {
        const ls_segment *s = &segments[i];
        if (s->frozen) continue;
        segment *mine = &n->segments[n->segment_count++];
        *mine = (segment){s->begin, s->end, s->statistic, -1};
        if (s->kernel && !s->statistic) mine->adapted = adapted++;
    }
    return LS_OK;
}

// What statistics add up to is looked at where a step may be skipped, and is no part of the norm.
static int counts(const ls_engine *e, const segment *s, int layers) {
    return layers ? s->adapted >= 0 : !s->statistic || e->config.skip_not_finite;
}

static ls_status append(sums *s, entry added) {
    if (s->count == s->capacity) {
        int64_t capacity = s->capacity ? 2 * s->capacity : 256;
        entry *grown = realloc(s->entries, (size_t)capacity * sizeof *grown);
        if (!grown) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the norms of gradients");
        s->entries = grown;
        s->capacity = capacity;
    }
    s->entries[s->count++] = added;
    return LS_OK;
}

// The sums that a lane makes of its slice of a bucket; *at moves on.
static ls_status list_slice(const ls_engine *e, const ls_norms *n, sums *s, int layers, int rank, int lane, int bucket,
                            int keeps, int64_t *at) {
    int64_t begin, end;
    e->emit.ways.updates(&e->emit, rank, lane, bucket, &begin, &end);
    for (int i = segment_at(n, begin); i < n->segment_count && n->segments[i].begin < end; i++) {
        const segment *g = &n->segments[i];
        ls_piece nodes[LS_TREE_MAX_PIECES];
        if (!counts(e, g, layers)) continue;
        int64_t from = g->begin > begin ? g->begin : begin, to = g->end < end ? g->end : end;
        int count =
            ls_tree_pieces(units_of(g), (from - g->begin) / LS_SLICE_ALIGN, (to - g->begin) / LS_SLICE_ALIGN, nodes);
        for (int k = 0; k < count; k++) {
            if (keeps) LS_TRY(append(s, (entry){i, nodes[k], *at}));
            *at += 1 + layers;
        }
    }
    return LS_OK;
}

static int in_order(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->segment != y->segment) return x->segment < y->segment ? -1 : 1;
    return x->node.first < y->node.first ? -1 : x->node.first > y->node.first;
}

static ls_status list_all(ls_engine *e, ls_norms *n, int layers) {
    const ls_mesh *m = e->mesh;
    const ls_ways *ways = &e->emit.ways;
    sums *s = &n->of[layers];
    int first = 0, last = m->ranks, host = ls_mesh_host(m, e->rank);
    int64_t at = 0;
    if (ways->totals || ways->sparse) first = m->host_first[host], last = m->host_first[host + 1];
    if (!ways->weights_shared) first = e->rank, last = e->rank + 1;
    LS_TRY(ls_calloc(m->ranks + 1, sizeof *s->rank_first, &s->rank_first));
    LS_TRY(ls_calloc((int64_t)m->lanes * e->emit.bucket_count, sizeof *s->slice_first, &s->slice_first));
    for (int rank = 0; rank < m->ranks; rank++) {
        s->rank_first[rank] = at;
        for (int lane = 0; lane < m->lanes && rank >= first && rank < last; lane++)
            for (int b = 0; b < e->emit.bucket_count; b++) {
                if (rank == e->rank) s->slice_first[lane * e->emit.bucket_count + b] = at;
                LS_TRY(list_slice(e, n, s, layers, rank, lane, b, 1, &at));
            }
    }
    s->rank_first[m->ranks] = at;
    qsort(s->entries, (size_t)s->count, sizeof *s->entries, in_order);
    return LS_OK;
}

ls_status ls__norms_create(ls_engine *e) {
    if (!ls__clips(e) && !ls__layerwise(e)) return LS_OK;
    LS_TRY(ls_calloc(1, sizeof *e->norms, &e->norms));
    LS_TRY(find_segments(e, e->norms));
    if (ls__clips(e)) LS_TRY(list_all(e, e->norms, 0));
    if (ls__layerwise(e)) LS_TRY(list_all(e, e->norms, 1));
    e->emit.squares = e->norms->of[0].rank_first;
    e->emit.layer_squares = e->norms->of[1].rank_first;
    return LS_OK;
}

void ls__norms_free(ls_norms **norms) {
    ls_norms *n = *norms;
    if (!n) return;
    for (int i = 0; i < 2; i++) {
        free(n->of[i].rank_first);
        free(n->of[i].slice_first);
        free(n->of[i].entries);
    }
    free(n->segments);
    free(n);
    *norms = NULL;
}

static double *values(const ls_engine *e, int layers) {
    ls_region_kind kind = layers ? LS_REGION_LAYER_SQUARES : LS_REGION_SQUARES;
    for (int i = 0; i < e->regions.count; i++)
        if (e->regions.list[i].kind == kind) return (double *)(void *)e->places[i].host;
    return NULL;
}

// --- making sums -----------------------------------------------------------------------------------------------------

ls_status ls__norms_begin(ls_worker *w, const ls_task *t, int layers, ls_norm_cursor *c) {
    ls_engine *e = w->engine;
    const sums *s = &e->norms->of[layers];
    c->engine = e;
    c->layers = layers;
    c->segment = -1;
    c->depth = 0;
    c->out = values(e, layers) + s->slice_first[t->lane * e->emit.bucket_count + t->bucket];
    return LS_OK;
}

void ls__norms_end(ls_norm_cursor *c) {
    for (int k = 0; k < c->depth; k++)
        for (int i = 0; i <= c->layers; i++) *c->out++ = c->sums[k][i];
    c->depth = 0;
}

// A node's sums, of which those of columns lie `stride` doubles apart.
static void push(ls_norm_cursor *c, int64_t units, ls_piece node, const double *x, int64_t stride) {
    c->stack[c->depth] = node;
    for (int i = 0; i <= c->layers; i++) c->sums[c->depth][i] = x[i * stride];
    c->depth++;
    while (ls_tree_merge(units, c->stack, &c->depth))
        for (int i = 0; i <= c->layers; i++) c->sums[c->depth - 1][i] += c->sums[c->depth][i];
}

// Units that follow one another in one parameter: the device sums the nodes that cover them.
static ls_status note(ls_worker *w, ls_norm_cursor *c, const segment *g, int64_t offset, const ls_span *x,
                      int64_t units) {
    ls_piece nodes[LS_TREE_MAX_PIECES];
    int64_t of[LS_TREE_MAX_PIECES], first = (offset - g->begin) / LS_SLICE_ALIGN, end = first + units;
    int count = ls_tree_pieces(units_of(g), first, end, nodes);
    for (int k = 0; k < count; k++) of[k] = (k + 1 < count ? nodes[k + 1].first : end) - nodes[k].first;
    const double *made = ls_span_host(w->hand->unit_sums);
    for (int i = 0; i < (c->layers ? 2 : 1); i++) {
        ls_span room = ls_span_at(w->hand->unit_sums, i * units * (int64_t)sizeof(double));
        LS_TRY(ls__vector(w->queue)->sum_squares(w->queue, room, x[i], of, count));
        if (w->engine->far)
            LS_TRY(ls_read(w->queue, w->hand->host_sums + i * units, room, count * (int64_t)sizeof(double)));
    }
    if (w->engine->far) {
        LS_TRY(ls_synchronize(w->queue));
        made = w->hand->host_sums;
    }
    for (int k = 0; k < count; k++) push(c, units_of(g), nodes[k], made + k, units);
    return LS_OK;
}

ls_status ls__norms_note(ls_worker *w, ls_norm_cursor *c, int64_t offset, const ls_span *x, int64_t n) {
    const ls_norms *norms = w->engine->norms;
    int64_t end = offset + n, first = offset;
    for (int i = segment_at(norms, offset); i < norms->segment_count && norms->segments[i].begin < end; i++) {
        const segment *g = &norms->segments[i];
        int64_t from = g->begin > offset ? g->begin : offset, to = g->end < end ? g->end : end;
        if (!counts(w->engine, g, c->layers)) continue;
        if (c->segment != i) ls__norms_end(c);
        c->segment = i;
        ls_span at[2] = {ls_span_at(x[0], (from - first) * 4), c->layers ? ls_span_at(x[1], (from - first) * 4) : x[0]};
        LS_TRY(note(w, c, g, from, at, (to - from) / LS_SLICE_ALIGN));
    }
    return LS_OK;
}

// --- from all sums ---------------------------------------------------------------------------------------------------

// The next parameter's sums, from its entries on. Returns where the next one begins.
static int64_t total_of(const ls_engine *e, int layers, int64_t i, double total[2]) {
    const sums *s = &e->norms->of[layers];
    const double *v = values(e, layers);
    const segment *g = &e->norms->segments[s->entries[i].segment];
    ls_piece stack[LS_TREE_MAX_PIECES];
    double x[LS_TREE_MAX_PIECES][2];
    int depth = 0, of = s->entries[i].segment;
    for (; i < s->count && s->entries[i].segment == of; i++) {
        stack[depth] = s->entries[i].node;
        for (int k = 0; k <= layers; k++) x[depth][k] = v[s->entries[i].at + k];
        depth++;
        while (ls_tree_merge(units_of(g), stack, &depth))
            for (int k = 0; k <= layers; k++) x[depth - 1][k] += x[depth][k];
    }
    assert(depth == 1);
    for (int k = 0; k <= layers; k++) total[k] = x[0][k];
    return i;
}

// A tree over so many numbers that come one after the other.
typedef struct adder {
    ls_piece stack[LS_TREE_MAX_PIECES];
    double sums[LS_TREE_MAX_PIECES];
    int depth;
    int64_t next, count;
} adder;

static void add(adder *a, double x) {
    a->stack[a->depth] = (ls_piece){a->next++, 0};
    a->sums[a->depth++] = x;
    while (ls_tree_merge(a->count, a->stack, &a->depth)) a->sums[a->depth - 1] += a->sums[a->depth];
}

double ls__norms_sum(const ls_engine *e, double *of_statistics) {
    const ls_norms *n = e->norms;
    const sums *s = &n->of[0];
    adder all = {.count = 0}, statistics = {.count = 0};
    for (int i = 0; i < n->segment_count; i++) ++*(n->segments[i].statistic ? &statistics.count : &all.count);
    for (int64_t i = 0; i < s->count;) {
        double total[2];
        int statistic = n->segments[s->entries[i].segment].statistic;
        i = total_of(e, 0, i, total);
        add(statistic ? &statistics : &all, total[0]);
    }
    *of_statistics = statistics.depth ? statistics.sums[0] : 0;
    return all.depth ? all.sums[0] : 0;
}

float ls__norms_clip(const ls_engine *e, int *finite) {
    double maximum = e->config.clip_norm, statistics, sum = ls__norms_sum(e, &statistics), norm = sqrt(sum);
    *finite = isfinite(sum) && isfinite(statistics);
    return maximum > 0 && norm > maximum ? (float)(maximum / norm) : 1;
}

void ls__norms_of_layers(const ls_engine *e, double (*norms)[2]) {
    const sums *s = &e->norms->of[1];
    for (int64_t i = 0; i < s->count;) {
        double total[2];
        int adapted = e->norms->segments[s->entries[i].segment].adapted;
        i = total_of(e, 1, i, total);
        norms[adapted][0] = sqrt(total[0]), norms[adapted][1] = sqrt(total[1]);
    }
}
