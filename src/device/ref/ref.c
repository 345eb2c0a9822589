#include "device/ref/ref.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/error.h"
#include "base/fp16.h"
#include "base/memory.h"
#include "device/host.h"

// Every op: one line each.
#define LS_REF_OPS(X)                                                                                                  \
    X(conv2d)                                                                                                          \
    X(dense)                                                                                                           \
    X(max_pool2d)                                                                                                      \
    X(average_pool2d)                                                                                                  \
    X(global_max_pool2d)                                                                                               \
    X(global_average_pool2d)                                                                                           \
    X(batch_norm)                                                                                                      \
    X(add)                                                                                                             \
    X(multiply)                                                                                                        \
    X(concat)                                                                                                          \
    X(depthwise_conv2d)                                                                                                \
    X(separable_conv2d)                                                                                                \
    X(conv2d_transpose)                                                                                                \
    X(conv3d)                                                                                                          \
    X(conv3d_transpose)                                                                                                \
    X(max_pool3d)                                                                                                      \
    X(average_pool3d)                                                                                                  \
    X(up_sampling2d)                                                                                                   \
    X(layer_norm)                                                                                                      \
    X(group_norm)                                                                                                      \
    X(embedding)                                                                                                       \
    X(global_average_pool1d)                                                                                           \
    X(position_embedding)                                                                                              \
    X(attention)                                                                                                       \
    X(lstm)                                                                                                            \
    X(gru)                                                                                                             \
    X(reshape)                                                                                                         \
    X(zero_pad2d)                                                                                                      \
    X(cropping2d)                                                                                                      \
    X(rescaling)                                                                                                       \
    X(normalization)                                                                                                   \
    X(relu)                                                                                                            \
    X(activation)                                                                                                      \
    X(flatten)                                                                                                         \
    X(dropout)                                                                                                         \
    X(softmax_cross_entropy)                                                                                           \
    X(binary_cross_entropy)                                                                                            \
    X(mean_squared_error)                                                                                              \
    X(mean_absolute_error)                                                                                             \
    X(accuracy)                                                                                                        \
    X(perplexity)                                                                                                      \
    X(top_k_accuracy)                                                                                                  \
    X(binary_accuracy)                                                                                                 \
    X(mean_absolute_error_metric)                                                                                      \
    X(auc)                                                                                                             \
    X(balanced_accuracy)                                                                                               \
    X(normal_sample)                                                                                                   \
    X(normal_divergence)

#define X(name) extern const ls_ref_op ls__ref_##name;
LS_REF_OPS(X)
#undef X

const ls_ref_op *ls__ref_op_find(ls_op_kind kind) {
    static const ls_ref_op *const ops[] = {
#define X(name) &ls__ref_##name,
        LS_REF_OPS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (ops[i]->kind == kind) return ops[i];
    return NULL;
}

ls_ref_window ls__ref_window(const ls_kernel_spec *spec, const int kernel[2], const int strides[2], const int pad[4]) {
    const int64_t *x = spec->x[0].shape.dim, *y = spec->y[0].shape.dim;
    int ndim = spec->y[0].shape.ndim;
    ls_ref_window g = {.n = x[0],
                       .h = x[1],
                       .w = x[2],
                       .c = x[3],
                       .oh = 1,
                       .ow = 1,
                       .oc = y[ndim - 1],
                       .kh = kernel[0],
                       .kw = kernel[1],
                       .sh = strides[0],
                       .sw = strides[1],
                       .dh = 1,
                       .dw = 1,
                       .top = pad[0],
                       .left = pad[1]};
    if (ndim == 4) {  // global pooling leaves no height and width
        g.oh = y[1];
        g.ow = y[2];
    }
    return g;
}

ls_ref_volume ls__ref_volume(ls_shape x, ls_shape y, const int size[3], const int strides[3], const int dilation[3],
                             const int pad[6]) {
    ls_ref_volume g = {.n = x.dim[0], .c = x.dim[4], .oc = y.dim[4], .ins = 1, .outs = 1, .taps = 1};
    for (int i = 0; i < 3; i++) {
        g.ins *= g.in[i] = x.dim[i + 1];
        g.outs *= g.out[i] = y.dim[i + 1];
        g.taps *= g.size[i] = size[i];
        g.strides[i] = strides[i];
        g.dilation[i] = dilation ? dilation[i] : 1;
        g.front[i] = pad[i];
    }
    return g;
}

// --- numbers ---------------------------------------------------------------------------------------------------------

static double widen_one(const void *from, ls_dtype dtype, int64_t i) {
    switch (dtype) {
    case LS_DTYPE_BF16: return ls_bf16_to_float(((const ls_bf16 *)from)[i]);
    case LS_DTYPE_F16: return ls_fp16_to_float(((const ls_fp16 *)from)[i]);
    case LS_DTYPE_I32: return ((const int32_t *)from)[i];
    case LS_DTYPE_U8: return ((const uint8_t *)from)[i];
    case LS_DTYPE_F64: return ((const double *)from)[i];
    case LS_DTYPE_I64: return (double)((const int64_t *)from)[i];
    case LS_DTYPE_F32: break;
    }
    return ((const float *)from)[i];
}

static void widen(const void *from, ls_dtype dtype, int64_t count, double *to) {
    for (int64_t i = 0; i < count; i++) to[i] = widen_one(from, dtype, i);
}

static void narrow(const double *from, int64_t count, ls_dtype dtype, void *to) {
    for (int64_t i = 0; i < count; i++) {
        if (dtype == LS_DTYPE_BF16)
            ((ls_bf16 *)to)[i] = ls_float_to_bf16((float)from[i]);
        else if (dtype == LS_DTYPE_F16)
            ((ls_fp16 *)to)[i] = ls_float_to_fp16((float)from[i]);
        else if (dtype == LS_DTYPE_F64)
            ((double *)to)[i] = from[i];
        else if (dtype == LS_DTYPE_I32)
            ((int32_t *)to)[i] = (int32_t)from[i];
        else
            ((float *)to)[i] = (float)from[i];
    }
}

// --- kernels ---------------------------------------------------------------------------------------------------------

typedef struct layout_entry {
    ls_layout layout;
    struct layout_entry *next;
} layout_entry;

typedef struct ref_device {
    ls_device base;
    pthread_mutex_t mutex;  // guards the list
    layout_entry *layouts;
} ref_device;

typedef struct ref_kernel {
    ls_kernel base;
    ls_kernel_spec spec;
    const ls_ref_op *op;
} ref_kernel;

static ls_status layout_plain(ls_device *device, ls_shape shape, ls_dtype dtype, int is_weights,
                              const ls_layout **out) {
    ref_device *d = (ref_device *)device;
    ls_status status = LS_OK;
    pthread_mutex_lock(&d->mutex);
    layout_entry *e = d->layouts;
    while (e && (e->layout.dtype != dtype || !ls_shape_equal(e->layout.shape, shape))) e = e->next;
    if (!e && (status = ls_calloc(1, sizeof *e, &e)) == LS_OK) {
        e->layout = (ls_layout){
            .shape = shape, .dtype = dtype, .plain = 1, .bytes = ls_shape_count(shape) * (int64_t)ls_dtype_size(dtype)};
        e->next = d->layouts;
        d->layouts = e;
    }
    pthread_mutex_unlock(&d->mutex);
    *out = e ? &e->layout : NULL;
    return status;
}

// Whether an argument is written.
static int is_output(ls_pass pass, int arg) {
    int forward = pass == LS_PASS_TRAINING || pass == LS_PASS_INFERENCE;
    if (arg >= LS_ARG_Y && arg < LS_ARG_DX) return forward;
    return (arg >= LS_ARG_DX && arg < LS_ARG_DY) || arg == LS_ARG_DRESIDUAL;
}

void ls__ref_compute(const ls_ref_op *op, const ls_ref_args *a) {
    const ls_kernel_spec *s = a->spec;
    int64_t x_count = ls_shape_count(s->x[0].shape), y_count = ls_shape_count(s->y[0].shape);
    switch (s->pass) {
    case LS_PASS_TRAINING:
    case LS_PASS_INFERENCE:
        op->forward(a);
        for (int64_t i = 0; s->residual && i < y_count; i++) a->y[0][i] += a->residual[i];
        if (s->activation == LS_ACTIVATION_RELU)
            for (int64_t i = 0; i < y_count; i++)
                if (!(a->y[0][i] > 0)) a->y[0][i] = 0;
        if (s->activation == LS_ACTIVATION_RELU6)
            for (int64_t i = 0; i < y_count; i++) a->y[0][i] = a->y[0][i] > 0 ? fmin(a->y[0][i], 6) : 0;
        break;
    case LS_PASS_BACKWARD:
    case LS_PASS_BACKWARD_DATA:
        (s->pass == LS_PASS_BACKWARD ? op->backward : op->backward_data)(a);
        for (int64_t i = 0; s->addend && i < x_count; i++) a->dx[0][i] += a->addend[i];
        for (int64_t i = 0; s->mask_dx && i < x_count; i++)
            if (!(a->x[0][i] > 0)) a->dx[0][i] = 0;
        break;
    case LS_PASS_BACKWARD_WEIGHTS: op->backward_weights(a); break;
    }
}

static ls_status kernel_run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    ref_kernel *k = (ref_kernel *)kernel;
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    double *tensor[LS_ARG_COUNT] = {NULL}, *scratch = args[LS_ARG_SCRATCH];
    for (int i = 0; i < LS_ARG_COUNT; i++) {
        const ls_layout *layout = kernel->layout[i];
        if (!layout) continue;
        int64_t count = ls_shape_count(layout->shape);
        tensor[i] = scratch;
        scratch += count;
        if (!is_output(k->spec.pass, i)) widen(args[i], layout->dtype, count, tensor[i]);
    }
    ls_ref_args a = {.spec = &k->spec,
                     .residual = tensor[LS_ARG_RESIDUAL],
                     .dresidual = tensor[LS_ARG_DRESIDUAL],
                     .addend = tensor[LS_ARG_ADDEND],
                     .workspace = args[LS_ARG_WORKSPACE],
                     .scratch = scratch,
                     .random = args[LS_ARG_RANDOM]};
    memcpy(a.x, tensor + LS_ARG_X, sizeof a.x);
    memcpy(a.w, tensor + LS_ARG_W, sizeof a.w);
    memcpy(a.y, tensor + LS_ARG_Y, sizeof a.y);
    memcpy(a.dx, tensor + LS_ARG_DX, sizeof a.dx);
    memcpy(a.dw, tensor + LS_ARG_DW, sizeof a.dw);
    memcpy(a.dy, tensor + LS_ARG_DY, sizeof a.dy);
    if (k->op->check) LS_TRY(k->op->check(&a));
    if (k->op->scratch) memset(scratch, 0, (size_t)k->op->scratch(&k->spec) * sizeof *scratch);
    ls__ref_compute(k->op, &a);
    if (k->op->seeds_gradient && args[LS_ARG_SCALE] && a.dx[0]) {
        double scale = *(const float *)args[LS_ARG_SCALE];
        for (int64_t i = 0, count = ls_shape_count(k->spec.x[0].shape); i < count; i++) a.dx[0][i] *= scale;
    }
    for (int i = 0; i < LS_ARG_COUNT; i++) {
        const ls_layout *layout = kernel->layout[i];
        if (layout && is_output(k->spec.pass, i))
            narrow(tensor[i], ls_shape_count(layout->shape), layout->dtype, args[i]);
    }
    return LS_OK;
}

static void kernel_destroy(ls_kernel *kernel) { free(kernel); }

// What a pass uses of an argument, in the rules that hold for most.
static int used_by_rule(const ls_kernel_spec *s, const ls_ref_op *op, int arg) {
    int x = arg >= LS_ARG_X && arg < LS_ARG_W, w = arg >= LS_ARG_W && arg < LS_ARG_Y;
    int y = arg >= LS_ARG_Y && arg < LS_ARG_DX, dx = arg >= LS_ARG_DX && arg < LS_ARG_DW;
    int dw = arg >= LS_ARG_DW && arg < LS_ARG_DY, dy = arg >= LS_ARG_DY && arg < LS_ARG_RESIDUAL;
    unsigned reads = op->backward_reads;
    switch (s->pass) {
    case LS_PASS_TRAINING:
    case LS_PASS_INFERENCE: return x || w || y || (arg == LS_ARG_RESIDUAL && s->residual);
    case LS_PASS_BACKWARD:
    case LS_PASS_BACKWARD_DATA:
        if (arg == LS_ARG_X && s->mask_dx) return 1;
        if (arg == LS_ARG_ADDEND) return s->addend;
        if (arg == LS_ARG_DRESIDUAL) return s->pass == LS_PASS_BACKWARD && s->residual;
        if (dw) return s->pass == LS_PASS_BACKWARD;
        if (dx && op->seeds_gradient) return arg == LS_ARG_DX;  // of the prediction alone
        return dx || (dy && !op->seeds_gradient) || (x && reads & LS_REF_READS_X) || (w && reads & LS_REF_READS_W) ||
               (y && reads & LS_REF_READS_Y);
    case LS_PASS_BACKWARD_WEIGHTS: return x || dw || dy;
    }
    return 0;
}

// The shape and type of an argument; 0 where there is none of that number.
static int type_of(const ls_kernel_spec *s, int arg, ls_shape *shape, ls_dtype *dtype) {
    int gradient = arg >= LS_ARG_DX && arg < LS_ARG_RESIDUAL, at = gradient ? arg - LS_ARG_DX : arg;
    const ls_tensor_type *t = NULL;
    if (at < LS_ARG_W)
        t = at < s->x_count ? &s->x[at] : NULL;
    else if (at < LS_ARG_Y)
        t = at - LS_ARG_W < s->w_count ? &s->w[at - LS_ARG_W] : NULL;
    else if (at < LS_ARG_DX)
        t = at - LS_ARG_Y < s->y_count ? &s->y[at - LS_ARG_Y] : NULL;
    else if (arg == LS_ARG_ADDEND)
        t = &s->x[0], gradient = 1;
    else if (arg == LS_ARG_RESIDUAL || arg == LS_ARG_DRESIDUAL)
        t = &s->y[0], gradient = arg == LS_ARG_DRESIDUAL;
    if (!t) return 0;
    *shape = t->shape;
    *dtype = gradient && arg >= LS_ARG_DW && arg < LS_ARG_DY ? LS_DTYPE_F32 : gradient ? t->gradient : t->dtype;
    // Whole numbers have no gradient.
    return !(gradient && (t->dtype == LS_DTYPE_I32 || t->dtype == LS_DTYPE_U8));
}

static int has_pass(const ls_ref_op *op, ls_pass pass) {
    switch (pass) {
    case LS_PASS_BACKWARD: return op->backward != NULL;
    case LS_PASS_BACKWARD_DATA: return op->backward_data != NULL;
    case LS_PASS_BACKWARD_WEIGHTS: return op->backward_weights != NULL;
    default: return op->forward != NULL;
    }
}

static ls_status choose_layouts(ls_device *device, ref_kernel *k) {
    const ls_kernel_spec *spec = &k->spec;
    for (int i = 0; i < LS_ARG_WORKSPACE; i++) {
        ls_shape shape;
        ls_dtype dtype;
        if (!type_of(spec, i, &shape, &dtype)) continue;
        int used = used_by_rule(spec, k->op, i);
        if (k->op->uses) used = k->op->uses(spec, i, used);
        if (!used) continue;
        LS_TRY(layout_plain(device, shape, dtype, 0, &k->base.layout[i]));
        if (spec->layout[i] && spec->layout[i] != k->base.layout[i])
            return LS_FAIL(LS_STATUS_INTERNAL, "a %s kernel was given a layout of another shape or dtype",
                           ls_op_name(spec->op));
        k->base.scratch_bytes += ls_shape_count(shape) * (int64_t)sizeof(double);
    }
    return LS_OK;
}

static ls_status kernel_create(ls_device *device, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops ops = {kernel_run, kernel_destroy};
    const ls_ref_op *op = ls__ref_op_find(spec->op);
    if (!op) return LS_FAIL(LS_STATUS_UNSUPPORTED, "device ref has no %s", ls_op_name(spec->op));
    if (!has_pass(op, spec->pass))
        return LS_FAIL(LS_STATUS_INTERNAL, "a %s has no pass %d to compute", ls_op_name(spec->op), spec->pass);
    ref_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &ops;
    k->base.name = "ref";
    k->spec = *spec;
    k->op = op;
    ls_status status = choose_layouts(device, k);
    if (status != LS_OK) {
        free(k);
        return status;
    }
    if (op->keeps_workspace && spec->pass != LS_PASS_INFERENCE)
        k->base.workspace_bytes = ls_shape_count(spec->y[0].shape) * (int64_t)sizeof(int32_t);
    if (op->scratch) k->base.scratch_bytes += op->scratch(spec) * (int64_t)sizeof(double);
    *out = &k->base;
    return LS_OK;
}

static ls_status reorder_run(ls_kernel *kernel, ls_queue *queue, const ls_span args[LS_ARG_COUNT]) {
    const ls_layout *from = kernel->layout[LS_ARG_X], *to = kernel->layout[LS_ARG_Y];
    int64_t size_from = (int64_t)ls_dtype_size(from->dtype), size_to = (int64_t)ls_dtype_size(to->dtype);
    for (int64_t i = 0, count = ls_shape_count(from->shape); i < count; i++) {
        double value;
        widen((const char *)ls_span_host(args[LS_ARG_X]) + i * size_from, from->dtype, 1, &value);
        narrow(&value, 1, to->dtype, (char *)ls_span_host(args[LS_ARG_Y]) + i * size_to);
    }
    return LS_OK;
}

static ls_status reorder_create(ls_device *device, const ls_layout *from, const ls_layout *to, ls_kernel **out) {
    static const ls_kernel_ops ops = {reorder_run, kernel_destroy};
    if (!ls_shape_equal(from->shape, to->shape))
        return LS_FAIL(LS_STATUS_INTERNAL, "a reorder was asked for between different shapes");
    ls_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->ops = &ops;
    k->name = "ref";
    k->layout[LS_ARG_X] = from;
    k->layout[LS_ARG_Y] = to;
    *out = k;
    return LS_OK;
}

static ls_status create(const ls_device_options *options, ls_device **out) {
    ref_device *d;
    LS_TRY(ls_calloc(1, sizeof *d, &d));
    pthread_mutex_init(&d->mutex, NULL);
    *out = &d->base;
    return LS_OK;
}

static void destroy(ls_device *device) {
    ref_device *d = (ref_device *)device;
    for (layout_entry *e = d->layouts, *next; e; e = next) {
        next = e->next;
        free(e);
    }
    pthread_mutex_destroy(&d->mutex);
    free(d);
}

static void describe(const ls_device *device, char *text, size_t size) {
    snprintf(text, size, "reference loops in double precision");
}

static ls_status supports(const ls_device *device, ls_dtype precision) {
    if (precision == LS_DTYPE_F32 || precision == LS_DTYPE_BF16 || precision == LS_DTYPE_F16) return LS_OK;
    return LS_FAIL(LS_STATUS_UNSUPPORTED, "device ref computes in fp32, bf16 and fp16, not in %s",
                   ls_dtype_name(precision));
}

static void thread_begin(ls_device *device, ls_thread_fn each, void *user) {
    if (each) each(user, 0);
}

const ls_device_ops ls_device_ref = {
    .name = "ref",
    .help = "plain C loops, slow and readable: what other devices are tested against",
    .host_memory = 1,
    .memory = &ls__host_memory,
    .vector = &ls__host_vector,
    .create = create,
    .destroy = destroy,
    .describe = describe,
    .supports = supports,
    .layout_plain = layout_plain,
    .kernel_create = kernel_create,
    .reorder_create = reorder_create,
    .thread_begin = thread_begin,
};
