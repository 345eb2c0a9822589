#include <string.h>

#include "device/ref/ref.h"

// x (N, C), w (C, U), y (N, U).

static void forward(const ls_ref_args *a) {
    int64_t n = a->spec->x.dim[0], c = a->spec->x.dim[1], u = a->spec->y.dim[1];
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < u; k++) a->y[i * u + k] = a->b ? a->b[k] : 0;
        for (int64_t j = 0; j < c; j++)
            for (int64_t k = 0; k < u; k++) a->y[i * u + k] += a->x[i * c + j] * a->w[j * u + k];
    }
}

static void backward_data(const ls_ref_args *a) {
    int64_t n = a->spec->x.dim[0], c = a->spec->x.dim[1], u = a->spec->y.dim[1];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < c; j++) {
            double sum = 0;
            for (int64_t k = 0; k < u; k++) sum += a->dy[i * u + k] * a->w[j * u + k];
            a->dx[i * c + j] = sum;
        }
}

static void backward_weights(const ls_ref_args *a) {
    int64_t n = a->spec->x.dim[0], c = a->spec->x.dim[1], u = a->spec->y.dim[1];
    memset(a->dw, 0, (size_t)(c * u) * sizeof *a->dw);
    if (a->db) memset(a->db, 0, (size_t)u * sizeof *a->db);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < c; j++)
            for (int64_t k = 0; k < u; k++) a->dw[j * u + k] += a->x[i * c + j] * a->dy[i * u + k];
        for (int64_t k = 0; a->db && k < u; k++) a->db[k] += a->dy[i * u + k];
    }
}

const ls_ref_op ls__ref_dense = {
    .kind = LS_OP_DENSE,
    .forward = forward,
    .backward_data = backward_data,
    .backward_weights = backward_weights,
};
