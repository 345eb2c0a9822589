// A separable convolution by the kernels of its two convolutions. What lies between them is kept for backward in the workspace, in inference
// in scratch; its gradient is in scratch. It lies as X does (plain, or in blocks of channels), so that backward knows how forward left it.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/cpu.h"

// The kernels in the order in which they run. Forward has two.
enum { DEPTHWISE, POINTWISE };
enum { POINTWISE_WEIGHTS, POINTWISE_DATA, DEPTHWISE_WEIGHTS, DEPTHWISE_DATA, PARTS };

// An argument of a part, and which of ours it is. BETWEEN and DBETWEEN are no arguments of ours.
typedef struct pair {
    ls_arg part;
    int ours;
} pair;
enum { BETWEEN = -1, DBETWEEN = -2, PAIRS = 4 };

typedef struct part_info {
    ls_pass pass;
    int pointwise;
    pair pair[PAIRS];
} part_info;

static const part_info forward_parts[] = {
    [DEPTHWISE] = {LS_PASS_TRAINING, 0, {{LS_ARG_X, LS_ARG_X}, {LS_ARG_W, LS_ARG_W}, {LS_ARG_Y, BETWEEN}}},
    [POINTWISE] = {LS_PASS_TRAINING,
                   1,
                   {{LS_ARG_X, BETWEEN}, {LS_ARG_W, LS_ARG_W + 1}, {LS_ARG_W + 1, LS_ARG_W + 2}, {LS_ARG_Y, LS_ARG_Y}}},
};
static const part_info backward_parts[] = {
    [POINTWISE_WEIGHTS] =
        {LS_PASS_BACKWARD_WEIGHTS,
         1,
         {{LS_ARG_X, BETWEEN}, {LS_ARG_DY, LS_ARG_DY}, {LS_ARG_DW, LS_ARG_DW + 1}, {LS_ARG_DW + 1, LS_ARG_DW + 2}}},
    [POINTWISE_DATA] = {LS_PASS_BACKWARD_DATA,
                        1,
                        {{LS_ARG_DY, LS_ARG_DY}, {LS_ARG_W, LS_ARG_W + 1}, {LS_ARG_DX, DBETWEEN}}},
    [DEPTHWISE_WEIGHTS] = {LS_PASS_BACKWARD_WEIGHTS,
                           0,
                           {{LS_ARG_X, LS_ARG_X}, {LS_ARG_DY, DBETWEEN}, {LS_ARG_DW, LS_ARG_DW}}},
    [DEPTHWISE_DATA] = {LS_PASS_BACKWARD_DATA,
                        0,
                        {{LS_ARG_DY, DBETWEEN}, {LS_ARG_W, LS_ARG_W}, {LS_ARG_DX, LS_ARG_DX}}},
};

typedef struct separable_kernel {
    ls_kernel base;
    const part_info *info;
    ls_kernel *part[PARTS];
    int parts, keeps;         // keeps 1: BETWEEN is in the workspace
    const ls_layout *middle;  // of BETWEEN and DBETWEEN
    int64_t middle_bytes;     // rounded up
} separable_kernel;

static int is_backward(const ls_kernel_spec *spec) { return spec->pass == LS_PASS_BACKWARD; }

// --- running ---------------------------------------------------------------------------------------------------------

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    const separable_kernel *k = (const separable_kernel *)kernel;
    ls_span scratch = spans[LS_ARG_SCRATCH], in_scratch = scratch;
    if (k->parts == PARTS || !k->keeps) scratch = ls_span_at(scratch, k->middle_bytes);
    for (int i = 0; i < k->parts; i++) {
        ls_span inner[LS_ARG_COUNT] = {{0}};
        for (int j = 0; j < PAIRS; j++) {
            pair p = k->info[i].pair[j];
            if (!k->part[i]->layout[p.part]) continue;
            inner[p.part] = p.ours == BETWEEN && k->keeps             ? spans[LS_ARG_WORKSPACE]
                            : p.ours == BETWEEN || p.ours == DBETWEEN ? in_scratch
                                                                      : spans[p.ours];
        }
        inner[LS_ARG_SCRATCH] = scratch;
        LS_TRY(ls_kernel_run(k->part[i], queue, inner));
    }
    return LS_OK;
}

static void destroy(ls_kernel *kernel) {
    separable_kernel *k = (separable_kernel *)kernel;
    for (int i = 0; i < PARTS; i++) ls_kernel_destroy(&k->part[i]);
    free(k);
}

// --- making it -------------------------------------------------------------------------------------------------------

static ls_tensor_type middle_type(const ls_kernel_spec *spec) {
    ls_tensor_type t = spec->y[0];
    t.dtype = t.gradient = spec->x[0].dtype;
    t.shape.dim[3] = spec->w[1].shape.dim[2];
    return t;
}

// A part as a layer by itself, all layouts free.
static ls_kernel_spec part_spec(const ls_kernel_spec *spec, const part_info *info) {
    const ls_separable_conv2d_attrs *s = LS_ATTRS(ls_separable_conv2d_attrs, &spec->attrs);
    ls_kernel_spec part = {.op = LS_OP_CONV2D, .pass = info->pass, .x_count = 1, .y_count = 1};
    if (info->pointwise) {
        *(ls_conv2d_attrs *)(void *)part.attrs.bytes = (ls_conv2d_attrs){.filters = s->filters,
                                                                         .kernel = {1, 1},
                                                                         .strides = {1, 1},
                                                                         .no_bias = s->no_bias,
                                                                         .groups = 1,
                                                                         .dilation = {1, 1}};
        part.x[0] = middle_type(spec);
        part.y[0] = spec->y[0];
        part.w_count = spec->w_count - 1;
        memcpy(part.w, spec->w + 1, (size_t)part.w_count * sizeof *part.w);
        return part;
    }
    part.op = LS_OP_DEPTHWISE_CONV2D;
    *(ls_depthwise_conv2d_attrs *)(void *)part.attrs.bytes =
        (ls_depthwise_conv2d_attrs){.kernel = {s->kernel[0], s->kernel[1]},
                                    .strides = {s->strides[0], s->strides[1]},
                                    .multiplier = s->multiplier,
                                    .dilation = {s->dilation[0], s->dilation[1]},
                                    .no_bias = 1,
                                    .pad = {s->pad[0], s->pad[1], s->pad[2], s->pad[3]}};
    part.x[0] = spec->x[0];
    part.y[0] = middle_type(spec);
    part.w_count = 1;
    part.w[0] = spec->w[0];
    return part;
}

static ls_status create_part(ls_cpu *cpu, const ls_kernel_spec *part, ls_kernel **out) {
    return (part->op == LS_OP_CONV2D ? ls__cpu_conv2d_create : ls__cpu_depthwise_conv2d_create)(cpu, part, out);
}

// How the image lies in the two layouts that are alike: (of X, of BETWEEN).
static ls_status alike(ls_cpu *cpu, const ls_kernel_spec *spec, const ls_layout **x, const ls_layout **middle) {
    ls_kernel_spec of = {
        .pass = LS_PASS_TRAINING, .x = {spec->x[0]}, .y = {middle_type(spec)}, .layout = {[LS_ARG_X] = *x}};
    int block;
    return ls__cpu_image_layouts(cpu, &of, x, middle, &block);
}

// Of X: what the plan has settled, else what the depthwise convolution likes best.
static ls_status choose_middle(ls_cpu *cpu, const ls_kernel_spec *spec, separable_kernel *k, const ls_layout **x) {
    *x = spec->layout[LS_ARG_X];
    if (!*x) {
        ls_kernel_spec part = part_spec(spec, &forward_parts[DEPTHWISE]);
        ls_kernel *liked;
        LS_TRY(create_part(cpu, &part, &liked));
        *x = liked->layout[LS_ARG_X];
        ls_kernel_destroy(&liked);
    }
    LS_TRY(alike(cpu, spec, x, &k->middle));
    k->middle_bytes = ls_round_up(k->middle->bytes, LS_ALIGN);
    return LS_OK;
}

// Makes the i-th part in the layouts that are settled by now, and takes over what it chooses.
static ls_status add_part(ls_cpu *cpu, const ls_kernel_spec *spec, const ls_layout *x, separable_kernel *k, int i) {
    ls_kernel_spec part = part_spec(spec, &k->info[i]);
    for (int j = 0; j < PAIRS; j++) {
        pair p = k->info[i].pair[j];
        if (p.ours == BETWEEN || p.ours == DBETWEEN) part.layout[p.part] = k->middle;
        if ((p.part == LS_ARG_X && p.ours == LS_ARG_X) || p.ours == LS_ARG_DX) part.layout[p.part] = x;
        if (p.ours == LS_ARG_DY) part.layout[p.part] = k->base.layout[LS_ARG_DY];
    }
    LS_TRY(create_part(cpu, &part, &k->part[i]));
    for (int j = 0; j < PAIRS; j++) {
        pair p = k->info[i].pair[j];
        const ls_layout *chosen = k->part[i]->layout[p.part];
        if (!chosen) continue;
        if (part.layout[p.part] && part.layout[p.part] != chosen)
            return LS_FAIL(LS_STATUS_UNSUPPORTED,
                           "device cpu has no separable convolution from %lld to %lld channels in one layout",
                           (long long)spec->x[0].shape.dim[3], (long long)spec->y[0].shape.dim[3]);
        if (p.ours >= 0) k->base.layout[p.ours] = chosen;
    }
    return LS_OK;
}

static ls_status build(ls_cpu *cpu, const ls_kernel_spec *spec, separable_kernel *k) {
    const ls_layout *x;
    int64_t most = 0;
    k->info = is_backward(spec) ? backward_parts : forward_parts;
    k->parts = is_backward(spec) ? PARTS : 2;
    k->keeps = spec->pass != LS_PASS_INFERENCE;
    k->base.layout[LS_ARG_DY] = spec->layout[LS_ARG_DY];
    LS_TRY(choose_middle(cpu, spec, k, &x));
    for (int i = 0; i < k->parts; i++) {
        LS_TRY(add_part(cpu, spec, x, k, i));
        if (k->part[i]->scratch_bytes > most) most = k->part[i]->scratch_bytes;
    }
    k->base.name = k->part[is_backward(spec) ? POINTWISE_WEIGHTS : POINTWISE]->name;
    if (k->keeps) k->base.workspace_bytes = k->middle_bytes;
    k->base.scratch_bytes = (is_backward(spec) || !k->keeps ? k->middle_bytes : 0) + most;
    return LS_OK;
}

ls_status ls__cpu_separable_conv2d_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    separable_kernel *k;
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
