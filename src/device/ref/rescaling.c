#include "device/ref/ref.h"

static void forward(const ls_ref_args *a) {
    const ls_rescaling_attrs *r = LS_ATTRS(ls_rescaling_attrs, &a->spec->attrs);
    int64_t count = ls_shape_count(a->spec->x[0].shape);
    for (int64_t i = 0; i < count; i++) a->y[0][i] = a->x[0][i] * r->scale + r->offset;
}

static void backward_data(const ls_ref_args *a) {
    const ls_rescaling_attrs *r = LS_ATTRS(ls_rescaling_attrs, &a->spec->attrs);
    int64_t count = ls_shape_count(a->spec->x[0].shape);
    for (int64_t i = 0; i < count; i++) a->dx[0][i] = a->dy[0][i] * r->scale;
}

const ls_ref_op ls__ref_rescaling = {.kind = LS_OP_RESCALING, .forward = forward, .backward_data = backward_data};
