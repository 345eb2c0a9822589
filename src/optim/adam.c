// Adam, as Keras 3 has it (its epsilon is the "epsilon hat" of the paper):
//   w -= w wd lr;  m += (g - m)(1 - b1);  v += (g^2 - v)(1 - b2);
//   w -= m alpha / (sqrt(v) + epsilon),  alpha = lr sqrt(1 - b2^t) / (1 - b1^t).
// Source: Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015, the formulation at the end of section 2.
#include <math.h>

#include "optim/loops.h"

int ls__adam_state_count(const ls_optimizer_params *params) { return 2; }

// Division and square root are rounded correctly in every instruction set, so the clones agree to the bit.
LS_CLONES static void adam(int64_t n, float *restrict weights, const float *restrict gradient, float *restrict first,
                           float *restrict second, float alpha, float rest1, float rest2, float epsilon, float decay) {
    float *restrict w = LS_ALIGNED(weights), *restrict m = LS_ALIGNED(first), *restrict v = LS_ALIGNED(second);
    const float *restrict g = LS_ALIGNED(gradient);
    for (int64_t i = 0; i < n; i++) {
        float kept = w[i] - w[i] * decay;
        m[i] = m[i] + (g[i] - m[i]) * rest1;
        v[i] = v[i] + (g[i] * g[i] - v[i]) * rest2;
        w[i] = kept - m[i] * alpha / (sqrtf(v[i]) + epsilon);
    }
}

typedef struct adam_arguments {
    float alpha, rest1, rest2, epsilon, decay;
} adam_arguments;

static void adam_host(const void *arguments, int64_t n, float *const *x) {
    const adam_arguments *a = arguments;
    adam(n, x[LS_UPDATE_W], x[LS_UPDATE_G], x[LS_UPDATE_STATE], x[LS_UPDATE_STATE + 1], a->alpha, a->rest1, a->rest2,
         a->epsilon, a->decay);
}

static const ls_formula adam_formula = {"adam", adam_host};

void ls__adam_update(const ls_optimizer_params *params, const ls_update *u, ls_formula_call *out) {
    double correction1 = 1 - ls__power(params->beta1, u->step), correction2 = 1 - ls__power(params->beta2, u->step);
    adam_arguments a = {.alpha = (float)(u->lr * sqrt(correction2) / correction1),
                        .rest1 = (float)(1 - params->beta1),
                        .rest2 = (float)(1 - params->beta2),
                        .epsilon = (float)params->epsilon,
                        .decay = (float)(params->weight_decay * u->lr)};
    ls__call(out, &adam_formula, &a, sizeof a);
}

const ls_optimizer ls__optimizer_adam = {
    .name = "adam",
    .help = "Adam",
    .decay = "decoupled",
    .defaults =
        {.lr = 0.001, .momentum = 0, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-7, .weight_decay = 0, .nesterov = 0},
    .state_count = ls__adam_state_count,
    .state_names = {"first_moment", "second_moment"},
    .update = ls__adam_update,
};
