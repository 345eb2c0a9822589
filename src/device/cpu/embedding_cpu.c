// Rows of a table, and gradients added to them, one number after the other. Threads share out the columns, so no sum has another order.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/cpu/loops_impl.h"

typedef struct embedding_kernel {
    ls_kernel base;
    ls_dtype dtype;
    int64_t count, rows, width;
    int threads;
} embedding_kernel;

static ls_status check(const embedding_kernel *k, const int32_t *numbers) {
    for (int64_t i = 0; i < k->count; i++)
        if (numbers[i] < 0 || numbers[i] >= k->rows)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "an embedding of %lld rows has none of number %d",
                           (long long)k->rows, (int)numbers[i]);
    return LS_OK;
}

static ls_status run_forward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const embedding_kernel *k = (const embedding_kernel *)kernel;
    const int32_t *numbers = args[LS_ARG_X];
    const char *table = args[LS_ARG_W];
    char *y = args[LS_ARG_Y];
    int64_t row_bytes = k->width * (int64_t)ls_dtype_size(k->dtype);
    LS_TRY(check(k, numbers));
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
    for (int64_t i = 0; i < k->count; i++) memcpy(y + i * row_bytes, table + numbers[i] * row_bytes, (size_t)row_bytes);
    return LS_OK;
}

// Columns [from, to) of all rows.
LS_CLONES static void add_columns(const embedding_kernel *k, const int32_t *numbers, const void *dy, float *dw,
                                  int64_t from, int64_t to) {
    for (int64_t r = 0; r < k->rows; r++) memset(dw + r * k->width + from, 0, (size_t)(to - from) * sizeof *dw);
    for (int64_t i = 0; i < k->count; i++) {
        int64_t row_at = numbers[i] * k->width;
        for (int64_t c = from; c < to; c += 16) {
            int64_t lanes = to - c < 16 ? to - c : 16;
            v16f sum =
                load_lanes(LS_DTYPE_F32, dw, row_at + c, lanes) + load_lanes(k->dtype, dy, i * k->width + c, lanes);
            store_lanes(LS_DTYPE_F32, dw, row_at + c, sum, lanes);
        }
    }
}

static ls_status run_backward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const embedding_kernel *k = (const embedding_kernel *)kernel;
    int64_t pieces = (k->width + 15) / 16;
    LS_TRY(check(k, args[LS_ARG_X]));
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
    for (int64_t t = 0; t < k->threads; t++) {
        int64_t from = pieces * t / k->threads * 16, to = pieces * (t + 1) / k->threads * 16;
        if (to > k->width) to = k->width;
        if (to > from) add_columns(k, args[LS_ARG_X], args[LS_ARG_DY], args[LS_ARG_DW], from, to);
    }
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

static ls_status choose_layouts(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel *kernel) {
    int backward = spec->pass == LS_PASS_BACKWARD_WEIGHTS;
    ls_dtype dtype = backward ? LS_DTYPE_F32 : spec->w[0].dtype;
    const ls_device_ops *ops = cpu->base.ops;
    LS_TRY(ops->layout_plain(&cpu->base, spec->x[0].shape, LS_DTYPE_I32, 0, &kernel->layout[LS_ARG_X]));
    LS_TRY(ops->layout_plain(&cpu->base, spec->w[0].shape, dtype, 1, &kernel->layout[backward ? LS_ARG_DW : LS_ARG_W]));
    return ops->layout_plain(&cpu->base, spec->y[0].shape, spec->y[0].gradient, 0,
                             &kernel->layout[backward ? LS_ARG_DY : LS_ARG_Y]);
}

ls_status ls__cpu_embedding_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops forward_ops = {run_forward, destroy}, backward_ops = {run_backward, destroy};
    int backward = spec->pass == LS_PASS_BACKWARD_WEIGHTS;
    embedding_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    ls_status status = choose_layouts(cpu, spec, &k->base);
    if (status != LS_OK) {
        free(k);
        return status;
    }
    k->base.ops = backward ? &backward_ops : &forward_ops;
    k->base.name = "loop:embedding";
    k->dtype = spec->y[0].gradient;
    k->count = ls_shape_count(spec->x[0].shape);
    k->rows = spec->w[0].shape.dim[0];
    k->width = spec->w[0].shape.dim[1];
    k->threads = cpu->base.options.threads;
    k->base.tiles = backward ? (k->width + 15) / 16 : k->count;
    *out = &k->base;
    return LS_OK;
}
