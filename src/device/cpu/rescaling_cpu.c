// x * scale + offset, in double between one rounding and the next. Where an offset would fill what a layout pads, rows are plain.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/blocks_impl.h"
#include "device/cpu/cpu.h"

typedef struct rescaling_kernel {
    ls_kernel base;
    ls_dtype dtype;
    int64_t count;
    double scale, offset;
    ls_arg from, to;
    int threads;
} rescaling_kernel;

LS_CLONES static void rescale(const rescaling_kernel *k, void *to, const void *from, int64_t begin, int64_t end) {
    float v[BLOCK];
    for (int64_t i = begin; i < end; i += BLOCK) {
        int64_t count = end - i < BLOCK ? end - i : BLOCK;
        load_block(k->dtype, from, i, count, v);
        for (int j = 0; j < BLOCK; j++) v[j] = (float)((double)v[j] * k->scale + k->offset);
        store_block(k->dtype, to, i, count, v);
    }
}

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const rescaling_kernel *k = (const rescaling_kernel *)kernel;
    int64_t blocks = (k->count + BLOCK - 1) / BLOCK;
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
    for (int64_t t = 0; t < k->threads; t++) {
        int64_t end = blocks * (t + 1) / k->threads * BLOCK;
        rescale(k, args[k->to], args[k->from], blocks * t / k->threads * BLOCK, end < k->count ? end : k->count);
    }
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

ls_status ls__cpu_rescaling_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    const ls_rescaling_attrs *a = LS_ATTRS(ls_rescaling_attrs, &spec->attrs);
    int backward = spec->pass == LS_PASS_BACKWARD_DATA;
    const ls_layout *given = spec->layout[backward ? LS_ARG_DX : LS_ARG_X], *layout;
    int64_t size = (int64_t)ls_dtype_size(spec->x[0].dtype);
    LS_TRY(cpu->base.ops->layout_plain(&cpu->base, spec->x[0].shape, spec->x[0].dtype, 0, &layout));
    if (given && (a->offset == 0 || given->bytes == ls_shape_count(spec->x[0].shape) * size)) layout = given;
    rescaling_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &ops;
    k->base.name = "loop:rescaling";
    k->dtype = spec->x[0].dtype;
    k->count = layout->bytes / size;
    k->scale = a->scale;
    k->offset = backward ? 0 : a->offset;
    k->from = backward ? LS_ARG_DY : LS_ARG_X;
    k->to = backward ? LS_ARG_DX : LS_ARG_Y;
    k->threads = cpu->base.options.threads;
    k->base.tiles = (k->count + BLOCK - 1) / BLOCK;
    k->base.layout[k->from] = k->base.layout[k->to] = layout;
    ls__cpu_in_place(&k->base, k->to, k->from);
    *out = &k->base;
    return LS_OK;
}
