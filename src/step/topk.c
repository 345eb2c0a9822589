// What top-k does to a micro-batch's gradient, and how nodes of few values are written into
// messages.
#include "step/topk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

typedef struct chunk {
    int64_t begin, end;  // of the vector; nothing frozen in it
    int32_t keep;        // how many stay; all: end - begin
} chunk;

struct ls_topk {
    chunk *chunks;  // (count), in order
    int count;
    int64_t *words;  // (hosts, buckets * columns + 1): before what a host sends of a column of a bucket
};

// --- chunks ----------------------------------------------------------------------------------------------------------

static int64_t chunks_of(const ls_segment *segment) {
    return segment->frozen ? 0 : (segment->end - segment->begin + LS_TOPK_CHUNK - 1) / LS_TOPK_CHUNK;
}

static int32_t keep_of(const ls_segment *segment, int64_t n, double fraction) {
    double keep = ceil(fraction * (double)n);
    return (int32_t)(!segment->kernel || segment->statistic || keep > (double)n ? n : (int64_t)keep);
}

// The first chunk that ends behind element `at`.
static int chunk_at(const ls_topk *topk, int64_t at) {
    int low = 0, high = topk->count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (topk->chunks[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static ls_status make_chunks(ls_engine *e) {
    const ls_engine_config *config = &e->config;
    const ls_segment whole = {.end = config->length, .kernel = 1};
    const ls_segment *segments = config->segments ? config->segments : &whole;
    int segment_count = config->segments ? config->segment_count : 1;
    int64_t count = 0;
    for (int i = 0; i < segment_count; i++) count += chunks_of(&segments[i]);
    LS_TRY(ls_calloc(1, sizeof *e->topk, &e->topk));
    LS_TRY(ls_calloc(count, sizeof *e->topk->chunks, &e->topk->chunks));
    for (int i = 0; i < segment_count; i++)
        for (int64_t k = 0; k < chunks_of(&segments[i]); k++) {
            chunk *c = &e->topk->chunks[e->topk->count++];
            c->begin = segments[i].begin + k * LS_TOPK_CHUNK;
            c->end = c->begin + LS_TOPK_CHUNK;
            if (c->end > segments[i].end) c->end = segments[i].end;
            c->keep = keep_of(&segments[i], c->end - c->begin, config->compress_fraction);
        }
    for (int b = 0; b < e->emit.bucket_count; b++) {
        int i = chunk_at(e->topk, e->bucket_ends[b]);
        if (i < e->topk->count && e->topk->chunks[i].begin < e->bucket_ends[b])
            return LS_FAIL(LS_STATUS_INTERNAL, "bucket %d ends within the chunk of elements %lld to %lld", b,
                           (long long)e->topk->chunks[i].begin, (long long)e->topk->chunks[i].end);
    }
    return LS_OK;
}

// The most words that a host sends of a column: its length and table, and its chunks, of which each
// node has all or a few elements.
static int64_t most_words(const ls_engine *e, int host, int bucket, int column) {
    const ls_emit_config *c = &e->emit;
    const int64_t *cut = c->columns + (int64_t)bucket * (c->column_count + 1) + column;
    int64_t nodes = c->any_count ? ls_emit_most_nodes(c) : 1, begin, end;
    for (int i = 0; i < c->count_count && !c->any_count; i++) {
        ls_piece list[LS_TREE_MAX_PIECES];
        ls_mesh_deal_hosts(c->mesh, c->counts[i], host, host + 1, &begin, &end);
        int count = ls_tree_pieces(c->counts[i], begin, end, list);
        if (count > nodes) nodes = count;
    }
    ls_mesh_deal_hosts(c->mesh, e->config.micro_batches, host, host + 1, &begin, &end);
    int64_t words = 2;
    for (int i = chunk_at(e->topk, cut[0]); i < e->topk->count && e->topk->chunks[i].begin < cut[1]; i++) {
        const chunk *k = &e->topk->chunks[i];
        // However the elements that stay are spread over nodes, each has at most one word with one
        // index.
        int64_t all = nodes * (k->end - k->begin), few = ls__topk_words((end - begin) * k->keep) + nodes;
        words += nodes + (few < all ? few : all);
    }
    return words;
}

static const int64_t *words_before(const ls_engine *e, int host, int bucket, int column) {
    const ls_emit_config *c = &e->emit;
    return &e->topk->words[host * ((int64_t)c->bucket_count * c->column_count + 1) + (int64_t)bucket * c->column_count +
                           column];
}

static int64_t words_of(const void *user, int host, int bucket, int column) {
    const int64_t *at = words_before(user, host, bucket, column);
    return at[1] - at[0];
}

static ls_status count_words(ls_engine *e) {
    const ls_emit_config *c = &e->emit;
    int64_t each = (int64_t)c->bucket_count * c->column_count + 1;
    LS_TRY(ls_calloc(c->mesh->hosts * each, sizeof *e->topk->words, &e->topk->words));
    for (int h = 0; h < c->mesh->hosts; h++)
        for (int i = 0; i + 1 < each; i++) {
            int64_t words = most_words(e, h, i / c->column_count, i % c->column_count);
            if (words > INT32_MAX)
                return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                               "messages of %lld numbers are more than MPI can send: take smaller buckets",
                               (long long)words);
            e->topk->words[h * each + i + 1] = e->topk->words[h * each + i] + words;
        }
    return LS_OK;
}

// The chunks of a bucket are cut into columns, as many as the host with most lanes has of them.
static ls_status make_columns(ls_engine *e) {
    ls_emit_config *c = &e->emit;
    const ls_topk *topk = e->topk;
    for (int h = 0; h < c->mesh->hosts; h++) {
        int lanes = ls_mesh_host_ranks(c->mesh, h) * c->mesh->lanes;
        if (lanes > c->column_count) c->column_count = lanes;
    }
    LS_TRY(ls_calloc((int64_t)c->bucket_count * (c->column_count + 1), sizeof *e->columns, &e->columns));
    for (int b = 0; b < c->bucket_count; b++) {
        int first = chunk_at(topk, ls_emit_bucket_begin(c, b)), last = chunk_at(topk, c->bucket_ends[b]);
        for (int k = 0; k <= c->column_count; k++) {
            int at = first + (int)((int64_t)(last - first) * k / c->column_count);
            e->columns[b * (c->column_count + 1) + k] = at < last ? topk->chunks[at].begin : c->bucket_ends[b];
        }
        // What is frozen before the first chunk is nobody's.
    }
    c->columns = e->columns;
    c->sparse_words = words_of;
    c->sparse_user = e;
    return count_words(e);
}

ls_status ls__topk_plan(ls_engine *e) {
    if (e->config.compress != LS_COMPRESS_TOPK) return LS_OK;
    LS_TRY(make_chunks(e));
    return e->emit.ways.sparse ? make_columns(e) : LS_OK;
}

void ls__topk_free(ls_engine *e) {
    if (e->topk) free(e->topk->chunks);
    if (e->topk) free(e->topk->words);
    free(e->topk);
    free(e->columns);
    e->topk = NULL;
}

// Where a bucket may end that would end at `at`: the end of the chunk there.
static int64_t end_of_chunk(const ls_segment *segments, int count, int64_t at) {
    for (int i = 0; i < count; i++) {
        if (at <= segments[i].begin || at >= segments[i].end) continue;
        int64_t end = segments[i].begin + ls_round_up(at - segments[i].begin, LS_TOPK_CHUNK);
        return end < segments[i].end ? end : segments[i].end;
    }
    return at;
}

void ls_engine_bucket_ends(ls_compress compress, const ls_segment *segments, int segment_count, int64_t *ends,
                           int *count) {
    int kept = 0;
    for (int b = 0; b < *count && compress == LS_COMPRESS_TOPK; b++) {
        int64_t end = end_of_chunk(segments, segment_count, ends[b]);
        if (kept == 0 || end > ends[kept - 1]) ends[kept++] = end;
    }
    if (kept > 0) *count = kept;
}

// --- residuals -------------------------------------------------------------------------------------------------------

ls_status ls__topk_plan_lane(ls_engine *e, int index) {
    ls_lane *lane = e->lane[index];
    int64_t end;
    if (!e->topk) return LS_OK;
    ls_mesh_deal(e->mesh, e->config.micro_batches, e->rank, index, &lane->first_leaf, &end);
    lane->leaves = end - lane->first_leaf;
    LS_TRY(ls_calloc(lane->leaves, 1, &lane->turn));
    for (int i = 0; i <= e->config.skip_not_finite; i++)
        LS_TRY(ls__want_span(e, LS_ENGINE_RESIDUALS, index, lane->leaves * e->config.length * 4, &lane->residuals[i]));
    return LS_OK;
}

static ls_span residual_of(const ls_engine *e, const ls_lane *lane, int64_t leaf, int turn) {
    return ls_span_at(lane->residuals[turn], leaf * e->config.length * 4);
}

ls_span ls__topk_residual(const ls_engine *e, const ls_lane *lane, int64_t leaf) {
    return residual_of(e, lane, leaf, lane->turn[leaf]);
}

void ls__topk_taken(ls_engine *e, int index, int64_t micro_batches) {
    ls_lane *lane = e->lane[index];
    int64_t begin, end;
    if (!e->topk || !e->config.skip_not_finite) return;
    ls_mesh_deal(e->mesh, micro_batches, e->rank, index, &begin, &end);
    for (int64_t v = begin; v < end; v++) lane->turn[v - lane->first_leaf] ^= 1;
}

ls_status ls__topk_select(ls_worker *w, const ls_task *t) {
    const ls_engine *e = w->engine;
    const ls_lane *lane = e->lane[t->lane];
    int64_t leaf = t->value - lane->first_leaf;
    ls_span old = ls__topk_residual(e, lane, leaf), residual = old;
    if (e->config.skip_not_finite) residual = residual_of(e, lane, leaf, !lane->turn[leaf]);
    float whole =
        (float)w->info->samples * ls__gradient_scale(w->info);  // what a residual is a part of, and is kept without
    for (int i = chunk_at(e->topk, t->begin); i < e->topk->count && e->topk->chunks[i].begin < t->end; i++) {
        const chunk *c = &e->topk->chunks[i];
        int64_t n = c->end - c->begin;
        if (c->keep == n) continue;
        if (e->config.skip_not_finite)
            LS_TRY(ls_copy(w->queue, ls_span_at(residual, c->begin * 4), ls_span_at(old, c->begin * 4), n * 4));
        ls_span gradient = ls__place_at(e, ls__output(w, t, 0), c->begin - t->begin).device;
        LS_TRY(ls__vector(w->queue)->keep_largest(w->queue, gradient, ls_span_at(residual, c->begin * 4), whole,
                                                  1.0f / whole, n, c->keep));
    }
    return LS_OK;
}

// --- in a message ----------------------------------------------------------------------------------------------------

int64_t ls__topk_write(const float *x, int64_t n, uint32_t *out) {
    uint16_t indices[LS_TOPK_CHUNK];
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], 4);
        out[count] = bits;
        indices[count] = (uint16_t)i;
        count += bits != 0;
    }
    int64_t words = ls__topk_words(count);
    if (words >= n) {
        memcpy(out, x, (size_t)n * 4);
        return n;
    }
    indices[count] = 0;  // the other half of a last word
    memcpy(out + count, indices, (size_t)(words - count) * 4);
    return words;
}

void ls__topk_read(const uint32_t *in, int64_t words, int64_t n, int64_t from, int64_t count, float *out) {
    if (words == n) {
        memcpy(out, in + from, (size_t)count * 4);
        return;
    }
    int64_t values = 2 * words / 3;
    for (int64_t i = 0; i < values; i++) {
        uint16_t index;
        memcpy(&index, (const char *)(in + values) + 2 * i, 2);
        if (index >= from && index < from + count) memcpy(&out[index - from], &in[i], 4);
    }
}

// Chunk by chunk, since the nodes of one are in the caches together: they lie behind one another,
// and the table says which is whose.
ls_status ls__topk_encode(ls_worker *w, const ls_task *t) {
    ls_engine *e = w->engine;
    uint32_t *out = (uint32_t *)(void *)ls__place_at(e, ls__output(w, t, 0), 0).host;
    ls_span results[LS_TREE_MAX_PIECES] = {{.buffer = NULL}};
    int first = chunk_at(e->topk, t->begin), end = first, found, nodes = t->parts;
    while (end < e->topk->count && e->topk->chunks[end].begin < t->end) end++;
    int64_t at = 2 + (int64_t)nodes * (end - first);
    for (int i = first; i < end; i++) {
        const chunk *c = &e->topk->chunks[i];
        int64_t n = c->end - c->begin;
        LS_TRY(ls__reduce_block(w, t, c->begin - t->begin, n, results, &found));
        for (int k = 0; k < found && e->far; k++)
            LS_TRY(ls_read(w->queue, w->hand->scratch + (int64_t)k * LS_TOPK_CHUNK, results[k], n * 4));
        LS_TRY(ls_synchronize(w->queue));
        for (int k = 0; k < found; k++) {
            const float *sums = e->far ? w->hand->scratch + (int64_t)k * LS_TOPK_CHUNK : ls_span_host(results[k]);
            out[1 + (i - first) * nodes + k] = (uint32_t)at;
            at += ls__topk_write(sums, n, out + at);
        }
    }
    out[1 + (int64_t)nodes * (end - first)] = (uint32_t)at;
    out[0] = (uint32_t)at;
    return LS_OK;
}

ls_status ls__topk_bring(ls_worker *w, const ls_task *t, const ls_operand *o, int64_t delta, int64_t n, ls_span out) {
    ls_engine *e = w->engine;
    const ls_emit_config *c = &e->emit;
    int host = e->regions.list[o->region].index, node = (int)o->at, column = -1, nodes = 0;
    const uint32_t *from_host = (const uint32_t *)(const void *)e->places[o->region].host, *message = from_host;
    int64_t offset = t->begin + delta, first_chunk = 0;
    for (int i = 0; i < t->inputs; i++) nodes += ls__input(w, t, i)->region == o->region;
    if (!e->far) LS_TRY(ls__memory(w->queue)->zero(w->queue, out, n * 4));
    for (int i = chunk_at(e->topk, offset); i < e->topk->count && e->topk->chunks[i].begin < offset + n; i++) {
        const chunk *k = &e->topk->chunks[i];
        const int64_t *cuts = c->columns + (int64_t)t->bucket * (c->column_count + 1);
        int before = column;
        while (column < 0 || k->begin >= cuts[column + 1]) column++;
        if (column != before) {
            message = from_host + *words_before(e, host, t->bucket, column);
            first_chunk = chunk_at(e->topk, cuts[column]);
        }
        const uint32_t *at = message + 1 + (i - first_chunk) * nodes + node;
        int64_t from = k->begin > offset ? k->begin : offset, to = k->end < offset + n ? k->end : offset + n;
        ls_span part = ls_span_at(out, (from - offset) * 4);
        float *x = e->far ? w->hand->scratch : ls_span_host(part);
        for (int64_t j = 0; e->far && j < to - from; j++) x[j] = 0;
        ls__topk_read(message + at[0], at[1] - at[0], k->end - k->begin, from - k->begin, to - from, x);
        if (!e->far) continue;
        LS_TRY(ls_write(w->queue, part, x, (to - from) * 4));
        LS_TRY(ls_synchronize(w->queue));
    }
    return LS_OK;
}
