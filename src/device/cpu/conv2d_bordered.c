#include "device/cpu/conv2d_bordered.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/border.h"
#include "device/cpu/isa.h"

typedef struct bordered_kernel {
    ls_kernel base;
    ls_kernel *inner;
    ls_border border;
    int64_t planes;  // blocks of channels of all images
    int64_t bytes;   // of all planes with their borders, where the scratch memory begins
} bordered_kernel;

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    const bordered_kernel *k = (const bordered_kernel *)kernel;
    ls_span inner[LS_ARG_COUNT];
    memcpy(inner, spans, sizeof inner);
    inner[LS_ARG_X] = spans[LS_ARG_SCRATCH];
    inner[LS_ARG_SCRATCH] = ls_span_at(spans[LS_ARG_SCRATCH], k->bytes);
    char *to = ls_span_host(inner[LS_ARG_X]);
    const char *from = ls_span_host(spans[LS_ARG_X]);
    for (int64_t p = 0; p < k->planes; p++)
        ls__border_add(&k->border, to + p * ls__border_outer(&k->border), from + p * ls__border_inner(&k->border),
                       NULL);
    return ls_kernel_run(k->inner, queue, inner);
}

static void destroy(ls_kernel *kernel) {
    bordered_kernel *k = (bordered_kernel *)kernel;
    ls_kernel_destroy(&k->inner);
    free(k);
}

static ls_status build(ls_cpu *cpu, const ls_kernel_spec *spec, const ls_layout *x, int64_t block, bordered_kernel *k) {
    ls_kernel_spec padded = *spec;
    ls_conv2d_attrs a = *LS_ATTRS(ls_conv2d_attrs, &spec->attrs);
    int64_t *size = padded.x[0].shape.dim;
    k->planes = size[0] * size[3] / block;
    k->border = (ls_border){.dtype = spec->x[0].dtype,
                            .height = size[1],
                            .width = size[2],
                            .outer_height = size[1] + a.pad[0] + a.pad[2],
                            .outer_width = size[2] + a.pad[1] + a.pad[3],
                            .block = block,
                            .top = a.pad[0],
                            .left = a.pad[1]};
    size[1] = k->border.outer_height;
    size[2] = k->border.outer_width;
    memset(a.pad, 0, sizeof a.pad);
    memcpy(padded.attrs.bytes, &a, sizeof a);
    LS_TRY(ls__cpu_layout_tag(cpu, padded.x[0].shape, spec->x[0].dtype, 0, ls__cpu_blocked_tag(4, (int)block),
                              &padded.layout[LS_ARG_X]));
    LS_TRY(ls__cpu_conv2d_create(cpu, &padded, &k->inner));
    k->base.name = k->inner->name;
    k->base.tiles = k->inner->tiles;
    memcpy(k->base.layout, k->inner->layout, sizeof k->base.layout);
    k->base.layout[LS_ARG_X] = x;
    k->bytes = ls_round_up(k->planes * ls__border_outer(&k->border), LS_ALIGN);
    k->base.scratch_bytes = k->bytes + k->inner->scratch_bytes;
    return LS_OK;
}

ls_status ls__cpu_conv2d_bordered_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    const ls_conv2d_attrs *a = LS_ATTRS(ls_conv2d_attrs, &spec->attrs);
    int block = ls__cpu_block();
    const ls_layout *x;
    bordered_kernel *k;
    *out = NULL;
    if (spec->op != LS_OP_CONV2D || a->groups != 1 || spec->x[0].shape.dim[3] % block != 0) return LS_OK;
    if (!a->pad[0] && !a->pad[1] && !a->pad[2] && !a->pad[3]) return LS_OK;
    LS_TRY(ls__cpu_layout_tag(cpu, spec->x[0].shape, spec->x[0].dtype, 0, ls__cpu_blocked_tag(4, block), &x));
    if (spec->layout[LS_ARG_X] && spec->layout[LS_ARG_X] != x) return LS_OK;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &ops;
    ls_status status = build(cpu, spec, x, block, k);
    if (status != LS_OK) {
        destroy(&k->base);
        return status;
    }
    *out = &k->base;
    return LS_OK;
}
