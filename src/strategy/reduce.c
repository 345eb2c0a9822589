// Adding pieces up in the tree, block by block, so that partial sums stay in the caches.
#include "base/error.h"
#include "strategy/strategy_impl.h"

ls_status ls__bring(ls_lane_step *step, ls_window window, int64_t n, int block, ls_span *out) {
    *out = window.device;
    if (out->buffer) return LS_OK;
    *out = ls__block(step, block);
    return ls_write(step->queue, *out, window.host, n * 4);
}

ls_status ls__reduce_block(ls_lane_step *step, const ls_source *sources, int count, int64_t offset, int64_t n,
                           ls_span *results, int *pieces) {
    const ls_vector_ops *vector = ls__vector(step->queue);
    int64_t micro_batches = step->info->micro_batches;
    ls_piece stack[LS_TREE_MAX_PIECES];
    int depth = 0;
    for (int i = 0; i < count; i++) {
        ls_window from = ls__window_at(sources[i].data, (offset - sources[i].first) * 4);
        stack[depth] = sources[i].piece;
        // Stack position k has block k + 1: the first is not for sums. A source is read where it lies until it is added to something.
        LS_TRY(ls__bring(step, from, n, depth + 1, &results[depth]));
        depth++;
        while (ls_tree_merge(micro_batches, stack, &depth)) {
            ls_span out = ls__block(step, depth);
            LS_TRY(vector->add(step->queue, out, results[depth - 1], results[depth], n));
            results[depth - 1] = out;
        }
    }
    *pieces = depth;
    return LS_OK;
}

ls_status ls__mean_block(ls_lane_step *step, int64_t offset, int64_t n, ls_span out) {
    const ls_lane *lane = step->lane;
    ls_span results[LS_TREE_MAX_PIECES];
    int pieces;
    LS_TRY(ls__reduce_block(step, lane->sources, lane->source_count, offset, n, results, &pieces));
    return ls__vector(step->queue)->scale(step->queue, out, results[0], 1.0f / (float)step->info->samples, n);
}

ls_status ls__host_partials(ls_lane_step *step, int64_t begin, int64_t end, float *out) {
    const ls_strategy *s = step->strategy;
    ls_lane *lane = step->lane;
    ls_span results[LS_TREE_MAX_PIECES] = {{.buffer = NULL}};
    int64_t from, to;
    int pieces;
    ls__share(begin, end, step->replica, s->config.replicas, &from, &to);
    int count = ls__host_sources(s, step->info->micro_batches, lane->sources);
    for (int64_t at = from, n; (n = ls__trained(s, &at, to, s->block)) > 0; at += n) {
        LS_TRY(ls__reduce_block(step, lane->sources, count, at, n, results, &pieces));
        for (int k = 0; k < pieces; k++)
            LS_TRY(ls_read(step->queue, out + k * (end - begin) + (at - begin), results[k], n * 4));
    }
    return LS_OK;
}
