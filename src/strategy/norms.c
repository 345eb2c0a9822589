// Norms over the vector, whoever owns what of it: of all gradients, to clip them, and of each kernel, for layer-wise optimizers.
//
// The order of summation is fixed: the squares of each unit of LS_SLICE_ALIGN elements in a tree, the units one after the
// other. Slices are cut between units, so it does not depend on who owns what; and a unit concerns one parameter only.
//
// Clipping: the mean gradient g becomes g * clip_norm / max(|g|, clip_norm), |g| over all parameters that are trained.
// Source: Pascanu et al., "On the difficulty of training recurrent neural networks", ICML 2013; Keras's global_clipnorm.
#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "strategy/strategy_impl.h"

// Of each of the units at x, into every `stride`-th of the sums.
LS_CLONES static void sum_squares(double *restrict sums, int stride, const float *restrict x, int64_t units) {
    for (int64_t u = 0; u < units; u++) {
        double s[LS_SLICE_ALIGN];
        for (int i = 0; i < LS_SLICE_ALIGN; i++) s[i] = (double)x[u * LS_SLICE_ALIGN + i] * x[u * LS_SLICE_ALIGN + i];
        for (int half = LS_SLICE_ALIGN / 2; half > 0; half /= 2)
            for (int i = 0; i < half; i++) s[i] += s[i + half];
        sums[u * stride] = s[0];
    }
}

// Statistics have no gradient and count as zero.
void ls__note_squares(ls_strategy *s, int64_t offset, int64_t n, const float *g) {
    int64_t end = offset + n;
    for (const ls_run *run = ls__run_at(s, offset); offset < end; run++) {
        int64_t next = ls__run_end(run, end), units = (next - offset) / LS_SLICE_ALIGN;
        double *sums = s->squares + offset / LS_SLICE_ALIGN;
        if (run->statistic)
            memset(sums, 0, (size_t)units * sizeof *sums);
        else
            sum_squares(sums, 1, g, units);
        g += next - offset;
        offset = next;
    }
}

float ls__clip_factor(const ls_strategy *s) {
    double sum = 0, maximum = s->config.clip_norm;
    for (int64_t u = 0; u < s->config.length / LS_SLICE_ALIGN; u++) sum += s->squares[u];
    double norm = sqrt(sum);
    return norm > maximum ? (float)(maximum / norm) : 1;
}

void ls__clip(const ls_strategy *s, int64_t offset, int64_t n, const float *g, float factor, float *out) {
    int64_t end = offset + n;
    for (const ls_run *run = ls__run_at(s, offset); offset < end; run++) {
        int64_t next = ls__run_end(run, end);
        ls__scale(out, g, run->statistic ? 1 : factor, next - offset);
        g += next - offset;
        out += next - offset;
        offset = next;
    }
}

void ls__note_layers(ls_strategy *s, int64_t offset, int64_t n, const float *w, const float *g) {
    int64_t end = offset + n;
    for (const ls_run *run = ls__run_at(s, offset); offset < end; run++) {
        int64_t next = ls__run_end(run, end), units = (next - offset) / LS_SLICE_ALIGN;
        double *sums = s->layer_squares + offset / LS_SLICE_ALIGN * 2;
        if (run->adapts) {
            sum_squares(sums, 2, w, units);
            sum_squares(sums + 1, 2, g, units);
        }
        w += next - offset;
        g += next - offset;
        offset = next;
    }
}

void ls__find_norms(const ls_strategy *s, ls_lane *lane, int64_t begin, int64_t end) {
    if (begin == end) return;
    for (const ls_run *run = ls__run_at(s, begin); run < s->runs + s->run_count && run->begin < end; run++) {
        if (!run->adapts) continue;
        double w = 0, g = 0;
        for (int64_t u = run->begin / LS_SLICE_ALIGN; u < run->end / LS_SLICE_ALIGN; u++) {
            w += s->layer_squares[2 * u];
            g += s->layer_squares[2 * u + 1];
        }
        double *norms = lane->norms[run - s->runs];
        norms[0] = sqrt(w), norms[1] = sqrt(g);
    }
}
