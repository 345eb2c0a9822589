// Values one behind the other along an axis: rows of Y are rows of the inputs, one after the other.
#include <string.h>

#include "device/ref/ref.h"

// Elements from the axis on.
static int64_t row(const ls_kernel_spec *s, ls_shape shape) {
    int64_t count = 1;
    for (int d = LS_ATTRS(ls_concat_attrs, &s->attrs)->axis; d < shape.ndim; d++) count *= shape.dim[d];
    return count;
}

// The part of Y that is input k's, into `to` or out of `from`.
static void copy(const ls_ref_args *a, int k, const double *from, double *to, int forward) {
    const ls_kernel_spec *s = a->spec;
    int64_t all = row(s, s->y[0].shape), mine = row(s, s->x[k].shape), before = 0;
    for (int j = 0; j < k; j++) before += row(s, s->x[j].shape);
    for (int64_t i = 0; i < ls_shape_count(s->y[0].shape) / all; i++)
        memcpy(to + (forward ? i * all + before : i * mine), from + (forward ? i * mine : i * all + before),
               (size_t)mine * sizeof *to);
}

static void forward(const ls_ref_args *a) {
    for (int k = 0; k < a->spec->x_count; k++) copy(a, k, a->x[k], a->y[0], 1);
}

static void backward_data(const ls_ref_args *a) {
    for (int k = 0; k < a->spec->x_count; k++)
        if (a->dx[k]) copy(a, k, a->dy[0], a->dx[k], 0);
}

const ls_ref_op ls__ref_concat = {.kind = LS_OP_CONCAT, .forward = forward, .backward_data = backward_data};
