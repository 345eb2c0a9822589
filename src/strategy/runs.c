// Updating the vector run by run: which elements are trained, which of them decay, which are statistics,
// which stay as they are, and which share norms.

#include <string.h>

#include "base/clones.h"
#include "base/error.h"
#include "base/memory.h"
#include "optim/lookahead.h"
#include "strategy/strategy_impl.h"

static ls_run make_run(const ls_strategy_config *config, const ls_segment *segment) {
    ls_run run = {.begin = segment->begin,
                  .end = segment->end,
                  .frozen = segment->frozen,
                  .statistic = segment->statistic && !segment->frozen,
                  .momentum = segment->momentum,
                  .rate = segment->rate > 0 ? segment->rate : 1,
                  .params = config->params};
    run.adapts = config->optimizer->layerwise && segment->kernel && !segment->statistic && !segment->frozen;
    if (segment->decay_scale > 0)
        run.params.weight_decay *= segment->decay_scale, run.params.l2 *= segment->decay_scale;
    if (segment->decay_scale < 0 || (config->decay_kernels_only && !segment->kernel))
        run.params.weight_decay = run.params.l2 = 0;
    return run;
}

static int updated_alike(const ls_run *a, const ls_run *b) {
    if (a->frozen || b->frozen) return a->frozen && b->frozen;
    if (a->statistic || b->statistic) return a->statistic && b->statistic && a->momentum == b->momentum;
    return !a->adapts && !b->adapts && a->params.weight_decay == b->params.weight_decay &&
           a->params.l2 == b->params.l2 && a->rate == b->rate;
}

// Neighbours that are updated alike become one run, so that update loops are long and a vector without options is one run.
ls_status ls__runs_create(ls_strategy *s) {
    const ls_strategy_config *config = &s->config;
    const ls_segment whole = {.end = config->length, .kernel = 1};
    const ls_segment *segments = config->segments ? config->segments : &whole;
    int count = config->segments ? config->segment_count : 1;
    int64_t covered = 0;
    LS_TRY(ls_calloc(count, sizeof *s->runs, &s->runs));
    for (int i = 0; i < count; i++) {
        ls_run run = make_run(config, &segments[i]), *last = s->runs + s->run_count - (s->run_count > 0);
        if (run.begin != covered || run.end <= run.begin || run.end % LS_SLICE_ALIGN != 0) break;
        covered = run.end;
        if (s->run_count > 0 && updated_alike(last, &run))
            last->end = run.end;
        else
            s->runs[s->run_count++] = run;
    }
    if (covered != config->length)
        return LS_FAIL(LS_STATUS_INTERNAL, "the segments of a vector of %lld floats cover it up to %lld only",
                       (long long)config->length, (long long)covered);
    return LS_OK;
}

const ls_run *ls__run_at(const ls_strategy *s, int64_t offset) {
    int low = 0, high = s->run_count - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (s->runs[middle].end <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return &s->runs[low];
}

int64_t ls__trained(const ls_strategy *s, int64_t *begin, int64_t end, int64_t maximum) {
    const ls_run *run = ls__run_at(s, *begin), *last = s->runs + s->run_count;
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

// As Keras moves the statistics of batch normalization; with the sum of all micro-batches divided by the samples, g is the
// mean of their statistics, weighted by their samples.
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

// The formula that a run is updated by, or directed; worked out once for all of its blocks that follow each other.
static const ls_formula_call *call_of(ls_lane_step *step, const ls_run *run, int direction) {
    const ls_strategy *s = step->strategy;
    const ls_optimizer *optimizer = s->config.optimizer;
    if (step->called == run && step->called_direction == direction) return &step->call;
    ls_update u = {.lr = step->info->lr * run->rate,  // by 1 nothing changes
                   .lr_before = step->info->lr_before * run->rate,
                   .step = step->info->step};
    if (run->adapts && !direction) {
        u.w_norm = step->lane->norms[run - s->runs][0];
        u.g_norm = step->lane->norms[run - s->runs][1];
    }
    if (run->statistic)
        call_statistic(run, &step->call);
    else
        (direction ? optimizer->direction : optimizer->update)(&run->params, &u, &step->call);
    step->called = run;
    step->called_direction = direction;
    return &step->call;
}

// The spans of a block from element `at` of the vector on.
static void spans_at(const ls_update_block *block, int64_t at, ls_span x[LS_UPDATE_SPANS]) {
    for (int i = 0; i < LS_UPDATE_SPANS; i++)
        x[i] = block->x[i].buffer ? ls_span_at(block->x[i], (at - block->offset) * 4) : block->x[i];
}

// Slow weights begin as the weights do, before the first step.
static ls_status begin_slow(const ls_lane_step *step, const ls_span *x, int64_t n) {
    if (!step->strategy->config.lookahead || step->info->step != 1) return LS_OK;
    return ls_copy(step->queue, x[LS_UPDATE_SLOW], x[LS_UPDATE_W], n * 4);
}

static ls_status follow(const ls_lane_step *step, const ls_span *x, int64_t n) {
    if (!step->strategy->config.lookahead || step->info->slow_keeps < 0) return LS_OK;
    ls_formula_call call;
    ls_span both[] = {x[LS_UPDATE_W], x[LS_UPDATE_SLOW]};
    ls_lookahead_call(step->info->slow_keeps, &call);
    return ls_apply(step->queue, &call, both, 2, n);
}

ls_status ls__add_l2(ls_lane_step *step, int64_t at, int64_t n, ls_span g, ls_span out) {
    const ls_strategy *s = step->strategy;
    int64_t begin = at, end = at + n;
    for (const ls_run *run = ls__run_at(s, at); at < end; run++) {
        int64_t next = ls__run_end(run, end), from = (at - begin) * 4;
        ls_span x[] = {ls_span_at(s->weights.device, at * 4), ls_span_at(g, from), ls_span_at(out, from)};
        ls_formula_call call;
        ls_l2_call(run->statistic ? 0 : run->params.l2, &call);
        LS_TRY(ls_apply(step->queue, &call, x, LS_L2_SPANS, next - at));
        at = next;
    }
    return LS_OK;
}

ls_status ls__direct(ls_lane_step *step, const ls_update_block *block) {
    const ls_strategy *s = step->strategy;
    int64_t at = block->offset, end = at + block->n;
    for (const ls_run *run = ls__run_at(s, at); at < end; run++) {
        ls_span x[LS_UPDATE_SPANS];
        int64_t n = ls__run_end(run, end) - at;
        spans_at(block, at, x);
        if (run->statistic || !s->config.optimizer->direction)
            LS_TRY(ls_copy(step->queue, x[LS_UPDATE_OUT], x[LS_UPDATE_G], n * 4));
        else
            LS_TRY(ls_apply(step->queue, call_of(step, run, 1), x, LS_UPDATE_SPANS, n));
        at += n;
    }
    return LS_OK;
}

ls_status ls__update(ls_lane_step *step, const ls_update_block *block) {
    const ls_strategy *s = step->strategy;
    int64_t at = block->offset, end = at + block->n;
    for (const ls_run *run = ls__run_at(s, at); at < end; run++) {
        ls_span x[LS_UPDATE_SPANS];
        int64_t n = ls__run_end(run, end) - at;
        spans_at(block, at, x);
        LS_TRY(begin_slow(step, x, n));
        LS_TRY(ls_apply(step->queue, call_of(step, run, 0), x, LS_UPDATE_OUT, n));
        LS_TRY(follow(step, x, n));
        at += n;
    }
    return LS_OK;
}
