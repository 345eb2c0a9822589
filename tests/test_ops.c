// Every operation and pass of device "cpu" against the reference loops, over shapes, dtypes, layouts and fusions.
//
// Both devices get the same plain values, brought into each kernel's layouts by the device's own reorders and back
// again, as a plan does it; backward kernels are told forward's layouts and get its workspace. Inputs are rounded to
// bf16 beforehand, so that conversions lose nothing. Outputs are filled with NaN before a kernel runs: what it leaves
// out shows.
//
// Tolerances, as a share of the tensor's largest magnitude:
//   selecting ops (max pooling, ReLU, flatten)   exact: they compute nothing
//   dropout, average pooling, loss in fp32,      1e-6: a few roundings of 2^-24, against double
//   gradients of overlapping windows
//   convolution, dense in fp32                   2e-5: sums of up to 2,304 products in single precision, and
//                                                Winograd's transforms, which cost a digit (Lavin and Gray, "Fast
//                                                algorithms for convolutional neural networks", 2016)
//   anything computed and stored in bf16         2^-7 of the element on top: numbers a rounding apart are neighbours
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/memory.h"
#include "base/philox.h"
#include "device/device.h"

static ls_device *cpu, *ref;
static int runs[LS_OP_COUNT][2], skips[LS_OP_COUNT][2];  // by dtype: fp32, bf16
static double worst[LS_OP_COUNT][2];                     // largest error seen, as a share of the tolerance

static int setup(void **state) {
    if (ls_device_create("cpu", &(ls_device_options){.threads = 1}, &cpu) != LS_OK) return 1;
    cpu->ops->thread_begin(cpu);
    return ls_device_create("ref", NULL, &ref) != LS_OK;
}

static int teardown(void **state) {
    ls_device_destroy(&cpu);
    ls_device_destroy(&ref);
    return 0;
}

// --- values ----------------------------------------------------------------------------------------------------------

static uint32_t draws;
static uint32_t draw(void) { return ls_philox(2024, draws++, 0, 0, 0).v[0]; }
static int pick(const int *from, int count) { return from[draw() % (uint32_t)count]; }
#define PICK(...) pick((const int[]){__VA_ARGS__}, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)))

typedef enum kind { SMOOTH, FEW, RELU_OUTPUT } kind;  // FEW: many equal values; RELU_OUTPUT: many zeros, none negative

static float *new_values(int64_t count, kind k) {
    float *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++) {
        float v = 2 * ls_uniform(draw()) - 1;
        if (k == FEW) v = floorf(v * 3) / 4;
        if (k == RELU_OUTPUT && v < 0) v = 0;
        values[i] = ls_bf16_to_float(ls_float_to_bf16(v));
    }
    return values;
}

// --- running a pass --------------------------------------------------------------------------------------------------

// One device's side of a case: plain F32 values of every tensor, (logical shape).
typedef struct side {
    ls_device *device;
    float *value[LS_ARG_COUNT];
    const ls_layout *x_layout, *y_layout;  // forward's
    void *workspace;
    ls_loss_metrics metrics;
} side;

typedef struct inputs {
    float *value[LS_ARG_COUNT];  // X, W, B, DY
    int32_t *labels;
    ls_random_key random;
} inputs;

static void *new_poisoned(int64_t bytes) {
    void *p;
    assert_int_equal(ls_memory_alloc(bytes, &p), LS_OK);
    memset(p, 0xFF, (size_t)bytes);  // NaN in every dtype
    return p;
}

static int is_output(int arg) { return arg == LS_ARG_Y || arg == LS_ARG_DX || arg == LS_ARG_DW || arg == LS_ARG_DB; }

static void convert(ls_device *d, const ls_layout *from, const void *x, const ls_layout *to, void *y) {
    if (from == to) {
        memcpy(y, x, (size_t)from->bytes);
        return;
    }
    ls_kernel *k;
    assert_int_equal(d->ops->reorder_create(d, from, to, &k), LS_OK);
    void *args[LS_ARG_COUNT] = {
        [LS_ARG_X] = (void *)x, [LS_ARG_Y] = y, [LS_ARG_SCRATCH] = new_poisoned(k->scratch_bytes)};
    assert_int_equal(ls_kernel_run(k, args), LS_OK);
    ls_memory_free(args[LS_ARG_SCRATCH]);
    ls_kernel_destroy(&k);
}

static const ls_layout *plain(ls_device *d, const ls_layout *like, int arg) {
    const ls_layout *layout;
    int is_weights = arg == LS_ARG_W || arg == LS_ARG_DW;
    assert_int_equal(d->ops->layout_plain(d, like->shape, LS_DTYPE_F32, is_weights, &layout), LS_OK);
    return layout;
}

// Creates the kernel, feeds it, runs it, takes its outputs back. UNSUPPORTED is passed on, anything else is a failure.
static ls_status run_pass(side *s, const ls_kernel_spec *spec, const inputs *in) {
    ls_device *d = s->device;
    ls_kernel *k;
    ls_status status = ls_kernel_create(d, spec, &k);
    if (status == LS_STATUS_UNSUPPORTED) return status;
    if (status != LS_OK) fail_msg("%s: %s (%s)", d->ops->name, ls_error_message(), ls_error_trace());
    void *args[LS_ARG_COUNT] = {
        [LS_ARG_LABELS] = in->labels, [LS_ARG_METRICS] = &s->metrics, [LS_ARG_RANDOM] = (void *)&in->random};
    for (int i = 0; i < LS_ARG_COUNT; i++) {
        const ls_layout *layout = k->layout[i];
        if (!layout) continue;
        args[i] = new_poisoned(layout->bytes);
        if (is_output(i)) continue;
        if (!in->value[i]) fail_msg("%s: %s reads argument %d", d->ops->name, ls_op_class(spec->op), i);
        convert(d, plain(d, layout, i), in->value[i], layout, args[i]);
    }
    if (spec->pass == LS_PASS_TRAINING) {
        s->x_layout = k->layout[LS_ARG_X];
        s->y_layout = k->layout[LS_ARG_Y];
        s->workspace = new_poisoned(k->workspace_bytes);
    }
    args[LS_ARG_WORKSPACE] = spec->pass == LS_PASS_INFERENCE ? NULL : s->workspace;
    args[LS_ARG_SCRATCH] = new_poisoned(k->scratch_bytes);
    status = ls_kernel_run(k, args);
    if (status != LS_OK) fail_msg("%s: %s (%s)", d->ops->name, ls_error_message(), ls_error_trace());
    for (int i = 0; i < LS_ARG_COUNT; i++) {
        if (!k->layout[i]) continue;
        if (is_output(i)) {
            const ls_layout *to = plain(d, k->layout[i], i);
            free(s->value[i]);
            s->value[i] = malloc((size_t)to->bytes);
            convert(d, k->layout[i], args[i], to, s->value[i]);
        }
        ls_memory_free(args[i]);
    }
    ls_memory_free(args[LS_ARG_SCRATCH]);
    ls_kernel_destroy(&k);
    return LS_OK;
}

// --- comparing -------------------------------------------------------------------------------------------------------

typedef struct tolerance {
    double of_element, of_largest;
} tolerance;

static tolerance tolerance_of(const ls_kernel_spec *spec, int arg) {
    int weighted = spec->op == LS_OP_CONV2D || spec->op == LS_OP_DENSE;
    int computes = spec->op == LS_OP_DROPOUT || spec->op == LS_OP_AVERAGE_POOL2D ||
                   spec->op == LS_OP_GLOBAL_AVERAGE_POOL2D || spec->op == LS_OP_SOFTMAX_CROSS_ENTROPY;
    int overlaps = spec->op == LS_OP_MAX_POOL2D && arg == LS_ARG_DX &&
                   (spec->attrs.strides[0] < spec->attrs.kernel[0] || spec->attrs.strides[1] < spec->attrs.kernel[1]);
    tolerance t = {0, weighted ? 2e-5 : computes || overlaps ? 1e-6 : 0};
    ls_dtype stored = arg == LS_ARG_Y ? spec->y_dtype : arg == LS_ARG_DX ? spec->x_dtype : LS_DTYPE_F32;
    if (spec->op == LS_OP_SOFTMAX_CROSS_ENTROPY) stored = spec->dy_dtype;
    if (stored == LS_DTYPE_BF16 && t.of_largest > 0) t.of_element = 0x1p-7;
    return t;
}

static const char *describe(const ls_kernel_spec *s) {
    static char text[256];
    const ls_op_attrs *a = &s->attrs;
    const int64_t *x = s->x.dim;
    snprintf(
        text, sizeof text,
        "%s %s, pass %d, x %lldx%lldx%lldx%lld, %d filters, window %dx%d, strides %d,%d, pad %d,%d, bias %d, relu %d, "
        "mask %d",
        ls_op_class(s->op), ls_dtype_name(s->x_dtype), s->pass, (long long)x[0], (long long)x[1],
        (long long)(s->x.ndim > 2 ? x[2] : 1), (long long)(s->x.ndim > 3 ? x[3] : 1), a->filters, a->kernel[0],
        a->kernel[1], a->strides[0], a->strides[1], a->pad[0], a->pad[1], a->use_bias, a->activation, s->mask_dx);
    return text;
}

static int is_bf16(const ls_kernel_spec *spec) { return spec->dy_dtype == LS_DTYPE_BF16; }

static void compare(const ls_kernel_spec *spec, int arg, const float *expected, const float *found, int64_t count) {
    tolerance t = tolerance_of(spec, arg);
    double largest = 0;
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(expected[i]));
    for (int64_t i = 0; i < count; i++) {
        double allowed = t.of_element * fabs(expected[i]) + t.of_largest * largest,
               error = fabs(found[i] - expected[i]);
        if (!(error <= allowed))
            fail_msg("%s: argument %d, element %lld is %.9g, the reference says %.9g (allowed: %.3g off)",
                     describe(spec), arg, (long long)i, found[i], expected[i], allowed);
        if (allowed > 0) worst[spec->op][is_bf16(spec)] = fmax(worst[spec->op][is_bf16(spec)], error / allowed);
    }
}

static int64_t weight_count(const ls_kernel_spec *s) {
    if (s->op == LS_OP_DENSE) return s->x.dim[1] * s->attrs.filters;
    return (int64_t)s->attrs.kernel[0] * s->attrs.kernel[1] * s->x.dim[3] * s->attrs.filters;
}

static void compare_pass(const ls_kernel_spec *spec, const side *r, const side *c) {
    for (int arg = 0; arg < LS_ARG_COUNT; arg++) {
        if (!r->value[arg]) continue;
        int64_t count = arg == LS_ARG_Y    ? ls_shape_count(spec->y)
                        : arg == LS_ARG_DX ? ls_shape_count(spec->x)
                        : arg == LS_ARG_DW ? weight_count(spec)
                                           : spec->attrs.filters;
        assert_non_null(c->value[arg]);
        compare(spec, arg, r->value[arg], c->value[arg], count);
    }
    if (spec->op != LS_OP_SOFTMAX_CROSS_ENTROPY || spec->pass == LS_PASS_BACKWARD_DATA) return;
    assert_true(fabs(r->metrics.loss - c->metrics.loss) <= 1e-6 * r->metrics.loss);
    assert_int_equal(r->metrics.correct, c->metrics.correct);
    assert_int_equal(r->metrics.samples, c->metrics.samples);
}

static void clear_values(side *s) {
    for (int i = 0; i < LS_ARG_COUNT; i++) {
        free(s->value[i]);
        s->value[i] = NULL;
    }
}

// Runs one pass on both devices and compares. Returns 0 when the device does not support it.
static int check_pass(ls_kernel_spec spec, ls_pass pass, side *r, side *c, const inputs *in,
                      const ls_layout *x_layout) {
    ls_kernel_spec cpu_spec = spec;
    spec.pass = cpu_spec.pass = pass;
    if (pass == LS_PASS_TRAINING || pass == LS_PASS_INFERENCE) cpu_spec.layout[LS_ARG_X] = x_layout;
    if (pass == LS_PASS_BACKWARD_DATA && spec.op != LS_OP_SOFTMAX_CROSS_ENTROPY) {
        cpu_spec.layout[LS_ARG_DX] = c->x_layout;
        if (spec.y_dtype == spec.dy_dtype) cpu_spec.layout[LS_ARG_DY] = c->y_layout;
    }
    if (pass == LS_PASS_BACKWARD_WEIGHTS) {
        cpu_spec.layout[LS_ARG_X] = c->x_layout;
        if (spec.y_dtype == spec.dy_dtype) cpu_spec.layout[LS_ARG_DY] = c->y_layout;
    }
    if (run_pass(c, &cpu_spec, in) != LS_OK) return 0;
    assert_int_equal(run_pass(r, &spec, in), LS_OK);
    compare_pass(&spec, r, c);
    clear_values(r), clear_values(c);
    return 1;
}

// All passes of an operation. `x_layout`: how X lies when it comes, NULL for what the kernel likes best.
static void check(ls_kernel_spec spec, kind x_kind, const ls_layout *x_layout) {
    int weighted = spec.op == LS_OP_CONV2D || spec.op == LS_OP_DENSE, loss = spec.op == LS_OP_SOFTMAX_CROSS_ENTROPY;
    int64_t n = spec.x.dim[0];
    side r = {.device = ref}, c = {.device = cpu};
    inputs in = {.random = {.seed = 3, .epoch = 2}};
    uint64_t *samples = malloc((size_t)n * sizeof *samples);
    in.labels = malloc((size_t)n * sizeof *in.labels);
    for (int64_t i = 0; i < n; i++) {
        samples[i] = draw() % 60000;
        in.labels[i] = (int32_t)(draw() % (uint32_t)spec.y.dim[spec.y.ndim - 1]);
    }
    in.random.samples = samples;
    in.value[LS_ARG_X] = new_values(ls_shape_count(spec.x), spec.mask_dx ? RELU_OUTPUT : x_kind);
    in.value[LS_ARG_DY] = loss ? NULL : new_values(ls_shape_count(spec.y), SMOOTH);
    if (weighted) in.value[LS_ARG_W] = new_values(weight_count(&spec), SMOOTH);
    if (spec.attrs.use_bias) in.value[LS_ARG_B] = new_values(spec.attrs.filters, SMOOTH);
    int supported = check_pass(spec, LS_PASS_TRAINING, &r, &c, &in, x_layout) &&
                    check_pass(spec, LS_PASS_INFERENCE, &r, &c, &in, x_layout) &&
                    check_pass(spec, LS_PASS_BACKWARD_DATA, &r, &c, &in, x_layout) &&
                    (!weighted || check_pass(spec, LS_PASS_BACKWARD_WEIGHTS, &r, &c, &in, x_layout));
    if (supported)
        runs[spec.op][is_bf16(&spec)]++;
    else if (!skips[spec.op][is_bf16(&spec)]++)
        print_message("not supported: %s: %s\n", describe(&spec), ls_error_message());
    for (int i = 0; i < LS_ARG_COUNT; i++) free(in.value[i]);
    ls_memory_free(r.workspace), ls_memory_free(c.workspace);
    free(samples), free(in.labels);
}

// --- cases -----------------------------------------------------------------------------------------------------------

static ls_kernel_spec with_dtype(ls_kernel_spec spec, ls_dtype dtype) {
    spec.x_dtype = spec.y_dtype = spec.dy_dtype = spec.w_dtype = dtype;
    return spec;
}

static int each_dtype(ls_dtype *dtypes) {
    dtypes[0] = LS_DTYPE_F32;
    dtypes[1] = LS_DTYPE_BF16;
    return cpu->ops->supports(cpu, LS_DTYPE_BF16) == LS_OK ? 2 : 1;
}

// Fills in the output size and padding of a window over x, as the graph does.
static void settle_window(ls_kernel_spec *spec, int same, int64_t channels) {
    ls_op_attrs *a = &spec->attrs;
    spec->y = LS_SHAPE(spec->x.dim[0], 0, 0, channels);
    for (int i = 0; i < 2; i++) {
        int64_t in = spec->x.dim[i + 1],
                out = same ? (in + a->strides[i] - 1) / a->strides[i] : (in - a->kernel[i]) / a->strides[i] + 1;
        int64_t padding = same ? (out - 1) * a->strides[i] + a->kernel[i] - in : 0;
        if (padding < 0) padding = 0;
        a->pad[i] = (int)(padding / 2);
        a->pad[i + 2] = (int)(padding - padding / 2);
        spec->y.dim[i + 1] = out;
    }
}

static ls_kernel_spec conv(int64_t n, int64_t h, int64_t w, int64_t c, int filters, int kh, int kw, int stride,
                           int same, int bias, int relu, int mask) {
    ls_kernel_spec spec = {.op = LS_OP_CONV2D,
                           .x = LS_SHAPE(n, h, w, c),
                           .mask_dx = mask,
                           .attrs = {.filters = filters,
                                     .kernel = {kh, kw},
                                     .strides = {stride, stride},
                                     .activation = relu ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE,
                                     .use_bias = bias}};
    settle_window(&spec, same, filters);
    return spec;
}

static void conv2d(void **state) {
    static const int kernels[][2] = {{1, 1}, {3, 3}, {5, 5}, {2, 3}};
    ls_dtype dtypes[2];
    int count = each_dtype(dtypes);
    for (int i = 0; i < 160; i++) {
        const int *k = kernels[i % 4];
        ls_kernel_spec spec =
            conv(PICK(1, 3, 8), 5 + draw() % 6, 5 + draw() % 6, PICK(1, 3, 5, 16, 17, 32), PICK(1, 3, 5, 16, 17, 32),
                 k[0], k[1], PICK(1, 2), PICK(0, 1), PICK(0, 1), PICK(0, 1), PICK(0, 1));
        for (int d = 0; d < count; d++) check(with_dtype(spec, dtypes[d]), SMOOTH, NULL);
    }
    // The layers of mnist-cnn.
    for (int d = 0; d < count; d++) {
        check(with_dtype(conv(8, 28, 28, 1, 32, 3, 3, 1, 0, 1, 1, 0), dtypes[d]), SMOOTH, NULL);
        check(with_dtype(conv(8, 13, 13, 32, 128, 3, 3, 1, 0, 1, 1, 0), dtypes[d]), SMOOTH, NULL);
        check(with_dtype(conv(8, 5, 5, 128, 256, 3, 3, 1, 0, 1, 1, 0), dtypes[d]), SMOOTH, NULL);
    }
}

static void dense(void **state) {
    ls_dtype dtypes[2];
    int count = each_dtype(dtypes);
    for (int i = 0; i < 60; i++) {
        int units = PICK(1, 3, 10, 16, 17, 100), in = PICK(1, 3, 5, 16, 17, 32, 256);
        ls_kernel_spec spec = {.op = LS_OP_DENSE,
                               .mask_dx = PICK(0, 1),
                               .x = LS_SHAPE(PICK(1, 3, 8, 32), in),
                               .attrs = {.filters = units, .use_bias = PICK(0, 1), .activation = PICK(0, 1)}};
        spec.y = LS_SHAPE(spec.x.dim[0], units);
        for (int d = 0; d < count; d++) {
            ls_kernel_spec typed = with_dtype(spec, dtypes[d]);
            if (i % 3 == 0) typed.y_dtype = LS_DTYPE_F32;  // logits
            check(typed, SMOOTH, NULL);
        }
    }
}

// How the outputs of convolutions lie: pooling, ReLU and the rest get them so.
static const ls_layout *conv_output_layout(ls_shape shape, ls_dtype dtype) {
    ls_kernel_spec spec =
        with_dtype(conv(shape.dim[0], shape.dim[1], shape.dim[2], 16, (int)shape.dim[3], 1, 1, 1, 0, 1, 0, 0), dtype);
    ls_kernel *k;
    assert_int_equal(ls_kernel_create(cpu, &spec, &k), LS_OK);
    const ls_layout *layout = k->layout[LS_ARG_Y];
    ls_kernel_destroy(&k);
    return layout;
}

static const ls_layout *plain_layout(ls_shape shape, ls_dtype dtype) {
    const ls_layout *layout;
    assert_int_equal(cpu->ops->layout_plain(cpu, shape, dtype, 0, &layout), LS_OK);
    return layout;
}

// An operation without weights on images, in each dtype and each layout images come in.
static void check_layouts(ls_kernel_spec spec, kind k) {
    ls_dtype dtypes[2];
    int count = each_dtype(dtypes);
    for (int d = 0; d < count; d++) {
        ls_kernel_spec typed = with_dtype(spec, dtypes[d]);
        check(typed, k, NULL);
        check(typed, k, plain_layout(spec.x, dtypes[d]));
        if (spec.x.ndim == 4) check(typed, k, conv_output_layout(spec.x, dtypes[d]));
    }
}

static void pooling(void **state) {
    static const int windows[][2] = {{2, 2}, {3, 3}, {2, 3}, {1, 1}, {5, 5}};
    for (int i = 0; i < 60; i++) {
        const int *k = windows[i % 5];
        ls_kernel_spec spec = {.op = i / 5 % 2 ? LS_OP_MAX_POOL2D : LS_OP_AVERAGE_POOL2D,
                               .mask_dx = PICK(0, 1),
                               .x = LS_SHAPE(PICK(1, 3, 8), 5 + draw() % 6, 5 + draw() % 6, PICK(1, 3, 5, 16, 17, 32)),
                               .attrs = {.kernel = {k[0], k[1]}}};
        for (int j = 0; j < 2; j++) spec.attrs.strides[j] = PICK(1, 2, k[j]);
        settle_window(&spec, PICK(0, 1), spec.x.dim[3]);
        check_layouts(spec, i % 2 ? FEW : SMOOTH);
    }
}

static void global_pooling(void **state) {
    for (int i = 0; i < 24; i++) {
        int h = PICK(1, 3, 7), w = PICK(1, 4, 7);
        ls_kernel_spec spec = {.op = i % 2 ? LS_OP_GLOBAL_MAX_POOL2D : LS_OP_GLOBAL_AVERAGE_POOL2D,
                               .mask_dx = PICK(0, 1),
                               .attrs = {.kernel = {h, w}, .strides = {h, w}},
                               .x = LS_SHAPE(PICK(1, 3, 8), h, w, PICK(1, 3, 5, 16, 17, 32))};
        spec.y = LS_SHAPE(spec.x.dim[0], spec.x.dim[3]);
        check_layouts(spec, i % 4 < 2 ? FEW : SMOOTH);
    }
}

static void relu_flatten_dropout(void **state) {
    for (int i = 0; i < 36; i++) {
        ls_kernel_spec spec = {.op = i % 3 == 0   ? LS_OP_RELU
                                     : i % 3 == 1 ? LS_OP_FLATTEN
                                                  : LS_OP_DROPOUT,
                               .mask_dx = PICK(0, 1),
                               .attrs = {.rate = i % 2 ? 0.5f : 0.3f, .layer = 4},
                               .x = LS_SHAPE(PICK(1, 3, 8), PICK(1, 3, 6), PICK(1, 4), PICK(1, 3, 5, 16, 17, 32))};
        if (i % 4 == 3 && spec.op != LS_OP_FLATTEN) spec.x = LS_SHAPE(spec.x.dim[0], spec.x.dim[3]);
        spec.y = spec.x;
        if (spec.op == LS_OP_FLATTEN) spec.y = LS_SHAPE(spec.x.dim[0], ls_shape_count(spec.x) / spec.x.dim[0]);
        check_layouts(spec, SMOOTH);
    }
}

static void softmax_cross_entropy(void **state) {
    ls_dtype dtypes[2];
    int count = each_dtype(dtypes);
    for (int i = 0; i < 24; i++)
        for (int d = 0; d < count; d++) {
            ls_kernel_spec spec = {.op = LS_OP_SOFTMAX_CROSS_ENTROPY,
                                   .x = LS_SHAPE(PICK(1, 3, 8), PICK(2, 10, 17, 100)),
                                   .dy_dtype = dtypes[d],
                                   .attrs = {.label_smoothing = i % 3 == 2 ? 0.15 : 0}};
            spec.y = spec.x;
            check(spec, i % 2 ? FEW : SMOOTH, NULL);
        }
}

static void gradients_accumulate(void **state) {
    enum { N = 1003 };
    float *x = new_values(N, SMOOTH), *y = new_values(N, SMOOTH), *z = malloc(N * sizeof *z);
    memcpy(z, y, N * sizeof *z);
    cpu->ops->accumulate(cpu, y, x, N);
    ref->ops->accumulate(ref, z, x, N);
    assert_memory_equal(y, z, N * sizeof *y);
    free(x), free(y), free(z);
}

// Last: the device must have run every operation, in every dtype it claims.
static void every_operation_ran(void **state) {
    ls_dtype dtypes[2];
    int count = each_dtype(dtypes);
    for (int op = LS_OP_INPUT + 1; op < LS_OP_COUNT; op++)
        for (int d = 0; d < count; d++) {
            print_message("%-24s %s  %4d cases, %d not supported; largest error %.2f of what is allowed\n",
                          ls_op_class((ls_op_kind)op), ls_dtype_name(dtypes[d]), runs[op][d], skips[op][d],
                          worst[op][d]);
            assert_true(runs[op][d] > 0);
            assert_int_equal(skips[op][d], 0);
        }
    if (count == 1) print_message("bf16 not tested: %s\n", ls_error_message());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv2d),
        cmocka_unit_test(dense),
        cmocka_unit_test(pooling),
        cmocka_unit_test(global_pooling),
        cmocka_unit_test(relu_flatten_dropout),
        cmocka_unit_test(softmax_cross_entropy),
        cmocka_unit_test(gradients_accumulate),
        cmocka_unit_test(every_operation_ran),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
