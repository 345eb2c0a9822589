// Batch normalization over all but the last dimension, x (rows, C). Backward computes the statistics again, so nothing is
// kept. Source: Ioffe and Szegedy, "Batch normalization: accelerating deep network training by reducing internal covariate
// shift", ICML 2015, section 3.
#include <math.h>

#include "device/ref/ref.h"

typedef struct channel {
    int64_t rows, stride, samples;
    double gamma, mean, variance, deviation;
} channel;

// The place of beta among the parameters, of which gamma is the first or is not there.
static int beta_of(const ls_kernel_spec *s) { return LS_ATTRS(ls_batch_norm_attrs, &s->attrs)->no_scale ? 0 : 1; }

// The statistics of channel c: the micro-batch's own, or in inference the running ones.
static channel channel_of(const ls_ref_args *a, int64_t c) {
    ls_shape x = a->spec->x[0].shape;
    channel s = {.stride = x.dim[x.ndim - 1], .samples = x.dim[0]};
    int beta = beta_of(a->spec);
    s.rows = ls_shape_count(x) / s.stride;
    s.gamma = beta ? a->w[0][c] : 1;
    if (a->spec->pass == LS_PASS_INFERENCE) {
        s.mean = a->w[beta + 1][c];
        s.variance = a->w[beta + 2][c];
    } else {
        for (int64_t i = 0; i < s.rows; i++) s.mean += a->x[0][i * s.stride + c] / (double)s.rows;
        for (int64_t i = 0; i < s.rows; i++) {
            double from_mean = a->x[0][i * s.stride + c] - s.mean;
            s.variance += from_mean * from_mean / (double)s.rows;
        }
    }
    s.deviation = sqrt(s.variance + (double)LS_ATTRS(ls_batch_norm_attrs, &a->spec->attrs)->epsilon);
    return s;
}

// Before what is absorbed.
static double normalized(const ls_ref_args *a, const channel *s, int64_t c, int64_t at) {
    return s->gamma * (a->x[0][at] - s->mean) / s->deviation + a->w[beta_of(a->spec)][c];
}

static void forward(const ls_ref_args *a) {
    int64_t channels = a->spec->x[0].shape.dim[a->spec->x[0].shape.ndim - 1];
    for (int64_t c = 0; c < channels; c++) {
        channel s = channel_of(a, c);
        for (int64_t i = 0; i < s.rows; i++) a->y[0][i * s.stride + c] = normalized(a, &s, c, i * s.stride + c);
    }
}

// The gradient before the ReLU at the end, if there is one: what was added before it is in Y alone.
static double gradient_at(const ls_ref_args *a, const channel *s, int64_t c, int64_t at) {
    if (a->spec->activation == LS_ACTIVATION_NONE) return a->dy[0][at];
    double y = a->spec->residual ? a->y[0][at] : normalized(a, s, c, at);
    if (a->spec->activation == LS_ACTIVATION_RELU6 && y >= 6) return 0;
    return y > 0 ? a->dy[0][at] : 0;
}

static void backward(const ls_ref_args *a) {
    int64_t channels = a->spec->x[0].shape.dim[a->spec->x[0].shape.ndim - 1];
    for (int64_t c = 0; c < channels; c++) {
        channel s = channel_of(a, c);
        double db = 0, dw = 0;
        for (int64_t i = 0; i < s.rows; i++) {
            int64_t at = i * s.stride + c;
            double d = gradient_at(a, &s, c, at);
            db += d;
            dw += d * (a->x[0][at] - s.mean) / s.deviation;
            if (a->dresidual) a->dresidual[at] = d;
        }
        for (int64_t i = 0; i < s.rows; i++) {
            int64_t at = i * s.stride + c;
            double d = gradient_at(a, &s, c, at), normalized = (a->x[0][at] - s.mean) / s.deviation;
            a->dx[0][at] = s.gamma / s.deviation * (d - db / (double)s.rows - normalized * dw / (double)s.rows);
        }
        int beta = beta_of(a->spec);
        if (beta) a->dw[0][c] = dw;
        a->dw[beta][c] = db;
        a->dw[beta + 1][c] = (double)s.samples * s.mean;
        a->dw[beta + 2][c] = (double)s.samples * s.variance;
    }
}

// Running statistics are of inference only; Y is looked at where the residual hides whether the ReLU let pass.
static int uses(const ls_kernel_spec *s, int arg, int by_rule) {
    int mean = LS_ARG_W + beta_of(s) + 1;
    if (arg == mean || arg == mean + 1) return s->pass == LS_PASS_INFERENCE;
    if (arg == LS_ARG_Y && s->pass == LS_PASS_BACKWARD) return s->residual && s->activation == LS_ACTIVATION_RELU;
    return by_rule;
}

const ls_ref_op ls__ref_batch_norm = {
    .kind = LS_OP_BATCH_NORM,
    .forward = forward,
    .backward = backward,
    .backward_reads = LS_REF_READS_X | LS_REF_READS_W,
    .uses = uses,
};
