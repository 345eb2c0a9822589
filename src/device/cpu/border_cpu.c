// Zeros around images, and images without their borders: each is the other's backward pass.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/border.h"
#include "device/cpu/cpu.h"

typedef struct border_kernel {
    ls_kernel base;
    ls_border border;
    int64_t planes;
    int adds;
    ls_arg from, to;
    int mask_dx;
} border_kernel;

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const border_kernel *k = (const border_kernel *)kernel;
    int64_t inner = ls__border_inner(&k->border), outer = ls__border_outer(&k->border);
    int64_t from = k->adds ? inner : outer, to = k->adds ? outer : inner;
    for (int64_t p = 0; p < k->planes; p++)
        (k->adds ? ls__border_add : ls__border_remove)(&k->border, (char *)args[k->to] + p * to,
                                                       (char *)args[k->from] + p * from,
                                                       k->mask_dx ? (char *)args[LS_ARG_X] + p * to : NULL);
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

// `grows`: Y is the larger one. begin: rows and columns of the border before the smaller one.
static ls_status create(ls_cpu *cpu, const ls_kernel_spec *spec, const char *name, int grows, const int begin[2],
                        ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    int backward = spec->pass == LS_PASS_BACKWARD_DATA;
    const int64_t *inner = (grows ? spec->x : spec->y)[0].shape.dim, *outer = (grows ? spec->y : spec->x)[0].shape.dim;
    const ls_layout *x, *y;
    int block;
    LS_TRY(ls__cpu_image_layouts(cpu, spec, &x, &y, &block));
    border_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &ops;
    k->base.name = name;
    k->from = backward ? LS_ARG_DY : LS_ARG_X;
    k->to = backward ? LS_ARG_DX : LS_ARG_Y;
    k->base.layout[k->from] = backward ? y : x;
    k->base.layout[k->to] = backward ? x : y;
    k->mask_dx = backward && spec->mask_dx;
    if (k->mask_dx) k->base.layout[LS_ARG_X] = x;
    k->adds = grows != backward;
    k->border = (ls_border){.dtype = spec->x[0].dtype,
                            .height = inner[1],
                            .width = inner[2],
                            .outer_height = outer[1],
                            .outer_width = outer[2],
                            .block = block,
                            .top = begin[0],
                            .left = begin[1]};
    k->planes = k->base.tiles = inner[0] * ((inner[3] + block - 1) / block);
    *out = &k->base;
    return LS_OK;
}

ls_status ls__cpu_zero_pad2d_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    const int(*padding)[2] = LS_ATTRS(ls_zero_pad2d_attrs, &spec->attrs)->padding;
    return create(cpu, spec, "loop:zero_pad2d", 1, (int[]){padding[0][0], padding[1][0]}, out);
}

ls_status ls__cpu_cropping2d_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    const int(*cropping)[2] = LS_ATTRS(ls_cropping2d_attrs, &spec->attrs)->cropping;
    return create(cpu, spec, "loop:cropping2d", 0, (int[]){cropping[0][0], cropping[1][0]}, out);
}
