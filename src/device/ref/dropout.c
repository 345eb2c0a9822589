#include "device/dropout.h"

#include "device/ref/ref.h"

// to = from times 0 or the scale, in any shape (N, ...).
static void apply(const ls_ref_args *a, const double *from, double *to) {
    int64_t n = a->spec->x[0].shape.dim[0], size = ls_shape_count(a->spec->x[0].shape) / n;
    const ls_dropout_attrs *attrs = LS_ATTRS(ls_dropout_attrs, &a->spec->attrs);
    for (int64_t i = 0; i < n; i++)
        for (int64_t e = 0; e < size; e++) {
            int64_t drawn = attrs->per_sample ? 0 : e;
            ls_philox4 r = ls_dropout_words(a->random, attrs->layer, i, (uint32_t)(drawn / 4));
            int keep = r.v[drawn % 4] >= ls_dropout_threshold(attrs->rate);
            to[i * size + e] = keep ? from[i * size + e] * ls_dropout_scale(attrs->rate) : 0;
        }
}

static void forward(const ls_ref_args *a) {
    if (a->spec->pass == LS_PASS_TRAINING) {
        apply(a, a->x[0], a->y[0]);
    } else {
        int64_t count = ls_shape_count(a->spec->x[0].shape);
        for (int64_t i = 0; i < count; i++) a->y[0][i] = a->x[0][i];
    }
}

static void backward_data(const ls_ref_args *a) { apply(a, a->dy[0], a->dx[0]); }

const ls_ref_op ls__ref_dropout = {.kind = LS_OP_DROPOUT, .forward = forward, .backward_data = backward_data};
