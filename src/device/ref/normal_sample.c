// mean + exp(log variance / 2) * noise, the channels of a row being its means and then its log variances.
#include <math.h>

#include "device/ref/ref.h"

static int64_t channels(const ls_ref_args *a) {
    ls_shape noise = a->spec->x[1].shape;
    return noise.dim[noise.ndim - 1];
}

static void forward(const ls_ref_args *a) {
    int64_t c = channels(a), count = ls_shape_count(a->spec->x[1].shape);
    for (int64_t i = 0; i < count; i++) {
        const double *row = a->x[0] + i / c * 2 * c;
        a->y[0][i] = row[i % c] + exp(row[c + i % c] / 2) * a->x[1][i];
    }
}

static void backward_data(const ls_ref_args *a) {
    int64_t c = channels(a), count = ls_shape_count(a->spec->x[1].shape);
    for (int64_t i = 0; i < count; i++) {
        const double *row = a->x[0] + i / c * 2 * c;
        double *drow = a->dx[0] + i / c * 2 * c, deviation = exp(row[c + i % c] / 2);
        drow[i % c] = a->dy[0][i];
        drow[c + i % c] = a->dy[0][i] * a->x[1][i] * deviation / 2;
        a->dx[1][i] = a->dy[0][i] * deviation;
    }
}

const ls_ref_op ls__ref_normal_sample = {
    .kind = LS_OP_NORMAL_SAMPLE,
    .forward = forward,
    .backward_data = backward_data,
    .backward_reads = LS_REF_READS_X,
};
