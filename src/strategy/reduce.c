// Adding pieces up in the tree, block by block, so that partial sums stay in the caches.
#include <string.h>

#include "base/clones.h"
#include "strategy/strategy_impl.h"

LS_CLONES static void add(float *restrict out, const float *restrict a, const float *restrict b, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = a[i] + b[i];
}

LS_CLONES static void add_to(float *restrict out, const float *restrict b, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] += b[i];
}

LS_CLONES void ls__scale(float *out, const float *a, float factor, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = a[i] * factor;
}

int ls__reduce_block(ls_lane *lane, int64_t micro_batches, const ls_source *sources, int count, int64_t offset,
                     int64_t n, const float **results) {
    ls_piece stack[LS_TREE_MAX_PIECES];
    int depth = 0;
    for (int i = 0; i < count; i++) {
        stack[depth] = sources[i].piece;
        results[depth++] =
            sources[i].data + (offset - sources[i].first);  // read where it lies until it is added to something
        while (ls_tree_merge(micro_batches, stack, &depth)) {
            // Stack position k has block k + 1: the first is not for sums.
            float *out = lane->blocks + (int64_t)depth * LS_BLOCK;
            const float *left = results[depth - 1], *right = results[depth];
            if (left == out)
                add_to(out, right, n);
            else
                add(out, left, right, n);
            results[depth - 1] = out;
        }
    }
    return depth;
}

void ls__mean_block(ls_lane *lane, const ls_step_info *info, int64_t offset, int64_t n, float *out) {
    const float *results[LS_TREE_MAX_PIECES];
    ls__reduce_block(lane, info->micro_batches, lane->sources, lane->source_count, offset, n, results);
    ls__scale(out, results[0], 1.0f / (float)info->samples, n);
}

void ls__host_partials(ls_lane_step *step, int64_t begin, int64_t end, float *out) {
    const ls_strategy *s = step->strategy;
    ls_lane *lane = step->lane;
    const float *results[LS_TREE_MAX_PIECES];
    int64_t micro_batches = step->info->micro_batches, from, to;
    ls__share(begin, end, step->replica, s->config.replicas, &from, &to);
    int count = ls__host_sources(s, micro_batches, lane->sources);
    for (int64_t at = from; at < to; at += LS_BLOCK) {
        int64_t n = to - at < LS_BLOCK ? to - at : LS_BLOCK;
        int pieces = ls__reduce_block(lane, micro_batches, lane->sources, count, at, n, results);
        for (int k = 0; k < pieces; k++)
            // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): ls__reduce_block filled as many as it returned
            memcpy(out + k * (end - begin) + (at - begin), results[k], (size_t)n * sizeof(float));
    }
}
