// Norms over the vector, whoever owns what of it: of all gradients, to clip them, and of each kernel, for layer-wise optimizers.
//
// The order of summation is fixed: the squares of each unit of LS_SLICE_ALIGN elements in a tree, the units one after the
// other. Slices are cut between units, so it does not depend on who owns what; and a unit concerns one parameter only.
//
// Clipping: the mean gradient g becomes g * clip_norm / max(|g|, clip_norm), |g| over all parameters that are trained.
// Source: Pascanu et al., "On the difficulty of training recurrent neural networks", ICML 2013; Keras's global_clipnorm.
#include <math.h>

#include "base/error.h"
#include "strategy/strategy_impl.h"

// Of each unit of x[column], elements from `offset` of the vector on, into sums: (length / LS_SLICE_ALIGN, columns). What is never
// noted stays zero there: statistics have no gradient, and what is frozen does not count.
static ls_status note(ls_lane_step *step, ls_window sums, int columns, int64_t offset, const ls_span *x, int64_t n) {
    int64_t units = n / LS_SLICE_ALIGN, unit_bytes = columns * (int64_t)sizeof(double);
    ls_window to = ls__window_at(sums, offset / LS_SLICE_ALIGN * unit_bytes);
    ls_span at = to.device.buffer ? to.device : step->lane->unit_sums;
    for (int i = 0; i < columns; i++)
        LS_TRY(ls__vector(step->queue)
                   ->sum_squares(step->queue, ls_span_at(at, i * (int64_t)sizeof(double)), columns, x[i], units));
    return to.device.buffer ? LS_OK : ls_read(step->queue, to.host, at, units * unit_bytes);
}

ls_status ls__note_squares(ls_lane_step *step, int64_t offset, int64_t n, ls_span g) {
    ls_strategy *s = step->strategy;
    int64_t end = offset + n;
    for (const ls_run *run = ls__run_at(s, offset); offset < end; run++) {
        int64_t next = ls__run_end(run, end), bytes = (next - offset) * 4;
        // What statistics add up to is looked at where a step may be skipped, and is no part of the norm.
        if (!run->statistic || s->config.skip_not_finite) LS_TRY(note(step, s->squares, 1, offset, &g, next - offset));
        g = ls_span_at(g, bytes);
        offset = next;
    }
    return LS_OK;
}

float ls__clip_factor(const ls_strategy *s, int *finite) {
    const double *squares = s->squares.host;
    double sum = 0, statistics = 0, maximum = s->config.clip_norm;
    for (const ls_run *run = s->runs; run < s->runs + s->run_count; run++)
        for (int64_t u = run->begin / LS_SLICE_ALIGN; u < run->end / LS_SLICE_ALIGN; u++)
            *(run->statistic ? &statistics : &sum) += squares[u];
    double norm = sqrt(sum);
    *finite = isfinite(sum) && isfinite(statistics);
    return maximum > 0 && norm > maximum ? (float)(maximum / norm) : 1;
}

ls_status ls__clip(ls_lane_step *step, int64_t offset, int64_t n, ls_span g, ls_span out) {
    int64_t end = offset + n;
    for (const ls_run *run = ls__run_at(step->strategy, offset); offset < end; run++) {
        int64_t next = ls__run_end(run, end), bytes = (next - offset) * 4;
        float factor = run->statistic ? 1 : step->factor;
        LS_TRY(ls__vector(step->queue)->scale(step->queue, out, g, factor, next - offset));
        g = ls_span_at(g, bytes);
        out = ls_span_at(out, bytes);
        offset = next;
    }
    return LS_OK;
}

ls_status ls__note_layers(ls_lane_step *step, int64_t offset, int64_t n, ls_span w, ls_span g) {
    ls_strategy *s = step->strategy;
    int64_t end = offset + n;
    for (const ls_run *run = ls__run_at(s, offset); offset < end; run++) {
        int64_t next = ls__run_end(run, end), bytes = (next - offset) * 4;
        if (run->adapts) LS_TRY(note(step, s->layer_squares, 2, offset, (ls_span[]){w, g}, next - offset));
        w = ls_span_at(w, bytes);
        g = ls_span_at(g, bytes);
        offset = next;
    }
    return LS_OK;
}

void ls__find_norms(const ls_strategy *s, ls_lane *lane, int64_t begin, int64_t end) {
    const double *squares = s->layer_squares.host;
    if (begin == end) return;
    for (const ls_run *run = ls__run_at(s, begin); run < s->runs + s->run_count && run->begin < end; run++) {
        if (!run->adapts) continue;
        double w = 0, g = 0;
        for (int64_t u = run->begin / LS_SLICE_ALIGN; u < run->end / LS_SLICE_ALIGN; u++) {
            w += squares[2 * u];
            g += squares[2 * u + 1];
        }
        double *norms = lane->norms[run - s->runs];
        norms[0] = sqrt(w), norms[1] = sqrt(g);
    }
}
