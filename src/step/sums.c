// Nodes brought together and added in the tree, block by block, so that partial sums stay in the
// caches.
#include <string.h>

#include "base/error.h"
#include "step/engine_impl.h"

ls_place ls__place_at(const ls_engine *e, const ls_operand *o, int64_t delta) {
    const ls_region *r = &e->regions.list[o->region];
    ls_place p = e->places[o->region];
    int64_t bytes = (o->at + delta) * ls__size_of(r);
    if (p.host) p.host += bytes;
    if (p.device.buffer) p.device = ls_span_at(p.device, bytes);
    return p;
}

ls_status ls__bring(ls_worker *w, const ls_task *t, const ls_operand *o, int64_t delta, int64_t n, int block,
                    ls_span *out) {
    ls_engine *e = w->engine;
    const ls_region *r = &e->regions.list[o->region];
    *out = ls__block(w, block);
    if (r->kind == LS_REGION_SPARSE) return ls__topk_bring(w, t, o, delta, n, *out);
    ls_place at = ls__place_at(e, o, delta);
    if (r->dtype == LS_DTYPE_F32) {
        if (!at.device.buffer) return ls_write(w->queue, *out, at.host, n * 4);
        *out = at.device;
        return LS_OK;
    }
    if (!at.device.buffer) {
        at.device = w->hand->packed;
        LS_TRY(ls_write(w->queue, at.device, at.host, n * 2));
    }
    return ls__vector(w->queue)->unpack_bf16(w->queue, *out, at.device, n);
}

static ls_status add_two(ls_worker *w, ls_span out, ls_span a, ls_span b, int64_t n) {
    const ls_vector_ops *vector = ls__vector(w->queue);
    return (w->engine->rounds ? vector->add_bf16 : vector->add)(w->queue, out, a, b, n);
}

ls_status ls__reduce_block(ls_worker *w, const ls_task *t, int64_t delta, int64_t n, ls_span *results, int *count) {
    ls_piece stack[LS_TREE_MAX_PIECES];
    int depth = 0;
    for (int i = 0; i < t->inputs; i++) {
        const ls_operand *o = ls__input(w, t, i);
        stack[depth] = o->node;
        // Stack position k has block k + 1: the first is not for sums. An input is read where it
        // lies until it is added to something.
        LS_TRY(ls__bring(w, t, o, delta, n, depth + 1, &results[depth]));
        depth++;
        while (ls_tree_merge(w->info->micro_batches, stack, &depth)) {
            ls_span out = ls__block(w, depth);
            LS_TRY(add_two(w, out, results[depth - 1], results[depth], n));
            results[depth - 1] = out;
        }
    }
    *count = depth;
    return LS_OK;
}

// By a power of two nothing is rounded: the mean is what it would be without a scale.
static ls_status scale_mean(ls_worker *w, int64_t offset, ls_span out, ls_span sum, int64_t n) {
    const ls_vector_ops *vector = ls__vector(w->queue);
    float mean = 1.0f / (float)w->info->samples, scale = ls__gradient_scale(w->info);
    if (scale == 1) return vector->scale(w->queue, out, sum, mean, n);
    int64_t end = offset + n;
    for (const ls_run *run = ls__run_at(w->engine, offset); offset < end; run++) {
        int64_t next = ls__run_end(run, end), bytes = (next - offset) * 4;
        LS_TRY(vector->scale(w->queue, out, sum, run->statistic ? mean : mean / scale, next - offset));
        out = ls_span_at(out, bytes);
        sum = ls_span_at(sum, bytes);
        offset = next;
    }
    return LS_OK;
}

ls_status ls__mean_block(ls_worker *w, const ls_task *t, int64_t delta, int64_t n, ls_span out) {
    ls_span results[LS_TREE_MAX_PIECES] = {{.buffer = NULL}};
    int count;
    LS_TRY(ls__reduce_block(w, t, delta, n, results, &count));
    // The one sum that is a leaf: nobody has rounded it.
    const ls_region *r = &w->engine->regions.list[ls__input(w, t, 0)->region];
    if (w->engine->rounds && w->info->micro_batches == 1 && r->dtype == LS_DTYPE_F32) {
        ls_span rounded = ls__block(w, 1);
        LS_TRY(ls__vector(w->queue)->pack_bf16(w->queue, w->hand->packed, results[0], n));
        LS_TRY(ls__vector(w->queue)->unpack_bf16(w->queue, rounded, w->hand->packed, n));
        results[0] = rounded;
    }
    return scale_mean(w, t->begin + delta, out, results[0], n);
}

// A block of sums, to where an output lies: on the device, or on the host once the queue is
// synchronized.
static ls_status put(ls_worker *w, const ls_operand *o, int64_t delta, ls_span sums, int64_t n) {
    ls_engine *e = w->engine;
    const ls_region *r = &e->regions.list[o->region];
    ls_place to = ls__place_at(e, o, delta);
    if (r->dtype == LS_DTYPE_BF16) {
        if (to.device.buffer) return ls__vector(w->queue)->pack_bf16(w->queue, to.device, sums, n);
        LS_TRY(ls__vector(w->queue)->pack_bf16(w->queue, w->hand->packed, sums, n));
        return ls_read(w->queue, to.host, w->hand->packed, n * 2);
    }
    if (to.device.buffer && sums.buffer == to.device.buffer && sums.offset == to.device.offset) return LS_OK;
    return to.device.buffer ? ls_copy(w->queue, to.device, sums, n * 4) : ls_read(w->queue, to.host, sums, n * 4);
}

static int is_float_here(const ls_engine *e, const ls_operand *o) {
    return e->regions.list[o->region].dtype == LS_DTYPE_F32 && e->places[o->region].device.buffer;
}

// Two siblings, both on the device: at once, however many they are.
static ls_status add_siblings(ls_worker *w, const ls_task *t) {
    const ls_operand *a = ls__input(w, t, 0), *b = ls__input(w, t, 1), *to = ls__output(w, t, 0);
    for (int64_t at = t->begin, n; (n = ls__trained(w->engine, &at, t->end, t->end)) > 0; at += n) {
        int64_t delta = at - t->begin;
        LS_TRY(add_two(w, ls__place_at(w->engine, to, delta).device, ls__place_at(w->engine, a, delta).device,
                       ls__place_at(w->engine, b, delta).device, n));
    }
    return LS_OK;
}

ls_status ls__add(ls_worker *w, const ls_task *t) {
    const ls_engine *e = w->engine;
    ls_span results[LS_TREE_MAX_PIECES] = {{.buffer = NULL}};
    int count;
    if (t->inputs == 2 && t->outputs == 1 && is_float_here(e, ls__input(w, t, 0)) &&
        is_float_here(e, ls__input(w, t, 1)) && is_float_here(e, ls__output(w, t, 0)))
        return add_siblings(w, t);
    for (int64_t at = t->begin, n; (n = ls__trained(e, &at, t->end, e->block)) > 0; at += n) {
        LS_TRY(ls__reduce_block(w, t, at - t->begin, n, results, &count));
        for (int k = 0; k < t->outputs; k++) LS_TRY(put(w, ls__output(w, t, k), at - t->begin, results[k], n));
    }
    return LS_OK;
}

ls_status ls__copy(ls_worker *w, const ls_task *t) {
    const ls_engine *e = w->engine;
    const ls_operand *a = ls__input(w, t, 0), *b = ls__output(w, t, 0);
    int64_t bytes = (t->end - t->begin) * ls__size_of(&e->regions.list[a->region]);
    ls_place from = ls__place_at(e, a, 0), to = ls__place_at(e, b, 0);
    if (from.host && to.host) {
        memcpy(to.host, from.host, (size_t)bytes);
        return LS_OK;
    }
    if (from.host) return ls_write(w->queue, to.device, from.host, bytes);
    return ls_read(w->queue, to.host, from.device, bytes);
}
