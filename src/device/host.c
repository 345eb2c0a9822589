#include "device/host.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/clones.h"
#include "base/error.h"
#include "base/memory.h"

// --- memory ----------------------------------------------------------------------------------------------------------

static ls_status buffer_wrap(ls_device *device, void *memory, int64_t bytes, ls_buffer **out) {
    ls_buffer *b;
    LS_TRY(ls_calloc(1, sizeof *b, &b));
    *b = (ls_buffer){.device = device, .bytes = bytes, .memory = memory, .borrowed = 1};
    *out = b;
    return LS_OK;
}

static ls_status buffer_create(ls_device *device, int64_t bytes, ls_buffer **out) {
    void *memory;
    LS_TRY(ls_memory_alloc(bytes, &memory));
    ls_status status = buffer_wrap(device, memory, bytes, out);
    if (status != LS_OK) {
        ls_memory_free(memory);
        return status;
    }
    (*out)->borrowed = 0;
    return LS_OK;
}

static void buffer_destroy(ls_buffer *buffer) {
    if (!buffer->borrowed) ls_memory_free(buffer->memory);
    free(buffer);
}

// --- order -----------------------------------------------------------------------------------------------------------

static ls_status queue_create(ls_device *device, ls_queue **out) {
    LS_TRY(ls_calloc(1, sizeof **out, out));
    (*out)->device = device;
    return LS_OK;
}

static void queue_destroy(ls_queue *queue) { free(queue); }

static ls_status event_create(ls_device *device, ls_event **out) {
    LS_TRY(ls_calloc(1, sizeof **out, out));
    (*out)->device = device;
    return LS_OK;
}

static void event_destroy(ls_event *event) { free(event); }

// All was done when it was asked for.
static ls_status synchronize(ls_queue *queue) { return LS_OK; }
static ls_status event_on_queue(ls_queue *queue, ls_event *event) { return LS_OK; }
static ls_status event_synchronize(ls_event *event) { return LS_OK; }

// --- copies ----------------------------------------------------------------------------------------------------------

static ls_status write_span(ls_queue *queue, ls_span to, const void *from, int64_t bytes) {
    memcpy(ls_span_host(to), from, (size_t)bytes);
    return LS_OK;
}

static ls_status read_span(ls_queue *queue, void *to, ls_span from, int64_t bytes) {
    memcpy(to, ls_span_host(from), (size_t)bytes);
    return LS_OK;
}

static ls_status copy(ls_queue *queue, ls_span to, ls_span from, int64_t bytes) {
    memmove(ls_span_host(to), ls_span_host(from), (size_t)bytes);
    return LS_OK;
}

static ls_status zero(ls_queue *queue, ls_span to, int64_t bytes) {
    memset(ls_span_host(to), 0, (size_t)bytes);
    return LS_OK;
}

const ls_memory_ops ls__host_memory = {
    .buffer_create = buffer_create,
    .buffer_wrap = buffer_wrap,
    .buffer_destroy = buffer_destroy,
    .queue_create = queue_create,
    .queue_destroy = queue_destroy,
    .synchronize = synchronize,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_on_queue,
    .event_wait = event_on_queue,
    .event_synchronize = event_synchronize,
    .write = write_span,
    .read = read_span,
    .copy = copy,
    .zero = zero,
};

// --- vector functions ------------------------------------------------------------------------------------------------

LS_CLONES static void add_two(float *restrict out, const float *restrict a, const float *restrict b, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = a[i] + b[i];
}

LS_CLONES static void add_to(float *restrict out, const float *restrict b, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] += b[i];
}

void ls__host_add(float *out, const float *a, const float *b, int64_t n) {
    assert(out || !n);
    if (out == a)
        add_to(out, b, n);
    else
        add_two(out, a, b, n);
}

LS_CLONES static void add_two_bf16(float *restrict out, const float *restrict a, const float *restrict b, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = ls_bf16_round(ls_bf16_round(a[i]) + ls_bf16_round(b[i]));
}

LS_CLONES static void add_to_bf16(float *restrict out, const float *restrict b, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = ls_bf16_round(ls_bf16_round(out[i]) + ls_bf16_round(b[i]));
}

LS_CLONES static void pack_bf16(ls_bf16 *restrict out, const float *restrict a, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = ls_float_to_bf16(a[i]);
}

LS_CLONES static void unpack_bf16(float *restrict out, const ls_bf16 *restrict a, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = ls_bf16_to_float(a[i]);
}

LS_CLONES void ls__host_scale(float *out, const float *a, float factor, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = a[i] * factor;
}

LS_CLONES static void sum_units(double *restrict sums, const float *restrict x, int64_t units) {
    for (int64_t u = 0; u < units; u++) {
        double s[LS_VECTOR_ALIGN];
        for (int i = 0; i < LS_VECTOR_ALIGN; i++)
            s[i] = (double)x[u * LS_VECTOR_ALIGN + i] * x[u * LS_VECTOR_ALIGN + i];
        for (int half = LS_VECTOR_ALIGN / 2; half > 0; half /= 2)
            for (int i = 0; i < half; i++) s[i] += s[i + half];
        sums[u] = s[0];
    }
}

static double sum_tree(double *x, int64_t n) {
    for (int64_t step = 1; step < n; step *= 2)
        for (int64_t i = 0; i + step < n; i += 2 * step) x[i] += x[i + step];
    return x[0];
}

// An exponent of ones is that of infinities and of what is no number. Whether there is one: bits, so that compilers make vectors of it.
LS_CLONES static uint32_t any_not_finite(const uint32_t *restrict bits, int64_t n) {
    uint32_t found = 0;
    for (int64_t i = 0; i < n; i++) found |= (uint32_t)((bits[i] & 0x7f800000u) == 0x7f800000u);
    return found;
}

static void host_add_bf16(float *out, const float *a, const float *b, int64_t n) {
    if (out == a)
        add_to_bf16(out, b, n);
    else
        add_two_bf16(out, a, b, n);
}

// --- shared by threads -----------------------------------------------------------------------------------------------

enum { LEAST_SHARED = 1 << 13 };  // floats: what is shorter is done before other threads have begun

// Vectors are as long as the weights: the thread's team shares them, in units of LS_VECTOR_ALIGN.
typedef void (*part_fn)(void *user, int64_t from, int64_t n);

static void share(const ls_queue *queue, int64_t n, part_fn part, void *user) {
    int64_t threads = queue->threads, units = n / LS_VECTOR_ALIGN;
    if (threads <= 1 || n < LEAST_SHARED) {
        part(user, 0, n);
        return;
    }
#pragma omp parallel for num_threads((int)threads)
    for (int64_t t = 0; t < threads; t++) {
        int64_t from = units * t / threads * LS_VECTOR_ALIGN;
        int64_t to = t + 1 == threads ? n : units * (t + 1) / threads * LS_VECTOR_ALIGN;
        part(user, from, to - from);
    }
}

typedef struct two_spans {
    void (*add)(float *, const float *, const float *, int64_t);
    float *out;
    const float *a, *b;
    float factor;
} two_spans;

static void add_part(void *user, int64_t from, int64_t n) {
    const two_spans *x = user;
    x->add(x->out + from, x->a + from, x->b + from, n);
}

static ls_status vector_add(ls_queue *queue, ls_span out, ls_span a, ls_span b, int64_t n) {
    two_spans x = {.add = ls__host_add, .out = ls_span_host(out), .a = ls_span_host(a), .b = ls_span_host(b)};
    share(queue, n, add_part, &x);
    return LS_OK;
}

static ls_status vector_add_bf16(ls_queue *queue, ls_span out, ls_span a, ls_span b, int64_t n) {
    two_spans x = {.add = host_add_bf16, .out = ls_span_host(out), .a = ls_span_host(a), .b = ls_span_host(b)};
    share(queue, n, add_part, &x);
    return LS_OK;
}

static void scale_part(void *user, int64_t from, int64_t n) {
    const two_spans *x = user;
    ls__host_scale(x->out + from, x->a + from, x->factor, n);
}

static ls_status vector_scale(ls_queue *queue, ls_span out, ls_span a, float factor, int64_t n) {
    two_spans x = {.out = ls_span_host(out), .a = ls_span_host(a), .factor = factor};
    share(queue, n, scale_part, &x);
    return LS_OK;
}

typedef struct squares {
    double *sums;
    const float *x;
} squares;

static void squares_part(void *user, int64_t from, int64_t n) {
    const squares *q = user;
    sum_units(q->sums + from / LS_VECTOR_ALIGN, q->x + from, n / LS_VECTOR_ALIGN);
}

static ls_status vector_sum_squares(ls_queue *queue, ls_span sums, ls_span x, const int64_t *units, int64_t count) {
    squares q = {ls_span_host(sums), ls_span_host(x)};
    int64_t all = 0;
    for (int64_t i = 0; i < count; i++) all += units[i];
    share(queue, all * LS_VECTOR_ALIGN, squares_part, &q);
    double *at = q.sums;
    for (int64_t i = 0; i < count; at += units[i++]) q.sums[i] = sum_tree(at, units[i]);
    return LS_OK;
}

typedef struct search {
    const uint32_t *bits;
    _Atomic uint32_t any;
} search;

static void search_part(void *user, int64_t from, int64_t n) {
    search *s = user;
    if (any_not_finite(s->bits + from, n)) s->any = 1;
}

static ls_status vector_find_not_finite(ls_queue *queue, ls_span found, ls_span x, int64_t first, int64_t n) {
    search s = {.bits = ls_span_host(x)};
    int64_t *at = ls_span_host(found), i = 0;
    share(queue, n, search_part, &s);
    if (!s.any) return LS_OK;
    while ((s.bits[i] & 0x7f800000u) != 0x7f800000u) i++;
    if (*at == 0 || first + i + 1 < *at) *at = first + i + 1;
    return LS_OK;
}

typedef struct application {
    const ls_formula *formula;
    const void *arguments;
    float *x[LS_MAX_FORMULA_SPANS];
} application;

static void apply_part(void *user, int64_t from, int64_t n) {
    const application *a = user;
    float *x[LS_MAX_FORMULA_SPANS];
    for (int i = 0; i < LS_MAX_FORMULA_SPANS; i++) x[i] = a->x[i] ? a->x[i] + from : NULL;
    a->formula->host(a->arguments, n, x);
}

static ls_status vector_apply(ls_queue *queue, const ls_formula *formula, const void *arguments, int64_t argument_bytes,
                              const ls_span *x, int count, int64_t n) {
    application a = {.formula = formula, .arguments = arguments};
    for (int i = 0; i < count; i++) a.x[i] = ls_span_host(x[i]);
    share(queue, n, apply_part, &a);
    return LS_OK;
}

// --- by the calling thread -------------------------------------------------------------------------------------------

static ls_status vector_pack_bf16(ls_queue *queue, ls_span out, ls_span a, int64_t n) {
    pack_bf16(ls_span_host(out), ls_span_host(a), n);
    return LS_OK;
}

static ls_status vector_unpack_bf16(ls_queue *queue, ls_span out, ls_span a, int64_t n) {
    unpack_bf16(ls_span_host(out), ls_span_host(a), n);
    return LS_OK;
}

static ls_status vector_keep_largest(ls_queue *queue, ls_span x, ls_span rest, float scale, float back, int64_t n,
                                     int64_t keep) {
    ls__host_keep_largest(ls_span_host(x), ls_span_host(rest), scale, back, n, keep);
    return LS_OK;
}

const ls_vector_ops ls__host_vector = {
    .add = vector_add,
    .scale = vector_scale,
    .add_bf16 = vector_add_bf16,
    .pack_bf16 = vector_pack_bf16,
    .unpack_bf16 = vector_unpack_bf16,
    .keep_largest = vector_keep_largest,
    .sum_squares = vector_sum_squares,
    .find_not_finite = vector_find_not_finite,
    .apply = vector_apply,
};
