#include "device/cpu/conv2d_by_images.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/loops.h"

enum {
    PARTS = 8,  // at most
    TILES =
        128,  // of 4 x 4 pixels of DY in a part, at least: with fewer, transforming the weights takes as long as the products
};

typedef struct by_images {
    ls_kernel base;
    int parts, threads, count;  // count: kernels, one for each thread that has a part
    ls_kernel *kernel[PARTS];
    int64_t x_bytes, dy_bytes;              // of a part
    int64_t dw_bytes, db_bytes;             // db_bytes 0: no bias
    int64_t gradient_bytes, scratch_bytes;  // of a part's gradients, and of a kernel
} by_images;

// --- running ---------------------------------------------------------------------------------------------------------

static ls_status run_parts(const by_images *k, int of, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    ls_span scratch = spans[LS_ARG_SCRATCH];
    for (int i = k->parts * of / k->count; i < k->parts * (of + 1) / k->count; i++) {
        ls_span mine[LS_ARG_COUNT];
        memcpy(mine, spans, sizeof mine);
        mine[LS_ARG_X] = ls_span_at(spans[LS_ARG_X], i * k->x_bytes);
        mine[LS_ARG_DY] = ls_span_at(spans[LS_ARG_DY], i * k->dy_bytes);
        mine[LS_ARG_DW] = ls_span_at(scratch, i * k->gradient_bytes);
        mine[LS_ARG_DW + 1] = ls_span_at(mine[LS_ARG_DW], k->dw_bytes);
        mine[LS_ARG_SCRATCH] = ls_span_at(scratch, k->parts * k->gradient_bytes + of * k->scratch_bytes);
        LS_TRY(ls_kernel_run(k->kernel[of], queue, mine));
    }
    return LS_OK;
}

// Elements `begin` to `end` of a gradient, whose parts lie `step` floats apart: in pairs, then pairs of pairs. The last sum comes to `to`.
static void add_pairs(const by_images *k, float *to, float *first, int64_t step, int64_t begin, int64_t end) {
    for (int distance = 1; distance < k->parts; distance *= 2)
        for (int i = 0; i < k->parts; i += 2 * distance) {
            float *low = first + i * step + begin;
            ls__loop_add(LS_DTYPE_F32, 2 * distance == k->parts ? to + begin : low, low, low + distance * step, 0,
                         end - begin);
        }
}

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    const by_images *k = (const by_images *)kernel;
    char failure[512] = "";
    ls_status status = LS_OK;
    float *first = ls_span_host(spans[LS_ARG_SCRATCH]), *dw = ls_span_host(spans[LS_ARG_DW]);
    int64_t step = k->gradient_bytes / (int64_t)sizeof *first, all = k->dw_bytes / (int64_t)sizeof *first / 16;
#pragma omp parallel num_threads(k->threads) if (k->threads > 1)
    {
#pragma omp for schedule(static, 1)
        for (int i = 0; i < k->count; i++) {
            ls_status mine = run_parts(k, i, queue, spans);
            if (mine == LS_OK) continue;
#pragma omp critical
            {
                status = mine;
                snprintf(failure, sizeof failure, "%s", ls_error_message());
            }
        }
#pragma omp for schedule(static, 1)
        for (int t = 0; t < k->threads; t++)
            add_pairs(k, dw, first, step, all * t / k->threads * 16, all * (t + 1) / k->threads * 16);
    }
    if (k->db_bytes)
        add_pairs(k, ls_span_host(spans[LS_ARG_DW + 1]), first + k->dw_bytes / (int64_t)sizeof *first, step, 0,
                  k->db_bytes / (int64_t)sizeof *first);
    if (status != LS_OK) ls__error_set(failure);
    return status;
}

static void destroy(ls_kernel *kernel) {
    by_images *k = (by_images *)kernel;
    for (int i = 0; i < k->count; i++) ls_kernel_destroy(&k->kernel[i]);
    free(k);
}

// --- making ----------------------------------------------------------------------------------------------------------

static int parts_of(const ls_kernel_spec *spec) {
    const int64_t *y = spec->y[0].shape.dim;
    int64_t tiles = (y[1] + 3) / 4 * ((y[2] + 3) / 4);
    int parts = PARTS;
    while (parts > 1 && (y[0] % parts != 0 || y[0] / parts * tiles < TILES)) parts /= 2;
    return parts;
}

// The layout of so many images in blocks of channels; *out NULL where all of them are given in another.
static ls_status images_layout(ls_cpu *cpu, const ls_tensor_type *t, const ls_layout *given, int64_t count,
                               const ls_layout **whole, const ls_layout **out) {
    ls_shape shape = t->shape;
    *out = NULL;
    LS_TRY(ls__cpu_layout_tag(cpu, shape, LS_DTYPE_F32, 0, dnnl_nChw16c, whole));
    shape.dim[0] = count;
    if (given && given != *whole) return LS_OK;
    return ls__cpu_layout_tag(cpu, shape, LS_DTYPE_F32, 0, dnnl_nChw16c, out);
}

static ls_status make(ls_cpu *cpu, const ls_kernel_spec *spec, ls_cpu_create_fn create, by_images *k, int *made) {
    ls_kernel_spec part = *spec;
    const ls_layout *x, *dy;
    int64_t images = spec->x[0].shape.dim[0] / k->parts;
    *made = 0;
    LS_TRY(images_layout(cpu, &spec->x[0], spec->layout[LS_ARG_X], images, &x, &part.layout[LS_ARG_X]));
    LS_TRY(images_layout(cpu, &spec->y[0], spec->layout[LS_ARG_DY], images, &dy, &part.layout[LS_ARG_DY]));
    if (!part.layout[LS_ARG_X] || !part.layout[LS_ARG_DY]) return LS_OK;
    part.x[0].shape.dim[0] = part.y[0].shape.dim[0] = images;
    for (k->count = 0; k->count < k->threads && k->count < k->parts;) {
        LS_TRY(create(cpu, &part, &k->kernel[k->count]));
        if (!strstr(k->kernel[k->count++]->name, "wino")) return LS_OK;
    }
    const ls_kernel *one = k->kernel[0];
    k->base.name = one->name;
    memcpy(k->base.layout, one->layout, sizeof k->base.layout);
    k->base.layout[LS_ARG_X] = x;
    k->base.layout[LS_ARG_DY] = dy;
    k->x_bytes = x->bytes / k->parts;
    k->dy_bytes = dy->bytes / k->parts;
    k->dw_bytes = one->layout[LS_ARG_DW]->bytes;
    if (one->layout[LS_ARG_DW + 1]) k->db_bytes = one->layout[LS_ARG_DW + 1]->bytes;
    k->gradient_bytes = ls_round_up(k->dw_bytes + k->db_bytes, LS_ALIGN);
    k->scratch_bytes = ls_round_up(one->scratch_bytes, LS_ALIGN);
    k->base.scratch_bytes = k->parts * k->gradient_bytes + k->count * k->scratch_bytes;
    *made = 1;
    return LS_OK;
}

ls_status ls__cpu_conv2d_by_images_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_cpu_create_fn create,
                                          ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    by_images *k;
    int parts = parts_of(spec), made;
    *out = NULL;
    if (parts < 2) return LS_OK;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &ops;
    k->parts = parts;
    k->threads = cpu->base.options.threads;
    ls_status status = make(cpu, spec, create, k, &made);
    if (status != LS_OK || !made) {
        destroy(&k->base);
        return status;
    }
    *out = &k->base;
    return LS_OK;
}
