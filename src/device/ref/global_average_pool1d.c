// The mean over a sequence, x (N, T, C) to y (N, C).
#include "device/ref/ref.h"

static void forward(const ls_ref_args *a) {
    const int64_t *x = a->spec->x[0].shape.dim;
    for (int64_t i = 0; i < x[0] * x[2]; i++) {
        double sum = 0;
        for (int64_t t = 0; t < x[1]; t++) sum += a->x[0][(i / x[2] * x[1] + t) * x[2] + i % x[2]];
        a->y[0][i] = sum / (double)x[1];
    }
}

static void backward_data(const ls_ref_args *a) {
    const int64_t *x = a->spec->x[0].shape.dim;
    for (int64_t i = 0; i < x[0] * x[2]; i++)
        for (int64_t t = 0; t < x[1]; t++)
            a->dx[0][(i / x[2] * x[1] + t) * x[2] + i % x[2]] = a->dy[0][i] / (double)x[1];
}

const ls_ref_op ls__ref_global_average_pool1d = {
    .kind = LS_OP_GLOBAL_AVERAGE_POOL1D,
    .forward = forward,
    .backward_data = backward_data,
};
