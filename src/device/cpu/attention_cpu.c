// Attention, a head of a sample at a time: its scores never leave the caches. Forward keeps each position's largest score and one over the
// sum of exponentials; backward makes the weights again from them, to the same bits. Everything is computed in F32.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/attention.h"
#include "device/cpu/cpu.h"
#include "device/cpu/products.h"

enum { AT_ONCE = 16 };  // positions

typedef struct attention_kernel {
    ls_kernel base;
    ls_attention_sizes s;
    int64_t samples, heads, piece;  // floats of scratch for each thread
    int threads;
} attention_kernel;

// --- memory of a thread ----------------------------------------------------------------------------------------------

static int64_t take(int64_t *at, int64_t count) {
    int64_t from = *at;
    *at += ls_round_up(count, LS_ALIGN / 4);
    return from;
}

// Matrices of a head: rows (t, wide), columns transposed (d, long).
typedef struct head {
    float *q, *k, *v, *dy, *k_columns, *v_columns, *scores, *dscores, *out, *bias;
} head;

static int64_t lay_out(const ls_attention_sizes *s, int backward, float *at, head *h) {
    int64_t used = 0, rows = s->t * s->wide, columns = s->d * s->longer, square = s->t * s->longer;
    int64_t strip = AT_ONCE * s->longer;
    int64_t q = take(&used, rows), v = take(&used, rows), k_columns = take(&used, columns);
    int64_t bias = take(&used, s->longer), out = take(&used, backward ? rows : AT_ONCE * s->wide);
    int64_t scores = take(&used, backward ? square : strip), dscores = take(&used, backward ? square : 0);
    int64_t k = take(&used, backward ? rows : 0), dy = take(&used, backward ? rows : 0);
    int64_t v_columns = take(&used, backward ? columns : 0);
    if (h)
        *h = (head){at + q,         at + k,      at + v,       at + dy,  at + k_columns,
                    at + v_columns, at + scores, at + dscores, at + out, at + bias};
    return used;
}

// --- a head ----------------------------------------------------------------------------------------------------------

typedef struct place {
    int64_t n, h;
    int64_t x, y;  // its first element in X and Y, in channels; a position is 3 c or c further
} place;

static void product(int64_t m, int64_t n, int64_t k, const float *a, int64_t a_row, int64_t a_step, const float *b,
                    int64_t b_row, float *c, int64_t c_row) {
    ls__product(&(ls_product){m, n, k, a, a_row, a_step, b, b_row, c, c_row});
}

// Up to where positions from i on, `rows` of them, attend.
static int64_t limit_of(const ls_attention_sizes *s, int64_t i, int64_t rows) { return s->causal ? i + rows : s->t; }

static void forward_head(const attention_kernel *k, void *const args[LS_ARG_COUNT], const head *h, const place *p) {
    const ls_attention_sizes *s = &k->s;
    ls_attention_row *kept = args[LS_ARG_WORKSPACE];
    if (kept) kept += (p->n * k->heads + p->h) * s->t;
    for (int64_t i = 0; i < s->t; i += AT_ONCE) {
        int64_t rows = s->t - i < AT_ONCE ? s->t - i : AT_ONCE, limit = limit_of(s, i, rows);
        product(rows, ls_round_up(limit, 16), s->d, h->q + i * s->wide, s->wide, 1, h->k_columns, s->longer, h->scores,
                s->longer);
        for (int64_t r = 0; r < rows; r++) {
            ls_attention_row row;
            ls__attention_weights(s, h->scores + r * s->longer, h->bias, i + r, limit, &row);
            if (kept) kept[i + r] = row;
        }
        product(rows, s->wide, limit, h->scores, s->longer, 1, h->v, s->wide, h->out, s->wide);
        ls__attention_store(s, args[LS_ARG_Y], p->y + i * s->c, s->c, rows, 1, h->out);
    }
}

// What the positions from i on give: weights, their gradients, and the gradients of the queries.
static void backward_rows(const attention_kernel *k, const head *h, const ls_attention_row *kept, int64_t i,
                          int64_t rows) {
    const ls_attention_sizes *s = &k->s;
    int64_t limit = limit_of(s, i, rows), columns = ls_round_up(limit, 16);
    float *scores = h->scores + i * s->longer, *dscores = h->dscores + i * s->longer;
    product(rows, columns, s->d, h->q + i * s->wide, s->wide, 1, h->k_columns, s->longer, scores, s->longer);
    product(rows, columns, s->d, h->dy + i * s->wide, s->wide, 1, h->v_columns, s->longer, dscores, s->longer);
    for (int64_t r = 0; r < rows; r++)
        ls__attention_gradients(s, scores + r * s->longer, dscores + r * s->longer, h->bias, i + r, limit,
                                &kept[i + r]);
    product(rows, s->wide, limit, dscores, s->longer, 1, h->k, s->wide, h->out + i * s->wide, s->wide);
}

// (t, wide) = transpose of (t, long) times (t, wide): what positions get from those that attend to them.
static void gather(const attention_kernel *k, const float *from, const float *rows, float *to) {
    const ls_attention_sizes *s = &k->s;
    for (int64_t j = 0; j < s->t; j += AT_ONCE) {
        int64_t count = s->t - j < AT_ONCE ? s->t - j : AT_ONCE, first = s->causal ? j : 0;
        product(count, s->wide, s->t - first, from + first * s->longer + j, 1, s->longer, rows + first * s->wide,
                s->wide, to + j * s->wide, s->wide);
    }
}

static void backward_head(const attention_kernel *k, void *const args[LS_ARG_COUNT], const head *h, const place *p) {
    const ls_attention_sizes *s = &k->s;
    const ls_attention_row *kept = (const ls_attention_row *)args[LS_ARG_WORKSPACE] + (p->n * k->heads + p->h) * s->t;
    void *dx = args[LS_ARG_DX];
    for (int64_t i = 0; i < s->t; i += AT_ONCE) backward_rows(k, h, kept, i, s->t - i < AT_ONCE ? s->t - i : AT_ONCE);
    ls__attention_store(s, dx, p->x, 3 * s->c, s->t, s->scale, h->out);
    gather(k, h->dscores, h->q, h->out);  // queries come scaled
    ls__attention_store(s, dx, p->x + s->c, 3 * s->c, s->t, 1, h->out);
    gather(k, h->scores, h->dy, h->out);
    ls__attention_store(s, dx, p->x + 2 * s->c, 3 * s->c, s->t, 1, h->out);
}

static void run_head(const attention_kernel *k, void *const args[LS_ARG_COUNT], float *scratch, int64_t index,
                     int backward) {
    const ls_attention_sizes *s = &k->s;
    const void *x = args[LS_ARG_X];
    const int32_t *mask = args[LS_ARG_X + 1];
    place p = {.n = index / k->heads, .h = index % k->heads};
    head h;
    p.y = p.n * s->t * s->c + p.h * s->d;
    p.x = p.n * s->t * 3 * s->c + p.h * s->d;
    lay_out(s, backward, scratch, &h);
    ls__attention_load(s, x, p.x, 3 * s->c, s->scale, h.q, NULL);
    ls__attention_load(s, x, p.x + s->c, 3 * s->c, 1, backward ? h.k : NULL, h.k_columns);
    ls__attention_load(s, x, p.x + 2 * s->c, 3 * s->c, 1, backward ? NULL : h.v, backward ? h.v_columns : NULL);
    if (backward) ls__attention_load(s, args[LS_ARG_DY], p.y, s->c, 1, h.dy, NULL);
    ls__attention_bias(s, k->base.layout[LS_ARG_X + 1] ? mask + p.n * s->t : NULL, h.bias);
    (backward ? backward_head : forward_head)(k, args, &h, &p);
}

static ls_status run(ls_kernel *kernel, void *args[LS_ARG_COUNT], int backward) {
    const attention_kernel *k = (const attention_kernel *)kernel;
    int64_t all = k->samples * k->heads;
    if (!kernel->workspace_bytes) args[LS_ARG_WORKSPACE] = NULL;
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
    for (int64_t t = 0; t < k->threads; t++)
        for (int64_t i = all * t / k->threads; i < all * (t + 1) / k->threads; i++)
            run_head(k, args, (float *)args[LS_ARG_SCRATCH] + t * k->piece, i, backward);
    return LS_OK;
}

static ls_status run_forward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    return run(kernel, args, 0);
}

static ls_status run_backward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    return run(kernel, args, 1);
}

static void destroy(ls_kernel *kernel) { free(kernel); }

// --- making it -------------------------------------------------------------------------------------------------------

static ls_status choose_layouts(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel *kernel) {
    const ls_layout *x, *y;
    int backward = spec->pass == LS_PASS_BACKWARD_DATA;
    LS_TRY(cpu->base.ops->layout_plain(&cpu->base, spec->x[0].shape, spec->x[0].dtype, 0, &x));
    LS_TRY(cpu->base.ops->layout_plain(&cpu->base, spec->y[0].shape, spec->x[0].dtype, 0, &y));
    kernel->layout[LS_ARG_X] = x;
    kernel->layout[backward ? LS_ARG_DY : LS_ARG_Y] = y;
    if (backward) kernel->layout[LS_ARG_DX] = x;
    if (spec->x_count < 2) return LS_OK;
    return cpu->base.ops->layout_plain(&cpu->base, spec->x[1].shape, LS_DTYPE_I32, 0, &kernel->layout[LS_ARG_X + 1]);
}

ls_status ls__cpu_attention_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops forward_ops = {run_forward, destroy}, backward_ops = {run_backward, destroy};
    const ls_attention_attrs *a = LS_ATTRS(ls_attention_attrs, &spec->attrs);
    int backward = spec->pass == LS_PASS_BACKWARD_DATA;
    const int64_t *x = spec->x[0].shape.dim;
    attention_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    ls_status status = choose_layouts(cpu, spec, &k->base);
    if (status != LS_OK) {
        free(k);
        return status;
    }
    k->base.ops = backward ? &backward_ops : &forward_ops;
    k->base.name = "loop:attention";
    k->samples = x[0];
    k->heads = a->heads;
    k->s = (ls_attention_sizes){.dtype = spec->x[0].dtype, .t = x[1], .c = x[2] / 3, .causal = a->causal};
    k->s.d = k->s.c / k->heads;
    k->s.wide = ls_round_up(k->s.d, 16);
    k->s.longer = ls_round_up(k->s.t, 16);
    k->s.scale = (float)(1 / sqrt((double)k->s.d));
    k->threads = cpu->base.options.threads;
    k->piece = lay_out(&k->s, backward, NULL, NULL);
    k->base.tiles = k->samples * k->heads;
    k->base.scratch_bytes = k->threads * k->piece * (int64_t)sizeof(float);
    if (spec->pass != LS_PASS_INFERENCE)
        k->base.workspace_bytes = k->samples * k->heads * k->s.t * (int64_t)sizeof(ls_attention_row);
    *out = &k->base;
    return LS_OK;
}
