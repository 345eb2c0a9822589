// The arithmetic that convolutions have in common: they differ in which elements of x, y and the kernel meet.
#include <string.h>

#include "device/ref/ref.h"

static void add_product(const ls_ref_args *a, int64_t x, int64_t y, int64_t w) {
    a->y[0][y] += a->x[0][x] * a->w[0][w];
}
static void add_to_dx(const ls_ref_args *a, int64_t x, int64_t y, int64_t w) {
    a->dx[0][x] += a->dy[0][y] * a->w[0][w];
}
static void add_to_dw(const ls_ref_args *a, int64_t x, int64_t y, int64_t w) {
    a->dw[0][w] += a->x[0][x] * a->dy[0][y];
}

static void zero(double *values, ls_shape shape) { memset(values, 0, (size_t)ls_shape_count(shape) * sizeof *values); }

static int64_t filters_of(ls_shape y) { return y.dim[y.ndim - 1]; }

void ls__ref_taps_forward(const ls_ref_args *a, ls_ref_visit visit) {
    ls_shape y = a->spec->y[0].shape;
    for (int64_t i = 0; i < ls_shape_count(y); i++) a->y[0][i] = a->w[1] ? a->w[1][i % filters_of(y)] : 0;
    visit(a, add_product);
}

void ls__ref_taps_backward_data(const ls_ref_args *a, ls_ref_visit visit) {
    zero(a->dx[0], a->spec->x[0].shape);
    visit(a, add_to_dx);
}

void ls__ref_taps_backward_weights(const ls_ref_args *a, ls_ref_visit visit) {
    ls_shape y = a->spec->y[0].shape;
    zero(a->dw[0], a->spec->w[0].shape);
    visit(a, add_to_dw);
    if (!a->dw[1]) return;
    zero(a->dw[1], a->spec->w[1].shape);
    for (int64_t i = 0; i < ls_shape_count(y); i++) a->dw[1][i % filters_of(y)] += a->dy[0][i];
}
