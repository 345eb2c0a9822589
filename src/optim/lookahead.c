#include "optim/lookahead.h"

#include <math.h>

#include "base/error.h"
#include "optim/loops.h"

ls_status ls_lookahead_check(const ls_lookahead *l) {
    if (l->every < 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "lookahead was to come every %d steps: give it 1 at least, or 0 to leave it out", l->every);
    if (!(l->step > 0 && l->step <= 1))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the step of lookahead is %g; it must be above 0 and at most 1, at which it does nothing",
                       l->step);
    if (!(l->power >= 0 && l->power <= 100))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the power of lookahead is %g; it must be from 0 to 100", l->power);
    return LS_OK;
}

double ls_lookahead_keeps(const ls_lookahead *l, int64_t step, int64_t steps) {
    if (l->every < 1) return -1;
    if (step % l->every != 0) return step == steps ? 1 : -1;
    double done = step < steps ? (double)step / (double)steps : 1;
    return (1 - l->step) * ls__power_of(done, l->power);
}

LS_CLONES static void follow(int64_t n, float *restrict weights, float *restrict slow, float keeps, float takes) {
    float *restrict w = LS_ALIGNED(weights), *restrict s = LS_ALIGNED(slow);
    for (int64_t i = 0; i < n; i++) w[i] = s[i] = keeps * s[i] + takes * w[i];
}

typedef struct follow_arguments {
    float keeps, takes;
} follow_arguments;

static void follow_host(const void *arguments, int64_t n, float *const *x) {
    const follow_arguments *a = arguments;
    follow(n, x[0], x[1], a->keeps, a->takes);
}

static const ls_formula follow_formula = {"lookahead", follow_host};

void ls_lookahead_call(double keeps, ls_formula_call *out) {
    follow_arguments a = {(float)keeps, (float)(1 - keeps)};
    ls__call(out, &follow_formula, &a, sizeof a);
}
