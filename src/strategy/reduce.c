// Adding pieces up in the tree, block by block, so that partial sums stay in the caches.
#include "base/error.h"
#include "strategy/strategy_impl.h"
#include "strategy/topk.h"

ls_status ls__bring(ls_lane_step *step, ls_window window, int64_t n, int block, ls_span *out) {
    *out = window.device;
    if (out->buffer) return LS_OK;
    *out = ls__block(step, block);
    return ls_write(step->queue, *out, window.host, n * 4);
}

// Elements [offset, offset + n) of a source, where the device can read them as floats: there, or in the lane's block `block`.
static ls_status bring_source(ls_lane_step *step, const ls_source *source, int64_t offset, int64_t n, int block,
                              ls_span *out) {
    if (source->pieces > 0) return ls__topk_bring(step, source, offset, n, block, out);
    int64_t size = (int64_t)ls_dtype_size(source->dtype);
    ls_window from = ls__window_at(source->data, (offset - source->first) * size);
    if (source->dtype == LS_DTYPE_F32) return ls__bring(step, from, n, block, out);
    if (!from.device.buffer) {
        from.device = step->lane->packed;
        LS_TRY(ls_write(step->queue, from.device, from.host, n * size));
    }
    *out = ls__block(step, block);
    return ls__vector(step->queue)->unpack_bf16(step->queue, *out, from.device, n);
}

ls_status ls__reduce_block(ls_lane_step *step, const ls_source *sources, int count, int64_t offset, int64_t n,
                           ls_span *results, int *pieces) {
    int64_t micro_batches = step->info->micro_batches;
    ls_piece stack[LS_TREE_MAX_PIECES];
    int depth = 0;
    for (int i = 0; i < count; i++) {
        stack[depth] = sources[i].piece;
        // Stack position k has block k + 1: the first is not for sums. A source is read where it lies until it is added to something.
        LS_TRY(bring_source(step, &sources[i], offset, n, depth + 1, &results[depth]));
        depth++;
        while (ls__merge(step->strategy, micro_batches, stack, &depth)) {
            ls_span out = ls__block(step, depth);
            LS_TRY(ls__add(step->strategy, step->queue, out, results[depth - 1], results[depth], n));
            results[depth - 1] = out;
        }
    }
    *pieces = depth;
    return LS_OK;
}

ls_status ls__sum_block(ls_lane_step *step, int64_t offset, int64_t n, ls_span *sum) {
    const ls_lane *lane = step->lane;
    const ls_vector_ops *vector = ls__vector(step->queue);
    ls_span results[LS_TREE_MAX_PIECES];
    int pieces;
    LS_TRY(ls__reduce_block(step, lane->sources, lane->source_count, offset, n, results, &pieces));
    *sum = results[0];
    if (!ls__rounds(step->strategy) || step->info->micro_batches > 1) return LS_OK;
    // The one sum that is a leaf: nobody has rounded it.
    *sum = ls__block(step, 1);
    LS_TRY(vector->pack_bf16(step->queue, lane->packed, results[0], n));
    return vector->unpack_bf16(step->queue, *sum, lane->packed, n);
}

// By a power of two nothing is rounded: the mean is what it would be without a scale.
ls_status ls__scale_mean(ls_lane_step *step, int64_t offset, ls_span out, ls_span sum, int64_t n) {
    const ls_vector_ops *vector = ls__vector(step->queue);
    float mean = 1.0f / (float)step->info->samples, scale = ls__gradient_scale(step->info);
    if (scale == 1) return vector->scale(step->queue, out, sum, mean, n);
    int64_t end = offset + n;
    for (const ls_run *run = ls__run_at(step->strategy, offset); offset < end; run++) {
        int64_t next = ls__run_end(run, end), bytes = (next - offset) * 4;
        LS_TRY(vector->scale(step->queue, out, sum, run->statistic ? mean : mean / scale, next - offset));
        out = ls_span_at(out, bytes);
        sum = ls_span_at(sum, bytes);
        offset = next;
    }
    return LS_OK;
}

ls_status ls__mean_block(ls_lane_step *step, int64_t offset, int64_t n, ls_span out) {
    ls_span sum;
    LS_TRY(ls__sum_block(step, offset, n, &sum));
    return ls__scale_mean(step, offset, out, sum, n);
}

ls_status ls__send_block(ls_lane_step *step, void *out, ls_span sums, int64_t n) {
    const ls_strategy *s = step->strategy;
    if (ls__rounds(s)) {
        LS_TRY(ls__vector(step->queue)->pack_bf16(step->queue, step->lane->packed, sums, n));
        sums = step->lane->packed;
    }
    return ls_read(step->queue, out, sums, n * ls__sum_bytes(s));
}

ls_status ls__host_partials(ls_lane_step *step, int64_t begin, int64_t end, void *out) {
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
            LS_TRY(ls__send_block(step, (char *)out + (k * (end - begin) + (at - begin)) * ls__sum_bytes(s), results[k],
                                  n));
    }
    return LS_OK;
}
