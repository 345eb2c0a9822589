// Layer-wise adaptive rate scaling: sgd whose rate, for each kernel, is in proportion to its weights.
//   rate = lr trust |w| / (|g| + wd |w| + epsilon);  m = momentum m - rate (g + wd w);  w += m, or with Nesterov
//   w += momentum m - rate (g + wd w);  without momentum w -= rate (g + wd w).
// Where a norm is 0, and for what is no kernel, rate = lr. Weight decay is part of the gradient, unlike sgd's, and not of its norm.
// Source: You, Gitman and Ginsburg, "Large batch training of convolutional networks", 2017, algorithm 1 (its v is our -m: past
// gradients count at the rates of their steps); epsilon and the case of a norm of 0 as in LARC of NVIDIA's Apex.
#include "optim/loops.h"

static int lars_state_count(const ls_optimizer_params *params) { return params->momentum != 0; }

LS_CLONES static void plain(int64_t n, float *restrict weights, const float *restrict gradient, float rate,
                            float decay) {
    float *restrict w = LS_ALIGNED(weights);
    const float *restrict g = LS_ALIGNED(gradient);
    for (int64_t i = 0; i < n; i++) w[i] -= rate * (g[i] + decay * w[i]);
}

LS_CLONES static void with_momentum(int64_t n, float *restrict weights, const float *restrict gradient,
                                    float *restrict velocity, float rate, float history, float decay) {
    float *restrict w = LS_ALIGNED(weights), *restrict m = LS_ALIGNED(velocity);
    const float *restrict g = LS_ALIGNED(gradient);
    for (int64_t i = 0; i < n; i++) {
        m[i] = history * m[i] - rate * (g[i] + decay * w[i]);
        w[i] += m[i];
    }
}

LS_CLONES static void nesterov(int64_t n, float *restrict weights, const float *restrict gradient,
                               float *restrict velocity, float rate, float history, float momentum, float decay) {
    float *restrict w = LS_ALIGNED(weights), *restrict m = LS_ALIGNED(velocity);
    const float *restrict g = LS_ALIGNED(gradient);
    for (int64_t i = 0; i < n; i++) {
        float down = rate * (g[i] + decay * w[i]);
        m[i] = history * m[i] - down;
        w[i] += momentum * m[i] - down;
    }
}

typedef struct lars_arguments {
    float rate, history, momentum, decay;
} lars_arguments;

static void plain_host(const void *arguments, int64_t n, float *const *x) {
    const lars_arguments *a = arguments;
    plain(n, x[LS_UPDATE_W], x[LS_UPDATE_G], a->rate, a->decay);
}

static void with_momentum_host(const void *arguments, int64_t n, float *const *x) {
    const lars_arguments *a = arguments;
    with_momentum(n, x[LS_UPDATE_W], x[LS_UPDATE_G], x[LS_UPDATE_STATE], a->rate, a->history, a->decay);
}

static void nesterov_host(const void *arguments, int64_t n, float *const *x) {
    const lars_arguments *a = arguments;
    nesterov(n, x[LS_UPDATE_W], x[LS_UPDATE_G], x[LS_UPDATE_STATE], a->rate, a->history, a->momentum, a->decay);
}

static const ls_formula plain_formula = {"lars", plain_host}, momentum_formula = {"lars momentum", with_momentum_host},
                        nesterov_formula = {"lars nesterov", nesterov_host};

static void lars_update(const ls_optimizer_params *params, const ls_update *u, ls_formula_call *out) {
    double local = u->lr;
    if (u->w_norm > 0 && u->g_norm > 0)
        local *=
            params->trust_coefficient * u->w_norm / (u->g_norm + params->weight_decay * u->w_norm + params->epsilon);
    lars_arguments a = {.rate = (float)local,
                        .history = ls__history(params, u),
                        .momentum = (float)params->momentum,
                        .decay = (float)params->weight_decay};
    const ls_formula *formula = a.momentum == 0    ? &plain_formula
                                : params->nesterov ? &nesterov_formula
                                                   : &momentum_formula;
    ls__call(out, formula, &a, sizeof a);
}

const ls_optimizer ls__optimizer_lars = {
    .name = "lars",
    .help = "sgd with a rate for each kernel, in proportion to its weights; for large batches",
    .decay = "as in LARS",
    .defaults = {.lr = 1, .momentum = 0.9, .epsilon = 1e-8, .weight_decay = 0, .trust_coefficient = 0.001},
    .layerwise = 1,
    .has_momentum = 1,
    .state_count = lars_state_count,
    .state_names = {"momentum"},
    .update = lars_update,
};
