// Layer-wise adaptive moments: Adam whose step, for each kernel, is as long as lr times the norm of its weights.
//   m += (g - m)(1 - b1);  v += (g^2 - v)(1 - b2);
//   d = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon) + wd w;  w -= lr |w| / |d| d.
// Where a norm is 0, and for what is no kernel, w -= lr d.
// Source: You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", ICLR 2020, algorithm 2, with phi
// the identity; defaults and the case of a norm of 0 as in TensorFlow Addons.
#include <math.h>

#include "optim/loops.h"

LS_CLONES static void moments(int64_t n, const float *restrict weights, const float *restrict gradient,
                              float *restrict first, float *restrict second, float *restrict out, float rest1,
                              float rest2, float scale1, float scale2, float epsilon, float decay) {
    const float *restrict w = LS_ALIGNED(weights), *restrict g = LS_ALIGNED(gradient);
    float *restrict m = LS_ALIGNED(first), *restrict v = LS_ALIGNED(second), *restrict d = LS_ALIGNED(out);
    for (int64_t i = 0; i < n; i++) {
        m[i] = m[i] + (g[i] - m[i]) * rest1;
        v[i] = v[i] + (g[i] * g[i] - v[i]) * rest2;
        d[i] = m[i] * scale1 / (sqrtf(v[i] * scale2) + epsilon) + decay * w[i];
    }
}

LS_CLONES static void apply(int64_t n, float *restrict weights, const float *restrict direction, float rate) {
    float *restrict w = LS_ALIGNED(weights);
    const float *restrict d = LS_ALIGNED(direction);
    for (int64_t i = 0; i < n; i++) w[i] -= rate * d[i];
}

typedef struct moments_arguments {
    float rest1, rest2, scale1, scale2, epsilon, decay;
} moments_arguments;

static void moments_host(const void *arguments, int64_t n, float *const *x) {
    const moments_arguments *a = arguments;
    moments(n, x[LS_UPDATE_W], x[LS_UPDATE_G], x[LS_UPDATE_STATE], x[LS_UPDATE_STATE + 1], x[LS_UPDATE_OUT], a->rest1,
            a->rest2, a->scale1, a->scale2, a->epsilon, a->decay);
}

static void apply_host(const void *arguments, int64_t n, float *const *x) {
    apply(n, x[LS_UPDATE_W], x[LS_UPDATE_G], *(const float *)arguments);
}

static const ls_formula moments_formula = {"lamb direction", moments_host}, apply_formula = {"lamb", apply_host};

static void lamb_direction(const ls_optimizer_params *params, const ls_update *u, ls_formula_call *out) {
    double correction1 = 1 - ls__power(params->beta1, u->step), correction2 = 1 - ls__power(params->beta2, u->step);
    moments_arguments a = {.rest1 = (float)(1 - params->beta1),
                           .rest2 = (float)(1 - params->beta2),
                           .scale1 = (float)(1 / correction1),
                           .scale2 = (float)(1 / correction2),
                           .epsilon = (float)params->epsilon,
                           .decay = (float)params->weight_decay};
    ls__call(out, &moments_formula, &a, sizeof a);
}

static void lamb_update(const ls_optimizer_params *params, const ls_update *u, ls_formula_call *out) {
    double ratio = u->w_norm > 0 && u->g_norm > 0 ? u->w_norm / u->g_norm : 1;
    float rate = (float)(u->lr * ratio);
    ls__call(out, &apply_formula, &rate, sizeof rate);
}

const ls_optimizer ls__optimizer_lamb = {
    .name = "lamb",
    .help = "Adam with a step for each kernel, in proportion to its weights; for large batches",
    .decay = "as in LAMB",
    .defaults = {.lr = 0.001, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-6, .weight_decay = 0},
    .layerwise = 1,
    .state_count = ls__adam_state_count,
    .state_names = {"first_moment", "second_moment"},
    .direction = lamb_direction,
    .update = lamb_update,
};
