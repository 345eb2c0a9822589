#include "device/cpu/table.h"

#include <stdlib.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "base/bf16.h"
#include "base/fp16.h"
#include "base/memory.h"

enum { NUMBERS = 65536 };

struct ls_cpu_table {
    ls_cpu_table *next;
    ls_table_fn f;
    ls_dtype dtype, values;
    _Alignas(64) float value[];  // or numbers of 16 bits
};

// F32 numbers as f is to see them, with 1 for `times`: a backward pass is f's derivative then.
static int fill32(ls_cpu_table *t) {
    float *x = malloc(NUMBERS * sizeof *x), *one = malloc(NUMBERS * sizeof *one);
    for (int i = 0; x && one && i < NUMBERS; i++) {
        x[i] = t->dtype == LS_DTYPE_BF16 ? ls_bf16_to_float((ls_bf16)i) : ls_fp16_to_float((ls_fp16)i);
        one[i] = 1;
    }
    if (x && one) t->f(LS_DTYPE_F32, t->value, x, one, NUMBERS);
    int filled = x && one;
    free(x);
    free(one);
    return filled;
}

static int fill16(ls_cpu_table *t) {
    uint16_t *x = (uint16_t *)(void *)t->value;
    for (int i = 0; i < NUMBERS; i++) x[i] = (uint16_t)i;
    t->f(t->dtype, x, x, NULL, NUMBERS);
    return 1;
}

static ls_cpu_table *make(ls_table_fn f, ls_dtype dtype, ls_dtype values) {
    ls_cpu_table *t = aligned_alloc(64, sizeof *t + NUMBERS * (values == LS_DTYPE_F32 ? 4 : 2));
    if (!t) return NULL;
    t->f = f, t->dtype = dtype, t->values = values;
#if defined(__x86_64__)
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);
#endif
    int filled = values == LS_DTYPE_F32 ? fill32(t) : fill16(t);
#if defined(__x86_64__)
    _mm_setcsr(before);
#endif
    if (filled) return t;
    free(t);
    return NULL;
}

const void *ls__cpu_table(ls_cpu *cpu, ls_table_fn f, ls_dtype dtype, ls_dtype values) {
    if (ls_dtype_size(dtype) != 2) return NULL;
    pthread_mutex_lock(&cpu->mutex);
    ls_cpu_table *t = cpu->tables;
    while (t && (t->f != f || t->dtype != dtype || t->values != values)) t = t->next;
    if (!t && (t = make(f, dtype, values)) != NULL) {
        t->next = cpu->tables;
        cpu->tables = t;
    }
    pthread_mutex_unlock(&cpu->mutex);
    return t ? t->value : NULL;
}

void ls__cpu_tables_free(ls_cpu *cpu) {
    for (ls_cpu_table *t = cpu->tables, *next; t; t = next) {
        next = t->next;
        free(t);
    }
    cpu->tables = NULL;
}
