// Gated recurrent units, x (N, T, C), w (C, 3 U), r (U, 3 U), b (2, 3 U), gates in the order z, r, n:
//   p = x_t w + b_0;  q = h r + b_1;  z = sigmoid(p_z + q_z);  r = sigmoid(p_r + q_r);  n = tanh(p_n + r q_n);  h = z h + (1 - z) n.
// Backward makes all states again, and goes back through them. Source: Cho et al. 2014, the reset gate applied after the product, as cuDNN
// and Keras (reset_after=True) have it.
#include <math.h>
#include <string.h>

#include "device/ref/recurrent.h"

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

// z, r, n after their activations and q_n (N, T, 4 U); products of a step; states (N, 1 + T, U), the first of which are zero; gradients
// of p and q, and of the state.
typedef struct states {
    double *gates, *p, *q, *h, *dh;
} states;

static int64_t scratch(const ls_kernel_spec *spec) {
    ls_ref_recurrent g = ls__ref_recurrent(spec);
    return g.n * g.t * 4 * g.u + 6 * g.u + g.n * (1 + g.t) * g.u + g.u;
}

static states states_of(const ls_ref_args *a, const ls_ref_recurrent *g) {
    states s = {.gates = a->scratch};
    s.p = s.gates + g->n * g->t * 4 * g->u;
    s.q = s.p + 3 * g->u;
    s.h = s.q + 3 * g->u;
    s.dh = s.h + g->n * (1 + g->t) * g->u;
    return s;
}

static void step(const ls_ref_args *a, const ls_ref_recurrent *g, const states *s, int64_t n, int64_t i) {
    int64_t u = g->u, at = ls__ref_step(g, i);
    double *z = s->gates + (n * g->t + at) * 4 * u, *h = s->h + (n * (1 + g->t) + i) * u, *p = s->p, *q = s->q;
    memcpy(h + u, h, (size_t)u * sizeof *h);
    if (!ls__ref_counts(a, g, n, at)) return;
    memcpy(p, a->w[2], (size_t)(3 * u) * sizeof *p);
    memcpy(q, a->w[2] + 3 * u, (size_t)(3 * u) * sizeof *q);
    ls__ref_add_product(a->x[0] + (n * g->t + at) * g->c, g->c, a->w[0], 3 * u, p);
    ls__ref_add_product(h, u, a->w[1], 3 * u, q);
    for (int64_t k = 0; k < u; k++) {
        z[k] = sigmoid(p[k] + q[k]), z[u + k] = sigmoid(p[u + k] + q[u + k]);
        z[2 * u + k] = tanh(p[2 * u + k] + z[u + k] * q[2 * u + k]);
        z[3 * u + k] = q[2 * u + k];
        h[u + k] = z[k] * h[k] + (1 - z[k]) * z[2 * u + k];
    }
}

static void make_states(const ls_ref_args *a, const ls_ref_recurrent *g, const states *s) {
    for (int64_t n = 0; n < g->n; n++)
        for (int64_t i = 0; i < g->t; i++) step(a, g, s, n, i);
}

static void forward(const ls_ref_args *a) {
    ls_ref_recurrent g = ls__ref_recurrent(a->spec);
    states s = states_of(a, &g);
    make_states(a, &g, &s);
    ls__ref_put_states(a, &g, s.h);
}

// dh of the state after step i becomes that of the state before it; p and q get the gradients of the step's products.
static void step_back(const ls_ref_args *a, const ls_ref_recurrent *g, const states *s, int64_t n, int64_t i) {
    int64_t u = g->u, at = ls__ref_step(g, i);
    const double *gates = s->gates + (n * g->t + at) * 4 * u, *h = s->h + (n * (1 + g->t) + i) * u;
    double *dp = s->p, *dq = s->q;
    for (int64_t k = 0; k < u; k++) {
        double z = gates[k], r = gates[u + k], candidate = gates[2 * u + k], dh = s->dh[k];
        double dn = dh * (1 - z) * (1 - candidate * candidate);
        dp[k] = dq[k] = dh * (h[k] - candidate) * z * (1 - z);
        dp[u + k] = dq[u + k] = dn * gates[3 * u + k] * r * (1 - r);
        dp[2 * u + k] = dn;
        dq[2 * u + k] = dn * r;
        s->dh[k] = dh * z;
    }
    ls__ref_add_transposed(dq, 3 * u, a->w[1], u, s->dh);
}

static void backward(const ls_ref_args *a) {
    ls_ref_recurrent g = ls__ref_recurrent(a->spec);
    states s = states_of(a, &g);
    make_states(a, &g, &s);
    ls__ref_clear_gradients(a);
    for (int64_t n = 0; n < g.n; n++) {
        memset(s.dh, 0, (size_t)g.u * sizeof *s.dh);
        for (int64_t i = g.t - 1; i >= 0; i--) {
            int64_t at = ls__ref_step(&g, i);
            ls__ref_add_output_gradient(a, &g, n, i, s.dh);
            if (!ls__ref_counts(a, &g, n, at)) continue;
            step_back(a, &g, &s, n, i);
            ls__ref_add_step_gradients(a, &g, n, at, s.h + (n * (1 + g.t) + i) * g.u, s.p, s.q);
            for (int64_t k = 0; k < 3 * g.u; k++) a->dw[2][k] += s.p[k], a->dw[2][3 * g.u + k] += s.q[k];
        }
    }
}

static int uses(const ls_kernel_spec *s, int arg, int by_rule) { return arg != LS_ARG_DX + 1 && by_rule; }

const ls_ref_op ls__ref_gru = {
    .kind = LS_OP_GRU,
    .forward = forward,
    .backward = backward,
    .backward_reads = LS_REF_READS_X | LS_REF_READS_W,
    .scratch = scratch,
    .uses = uses,
};
