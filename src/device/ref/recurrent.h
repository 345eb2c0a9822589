// What the loops of LSTM and GRU share.
#ifndef LS_DEVICE_REF_RECURRENT_H
#define LS_DEVICE_REF_RECURRENT_H

#include "device/ref/ref.h"

typedef struct ls_ref_recurrent {
    int64_t n, t, c, u, products;  // samples, steps, channels, units; products of a step, gates * units
    int backwards, sequences;
} ls_ref_recurrent;

ls_ref_recurrent ls__ref_recurrent(const ls_kernel_spec *spec);

// Where the i-th step that is made lies in a sequence.
static inline int64_t ls__ref_step(const ls_ref_recurrent *g, int64_t i) { return g->backwards ? g->t - 1 - i : i; }
// Whether step `at` of sample n counts.
int ls__ref_counts(const ls_ref_args *a, const ls_ref_recurrent *g, int64_t n, int64_t at);
// y (columns) += x (rows) times w (rows, columns); and x (rows) += y (columns) times the transpose of w (rows, columns).
void ls__ref_add_product(const double *x, int64_t rows, const double *w, int64_t columns, double *y);
void ls__ref_add_transposed(const double *y, int64_t columns, const double *w, int64_t rows, double *x);
// Writes the output, of states h (n, 1 + t, u).
void ls__ref_put_states(const ls_ref_args *a, const ls_ref_recurrent *g, const double *h);
// Zeroes the gradients of x and of the parameters.
void ls__ref_clear_gradients(const ls_ref_args *a);
// Adds to dh (u) what the output's gradient says of the state after the i-th step that is made.
void ls__ref_add_output_gradient(const ls_ref_args *a, const ls_ref_recurrent *g, int64_t n, int64_t i, double *dh);
// Adds what step `at` gives to the gradients of x and of both kernels: h is the state before it, dx_products and dh_products what the
// input's and the state's products get.
void ls__ref_add_step_gradients(const ls_ref_args *a, const ls_ref_recurrent *g, int64_t n, int64_t at, const double *h,
                                const double *dx_products, const double *dh_products);

#endif
