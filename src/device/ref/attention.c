// Softmax attention of heads, x (N, T, 3 C) to y (N, T, C): weight p_j of position j is softmax_j(query_i . key_j / sqrt(D)) over the
// positions that i attends to, D = C / heads. Weights are made when they are wanted.
// Source: Vaswani et al., "Attention is all you need", 2017, section 3.2.
#include <math.h>
#include <string.h>

#include "device/ref/ref.h"

typedef struct head {
    const ls_ref_args *a;
    int64_t n, h, t, c, d;  // sample, head; positions, channels of all heads and of one
    double scale;
} head;

enum { QUERY, KEY, VALUE };

// Where channel 0 of a query, key or value lies in x.
static int64_t at(const head *g, int64_t i, int what) {
    return (g->n * g->t + i) * 3 * g->c + what * g->c + g->h * g->d;
}

static double dot(const double *x, const double *y, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += x[i] * y[i];
    return sum;
}

static double score(const head *g, int64_t i, int64_t j) {
    return dot(g->a->x[0] + at(g, i, QUERY), g->a->x[0] + at(g, j, KEY), g->d) * g->scale;
}

static int attends(const head *g, int64_t i, int64_t j) {
    if (LS_ATTRS(ls_attention_attrs, &g->a->spec->attrs)->causal && j > i) return 0;
    return !g->a->x[1] || g->a->x[1][g->n * g->t + j] != 0;
}

// The largest score of a position, and the sum of exponentials without it; 0 where it attends to nothing.
typedef struct row {
    double most, sum;
} row;

static row row_of(const head *g, int64_t i) {
    row r = {-INFINITY, 0};
    for (int64_t j = 0; j < g->t; j++)
        if (attends(g, i, j)) r.most = fmax(r.most, score(g, i, j));
    for (int64_t j = 0; j < g->t; j++)
        if (attends(g, i, j)) r.sum += exp(score(g, i, j) - r.most);
    return r;
}

static double weight(const head *g, row r, int64_t i, int64_t j) {
    return attends(g, i, j) ? exp(score(g, i, j) - r.most) / r.sum : 0;
}

static head head_of(const ls_ref_args *a, int64_t index) {
    ls_shape x = a->spec->x[0].shape;
    int64_t heads = LS_ATTRS(ls_attention_attrs, &a->spec->attrs)->heads, c = x.dim[2] / 3, d = c / heads;
    return (head){a, index / heads, index % heads, x.dim[1], c, d, 1 / sqrt((double)d)};
}

static int64_t head_count(const ls_ref_args *a) {
    return a->spec->x[0].shape.dim[0] * LS_ATTRS(ls_attention_attrs, &a->spec->attrs)->heads;
}

static void forward(const ls_ref_args *a) {
    for (int64_t k = 0; k < head_count(a); k++) {
        head g = head_of(a, k);
        for (int64_t i = 0; i < g.t; i++) {
            double *y = a->y[0] + (g.n * g.t + i) * g.c + g.h * g.d;
            row r = row_of(&g, i);
            memset(y, 0, (size_t)g.d * sizeof *y);
            for (int64_t j = 0; j < g.t; j++) {
                double p = weight(&g, r, i, j);
                for (int64_t e = 0; e < g.d; e++) y[e] += p * a->x[0][at(&g, j, VALUE) + e];
            }
        }
    }
}

// With dp_j = dy . value_j, the gradient of score j is p_j (dp_j - sum_k p_k dp_k).
static void backward_position(const head *g, int64_t i) {
    const ls_ref_args *a = g->a;
    const double *dy = a->dy[0] + (g->n * g->t + i) * g->c + g->h * g->d, *x = a->x[0];
    double *dx = a->dx[0], mean = 0;
    row r = row_of(g, i);
    for (int64_t j = 0; j < g->t; j++) mean += weight(g, r, i, j) * dot(dy, x + at(g, j, VALUE), g->d);
    for (int64_t j = 0; j < g->t; j++) {
        double p = weight(g, r, i, j), ds = p * (dot(dy, x + at(g, j, VALUE), g->d) - mean) * g->scale;
        for (int64_t e = 0; e < g->d; e++) {
            dx[at(g, j, VALUE) + e] += p * dy[e];
            dx[at(g, i, QUERY) + e] += ds * x[at(g, j, KEY) + e];
            dx[at(g, j, KEY) + e] += ds * x[at(g, i, QUERY) + e];
        }
    }
}

static void backward_data(const ls_ref_args *a) {
    memset(a->dx[0], 0, (size_t)ls_shape_count(a->spec->x[0].shape) * sizeof *a->dx[0]);
    for (int64_t k = 0; k < head_count(a); k++) {
        head g = head_of(a, k);
        for (int64_t i = 0; i < g.t; i++) backward_position(&g, i);
    }
}

// A mask has no gradient.
static int uses(const ls_kernel_spec *s, int arg, int by_rule) { return arg != LS_ARG_DX + 1 && by_rule; }

const ls_ref_op ls__ref_attention = {
    .kind = LS_OP_ATTENTION,
    .forward = forward,
    .backward_data = backward_data,
    .backward_reads = LS_REF_READS_X,
    .uses = uses,
};
