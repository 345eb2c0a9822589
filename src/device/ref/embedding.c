// A row of w (rows, width) for each whole number of x.
#include <string.h>

#include "base/error.h"
#include "device/ref/ref.h"

static int64_t width_of(const ls_ref_args *a) { return a->spec->w[0].shape.dim[1]; }

static ls_status check(const ls_ref_args *a) {
    int64_t rows = a->spec->w[0].shape.dim[0];
    for (int64_t i = 0; i < ls_shape_count(a->spec->x[0].shape); i++)
        if (!(a->x[0][i] >= 0 && a->x[0][i] < (double)rows))
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "an embedding of %lld rows has none of number %.0f",
                           (long long)rows, a->x[0][i]);
    return LS_OK;
}

static void forward(const ls_ref_args *a) {
    for (int64_t i = 0, width = width_of(a); i < ls_shape_count(a->spec->x[0].shape); i++)
        memcpy(a->y[0] + i * width, a->w[0] + (int64_t)a->x[0][i] * width, (size_t)width * sizeof *a->y[0]);
}

static void backward_weights(const ls_ref_args *a) {
    memset(a->dw[0], 0, (size_t)ls_shape_count(a->spec->w[0].shape) * sizeof *a->dw[0]);
    for (int64_t i = 0, width = width_of(a); i < ls_shape_count(a->spec->x[0].shape); i++)
        for (int64_t c = 0; c < width; c++) a->dw[0][(int64_t)a->x[0][i] * width + c] += a->dy[0][i * width + c];
}

const ls_ref_op ls__ref_embedding = {
    .kind = LS_OP_EMBEDDING,
    .forward = forward,
    .backward_weights = backward_weights,
    .check = check,
};
