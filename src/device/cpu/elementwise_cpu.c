// ReLU, addition, flatten, reshape and dropout where they could not be fused into a neighbour.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/cpu/loops.h"
#include "device/dropout.h"

typedef struct elementwise_kernel {
    ls_kernel base;
    ls_dtype dtype;
    int64_t count;  // elements in all
    int64_t samples, per_sample;
    int mask_dx, relu, threads, whole_samples;
    float rate;
    uint32_t layer;
} elementwise_kernel;

// --- shared by threads -----------------------------------------------------------------------------------------------

enum { LEAST_SHARED = 1 << 14 };  // elements: fewer are done before the others have begun

// Elements [from, to) of a pass.
typedef void (*part_fn)(const elementwise_kernel *k, void *const args[LS_ARG_COUNT], int64_t from, int64_t to);

static void share(const elementwise_kernel *k, void *const args[LS_ARG_COUNT], part_fn part) {
    int64_t threads = k->threads, units = k->count / 64;
    if (threads <= 1 || k->count < LEAST_SHARED) {
        part(k, args, 0, k->count);
        return;
    }
#pragma omp parallel for num_threads(k->threads)
    for (int64_t t = 0; t < threads; t++)
        part(k, args, units * t / threads * 64, t + 1 == threads ? k->count : units * (t + 1) / threads * 64);
}

// Element `from` of an argument.
static void *at(const elementwise_kernel *k, void *const args[LS_ARG_COUNT], int arg, int64_t from) {
    return (char *)args[arg] + from * (int64_t)ls_dtype_size(k->dtype);
}

// --- passes ----------------------------------------------------------------------------------------------------------

static void relu_part(const elementwise_kernel *k, void *const args[LS_ARG_COUNT], int64_t from, int64_t to) {
    ls__loop_relu(k->dtype, at(k, args, LS_ARG_Y, from), at(k, args, LS_ARG_X, from), to - from);
}

static void mask_part(const elementwise_kernel *k, void *const args[LS_ARG_COUNT], int64_t from, int64_t to) {
    ls__loop_mask(k->dtype, at(k, args, LS_ARG_DX, from), at(k, args, LS_ARG_DY, from), at(k, args, LS_ARG_X, from),
                  to - from);
}

static void add_part(const elementwise_kernel *k, void *const args[LS_ARG_COUNT], int64_t from, int64_t to) {
    ls__loop_add(k->dtype, at(k, args, LS_ARG_Y, from), at(k, args, LS_ARG_X, from), at(k, args, LS_ARG_X + 1, from),
                 k->relu, to - from);
}

static ls_status relu_forward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    share((const elementwise_kernel *)kernel, args, relu_part);
    return LS_OK;
}

static ls_status relu_backward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    share((const elementwise_kernel *)kernel, args, mask_part);
    return LS_OK;
}

static ls_status add_forward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    share((const elementwise_kernel *)kernel, args, add_part);
    return LS_OK;
}

static ls_status copy_forward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const elementwise_kernel *k = (const elementwise_kernel *)kernel;
    if (args[LS_ARG_X] != args[LS_ARG_Y])
        memcpy(args[LS_ARG_Y], args[LS_ARG_X], (size_t)k->count * ls_dtype_size(k->dtype));
    return LS_OK;
}

static ls_status copy_backward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const elementwise_kernel *k = (const elementwise_kernel *)kernel;
    if (k->mask_dx)
        share(k, args, mask_part);
    else if (args[LS_ARG_DX] && args[LS_ARG_DX] != args[LS_ARG_DY])
        memcpy(args[LS_ARG_DX], args[LS_ARG_DY], (size_t)k->count * ls_dtype_size(k->dtype));
    return LS_OK;
}

// --- dropout ---------------------------------------------------------------------------------------------------------

// Draws the decisions of sample n.
static void keep_sample(const elementwise_kernel *k, void *const args[LS_ARG_COUNT], int64_t n) {
    const ls_random_key *key = args[LS_ARG_RANDOM];
    uint8_t *of = (uint8_t *)args[LS_ARG_WORKSPACE] + n * k->per_sample;
    ls__loop_dropout_keep(key->seed, key->samples[n],
                          ls_random_stream(LS_RANDOM_DROPOUT, (uint32_t)key->epoch, k->layer),
                          ls_dropout_threshold(k->rate), of, k->whole_samples ? 1 : k->per_sample);
    if (k->whole_samples) memset(of, of[0], (size_t)k->per_sample);
}

static void drop_part(const elementwise_kernel *k, void *const args[LS_ARG_COUNT], int64_t from, int64_t to) {
    ls__loop_scale_kept(k->dtype, at(k, args, LS_ARG_Y, from), at(k, args, LS_ARG_X, from),
                        (const uint8_t *)args[LS_ARG_WORKSPACE] + from, ls_dropout_scale(k->rate), to - from);
}

static void drop_backward_part(const elementwise_kernel *k, void *const args[LS_ARG_COUNT], int64_t from, int64_t to) {
    void *dx = at(k, args, LS_ARG_DX, from);
    ls__loop_scale_kept(k->dtype, dx, at(k, args, LS_ARG_DY, from), (const uint8_t *)args[LS_ARG_WORKSPACE] + from,
                        ls_dropout_scale(k->rate), to - from);
    if (k->mask_dx) ls__loop_mask(k->dtype, dx, dx, at(k, args, LS_ARG_X, from), to - from);
}

// The decisions are drawn in forward and kept, a byte each, for backward.
static ls_status dropout_forward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const elementwise_kernel *k = (const elementwise_kernel *)kernel;
    if (k->threads <= 1 || k->count < LEAST_SHARED) {
        for (int64_t n = 0; n < k->samples; n++) keep_sample(k, args, n);
    } else {
#pragma omp parallel for num_threads(k->threads)
        for (int64_t n = 0; n < k->samples; n++) keep_sample(k, args, n);
    }
    share(k, args, drop_part);
    return LS_OK;
}

static ls_status dropout_backward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    share((const elementwise_kernel *)kernel, args, drop_backward_part);
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

static const ls_kernel_ops *ops_for(const ls_kernel_spec *spec) {
    static const ls_kernel_ops relu[] = {{relu_forward, destroy}, {relu_backward, destroy}};
    static const ls_kernel_ops copy[] = {{copy_forward, destroy}, {copy_backward, destroy}};
    static const ls_kernel_ops dropout[] = {{dropout_forward, destroy}, {dropout_backward, destroy}};
    static const ls_kernel_ops add = {add_forward, destroy};
    int backward = spec->pass == LS_PASS_BACKWARD_DATA;
    if (spec->op == LS_OP_ADD) return &add;
    if (spec->op == LS_OP_RELU) return &relu[backward];
    if (spec->op == LS_OP_DROPOUT && spec->pass != LS_PASS_INFERENCE) return &dropout[backward];
    return &copy[backward];
}

static const char *name_of(ls_op_kind op) {
    return op == LS_OP_RELU      ? "loop:relu"
           : op == LS_OP_ADD     ? "loop:add"
           : op == LS_OP_DROPOUT ? "loop:dropout"
                                 : "loop:copy";
}

ls_status ls__cpu_elementwise_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    int backward = spec->pass == LS_PASS_BACKWARD_DATA, any_layout = spec->op == LS_OP_RELU || spec->op == LS_OP_ADD;
    ls_arg x_arg = backward ? LS_ARG_DX : LS_ARG_X, y_arg = backward ? LS_ARG_DY : LS_ARG_Y;
    const ls_layout *x = spec->layout[x_arg], *y;
    // ReLU and addition work in any layout; the others count elements in logical order.
    if (!x || !any_layout) LS_TRY(cpu->base.ops->layout_plain(&cpu->base, spec->x[0].shape, spec->x[0].dtype, 0, &x));
    y = x;
    if (!ls_shape_equal(spec->x[0].shape, spec->y[0].shape))
        LS_TRY(cpu->base.ops->layout_plain(&cpu->base, spec->y[0].shape, spec->x[0].dtype, 0, &y));
    assert(x);  // given, or plain
    elementwise_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = ops_for(spec);
    k->base.name = name_of(spec->op);
    k->base.layout[x_arg] = backward && spec->x[0].dtype == LS_DTYPE_I32 ? NULL : x;  // whole numbers have no gradient
    k->base.layout[y_arg] = y;
    if (spec->op == LS_OP_ADD) k->base.layout[LS_ARG_X + 1] = x;
    if (backward && (spec->op == LS_OP_RELU || spec->mask_dx)) k->base.layout[LS_ARG_X] = x;
    if (k->base.layout[x_arg] == y)
        ls__cpu_in_place(&k->base, backward ? LS_ARG_DX : LS_ARG_Y, backward ? LS_ARG_DY : LS_ARG_X);
    if (spec->op == LS_OP_ADD) ls__cpu_in_place(&k->base, LS_ARG_Y, LS_ARG_X + 1);
    k->dtype = spec->x[0].dtype;
    k->count = x->bytes / (int64_t)ls_dtype_size(x->dtype);
    k->samples = spec->x[0].shape.dim[0];
    k->per_sample = k->count / k->samples;
    k->mask_dx = spec->mask_dx;
    k->relu = spec->activation == LS_ACTIVATION_RELU;
    k->threads = cpu->base.options.threads;
    if (spec->op == LS_OP_DROPOUT && spec->pass != LS_PASS_INFERENCE) {
        k->rate = LS_ATTRS(ls_dropout_attrs, &spec->attrs)->rate;
        k->layer = LS_ATTRS(ls_dropout_attrs, &spec->attrs)->layer;
        k->whole_samples = LS_ATTRS(ls_dropout_attrs, &spec->attrs)->per_sample;
        k->base.workspace_bytes = k->count;
    }
    *out = &k->base;
    return LS_OK;
}
