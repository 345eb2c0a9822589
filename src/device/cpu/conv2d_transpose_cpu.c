// Transposed convolution, of images and of volumes, by the kernels of the convolution it is the reverse of, whose input is our output: forward is that one's data
// gradient, the data gradient its forward pass, the weight gradient its own with the two sides exchanged. The bias is ours: where Y is BF16
// the convolution gives F32 into scratch, so that Y is rounded once.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/bias_sums.h"
#include "device/cpu/cpu.h"
#include "device/cpu/loops_impl.h"

typedef struct conv2d_transpose_kernel {
    ls_kernel base;
    ls_kernel *conv;
    ls_pass pass;
    ls_dtype dtype;      // of the side with the filters
    int64_t wide_bytes;  // forward: of that in F32, in scratch; 0: the convolution gives it as it is
    // How the side with the filters lies: (planes, pixels, block), where planes is samples times blocks of filters.
    int64_t planes, pixels, block, filters, samples;
    int threads;
    ls_bias_sums sums;  // backward weights
} conv2d_transpose_kernel;

// --- bias ------------------------------------------------------------------------------------------------------------

// Adds the bias to a plane: y (dtype) = x (from) + bias. In whole vectors: `bias` has room for them, zero behind the last filter.
LS_CLONES static void add_bias(ls_dtype dtype, void *y, ls_dtype from, const void *x, const float *bias, int64_t pixels,
                               int64_t block) {
    for (int64_t p = 0; p < pixels; p++)
        for (int64_t c = 0; c < block; c += 16) {
            int64_t lanes = block - c < 16 ? block - c : 16;
            v16f v = load_lanes(from, x, p * block + c, lanes) + load16(LS_DTYPE_F32, bias, c);
            store_lanes(dtype, y, p * block + c, v, lanes);
        }
}

static int64_t plane_bytes(const conv2d_transpose_kernel *k, ls_dtype dtype) {
    return k->pixels * k->block * (int64_t)ls_dtype_size(dtype);
}

static int64_t block_room(const conv2d_transpose_kernel *k) { return ls_round_up(k->block, 16); }

// The bias of each block of filters, padded with zeros, comes to the beginning of scratch. `x`: what the convolution gave, Y itself or F32.
static void bias_forward(const conv2d_transpose_kernel *k, char *y, const char *x, const float *bias, float *padded) {
    int64_t blocks = k->planes / k->samples, room = block_room(k);
    ls_dtype from = k->wide_bytes ? LS_DTYPE_F32 : k->dtype;
    memset(padded, 0, (size_t)(blocks * room) * sizeof *padded);
    for (int64_t f = 0; f < k->filters; f++) padded[f / k->block * room + f % k->block] = bias[f];
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
    for (int64_t p = 0; p < k->planes; p++)
        add_bias(k->dtype, y + p * plane_bytes(k, k->dtype), from, x + p * plane_bytes(k, from),
                 padded + p % blocks * room, k->pixels, k->block);
}

// --- kernels ---------------------------------------------------------------------------------------------------------

// An argument of the convolution, and which of ours it is.
typedef struct pair {
    ls_arg conv, ours;
} pair;

static const pair *pairs_of(ls_pass pass) {
    static const pair forward[] = {{LS_ARG_DX, LS_ARG_Y}, {LS_ARG_DY, LS_ARG_X}, {LS_ARG_W, LS_ARG_W}};
    static const pair data[] = {{LS_ARG_X, LS_ARG_DY}, {LS_ARG_Y, LS_ARG_DX}, {LS_ARG_W, LS_ARG_W}};
    static const pair weights[] = {{LS_ARG_X, LS_ARG_DY}, {LS_ARG_DY, LS_ARG_X}, {LS_ARG_DW, LS_ARG_DW}};
    return pass == LS_PASS_BACKWARD_DATA ? data : pass == LS_PASS_BACKWARD_WEIGHTS ? weights : forward;
}
enum { PAIRS = 3 };  // the first is the side with the filters

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const conv2d_transpose_kernel *k = (const conv2d_transpose_kernel *)kernel;
    ls_span inner[LS_ARG_COUNT] = {{0}};
    for (int i = 0; i < PAIRS; i++) inner[pairs_of(k->pass)[i].conv] = spans[pairs_of(k->pass)[i].ours];
    inner[LS_ARG_SCRATCH] = ls_span_at(spans[LS_ARG_SCRATCH], kernel->scratch_bytes - k->conv->scratch_bytes);
    ls_span wide = ls_span_at(inner[LS_ARG_SCRATCH], -k->wide_bytes);
    if (k->wide_bytes) inner[LS_ARG_DX] = wide;
    LS_TRY(ls_kernel_run(k->conv, queue, inner));
    if (kernel->layout[LS_ARG_W + 1])
        bias_forward(k, args[LS_ARG_Y], k->wide_bytes ? ls_span_host(wide) : args[LS_ARG_Y], args[LS_ARG_W + 1],
                     args[LS_ARG_SCRATCH]);
    if (kernel->layout[LS_ARG_DW + 1])
        ls__bias_sums_run(&k->sums, args[LS_ARG_DY], args[LS_ARG_DW + 1], args[LS_ARG_SCRATCH]);
    return LS_OK;
}

static void destroy(ls_kernel *kernel) {
    conv2d_transpose_kernel *k = (conv2d_transpose_kernel *)kernel;
    ls_kernel_destroy(&k->conv);
    free(k);
}

static void set_images(const ls_kernel_spec *spec, ls_kernel_spec *conv) {
    const ls_conv2d_transpose_attrs *t = LS_ATTRS(ls_conv2d_transpose_attrs, &spec->attrs);
    *(ls_conv2d_attrs *)(void *)conv->attrs.bytes = (ls_conv2d_attrs){
        .filters = (int)spec->x[0].shape.dim[3],
        .kernel = {t->kernel[0], t->kernel[1]},
        .strides = {t->strides[0], t->strides[1]},
        .no_bias = 1,
        .groups = 1,
        .dilation = {1, 1},
        .pad = {t->pad[0], t->pad[1], t->pad[2], t->pad[3]},
    };
}

static void set_volumes(const ls_kernel_spec *spec, ls_kernel_spec *conv) {
    const ls_conv3d_transpose_attrs *t = LS_ATTRS(ls_conv3d_transpose_attrs, &spec->attrs);
    ls_conv3d_attrs *a = (ls_conv3d_attrs *)(void *)conv->attrs.bytes;
    *a = (ls_conv3d_attrs){.filters = (int)spec->x[0].shape.dim[4], .no_bias = 1, .dilation = {1, 1, 1}};
    memcpy(a->kernel, t->kernel, sizeof a->kernel);
    memcpy(a->strides, t->strides, sizeof a->strides);
    memcpy(a->pad, t->pad, sizeof a->pad);
}

ls_kernel_spec ls__cpu_transpose_as_conv(const ls_kernel_spec *spec) {
    int volume = spec->op == LS_OP_CONV3D_TRANSPOSE;
    static const ls_pass passes[] = {[LS_PASS_TRAINING] = LS_PASS_BACKWARD_DATA,
                                     [LS_PASS_INFERENCE] = LS_PASS_BACKWARD_DATA,
                                     [LS_PASS_BACKWARD_DATA] = LS_PASS_TRAINING,
                                     [LS_PASS_BACKWARD_WEIGHTS] = LS_PASS_BACKWARD_WEIGHTS};
    ls_kernel_spec conv = {.op = volume ? LS_OP_CONV3D : LS_OP_CONV2D,
                           .pass = passes[spec->pass],
                           .x_count = 1,
                           .w_count = 1,
                           .y_count = 1,
                           .x = {spec->y[0]},
                           .w = {spec->w[0]},
                           .y = {spec->x[0]}};
    (volume ? set_volumes : set_images)(spec, &conv);
    for (int i = 0; i < PAIRS; i++)
        conv.layout[pairs_of(spec->pass)[i].conv] = spec->layout[pairs_of(spec->pass)[i].ours];
    return conv;
}

// The same layout in another type.
static ls_status layout_in(ls_cpu *cpu, const ls_layout *layout, int64_t block, ls_dtype dtype, const ls_layout **out) {
    if (layout->plain) return cpu->base.ops->layout_plain(&cpu->base, layout->shape, dtype, 0, out);
    return ls__cpu_layout_tag(cpu, layout->shape, dtype, 0, ls__cpu_blocked_tag(layout->shape.ndim, (int)block), out);
}

static ls_status create_conv(ls_cpu *cpu, const ls_kernel_spec *spec, int wide, conv2d_transpose_kernel *k) {
    ls_kernel_spec conv = ls__cpu_transpose_as_conv(spec);
    ls_arg side = pairs_of(spec->pass)[0].conv;
    if (wide) conv.x[0].dtype = LS_DTYPE_F32;
    LS_TRY(ls__cpu_conv2d_create(cpu, &conv, &k->conv));
    LS_TRY(ls__cpu_filters_block(cpu, k->conv->layout[side], &k->block));
    if (k->block) return LS_OK;
    ls_kernel_destroy(&k->conv);
    LS_TRY(cpu->base.ops->layout_plain(&cpu->base, spec->y[0].shape, conv.x[0].dtype, 0, &conv.layout[side]));
    k->block = spec->y[0].shape.dim[spec->y[0].shape.ndim - 1];
    LS_TRY(ls__cpu_conv2d_create(cpu, &conv, &k->conv));
    return LS_OK;
}

static ls_status build(ls_cpu *cpu, const ls_kernel_spec *spec, conv2d_transpose_kernel *k) {
    ls_shape y = spec->y[0].shape;
    int forward = spec->pass == LS_PASS_TRAINING || spec->pass == LS_PASS_INFERENCE;
    int wide = forward && spec->w_count > 1 && spec->y[0].dtype != LS_DTYPE_F32;
    LS_TRY(create_conv(cpu, spec, wide, k));
    k->pass = spec->pass;
    k->dtype = spec->y[0].dtype;
    k->samples = y.dim[0];
    k->filters = y.dim[y.ndim - 1];
    k->planes = k->samples * ((k->filters + k->block - 1) / k->block);
    k->pixels = ls_shape_count(y) / k->samples / k->filters;
    k->threads = cpu->base.options.threads;
    k->sums = ls__bias_sums(cpu, y, k->dtype, k->block);
    k->base.name = k->conv->name;
    k->base.tiles = k->conv->tiles;
    for (int i = 0; i < PAIRS; i++)
        k->base.layout[pairs_of(spec->pass)[i].ours] = k->conv->layout[pairs_of(spec->pass)[i].conv];
    if (wide) {
        k->wide_bytes = ls_round_up(k->base.layout[LS_ARG_Y]->bytes, LS_ALIGN);
        LS_TRY(layout_in(cpu, k->base.layout[LS_ARG_Y], k->block, spec->y[0].dtype, &k->base.layout[LS_ARG_Y]));
    }
    int64_t room = 0;
    if (spec->w_count > 1 && spec->pass != LS_PASS_BACKWARD_DATA) {
        ls_arg arg = spec->pass == LS_PASS_BACKWARD_WEIGHTS ? LS_ARG_DW + 1 : LS_ARG_W + 1;
        LS_TRY(cpu->base.ops->layout_plain(&cpu->base, spec->w[1].shape, LS_DTYPE_F32, 0, &k->base.layout[arg]));
        room = ls__bias_sums_bytes(&k->sums);  // forward has the bias itself there
    }
    k->base.scratch_bytes = ls_round_up(room, LS_ALIGN) + k->wide_bytes + k->conv->scratch_bytes;
    return LS_OK;
}

ls_status ls__cpu_conv2d_transpose_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    conv2d_transpose_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &ops;
    ls_status status = build(cpu, spec, k);
    if (status != LS_OK) {
        destroy(&k->base);
        return status;
    }
    *out = &k->base;
    return LS_OK;
}
