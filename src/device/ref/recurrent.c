#include "device/ref/recurrent.h"

#include <string.h>

ls_ref_recurrent ls__ref_recurrent(const ls_kernel_spec *spec) {
    const ls_recurrent_attrs *attrs = LS_ATTRS(ls_recurrent_attrs, &spec->attrs);
    const int64_t *x = spec->x[0].shape.dim;
    return (ls_ref_recurrent){.n = x[0],
                              .t = x[1],
                              .c = x[2],
                              .u = attrs->units,
                              .products = spec->w[0].shape.dim[1],
                              .backwards = attrs->backwards,
                              .sequences = attrs->return_sequences};
}

int ls__ref_counts(const ls_ref_args *a, const ls_ref_recurrent *g, int64_t n, int64_t at) {
    return !a->x[1] || a->x[1][n * g->t + at] != 0;
}

void ls__ref_add_product(const double *x, int64_t rows, const double *w, int64_t columns, double *y) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < columns; k++) y[k] += x[i] * w[i * columns + k];
}

void ls__ref_add_transposed(const double *y, int64_t columns, const double *w, int64_t rows, double *x) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < columns; k++) x[i] += y[k] * w[i * columns + k];
}

void ls__ref_put_states(const ls_ref_args *a, const ls_ref_recurrent *g, const double *h) {
    for (int64_t n = 0; n < g->n; n++) {
        const double *from = h + n * (1 + g->t) * g->u;
        if (!g->sequences) memcpy(a->y[0] + n * g->u, from + g->t * g->u, (size_t)g->u * sizeof *h);
        for (int64_t i = 0; i < g->t && g->sequences; i++)
            memcpy(a->y[0] + (n * g->t + ls__ref_step(g, i)) * g->u, from + (1 + i) * g->u, (size_t)g->u * sizeof *h);
    }
}

void ls__ref_clear_gradients(const ls_ref_args *a) {
    memset(a->dx[0], 0, (size_t)ls_shape_count(a->spec->x[0].shape) * sizeof *a->dx[0]);
    for (int k = 0; k < a->spec->w_count; k++)
        memset(a->dw[k], 0, (size_t)ls_shape_count(a->spec->w[k].shape) * sizeof *a->dw[k]);
}

void ls__ref_add_output_gradient(const ls_ref_args *a, const ls_ref_recurrent *g, int64_t n, int64_t i, double *dh) {
    if (!g->sequences && i < g->t - 1) return;
    const double *dy = a->dy[0] + (g->sequences ? n * g->t + ls__ref_step(g, i) : n) * g->u;
    for (int64_t k = 0; k < g->u; k++) dh[k] += dy[k];
}

void ls__ref_add_step_gradients(const ls_ref_args *a, const ls_ref_recurrent *g, int64_t n, int64_t at, const double *h,
                                const double *dx_products, const double *dh_products) {
    const double *x = a->x[0] + (n * g->t + at) * g->c;
    ls__ref_add_transposed(dx_products, g->products, a->w[0], g->c, a->dx[0] + (n * g->t + at) * g->c);
    for (int64_t i = 0; i < g->c; i++)
        for (int64_t k = 0; k < g->products; k++) a->dw[0][i * g->products + k] += x[i] * dx_products[k];
    for (int64_t i = 0; i < g->u; i++)
        for (int64_t k = 0; k < g->products; k++) a->dw[1][i * g->products + k] += h[i] * dh_products[k];
}
