// Optimizers' formulas applied to memory of the test's.
#ifndef LS_TESTS_HOST_UPDATE_H
#define LS_TESTS_HOST_UPDATE_H

#include "optim/optim.h"

// One update of n consecutive scalars.
typedef struct host_update {
    int64_t n;
    float *w;
    const float *g;
    float *state[LS_MAX_OPTIMIZER_STATE];
    double lr, lr_before;
    int64_t step;
    double w_norm, g_norm;
} host_update;

static inline void host_apply(const ls_formula_call *call, const host_update *u, float *out) {
    float *x[LS_UPDATE_SPANS] = {u->w, (float *)u->g, u->state[0], u->state[1], out};
    call->formula->host(call->arguments, u->n, x);
}

static inline void host_direct(const ls_optimizer *optimizer, const ls_optimizer_params *params, const host_update *u,
                               float *out) {
    ls_formula_call call;
    optimizer->direction(params, &(ls_update){u->lr, u->lr_before, u->step, 0, 0}, &call);
    host_apply(&call, u, out);
}

static inline void host_step(const ls_optimizer *optimizer, const ls_optimizer_params *params, const host_update *u) {
    ls_formula_call call;
    optimizer->update(params, &(ls_update){u->lr, u->lr_before, u->step, u->w_norm, u->g_norm}, &call);
    host_apply(&call, u, NULL);
}

#endif
