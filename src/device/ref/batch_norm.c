// Batch normalization over all but the last dimension, x (rows, C). Backward computes the statistics again, so nothing is
// kept. Source: Ioffe and Szegedy, "Batch normalization: accelerating deep network training by reducing internal covariate
// shift", ICML 2015, section 3.
#include <math.h>

#include "device/ref/ref.h"

typedef struct channel {
    int64_t rows, stride, samples;
    double mean, variance, deviation;
} channel;

// The statistics of channel c: the micro-batch's own, or in inference the running ones.
static channel channel_of(const ls_ref_args *a, int64_t c) {
    ls_shape x = a->spec->x;
    channel s = {.stride = x.dim[x.ndim - 1], .samples = x.dim[0]};
    s.rows = ls_shape_count(x) / s.stride;
    if (a->spec->pass == LS_PASS_INFERENCE) {
        s.mean = a->mean[c];
        s.variance = a->variance[c];
    } else {
        for (int64_t i = 0; i < s.rows; i++) s.mean += a->x[i * s.stride + c] / (double)s.rows;
        for (int64_t i = 0; i < s.rows; i++) {
            double from_mean = a->x[i * s.stride + c] - s.mean;
            s.variance += from_mean * from_mean / (double)s.rows;
        }
    }
    s.deviation = sqrt(s.variance + a->spec->attrs.epsilon);
    return s;
}

static void forward(const ls_ref_args *a) {
    int64_t channels = a->spec->x.dim[a->spec->x.ndim - 1];
    for (int64_t c = 0; c < channels; c++) {
        channel s = channel_of(a, c);
        for (int64_t i = 0; i < s.rows; i++)
            a->y[i * s.stride + c] = a->w[c] * (a->x[i * s.stride + c] - s.mean) / s.deviation + a->b[c];
    }
}

// The gradient before the ReLU at the end, if there is one: what was added before it is in Y alone.
static double gradient_at(const ls_ref_args *a, const channel *s, int64_t c, int64_t at) {
    if (a->spec->attrs.activation != LS_ACTIVATION_RELU) return a->dy[at];
    double y = a->spec->residual ? a->y[at] : a->w[c] * (a->x[at] - s->mean) / s->deviation + a->b[c];
    return y > 0 ? a->dy[at] : 0;
}

static void backward_data(const ls_ref_args *a) {
    int64_t channels = a->spec->x.dim[a->spec->x.ndim - 1];
    for (int64_t c = 0; c < channels; c++) {
        channel s = channel_of(a, c);
        double db = 0, dw = 0;
        for (int64_t i = 0; i < s.rows; i++) {
            int64_t at = i * s.stride + c;
            double d = gradient_at(a, &s, c, at);
            db += d;
            dw += d * (a->x[at] - s.mean) / s.deviation;
            if (a->dx2) a->dx2[at] = d;
        }
        for (int64_t i = 0; i < s.rows; i++) {
            int64_t at = i * s.stride + c;
            double d = gradient_at(a, &s, c, at), normalized = (a->x[at] - s.mean) / s.deviation;
            a->dx[at] = a->w[c] / s.deviation * (d - db / (double)s.rows - normalized * dw / (double)s.rows);
        }
        a->dw[c] = dw;
        a->db[c] = db;
        a->dmean[c] = (double)s.samples * s.mean;
        a->dvariance[c] = (double)s.samples * s.variance;
    }
}

const ls_ref_op ls__ref_batch_norm = {
    .kind = LS_OP_BATCH_NORM,
    .forward = forward,
    .backward_data = backward_data,
    .backward_data_needs_x = 1,
};
