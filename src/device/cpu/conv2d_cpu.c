// Convolution of images and volumes, and dense layers, through oneDNN, all passes.
//
// Which implementation runs is a fixed function of the shapes and the instruction set, never of a measurement made at run
// time: two workers that measured differently would compute different bits. The rule below was chosen from measurements
// (`lockstep bench MODEL` prints the floor it is judged by).
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/bias_sums.h"
#include "device/cpu/conv2d_bordered.h"
#include "device/cpu/conv2d_by_images.h"
#include "device/cpu/conv2d_copied.h"
#include "device/cpu/conv2d_flipped.h"
#include "device/cpu/conv2d_joined.h"
#include "device/cpu/conv2d_merged.h"
#include "device/cpu/conv2d_parts.h"
#include "device/cpu/conv2d_tiles.h"
#include "device/cpu/conv2d_wide.h"
#include "device/cpu/conv2d_winograd.h"
#include "device/cpu/dense_weights.h"
#include "device/cpu/isa.h"
#include "device/cpu/team.h"

// Descriptors of one op, freed together.
typedef struct descriptors {
    ls_md x, w, b, y, any_x, any_w, any_y;
} descriptors;

static void descriptors_free(descriptors *d) {
    ls__md_destroy(d->x), ls__md_destroy(d->w), ls__md_destroy(d->b), ls__md_destroy(d->y);
    ls__md_destroy(d->any_x), ls__md_destroy(d->any_w), ls__md_destroy(d->any_y);
}

static int is_dense(const ls_kernel_spec *spec) { return spec->op == LS_OP_DENSE; }

// Of images alone.
static const ls_conv2d_attrs *conv_attrs(const ls_kernel_spec *spec) { return LS_ATTRS(ls_conv2d_attrs, &spec->attrs); }

static int is_volume(const ls_kernel_spec *spec) { return spec->op == LS_OP_CONV3D; }

static int64_t filters_of(const ls_kernel_spec *spec) { return spec->y[0].shape.dim[spec->y[0].shape.ndim - 1]; }

static int has_bias(const ls_kernel_spec *spec) { return spec->w_count > 1; }

static ls_shape weights_shape(const ls_kernel_spec *spec) { return spec->w[0].shape; }

// One descriptor: the layout the caller settled, else the tag (any: the library's choice).
static ls_status describe(const ls_layout *settled, ls_shape shape, ls_dtype dtype, int is_weights,
                          dnnl_format_tag_t tag, ls_md *out) {
    if (settled) return ls__md_clone(settled->native, out);
    dnnl_dims_t dims;
    ls__cpu_dims(shape, is_weights, dims);
    return ls__md_by_tag(shape.ndim, dims, dtype, tag, out);
}

static int64_t groups_of(const ls_kernel_spec *spec) {
    return is_dense(spec) || is_volume(spec) ? 1 : conv_attrs(spec)->groups;
}

// The weights. Of several groups the library has one more dimension: (groups, filters, channels, H, W).
static ls_status describe_weights(const ls_kernel_spec *spec, const ls_layout *settled, ls_dtype dtype, ls_md *out) {
    ls_shape w = weights_shape(spec);
    int64_t groups = groups_of(spec);
    if (settled || groups == 1) return describe(settled, w, dtype, 1, dnnl_format_tag_any, out);
    dnnl_dims_t dims = {groups, filters_of(spec) / groups, spec->x[0].shape.dim[3] / groups, w.dim[0], w.dim[1]};
    return ls__md_by_tag(5, dims, dtype, dnnl_format_tag_any, out);
}

static ls_status describe_all(const ls_kernel_spec *spec, dnnl_format_tag_t image_tag, descriptors *d) {
    memset(d, 0, sizeof *d);
    int backward = spec->pass == LS_PASS_BACKWARD_DATA || spec->pass == LS_PASS_BACKWARD_WEIGHTS;
    int weights_pass = spec->pass == LS_PASS_BACKWARD_WEIGHTS;
    ls_arg x_arg = spec->pass == LS_PASS_BACKWARD_DATA ? LS_ARG_DX : LS_ARG_X;
    ls_arg y_arg = backward ? LS_ARG_DY : LS_ARG_Y;
    ls_arg w_arg = weights_pass ? LS_ARG_DW : LS_ARG_W;
    ls_dtype y_dtype = backward ? spec->y[0].gradient : spec->y[0].dtype;
    if (is_dense(spec)) image_tag = dnnl_ab;
    LS_TRY(describe(spec->layout[x_arg], spec->x[0].shape, spec->x[0].dtype, 0, image_tag, &d->x));
    LS_TRY(describe(spec->layout[y_arg], spec->y[0].shape, y_dtype, 0, image_tag, &d->y));
    LS_TRY(describe_weights(spec, spec->layout[w_arg], weights_pass ? LS_DTYPE_F32 : spec->w[0].dtype, &d->w));
    if (has_bias(spec) && spec->pass != LS_PASS_BACKWARD_DATA)
        LS_TRY(ls__md_by_tag(1, (dnnl_dims_t){filters_of(spec)}, LS_DTYPE_F32, dnnl_a, &d->b));
    if (!backward) return LS_OK;
    LS_TRY(describe(NULL, spec->x[0].shape, spec->w[0].dtype, 0, dnnl_format_tag_any, &d->any_x));
    LS_TRY(describe(NULL, spec->y[0].shape, spec->w[0].dtype, 0, dnnl_format_tag_any, &d->any_y));
    return describe_weights(spec, NULL, spec->w[0].dtype, &d->any_w);
}

// How a window moves over the axes there are, in the library's words.
static void set_window(const ls_kernel_spec *spec, ls_dnnl_op *op) {
    const ls_conv2d_attrs none = {.dilation = {1, 1}}, *a = is_dense(spec) ? &none : conv_attrs(spec);
    const ls_conv3d_attrs *v = LS_ATTRS(ls_conv3d_attrs, &spec->attrs);
    int volume = is_volume(spec), axes = volume ? 3 : 2;
    for (int i = 0; i < axes; i++) {
        op->strides[i] = (volume ? v->strides : a->strides)[i];
        op->dilation[i] = (volume ? v->dilation : a->dilation)[i] - 1;
        op->pad_begin[i] = (volume ? v->pad : a->pad)[i];
        op->pad_end[i] = (volume ? v->pad : a->pad)[i + axes];
    }
}

static ls_dnnl_op make_op(const ls_kernel_spec *spec, const descriptors *d, dnnl_alg_kind_t algorithm) {
    static const dnnl_prop_kind_t props[] = {
        [LS_PASS_TRAINING] = dnnl_forward_training,
        // Inference computes the same; asked for by its own name it may want weights transformed ahead of time, one more
        // working copy to refresh after every step.
        [LS_PASS_INFERENCE] = dnnl_forward_training,
        [LS_PASS_BACKWARD_DATA] = dnnl_backward_data,
        [LS_PASS_BACKWARD_WEIGHTS] = dnnl_backward_weights,
    };
    int forward = spec->pass == LS_PASS_TRAINING || spec->pass == LS_PASS_INFERENCE;
    ls_dnnl_op op = {
        .inner_product = is_dense(spec),
        .prop = props[spec->pass],
        .algorithm = algorithm,
        .x = d->x,
        .w = d->w,
        .b = d->b,
        .y = d->y,
        .hint_x = d->any_x,
        .hint_w = d->any_w,
        .hint_y = d->any_y,
        .residual = forward && spec->residual ? d->y : NULL,
        .relu = forward && spec->activation == LS_ACTIVATION_RELU,
    };
    set_window(spec, &op);
    return op;
}

// Along one axis, of `size` pixels of X and `out` of Y: how many taps of all windows lie inside.
static int64_t taps_inside(const ls_conv2d_attrs *a, int axis, int64_t size, int64_t out) {
    int64_t sum = 0;
    for (int64_t o = 0; o < out; o++)
        for (int k = 0; k < a->kernel[axis]; k++) {
            int64_t at = o * a->strides[axis] - a->pad[axis] + (int64_t)k * a->dilation[axis];
            sum += at >= 0 && at < size;
        }
    return sum;
}

// Where an image has another padding above than below, the library's Winograd has wrong data gradients (oneDNN 2.6.3).
static int winograd_is_wrong(const ls_kernel_spec *spec) {
    const ls_conv2d_attrs *a = conv_attrs(spec);
    return spec->pass == LS_PASS_BACKWARD_DATA && a->pad[0] != a->pad[2];
}

static int winograd_multiplies_less(const ls_kernel_spec *spec) {
    const int64_t *x = spec->x[0].shape.dim, *y = spec->y[0].shape.dim;
    const ls_conv2d_attrs *a = conv_attrs(spec);
    int64_t tiles = ((x[1] + 3) / 4) * ((x[2] + 3) / 4);
    return 36 * tiles < taps_inside(a, 0, x[1], y[1]) * taps_inside(a, 1, x[2], y[2]);
}

// The rule: Winograd F(4x4, 3x3) for 3x3 kernels with stride 1 and whole channel blocks in fp32. In the weight-gradient pass
// it took 0.4 to 0.6 of direct's time. In the other passes it took 0.3 to 0.8 with 64 to 512 channels on both sides; with 32 it
// gained nothing forward, since its output bypasses the caches the next layer would find it in, and took 1.2 to 2.2 times
// direct's for data gradients. A version of the library without it falls through to direct.
//
// For data gradients it must also multiply less: 36 products for each tile of 4x4 pixels of DX, where direct has one for each pixel and each weight that meets DY
// there. Small images whose windows lie inside have many such pixels with few weights: of DX 5x5 and DY 3x3 it takes 144 products where direct takes 81, and 2.5 times
// as long.
//
// It is the one convolution whose bits depend on the sizes of caches, since it adds up in blocks that it cuts by them (tests/isa). So where an
// instruction set is pinned, for the same bits on several kinds of processors, it is not used.
static int winograd_pays(const ls_cpu *cpu, const ls_kernel_spec *spec) {
    if (cpu->base.options.isa || is_volume(spec)) return 0;
    const ls_conv2d_attrs *a = conv_attrs(spec);
    int64_t channels = spec->x[0].shape.dim[3], filters = a->filters;
    int64_t least_channels = spec->pass == LS_PASS_BACKWARD_WEIGHTS ? 32 : 64;
    int64_t least_filters = spec->pass == LS_PASS_BACKWARD_DATA ? 64 : 32;
    return spec->x[0].dtype == LS_DTYPE_F32 && a->kernel[0] == 3 && a->kernel[1] == 3 && a->strides[0] == 1 &&
           a->strides[1] == 1 && a->groups == 1 && a->dilation[0] == 1 && a->dilation[1] == 1 &&
           channels >= least_channels && channels % 16 == 0 && filters >= least_filters && filters % 16 == 0 &&
           (spec->pass != LS_PASS_BACKWARD_DATA || winograd_multiplies_less(spec)) && !winograd_is_wrong(spec);
}

// 1x1 convolutions in bf16 whose channels are innermost, on AVX512-BF16: an odd number of what is added up is read in pairs, the last one with a value of the next pixel. In data
// gradients these are the filters (oneDNN 2.6 and 3.2), forward the channels (3.2; 2.6 has no such kernel for them). In blocks all is well: those are filled up.
//
// Weight gradients in bf16 of images less wide than a stride: between the pixels that it arranges anew it reads scratch memory that nobody has written (oneDNN 2.6, AVX512-BF16).
static int is_wrong(const ls_kernel_spec *spec, const_dnnl_primitive_desc_t pd) {
    if (spec->pass == LS_PASS_BACKWARD_WEIGHTS && strncmp(ls__pd_name(pd), "jit_bf16:", 9) == 0) {
        int axis = is_volume(spec) ? 2 : 1;
        int stride =
            is_volume(spec) ? LS_ATTRS(ls_conv3d_attrs, &spec->attrs)->strides[2] : conv_attrs(spec)->strides[1];
        return spec->x[0].shape.dim[axis + 1] < stride;
    }
    int forward = spec->pass == LS_PASS_TRAINING || spec->pass == LS_PASS_INFERENCE;
    if (strncmp(ls__pd_name(pd), "jit_bf16_1x1", 12) != 0) return 0;
    if (spec->pass == LS_PASS_BACKWARD_DATA) return filters_of(spec) % 2 == 1;
    int64_t bytes = (int64_t)dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0));
    return forward && spec->x[0].shape.dim[3] % 2 == 1 && bytes == 2 * ls_shape_count(spec->x[0].shape);
}

static int is_reference(const_dnnl_primitive_desc_t pd) { return strncmp(ls__pd_name(pd), "ref", 3) == 0; }

// Goes to the implementation the rule picks; choice->pd is NULL when the library has none at all.
static void choose(ls_cpu *cpu, const ls_kernel_spec *spec, const descriptors *d, ls_dnnl_choice *choice) {
    if (!is_dense(spec) && winograd_pays(cpu, spec)) {
        ls_dnnl_op op = make_op(spec, d, dnnl_convolution_winograd);
        ls__choice_begin(choice, &op, cpu->engine);
        if (choice->pd && !is_reference(choice->pd)) return;
        ls__choice_end(choice);
    }
    ls_dnnl_op op = make_op(spec, d, dnnl_convolution_direct);
    ls__choice_begin(choice, &op, cpu->engine);
    while (choice->pd && !is_dense(spec) && is_wrong(spec, choice->pd)) ls__choice_next(choice);
}

// With a residual, it lies as Y does and is the last.
static const ls_cpu_arg forward_args[] = {
    {DNNL_ARG_SRC, LS_ARG_X, dnnl_query_src_md, 0},
    {DNNL_ARG_WEIGHTS, LS_ARG_W, dnnl_query_weights_md, 0},
    {DNNL_ARG_BIAS, LS_ARG_W + 1, dnnl_query_weights_md, 1},
    {DNNL_ARG_DST, LS_ARG_Y, dnnl_query_dst_md, 0},
    {DNNL_ARG_SCRATCHPAD, LS_ARG_SCRATCH, dnnl_query_scratchpad_md, 0},
    {DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, LS_ARG_RESIDUAL, dnnl_query_dst_md, 0},
};
static const ls_cpu_arg data_args[] = {
    {DNNL_ARG_DIFF_SRC, LS_ARG_DX, dnnl_query_diff_src_md, 0},
    {DNNL_ARG_WEIGHTS, LS_ARG_W, dnnl_query_weights_md, 0},
    {DNNL_ARG_DIFF_DST, LS_ARG_DY, dnnl_query_diff_dst_md, 0},
    {DNNL_ARG_SCRATCHPAD, LS_ARG_SCRATCH, dnnl_query_scratchpad_md, 0},
};
static const ls_cpu_arg weights_args[] = {
    {DNNL_ARG_SRC, LS_ARG_X, dnnl_query_src_md, 0},
    {DNNL_ARG_DIFF_WEIGHTS, LS_ARG_DW, dnnl_query_diff_weights_md, 0},
    {DNNL_ARG_DIFF_BIAS, LS_ARG_DW + 1, dnnl_query_diff_weights_md, 1},
    {DNNL_ARG_DIFF_DST, LS_ARG_DY, dnnl_query_diff_dst_md, 0},
    {DNNL_ARG_SCRATCHPAD, LS_ARG_SCRATCH, dnnl_query_scratchpad_md, 0},
};

static const ls_cpu_arg *pass_args(const ls_kernel_spec *spec, int *count) {
    switch (spec->pass) {
    case LS_PASS_BACKWARD_DATA: *count = 4; return data_args;
    case LS_PASS_BACKWARD_WEIGHTS: *count = 5; return weights_args;
    default: *count = spec->residual ? 6 : 5; return forward_args;
    }
}

static ls_shape arg_shape(const ls_kernel_spec *spec, ls_arg arg) {
    switch ((int)arg) {
    case LS_ARG_X:
    case LS_ARG_DX: return spec->x[0].shape;
    case LS_ARG_RESIDUAL:
    case LS_ARG_Y:
    case LS_ARG_DY: return spec->y[0].shape;
    case LS_ARG_W + 1:
    case LS_ARG_DW + 1: return LS_SHAPE(filters_of(spec));
    default: return weights_shape(spec);
    }
}

static ls_status settle_layouts(ls_cpu *cpu, const ls_kernel_spec *spec, const_dnnl_primitive_desc_t pd,
                                const ls_cpu_arg *args, int count, ls_kernel *kernel) {
    for (int i = 0; i < count; i++) {
        ls_md md = dnnl_primitive_desc_query_md(pd, args[i].query, args[i].index);
        if (args[i].arg == LS_ARG_SCRATCH || !md || dnnl_memory_desc_get_size(md) == 0) continue;
        LS_TRY(ls__cpu_layout(cpu, arg_shape(spec, args[i].arg), md, &kernel->layout[args[i].arg]));
    }
    if (spec->pass == LS_PASS_BACKWARD_DATA && spec->mask_dx) {
        kernel->layout[LS_ARG_X] = kernel->layout[LS_ARG_DX];
        ls_cpu_dnnl_kernel *k = (ls_cpu_dnnl_kernel *)kernel;
        k->mask_count = kernel->layout[LS_ARG_DX]->bytes / (int64_t)ls_dtype_size(spec->x[0].dtype);
    }
    return LS_OK;
}

// Whether the factors of a weight gradient are widened first: see conv2d_wide.c.
static int is_widened(const ls_kernel_spec *spec) {
    if (is_dense(spec) || spec->pass != LS_PASS_BACKWARD_WEIGHTS) return 0;
    if (spec->x[0].dtype == LS_DTYPE_F16) return !ls__cpu_has_half_tiles();
    if (DNNL_VERSION_MAJOR < 3 || !is_volume(spec) || spec->x[0].dtype != LS_DTYPE_BF16) return 0;
    const ls_conv3d_attrs *v = LS_ATTRS(ls_conv3d_attrs, &spec->attrs);
    return (v->kernel[0] - 1) * v->dilation[0] + 1 > spec->x[0].shape.dim[1];
}

static ls_status unsupported(const ls_kernel_spec *spec) {
    return LS_FAIL(LS_STATUS_UNSUPPORTED,
                   "oneDNN has no kernel for a %s of %lld samples to %d channels in %s on this CPU",
                   is_dense(spec) ? "dense layer" : "convolution", (long long)spec->x[0].shape.dim[0],
                   (int)filters_of(spec), ls_dtype_name(spec->x[0].dtype));
}

static ls_status create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    descriptors d;
    ls_dnnl_choice choice = {0};
    ls_kernel *kernel = NULL;
    int count;
    const ls_cpu_arg *args = pass_args(spec, &count);
    ls_status status;
    LS_TRY_GOTO(describe_all(spec, dnnl_format_tag_any, &d), done);
    choose(cpu, spec, &d, &choice);
    if (!choice.pd) {
        status = unsupported(spec);
        goto done;
    }
    LS_TRY_GOTO(ls__cpu_dnnl_kernel_create(cpu, choice.pd, args, count, &kernel), done);
    LS_TRY_GOTO(settle_layouts(cpu, spec, choice.pd, args, count, kernel), done);
    *out = kernel;
    kernel = NULL;
done:
    if (kernel) kernel->ops->destroy(kernel);
    ls__choice_end(&choice);
    descriptors_free(&d);
    return status;
}

// The implementation is the one for the convolution alone. Where that can add the residual itself, it does; else a pass of our
// own over its output follows.
static ls_status create_with_residual(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    ls_kernel_spec bare = *spec, fused = *spec;
    ls_kernel *alone, *both = NULL;
    bare.residual = 0;
    bare.activation = LS_ACTIVATION_NONE;
    LS_TRY(create(cpu, &bare, &alone));
    memcpy(fused.layout, alone->layout, sizeof fused.layout);
    if (create(cpu, &fused, &both) == LS_OK && strcmp(both->name, alone->name) == 0) {
        ls_kernel_destroy(&alone);
        *out = both;
        return LS_OK;
    }
    ls_kernel_destroy(&both);
    ls_cpu_dnnl_kernel *k = (ls_cpu_dnnl_kernel *)alone;
    alone->layout[LS_ARG_RESIDUAL] = alone->layout[LS_ARG_Y];
    k->add_count = alone->layout[LS_ARG_Y]->bytes / (int64_t)ls_dtype_size(spec->y[0].dtype);
    k->add_relu = spec->activation == LS_ACTIVATION_RELU;
    *out = alone;
    return LS_OK;
}

// Among the threads of a replica.
static ls_status share(ls_cpu *cpu, const ls_kernel_spec *spec, ls_cpu_create_fn create_one, ls_kernel **kernel) {
    const ls_kernel *library = *kernel;
    LS_TRY(ls__cpu_dense_weights_replace(cpu, spec, kernel));
    return *kernel == library ? ls__cpu_conv2d_share(cpu, spec, create_one, kernel) : LS_OK;
}

// --- dense layers of sequences ---------------------------------------------------------------------------------------

static int is_sequence(const ls_kernel_spec *spec) { return is_dense(spec) && spec->x[0].shape.ndim > 2; }

static ls_shape joined(ls_shape s) {
    int64_t width = s.dim[s.ndim - 1];
    return LS_SHAPE(ls_shape_count(s) / width, width);
}

// A dense layer of vectors, of which there are as many as in all sequences. Both lie row by row.
static ls_kernel_spec of_vectors(const ls_kernel_spec *spec) {
    static const ls_arg args[] = {LS_ARG_X, LS_ARG_Y, LS_ARG_DX, LS_ARG_DY};
    ls_kernel_spec flat = *spec;
    flat.x[0].shape = joined(spec->x[0].shape);
    flat.y[0].shape = joined(spec->y[0].shape);
    for (int i = 0; i < 4; i++) flat.layout[args[i]] = NULL;  // rows, in any case
    return flat;
}

static ls_status create_of_sequences(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_arg args[] = {LS_ARG_X, LS_ARG_Y, LS_ARG_DX, LS_ARG_DY};
    ls_kernel_spec flat = of_vectors(spec);
    ls_kernel *kernel;
    LS_TRY(create(cpu, &flat, &kernel));
    ls_status status = share(cpu, &flat, create, &kernel);
    for (int i = 0; i < 4 && status == LS_OK; i++) {
        const ls_layout **layout = &kernel->layout[args[i]];
        ls_shape shape = i % 2 ? spec->y[0].shape : spec->x[0].shape;
        if (*layout) status = cpu->base.ops->layout_plain(&cpu->base, shape, (*layout)->dtype, 0, layout);
    }
    if (status != LS_OK) ls_kernel_destroy(&kernel);
    *out = kernel;
    return status;
}

// Where the library computes a weight gradient by its reference, groups are merged, few channels filled up, and borders copied around small images.
static ls_status create_weights(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    ls_kernel *other;
    LS_TRY(create(cpu, spec, out));
    int depthwise = groups_of(spec) > 1 && spec->x[0].shape.dim[3] == groups_of(spec);
    if (depthwise || strncmp((*out)->name, "ref", 3) != 0) return LS_OK;
    ls_status status = ls__cpu_conv2d_merged_create(cpu, spec, &other);
    if (status == LS_OK && !other) status = ls__cpu_conv2d_bordered_create(cpu, spec, &other);
    if (status != LS_OK || other) ls_kernel_destroy(out);
    if (other) *out = other;
    return status;
}

int ls__cpu_has_tiles(void) { return ls__cpu_isa_has(dnnl_cpu_isa_avx512_core_amx) && ls__tiles_amx.available(); }

// With the library's own kernels, as they are chosen for one thread.
static ls_status create_alone(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    int forward = spec->pass == LS_PASS_TRAINING || spec->pass == LS_PASS_INFERENCE;
    if (spec->pass == LS_PASS_BACKWARD_WEIGHTS && !is_dense(spec) && !is_volume(spec))
        return create_weights(cpu, spec, out);
    return (forward && spec->residual ? create_with_residual : create)(cpu, spec, out);
}

static int has_dots(void) { return ls__cpu_isa_has(dnnl_cpu_isa_avx512_core_bf16) && ls__tiles_dots.available(); }

// Where rows of DY have at most four pixels and all taps lie inside X, the library's weight gradients in bf16 take about twice as long as their products: of DY
// 3x3 and X 5x5 (mnist-cnn, m = 128) 7.5 ms, dots 3.9. Taps beside the image the library leaves out: DY 4x4 of X 4x4 takes 10.2 ms, dots 13.1. With more
// pixels dots are slower, or as fast.
static int dots_pay(const ls_kernel_spec *spec) {
    if (is_dense(spec) || spec->pass != LS_PASS_BACKWARD_WEIGHTS || !ls__cpu_conv2d_fits_tiles(spec)) return 0;
    const ls_conv2d_attrs *a = conv_attrs(spec);
    const int64_t *x = spec->x[0].shape.dim, *y = spec->y[0].shape.dim;
    return a->kernel[0] * a->kernel[1] > 1 && y[2] <= 4 && taps_inside(a, 0, x[1], y[1]) == a->kernel[0] * y[1] &&
           taps_inside(a, 1, x[2], y[2]) == a->kernel[1] * y[2];
}

// Images whose layout nobody has settled lie in blocks of channels, as the library's kernels have them. *out NULL where they lie otherwise.
static ls_status create_of_dots(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    ls_kernel_spec blocks = *spec;
    if (!blocks.layout[LS_ARG_X])
        LS_TRY(ls__cpu_layout_tag(cpu, spec->x[0].shape, LS_DTYPE_BF16, 0, dnnl_nChw16c, &blocks.layout[LS_ARG_X]));
    if (!blocks.layout[LS_ARG_DY])
        LS_TRY(ls__cpu_layout_tag(cpu, spec->y[0].shape, LS_DTYPE_BF16, 0, dnnl_nChw16c, &blocks.layout[LS_ARG_DY]));
    return ls__cpu_conv2d_tiles_create(cpu, &blocks, &ls__tiles_dots, out);
}

// The rule for bf16 without AMX: F(2x2, 3x3) of our own (conv2d_winograd.h). For each channel and filter it has 16 products for 2x2 pixels of Y (of DX in a data gradient), direct one
// for each tap that lies inside the image. What transforming takes, in products: 16 times as many divided by the channels, and by the filters, and 400 for each
// channel of a filter. Of direct's time it then takes 0.6 (images of 8x8 and 16x16, 256 channels, forward) to 0.8 (of 7x7); with little to gain (images of 4x4, 32 channels, few
// patches) the sums that need no rounding of factors are better. Its scratch memory has 32 bytes for each channel of a filter, in weight gradients 64, which is 16 MB at most, and some MB for patches.
static int own_winograd_pays(const ls_kernel_spec *spec) {
    if (!has_dots() || ls__cpu_has_tiles() || !ls__cpu_conv2d_fits_winograd(spec)) return 0;
    const ls_conv2d_attrs *a = conv_attrs(spec);
    const int64_t *x = spec->x[0].shape.dim, *y = spec->y[0].shape.dim;
    if (x[3] * a->filters > 256 << 10) return 0;
    const int64_t *to = spec->pass == LS_PASS_BACKWARD_DATA ? x : y;
    int64_t patches = to[0] * ((to[1] + 1) / 2) * ((to[2] + 1) / 2);
    int64_t direct = x[0] * taps_inside(a, 0, x[1], y[1]) * taps_inside(a, 1, x[2], y[2]);
    return 16 * (double)patches * (1 + 16. / (double)x[3] + 16. / a->filters) + 400 < 0.85 * (double)direct;
}

ls_status ls__cpu_conv2d_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    if (is_sequence(spec)) return create_of_sequences(cpu, spec, out);
    if (spec->pass == LS_PASS_BACKWARD_WEIGHTS) {
        LS_TRY(ls__cpu_bias_create(cpu, spec, out));
        if (*out) return LS_OK;
    }
    if (ls__cpu_has_tiles() && ls__cpu_conv2d_fits_tiles(spec)) {
        LS_TRY(ls__cpu_conv2d_tiles_create(cpu, spec, &ls__tiles_amx, out));
        if (*out) return LS_OK;
    }
    if (own_winograd_pays(spec)) {
        LS_TRY(ls__cpu_conv2d_winograd_create(cpu, spec, &ls__tiles_dots, out));
        if (*out) return LS_OK;
    }
    if (has_dots() && dots_pay(spec)) {
        LS_TRY(create_of_dots(cpu, spec, out));
        if (*out) return LS_OK;
    }
    if (is_widened(spec)) return ls__cpu_conv2d_wide_create(cpu, spec, out);
    LS_TRY(ls__cpu_conv2d_joined_create(cpu, spec, create, out));
    if (*out) return LS_OK;
    if (!is_dense(spec) && spec->pass == LS_PASS_BACKWARD_WEIGHTS && winograd_pays(cpu, spec)) {
        LS_TRY(ls__cpu_conv2d_by_images_create(cpu, spec, create_alone, out));
        if (*out) return LS_OK;
    }
    LS_TRY(ls__cpu_conv2d_flipped_create(cpu, spec, create_alone, out));
    if (*out) return LS_OK;
    LS_TRY(create_alone(cpu, spec, out));
    const ls_kernel *alone = *out;
    ls_status status = ls__cpu_conv2d_copied_replace(cpu, spec, create_alone, out);
    if (status == LS_OK && *out == alone) status = share(cpu, spec, create_alone, out);
    if (status != LS_OK) ls_kernel_destroy(out);
    return status;
}

// --- the library's best ----------------------------------------------------------------------------------------------

// The least of several runs of a kernel on buffers of its own; stops early when hopeless against `best`.
static ls_status time_kernel(ls_cpu *cpu, ls_kernel *kernel, double best, double *seconds) {
    ls_buffer *buffers[LS_ARG_COUNT] = {0};
    ls_span args[LS_ARG_COUNT] = {{0}};
    ls_queue *queue = NULL;
    *seconds = 1e30;
    ls_status status = ls_queue_create(&cpu->base, &queue);
    for (int i = 0; i < LS_ARG_COUNT && status == LS_OK; i++) {
        int64_t bytes = i == LS_ARG_SCRATCH ? kernel->scratch_bytes : kernel->layout[i] ? kernel->layout[i]->bytes : 0;
        if (bytes == 0) continue;
        status = ls_buffer_create(&cpu->base, bytes, &buffers[i]);
        args[i].buffer = buffers[i];
    }
    double spent = 0;
    for (int run = 0; run < 12 && status == LS_OK; run++) {
        double start = ls_clock();
        status = ls_kernel_run(kernel, queue, args);
        double took = ls_clock() - start;
        if (took < *seconds) *seconds = took;
        spent += took;
        if (*seconds > (run ? 1.2 : 1.5) * best || (run >= 2 && spent > 0.05)) break;
    }
    for (int i = 0; i < LS_ARG_COUNT; i++) ls_buffer_destroy(&buffers[i]);
    ls_queue_destroy(&queue);
    return status;
}

// Goes through one algorithm's implementations with images in one layout; *kernel and *seconds are the best so far.
static void search(ls_cpu *cpu, const ls_kernel_spec *spec, dnnl_alg_kind_t algorithm, dnnl_format_tag_t tag,
                   ls_kernel **best, double *seconds) {
    int count;
    const ls_cpu_arg *args = pass_args(spec, &count);
    descriptors d;
    ls_dnnl_choice choice = {0};
    ls__team_allow(cpu->base.options.threads);
    if (describe_all(spec, tag, &d) == LS_OK) {
        ls_dnnl_op op = make_op(spec, &d, algorithm);
        ls__choice_begin(&choice, &op, cpu->engine);
    }
    for (; choice.pd && !is_reference(choice.pd); ls__choice_next(&choice)) {
        ls_kernel *kernel;
        double took;
        if (ls__cpu_dnnl_kernel_create(cpu, choice.pd, args, count, &kernel) != LS_OK) continue;
        ((ls_cpu_dnnl_kernel *)kernel)->threads = cpu->base.options.threads;
        if (settle_layouts(cpu, spec, choice.pd, args, count, kernel) == LS_OK &&
            time_kernel(cpu, kernel, *seconds, &took) == LS_OK && took < *seconds) {
            ls_kernel_destroy(best);
            *best = kernel;
            *seconds = took;
        } else {
            ls_kernel_destroy(&kernel);
        }
    }
    ls__choice_end(&choice);
    descriptors_free(&d);
    ls__team_allow(1);
}

ls_status ls__cpu_fastest(ls_device *device, const ls_kernel_spec *spec, ls_kernel **out) {
    const dnnl_format_tag_t tags[] = {dnnl_format_tag_any, is_volume(spec) ? dnnl_ndhwc : dnnl_nhwc,
                                      ls__cpu_blocked_tag(spec->x[0].shape.ndim, 16)};
    if (spec->op == LS_OP_DEPTHWISE_CONV2D || spec->op == LS_OP_CONV2D_TRANSPOSE ||
        spec->op == LS_OP_CONV3D_TRANSPOSE) {
        int depthwise = spec->op == LS_OP_DEPTHWISE_CONV2D;
        ls_kernel_spec conv = depthwise ? ls__cpu_depthwise_as_conv2d(spec) : ls__cpu_transpose_as_conv(spec);
        return ls__cpu_fastest(device, &conv, out);
    }
    // Two of the library's convolutions, and there is nothing to choose from.
    if (spec->op == LS_OP_SEPARABLE_CONV2D) return ls__cpu_separable_conv2d_create((ls_cpu *)device, spec, out);
    if (is_sequence(spec)) {
        ls_kernel_spec flat = of_vectors(spec);
        return ls__cpu_fastest(device, &flat, out);
    }
    ls_kernel_spec bare =
        *spec;  // the pass alone: masking is not the library's, and a residual is no part of the operation
    bare.mask_dx = bare.residual = 0;
    double seconds = 1e30;
    *out = NULL;
    for (int t = 0; t < (is_dense(spec) ? 1 : 3); t++) {
        search((ls_cpu *)device, &bare, dnnl_convolution_direct, tags[t], out, &seconds);
        if (!is_dense(spec) && !is_volume(spec) && !winograd_is_wrong(spec))
            search((ls_cpu *)device, &bare, dnnl_convolution_winograd, tags[t], out, &seconds);
    }
    return *out ? LS_OK : unsupported(spec);
}
