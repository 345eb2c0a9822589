// Long short-term memory, x (N, T, C), w (C, 4 U), r (U, 4 U), b (4 U), gates in the order i, f, g, o:
//   z = x_t w + h r + b;  c = sigmoid(z_f) c + sigmoid(z_i) tanh(z_g);  h = sigmoid(z_o) tanh(c).
// Backward makes all states again, and goes back through them. Source: Hochreiter and Schmidhuber 1997, with Gers et al.'s forget gate, as
// Keras has it.
#include <math.h>
#include <string.h>

#include "device/ref/recurrent.h"

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

// Gates (N, T, 4 U) after their activations, and states (N, 1 + T, U), the first of which are zero: of step s of a sample 1 + s.
typedef struct states {
    double *gates, *c, *h, *dgates, *dh, *dc;
} states;

static int64_t scratch(const ls_kernel_spec *spec) {
    ls_ref_recurrent g = ls__ref_recurrent(spec);
    return g.n * g.t * 8 * g.u + g.n * (1 + g.t) * 2 * g.u + 2 * g.u;
}

static states states_of(const ls_ref_args *a, const ls_ref_recurrent *g) {
    states s = {.gates = a->scratch};
    s.c = s.gates + g->n * g->t * 4 * g->u;
    s.h = s.c + g->n * (1 + g->t) * g->u;
    s.dgates = s.h + g->n * (1 + g->t) * g->u;
    s.dh = s.dgates + g->n * g->t * 4 * g->u;
    s.dc = s.dh + g->u;
    return s;
}

static void step(const ls_ref_args *a, const ls_ref_recurrent *g, const states *s, int64_t n, int64_t i) {
    int64_t u = g->u, at = ls__ref_step(g, i);
    double *z = s->gates + (n * g->t + at) * 4 * u, *c = s->c + (n * (1 + g->t) + i) * u;
    double *h = s->h + (n * (1 + g->t) + i) * u;
    memcpy(c + u, c, (size_t)u * sizeof *c);
    memcpy(h + u, h, (size_t)u * sizeof *h);
    if (!ls__ref_counts(a, g, n, at)) return;
    memcpy(z, a->w[2], (size_t)(4 * u) * sizeof *z);
    ls__ref_add_product(a->x[0] + (n * g->t + at) * g->c, g->c, a->w[0], 4 * u, z);
    ls__ref_add_product(h, u, a->w[1], 4 * u, z);
    for (int64_t k = 0; k < u; k++) {
        z[k] = sigmoid(z[k]), z[u + k] = sigmoid(z[u + k]), z[2 * u + k] = tanh(z[2 * u + k]);
        z[3 * u + k] = sigmoid(z[3 * u + k]);
        c[u + k] = z[u + k] * c[k] + z[k] * z[2 * u + k];
        h[u + k] = z[3 * u + k] * tanh(c[u + k]);
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

// dh and dc of the state after step i become those of the state before it, and dgates of the step what its products get.
static void step_back(const ls_ref_args *a, const ls_ref_recurrent *g, const states *s, int64_t n, int64_t i) {
    int64_t u = g->u, at = ls__ref_step(g, i);
    const double *z = s->gates + (n * g->t + at) * 4 * u, *c = s->c + (n * (1 + g->t) + i) * u;
    double *dz = s->dgates + (n * g->t + at) * 4 * u;
    for (int64_t k = 0; k < u; k++) {
        double in = z[k], forget = z[u + k], cell = z[2 * u + k], out = z[3 * u + k], t = tanh(c[u + k]);
        double dc = s->dc[k] + s->dh[k] * out * (1 - t * t);
        dz[k] = dc * cell * in * (1 - in);
        dz[u + k] = dc * c[k] * forget * (1 - forget);
        dz[2 * u + k] = dc * in * (1 - cell * cell);
        dz[3 * u + k] = s->dh[k] * t * out * (1 - out);
        s->dc[k] = dc * forget;
        s->dh[k] = 0;
    }
    ls__ref_add_transposed(dz, 4 * u, a->w[1], u, s->dh);
}

static void backward(const ls_ref_args *a) {
    ls_ref_recurrent g = ls__ref_recurrent(a->spec);
    states s = states_of(a, &g);
    make_states(a, &g, &s);
    ls__ref_clear_gradients(a);
    for (int64_t n = 0; n < g.n; n++) {
        memset(s.dh, 0, (size_t)(2 * g.u) * sizeof *s.dh);
        for (int64_t i = g.t - 1; i >= 0; i--) {
            int64_t at = ls__ref_step(&g, i);
            const double *dz = s.dgates + (n * g.t + at) * 4 * g.u;
            ls__ref_add_output_gradient(a, &g, n, i, s.dh);
            if (!ls__ref_counts(a, &g, n, at)) continue;
            step_back(a, &g, &s, n, i);
            ls__ref_add_step_gradients(a, &g, n, at, s.h + (n * (1 + g.t) + i) * g.u, dz, dz);
            for (int64_t k = 0; k < 4 * g.u; k++) a->dw[2][k] += dz[k];
        }
    }
}

static int uses(const ls_kernel_spec *s, int arg, int by_rule) { return arg != LS_ARG_DX + 1 && by_rule; }

const ls_ref_op ls__ref_lstm = {
    .kind = LS_OP_LSTM,
    .forward = forward,
    .backward = backward,
    .backward_reads = LS_REF_READS_X | LS_REF_READS_W,
    .scratch = scratch,
    .uses = uses,
};
