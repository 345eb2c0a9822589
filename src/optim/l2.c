// The gradient of the penalty l2/2 |w|^2: g + l2 w. Optimizers get it in place of g, so it goes through
// momentum, moments and norms: coupled decay, as weight_decay of PyTorch's SGD and Adam and of Caffe.
// Source: Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019, algorithms 1 and 2.
#include "optim/loops.h"

// No restrict: g may be out.
LS_CLONES static void add(int64_t n, const float *weights, const float *gradient, float *result, float l2) {
    const float *w = LS_ALIGNED(weights), *g = LS_ALIGNED(gradient);
    float *out = LS_ALIGNED(result);
    for (int64_t i = 0; i < n; i++) out[i] = g[i] + l2 * w[i];
}

static void add_host(const void *arguments, int64_t n, float *const *x) {
    add(n, x[LS_L2_W], x[LS_L2_G], x[LS_L2_OUT], *(const float *)arguments);
}

static const ls_formula l2_formula = {"l2", add_host};

void ls_l2_call(double l2, ls_formula_call *out) {
    float factor = (float)l2;
    ls__call(out, &l2_formula, &factor, sizeof factor);
}
