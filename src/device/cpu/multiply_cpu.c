// Products element by element, in the layout that the first input comes in; what that pads stays zero.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/cpu/loops_impl.h"

typedef struct multiply_kernel {
    ls_kernel base;
    ls_dtype dtype;
    int64_t count;
    int backward, threads;
} multiply_kernel;

LS_INLINE void product_row(ls_dtype dtype, void *y, const void *a, const void *b, int64_t i, int64_t count) {
    row r = load_row(dtype, a, i, count), other = load_row(dtype, b, i, count);
    for (int h = 0; h < 2; h++) r.v[h] *= other.v[h];
    store_row(dtype, y, i, r, count);
}

// Both gradients in one pass: dy is read before the first, which may take its memory over, is written.
LS_INLINE void gradient_row(ls_dtype dtype, void *da, void *db, const void *dy, const void *a, const void *b, int64_t i,
                            int64_t count) {
    row d = load_row(dtype, dy, i, count), first = load_row(dtype, a, i, count), second = load_row(dtype, b, i, count);
    for (int h = 0; h < 2; h++) {
        first.v[h] *= d.v[h];
        second.v[h] *= d.v[h];
    }
    store_row(dtype, da, i, second, count);
    store_row(dtype, db, i, first, count);
}

LS_CLONES static void product(ls_dtype dtype, void *y, const void *a, const void *b, int64_t from, int64_t to) {
    int64_t i = from;
    for (; i + ROW <= to; i += ROW) product_row(dtype, y, a, b, i, ROW);
    if (i < to) product_row(dtype, y, a, b, i, to - i);
}

LS_CLONES static void gradients(ls_dtype dtype, void *da, void *db, const void *dy, const void *a, const void *b,
                                int64_t from, int64_t to) {
    int64_t i = from;
    for (; i + ROW <= to; i += ROW) gradient_row(dtype, da, db, dy, a, b, i, ROW);
    if (i < to) gradient_row(dtype, da, db, dy, a, b, i, to - i);
}

static void run_part(const multiply_kernel *k, void *const args[LS_ARG_COUNT], int64_t from, int64_t to) {
    if (k->backward)
        gradients(k->dtype, args[LS_ARG_DX], args[LS_ARG_DX + 1], args[LS_ARG_DY], args[LS_ARG_X], args[LS_ARG_X + 1],
                  from, to);
    else
        product(k->dtype, args[LS_ARG_Y], args[LS_ARG_X], args[LS_ARG_X + 1], from, to);
}

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const multiply_kernel *k = (const multiply_kernel *)kernel;
    int64_t rows = (k->count + ROW - 1) / ROW;
    if (k->threads <= 1) {
        run_part(k, args, 0, k->count);
        return LS_OK;
    }
#pragma omp parallel for num_threads(k->threads)
    for (int64_t t = 0; t < k->threads; t++) {
        int64_t from = rows * t / k->threads * ROW, to = rows * (t + 1) / k->threads * ROW;
        run_part(k, args, from, to < k->count ? to : k->count);
    }
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

ls_status ls__cpu_multiply_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    int backward = spec->pass == LS_PASS_BACKWARD_DATA;
    const ls_layout *layout = spec->layout[backward ? LS_ARG_DX : LS_ARG_X];
    if (!layout) LS_TRY(cpu->base.ops->layout_plain(&cpu->base, spec->x[0].shape, spec->x[0].dtype, 0, &layout));
    multiply_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &ops;
    k->base.name = "loop:multiply";
    k->dtype = spec->x[0].dtype;
    k->count = layout->bytes / (int64_t)ls_dtype_size(k->dtype);
    k->backward = backward;
    k->threads = cpu->base.options.threads;
    k->base.tiles = (k->count + ROW - 1) / ROW;
    k->base.layout[LS_ARG_X] = k->base.layout[LS_ARG_X + 1] = layout;
    k->base.layout[backward ? LS_ARG_DY : LS_ARG_Y] = layout;
    if (backward) k->base.layout[LS_ARG_DX] = k->base.layout[LS_ARG_DX + 1] = layout;
    ls__cpu_in_place(&k->base, backward ? LS_ARG_DX : LS_ARG_Y, backward ? LS_ARG_DY : LS_ARG_X);
    if (!backward) ls__cpu_in_place(&k->base, LS_ARG_Y, LS_ARG_X + 1);
    *out = &k->base;
    return LS_OK;
}
