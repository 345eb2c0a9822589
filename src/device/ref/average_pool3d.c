// Average pooling of volumes. Padding does not count.
#include <string.h>

#include "device/ref/ref.h"

static ls_ref_volume window_of(const ls_ref_args *a) {
    const ls_pool3d_attrs *p = LS_ATTRS(ls_pool3d_attrs, &a->spec->attrs);
    return ls__ref_volume(a->spec->x[0].shape, a->spec->y[0].shape, p->size, p->strides, NULL, p->pad);
}

// Visits every position of y with every position of x that is under its window, and its share in the mean.
static void visit(const ls_ref_args *a, void (*at)(const ls_ref_args *a, int64_t x, int64_t y, double share)) {
    ls_ref_volume g = window_of(a);
    for (int64_t p = 0; p < g.n * g.outs; p++) {
        int64_t count = 0;
        for (int64_t tap = 0; tap < g.taps; tap++) count += ls__ref_voxel(&g, 0, p % g.outs, tap) >= 0;
        for (int64_t tap = 0; tap < g.taps; tap++) {
            int64_t x = ls__ref_voxel(&g, p / g.outs, p % g.outs, tap);
            for (int64_t c = 0; x >= 0 && c < g.c; c++) at(a, x + c, p * g.c + c, 1.0 / (double)count);
        }
    }
}

static void add(const ls_ref_args *a, int64_t x, int64_t y, double share) { a->y[0][y] += a->x[0][x] * share; }
static void add_to_dx(const ls_ref_args *a, int64_t x, int64_t y, double share) { a->dx[0][x] += a->dy[0][y] * share; }

static void forward(const ls_ref_args *a) {
    memset(a->y[0], 0, (size_t)ls_shape_count(a->spec->y[0].shape) * sizeof *a->y[0]);
    visit(a, add);
}

static void backward_data(const ls_ref_args *a) {
    memset(a->dx[0], 0, (size_t)ls_shape_count(a->spec->x[0].shape) * sizeof *a->dx[0]);
    visit(a, add_to_dx);
}

const ls_ref_op ls__ref_average_pool3d = {
    .kind = LS_OP_AVERAGE_POOL3D,
    .forward = forward,
    .backward_data = backward_data,
};
