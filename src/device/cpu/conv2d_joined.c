#include "device/cpu/conv2d_joined.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/conv2d_parts.h"

typedef struct joined_kernel {
    ls_kernel base;
    ls_kernel *one;                      // over the one image
    int64_t images, x_blocks, y_blocks;  // of so many channel blocks
    int64_t plane;                       // bytes of one block of one image
    int64_t x_bytes, y_bytes;            // of X and of DY
    int threads;
} joined_kernel;

// (images, blocks, plane) to (blocks, images, plane).
static void join_images(const joined_kernel *k, char *restrict to, const char *restrict from, int64_t blocks) {
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
    for (int64_t b = 0; b < blocks; b++)
        for (int64_t i = 0; i < k->images; i++)
            memcpy(to + (b * k->images + i) * k->plane, from + (i * blocks + b) * k->plane, (size_t)k->plane);
}

static ls_status joined_run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const joined_kernel *k = (const joined_kernel *)kernel;
    ls_span inner[LS_ARG_COUNT];
    memcpy(inner, spans, sizeof inner);
    inner[LS_ARG_X] = spans[LS_ARG_SCRATCH];
    inner[LS_ARG_DY] = ls_span_at(inner[LS_ARG_X], k->x_bytes);
    inner[LS_ARG_SCRATCH] = ls_span_at(inner[LS_ARG_DY], k->y_bytes);
    join_images(k, ls_span_host(inner[LS_ARG_X]), args[LS_ARG_X], k->x_blocks);
    join_images(k, ls_span_host(inner[LS_ARG_DY]), args[LS_ARG_DY], k->y_blocks);
    return ls_kernel_run(k->one, queue, inner);
}

static void joined_destroy(ls_kernel *kernel) {
    joined_kernel *k = (joined_kernel *)kernel;
    ls_kernel_destroy(&k->one);
    free(k);
}

// With 4x4 images and 0.5 to 2 million weights in bf16 it took 0.5 to 0.9 of the time, with 8x8 as long; in fp32 the arithmetic
// lasts twice as long.
static int joining_pays(const ls_kernel_spec *spec) {
    const ls_conv2d_attrs *a = LS_ATTRS(ls_conv2d_attrs, &spec->attrs);
    return spec->op == LS_OP_CONV2D && spec->pass == LS_PASS_BACKWARD_WEIGHTS && spec->x[0].dtype == LS_DTYPE_BF16 &&
           a->kernel[0] == 1 && a->kernel[1] == 1 && a->groups == 1 &&
           ls_shape_equal(spec->y[0].shape, LS_SHAPE(spec->x[0].shape.dim[0], spec->x[0].shape.dim[1],
                                                     spec->x[0].shape.dim[2], a->filters)) &&
           spec->x[0].shape.dim[0] > 1 && spec->x[0].shape.dim[1] * spec->x[0].shape.dim[2] <= 32 &&
           spec->x[0].shape.dim[3] % 16 == 0 && a->filters % 16 == 0 && spec->x[0].shape.dim[3] * a->filters >= 1 << 19;
}

ls_status ls__cpu_conv2d_joined_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_cpu_create_fn create,
                                       ls_kernel **out) {
    static const ls_kernel_ops ops = {joined_run, joined_destroy};
    ls_kernel_spec one = *spec;
    const ls_layout *x, *dy;
    *out = NULL;
    if (!joining_pays(spec)) return LS_OK;
    LS_TRY(ls__cpu_layout_tag(cpu, spec->x[0].shape, spec->x[0].dtype, 0, dnnl_nChw16c, &x));
    LS_TRY(ls__cpu_layout_tag(cpu, spec->y[0].shape, spec->y[0].gradient, 0, dnnl_nChw16c, &dy));
    if ((spec->layout[LS_ARG_X] && spec->layout[LS_ARG_X] != x) ||
        (spec->layout[LS_ARG_DY] && spec->layout[LS_ARG_DY] != dy))
        return LS_OK;
    one.x[0].shape = LS_SHAPE(1, spec->x[0].shape.dim[0], spec->x[0].shape.dim[1] * spec->x[0].shape.dim[2],
                              spec->x[0].shape.dim[3]);
    one.y[0].shape = LS_SHAPE(1, spec->y[0].shape.dim[0], spec->y[0].shape.dim[1] * spec->y[0].shape.dim[2],
                              spec->y[0].shape.dim[3]);
    LS_TRY(ls__cpu_layout_tag(cpu, one.x[0].shape, spec->x[0].dtype, 0, dnnl_nChw16c, &one.layout[LS_ARG_X]));
    LS_TRY(ls__cpu_layout_tag(cpu, one.y[0].shape, spec->y[0].gradient, 0, dnnl_nChw16c, &one.layout[LS_ARG_DY]));
    joined_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    ls_status status = create(cpu, &one, &k->one);
    if (status == LS_OK) status = ls__cpu_conv2d_share(cpu, &one, create, &k->one);
    if (status != LS_OK) {
        ls_kernel_destroy(&k->one);
        free(k);
        return status;
    }
    k->base.ops = &ops;
    k->base.name = k->one->name;
    memcpy(k->base.layout, k->one->layout, sizeof k->base.layout);
    k->base.layout[LS_ARG_X] = x;
    k->base.layout[LS_ARG_DY] = dy;
    k->images = spec->x[0].shape.dim[0];
    k->x_blocks = spec->x[0].shape.dim[3] / 16;
    k->y_blocks = spec->y[0].shape.dim[3] / 16;
    k->plane = one.x[0].shape.dim[2] * 16 * (int64_t)ls_dtype_size(spec->x[0].dtype);
    k->x_bytes = x->bytes;
    k->y_bytes = dy->bytes;
    k->threads = cpu->base.options.threads;
    k->base.scratch_bytes = k->x_bytes + k->y_bytes + k->one->scratch_bytes;
    *out = &k->base;
    return LS_OK;
}
