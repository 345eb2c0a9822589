// Updating the vector run by run: which elements are trained, which of them decay, which are statistics, and which share norms.

#include <string.h>

#include "base/clones.h"
#include "base/error.h"
#include "base/memory.h"
#include "strategy/strategy_impl.h"

static ls_run make_run(const ls_strategy_config *config, const ls_segment *segment) {
    ls_run run = {.begin = segment->begin,
                  .end = segment->end,
                  .statistic = segment->statistic,
                  .momentum = segment->momentum,
                  .params = config->params};
    run.adapts = config->optimizer->layerwise && segment->kernel && !segment->statistic;
    if (config->decay_kernels_only && !segment->kernel) run.params.weight_decay = 0;
    return run;
}

static int updated_alike(const ls_run *a, const ls_run *b) {
    if (a->statistic || b->statistic) return a->statistic && b->statistic && a->momentum == b->momentum;
    return !a->adapts && !b->adapts && a->params.weight_decay == b->params.weight_decay;
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

// As Keras moves the statistics of batch normalization; with the sum of all micro-batches divided by the samples, g is the
// mean of their statistics, weighted by their samples.
LS_CLONES static void move_statistic(int64_t n, float *restrict w, const float *restrict g, float momentum,
                                     float rest) {
    for (int64_t i = 0; i < n; i++) w[i] = momentum * w[i] + rest * g[i];
}

static void advance(ls_update *u) {
    u->w += u->n, u->g += u->n;
    for (int i = 0; i < LS_MAX_OPTIMIZER_STATE; i++)
        if (u->state[i]) u->state[i] += u->n;
}

void ls__direct(const ls_strategy *s, ls_update u, int64_t offset, float *out) {
    const ls_optimizer *optimizer = s->config.optimizer;
    int64_t end = offset + u.n;
    for (const ls_run *run = ls__run_at(s, offset); offset < end; run++) {
        u.n = ls__run_end(run, end) - offset;
        if (run->statistic || !optimizer->direction)
            memcpy(out, u.g, (size_t)u.n * sizeof *out);
        else
            optimizer->direction(&run->params, &u, out);
        offset += u.n, out += u.n;
        advance(&u);
    }
}

void ls__update(const ls_strategy *s, const ls_lane *lane, ls_update u, int64_t offset) {
    int64_t end = offset + u.n;
    for (const ls_run *run = ls__run_at(s, offset); offset < end; run++) {
        u.n = ls__run_end(run, end) - offset;
        u.w_norm = run->adapts ? lane->norms[run - s->runs][0] : 0;
        u.g_norm = run->adapts ? lane->norms[run - s->runs][1] : 0;
        if (run->statistic)
            move_statistic(u.n, u.w, u.g, run->momentum, 1 - run->momentum);
        else
            s->config.optimizer->update(&run->params, &u);
        offset += u.n;
        advance(&u);
    }
}
