#include "device/cpu/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/error.h"
#include "base/fp16.h"
#include "base/limits.h"
#include "base/memory.h"

// What an answer is remembered by. Compared by bytes: made of zeros before it is filled in.
typedef struct question {
    ls_op_kind op;
    ls_pass pass;
    int parts, activation, mask_dx, residual;
    ls_attrs attrs;
    ls_shape x, y;
    const ls_layout *layout[LS_ARG_COUNT];
    char name[64];
} question;

struct ls_cpu_trial {
    ls_cpu_trial *next;
    question asked;
    int same;
};

static void ask(const ls_kernel_spec *spec, const ls_kernel *whole, int parts, question *q) {
    memset(q, 0, sizeof *q);
    q->op = spec->op;
    q->pass = spec->pass;
    q->parts = parts;
    q->activation = (int)spec->activation;
    q->mask_dx = spec->mask_dx;
    q->residual = spec->residual;
    q->attrs = spec->attrs;
    memset(q->attrs.bytes, 0, sizeof(char *));  // its name, with which every kind's attributes begin
    q->x = spec->x[0].shape;
    q->y = spec->y[0].shape;
    memcpy(q->layout, whole->layout, sizeof q->layout);
    snprintf(q->name, sizeof q->name, "%s", whole->name);
}

static int is_known(ls_cpu *cpu, const question *q, int *same) {
    int known = 0;
    pthread_mutex_lock(&cpu->mutex);
    for (const ls_cpu_trial *t = cpu->trials; t && !known; t = t->next)
        if (memcmp((const char *)&t->asked, (const char *)q, sizeof *q) == 0) known = 1, *same = t->same;
    pthread_mutex_unlock(&cpu->mutex);
    return known;
}

static void remember(ls_cpu *cpu, const question *q, int same) {
    ls_cpu_trial *t = calloc(1, sizeof *t);
    if (!t) return;  // it will be tried again
    memcpy(&t->asked, q, sizeof *q);
    t->same = same;
    pthread_mutex_lock(&cpu->mutex);
    t->next = cpu->trials;
    cpu->trials = t;
    pthread_mutex_unlock(&cpu->mutex);
}

void ls__cpu_trials_free(ls_cpu *cpu) {
    for (ls_cpu_trial *t = cpu->trials, *next; t; t = next) {
        next = t->next;
        free(t);
    }
    cpu->trials = NULL;
}

// --- numbers ---------------------------------------------------------------------------------------------------------

// Between -1 and 1, from the number of the element by multiplying and shifting: they need not be good, only many and different.
static inline float drawn(uint32_t i, uint32_t of) {
    uint32_t h = (i + 0x9E3779B9u * of) * 0x85EBCA6Bu;
    h = (h ^ (h >> 15)) * 0xC2B2AE35u;
    h = (h ^ (h >> 13)) * 0x27D4EB2Fu;
    return (float)(int32_t)(h ^ (h >> 16)) * 0x1p-31f;
}

static void draw(const ls_layout *layout, uint32_t of, ls_span to) {
    int64_t count = layout->bytes / (int64_t)ls_dtype_size(layout->dtype);
    float *floats = ls_span_host(to);
    uint16_t *halves = ls_span_host(to);
    for (int64_t i = 0; i < count; i++) {
        float number = drawn((uint32_t)i, of);
        if (layout->dtype == LS_DTYPE_F32)
            floats[i] = number;
        else
            halves[i] = layout->dtype == LS_DTYPE_F16 ? ls_float_to_fp16(number) : ls_float_to_bf16(number);
    }
}

// --- running ---------------------------------------------------------------------------------------------------------

static int is_result(int arg) { return arg >= LS_ARG_Y && arg < LS_ARG_DY; }

// Memory for what both read, and for the results of each.
typedef struct memory {
    ls_span one[LS_ARG_COUNT], other[LS_ARG_COUNT];
} memory;

// Half of what the host has left, which other workers may want as well, is more than a pass has in a job that fits: such a job is refused when its plans are made, and would only wait here.
static int is_too_large(const ls_kernel *whole, const ls_kernel *cut) {
    double limit = ls_limits_memory_left(),
           bytes = (double)(whole->scratch_bytes > cut->scratch_bytes ? whole->scratch_bytes : cut->scratch_bytes);
    for (int i = 0; i < LS_ARG_COUNT; i++)
        if (whole->layout[i]) bytes += (double)whole->layout[i]->bytes * (is_result(i) ? 2 : 1);
    return limit > 0 && bytes > limit / 2;
}

static ls_status prepare(ls_cpu *cpu, const ls_kernel *whole, const ls_kernel *cut, memory *m) {
    int64_t scratch = whole->scratch_bytes > cut->scratch_bytes ? whole->scratch_bytes : cut->scratch_bytes;
    if (scratch) LS_TRY(ls_buffer_create(&cpu->base, scratch, &m->one[LS_ARG_SCRATCH].buffer));
    m->other[LS_ARG_SCRATCH] = m->one[LS_ARG_SCRATCH];
    for (int i = 0; i < LS_ARG_COUNT; i++) {
        const ls_layout *layout = whole->layout[i];
        if (!layout) continue;
        LS_TRY(ls_buffer_create(&cpu->base, layout->bytes, &m->one[i].buffer));
        m->other[i] = m->one[i];
        if (!is_result(i)) {
            draw(layout, (uint32_t)i, m->one[i]);
            continue;
        }
        m->other[i].buffer = NULL;
        LS_TRY(ls_buffer_create(&cpu->base, layout->bytes, &m->other[i].buffer));
    }
    return LS_OK;
}

static void release(memory *m) {
    for (int i = 0; i < LS_ARG_COUNT; i++) {
        if (m->other[i].buffer != m->one[i].buffer) ls_buffer_destroy(&m->other[i].buffer);
        ls_buffer_destroy(&m->one[i].buffer);
    }
}

static ls_status try_both(ls_cpu *cpu, ls_kernel *whole, ls_kernel *cut, memory *m, int *same) {
    ls_queue *queue;
    LS_TRY(ls_queue_create(&cpu->base, &queue));
    ls_status status = ls_kernel_run(whole, queue, m->one);
    if (status == LS_OK) status = ls_kernel_run(cut, queue, m->other);
    ls_queue_destroy(&queue);
    *same = status == LS_OK;
    for (int i = 0; i < LS_ARG_COUNT && *same; i++)
        if (is_result(i) && whole->layout[i])
            *same = memcmp(ls_span_host(m->one[i]), ls_span_host(m->other[i]), (size_t)whole->layout[i]->bytes) == 0;
    return status;
}

ls_status ls__cpu_same_bits(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel *whole, ls_kernel *cut, int parts,
                            int *same) {
    question q;
    ask(spec, whole, parts, &q);
    if (is_known(cpu, &q, same)) return LS_OK;
    memory m = {.one = {{0}}};
    *same = 0;
    if (is_too_large(whole, cut)) return LS_OK;
    ls_status status = prepare(cpu, whole, cut, &m);
    if (status == LS_OK) status = try_both(cpu, whole, cut, &m, same);
    release(&m);
    if (status == LS_OK) remember(cpu, &q, *same);
    return status == LS_STATUS_OUT_OF_MEMORY ? LS_OK : status;  // one thread needs no more than was planned
}
