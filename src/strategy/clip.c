// Clipping by the global norm: the mean gradient g becomes g * clip_norm / max(|g|, clip_norm), |g| over all parameters.
// Source: Pascanu et al., "On the difficulty of training recurrent neural networks", ICML 2013; Keras's global_clipnorm.
//
// The order of summation is fixed: the squares of each unit of LS_SLICE_ALIGN elements in a tree, the units one after the
// other. Slices are cut between units, so it does not depend on who owns what.
#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "strategy/strategy_impl.h"

LS_CLONES static void sum_squares(double *restrict sums, const float *restrict g, int64_t units) {
    for (int64_t u = 0; u < units; u++) {
        double s[LS_SLICE_ALIGN];
        for (int i = 0; i < LS_SLICE_ALIGN; i++) s[i] = (double)g[u * LS_SLICE_ALIGN + i] * g[u * LS_SLICE_ALIGN + i];
        for (int half = LS_SLICE_ALIGN / 2; half > 0; half /= 2)
            for (int i = 0; i < half; i++) s[i] += s[i + half];
        sums[u] = s[0];
    }
}

// Statistics have no gradient and count as zero.
void ls__note_squares(ls_strategy_base *base, int64_t offset, int64_t n, const float *g) {
    int64_t end = offset + n;
    for (const ls_run *run = ls__run_at(base, offset); offset < end; run++) {
        int64_t next = run->end < end ? run->end : end, units = (next - offset) / LS_SLICE_ALIGN;
        double *sums = base->squares + offset / LS_SLICE_ALIGN;
        if (run->statistic)
            memset(sums, 0, (size_t)units * sizeof *sums);
        else
            sum_squares(sums, g, units);
        g += next - offset;
        offset = next;
    }
}

void ls__clip(const ls_strategy_base *base, int64_t offset, int64_t n, const float *g, float factor, float *out) {
    int64_t end = offset + n;
    for (const ls_run *run = ls__run_at(base, offset); offset < end; run++) {
        int64_t next = run->end < end ? run->end : end;
        ls__scale(out, g, run->statistic ? 1 : factor, next - offset);
        g += next - offset;
        out += next - offset;
        offset = next;
    }
}

float ls__clip_factor(const ls_strategy_base *base) {
    double sum = 0, most = base->head.config.clip_norm;
    for (int64_t u = 0; u < base->head.config.length / LS_SLICE_ALIGN; u++) sum += base->squares[u];
    double norm = sqrt(sum);
    return norm > most ? (float)(most / norm) : 1;
}
