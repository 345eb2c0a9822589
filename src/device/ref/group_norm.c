// Group normalization, x (N, S, C): over the S pixels and the neighbouring channels of a group of one sample. Backward computes the statistics
// again. Source: Wu and He, "Group normalization", 2018; with groups of one channel Ulyanov, Vedaldi and Lempitsky, "Instance normalization", 2016.
#include <math.h>
#include <string.h>

#include "device/ref/ref.h"

typedef struct sizes {
    int64_t samples, pixels, channels, groups, wide;  // wide: channels of a group
    double epsilon;
} sizes;

static sizes sizes_of(const ls_ref_args *a) {
    const ls_group_norm_attrs *attrs = LS_ATTRS(ls_group_norm_attrs, &a->spec->attrs);
    ls_shape x = a->spec->x[0].shape;
    sizes s = {.samples = x.dim[0], .channels = x.dim[x.ndim - 1], .epsilon = (double)attrs->epsilon};
    s.pixels = ls_shape_count(x) / s.samples / s.channels;
    s.groups = attrs->groups < 0 ? s.channels : attrs->groups;
    s.wide = s.channels / s.groups;
    return s;
}

typedef struct statistics {
    double mean, deviation;
} statistics;

// Of the group whose first element of the first pixel is x.
static statistics statistics_of(const sizes *s, const double *x) {
    double mean = 0, variance = 0, count = (double)(s->pixels * s->wide);
    for (int64_t p = 0; p < s->pixels; p++)
        for (int64_t c = 0; c < s->wide; c++) mean += x[p * s->channels + c] / count;
    for (int64_t p = 0; p < s->pixels; p++)
        for (int64_t c = 0; c < s->wide; c++) {
            double far = x[p * s->channels + c] - mean;
            variance += far * far / count;
        }
    return (statistics){mean, sqrt(variance + s->epsilon)};
}

static int64_t group_at(const sizes *s, int64_t n, int64_t g) { return n * s->pixels * s->channels + g * s->wide; }

static void forward(const ls_ref_args *a) {
    sizes s = sizes_of(a);
    for (int64_t n = 0; n < s.samples; n++)
        for (int64_t g = 0; g < s.groups; g++) {
            const double *x = a->x[0] + group_at(&s, n, g), *gamma = a->w[0] + g * s.wide, *beta = a->w[1] + g * s.wide;
            double *y = a->y[0] + group_at(&s, n, g);
            statistics t = statistics_of(&s, x);
            for (int64_t p = 0; p < s.pixels; p++)
                for (int64_t c = 0; c < s.wide; c++) {
                    int64_t i = p * s.channels + c;
                    y[i] = gamma[c] * (x[i] - t.mean) / t.deviation + beta[c];
                }
        }
}

// Of one group of one sample; its channels' gradients of gamma and beta are added to.
static void backward_group(const sizes *s, const double *x, const double *dy, const double *gamma, double *dx,
                           double *dgamma, double *dbeta) {
    statistics t = statistics_of(s, x);
    double sum = 0, dot = 0, count = (double)(s->pixels * s->wide);
    for (int64_t p = 0; p < s->pixels; p++)
        for (int64_t c = 0; c < s->wide; c++) {
            int64_t i = p * s->channels + c;
            double normalized = (x[i] - t.mean) / t.deviation;
            dgamma[c] += dy[i] * normalized;
            dbeta[c] += dy[i];
            sum += dy[i] * gamma[c];
            dot += dy[i] * gamma[c] * normalized;
        }
    for (int64_t p = 0; p < s->pixels; p++)
        for (int64_t c = 0; c < s->wide; c++) {
            int64_t i = p * s->channels + c;
            double normalized = (x[i] - t.mean) / t.deviation;
            dx[i] = (dy[i] * gamma[c] - sum / count - normalized * dot / count) / t.deviation;
        }
}

static void backward(const ls_ref_args *a) {
    sizes s = sizes_of(a);
    memset(a->dw[0], 0, (size_t)s.channels * sizeof *a->dw[0]);
    memset(a->dw[1], 0, (size_t)s.channels * sizeof *a->dw[1]);
    for (int64_t n = 0; n < s.samples; n++)
        for (int64_t g = 0; g < s.groups; g++) {
            int64_t at = group_at(&s, n, g), first = g * s.wide;
            backward_group(&s, a->x[0] + at, a->dy[0] + at, a->w[0] + first, a->dx[0] + at, a->dw[0] + first,
                           a->dw[1] + first);
        }
}

const ls_ref_op ls__ref_group_norm = {
    .kind = LS_OP_GROUP_NORM,
    .forward = forward,
    .backward = backward,
    .backward_reads = LS_REF_READS_X | LS_REF_READS_W,
};
