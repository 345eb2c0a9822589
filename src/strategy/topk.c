// What top-k does to a micro-batch's gradient, and how a chunk of few values is written.
#include "strategy/topk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

// --- chunks ----------------------------------------------------------------------------------------------------------

static int64_t chunks_of(const ls_segment *segment) {
    return segment->frozen ? 0 : (segment->end - segment->begin + LS_TOPK_CHUNK - 1) / LS_TOPK_CHUNK;
}

static int32_t keep_of(const ls_segment *segment, int64_t n, double fraction) {
    double keep = ceil(fraction * (double)n);
    return (int32_t)(!segment->kernel || segment->statistic || keep > (double)n ? n : (int64_t)keep);
}

int ls__topk_chunk_at(const ls_topk *topk, int64_t at) {
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

ls_status ls__topk_plan(ls_strategy *s) {
    const ls_strategy_config *config = &s->config;
    const ls_segment whole = {.end = config->length, .kernel = 1};
    const ls_segment *segments = config->segments ? config->segments : &whole;
    int segment_count = config->segments ? config->segment_count : 1;
    int64_t count = 0;
    if (config->compress != LS_COMPRESS_TOPK) return LS_OK;
    for (int i = 0; i < segment_count; i++) count += chunks_of(&segments[i]);
    LS_TRY(ls_calloc(1, sizeof *s->topk, &s->topk));
    LS_TRY(ls_calloc(count, sizeof *s->topk->chunks, &s->topk->chunks));
    for (int i = 0; i < segment_count; i++)
        for (int64_t k = 0; k < chunks_of(&segments[i]); k++) {
            ls_topk_chunk *chunk = &s->topk->chunks[s->topk->count++];
            chunk->begin = segments[i].begin + k * LS_TOPK_CHUNK;
            chunk->end = chunk->begin + LS_TOPK_CHUNK;
            if (chunk->end > segments[i].end) chunk->end = segments[i].end;
            chunk->keep = keep_of(&segments[i], chunk->end - chunk->begin, config->compress_fraction);
        }
    for (int b = 0; b < s->bucket_count; b++) {
        int i = ls__topk_chunk_at(s->topk, s->bucket_ends[b]);
        if (i < s->topk->count && s->topk->chunks[i].begin < s->bucket_ends[b])
            return LS_FAIL(LS_STATUS_INTERNAL, "bucket %d ends within the chunk of elements %lld to %lld", b,
                           (long long)s->topk->chunks[i].begin, (long long)s->topk->chunks[i].end);
    }
    return LS_OK;
}

void ls__topk_free(ls_strategy *s) {
    if (s->topk) free(s->topk->chunks);
    free(s->topk);
    s->topk = NULL;
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

void ls_strategy_bucket_ends(int compress, const ls_segment *segments, int segment_count, int64_t *ends, int *count) {
    int kept = 0;
    for (int b = 0; b < *count && compress == LS_COMPRESS_TOPK; b++) {
        int64_t end = end_of_chunk(segments, segment_count, ends[b]);
        if (kept == 0 || end > ends[kept - 1]) ends[kept++] = end;
    }
    if (kept > 0) *count = kept;
}

// --- residuals -------------------------------------------------------------------------------------------------------

ls_status ls__topk_plan_lane(ls_strategy *s, int replica) {
    ls_lane *lane = s->lane[replica];
    int64_t end;
    if (!s->topk) return LS_OK;
    ls_strategy_deal(s, s->config.micro_batches, s->config.comm->position * s->config.replicas + replica,
                     &lane->first_leaf, &end);
    lane->leaves = end - lane->first_leaf;
    LS_TRY(ls_calloc(lane->leaves, 1, &lane->turn));
    if (!ls__host_memory(s) && s->config.comm->hosts > 1)
        LS_TRY(ls__want(s, LS_STRATEGY_SUMS, replica, (int64_t)s->host_pieces * LS_TOPK_CHUNK * 4, &lane->scratch));
    for (int i = 0; i <= s->config.skip_not_finite; i++)
        LS_TRY(
            ls__want_span(s, LS_STRATEGY_RESIDUALS, replica, lane->leaves * s->config.length * 4, &lane->residuals[i]));
    return LS_OK;
}

static ls_span residual_of(const ls_strategy *s, const ls_lane *lane, int64_t leaf, int turn) {
    return ls_span_at(lane->residuals[turn], leaf * s->config.length * 4);
}

ls_span ls__topk_residual(const ls_strategy *s, const ls_lane *lane, int64_t leaf) {
    return residual_of(s, lane, leaf, lane->turn[leaf]);
}

void ls__topk_taken(const ls_lane_step *step) {
    const ls_strategy *s = step->strategy;
    const ls_lane *lane = step->lane;
    int64_t begin, end;
    if (!s->topk || !s->config.skip_not_finite) return;
    ls_strategy_deal(s, step->info->micro_batches, s->config.comm->position * s->config.replicas + step->replica,
                     &begin, &end);
    for (int64_t v = begin; v < end; v++) lane->turn[v - lane->first_leaf] ^= 1;
}

ls_status ls__topk_select(ls_strategy *s, int replica, ls_queue *queue, const ls_step_info *info, ls_span gradient,
                          int64_t begin, int64_t end) {
    const ls_lane *lane = s->lane[replica];
    int64_t leaf = lane->stack[lane->depth].first - lane->first_leaf;
    ls_span old = ls__topk_residual(s, lane, leaf), residual = old;
    if (s->config.skip_not_finite) residual = residual_of(s, lane, leaf, !lane->turn[leaf]);
    float whole = (float)info->samples * ls__gradient_scale(info);  // what a residual is a part of, and is kept without
    for (int i = ls__topk_chunk_at(s->topk, begin); i < s->topk->count && s->topk->chunks[i].begin < end; i++) {
        const ls_topk_chunk *chunk = &s->topk->chunks[i];
        int64_t n = chunk->end - chunk->begin;
        if (chunk->keep == n) continue;
        if (s->config.skip_not_finite)
            LS_TRY(ls__memory(queue)->copy(queue, ls_span_at(residual, chunk->begin * 4),
                                           ls_span_at(old, chunk->begin * 4), n * 4));
        LS_TRY(ls__vector(queue)->keep_largest(queue, ls_span_at(gradient, chunk->begin * 4),
                                               ls_span_at(residual, chunk->begin * 4), whole, 1.0f / whole, n,
                                               chunk->keep));
    }
    return LS_OK;
}

// --- in a message ----------------------------------------------------------------------------------------------------

int64_t ls__topk_encode(const float *x, int64_t n, uint32_t *out) {
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

void ls__topk_decode(const uint32_t *in, int64_t words, int64_t n, int64_t from, int64_t count, float *out) {
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
