// Stochastic gradient descent with momentum, as Keras 3 has it:
//   w -= w wd lr;  m = momentum m - lr g;  w += m, or with Nesterov w += momentum m - lr g;  without momentum w -= lr g.
// m holds past gradients at the rates of their steps. Momentum correction brings them to the rate of this one:
//   m = momentum lr/lr_before m - lr g.
// Source: Goyal et al., "Accurate, large minibatch SGD: training ImageNet in 1 hour", 2017, section 3, equation 10 and
// remark 2 (its v is our -m).
#include "optim/loops.h"

static int sgd_state_count(const ls_optimizer_params *params) { return params->momentum != 0; }

LS_CLONES static void plain(int64_t n, float *restrict weights, const float *restrict gradient, float lr, float decay) {
    float *restrict w = LS_ALIGNED(weights);
    const float *restrict g = LS_ALIGNED(gradient);
    for (int64_t i = 0; i < n; i++) {
        float kept = w[i] - w[i] * decay;
        w[i] = kept - lr * g[i];
    }
}

LS_CLONES static void with_momentum(int64_t n, float *restrict weights, const float *restrict gradient,
                                    float *restrict velocity, float lr, float momentum, float decay) {
    float *restrict w = LS_ALIGNED(weights), *restrict m = LS_ALIGNED(velocity);
    const float *restrict g = LS_ALIGNED(gradient);
    for (int64_t i = 0; i < n; i++) {
        float kept = w[i] - w[i] * decay;
        m[i] = momentum * m[i] - lr * g[i];
        w[i] = kept + m[i];
    }
}

LS_CLONES static void nesterov(int64_t n, float *restrict weights, const float *restrict gradient,
                               float *restrict velocity, float lr, float history, float momentum, float decay) {
    float *restrict w = LS_ALIGNED(weights), *restrict m = LS_ALIGNED(velocity);
    const float *restrict g = LS_ALIGNED(gradient);
    for (int64_t i = 0; i < n; i++) {
        float kept = w[i] - w[i] * decay;
        float down = lr * g[i];
        m[i] = history * m[i] - down;
        w[i] = kept + (momentum * m[i] - down);
    }
}

typedef struct sgd_arguments {
    float lr, history, momentum, decay;
} sgd_arguments;

static void plain_host(const void *arguments, int64_t n, float *const *x) {
    const sgd_arguments *a = arguments;
    plain(n, x[LS_UPDATE_W], x[LS_UPDATE_G], a->lr, a->decay);
}

static void with_momentum_host(const void *arguments, int64_t n, float *const *x) {
    const sgd_arguments *a = arguments;
    with_momentum(n, x[LS_UPDATE_W], x[LS_UPDATE_G], x[LS_UPDATE_STATE], a->lr, a->history, a->decay);
}

static void nesterov_host(const void *arguments, int64_t n, float *const *x) {
    const sgd_arguments *a = arguments;
    nesterov(n, x[LS_UPDATE_W], x[LS_UPDATE_G], x[LS_UPDATE_STATE], a->lr, a->history, a->momentum, a->decay);
}

static const ls_formula plain_formula = {"sgd", plain_host}, momentum_formula = {"sgd momentum", with_momentum_host},
                        nesterov_formula = {"sgd nesterov", nesterov_host};

static void sgd_update(const ls_optimizer_params *params, const ls_update *u, ls_formula_call *out) {
    sgd_arguments a = {.lr = (float)u->lr,
                       .history = ls__history(params, u),
                       .momentum = (float)params->momentum,
                       .decay = (float)(params->weight_decay * u->lr)};
    const ls_formula *formula = a.momentum == 0    ? &plain_formula
                                : params->nesterov ? &nesterov_formula
                                                   : &momentum_formula;
    ls__call(out, formula, &a, sizeof a);
}

const ls_optimizer ls__optimizer_sgd = {
    .name = "sgd",
    .help = "stochastic gradient descent, with momentum and Nesterov's variant",
    .decay = "decoupled",
    .defaults = {.lr = 0.01, .momentum = 0, .beta1 = 0, .beta2 = 0, .epsilon = 0, .weight_decay = 0, .nesterov = 0},
    .has_momentum = 1,
    .state_count = sgd_state_count,
    .state_names = {"momentum"},
    .update = sgd_update,
};
