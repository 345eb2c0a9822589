// The product of two tensors, element by element. Of a second one that has a value for each channel of a sample, that of the channel.
#include <string.h>

#include "device/ref/ref.h"

// Where element i of the first finds its factor in the second.
static int64_t second_at(const ls_kernel_spec *s, int64_t i) {
    ls_shape x = s->x[0].shape;
    if (ls_shape_equal(x, s->x[1].shape)) return i;
    int64_t channels = x.dim[x.ndim - 1], per_sample = ls_shape_count(x) / x.dim[0];
    return i / per_sample * channels + i % channels;
}

static void forward(const ls_ref_args *a) {
    int64_t count = ls_shape_count(a->spec->x[0].shape);
    for (int64_t i = 0; i < count; i++) a->y[0][i] = a->x[0][i] * a->x[1][second_at(a->spec, i)];
}

static void backward_data(const ls_ref_args *a) {
    int64_t count = ls_shape_count(a->spec->x[0].shape);
    memset(a->dx[1], 0, (size_t)ls_shape_count(a->spec->x[1].shape) * sizeof *a->dx[1]);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = second_at(a->spec, i);
        a->dx[0][i] = a->dy[0][i] * a->x[1][at];
        a->dx[1][at] += a->dy[0][i] * a->x[0][i];
    }
}

const ls_ref_op ls__ref_multiply = {
    .kind = LS_OP_MULTIPLY,
    .forward = forward,
    .backward_data = backward_data,
    .backward_reads = LS_REF_READS_X,
};
