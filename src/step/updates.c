// Updating the vector run by run: which elements are trained, which of them decay, which are
// statistics, which stay as they are, and which share norms.
#include <string.h>

#include "base/clones.h"
#include "base/error.h"
#include "base/memory.h"
#include "optim/lookahead.h"
#include "step/engine_impl.h"

static ls_run make_run(const ls_engine_config *config, const ls_segment *segment, int *adapted) {
    ls_run run = {.begin = segment->begin,
                  .end = segment->end,
                  .frozen = segment->frozen,
                  .statistic = segment->statistic && !segment->frozen,
                  .segment = -1,
                  .momentum = segment->momentum,
                  .rate = segment->rate > 0 ? segment->rate : 1,
                  .params = config->params};
    if (config->optimizer->layerwise && segment->kernel && !segment->statistic && !segment->frozen)
        run.segment = (*adapted)++;
    if (segment->decay_scale > 0)
        run.params.weight_decay *= segment->decay_scale, run.params.l2 *= segment->decay_scale;
    if (segment->decay_scale < 0 || (config->decay_kernels_only && !segment->kernel))
        run.params.weight_decay = run.params.l2 = 0;
    return run;
}

static int updated_alike(const ls_run *a, const ls_run *b) {
    if (a->frozen || b->frozen) return a->frozen && b->frozen;
    if (a->statistic || b->statistic) return a->statistic && b->statistic && a->momentum == b->momentum;
    return a->segment < 0 && b->segment < 0 && a->params.weight_decay == b->params.weight_decay &&
           a->params.l2 == b->params.l2 && a->rate == b->rate;
}

// Neighbours that are updated alike become one run, so that update loops are long and a vector
// without options is one run.
ls_status ls__runs_create(ls_engine *e) {
    const ls_engine_config *config = &e->config;
    const ls_segment whole = {.end = config->length, .kernel = 1};
    const ls_segment *segments = config->segments ? config->segments : &whole;
    int count = config->segments ? config->segment_count : 1, adapted = 0;
    int64_t covered = 0;
    LS_TRY(ls_calloc(count, sizeof *e->runs, &e->runs));
    for (int i = 0; i < count; i++) {
        ls_run run = make_run(config, &segments[i], &adapted), *last = e->runs + e->run_count - (e->run_count > 0);
        if (run.begin != covered || run.end <= run.begin || run.end % LS_SLICE_ALIGN != 0) break;
        covered = run.end;
        if (e->run_count > 0 && updated_alike(last, &run))
            last->end = run.end;
        else
            e->runs[e->run_count++] = run;
    }
    if (covered != config->length)
        return LS_FAIL(LS_STATUS_INTERNAL, "the segments of a vector of %lld floats cover it up to %lld only",
                       (long long)config->length, (long long)covered);
    return LS_OK;
}

const ls_run *ls__run_at(const ls_engine *e, int64_t offset) {
    int low = 0, high = e->run_count - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (e->runs[middle].end <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return &e->runs[low];
}

int64_t ls__trained(const ls_engine *e, int64_t *begin, int64_t end, int64_t maximum) {
    const ls_run *run = ls__run_at(e, *begin), *last = e->runs + e->run_count;
    while (*begin < end && run->frozen) {
        *begin = ls__run_end(run, end);
        if (++run == last) break;
    }
    if (*begin >= end) return 0;
    int64_t most = maximum < end - *begin ? *begin + maximum : end;
    for (const ls_run *next = run; next < last && next->begin < most; next++)
        if (next->frozen) return next->begin - *begin;
    return most - *begin;
}

// --- formulas --------------------------------------------------------------------------------------------------------

typedef struct statistic_arguments {
    float momentum, rest;
} statistic_arguments;

// As Keras moves the statistics of batch normalization; with the sum of all micro-batches divided
// by the samples, g is the mean of their statistics, weighted by their samples.
LS_CLONES static void move_statistic(int64_t n, float *restrict w, const float *restrict g, float momentum,
                                     float rest) {
    for (int64_t i = 0; i < n; i++) w[i] = momentum * w[i] + rest * g[i];
}

static void statistic_host(const void *arguments, int64_t n, float *const *x) {
    const statistic_arguments *a = arguments;
    move_statistic(n, x[LS_UPDATE_W], x[LS_UPDATE_G], a->momentum, a->rest);
}

static const ls_formula statistic_formula = {"statistic", statistic_host};

static void call_statistic(const ls_run *run, ls_formula_call *out) {
    statistic_arguments a = {run->momentum, 1 - run->momentum};
    out->formula = &statistic_formula;
    out->argument_bytes = sizeof a;
    memcpy(out->arguments, &a, sizeof a);
}

// The formula that a run is updated by, or directed; worked out once for all of its blocks that
// follow each other.
static const ls_formula_call *call_of(ls_worker *w, const ls_task *t, const ls_run *run, int direction) {
    const ls_optimizer *optimizer = w->engine->config.optimizer;
    ls_hand *h = w->hand;
    if (h->called == run && h->called_direction == direction && h->called_step == w->info->step) return &h->call;
    ls_update u = {.lr = w->info->lr * run->rate,  // by 1 nothing changes
                   .lr_before = w->info->lr_before * run->rate,
                   .step = w->info->step};
    if (run->segment >= 0 && !direction) {
        u.w_norm = w->engine->lane[t->lane]->norms[run->segment][0];
        u.g_norm = w->engine->lane[t->lane]->norms[run->segment][1];
    }
    if (run->statistic)
        call_statistic(run, &h->call);
    else
        (direction ? optimizer->direction : optimizer->update)(&run->params, &u, &h->call);
    h->called = run;
    h->called_direction = direction;
    h->called_step = w->info->step;
    return &h->call;
}

// Slow weights begin as the weights do, before the first step.
static ls_status begin_slow(const ls_worker *w, const ls_span *x, int64_t n) {
    if (!w->engine->config.lookahead || w->info->step != 1) return LS_OK;
    return ls_copy(w->queue, x[LS_UPDATE_SLOW], x[LS_UPDATE_W], n * 4);
}

static ls_status follow(const ls_worker *w, const ls_span *x, int64_t n) {
    if (!w->engine->config.lookahead || w->info->slow_keeps < 0) return LS_OK;
    ls_formula_call call;
    ls_span both[] = {x[LS_UPDATE_W], x[LS_UPDATE_SLOW]};
    ls_lookahead_call(w->info->slow_keeps, &call);
    return ls_apply(w->queue, &call, both, 2, n);
}

// --- a slice ---------------------------------------------------------------------------------------------------------

// The spans of a task's slice from element `delta` of it on; g and out are given.
static void spans_of(const ls_worker *w, const ls_task *t, int64_t delta, ls_span g, ls_span out,
                     ls_span x[LS_UPDATE_SPANS]) {
    ls_engine *e = w->engine;
    const ls_lane *lane = e->lane[t->lane];
    int64_t kept = 0;
    ls_operand weights = {.region = -1};
    for (int i = 0; i < t->outputs; i++) {
        const ls_operand *o = ls__output(w, t, i);
        ls_region_kind kind = e->regions.list[o->region].kind;
        if (kind == LS_REGION_WEIGHTS) weights = *o;
        if (kind == LS_REGION_STATE || kind == LS_REGION_KEPT) kept = o->at;
    }
    memset(x, 0, LS_UPDATE_SPANS * sizeof *x);
    x[LS_UPDATE_W] = weights.region >= 0 ? ls__place_at(e, &weights, delta).device
                                         : ls_span_at(ls_engine_weights(e), (t->begin + delta) * 4);
    x[LS_UPDATE_G] = g;
    x[LS_UPDATE_OUT] = out;
    for (int i = 0; i < LS_MAX_OPTIMIZER_STATE; i++)
        if (lane->state[i].buffer) x[LS_UPDATE_STATE + i] = ls_span_at(lane->state[i], (kept + delta) * 4);
    if (e->config.lookahead) x[LS_UPDATE_SLOW] = ls_span_at(lane->slow, (kept + delta) * 4);
}

static void shift(ls_span x[LS_UPDATE_SPANS], int64_t n) {
    for (int i = 0; i < LS_UPDATE_SPANS; i++)
        if (x[i].buffer) x[i] = ls_span_at(x[i], n * 4);
}

static int is_kept(const ls_worker *w, const ls_task *t) {
    return t->inputs == 1 && w->engine->regions.list[ls__input(w, t, 0)->region].kind == LS_REGION_KEPT;
}

static ls_status clip(ls_worker *w, const ls_task *t, int64_t delta, int64_t n, ls_span g, ls_span out) {
    int64_t offset = t->begin + delta, end = offset + n;
    for (const ls_run *run = ls__run_at(w->engine, offset); offset < end; run++) {
        int64_t next = ls__run_end(run, end), bytes = (next - offset) * 4;
        float factor = run->statistic ? 1 : w->engine->lane[t->lane]->factor;
        LS_TRY(ls__vector(w->queue)->scale(w->queue, out, g, factor, next - offset));
        g = ls_span_at(g, bytes);
        out = ls_span_at(out, bytes);
        offset = next;
    }
    return LS_OK;
}

// The mean gradient of a block, clipped where norms are known: in a block, or where it was kept.
static ls_status clipped(ls_worker *w, const ls_task *t, int64_t delta, int64_t n, ls_span *g) {
    *g = ls__block(w, 0);
    if (!is_kept(w, t)) return ls__mean_block(w, t, delta, n, *g);
    ls_span kept = ls__place_at(w->engine, ls__input(w, t, 0), delta).device;
    if (ls__clips(w->engine)) return clip(w, t, delta, n, kept, *g);
    *g = kept;
    return LS_OK;
}

// The same with the gradient of the L2 penalty, which clipping has no part in.
static ls_status gradient(ls_worker *w, const ls_task *t, int64_t delta, int64_t n, ls_span *g) {
    LS_TRY(clipped(w, t, delta, n, g));
    if (!(w->engine->config.params.l2 > 0)) return LS_OK;
    ls_span x[LS_UPDATE_SPANS], out = ls__block(w, 0);
    spans_of(w, t, delta, *g, out, x);
    ls_span penalized[LS_L2_SPANS] = {x[LS_UPDATE_W], *g, out};
    int64_t at = t->begin + delta, end = at + n;
    for (const ls_run *run = ls__run_at(w->engine, at); at < end; run++) {
        int64_t count = ls__run_end(run, end) - at;
        ls_formula_call call;
        ls_l2_call(run->statistic ? 0 : run->params.l2, &call);
        LS_TRY(ls_apply(w->queue, &call, penalized, LS_L2_SPANS, count));
        for (int i = 0; i < LS_L2_SPANS; i++) penalized[i] = ls_span_at(penalized[i], count * 4);
        at += count;
    }
    *g = out;
    return LS_OK;
}

ls_status ls__measure(ls_worker *w, const ls_task *t) {
    const ls_engine *e = w->engine;
    ls_norm_cursor cursor;
    LS_TRY(ls__norms_begin(w, t, 0, &cursor));
    for (int64_t at = t->begin, n; (n = ls__trained(e, &at, t->end, e->block)) > 0; at += n) {
        ls_span mean = ls__place_at(e, ls__output(w, t, 0), at - t->begin).device;
        LS_TRY(ls__mean_block(w, t, at - t->begin, n, mean));
        const ls_span measured[2] = {mean, mean};
        LS_TRY(ls__norms_note(w, &cursor, at, measured, n));
    }
    ls__norms_end(&cursor);
    return LS_OK;
}

static ls_status direct_block(ls_worker *w, const ls_task *t, int64_t delta, int64_t n, ls_span x[LS_UPDATE_SPANS]) {
    const ls_engine *e = w->engine;
    int64_t at = t->begin + delta, end = at + n;
    for (const ls_run *run = ls__run_at(e, at); at < end; run++) {
        int64_t count = ls__run_end(run, end) - at;
        if (run->statistic || !e->config.optimizer->direction)
            LS_TRY(ls_copy(w->queue, x[LS_UPDATE_OUT], x[LS_UPDATE_G], count * 4));
        else
            LS_TRY(ls_apply(w->queue, call_of(w, t, run, 1), x, LS_UPDATE_SPANS, count));
        shift(x, count);
        at += count;
    }
    return LS_OK;
}

ls_status ls__direct(ls_worker *w, const ls_task *t) {
    const ls_engine *e = w->engine;
    ls_norm_cursor cursor;
    LS_TRY(ls__norms_begin(w, t, 1, &cursor));
    for (int64_t at = t->begin, n; (n = ls__trained(e, &at, t->end, e->block)) > 0; at += n) {
        ls_span x[LS_UPDATE_SPANS], g, out = ls__place_at(e, ls__output(w, t, 0), at - t->begin).device;
        LS_TRY(gradient(w, t, at - t->begin, n, &g));
        spans_of(w, t, at - t->begin, g, out, x);
        ls_span measured[2] = {x[LS_UPDATE_W], out};
        LS_TRY(direct_block(w, t, at - t->begin, n, x));
        LS_TRY(ls__norms_note(w, &cursor, at, measured, n));
    }
    ls__norms_end(&cursor);
    return LS_OK;
}

static ls_status update_block(ls_worker *w, const ls_task *t, int64_t delta, int64_t n, ls_span x[LS_UPDATE_SPANS]) {
    const ls_engine *e = w->engine;
    int64_t at = t->begin + delta, end = at + n;
    for (const ls_run *run = ls__run_at(e, at); at < end; run++) {
        int64_t count = ls__run_end(run, end) - at;
        LS_TRY(begin_slow(w, x, count));
        LS_TRY(ls_apply(w->queue, call_of(w, t, run, 0), x, LS_UPDATE_OUT, count));
        LS_TRY(follow(w, x, count));
        shift(x, count);
        at += count;
    }
    return LS_OK;
}

ls_status ls__update(ls_worker *w, const ls_task *t) {
    const ls_engine *e = w->engine;
    const ls_lane *lane = e->lane[t->lane];
    if (lane->skips) return LS_OK;
    for (int64_t at = t->begin, n; (n = ls__trained(e, &at, t->end, e->block)) > 0; at += n) {
        ls_span x[LS_UPDATE_SPANS], g;
        if (ls__layerwise(e) && is_kept(w, t))  // clipped before it was directed
            g = ls__place_at(e, ls__input(w, t, 0), at - t->begin).device;
        else
            LS_TRY(gradient(w, t, at - t->begin, n, &g));
        spans_of(w, t, at - t->begin, g, (ls_span){0}, x);
        ls_span weights = x[LS_UPDATE_W];
        LS_TRY(update_block(w, t, at - t->begin, n, x));
        if (e->config.find_not_finite)  // while they are in the caches still
            LS_TRY(ls__vector(w->queue)->find_not_finite(w->queue, lane->found, weights, at, n));
    }
    return LS_OK;
}
