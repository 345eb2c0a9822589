#include <string.h>

#include "device/ref/ref.h"

// x (N, C), w (C, U), y (N, U); of sequences N is that of all vectors.

typedef struct sizes {
    int64_t n, c, u;
} sizes;

static sizes sizes_of(const ls_ref_args *a) {
    const int64_t *w = a->spec->w[0].shape.dim;
    return (sizes){ls_shape_count(a->spec->x[0].shape) / w[0], w[0], w[1]};
}

static void forward(const ls_ref_args *a) {
    sizes s = sizes_of(a);
    int64_t n = s.n, c = s.c, u = s.u;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < u; k++) a->y[0][i * u + k] = a->w[1] ? a->w[1][k] : 0;
        for (int64_t j = 0; j < c; j++)
            for (int64_t k = 0; k < u; k++) a->y[0][i * u + k] += a->x[0][i * c + j] * a->w[0][j * u + k];
    }
}

static void backward_data(const ls_ref_args *a) {
    sizes s = sizes_of(a);
    int64_t n = s.n, c = s.c, u = s.u;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < c; j++) {
            double sum = 0;
            for (int64_t k = 0; k < u; k++) sum += a->dy[0][i * u + k] * a->w[0][j * u + k];
            a->dx[0][i * c + j] = sum;
        }
}

static void backward_weights(const ls_ref_args *a) {
    sizes s = sizes_of(a);
    int64_t n = s.n, c = s.c, u = s.u;
    memset(a->dw[0], 0, (size_t)(c * u) * sizeof *a->dw[0]);
    if (a->dw[1]) memset(a->dw[1], 0, (size_t)u * sizeof *a->dw[1]);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < c; j++)
            for (int64_t k = 0; k < u; k++) a->dw[0][j * u + k] += a->x[0][i * c + j] * a->dy[0][i * u + k];
        for (int64_t k = 0; a->dw[1] && k < u; k++) a->dw[1][k] += a->dy[0][i * u + k];
    }
}

const ls_ref_op ls__ref_dense = {
    .kind = LS_OP_DENSE,
    .forward = forward,
    .backward_data = backward_data,
    .backward_weights = backward_weights,
    .backward_reads = LS_REF_READS_W,
};
