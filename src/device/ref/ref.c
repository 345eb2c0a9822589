#include "device/ref/ref.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bf16.h"
#include "base/error.h"
#include "base/memory.h"

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
    X(zero_pad2d)                                                                                                      \
    X(relu)                                                                                                            \
    X(flatten)                                                                                                         \
    X(dropout)                                                                                                         \
    X(softmax_cross_entropy)

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

static void widen(const void *from, ls_dtype dtype, int64_t count, double *to) {
    for (int64_t i = 0; i < count; i++)
        to[i] = dtype == LS_DTYPE_BF16 ? ls_bf16_to_float(((const ls_bf16 *)from)[i]) : ((const float *)from)[i];
}

static void narrow(const double *from, int64_t count, ls_dtype dtype, void *to) {
    for (int64_t i = 0; i < count; i++) {
        if (dtype == LS_DTYPE_BF16)
            ((ls_bf16 *)to)[i] = ls_float_to_bf16((float)from[i]);
        else
            ((float *)to)[i] = (float)from[i];
    }
}

static int is_output(ls_pass pass, int arg) {
    int forward = pass == LS_PASS_TRAINING || pass == LS_PASS_INFERENCE;
    if (arg == LS_ARG_Y) return forward;
    return arg == LS_ARG_DX || arg == LS_ARG_DX2 || arg == LS_ARG_DW || arg == LS_ARG_DB || arg == LS_ARG_DMEAN ||
           arg == LS_ARG_DVARIANCE;
}

void ls__ref_compute(const ls_ref_op *op, const ls_ref_args *a) {
    const ls_kernel_spec *s = a->spec;
    int64_t x_count = ls_shape_count(s->x), y_count = ls_shape_count(s->y);
    switch (s->pass) {
    case LS_PASS_TRAINING:
    case LS_PASS_INFERENCE:
        op->forward(a);
        for (int64_t i = 0; s->residual && i < y_count; i++) a->y[i] += a->x2[i];
        if (s->attrs.activation == LS_ACTIVATION_RELU)
            for (int64_t i = 0; i < y_count; i++)
                if (!(a->y[i] > 0)) a->y[i] = 0;
        break;
    case LS_PASS_BACKWARD_DATA:
        op->backward_data(a);
        for (int64_t i = 0; s->addend && i < x_count; i++) a->dx[i] += a->addend[i];
        for (int64_t i = 0; s->mask_dx && i < x_count; i++)
            if (!(a->x[i] > 0)) a->dx[i] = 0;
        break;
    case LS_PASS_BACKWARD_WEIGHTS: op->backward_weights(a); break;
    }
}

static ls_status kernel_run(ls_kernel *kernel, void *const args[LS_ARG_COUNT]) {
    ref_kernel *k = (ref_kernel *)kernel;
    double *tensor[LS_ARG_COUNT] = {NULL}, *scratch = args[LS_ARG_SCRATCH];
    for (int i = 0; i < LS_ARG_COUNT; i++) {
        const ls_layout *layout = kernel->layout[i];
        if (!layout) continue;
        int64_t count = ls_shape_count(layout->shape);
        tensor[i] = scratch;
        scratch += count;
        if (!is_output(k->spec.pass, i)) widen(args[i], layout->dtype, count, tensor[i]);
    }
    ls_ref_args a = {
        .spec = &k->spec,
        .x = tensor[LS_ARG_X],
        .x2 = tensor[LS_ARG_X2],
        .w = tensor[LS_ARG_W],
        .b = tensor[LS_ARG_B],
        .y = tensor[LS_ARG_Y],
        .dx = tensor[LS_ARG_DX],
        .dx2 = tensor[LS_ARG_DX2],
        .dw = tensor[LS_ARG_DW],
        .db = tensor[LS_ARG_DB],
        .dy = tensor[LS_ARG_DY],
        .addend = tensor[LS_ARG_ADDEND],
        .mean = tensor[LS_ARG_MEAN],
        .variance = tensor[LS_ARG_VARIANCE],
        .dmean = tensor[LS_ARG_DMEAN],
        .dvariance = tensor[LS_ARG_DVARIANCE],
        .workspace = args[LS_ARG_WORKSPACE],
        .labels = k->spec.attrs.one_hot ? NULL : args[LS_ARG_LABELS],
        .label_rows = k->spec.attrs.one_hot ? args[LS_ARG_LABELS] : NULL,
        .metrics = args[LS_ARG_METRICS],
        .random = args[LS_ARG_RANDOM],
    };
    ls__ref_compute(k->op, &a);
    for (int i = 0; i < LS_ARG_COUNT; i++) {
        const ls_layout *layout = kernel->layout[i];
        if (layout && is_output(k->spec.pass, i))
            narrow(tensor[i], ls_shape_count(layout->shape), layout->dtype, args[i]);
    }
    return LS_OK;
}

static void kernel_destroy(ls_kernel *kernel) { free(kernel); }

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

// The shape and dtype of each tensor the kernel uses; ndim 0 and no mark for the others.
typedef struct tensor_use {
    int used;
    ls_shape shape;
    ls_dtype dtype;
} tensor_use;

static ls_shape weights_shape(const ls_kernel_spec *s) {
    const ls_op_attrs *a = &s->attrs;
    if (s->op == LS_OP_CONV2D) return LS_SHAPE(a->kernel[0], a->kernel[1], s->x.dim[3], a->filters);
    if (s->op == LS_OP_DENSE) return LS_SHAPE(s->x.dim[1], a->filters);
    return LS_SHAPE(s->x.dim[s->x.ndim - 1]);  // gamma
}

static void tensor_uses(const ls_kernel_spec *s, const ls_ref_op *op, tensor_use use[LS_ARG_COUNT]) {
    int norm = s->op == LS_OP_BATCH_NORM, loss = s->op == LS_OP_SOFTMAX_CROSS_ENTROPY;
    int weights = norm || op->backward_weights != NULL, relu = s->attrs.activation == LS_ACTIVATION_RELU;
    ls_shape w = weights_shape(s), b = norm ? w : LS_SHAPE(s->attrs.filters);
    switch (s->pass) {
    case LS_PASS_TRAINING:
    case LS_PASS_INFERENCE:
        use[LS_ARG_X] = (tensor_use){1, s->x, s->x_dtype};
        use[LS_ARG_X2] = (tensor_use){s->residual || s->op == LS_OP_ADD, s->y, s->y_dtype};
        use[LS_ARG_W] = (tensor_use){weights, w, norm ? LS_DTYPE_F32 : s->w_dtype};
        use[LS_ARG_B] = (tensor_use){norm || (weights && s->attrs.use_bias), b, LS_DTYPE_F32};
        use[LS_ARG_Y] = (tensor_use){!loss, s->y, s->y_dtype};
        if (norm && s->pass == LS_PASS_INFERENCE)
            use[LS_ARG_MEAN] = use[LS_ARG_VARIANCE] = (tensor_use){1, w, LS_DTYPE_F32};
        break;
    case LS_PASS_BACKWARD_DATA:
        use[LS_ARG_X] = (tensor_use){op->backward_data_needs_x || s->mask_dx, s->x, s->x_dtype};
        use[LS_ARG_W] = (tensor_use){weights, w, norm ? LS_DTYPE_F32 : s->w_dtype};
        use[LS_ARG_DX] = (tensor_use){1, s->x, loss ? s->dy_dtype : s->x_dtype};
        use[LS_ARG_DY] = (tensor_use){!loss, s->y, s->dy_dtype};
        use[LS_ARG_ADDEND] = (tensor_use){s->addend, s->x, s->x_dtype};
        if (!norm) break;
        use[LS_ARG_B] = use[LS_ARG_DW] = use[LS_ARG_DB] = (tensor_use){1, w, LS_DTYPE_F32};
        use[LS_ARG_DMEAN] = use[LS_ARG_DVARIANCE] = (tensor_use){1, w, LS_DTYPE_F32};
        use[LS_ARG_Y] = (tensor_use){s->residual && relu, s->y, s->y_dtype};
        use[LS_ARG_DX2] = (tensor_use){s->residual, s->y, s->dy_dtype};
        break;
    case LS_PASS_BACKWARD_WEIGHTS:
        use[LS_ARG_X] = (tensor_use){1, s->x, s->x_dtype};
        use[LS_ARG_DW] = (tensor_use){1, w, LS_DTYPE_F32};
        use[LS_ARG_DB] = (tensor_use){s->attrs.use_bias, b, LS_DTYPE_F32};
        use[LS_ARG_DY] = (tensor_use){1, s->y, s->dy_dtype};
        break;
    }
}

static ls_status kernel_create(ls_device *device, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops ops = {kernel_run, kernel_destroy};
    const ls_ref_op *op = ls__ref_op_find(spec->op);
    if (!op) return LS_FAIL(LS_STATUS_UNSUPPORTED, "device ref has no %s", ls_op_class(spec->op));
    tensor_use use[LS_ARG_COUNT] = {0};
    tensor_uses(spec, op, use);
    ls_status status = LS_OK;
    ref_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &ops;
    k->base.name = "ref";
    k->spec = *spec;
    k->op = op;
    for (int i = 0; i < LS_ARG_COUNT; i++) {
        if (!use[i].used) continue;
        if (use[i].dtype != LS_DTYPE_F32 && use[i].dtype != LS_DTYPE_BF16)
            LS_FAIL_GOTO(LS_STATUS_UNSUPPORTED, failed, "device ref computes %s in fp32 and bf16, not in %s",
                         ls_op_class(spec->op), ls_dtype_name(use[i].dtype));
        LS_TRY_GOTO(layout_plain(device, use[i].shape, use[i].dtype, 0, &k->base.layout[i]), failed);
        if (spec->layout[i] && spec->layout[i] != k->base.layout[i])
            LS_FAIL_GOTO(LS_STATUS_INTERNAL, failed, "a %s kernel was given a layout of another shape or dtype",
                         ls_op_class(spec->op));
        k->base.scratch_bytes += ls_shape_count(use[i].shape) * (int64_t)sizeof(double);
    }
    if (op->keeps_workspace && spec->pass != LS_PASS_INFERENCE)
        k->base.workspace_bytes = ls_shape_count(spec->y) * (int64_t)sizeof(int32_t);
    *out = &k->base;
    return LS_OK;
failed:
    free(k);
    return status;
}

static ls_status reorder_run(ls_kernel *kernel, void *const args[LS_ARG_COUNT]) {
    const ls_layout *from = kernel->layout[LS_ARG_X], *to = kernel->layout[LS_ARG_Y];
    int64_t size_from = (int64_t)ls_dtype_size(from->dtype), size_to = (int64_t)ls_dtype_size(to->dtype);
    for (int64_t i = 0, count = ls_shape_count(from->shape); i < count; i++) {
        double value;
        widen((const char *)args[LS_ARG_X] + i * size_from, from->dtype, 1, &value);
        narrow(&value, 1, to->dtype, (char *)args[LS_ARG_Y] + i * size_to);
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
    if (precision == LS_DTYPE_F32 || precision == LS_DTYPE_BF16) return LS_OK;
    return LS_FAIL(LS_STATUS_UNSUPPORTED, "device ref computes in fp32 and bf16, not in %s", ls_dtype_name(precision));
}

static void thread_begin(ls_device *device) {}

static void accumulate(ls_device *device, float *y, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] += x[i];
}

const ls_device_ops ls_device_ref = {
    .name = "ref",
    .help = "plain C loops, slow and readable: what other devices are tested against",
    .create = create,
    .destroy = destroy,
    .describe = describe,
    .supports = supports,
    .layout_plain = layout_plain,
    .kernel_create = kernel_create,
    .reorder_create = reorder_create,
    .thread_begin = thread_begin,
    .accumulate = accumulate,
};
