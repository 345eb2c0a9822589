// Row t of w (rows, C) added to position t of x (N, T, C).
#include <string.h>

#include "device/ref/ref.h"

static void forward(const ls_ref_args *a) {
    ls_shape x = a->spec->x[0].shape;
    int64_t sample = x.dim[1] * x.dim[2];
    for (int64_t i = 0; i < ls_shape_count(x); i++) a->y[0][i] = a->x[0][i] + a->w[0][i % sample];
}

static void backward(const ls_ref_args *a) {
    ls_shape x = a->spec->x[0].shape;
    int64_t sample = x.dim[1] * x.dim[2];
    memset(a->dw[0], 0, (size_t)ls_shape_count(a->spec->w[0].shape) * sizeof *a->dw[0]);
    for (int64_t i = 0; i < ls_shape_count(x); i++) {
        a->dx[0][i] = a->dy[0][i];
        a->dw[0][i % sample] += a->dy[0][i];
    }
}

const ls_ref_op ls__ref_position_embedding = {
    .kind = LS_OP_POSITION_EMBEDDING,
    .forward = forward,
    .backward = backward,
};
