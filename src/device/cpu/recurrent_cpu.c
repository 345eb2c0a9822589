// LSTM and GRU. The input's products of all steps are one dense layer of the library's, as are in backward the gradients of the input and of
// both kernels; between them each step is a dense layer of the state, and a loop. Products and gates are F32 in any precision.
//
// Where the input's vectors are rows of a small table (spec.table_rows: what an embedding gives), products are made of the table's rows, and
// each step takes those of its number; backward, the gradients of the input's products are added up by number first. So of 2048 tokens of an
// alphabet of 128 there are 128 rows to multiply, not 2048, in all three products of the input.
//
// Gradients of the input and of a step's state are products with a transposed kernel, which is transposed once for all steps: the library's own
// backward pass does so in each of its calls.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/cpu/recurrent.h"

// The dense layers inside. Forward: the input's products, a step's of the state. Backward: gradients of a step's state, of the input, of both
// kernels.
enum { INPUT, STATE, STATE_DATA = 0, INPUT_DATA, INPUT_WEIGHTS, STATE_WEIGHTS, PARTS };

typedef struct recurrent_kernel {
    ls_kernel base;
    ls_kernel *part[PARTS];
    ls_kernel
        *turn[PARTS];  // backward: the parameter of a product of gradients to its transpose, as that part takes it
    int parts, backward, gru, backwards, sequences, trains, masked;
    int64_t table;  // rows of the table that products are made of; 0: of none, but of all vectors
    ls_dtype dtype;
    int64_t n, t, c, u, gates;  // samples, steps, channels, units; products of a step
    int threads;
    // Of the workspace: gates (n, t, 4 u), c (n, 1 + t, u), both F32, and the states before each step (n, t, u). The first c of a sample is
    // zero; c i + 1 is that after the i-th step that is made.
    int64_t at_c, at_states;
    // Of the scratch, forward: products of the input (n, t, gates) and of the state (n, gates), the state (n, u), and where nothing is
    // kept c (n, u). Backward: gradients of both products (n, t, gates), of a step's (n, gates), dh and dc (n, u), one more (n, u), and the
    // transposed kernel in use.
    int64_t at_input, at_state, at_step, at_h, at_dc, at_more, at_turned, at_parts;
    // Of a table: its rows and their gradients (table, c), backward; of their products the gradients (table, gates) in F32 and as they are
    // multiplied; where each row comes first (table), or -1.
    int64_t at_rows, at_drows, at_sums, at_dproducts, at_first;
} recurrent_kernel;

static int64_t size_of(ls_dtype dtype) { return (int64_t)ls_dtype_size(dtype); }
static int64_t step_at(const recurrent_kernel *k, int64_t i) { return k->backwards ? k->t - 1 - i : i; }

// An LSTM that trains has its input's products where its gates will be, each made of the one in the same place.
static int gates_in_place(const recurrent_kernel *k) { return k->trains && !k->gru && !k->table; }

typedef struct memory {
    float *gates, *c;
    char *states;                                // workspace
    char *input, *state, *step, *h, *dc, *more;  // scratch
    const int32_t *mask, *numbers;
} memory;

static memory memory_of(const recurrent_kernel *k, void *const args[LS_ARG_COUNT]) {
    char *work = args[LS_ARG_WORKSPACE], *scratch = args[LS_ARG_SCRATCH];
    memory m = {.input = scratch + k->at_input,
                .state = scratch + k->at_state,
                .step = scratch + k->at_step,
                .h = scratch + k->at_h,
                .dc = scratch + k->at_dc,
                .more = scratch + k->at_more,
                .mask = k->masked ? args[LS_ARG_X + 1] : NULL,
                .numbers = k->table ? args[LS_ARG_NUMBERS] : NULL};
    if (k->trains || k->backward) {
        m.gates = (float *)(void *)work;
        m.c = k->gru ? NULL : (float *)(void *)(work + k->at_c);
        m.states = work + k->at_states;
    }
    if (gates_in_place(k)) m.input = work;
    return m;
}

static int32_t *first_of(const recurrent_kernel *k, void *const args[LS_ARG_COUNT]) {
    return (int32_t *)(void *)((char *)args[LS_ARG_SCRATCH] + k->at_first);
}

static int counts(const recurrent_kernel *k, const memory *m, int64_t n, int64_t at) {
    return !m->mask || m->mask[n * k->t + at] != 0;
}

// --- tables ----------------------------------------------------------------------------------------------------------

// Where each row of the table comes first, and these rows; zeros for those that do not come.
static void gather(const recurrent_kernel *k, const int32_t *numbers, const char *x, int32_t *first, char *rows) {
    int64_t bytes = k->c * size_of(k->dtype);
    for (int64_t r = 0; r < k->table; r++) first[r] = -1;
    for (int64_t i = k->n * k->t - 1; i >= 0; i--) first[numbers[i]] = (int32_t)i;
    for (int64_t r = 0; r < k->table; r++)
        if (first[r] >= 0)
            memcpy(rows + r * bytes, x + first[r] * bytes, (size_t)bytes);
        else
            memset(rows + r * bytes, 0, (size_t)bytes);
}

// Gradients of the products by number.
static void sum_products(const recurrent_kernel *k, const memory *m, float *sums, void *rounded) {
    int64_t pieces = (k->gates + 15) / 16;
    memset(sums, 0, (size_t)(k->table * k->gates) * sizeof *sums);
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
    for (int i = 0; i < k->threads; i++) {
        int64_t from = pieces * i / k->threads * 16, to = pieces * (i + 1) / k->threads * 16;
        ls__recurrent_sum_picked(m->input, k->dtype, m->numbers, k->n * k->t, k->gates, from,
                                 to < k->gates ? to : k->gates, sums);
    }
    if (k->dtype != LS_DTYPE_F32) ls__recurrent_round(sums, k->dtype, k->table * k->gates, rounded);
}

// The gradient of each row to where it comes first.
static void scatter(const recurrent_kernel *k, const int32_t *first, const char *drows, char *dx) {
    int64_t bytes = k->c * size_of(k->dtype);
    memset(dx, 0, (size_t)(k->n * k->t * bytes));
    for (int64_t r = 0; r < k->table; r++)
        if (first[r] >= 0) memcpy(dx + first[r] * bytes, drows + r * bytes, (size_t)bytes);
}

// --- forward ---------------------------------------------------------------------------------------------------------

// Sample n at the i-th step that is made.
static void forward_sample(const recurrent_kernel *k, const memory *m, char *y, int64_t n, int64_t i) {
    int64_t at = step_at(k, i), row = n * k->t + at, bytes = k->u * size_of(k->dtype);
    int64_t product = m->numbers ? m->numbers[row] : row;
    char *h = m->h + n * bytes;
    float *c = m->c ? m->c + (n * (1 + k->t) + i) * k->u : (float *)(void *)m->dc + n * k->u;
    ls_recurrent_step s = {.units = k->u,
                           .input = (const float *)(const void *)m->input + product * k->gates,
                           .state = (const float *)(const void *)m->state + n * k->gates,
                           .gates = m->gates ? m->gates + row * 4 * k->u : NULL,
                           .c_before = c,
                           .c = m->c ? c + k->u : c,
                           .dtype = k->dtype,
                           .h_before = h,
                           .h = h};
    if (m->states) memcpy(m->states + row * bytes, h, (size_t)bytes);
    if (m->c && i == 0) memset(c, 0, (size_t)k->u * sizeof *c);
    if (counts(k, m, n, at))
        (k->gru ? ls__gru_forward : ls__lstm_forward)(&s);
    else if (m->c)
        memcpy(s.c, c, (size_t)k->u * sizeof *c);
    if (k->sequences)
        memcpy(y + row * bytes, h, (size_t)bytes);
    else if (i == k->t - 1)
        memcpy(y + n * bytes, h, (size_t)bytes);
}

static ls_status run_forward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const recurrent_kernel *k = (const recurrent_kernel *)kernel;
    memory m = memory_of(k, args);
    ls_span scratch = spans[LS_ARG_SCRATCH], inner[LS_ARG_COUNT] = {{0}};
    inner[LS_ARG_X] = k->table ? ls_span_at(scratch, k->at_rows) : spans[LS_ARG_X];
    inner[LS_ARG_W] = spans[LS_ARG_W];
    inner[LS_ARG_W + 1] = spans[LS_ARG_W + 2];
    inner[LS_ARG_Y] = gates_in_place(k) ? spans[LS_ARG_WORKSPACE] : ls_span_at(scratch, k->at_input);
    if (k->table) gather(k, m.numbers, args[LS_ARG_X], first_of(k, args), ls_span_host(inner[LS_ARG_X]));
    inner[LS_ARG_SCRATCH] = ls_span_at(scratch, k->at_parts);
    LS_TRY(ls_kernel_run(k->part[INPUT], queue, inner));
    inner[LS_ARG_X] = ls_span_at(scratch, k->at_h);
    inner[LS_ARG_W] = spans[LS_ARG_W + 1];
    if (k->gru) inner[LS_ARG_W + 1] = ls_span_at(spans[LS_ARG_W + 2], k->gates * 4);
    inner[LS_ARG_Y] = ls_span_at(scratch, k->at_state);
    memset(m.h, 0, (size_t)(k->n * k->u * size_of(k->dtype)));
    if (!m.c) memset(m.dc, 0, (size_t)(k->n * k->u) * 4);
    for (int64_t i = 0; i < k->t; i++) {
        LS_TRY(ls_kernel_run(k->part[STATE], queue, inner));
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
        for (int64_t n = 0; n < k->n; n++) forward_sample(k, &m, args[LS_ARG_Y], n, i);
    }
    return LS_OK;
}

// --- backward --------------------------------------------------------------------------------------------------------

// Gradients of both products of sample n at the i-th step that was made; dh and dc go on to the state before it.
static void backward_sample(const recurrent_kernel *k, const memory *m, const char *dy, int64_t n, int64_t i) {
    int64_t at = step_at(k, i), row = n * k->t + at, bytes = k->u * size_of(k->dtype);
    int64_t products = k->gates * size_of(k->dtype);
    float *dh = (float *)(void *)m->h + n * k->u, *c = m->c ? m->c + (n * (1 + k->t) + i) * k->u : NULL;
    char *step = m->step + n * products;
    if (k->sequences)
        ls__recurrent_add(dh, dy + row * bytes, k->dtype, k->u);
    else if (i == k->t - 1)
        ls__recurrent_add(dh, dy + n * bytes, k->dtype, k->u);
    ls_recurrent_back s = {.units = k->u,
                           .gates = m->gates + row * 4 * k->u,
                           .c_before = c,
                           .c = c ? c + k->u : NULL,
                           .h_before = m->states + row * bytes,
                           .dtype = k->dtype,
                           .dh = dh,
                           .dc = (float *)(void *)m->dc + n * k->u,
                           .dinput = m->input + row * products,
                           .dstate = step};
    if (!counts(k, m, n, at)) {
        memset(s.dinput, 0, (size_t)products);
        memset(step, 0, (size_t)products);
    } else if (k->gru) {
        ls__gru_backward(&s);
    } else {
        ls__lstm_backward(&s);
        memcpy(step, s.dinput, (size_t)products);
    }
    if (k->gru) memcpy(m->state + row * products, step, (size_t)products);
}

// The transpose of parameter `w` to where products of gradients take it from.
static ls_status transpose(const recurrent_kernel *k, ls_queue *queue, const ls_span spans[LS_ARG_COUNT], int w,
                           int part) {
    ls_span scratch = spans[LS_ARG_SCRATCH], inner[LS_ARG_COUNT] = {{0}};
    inner[LS_ARG_X] = spans[LS_ARG_W + w];
    inner[LS_ARG_Y] = ls_span_at(scratch, k->at_turned);
    inner[LS_ARG_SCRATCH] = ls_span_at(scratch, k->at_parts);
    return ls_kernel_run(k->turn[part], queue, inner);
}

static ls_status run_steps(const recurrent_kernel *k, ls_queue *queue, const ls_span spans[LS_ARG_COUNT],
                           const memory *m, const char *dy) {
    ls_span scratch = spans[LS_ARG_SCRATCH], inner[LS_ARG_COUNT] = {{0}};
    float *dh = (float *)(void *)m->h;
    inner[LS_ARG_X] = ls_span_at(scratch, k->at_step);
    inner[LS_ARG_W] = ls_span_at(scratch, k->at_turned);
    inner[LS_ARG_Y] = ls_span_at(scratch, k->at_more);
    inner[LS_ARG_SCRATCH] = ls_span_at(scratch, k->at_parts);
    LS_TRY(transpose(k, queue, spans, 1, STATE_DATA));
    memset(dh, 0, (size_t)(k->n * k->u) * 4);
    memset(m->dc, 0, (size_t)(k->n * k->u) * 4);
    for (int64_t i = k->t - 1; i >= 0; i--) {
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
        for (int64_t n = 0; n < k->n; n++) backward_sample(k, m, dy, n, i);
        if (i == 0) break;
        LS_TRY(ls_kernel_run(k->part[STATE_DATA], queue, inner));
        ls__recurrent_add(dh, m->more, k->part[STATE_DATA]->layout[LS_ARG_Y]->dtype, k->n * k->u);
    }
    return LS_OK;
}

// Gradients of the input and its kernel: of all vectors, or of the table's rows.
static ls_status run_input(const recurrent_kernel *k, ls_queue *queue, const ls_span spans[LS_ARG_COUNT],
                           void *const args[LS_ARG_COUNT], const memory *m) {
    ls_span scratch = spans[LS_ARG_SCRATCH], inner[LS_ARG_COUNT] = {{0}};
    float *sums = (float *)(void *)((char *)args[LS_ARG_SCRATCH] + k->at_sums);
    inner[LS_ARG_SCRATCH] = ls_span_at(scratch, k->at_parts);
    ls_span dy = ls_span_at(scratch, k->table ? k->at_dproducts : k->at_input);
    ls_span dx = k->table ? ls_span_at(scratch, k->at_drows) : spans[LS_ARG_DX];
    if (k->table) sum_products(k, m, sums, ls_span_host(dy));
    LS_TRY(transpose(k, queue, spans, 0, INPUT_DATA));
    inner[LS_ARG_X] = dy;
    inner[LS_ARG_W] = ls_span_at(scratch, k->at_turned);
    inner[LS_ARG_Y] = dx;
    LS_TRY(ls_kernel_run(k->part[INPUT_DATA], queue, inner));
    inner[LS_ARG_X] = k->table ? ls_span_at(scratch, k->at_rows) : spans[LS_ARG_X];
    inner[LS_ARG_DY] = dy;
    inner[LS_ARG_DW] = spans[LS_ARG_DW];
    if (k->table) {
        int32_t *first = first_of(k, args);
        gather(k, m->numbers, args[LS_ARG_X], first, ls_span_host(inner[LS_ARG_X]));
        scatter(k, first, ls_span_host(dx), args[LS_ARG_DX]);
        ls__recurrent_sum(sums, LS_DTYPE_F32, k->table, k->gates, args[LS_ARG_DW + 2]);
    } else {
        ls__recurrent_sum(m->input, k->dtype, k->n * k->t, k->gates, args[LS_ARG_DW + 2]);
    }
    return ls_kernel_run(k->part[INPUT_WEIGHTS], queue, inner);
}

static ls_status run_backward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const recurrent_kernel *k = (const recurrent_kernel *)kernel;
    memory m = memory_of(k, args);
    ls_span scratch = spans[LS_ARG_SCRATCH], inner[LS_ARG_COUNT] = {{0}};
    LS_TRY(run_steps(k, queue, spans, &m, args[LS_ARG_DY]));
    ls_span dinput = ls_span_at(scratch, k->at_input), dstate = ls_span_at(scratch, k->at_state);
    LS_TRY(run_input(k, queue, spans, args, &m));
    inner[LS_ARG_SCRATCH] = ls_span_at(scratch, k->at_parts);
    inner[LS_ARG_DY] = k->gru ? dstate : dinput;
    inner[LS_ARG_X] = ls_span_at(spans[LS_ARG_WORKSPACE], k->at_states);
    inner[LS_ARG_DW] = spans[LS_ARG_DW + 1];
    LS_TRY(ls_kernel_run(k->part[STATE_WEIGHTS], queue, inner));
    if (k->gru) ls__recurrent_sum(m.state, k->dtype, k->n * k->t, k->gates, (float *)args[LS_ARG_DW + 2] + k->gates);
    return LS_OK;
}

static void destroy(ls_kernel *kernel) {
    recurrent_kernel *k = (recurrent_kernel *)kernel;
    for (int i = 0; i < PARTS; i++) {
        ls_kernel_destroy(&k->part[i]);
        ls_kernel_destroy(&k->turn[i]);
    }
    free(k);
}

// --- making it -------------------------------------------------------------------------------------------------------

// A dense layer of `rows` rows by a matrix (channels, units), with a bias or without; all rows lie one after the other.
static ls_kernel_spec dense(ls_pass pass, int64_t rows, ls_shape matrix, ls_dtype dtype, int bias) {
    ls_kernel_spec spec = {.op = LS_OP_DENSE, .pass = pass, .x_count = 1, .y_count = 1, .w_count = 1 + bias};
    *(ls_dense_attrs *)(void *)spec.attrs.bytes = (ls_dense_attrs){.units = (int)matrix.dim[1], .no_bias = !bias};
    spec.x[0] = (ls_tensor_type){LS_SHAPE(rows, matrix.dim[0]), dtype, dtype};
    spec.y[0] = (ls_tensor_type){LS_SHAPE(rows, matrix.dim[1]), LS_DTYPE_F32, dtype};
    spec.w[0] = (ls_tensor_type){matrix, dtype, LS_DTYPE_F32};
    spec.w[1] = (ls_tensor_type){LS_SHAPE(matrix.dim[1]), LS_DTYPE_F32, LS_DTYPE_F32};
    return spec;
}

// Such a part by parameter `w`, which is taken, or its gradient given, as the library likes best.
static ls_status add_part(ls_cpu *cpu, const ls_kernel_spec *spec, recurrent_kernel *k, int index, ls_pass pass,
                          int64_t rows, int w, int bias) {
    ls_kernel_spec part = dense(pass, rows, spec->w[w].shape, k->dtype, bias);
    LS_TRY(ls__cpu_conv2d_create(cpu, &part, &k->part[index]));
    k->parts = index + 1;
    int weights = pass == LS_PASS_BACKWARD_WEIGHTS;
    k->base.layout[(weights ? LS_ARG_DW : LS_ARG_W) + w] = k->part[index]->layout[weights ? LS_ARG_DW : LS_ARG_W];
    return LS_OK;
}

// The copy of parameter `w`, as forward takes it, to its transpose.
static ls_status add_turn(ls_cpu *cpu, const ls_kernel_spec *spec, recurrent_kernel *k, int index, int64_t rows,
                          int w) {
    ls_kernel_spec forward = dense(LS_PASS_TRAINING, rows, spec->w[w].shape, k->dtype, 0);
    const ls_shape turned = LS_SHAPE(k->gates, spec->w[w].shape.dim[0]);
    const ls_layout *from;
    ls_kernel *kernel;
    ls_md md;
    LS_TRY(ls__cpu_conv2d_create(cpu, &forward, &kernel));
    const ls_layout *taken = kernel->layout[LS_ARG_W];
    ls_kernel_destroy(&kernel);
    LS_TRY(ls__md_transposed(taken->native, &md));
    ls_status status = ls__cpu_layout(cpu, turned, md, &from);
    ls__md_destroy(md);
    LS_TRY(status);
    k->base.layout[LS_ARG_W + w] = taken;
    return ls__cpu_reorder_create(&cpu->base, from, k->part[index]->layout[LS_ARG_W], &k->turn[index]);
}

// Gradients of `rows` rows that parameter `w` multiplies: forward by its transpose. Those of the state, which many steps add to, in F32.
static ls_status add_data_part(ls_cpu *cpu, const ls_kernel_spec *spec, recurrent_kernel *k, int index, int64_t rows,
                               int w) {
    ls_kernel_spec part = dense(LS_PASS_TRAINING, rows, LS_SHAPE(k->gates, spec->w[w].shape.dim[0]), k->dtype, 0);
    if (w == 0) part.y[0].dtype = k->dtype;
    LS_TRY(ls__cpu_conv2d_create(cpu, &part, &k->part[index]));
    k->parts = index + 1;
    return add_turn(cpu, spec, k, index, rows, w);
}

static ls_status add_parts(ls_cpu *cpu, const ls_kernel_spec *spec, recurrent_kernel *k) {
    int64_t all = k->n * k->t, inputs = k->table ? k->table : all;
    if (!k->backward) {
        LS_TRY(add_part(cpu, spec, k, INPUT, LS_PASS_TRAINING, inputs, 0, 1));
        return add_part(cpu, spec, k, STATE, LS_PASS_TRAINING, k->n, 1, k->gru);
    }
    LS_TRY(add_data_part(cpu, spec, k, STATE_DATA, k->n, 1));
    LS_TRY(add_data_part(cpu, spec, k, INPUT_DATA, inputs, 0));
    LS_TRY(add_part(cpu, spec, k, INPUT_WEIGHTS, LS_PASS_BACKWARD_WEIGHTS, inputs, 0, 0));
    return add_part(cpu, spec, k, STATE_WEIGHTS, LS_PASS_BACKWARD_WEIGHTS, all, 1, 0);
}

static ls_status choose_layouts(ls_cpu *cpu, const ls_kernel_spec *spec, recurrent_kernel *k) {
    const ls_layout *x, *y, *b;
    ls_device *d = &cpu->base;
    LS_TRY(d->ops->layout_plain(d, spec->x[0].shape, k->dtype, 0, &x));
    LS_TRY(d->ops->layout_plain(d, spec->y[0].shape, k->dtype, 0, &y));
    LS_TRY(d->ops->layout_plain(d, spec->w[2].shape, LS_DTYPE_F32, 1, &b));
    k->base.layout[LS_ARG_X] = x;
    k->base.layout[k->backward ? LS_ARG_DY : LS_ARG_Y] = y;
    k->base.layout[k->backward ? LS_ARG_DW + 2 : LS_ARG_W + 2] = b;
    if (k->backward) k->base.layout[LS_ARG_DX] = x;
    if (k->masked) LS_TRY(d->ops->layout_plain(d, spec->x[1].shape, LS_DTYPE_I32, 0, &k->base.layout[LS_ARG_X + 1]));
    if (k->table)
        return d->ops->layout_plain(d, LS_SHAPE(k->n, k->t), LS_DTYPE_I32, 0, &k->base.layout[LS_ARG_NUMBERS]);
    return LS_OK;
}

static int64_t take(int64_t *at, int64_t bytes) {
    int64_t from = *at;
    *at += ls_round_up(bytes, LS_ALIGN);
    return from;
}

static void lay_out(recurrent_kernel *k) {
    int64_t rows = k->n * k->t, size = size_of(k->dtype), work = 0, used = 0, turned = 0, most = 0;
    take(&work, rows * 4 * k->u * 4);
    k->at_c = take(&work, k->gru ? 0 : k->n * (1 + k->t) * k->u * 4);
    k->at_states = take(&work, rows * k->u * size);
    if (k->trains || k->backward) k->base.workspace_bytes = work;
    if (!gates_in_place(k))
        k->at_input = take(&used, (k->table && !k->backward ? k->table : rows) * k->gates * (k->backward ? size : 4));
    k->at_state = take(&used, k->backward ? (k->gru ? rows * k->gates * size : 0) : k->n * k->gates * 4);
    k->at_step = take(&used, k->backward ? k->n * k->gates * size : 0);
    k->at_h = take(&used, k->n * k->u * (k->backward ? 4 : size));
    k->at_dc = take(&used, k->n * k->u * 4);
    k->at_more = take(&used, k->backward ? k->n * k->u * 4 : 0);
    k->at_rows = take(&used, k->table * k->c * size);
    k->at_first = take(&used, k->table * 4);
    k->at_drows = take(&used, k->backward ? k->table * k->c * size : 0);
    k->at_sums = take(&used, k->backward ? k->table * k->gates * 4 : 0);
    k->at_dproducts = k->dtype == LS_DTYPE_F32 ? k->at_sums : take(&used, k->backward ? k->table * k->gates * size : 0);
    for (int i = 0; i < PARTS; i++)
        if (k->turn[i] && k->turn[i]->layout[LS_ARG_Y]->bytes > turned) turned = k->turn[i]->layout[LS_ARG_Y]->bytes;
    k->at_turned = take(&used, turned);
    k->at_parts = used;
    for (int i = 0; i < k->parts; i++) {
        if (k->part[i]->scratch_bytes > most) most = k->part[i]->scratch_bytes;
        if (k->turn[i] && k->turn[i]->scratch_bytes > most) most = k->turn[i]->scratch_bytes;
    }
    k->base.scratch_bytes = used + most;
}

ls_status ls__cpu_recurrent_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops forward_ops = {run_forward, destroy}, backward_ops = {run_backward, destroy};
    const ls_recurrent_attrs *a = LS_ATTRS(ls_recurrent_attrs, &spec->attrs);
    const int64_t *x = spec->x[0].shape.dim;
    recurrent_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->backward = spec->pass == LS_PASS_BACKWARD;
    k->trains = spec->pass == LS_PASS_TRAINING;
    k->gru = spec->op == LS_OP_GRU;
    k->backwards = a->backwards;
    k->sequences = a->return_sequences;
    k->masked = spec->x_count > 1;
    k->dtype = spec->x[0].dtype;
    k->n = x[0], k->t = x[1], k->c = x[2], k->u = a->units;
    k->gates = (k->gru ? 3 : 4) * k->u;
    k->threads = cpu->base.options.threads;
    // Where products of the table's rows are half as many, at least. Not in F16, in which a sum of many gradients may not fit.
    if (k->dtype != LS_DTYPE_F16 && 2 * spec->table_rows <= k->n * k->t) k->table = spec->table_rows;
    k->base.ops = k->backward ? &backward_ops : &forward_ops;
    ls_status status = add_parts(cpu, spec, k);
    if (status == LS_OK) status = choose_layouts(cpu, spec, k);
    if (status != LS_OK) {
        destroy(&k->base);
        return status;
    }
    k->base.name = k->part[0]->name;
    lay_out(k);
    k->base.tiles = k->n;
    *out = &k->base;
    return LS_OK;
}
