// Activations. The backward of those that flatten out is told by Y, of the others by X.
#include <math.h>

#include "device/ref/ref.h"

static ls_activation which(const ls_kernel_spec *spec) {
    return LS_ATTRS(ls_activation_attrs, &spec->attrs)->activation;
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static double normal_below(double x) { return 0.5 * erfc(-x / sqrt(2)); }

static double normal_density(double x) { return exp(-x * x / 2) / sqrt(2 * acos(-1)); }

static void softmax(const double *x, double *y, int64_t count) {
    double largest = x[0], sum = 0;
    for (int64_t i = 1; i < count; i++) largest = x[i] > largest ? x[i] : largest;
    for (int64_t i = 0; i < count; i++) sum += y[i] = exp(x[i] - largest);
    for (int64_t i = 0; i < count; i++) y[i] /= sum;
}

static void softmax_backward(const double *y, const double *dy, double *dx, int64_t count) {
    double dot = 0;
    for (int64_t i = 0; i < count; i++) dot += y[i] * dy[i];
    for (int64_t i = 0; i < count; i++) dx[i] = y[i] * (dy[i] - dot);
}

static double value(ls_activation activation, double x) {
    switch (activation) {
    case LS_ACTIVATION_RELU: return x > 0 ? x : 0;
    case LS_ACTIVATION_RELU6: return x > 0 ? fmin(x, 6) : 0;
    case LS_ACTIVATION_SIGMOID: return sigmoid(x);
    case LS_ACTIVATION_TANH: return tanh(x);
    case LS_ACTIVATION_GELU: return x * normal_below(x);
    case LS_ACTIVATION_SILU: return x * sigmoid(x);
    case LS_ACTIVATION_SOFTMAX:  // of a row
    case LS_ACTIVATION_NONE: break;
    }
    return x;
}

// x or y: whichever `uses` says is there.
static double slope(ls_activation activation, const double *x, const double *y, int64_t i) {
    switch (activation) {
    case LS_ACTIVATION_RELU: return x[i] > 0;
    case LS_ACTIVATION_RELU6: return y[i] > 0 && y[i] < 6;
    case LS_ACTIVATION_SIGMOID: return y[i] * (1 - y[i]);
    case LS_ACTIVATION_TANH: return 1 - y[i] * y[i];
    case LS_ACTIVATION_GELU: return normal_below(x[i]) + x[i] * normal_density(x[i]);
    case LS_ACTIVATION_SILU: return sigmoid(x[i]) * (1 + x[i] * (1 - sigmoid(x[i])));
    case LS_ACTIVATION_SOFTMAX:
    case LS_ACTIVATION_NONE: break;
    }
    return 1;
}

static void forward(const ls_ref_args *a) {
    ls_shape s = a->spec->x[0].shape;
    int64_t count = ls_shape_count(s), row = s.dim[s.ndim - 1];
    ls_activation activation = which(a->spec);
    if (activation == LS_ACTIVATION_SOFTMAX)
        for (int64_t i = 0; i < count; i += row) softmax(a->x[0] + i, a->y[0] + i, row);
    else
        for (int64_t i = 0; i < count; i++) a->y[0][i] = value(activation, a->x[0][i]);
}

static void backward_data(const ls_ref_args *a) {
    ls_shape s = a->spec->x[0].shape;
    int64_t count = ls_shape_count(s), row = s.dim[s.ndim - 1];
    ls_activation activation = which(a->spec);
    if (activation == LS_ACTIVATION_SOFTMAX)
        for (int64_t i = 0; i < count; i += row) softmax_backward(a->y[0] + i, a->dy[0] + i, a->dx[0] + i, row);
    else
        for (int64_t i = 0; i < count; i++) a->dx[0][i] = a->dy[0][i] * slope(activation, a->x[0], a->y[0], i);
}

static int uses(const ls_kernel_spec *s, int arg, int by_rule) {
    ls_activation activation = which(s);
    int by_output = activation == LS_ACTIVATION_SIGMOID || activation == LS_ACTIVATION_TANH ||
                    activation == LS_ACTIVATION_SOFTMAX || activation == LS_ACTIVATION_RELU6;
    if (s->pass == LS_PASS_BACKWARD_DATA && arg == LS_ARG_X) return !by_output || s->mask_dx;
    if (s->pass == LS_PASS_BACKWARD_DATA && arg == LS_ARG_Y) return by_output;
    return by_rule;
}

const ls_ref_op ls__ref_activation = {
    .kind = LS_OP_ACTIVATION,
    .forward = forward,
    .backward_data = backward_data,
    .backward_reads = LS_REF_READS_X | LS_REF_READS_Y,
    .uses = uses,
};
