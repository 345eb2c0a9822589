#include <math.h>

#include "device/ref/ref.h"

// x: logits (N, C), or (N, T, C) of sequences, whose loss is the mean over their T positions. The largest logit is taken out before exp.

typedef struct sizes {
    int64_t rows, c;
    double share;  // of a row in its sample's loss
} sizes;

static sizes sizes_of(const ls_ref_args *a) {
    ls_shape x = a->spec->x[0].shape;
    int64_t c = x.dim[x.ndim - 1], rows = ls_shape_count(x) / c;
    return (sizes){rows, c, (double)x.dim[0] / (double)rows};
}

static int64_t largest(const double *x, int64_t c) {
    int64_t best = 0;
    for (int64_t k = 1; k < c; k++)
        if (x[k] > x[best]) best = k;
    return best;
}

static double exp_sum(const double *x, int64_t c, double max) {
    double sum = 0;
    for (int64_t k = 0; k < c; k++) sum += exp(x[k] - max);
    return sum;
}

// What the label of sample i says of class k: its weight, or 1 for the sample's class and 0 for the others; smoothed.
// Source: Szegedy et al., "Rethinking the Inception architecture for computer vision", CVPR 2016, section 7.
static double target(const ls_ref_args *a, int64_t i, int64_t k, int64_t c) {
    const ls_loss_attrs *attrs = LS_ATTRS(ls_loss_attrs, &a->spec->attrs);
    double t = attrs->rows ? a->x[1][i * c + k] : a->x[1][i] == (double)k;
    double smoothing = a->spec->pass == LS_PASS_INFERENCE ? 0 : attrs->label_smoothing;
    return (1 - smoothing) * t + smoothing / (double)c;
}

// The loss of a sample is sum_k target_k (log(sum_j exp(x_j)) - x_k).
static void forward(const ls_ref_args *a) {
    sizes s = sizes_of(a);
    int64_t n = s.rows, c = s.c;
    double loss = 0;
    for (int64_t i = 0; i < n; i++) {
        const double *x = a->x[0] + i * c;
        int64_t best = largest(x, c);
        double log_sum = log(exp_sum(x, c, x[best])) + x[best];
        for (int64_t k = 0; k < c; k++) {
            double t = target(a, i, k, c);
            if (t != 0) loss += t * (log_sum - x[k]);
        }
    }
    a->y[0][0] = loss * s.share * LS_ATTRS(ls_loss_attrs, &a->spec->attrs)->weight;
}

// softmax(x) times the targets' sum, minus the targets; times the weight.
static void backward_data(const ls_ref_args *a) {
    sizes s = sizes_of(a);
    int64_t n = s.rows, c = s.c;
    for (int64_t i = 0; i < n; i++) {
        const double *x = a->x[0] + i * c;
        double max = x[largest(x, c)], sum = exp_sum(x, c, max), targets = 0;
        for (int64_t k = 0; k < c; k++) targets += target(a, i, k, c);
        for (int64_t k = 0; k < c; k++)
            a->dx[0][i * c + k] = (targets * exp(x[k] - max) / sum - target(a, i, k, c)) * s.share *
                                  LS_ATTRS(ls_loss_attrs, &a->spec->attrs)->weight;
    }
}

// Targets have no gradient.
static int uses(const ls_kernel_spec *s, int arg, int by_rule) { return arg != LS_ARG_DX + 1 && by_rule; }

const ls_ref_op ls__ref_softmax_cross_entropy = {
    .kind = LS_OP_SOFTMAX_CROSS_ENTROPY,
    .forward = forward,
    .backward_data = backward_data,
    .backward_reads = LS_REF_READS_X,
    .seeds_gradient = 1,
    .uses = uses,
};
