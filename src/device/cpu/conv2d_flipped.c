#include "device/cpu/conv2d_flipped.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/conv2d_parts.h"
#include "device/cpu/isa.h"

enum { BLOCK = 16, BLOCK_BYTES = BLOCK * BLOCK * 2 };  // a block: one tap of 16 channels and 16 filters

typedef struct flipped_kernel {
    ls_kernel base;
    ls_kernel *inner;           // forward, from DY to DX
    int64_t channels, filters;  // blocks of them
    int64_t taps;
    int64_t bytes;  // of the turned weights, where the scratch memory begins
    int threads;
    char name[64];
} flipped_kernel;

// (filters, channels, taps) to (channels, filters, taps), the last tap first. Inside a block nothing moves: what forward kernels of the exchanged roles read is what the library's
// data gradients do.
static void flip(const flipped_kernel *k, char *restrict to, const char *restrict from) {
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
    for (int64_t c = 0; c < k->channels; c++)
        for (int64_t f = 0; f < k->filters; f++)
            for (int64_t t = 0; t < k->taps; t++)
                memcpy(to + ((c * k->filters + f) * k->taps + t) * BLOCK_BYTES,
                       from + ((f * k->channels + c + 1) * k->taps - 1 - t) * BLOCK_BYTES, BLOCK_BYTES);
}

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    const flipped_kernel *k = (const flipped_kernel *)kernel;
    ls_span inner[LS_ARG_COUNT] = {{0}};
    inner[LS_ARG_X] = spans[LS_ARG_DY];
    inner[LS_ARG_W] = spans[LS_ARG_SCRATCH];
    inner[LS_ARG_Y] = spans[LS_ARG_DX];
    inner[LS_ARG_SCRATCH] = ls_span_at(spans[LS_ARG_SCRATCH], k->bytes);
    flip(k, ls_span_host(inner[LS_ARG_W]), ls_span_host(spans[LS_ARG_W]));
    LS_TRY(ls_kernel_run(k->inner, queue, inner));
    if (kernel->layout[LS_ARG_X])
        ls__cpu_conv2d_mask(kernel->layout[LS_ARG_DX], k->threads, ls_span_host(spans[LS_ARG_DX]),
                            ls_span_host(spans[LS_ARG_X]));
    return LS_OK;
}

static void destroy(ls_kernel *kernel) {
    flipped_kernel *k = (flipped_kernel *)kernel;
    ls_kernel_destroy(&k->inner);
    free(k);
}

// The same sums as a forward pass.
static ls_kernel_spec forward_of(const ls_kernel_spec *spec) {
    ls_kernel_spec s = {.op = LS_OP_CONV2D, .pass = LS_PASS_TRAINING, .x_count = 1, .w_count = 1, .y_count = 1};
    ls_conv2d_attrs a = *LS_ATTRS(ls_conv2d_attrs, &spec->attrs);
    const int64_t *w = spec->w[0].shape.dim;
    a.filters = (int)spec->x[0].shape.dim[3];
    for (int i = 0; i < 4; i++) a.pad[i] = a.dilation[i % 2] * (a.kernel[i % 2] - 1) - a.pad[i];
    memcpy(s.attrs.bytes, &a, sizeof a);
    s.x[0] = spec->y[0];
    s.w[0] = spec->w[0];
    s.y[0] = spec->x[0];
    s.w[0].shape = LS_SHAPE(w[0], w[1], w[3], w[2]);
    return s;
}

static int can_be(const ls_kernel_spec *spec) {
    if (spec->op != LS_OP_CONV2D || spec->pass != LS_PASS_BACKWARD_DATA || spec->addend) return 0;
    const ls_conv2d_attrs *a = LS_ATTRS(ls_conv2d_attrs, &spec->attrs);
    for (int i = 0; i < 4; i++)
        if (a->pad[i] > a->dilation[i % 2] * (a->kernel[i % 2] - 1)) return 0;
    return spec->x[0].dtype == LS_DTYPE_BF16 && spec->w[0].dtype == LS_DTYPE_BF16 &&
           spec->y[0].gradient == LS_DTYPE_BF16 && a->groups == 1 && a->strides[0] == 1 && a->strides[1] == 1 &&
           spec->x[0].shape.dim[3] % BLOCK == 0 && a->filters % BLOCK == 0;
}

// With native bf16 the library computes data gradients of six pixels in a row at once, and one that is left over takes nearly as long as six do; its forward
// passes share rows out evenly. With 64 to 512 channels and 3x3 taps, images 7 wide took forward 0.72 to 0.85 of the time, those of 13, 19 and 25 pixels 0.87 to
// 0.98, others 0.92 to 1.05. Copying the weights takes as long for few pixels as for many: of 49 it was 1.2 of the time, of 196 less than 1.
static int flipping_pays(const ls_kernel_spec *spec) {
    const ls_conv2d_attrs *a = LS_ATTRS(ls_conv2d_attrs, &spec->attrs);
    const int64_t *x = spec->x[0].shape.dim, width = x[2], pixels = x[0] * x[1] * width;
    return ls__cpu_isa_has(dnnl_cpu_isa_avx512_core_bf16) && pixels >= 196 && width >= 7 && width <= 25 &&
           width % 6 == 1 && a->kernel[0] * a->kernel[1] > 1;
}

// *made 0: some layout is another one.
static ls_status make(ls_cpu *cpu, const ls_kernel_spec *spec, ls_cpu_create_fn create, flipped_kernel *k, int *made) {
    ls_kernel_spec forward = forward_of(spec);
    const ls_layout *dx, *dy, *w, *turned, **mine = k->base.layout;
    *made = 0;
    LS_TRY(ls__cpu_layout_tag(cpu, spec->x[0].shape, LS_DTYPE_BF16, 0, dnnl_nChw16c, &dx));
    LS_TRY(ls__cpu_layout_tag(cpu, spec->y[0].shape, LS_DTYPE_BF16, 0, dnnl_nChw16c, &dy));
    LS_TRY(ls__cpu_layout_tag(cpu, spec->w[0].shape, LS_DTYPE_BF16, 1, dnnl_OIhw8o16i2o, &w));
    LS_TRY(ls__cpu_layout_tag(cpu, forward.w[0].shape, LS_DTYPE_BF16, 1, dnnl_OIhw8i16o2i, &turned));
    if ((spec->layout[LS_ARG_DX] && spec->layout[LS_ARG_DX] != dx) ||
        (spec->layout[LS_ARG_DY] && spec->layout[LS_ARG_DY] != dy) ||
        (spec->layout[LS_ARG_W] && spec->layout[LS_ARG_W] != w))
        return LS_OK;
    forward.layout[LS_ARG_X] = dy;
    forward.layout[LS_ARG_Y] = dx;
    LS_TRY(create(cpu, &forward, &k->inner));
    if (k->inner->layout[LS_ARG_W] != turned) return LS_OK;
    LS_TRY(ls__cpu_conv2d_share(cpu, &forward, create, &k->inner));
    mine[LS_ARG_DX] = dx;
    mine[LS_ARG_DY] = dy;
    mine[LS_ARG_W] = w;
    if (spec->mask_dx) mine[LS_ARG_X] = dx;
    snprintf(k->name, sizeof k->name, "flipped:%s", k->inner->name);
    k->base.name = k->name;
    k->base.tiles = k->inner->tiles;
    k->channels = spec->x[0].shape.dim[3] / BLOCK;
    k->filters = spec->y[0].shape.dim[3] / BLOCK;
    k->taps = spec->w[0].shape.dim[0] * spec->w[0].shape.dim[1];
    k->threads = cpu->base.options.threads;
    k->bytes = ls_round_up(w->bytes, LS_ALIGN);
    k->base.scratch_bytes = k->bytes + k->inner->scratch_bytes;
    *made = 1;
    return LS_OK;
}

ls_status ls__cpu_conv2d_flipped_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_cpu_create_fn create,
                                        ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    flipped_kernel *k;
    int made;
    *out = NULL;
    if (!can_be(spec) || !flipping_pays(spec)) return LS_OK;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &ops;
    ls_status status = make(cpu, spec, create, k, &made);
    if (status != LS_OK || !made) {
        destroy(&k->base);
        return status;
    }
    *out = &k->base;
    return LS_OK;
}
