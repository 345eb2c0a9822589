// The loss of a sample is the mean over its elements, logits x with targets t, of -p t log(s(x)) - (1 - t) log(1 - s(x)), with
// the sigmoid s and the positive weight p; times the weight. log(s(x)) = -log(1 + exp(-x)) is formed from exp(-|x|), which no x
// makes too large, and log(1 - s(x)) = log(s(x)) - x.
#include <math.h>

#include "device/ref/ref.h"

static const ls_loss_attrs *attrs_of(const ls_ref_args *a) { return LS_ATTRS(ls_loss_attrs, &a->spec->attrs); }

static int64_t elements(const ls_ref_args *a) {
    return ls_shape_count(a->spec->x[0].shape) / a->spec->x[0].shape.dim[0];
}

static double target(const ls_ref_args *a, int64_t i) {
    double smoothing = a->spec->pass == LS_PASS_INFERENCE ? 0 : attrs_of(a)->label_smoothing;
    return (1 - smoothing) * a->x[1][i] + smoothing / 2;
}

static void forward(const ls_ref_args *a) {
    int64_t n = a->spec->x[0].shape.dim[0], c = elements(a);
    double loss = 0, p = attrs_of(a)->positive_weight;
    for (int64_t i = 0; i < n * c; i++) {
        double x = a->x[0][i], t = target(a, i), log_sigmoid = fmin(x, 0) - log1p(exp(-fabs(x)));
        loss += -p * t * log_sigmoid - (1 - t) * (log_sigmoid - x);
    }
    a->y[0][0] = loss * attrs_of(a)->weight / (double)c;
}

// (1 - t) s(x) - p t (1 - s(x)).
static void backward_data(const ls_ref_args *a) {
    int64_t n = a->spec->x[0].shape.dim[0], c = elements(a);
    double p = attrs_of(a)->positive_weight;
    for (int64_t i = 0; i < n * c; i++) {
        double x = a->x[0][i], t = target(a, i), e = exp(-fabs(x));
        double sigmoid = (x > 0 ? 1 : e) / (1 + e), rest = (x > 0 ? e : 1) / (1 + e);
        a->dx[0][i] = ((1 - t) * sigmoid - p * t * rest) * attrs_of(a)->weight / (double)c;
    }
}

const ls_ref_op ls__ref_binary_cross_entropy = {
    .kind = LS_OP_BINARY_CROSS_ENTROPY,
    .forward = forward,
    .backward_data = backward_data,
    .backward_reads = LS_REF_READS_X,
    .seeds_gradient = 1,
};
