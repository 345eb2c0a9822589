#include <math.h>

#include "device/ref/ref.h"

// x: logits (N, C). The loss of a sample is log(sum_k exp(x_k)) - x_label, with the largest logit taken out before exp.

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

static void forward(const ls_ref_args *a) {
    int64_t n = a->spec->x.dim[0], c = a->spec->x.dim[1];
    ls_loss_metrics sums = {.samples = n};
    for (int64_t i = 0; i < n; i++) {
        const double *x = a->x + i * c;
        int64_t best = largest(x, c);
        sums.loss += log(exp_sum(x, c, x[best])) + x[best] - x[a->labels[i]];
        sums.correct += best == a->labels[i];
    }
    *a->metrics = sums;
}

// softmax(x) minus the one-hot label.
static void backward_data(const ls_ref_args *a) {
    int64_t n = a->spec->x.dim[0], c = a->spec->x.dim[1];
    for (int64_t i = 0; i < n; i++) {
        const double *x = a->x + i * c;
        double max = x[largest(x, c)], sum = exp_sum(x, c, max);
        for (int64_t k = 0; k < c; k++) a->dx[i * c + k] = exp(x[k] - max) / sum - (k == a->labels[i]);
    }
}

const ls_ref_op ls__ref_softmax_cross_entropy = {
    .kind = LS_OP_SOFTMAX_CROSS_ENTROPY,
    .forward = forward,
    .backward_data = backward_data,
    .backward_data_needs_x = 1,
};
