// The reference device: its gradients against central differences, its fused passes and its dtypes against its loops.
//
// The loops run on doubles (device/ref/ref.h), so the very code that serves as the oracle is differentiated in double
// precision, with what is fused to them (residual, ReLU, addend). With L = sum(dy * y), a central difference of step 1e-5 is off by about 1e-10 for these sizes: rounding of
// L over the step, and for the loss the third derivative times the step squared. Where an op has kinks (max pooling,
// ReLU) inputs keep 0.005 or more from each other and from zero, so no step crosses one; what batch normalization gives its
// ReLU is checked to keep 0.0001.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/philox.h"
#include "device/device.h"
#include "device/ref/ref.h"

#define STEP      1e-5
#define TOLERANCE 1e-8

typedef struct problem {
    ls_kernel_spec spec;
    int64_t x, y, w, b;  // elements
    int64_t x2;          // 0 without a residual
    ls_ref_args args;
} problem;

static double *new_values(int64_t count) {
    double *values = calloc((size_t)(count ? count : 1), sizeof *values);
    assert_non_null(values);
    return values;
}

// Distinct multiples of 0.01 plus 0.005, in a random order.
static double *random_values(int64_t count, uint32_t what) {
    double *values = new_values(count);
    for (int64_t i = 0; i < count; i++) values[i] = 0.01 * (double)(i - count / 2) + 0.005;
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t j = ls_philox(1, (uint32_t)i, what, 0, 0).v[0] % (uint32_t)(i + 1);
        double swap = values[i];
        values[i] = values[j];
        values[j] = swap;
    }
    return values;
}

static problem make_problem(ls_op_kind op, ls_shape x, ls_shape y, ls_op_attrs attrs) {
    problem p = {.spec = {.op = op, .attrs = attrs, .pass = LS_PASS_TRAINING, .x = x, .y = y}};
    p.x = ls_shape_count(x);
    p.y = ls_shape_count(y);
    int64_t channels = x.dim[x.ndim - 1];
    if (op == LS_OP_CONV2D) p.w = (int64_t)attrs.kernel[0] * attrs.kernel[1] * channels * attrs.filters;
    if (op == LS_OP_DENSE) p.w = channels * attrs.filters;
    p.b = attrs.use_bias ? attrs.filters : 0;
    if (op == LS_OP_BATCH_NORM) p.w = p.b = channels;
    ls_ref_args *a = &p.args;
    a->x = random_values(p.x, 1);
    a->w = random_values(p.w, 2);
    if (p.b) a->b = random_values(p.b, 3), a->db = new_values(p.b);
    a->dy = random_values(p.y, 4);
    a->y = new_values(p.y);
    a->dx = new_values(p.x);
    a->dw = new_values(p.w);
    a->workspace = calloc((size_t)p.y, sizeof(int32_t));
    if (op == LS_OP_BATCH_NORM) a->dmean = new_values(channels), a->dvariance = new_values(channels);
    return p;
}

static problem with_residual(problem p, ls_activation activation) {
    p.spec.residual = 1;
    p.spec.attrs.activation = activation;
    p.x2 = p.y;
    p.args.x2 = random_values(p.y, 5);
    p.args.dx2 = new_values(p.y);
    return p;
}

static void free_problem(problem *p) {
    ls_ref_args *a = &p->args;
    double *all[] = {a->x,  a->x2, a->w,  a->b,      a->y,     a->dx,       a->dx2,
                     a->dw, a->db, a->dy, a->addend, a->dmean, a->dvariance};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
    free(a->workspace);
}

static double objective(problem *p, const ls_ref_op *op) {
    p->spec.pass = LS_PASS_TRAINING;
    ls__ref_compute(op, &p->args);
    if (p->spec.op == LS_OP_SOFTMAX_CROSS_ENTROPY) return p->args.metrics->loss;
    double sum = 0;
    for (int64_t i = 0; i < p->y; i++) sum += p->args.dy[i] * p->args.y[i];
    // X's other readers, whose gradient is the addend, might as well sum X times it.
    for (int64_t i = 0; p->spec.addend && i < p->x; i++) sum += p->args.addend[i] * p->args.x[i];
    return sum;
}

static void compare(problem *p, const ls_ref_op *op, const char *what, double *values, const double *gradient,
                    int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        double kept = values[i];
        values[i] = kept + STEP;
        double above = objective(p, op);
        values[i] = kept - STEP;
        double below = objective(p, op);
        values[i] = kept;
        double difference = (above - below) / (2 * STEP);
        if (!(fabs(difference - gradient[i]) <= TOLERANCE * (1 + fabs(difference))))
            fail_msg("%s: d%s[%lld] is %.12g, the central difference %.12g", ls_op_class(p->spec.op), what,
                     (long long)i, gradient[i], difference);
    }
}

// Gradients overwrite whatever was there.
static void fill(double *values, int64_t count) {
    for (int64_t i = 0; i < count; i++) values[i] = 777;
}

static void check(problem p) {
    const ls_ref_op *op = ls__ref_op_find(p.spec.op);
    assert_non_null(op);
    p.args.spec = &p.spec;
    fill(p.args.dx, p.x), fill(p.args.dw, p.w), fill(p.args.db, p.b), fill(p.args.dx2, p.x2);
    objective(&p, op);
    p.spec.pass = LS_PASS_BACKWARD_DATA;
    ls__ref_compute(op, &p.args);
    p.spec.pass = LS_PASS_BACKWARD_WEIGHTS;
    if (op->backward_weights) ls__ref_compute(op, &p.args);
    compare(&p, op, "x", p.args.x, p.args.dx, p.x);
    compare(&p, op, "x2", p.args.x2, p.args.dx2, p.x2);
    compare(&p, op, "w", p.args.w, p.args.dw, p.w);
    compare(&p, op, "b", p.args.b, p.args.db, p.b);
    free_problem(&p);
}

static ls_op_attrs window(int kh, int kw, int sh, int sw, int top, int left, int filters, int use_bias) {
    return (ls_op_attrs){.kernel = {kh, kw},
                         .strides = {sh, sw},
                         .pad = {top, left, top, left},
                         .filters = filters,
                         .use_bias = use_bias};
}

static void conv2d(void **state) {
    check(make_problem(LS_OP_CONV2D, LS_SHAPE(2, 5, 6, 3), LS_SHAPE(2, 3, 4, 4), window(3, 3, 1, 1, 0, 0, 4, 1)));
    check(make_problem(LS_OP_CONV2D, LS_SHAPE(1, 5, 4, 2), LS_SHAPE(1, 3, 2, 3), window(3, 2, 2, 2, 1, 0, 3, 0)));
    check(make_problem(LS_OP_CONV2D, LS_SHAPE(2, 3, 3, 1), LS_SHAPE(2, 3, 3, 2), window(5, 5, 1, 1, 2, 2, 2, 1)));
    check(make_problem(LS_OP_CONV2D, LS_SHAPE(2, 2, 3, 5), LS_SHAPE(2, 2, 3, 1), window(1, 1, 1, 1, 0, 0, 1, 1)));
}

static void dense(void **state) {
    check(make_problem(LS_OP_DENSE, LS_SHAPE(3, 7), LS_SHAPE(3, 5), (ls_op_attrs){.filters = 5, .use_bias = 1}));
    check(make_problem(LS_OP_DENSE, LS_SHAPE(1, 4), LS_SHAPE(1, 1), (ls_op_attrs){.filters = 1}));
}

static void pooling(void **state) {
    static const ls_op_kind windows[] = {LS_OP_MAX_POOL2D, LS_OP_AVERAGE_POOL2D};
    static const ls_op_kind globals[] = {LS_OP_GLOBAL_MAX_POOL2D, LS_OP_GLOBAL_AVERAGE_POOL2D};
    for (int i = 0; i < 2; i++) {
        check(make_problem(windows[i], LS_SHAPE(2, 5, 4, 3), LS_SHAPE(2, 2, 2, 3), window(2, 2, 2, 2, 0, 0, 0, 0)));
        check(make_problem(windows[i], LS_SHAPE(1, 5, 5, 2), LS_SHAPE(1, 3, 3, 2), window(3, 3, 2, 2, 1, 1, 0, 0)));
        check(make_problem(windows[i], LS_SHAPE(2, 4, 4, 1), LS_SHAPE(2, 3, 2, 1), window(2, 3, 1, 1, 0, 0, 0, 0)));
        check(make_problem(globals[i], LS_SHAPE(3, 4, 5, 3), LS_SHAPE(3, 3), window(4, 5, 4, 5, 0, 0, 0, 0)));
    }
}

// Padding that takes part as zeros wins wherever all of a window's pixels are negative.
static void pooling_of_padded_images(void **state) {
    ls_op_attrs attrs = window(3, 3, 2, 2, 1, 1, 0, 0);
    attrs.pad_zeros = 1;
    check(make_problem(LS_OP_MAX_POOL2D, LS_SHAPE(2, 5, 5, 3), LS_SHAPE(2, 3, 3, 3), attrs));
    check(make_problem(LS_OP_AVERAGE_POOL2D, LS_SHAPE(2, 5, 5, 3), LS_SHAPE(2, 3, 3, 3), attrs));
    attrs = window(2, 2, 2, 2, 2, 2, 0, 0);
    attrs.pad_zeros = 1;
    check(make_problem(LS_OP_MAX_POOL2D, LS_SHAPE(1, 2, 2, 2), LS_SHAPE(1, 3, 3, 2), attrs));
}

// X spread widely, so that third derivatives stay small.
static problem norm_problem(ls_shape x, ls_activation activation) {
    problem p = make_problem(LS_OP_BATCH_NORM, x, x, (ls_op_attrs){.epsilon = 1e-3f, .activation = activation});
    for (int64_t i = 0; i < p.x; i++) p.args.x[i] = 20 * p.args.x[i] + 3;
    for (int64_t i = 0; i < p.w; i++) p.args.w[i] *= 100;
    return p;
}

// Before the ReLU; no step of a central difference may cross zero there.
static void check_norm(problem p) {
    ls_activation activation = p.spec.attrs.activation;
    p.spec.attrs.activation = LS_ACTIVATION_NONE;
    p.args.spec = &p.spec;
    ls__ref_compute(ls__ref_op_find(LS_OP_BATCH_NORM), &p.args);
    for (int64_t i = 0; i < p.y && activation; i++) assert_true(fabs(p.args.y[i]) > 1e-4);
    p.spec.attrs.activation = activation;
    check(p);
}

static void batch_norm(void **state) {
    static const ls_activation activations[] = {LS_ACTIVATION_NONE, LS_ACTIVATION_RELU};
    for (int i = 0; i < 2; i++) {
        check_norm(norm_problem(LS_SHAPE(2, 3, 4, 3), activations[i]));
        check_norm(norm_problem(LS_SHAPE(7, 5), activations[i]));
        check_norm(with_residual(norm_problem(LS_SHAPE(3, 2, 4, 5), activations[i]), activations[i]));
        problem p = norm_problem(LS_SHAPE(2, 3, 3, 2), activations[i]);
        p.spec.addend = 1;
        p.args.addend = random_values(p.x, 6);
        check_norm(p);
    }
}

static void zero_padding(void **state) {
    check(
        make_problem(LS_OP_ZERO_PAD2D, LS_SHAPE(2, 3, 4, 3), LS_SHAPE(2, 7, 8, 3), (ls_op_attrs){.pad = {1, 0, 3, 4}}));
}

static void relu_and_flatten(void **state) {
    check(make_problem(LS_OP_RELU, LS_SHAPE(2, 3, 3, 2), LS_SHAPE(2, 3, 3, 2), (ls_op_attrs){0}));
    check(make_problem(LS_OP_FLATTEN, LS_SHAPE(2, 3, 3, 2), LS_SHAPE(2, 18), (ls_op_attrs){0}));
}

static void dropout(void **state) {
    uint64_t samples[] = {5, 1ull << 40};
    ls_random_key key = {.seed = 9, .epoch = 3, .samples = samples};
    problem p = make_problem(LS_OP_DROPOUT, LS_SHAPE(2, 3, 3, 5), LS_SHAPE(2, 3, 3, 5),
                             (ls_op_attrs){.rate = 0.3f, .layer = 2});
    p.args.random = &key;
    check(p);
}

static void softmax_cross_entropy(void **state) {
    int32_t labels[] = {0, 4, 2};
    ls_loss_metrics metrics;
    problem p = make_problem(LS_OP_SOFTMAX_CROSS_ENTROPY, LS_SHAPE(3, 5), LS_SHAPE(3, 5), (ls_op_attrs){0});
    for (int64_t i = 0; i < p.x; i++) p.args.x[i] *= 20;
    p.args.labels = labels;
    p.args.metrics = &metrics;
    check(p);
    p = make_problem(LS_OP_SOFTMAX_CROSS_ENTROPY, LS_SHAPE(3, 5), LS_SHAPE(3, 5),
                     (ls_op_attrs){.label_smoothing = 0.3});
    p.args.labels = labels;
    p.args.metrics = &metrics;
    check(p);
}

// --- what the device adds to the loops -------------------------------------------------------------------------------

static ls_device *device;

static int setup(void **state) { return ls_device_create("ref", NULL, &device) != LS_OK; }
static int teardown(void **state) {
    ls_device_destroy(&device);
    return 0;
}

static void run(const ls_kernel_spec *spec, void *args[LS_ARG_COUNT]) {
    ls_kernel *k;
    assert_int_equal(ls_kernel_create(device, spec, &k), LS_OK);
    args[LS_ARG_SCRATCH] = malloc((size_t)k->scratch_bytes + 1);
    assert_int_equal(ls_kernel_run(k, args), LS_OK);
    free(args[LS_ARG_SCRATCH]);
    ls_kernel_destroy(&k);
    assert_null(k);
}

// Worked by hand: what gradients alone cannot show, since forward and backward share their geometry.
static void forward_values(void **state) {
    ls_kernel_spec spec = {.op = LS_OP_CONV2D,
                           .x = LS_SHAPE(1, 1, 4, 1),
                           .y = LS_SHAPE(1, 1, 4, 1),
                           .attrs = {.kernel = {1, 2}, .strides = {1, 1}, .pad = {0, 0, 0, 1}, .filters = 1}};
    float x[] = {1, 2, 3, 4}, w[] = {10, 1}, y[4];
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_W] = w, [LS_ARG_Y] = y});
    assert_memory_equal(y, ((float[]){12, 23, 34, 40}), sizeof y);
    spec.y = LS_SHAPE(1, 1, 2, 1);
    spec.attrs.strides[1] = 2;
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_W] = w, [LS_ARG_Y] = y});
    assert_memory_equal(y, ((float[]){12, 34}), 2 * sizeof *y);
    // Two channels in, two out, on one pixel: w is (1, 1, in, out).
    spec = (ls_kernel_spec){.op = LS_OP_CONV2D,
                            .x = LS_SHAPE(1, 1, 1, 2),
                            .y = LS_SHAPE(1, 1, 1, 2),
                            .attrs = {.kernel = {1, 1}, .strides = {1, 1}, .filters = 2, .use_bias = 1}};
    run(&spec,
        (void *[LS_ARG_COUNT]){
            [LS_ARG_X] = x, [LS_ARG_W] = (float[]){1, 2, 3, 4}, [LS_ARG_B] = (float[]){100, 200}, [LS_ARG_Y] = y});
    assert_memory_equal(y, ((float[]){107, 210}), 2 * sizeof *y);
    // 3x3 windows with padding on a 2x2 image: padding counts for neither the mean nor the maximum.
    spec = (ls_kernel_spec){.op = LS_OP_AVERAGE_POOL2D,
                            .x = LS_SHAPE(1, 2, 2, 1),
                            .y = LS_SHAPE(1, 2, 2, 1),
                            .attrs = window(3, 3, 1, 1, 1, 1, 0, 0)};
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_Y] = y});
    assert_memory_equal(y, ((float[]){2.5f, 2.5f, 2.5f, 2.5f}), sizeof y);
    spec.op = LS_OP_MAX_POOL2D;
    int32_t workspace[4];
    run(&spec,
        (void *[LS_ARG_COUNT]){[LS_ARG_X] = (float[]){-1, -2, -3, -4}, [LS_ARG_Y] = y, [LS_ARG_WORKSPACE] = workspace});
    assert_memory_equal(y, ((float[]){-1, -1, -1, -1}), sizeof y);
}

static void fused_relu_and_masked_gradient(void **state) {
    ls_kernel_spec spec = {.op = LS_OP_DENSE,
                           .x = LS_SHAPE(2, 2),
                           .y = LS_SHAPE(2, 2),
                           .attrs = {.filters = 2, .use_bias = 1, .activation = LS_ACTIVATION_RELU}};
    float x[] = {1, 0, -1, 2}, w[] = {1, -2, 3, 4}, b[] = {0.5f, 1}, y[4], dy[] = {1, 2, 3, 4}, dx[4];
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_W] = w, [LS_ARG_B] = b, [LS_ARG_Y] = y});
    const float y_expected[] = {1.5f, 0, 5.5f, 11};  // the second is -1 before the ReLU
    assert_memory_equal(y, y_expected, sizeof y);
    spec.pass = LS_PASS_BACKWARD_DATA;
    spec.mask_dx = 1;
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_W] = w, [LS_ARG_DY] = dy, [LS_ARG_DX] = dx});
    const float dx_expected[] = {1 - 4, 0, 0, 9 + 16};  // nothing where x is 0 or less
    assert_memory_equal(dx, dx_expected, sizeof dx);
}

// Worked by hand: two samples of two pixels and two channels. Channel 0 holds 1, 3, 5, 7: mean 4, variance 5; channel 1 is
// 2 throughout.
static void normalized_values(void **state) {
    ls_kernel_spec spec = {
        .op = LS_OP_BATCH_NORM, .x = LS_SHAPE(2, 1, 2, 2), .y = LS_SHAPE(2, 1, 2, 2), .attrs = {.epsilon = 4}};
    float x[] = {1, 2, 3, 2, 5, 2, 7, 2}, gamma[] = {6, 9}, beta[] = {1, -1}, y[8];
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_W] = gamma, [LS_ARG_B] = beta, [LS_ARG_Y] = y});
    assert_memory_equal(y, ((float[]){-5, -1, -1, -1, 3, -1, 7, -1}), sizeof y);
    spec.residual = 1;
    spec.attrs.activation = LS_ACTIVATION_RELU;
    float x2[] = {5, 1, 2, 0, -3, 2, 0, 3};
    void *args[LS_ARG_COUNT] = {
        [LS_ARG_X] = x, [LS_ARG_X2] = x2, [LS_ARG_W] = gamma, [LS_ARG_B] = beta, [LS_ARG_Y] = y};
    run(&spec, args);
    assert_memory_equal(y, ((float[]){0, 0, 1, 0, 0, 1, 7, 2}), sizeof y);
    spec.pass = LS_PASS_BACKWARD_DATA;
    float dy[] = {1, 2, 3, 4, 5, 6, 7, 8}, dx[8], dx2[8], dgamma[2], dbeta[2], dmean[2], dvariance[2];
    args[LS_ARG_DY] = dy, args[LS_ARG_DX] = dx, args[LS_ARG_DX2] = dx2, args[LS_ARG_DW] = dgamma;
    args[LS_ARG_DB] = dbeta, args[LS_ARG_DMEAN] = dmean, args[LS_ARG_DVARIANCE] = dvariance;
    run(&spec, args);
    assert_memory_equal(dx2, ((float[]){0, 0, 3, 0, 0, 6, 7, 8}), sizeof dx2);
    assert_memory_equal(dbeta, ((float[]){10, 14}), sizeof dbeta);
    assert_memory_equal(dgamma, ((float[]){6, 0}), sizeof dgamma);  // 3 * (3 - 4) / 3 + 7 * (7 - 4) / 3
    assert_memory_equal(dmean, ((float[]){8, 4}), sizeof dmean);    // two samples
    assert_memory_equal(dvariance, ((float[]){10, 0}), sizeof dvariance);
    // Inference uses what it is given: (x - 1) / 4.
    spec = (ls_kernel_spec){
        .op = LS_OP_BATCH_NORM, .pass = LS_PASS_INFERENCE, .x = spec.x, .y = spec.y, .attrs = {.epsilon = 4}};
    float mean[] = {1, 1}, variance[] = {12, 12};
    args[LS_ARG_MEAN] = mean, args[LS_ARG_VARIANCE] = variance;
    run(&spec, args);
    assert_memory_equal(y, ((float[]){1, 1.25f, 4, 1.25f, 7, 1.25f, 10, 1.25f}), sizeof y);
}

static void sums_and_padding(void **state) {
    ls_kernel_spec spec = {.op = LS_OP_ADD, .x = LS_SHAPE(1, 3), .y = LS_SHAPE(1, 3)};
    float x[] = {1, 2, 3}, x2[] = {10, -20, 30}, y[9];
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_X2] = x2, [LS_ARG_Y] = y});
    assert_memory_equal(y, ((float[]){11, -18, 33}), 3 * sizeof *y);
    // A convolution that only scales, with a residual before its ReLU.
    spec = (ls_kernel_spec){
        .op = LS_OP_CONV2D,
        .x = LS_SHAPE(1, 1, 3, 1),
        .y = LS_SHAPE(1, 1, 3, 1),
        .residual = 1,
        .attrs = {.kernel = {1, 1}, .strides = {1, 1}, .filters = 1, .use_bias = 1, .activation = LS_ACTIVATION_RELU}};
    float w[] = {2}, b[] = {1};
    run(&spec,
        (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_X2] = x2, [LS_ARG_W] = w, [LS_ARG_B] = b, [LS_ARG_Y] = y});
    assert_memory_equal(y, ((float[]){13, 0, 37}), 3 * sizeof *y);
    spec = (ls_kernel_spec){
        .op = LS_OP_ZERO_PAD2D, .x = LS_SHAPE(1, 1, 3, 1), .y = LS_SHAPE(1, 2, 4, 1), .attrs = {.pad = {1, 1, 0, 0}}};
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_Y] = y});
    assert_memory_equal(y, ((float[]){0, 0, 0, 0, 0, 1, 2, 3}), 8 * sizeof *y);
    // Maxima over images of negative numbers within zeros: only the window without padding sees them.
    spec = (ls_kernel_spec){.op = LS_OP_MAX_POOL2D,
                            .x = LS_SHAPE(1, 1, 3, 1),
                            .y = LS_SHAPE(1, 1, 4, 1),
                            .attrs = {.kernel = {1, 2}, .strides = {1, 1}, .pad = {0, 1, 0, 1}, .pad_zeros = 1}};
    int32_t workspace[4];
    run(&spec,
        (void *[LS_ARG_COUNT]){[LS_ARG_X] = (float[]){-1, -2, 3}, [LS_ARG_Y] = y, [LS_ARG_WORKSPACE] = workspace});
    assert_memory_equal(y, ((float[]){0, -1, 3, 3}), 4 * sizeof *y);
    float dy[] = {10, 20, 30, 40}, dx[3];
    spec.pass = LS_PASS_BACKWARD_DATA;
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_DY] = dy, [LS_ARG_DX] = dx, [LS_ARG_WORKSPACE] = workspace});
    assert_memory_equal(dx, ((float[]){20, 0, 70}), sizeof dx);
}

static void bf16_is_rounded_once_at_the_edges(void **state) {
    ls_kernel_spec spec = {.op = LS_OP_DENSE,
                           .x = LS_SHAPE(1, 2),
                           .y = LS_SHAPE(1, 1),
                           .attrs = {.filters = 1},
                           .x_dtype = LS_DTYPE_BF16,
                           .w_dtype = LS_DTYPE_BF16,
                           .y_dtype = LS_DTYPE_BF16,
                           .dy_dtype = LS_DTYPE_BF16};
    ls_bf16 x[] = {ls_float_to_bf16(1), ls_float_to_bf16(0x1p-8f)}, w[] = {ls_float_to_bf16(1), ls_float_to_bf16(3)}, y;
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_W] = w, [LS_ARG_Y] = &y});
    assert_int_equal(y, ls_float_to_bf16(1 + 3 * 0x1p-8f));
    spec.y_dtype = LS_DTYPE_F32;
    float y32;
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_W] = w, [LS_ARG_Y] = &y32});
    assert_true(y32 == 1 + 3 * 0x1p-8f);
    spec.x_dtype = LS_DTYPE_U8;
    ls_kernel *k;
    assert_int_equal(ls_kernel_create(device, &spec, &k), LS_STATUS_UNSUPPORTED);
    assert_null(k);
    assert_int_equal(device->ops->supports(device, LS_DTYPE_I32), LS_STATUS_UNSUPPORTED);
}

static void the_first_of_equal_maxima_wins(void **state) {
    ls_kernel_spec spec = {.op = LS_OP_MAX_POOL2D,
                           .x = LS_SHAPE(1, 2, 2, 1),
                           .y = LS_SHAPE(1, 1, 1, 1),
                           .attrs = window(2, 2, 2, 2, 0, 0, 0, 0)};
    float x[] = {1, 2, 2, 2}, y, dy = 5, dx[4] = {9, 9, 9, 9};
    int32_t workspace;
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_Y] = &y, [LS_ARG_WORKSPACE] = &workspace});
    assert_true(y == 2);
    spec.pass = LS_PASS_BACKWARD_DATA;
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_DY] = &dy, [LS_ARG_DX] = dx, [LS_ARG_WORKSPACE] = &workspace});
    const float expected[] = {0, 5, 0, 0};
    assert_memory_equal(dx, expected, sizeof dx);
}

// Which elements fall out depends on the sample, not on its place in the batch; about the asked-for fraction does; in
// inference none do.
static void dropout_is_a_function_of_the_sample(void **state) {
    enum { N = 3, SIZE = 1002 };
    static float x[N * SIZE], y[N * SIZE], z[N * SIZE];
    uint64_t samples[N] = {10, 11, 12}, moved[N] = {12, 10, 11};
    ls_random_key key = {.seed = 1, .epoch = 2, .samples = samples};
    ls_kernel_spec spec = {
        .op = LS_OP_DROPOUT, .x = LS_SHAPE(N, SIZE), .y = LS_SHAPE(N, SIZE), .attrs = {.rate = 0.25f, .layer = 1}};
    for (int i = 0; i < N * SIZE; i++) x[i] = 3;
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_Y] = y, [LS_ARG_RANDOM] = &key});
    int dropped = 0;
    for (int i = 0; i < N * SIZE; i++) {
        assert_true(y[i] == 0 || y[i] == 4);
        dropped += y[i] == 0;
    }
    assert_true(abs(dropped - N * SIZE / 4) < 100);  // four standard deviations of 24
    key.samples = moved;
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_Y] = z, [LS_ARG_RANDOM] = &key});
    assert_memory_equal(z, y + 2 * SIZE, SIZE * sizeof *z);
    assert_memory_equal(z + SIZE, y, 2 * SIZE * sizeof *z);
    assert_memory_not_equal(y, y + SIZE, SIZE * sizeof *y);
    key.epoch = 3;
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_Y] = y, [LS_ARG_RANDOM] = &key});
    assert_memory_not_equal(y, z, SIZE * sizeof *y);
    spec.pass = LS_PASS_INFERENCE;
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_Y] = y});
    assert_memory_equal(x, y, sizeof x);
}

static void loss_metrics(void **state) {
    ls_kernel_spec spec = {.op = LS_OP_SOFTMAX_CROSS_ENTROPY, .x = LS_SHAPE(3, 2), .y = LS_SHAPE(3, 2)};
    float x[] = {0, 0, 0, 0, 1000, -1000};  // the last would overflow a plain exp
    int32_t labels[] = {0, 1, 0};           // of equal logits the first wins: right, wrong
    ls_loss_metrics m;
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_LABELS] = labels, [LS_ARG_METRICS] = &m});
    assert_true(fabs(m.loss - 2 * log(2)) < 1e-15);
    assert_int_equal(m.correct, 2);
    assert_int_equal(m.samples, 3);
    spec.pass = LS_PASS_BACKWARD_DATA;
    spec.dy_dtype = LS_DTYPE_BF16;
    ls_bf16 dx[6];
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_LABELS] = labels, [LS_ARG_DX] = dx});
    const float expected[] = {-0.5f, 0.5f, 0.5f, -0.5f, 0, 0};
    for (int i = 0; i < 6; i++) assert_true(ls_bf16_to_float(dx[i]) == expected[i]);
}

// Keras: CategoricalCrossentropy(from_logits=True, label_smoothing=S). The numbers are those of its formula in Python:
// t = one_hot * (1 - S) + S / 4; loss = sum(t * (log(sum(exp(x))) - x)); gradient = exp(x) / sum(exp(x)) - t.
static void smoothed_labels(void **state) {
    ls_kernel_spec spec = {
        .op = LS_OP_SOFTMAX_CROSS_ENTROPY, .x = LS_SHAPE(2, 4), .y = LS_SHAPE(2, 4), .attrs = {.label_smoothing = 0.1}};
    float x[] = {1, -2, 0.5f, 3, -1, 0, 2, 0.25f}, dx[8];
    int32_t labels[] = {3, 1};
    ls_loss_metrics m;
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_LABELS] = labels, [LS_ARG_METRICS] = &m});
    assert_true(fabs(m.loss - 2.71517627019043) < 1e-12);
    assert_int_equal(m.correct, 1);
    spec.pass = LS_PASS_BACKWARD_DATA;
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_LABELS] = labels, [LS_ARG_DX] = dx});
    const double expected[] = {0.08555375036, -0.01949585287, 0.04205423914, -0.1081121366,
                               0.01163787189, -0.8254079386,  0.7108913286,  0.1028787381};
    for (int i = 0; i < 8; i++) assert_true(fabs(dx[i] - expected[i]) < 1e-7);
}

static void reorder_converts(void **state) {
    const ls_layout *f32, *bf16, *again;
    ls_kernel *k;
    assert_int_equal(device->ops->layout_plain(device, LS_SHAPE(2), LS_DTYPE_F32, 0, &f32), LS_OK);
    assert_int_equal(device->ops->layout_plain(device, LS_SHAPE(2), LS_DTYPE_BF16, 0, &bf16), LS_OK);
    assert_int_equal(device->ops->layout_plain(device, LS_SHAPE(2), LS_DTYPE_F32, 0, &again), LS_OK);
    assert_ptr_equal(f32, again);
    assert_int_equal(bf16->bytes, 4);
    assert_int_equal(device->ops->reorder_create(device, f32, bf16, &k), LS_OK);
    float x[] = {1.00390625f, -2};  // the first lies half way between two bf16 numbers
    ls_bf16 y[2];
    assert_int_equal(ls_kernel_run(k, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_Y] = y}), LS_OK);
    assert_int_equal(y[0], 0x3F80);
    assert_int_equal(y[1], 0xC000);
    ls_kernel_destroy(&k);
}

static void unknown_devices_and_impossible_kernels(void **state) {
    ls_device *d;
    ls_kernel *k;
    assert_int_equal(ls_device_create("gpu", NULL, &d), LS_STATUS_NOT_FOUND);
    assert_null(d);
    assert_string_equal(ls_error_message(), "there is no device named \"gpu\"; the devices are cpu, ref");
    assert_int_equal(ls_device_create("ref", &(ls_device_options){.threads = -1}, &d), LS_STATUS_INVALID_ARGUMENT);
    ls_kernel_spec spec = {
        .op = LS_OP_RELU, .pass = LS_PASS_BACKWARD_WEIGHTS, .x = LS_SHAPE(2, 2), .y = LS_SHAPE(2, 2)};
    assert_int_equal(ls_kernel_create(device, &spec, &k), LS_STATUS_INTERNAL);
    spec = (ls_kernel_spec){.op = LS_OP_CONV2D, .x = LS_SHAPE(2, 2), .y = LS_SHAPE(2, 2)};
    assert_int_equal(ls_kernel_create(device, &spec, &k), LS_STATUS_INTERNAL);
    spec = (ls_kernel_spec){.op = LS_OP_ADD, .pass = LS_PASS_BACKWARD_DATA, .x = LS_SHAPE(2, 2), .y = LS_SHAPE(2, 2)};
    assert_int_equal(ls_kernel_create(device, &spec, &k), LS_STATUS_INTERNAL);
    assert_string_equal(ls_error_message(), "an Add has no backward kernel: its inputs share its output's gradient");
    spec = (ls_kernel_spec){.op = LS_OP_BATCH_NORM, .x = LS_SHAPE(2, 2), .y = LS_SHAPE(2, 3)};
    assert_int_equal(ls_kernel_create(device, &spec, &k), LS_STATUS_INTERNAL);
    spec = (ls_kernel_spec){.op = LS_OP_RELU, .residual = 1, .x = LS_SHAPE(2, 2), .y = LS_SHAPE(2, 2)};
    assert_int_equal(ls_kernel_create(device, &spec, &k), LS_STATUS_INTERNAL);
    assert_null(k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv2d),
        cmocka_unit_test(dense),
        cmocka_unit_test(pooling),
        cmocka_unit_test(pooling_of_padded_images),
        cmocka_unit_test(batch_norm),
        cmocka_unit_test(zero_padding),
        cmocka_unit_test(relu_and_flatten),
        cmocka_unit_test(dropout),
        cmocka_unit_test(softmax_cross_entropy),
        cmocka_unit_test(forward_values),
        cmocka_unit_test(fused_relu_and_masked_gradient),
        cmocka_unit_test(normalized_values),
        cmocka_unit_test(sums_and_padding),
        cmocka_unit_test(bf16_is_rounded_once_at_the_edges),
        cmocka_unit_test(the_first_of_equal_maxima_wins),
        cmocka_unit_test(dropout_is_a_function_of_the_sample),
        cmocka_unit_test(loss_metrics),
        cmocka_unit_test(smoothed_labels),
        cmocka_unit_test(reorder_converts),
        cmocka_unit_test(unknown_devices_and_impossible_kernels),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
