#include "ops_check.h"

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
#include "device/cpu/cpu.h"

ls_device *cpu, *ref;
static ls_device *two;  // "cpu" with two threads
int runs[LS_OP_COUNT][2], skips[LS_OP_COUNT][2];
double worst[LS_OP_COUNT][2];

int ops_setup(void **state) {
    if (ls_device_create("cpu", &(ls_device_options){.threads = 2}, &two) != LS_OK) return 1;
    if (ls_device_create("cpu", &(ls_device_options){.threads = 1}, &cpu) != LS_OK) return 1;
    cpu->ops->thread_begin(cpu);
    return ls_device_create("ref", NULL, &ref) != LS_OK;
}

int ops_teardown(void **state) {
    ls_device_destroy(&cpu);
    ls_device_destroy(&two);
    ls_device_destroy(&ref);
    return 0;
}

// --- values ----------------------------------------------------------------------------------------------------------

static uint32_t draws;
uint32_t draw(void) { return ls_philox(2024, draws++, 0, 0, 0).v[0]; }
int pick(const int *from, int count) { return from[draw() % (uint32_t)count]; }

float *new_values(int64_t count, kind k) {
    float *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++) {
        float v = 2 * ls_uniform(draw()) - 1;
        if (k == FEW) v = floorf(v * 3) / 4;
        if (k == RELU_OUTPUT && v < 0) v = 0;
        if (k == FAR) v = 20 + v;
        values[i] = ls_bf16_to_float(ls_float_to_bf16(v));
    }
    return values;
}

ls_kernel_spec with_dtype(ls_kernel_spec spec, ls_dtype dtype) {
    spec.x_dtype = spec.y_dtype = spec.dy_dtype = spec.w_dtype = dtype;
    return spec;
}

int each_dtype(ls_dtype *dtypes) {
    dtypes[0] = LS_DTYPE_F32;
    dtypes[1] = LS_DTYPE_BF16;
    return cpu->ops->supports(cpu, LS_DTYPE_BF16) == LS_OK ? 2 : 1;
}

void settle_window(ls_kernel_spec *spec, int same, int64_t channels) {
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

ls_kernel_spec conv(int64_t n, int64_t h, int64_t w, int64_t c, int filters, int kh, int kw, int stride, int same,
                    int bias, int relu, int mask) {
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

// --- layouts ---------------------------------------------------------------------------------------------------------

// How the outputs of convolutions lie.
static const ls_layout *conv_output_layout(ls_device *d, ls_shape shape, ls_dtype dtype) {
    ls_kernel_spec spec =
        with_dtype(conv(shape.dim[0], shape.dim[1], shape.dim[2], 16, (int)shape.dim[3], 1, 1, 1, 0, 1, 0, 0), dtype);
    ls_kernel *k;
    assert_int_equal(ls_kernel_create(d, &spec, &k), LS_OK);
    const ls_layout *layout = k->layout[LS_ARG_Y];
    ls_kernel_destroy(&k);
    return layout;
}

static const ls_layout *layout_of(ls_device *d, lie l, ls_shape shape, ls_dtype dtype) {
    const ls_layout *layout = NULL;
    ls_status status = LS_OK;
    switch (l) {
    case AS_LIKED: break;
    case PLAIN: status = d->ops->layout_plain(d, shape, dtype, 0, &layout); break;
    case AS_OF_CONV: layout = conv_output_layout(d, shape, dtype); break;
    case BLOCKS_OF_16: status = ls__cpu_layout_tag((ls_cpu *)d, shape, dtype, 0, dnnl_nChw16c, &layout); break;
    case BLOCKS_OF_8: status = ls__cpu_layout_tag((ls_cpu *)d, shape, dtype, 0, dnnl_nChw8c, &layout); break;
    }
    assert_int_equal(status, LS_OK);
    return layout;
}

static const ls_layout *plain(ls_device *d, const ls_layout *like, int arg) {
    const ls_layout *layout;
    int is_weights = arg == LS_ARG_W || arg == LS_ARG_DW;
    assert_int_equal(d->ops->layout_plain(d, like->shape, LS_DTYPE_F32, is_weights, &layout), LS_OK);
    return layout;
}

// --- running a pass --------------------------------------------------------------------------------------------------

// One device's side of a case: plain F32 values of every tensor, (logical shape).
typedef struct side {
    ls_device *device;
    float *value[LS_ARG_COUNT];
    int64_t count[LS_ARG_COUNT];
    const ls_layout *x_layout, *y_layout;  // forward's
    void *workspace;
    ls_loss_metrics metrics;
} side;

typedef struct inputs {
    float *value[LS_ARG_COUNT];
    int32_t *labels;
    ls_random_key random;
} inputs;

static void *new_poisoned(int64_t bytes) {
    void *p;
    assert_int_equal(ls_memory_alloc(bytes, &p), LS_OK);
    memset(p, 0xFF, (size_t)bytes);  // NaN in every dtype
    return p;
}

static int is_output(ls_pass pass, int arg) {
    if (arg == LS_ARG_Y) return pass == LS_PASS_TRAINING || pass == LS_PASS_INFERENCE;
    return arg == LS_ARG_DX || arg == LS_ARG_DX2 || arg == LS_ARG_DW || arg == LS_ARG_DB || arg == LS_ARG_DMEAN ||
           arg == LS_ARG_DVARIANCE;
}

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

static void run_kernel(ls_kernel *k, ls_device *d, void *args[LS_ARG_COUNT]) {
    if (ls_kernel_run(k, args) != LS_OK) fail_msg("%s: %s (%s)", d->ops->name, ls_error_message(), ls_error_trace());
}

// Memory for every tensor of the kernel, inputs in their layouts.
static void args_create(const side *s, const ls_kernel *k, const ls_kernel_spec *spec, const inputs *in,
                        void *args[LS_ARG_COUNT]) {
    args[LS_ARG_LABELS] = in->labels;
    args[LS_ARG_METRICS] = (void *)&s->metrics;
    args[LS_ARG_RANDOM] = (void *)&in->random;
    args[LS_ARG_WORKSPACE] = spec->pass == LS_PASS_INFERENCE ? NULL : s->workspace;
    args[LS_ARG_SCRATCH] = new_poisoned(k->scratch_bytes);
    for (int i = 0; i < LS_ARG_COUNT; i++) {
        const ls_layout *layout = k->layout[i];
        if (!layout) continue;
        args[i] = new_poisoned(layout->bytes);
        if (is_output(spec->pass, i)) continue;
        if (!in->value[i]) fail_msg("%s: %s reads argument %d", s->device->ops->name, ls_op_class(spec->op), i);
        convert(s->device, plain(s->device, layout, i), in->value[i], layout, args[i]);
    }
}

static void args_free(const ls_kernel *k, void *args[LS_ARG_COUNT]) {
    for (int i = 0; i < LS_ARG_COUNT; i++)
        if (k->layout[i]) ls_memory_free(args[i]);
    ls_memory_free(args[LS_ARG_SCRATCH]);
}

// Takes an output back; what its layout adds to it must be zero.
static void take(side *s, const ls_kernel *k, int arg, const void *found) {
    const ls_layout *layout = k->layout[arg], *to = plain(s->device, layout, arg);
    free(s->value[arg]);
    s->count[arg] = ls_shape_count(to->shape);
    s->value[arg] = malloc((size_t)to->bytes);
    convert(s->device, layout, found, to, s->value[arg]);
    void *again = new_poisoned(layout->bytes);
    convert(s->device, to, s->value[arg], layout, again);
    if (memcmp(again, found, (size_t)layout->bytes) != 0)
        fail_msg("%s: %s leaves something in the padding of argument %d", s->device->ops->name, k->name, arg);
    ls_memory_free(again);
}

// Runs it again with outputs in the memory of inputs; `expected` is what it computed without. `chosen` says which of its
// offers is taken.
static void run_in_place(side *s, ls_kernel *k, const ls_kernel_spec *spec, const inputs *in,
                         void *const expected[LS_ARG_COUNT], unsigned chosen) {
    void *args[LS_ARG_COUNT] = {0}, *own[LS_ARG_COUNT] = {0};
    args_create(s, k, spec, in, args);
    for (int i = 0; i < k->in_place_count; i++) {
        ls_arg output = k->in_place[i].output, input = k->in_place[i].input;
        if (!(chosen >> i & 1)) continue;
        assert_true(is_output(spec->pass, (int)output) && !is_output(spec->pass, (int)input));
        assert_ptr_equal(k->layout[output], k->layout[input]);
        own[output] = args[output];
        args[output] = args[input];
    }
    run_kernel(k, s->device, args);
    for (int i = 0; i < LS_ARG_COUNT; i++)
        if (k->layout[i] && is_output(spec->pass, i) && memcmp(args[i], expected[i], (size_t)k->layout[i]->bytes) != 0)
            fail_msg("%s %s: argument %d has other bits with outputs in place (%u)", s->device->ops->name, k->name, i,
                     chosen);
    for (int i = 0; i < LS_ARG_COUNT; i++)
        if (own[i]) args[i] = own[i];
    args_free(k, args);
}

// Each offer alone, and any two for different outputs and inputs.
static void check_in_place(side *s, ls_kernel *k, const ls_kernel_spec *spec, const inputs *in,
                           void *const expected[LS_ARG_COUNT]) {
    const ls_in_place *offer = k->in_place;
    for (int i = 0; i < k->in_place_count; i++)
        for (int j = i; j < k->in_place_count; j++)
            if (i == j || (offer[i].output != offer[j].output && offer[i].input != offer[j].input))
                run_in_place(s, k, spec, in, expected, 1u << i | 1u << j);
}

// Creates the kernel, feeds it, runs it, takes its outputs back. UNSUPPORTED is passed on, anything else is a failure.
static ls_status run_pass(side *s, const ls_kernel_spec *spec, const inputs *in) {
    ls_device *d = s->device;
    ls_kernel *k;
    ls_status status = ls_kernel_create(d, spec, &k);
    if (status == LS_STATUS_UNSUPPORTED) return status;
    if (status != LS_OK) fail_msg("%s: %s (%s)", d->ops->name, ls_error_message(), ls_error_trace());
    if (spec->pass == LS_PASS_TRAINING) {
        s->x_layout = k->layout[LS_ARG_X];
        s->y_layout = k->layout[LS_ARG_Y];
        s->workspace = new_poisoned(k->workspace_bytes);
    }
    void *args[LS_ARG_COUNT] = {0};
    args_create(s, k, spec, in, args);
    run_kernel(k, d, args);
    for (int i = 0; i < LS_ARG_COUNT; i++)
        if (k->layout[i] && is_output(spec->pass, i)) take(s, k, i, args[i]);
    check_in_place(s, k, spec, in, args);
    args_free(k, args);
    ls_kernel_destroy(&k);
    return LS_OK;
}

// --- comparing -------------------------------------------------------------------------------------------------------

// As a share of the tensor's largest magnitude:
//   selecting ops (max pooling, ReLU, flatten,   exact: they compute nothing
//   zero padding)
//   dropout, average pooling, addition, loss in  1e-6: a few roundings of 2^-24, against double
//   fp32, gradients of overlapping windows
//   batch normalization in fp32                  1e-5: up to 64 products are summed in single precision before double takes
//                                                over; 1e-4 where values are FAR from zero, for the mean is rounded to
//                                                single precision, too
//   convolution, dense in fp32                   2e-5: sums of up to 2,304 products in single precision, and
//                                                Winograd's transforms, which cost a digit (Lavin and Gray, "Fast
//                                                algorithms for convolutional neural networks", 2016)
//   anything computed and stored in bf16         2^-7 of the element on top: numbers a rounding apart are neighbours;
//                                                a convolution with a residual may round before and after adding it: as
//                                                much of the largest, too
typedef struct tolerance {
    double of_element, of_largest;
} tolerance;

static tolerance tolerance_of(const ls_kernel_spec *spec, kind x_kind, int arg) {
    int weighted = spec->op == LS_OP_CONV2D || spec->op == LS_OP_DENSE;
    int computes = spec->op == LS_OP_DROPOUT || spec->op == LS_OP_AVERAGE_POOL2D || spec->op == LS_OP_ADD ||
                   spec->op == LS_OP_GLOBAL_AVERAGE_POOL2D || spec->op == LS_OP_SOFTMAX_CROSS_ENTROPY;
    int overlaps = spec->op == LS_OP_MAX_POOL2D && arg == LS_ARG_DX &&
                   (spec->attrs.strides[0] < spec->attrs.kernel[0] || spec->attrs.strides[1] < spec->attrs.kernel[1]);
    double norm = spec->op != LS_OP_BATCH_NORM ? 0 : x_kind == FAR ? 1e-4 : 1e-5;
    tolerance t = {0, weighted ? 2e-5 : norm > 0 ? norm : computes || overlaps ? 1e-6 : 0};
    ls_dtype stored = arg == LS_ARG_Y ? spec->y_dtype : arg == LS_ARG_DX ? spec->x_dtype : LS_DTYPE_F32;
    if (arg == LS_ARG_DX2) return (tolerance){0, 0};
    if (spec->op == LS_OP_SOFTMAX_CROSS_ENTROPY) stored = spec->dy_dtype;
    if (stored == LS_DTYPE_BF16 && t.of_largest > 0) t.of_element = 0x1p-7;
    if (stored == LS_DTYPE_BF16 && weighted && spec->residual && arg == LS_ARG_Y) t.of_largest = 0x1p-8;
    return t;
}

static const char *describe(const ls_kernel_spec *s) {
    static char text[256];
    const ls_op_attrs *a = &s->attrs;
    const int64_t *x = s->x.dim;
    snprintf(text, sizeof text,
             "%s %s, pass %d, x %lldx%lldx%lldx%lld, %d filters, window %dx%d, strides %d,%d, pad %d,%d, bias %d, "
             "relu %d, residual %d, addend %d, mask %d",
             ls_op_class(s->op), ls_dtype_name(s->x_dtype), s->pass, (long long)x[0], (long long)x[1],
             (long long)(s->x.ndim > 2 ? x[2] : 1), (long long)(s->x.ndim > 3 ? x[3] : 1), a->filters, a->kernel[0],
             a->kernel[1], a->strides[0], a->strides[1], a->pad[0], a->pad[1], a->use_bias, a->activation, s->residual,
             s->addend, s->mask_dx);
    return text;
}

static int is_bf16(const ls_kernel_spec *spec) { return spec->dy_dtype == LS_DTYPE_BF16; }

static void compare(const ls_kernel_spec *spec, tolerance t, int arg, const float *expected, const float *found,
                    int64_t count) {
    double largest = spec->op == LS_OP_BATCH_NORM;  // whose terms are about 1, however they cancel
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

static void compare_pass(const ls_kernel_spec *spec, kind x_kind, const side *r, const side *c) {
    for (int arg = 0; arg < LS_ARG_COUNT; arg++) {
        if (!r->value[arg]) continue;
        assert_non_null(c->value[arg]);
        assert_int_equal(r->count[arg], c->count[arg]);
        compare(spec, tolerance_of(spec, x_kind, arg), arg, r->value[arg], c->value[arg], r->count[arg]);
    }
    if (spec->op != LS_OP_SOFTMAX_CROSS_ENTROPY || spec->pass == LS_PASS_BACKWARD_DATA) return;
    assert_true(fabs(r->metrics.loss - c->metrics.loss) <= 1e-6 * r->metrics.loss);
    assert_int_equal(r->metrics.correct, c->metrics.correct);
    assert_int_equal(r->metrics.samples, c->metrics.samples);
}

static void compare_bits(const ls_kernel_spec *spec, const side *one, const side *more) {
    for (int arg = 0; arg < LS_ARG_COUNT; arg++)
        if (one->value[arg] && memcmp(one->value[arg], more->value[arg], (size_t)one->count[arg] * sizeof(float)) != 0)
            fail_msg("%s: argument %d has other bits with two threads", describe(spec), arg);
}

// --- a case ----------------------------------------------------------------------------------------------------------

typedef struct sides {
    side ref, cpu, two;
    lie x_lie;
    kind x_kind;
} sides;

static int has_weights(ls_op_kind op) { return op == LS_OP_CONV2D || op == LS_OP_DENSE; }

static void clear_values(side *s) {
    for (int i = 0; i < LS_ARG_COUNT; i++) {
        free(s->value[i]);
        s->value[i] = NULL;
    }
}

// Tells a kernel the layouts a plan would.
static ls_status run_in_layouts(side *s, ls_kernel_spec spec, lie x_lie, const inputs *in) {
    if (spec.pass == LS_PASS_TRAINING || spec.pass == LS_PASS_INFERENCE) {
        spec.layout[LS_ARG_X] = layout_of(s->device, x_lie, spec.x, spec.x_dtype);
    } else if (spec.op != LS_OP_SOFTMAX_CROSS_ENTROPY) {
        spec.layout[spec.pass == LS_PASS_BACKWARD_DATA ? LS_ARG_DX : LS_ARG_X] = s->x_layout;
        if (spec.y_dtype == spec.dy_dtype) spec.layout[LS_ARG_DY] = s->y_layout;
    }
    return run_pass(s, &spec, in);
}

// Runs one pass on all devices and compares. Returns 0 when the device does not support it.
static int check_pass(ls_kernel_spec spec, ls_pass pass, sides *s, inputs *in) {
    spec.pass = pass;
    if (run_in_layouts(&s->cpu, spec, s->x_lie, in) != LS_OK) return 0;
    assert_int_equal(run_pass(&s->ref, &spec, in), LS_OK);
    compare_pass(&spec, s->x_kind, &s->ref, &s->cpu);
    if (!has_weights(spec.op)) {
        assert_int_equal(run_in_layouts(&s->two, spec, s->x_lie, in), LS_OK);
        compare_bits(&spec, &s->cpu, &s->two);
    }
    if (pass == LS_PASS_TRAINING && s->ref.value[LS_ARG_Y]) {  // backward may read it
        in->value[LS_ARG_Y] = s->ref.value[LS_ARG_Y];
        s->ref.value[LS_ARG_Y] = NULL;
    }
    clear_values(&s->ref), clear_values(&s->cpu), clear_values(&s->two);
    return 1;
}

static int64_t weight_count(const ls_kernel_spec *s) {
    if (s->op == LS_OP_DENSE) return s->x.dim[1] * s->attrs.filters;
    if (s->op == LS_OP_BATCH_NORM) return s->x.dim[s->x.ndim - 1];
    return (int64_t)s->attrs.kernel[0] * s->attrs.kernel[1] * s->x.dim[3] * s->attrs.filters;
}

static void draw_values(const ls_kernel_spec *spec, kind x_kind, inputs *in) {
    int norm = spec->op == LS_OP_BATCH_NORM;
    int64_t x = ls_shape_count(spec->x), y = ls_shape_count(spec->y), channels = spec->x.dim[spec->x.ndim - 1];
    in->value[LS_ARG_X] = new_values(x, spec->mask_dx ? RELU_OUTPUT : x_kind);
    if (spec->op == LS_OP_ADD || spec->residual) in->value[LS_ARG_X2] = new_values(y, SMOOTH);
    if (spec->op != LS_OP_SOFTMAX_CROSS_ENTROPY) in->value[LS_ARG_DY] = new_values(y, SMOOTH);
    if (has_weights(spec->op) || norm) in->value[LS_ARG_W] = new_values(weight_count(spec), SMOOTH);
    if (spec->attrs.use_bias || norm) in->value[LS_ARG_B] = new_values(norm ? channels : spec->attrs.filters, SMOOTH);
    if (spec->addend) in->value[LS_ARG_ADDEND] = new_values(x, SMOOTH);
    if (!norm) return;
    in->value[LS_ARG_MEAN] = new_values(channels, SMOOTH);
    in->value[LS_ARG_VARIANCE] = new_values(channels, RELU_OUTPUT);
}

void check(ls_kernel_spec spec, kind x_kind, lie x_lie) {
    int64_t n = spec.x.dim[0];
    sides s = {
        .ref = {.device = ref}, .cpu = {.device = cpu}, .two = {.device = two}, .x_lie = x_lie, .x_kind = x_kind};
    inputs in = {.random = {.seed = 3, .epoch = 2}};
    uint64_t *samples = malloc((size_t)n * sizeof *samples);
    in.labels = malloc((size_t)n * sizeof *in.labels);
    for (int64_t i = 0; i < n; i++) {
        samples[i] = draw() % 60000;
        in.labels[i] = (int32_t)(draw() % (uint32_t)spec.y.dim[spec.y.ndim - 1]);
    }
    in.random.samples = samples;
    draw_values(&spec, x_kind, &in);
    int supported = check_pass(spec, LS_PASS_TRAINING, &s, &in) && check_pass(spec, LS_PASS_INFERENCE, &s, &in) &&
                    (spec.op == LS_OP_ADD || check_pass(spec, LS_PASS_BACKWARD_DATA, &s, &in)) &&
                    (!has_weights(spec.op) || check_pass(spec, LS_PASS_BACKWARD_WEIGHTS, &s, &in));
    if (supported)
        runs[spec.op][is_bf16(&spec)]++;
    else if (!skips[spec.op][is_bf16(&spec)]++)
        print_message("not supported: %s: %s\n", describe(&spec), ls_error_message());
    for (int i = 0; i < LS_ARG_COUNT; i++) free(in.value[i]);
    ls_memory_free(s.ref.workspace), ls_memory_free(s.cpu.workspace), ls_memory_free(s.two.workspace);
    free(samples), free(in.labels);
}

void check_layouts(ls_kernel_spec spec, kind x_kind) {
    ls_dtype dtypes[2];
    int count = each_dtype(dtypes);
    for (int d = 0; d < count; d++) {
        ls_kernel_spec typed = with_dtype(spec, dtypes[d]);
        check(typed, x_kind, AS_LIKED);
        check(typed, x_kind, PLAIN);
        for (lie l = AS_OF_CONV; l <= BLOCKS_OF_8 && spec.x.ndim == 4; l++) check(typed, x_kind, l);
    }
}
