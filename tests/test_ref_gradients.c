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
#include "op_case.h"

// A sequence (T, C), and a mask of its steps.
#define MASKED(t, c)                                                                                                   \
    {{.shape = LS_SHAPE(t, c)}, {.shape = LS_SHAPE(t), .dtype = LS_DTYPE_I32}}, .x_count = 2, .below = 2
#define STEP      1e-5
#define TOLERANCE 1e-8
#define SAMPLE(...)                                                                                                    \
    {                                                                                                                  \
        { .shape = LS_SHAPE(__VA_ARGS__) }                                                                             \
    }

static ls_device *device;

static int setup(void **state) { return ls_device_create("ref", NULL, &device) != LS_OK; }
static int teardown(void **state) {
    ls_device_destroy(&device);
    return 0;
}

// --- a case ----------------------------------------------------------------------------------------------------------

typedef struct problem {
    op_case c;
    op_spec spec;
    ls_ref_args args;  // all there are; a pass sees those that its kernel uses
} problem;

static double *new_values(int64_t count) {
    double *values = calloc((size_t)count, sizeof *values);
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

static double *whole_numbers(int64_t count, uint32_t what, int below) {
    double *values = new_values(count);
    for (int64_t i = 0; i < count; i++) values[i] = ls_philox(2, (uint32_t)i, what, 0, 0).v[0] % (uint32_t)below;
    return values;
}

static int is_floating(const ls_tensor_type *t) { return t->dtype == LS_DTYPE_F32; }

static problem make_problem(op_case c) {
    problem p = {.c = c, .spec = op_spec_of(&c, LS_DTYPE_F32)};
    const ls_kernel_spec *s = &p.spec.kernel;
    ls_ref_args *a = &p.args;
    uint32_t what = 0;
    for (int k = 0; k < s->x_count; k++) {
        int64_t count = ls_shape_count(s->x[k].shape);
        a->x[k] = is_floating(&s->x[k]) ? random_values(count, ++what) : whole_numbers(count, ++what, p.spec.below);
        a->dx[k] = new_values(count);
    }
    for (int k = 0; k < s->w_count; k++) {
        int64_t count = ls_shape_count(s->w[k].shape);
        a->w[k] = random_values(count, ++what);
        for (int64_t i = 0; i < count && p.spec.w_values[k] == NOT_NEGATIVE; i++) a->w[k][i] = fabs(a->w[k][i]);
        a->dw[k] = new_values(count);
    }
    for (int k = 0; k < s->y_count; k++) {
        a->y[k] = new_values(ls_shape_count(s->y[k].shape));
        a->dy[k] = random_values(ls_shape_count(s->y[k].shape), ++what);
    }
    a->residual = random_values(ls_shape_count(s->y[0].shape), ++what);
    a->dresidual = new_values(ls_shape_count(s->y[0].shape));
    a->addend = random_values(ls_shape_count(s->x[0].shape), ++what);
    a->workspace = calloc((size_t)ls_shape_count(s->y[0].shape), sizeof *a->workspace);
    uint64_t *key = calloc(2 + (size_t)s->x[0].shape.dim[0], sizeof *key);
    assert_true(a->workspace && key);
    const ls_ref_op *op = ls__ref_op_find(s->op);
    if (op->scratch) a->scratch = new_values(op->scratch(s));
    key[0] = 9, key[1] = 3;
    for (int64_t i = 0; i < s->x[0].shape.dim[0]; i++) key[2 + i] = 5 + ((uint64_t)i << 40);
    a->random = (const ls_random_key *)(const void *)key;
    return p;
}

static void free_problem(problem *p) {
    ls_ref_args *a = &p->args;
    for (int k = 0; k < LS_MAX_INPUTS; k++) free(a->x[k]), free(a->dx[k]);
    for (int k = 0; k < LS_MAX_PARAMS; k++) free(a->w[k]), free(a->dw[k]);
    for (int k = 0; k < LS_MAX_OUTPUTS; k++) free(a->y[k]), free(a->dy[k]);
    free(a->residual), free(a->dresidual), free(a->addend), free(a->workspace), free((void *)a->random);
    free(a->scratch);
}

static void scale(double *values, ls_shape shape, double factor, double shift) {
    for (int64_t i = 0; i < ls_shape_count(shape); i++) values[i] = factor * values[i] + shift;
}

// --- computing -------------------------------------------------------------------------------------------------------

static void keep(double **from, const ls_kernel *k, int first, int count) {
    for (int i = 0; i < count; i++)
        if (!k->layout[first + i]) from[i] = NULL;
}

// Runs a pass on the arguments that its kernel uses; `gives` (LS_ARG_COUNT) gets what it writes.
static void compute(problem *p, ls_pass pass, char *gives) {
    ls_kernel_spec spec = p->spec.kernel;
    ls_ref_args a = p->args;
    ls_kernel *k;
    spec.pass = pass;
    spec.addend = pass == LS_PASS_BACKWARD && p->c.addend;
    if (ls_kernel_create(device, &spec, &k) != LS_OK) fail_msg("%s: %s", op_describe(&spec), ls_error_message());
    keep(a.x, k, LS_ARG_X, LS_MAX_INPUTS);
    keep(a.w, k, LS_ARG_W, LS_MAX_PARAMS);
    keep(a.y, k, LS_ARG_Y, LS_MAX_OUTPUTS);
    keep(a.dx, k, LS_ARG_DX, LS_MAX_INPUTS);
    keep(a.dw, k, LS_ARG_DW, LS_MAX_PARAMS);
    keep(a.dy, k, LS_ARG_DY, LS_MAX_OUTPUTS);
    keep(&a.residual, k, LS_ARG_RESIDUAL, 1);
    keep(&a.dresidual, k, LS_ARG_DRESIDUAL, 1);
    keep(&a.addend, k, LS_ARG_ADDEND, 1);
    if (k->workspace_bytes == 0) a.workspace = NULL;
    a.spec = &spec;
    for (int i = 0; gives && i < LS_ARG_COUNT; i++) gives[i] |= k->layout[i] != NULL;
    ls__ref_compute(ls__ref_op_find(spec.op), &a);
    ls_kernel_destroy(&k);
}

static double objective(problem *p) {
    const ls_kernel_spec *s = &p->spec.kernel;
    int starts = ls__ref_op_find(s->op)->seeds_gradient;
    double sum = 0;
    compute(p, LS_PASS_TRAINING, NULL);
    for (int k = 0; k < s->y_count; k++)
        for (int64_t i = 0; i < ls_shape_count(s->y[k].shape); i++)
            sum += (starts ? 1 : p->args.dy[k][i]) * p->args.y[k][i];
    // X's other readers, whose gradient is the addend, might as well sum X times it.
    for (int64_t i = 0; p->c.addend && i < ls_shape_count(s->x[0].shape); i++)
        sum += p->args.addend[i] * p->args.x[0][i];
    return sum;
}

static void compare(problem *p, int arg, double *values, const double *gradient, ls_shape shape) {
    for (int64_t i = 0; i < ls_shape_count(shape); i++) {
        double kept = values[i];
        values[i] = kept + STEP;
        double above = objective(p);
        values[i] = kept - STEP;
        double below = objective(p);
        values[i] = kept;
        double difference = (above - below) / (2 * STEP);
        if (!(fabs(difference - gradient[i]) <= TOLERANCE * (1 + fabs(difference))))
            fail_msg("%s: the gradient in argument %d is %.12g at %lld, the central difference %.12g",
                     op_describe(&p->spec.kernel), arg, gradient[i], (long long)i, difference);
    }
}

// All gradients that the operation gives; of a layer those are one of each floating input and of each parameter that is trained.
static void check(problem p) {
    const ls_kernel_spec *s = &p.spec.kernel;
    const ls_op *op = ls__op_find(s->op);
    char gives[LS_ARG_COUNT] = {0};
    ls_pass passes[3];
    int count = op_backward_passes(s, passes), compared = 0;
    // Gradients overwrite whatever was there.
    for (int k = 0; k < s->x_count; k++) scale(p.args.dx[k], s->x[k].shape, 0, 777);
    for (int k = 0; k < s->w_count; k++) scale(p.args.dw[k], s->w[k].shape, 0, 777);
    scale(p.args.dresidual, s->y[0].shape, 0, 777);
    assert_true(count > 0);
    objective(&p);
    for (int i = 0; i < count; i++) compute(&p, passes[i], gives);
    for (int k = 0; k < s->x_count; k++) {
        assert_true(is_floating(&s->x[k]) || !gives[LS_ARG_DX + k]);
        if (op->part == LS_PART_LAYER) assert_int_equal(gives[LS_ARG_DX + k], is_floating(&s->x[k]));
        if (!gives[LS_ARG_DX + k]) continue;
        compare(&p, LS_ARG_DX + k, p.args.x[k], p.args.dx[k], s->x[k].shape);
        compared++;
    }
    for (int k = 0; k < s->w_count; k++) {
        if (p.spec.role[k] == LS_PARAM_STATISTIC) continue;  // what is there, if anything, is no gradient
        assert_true(gives[LS_ARG_DW + k]);
        compare(&p, LS_ARG_DW + k, p.args.w[k], p.args.dw[k], s->w[k].shape);
        compared++;
    }
    assert_true(compared > 0);
    if (gives[LS_ARG_DRESIDUAL]) compare(&p, LS_ARG_DRESIDUAL, p.args.residual, p.args.dresidual, s->y[0].shape);
    free_problem(&p);
}

static void check_case(op_case c) { check(make_problem(c)); }

// --- every operation -------------------------------------------------------------------------------------------------

static void conv2d(void **state) {
    check_case((op_case){.op = LS_OP_CONV2D,
                         .batch = 2,
                         .x = SAMPLE(5, 6, 3),
                         .attrs = &(ls_conv2d_attrs){.filters = 4, .kernel = {3, 3}}});
    check_case((op_case){.op = LS_OP_CONV2D,
                         .x = SAMPLE(5, 4, 2),
                         .sides = {{1, 1}, {0, 0}},
                         .attrs = &(ls_conv2d_attrs){.filters = 3, .kernel = {3, 2}, .strides = {2, 2}, .no_bias = 1}});
    check_case((op_case){.op = LS_OP_CONV2D,
                         .batch = 2,
                         .x = SAMPLE(3, 3, 1),
                         .attrs = &(ls_conv2d_attrs){.filters = 2, .kernel = {5, 5}, .padding = LS_PADDING_SAME}});
    check_case((op_case){.op = LS_OP_CONV2D,
                         .batch = 2,
                         .x = SAMPLE(2, 3, 5),
                         .attrs = &(ls_conv2d_attrs){.filters = 1, .kernel = {1, 1}}});
}

static void dense(void **state) {
    check_case((op_case){.op = LS_OP_DENSE, .batch = 3, .x = SAMPLE(7), .attrs = &(ls_dense_attrs){.units = 5}});
    check_case((op_case){.op = LS_OP_DENSE, .x = SAMPLE(4), .attrs = &(ls_dense_attrs){.units = 1, .no_bias = 1}});
}

static void pooling(void **state) {
    static const ls_op_kind windows[] = {LS_OP_MAX_POOL2D, LS_OP_AVERAGE_POOL2D};
    static const ls_op_kind globals[] = {LS_OP_GLOBAL_MAX_POOL2D, LS_OP_GLOBAL_AVERAGE_POOL2D};
    for (int i = 0; i < 2; i++) {
        check_case((op_case){.op = windows[i], .batch = 2, .x = SAMPLE(5, 4, 3)});
        check_case(
            (op_case){.op = windows[i],
                      .x = SAMPLE(5, 5, 2),
                      .attrs = &(ls_pool2d_attrs){.size = {3, 3}, .strides = {2, 2}, .padding = LS_PADDING_SAME}});
        check_case((op_case){.op = windows[i],
                             .batch = 2,
                             .x = SAMPLE(4, 4, 1),
                             .attrs = &(ls_pool2d_attrs){.size = {2, 3}, .strides = {1, 1}}});
        check_case((op_case){.op = globals[i], .batch = 3, .x = SAMPLE(4, 5, 3)});
    }
}

// Padding that takes part as zeros wins wherever all of a window's pixels are negative.
static void pooling_of_padded_images(void **state) {
    check_case((op_case){.op = LS_OP_MAX_POOL2D,
                         .batch = 2,
                         .x = SAMPLE(5, 5, 3),
                         .sides = {{1, 1}, {1, 1}},
                         .attrs = &(ls_pool2d_attrs){.size = {3, 3}, .strides = {2, 2}}});
    check_case((op_case){.op = LS_OP_MAX_POOL2D, .x = SAMPLE(2, 2, 2), .sides = {{2, 2}, {2, 2}}});
}

// X spread widely, so that third derivatives stay small. Before a ReLU no step of a central difference may cross zero.
static void check_norm(op_case c) {
    problem p = make_problem(c);
    ls_kernel_spec *s = &p.spec.kernel;
    scale(p.args.x[0], s->x[0].shape, 20, 3);
    for (int k = 0; k < 1; k++) scale(p.args.w[k], s->w[k].shape, 100, 0);
    s->activation = LS_ACTIVATION_NONE;
    compute(&p, LS_PASS_TRAINING, NULL);
    for (int64_t i = 0; i < ls_shape_count(s->y[0].shape) && c.relu; i++)
        assert_true(fabs(p.args.y[0][i]) > 1e-4 && fabs(p.args.y[0][i] - 6) > 1e-4);
    if (c.relu) s->activation = c.relu == 6 ? LS_ACTIVATION_RELU6 : LS_ACTIVATION_RELU;
    check(p);
}

static void batch_norm(void **state) {
    for (int relu = 0; relu < 2; relu++) {
        check_norm((op_case){.op = LS_OP_BATCH_NORM, .relu = relu, .batch = 2, .x = SAMPLE(3, 4, 3)});
        check_norm((op_case){.op = LS_OP_BATCH_NORM, .relu = relu, .batch = 7, .x = SAMPLE(5)});
        check_norm((op_case){.op = LS_OP_BATCH_NORM, .relu = relu, .batch = 3, .x = SAMPLE(2, 4, 5), .residual = 1});
        check_norm((op_case){.op = LS_OP_BATCH_NORM, .relu = relu, .batch = 2, .x = SAMPLE(3, 3, 2), .addend = 1});
        check_norm((op_case){.op = LS_OP_BATCH_NORM,
                             .relu = relu,
                             .batch = 2,
                             .x = SAMPLE(3, 4, 3),
                             .attrs = &(ls_batch_norm_attrs){.no_scale = 1}});
    }
    check_norm((op_case){.op = LS_OP_BATCH_NORM, .relu = 6, .batch = 2, .x = SAMPLE(7, 4, 3), .addend = 1});
}

static void volumes(void **state) {
    check_case((op_case){.op = LS_OP_CONV3D,
                         .batch = 2,
                         .x = SAMPLE(3, 4, 3, 2),
                         .attrs = &(ls_conv3d_attrs){.filters = 3, .kernel = {2, 3, 2}}});
    check_case((op_case){.op = LS_OP_CONV3D,
                         .x = SAMPLE(4, 5, 4, 2),
                         .attrs = &(ls_conv3d_attrs){.filters = 2,
                                                     .kernel = {3, 2, 3},
                                                     .strides = {2, 1, 2},
                                                     .dilation = {1, 2, 1},
                                                     .padding = LS_PADDING_SAME,
                                                     .no_bias = 1}});
    check_case(
        (op_case){.op = LS_OP_CONV3D_TRANSPOSE,
                  .batch = 2,
                  .x = SAMPLE(2, 2, 3, 2),
                  .attrs = &(ls_conv3d_transpose_attrs){.filters = 3, .kernel = {2, 3, 3}, .strides = {1, 2, 2}}});
    check_case((op_case){
        .op = LS_OP_CONV3D_TRANSPOSE,
        .x = SAMPLE(2, 3, 2, 2),
        .attrs = &(ls_conv3d_transpose_attrs){
            .filters = 2, .kernel = {3, 4, 2}, .strides = {2, 2, 3}, .padding = LS_PADDING_SAME, .no_bias = 1}});
    for (int i = 0; i < 2; i++) {
        ls_op_kind op = i ? LS_OP_MAX_POOL3D : LS_OP_AVERAGE_POOL3D;
        ls_pool3d_attrs a = {.size = {3, 2, 3}, .strides = {1, 2, 2}, .padding = LS_PADDING_SAME};
        check_case((op_case){.op = op, .batch = 2, .x = SAMPLE(3, 4, 5, 2)});
        check_case((op_case){.op = op, .batch = 2, .x = SAMPLE(3, 3, 4, 2), .attrs = &a});
    }
    check_norm((op_case){.op = LS_OP_BATCH_NORM, .relu = 1, .batch = 2, .x = SAMPLE(2, 3, 2, 3)});
}

static void zero_padding(void **state) {
    check_case((op_case){.op = LS_OP_ZERO_PAD2D,
                         .batch = 2,
                         .x = SAMPLE(3, 4, 3),
                         .attrs = &(ls_zero_pad2d_attrs){.padding = {{1, 3}, {0, 4}}}});
}

static void cropping(void **state) {
    check_case((op_case){.op = LS_OP_CROPPING2D,
                         .batch = 2,
                         .x = SAMPLE(6, 7, 3),
                         .attrs = &(ls_cropping2d_attrs){.cropping = {{1, 3}, {0, 4}}}});
}

static void relu_and_flatten(void **state) {
    check_case((op_case){.op = LS_OP_RELU, .batch = 2, .x = SAMPLE(3, 3, 2)});
    check_case((op_case){.op = LS_OP_ACTIVATION,
                         .batch = 2,
                         .x = SAMPLE(3, 3, 2),
                         .attrs = &(ls_activation_attrs){.activation = LS_ACTIVATION_RELU}});
    check_case((op_case){.op = LS_OP_FLATTEN, .batch = 2, .x = SAMPLE(3, 3, 2)});
}

static void dropout(void **state) {
    check_case(
        (op_case){.op = LS_OP_DROPOUT, .batch = 2, .x = SAMPLE(3, 3, 5), .attrs = &(ls_dropout_attrs){.rate = 0.3f}});
    check_case((op_case){.op = LS_OP_DROPOUT,
                         .batch = 6,
                         .x = SAMPLE(2, 2, 3),
                         .attrs = &(ls_dropout_attrs){.rate = 0.5f, .per_sample = 1}});
}

static void softmax_cross_entropy(void **state) {
    for (int rows = 0; rows < 2; rows++) {
        ls_loss_attrs attrs = {.weight = rows ? 0.7 : 0};
        op_case c = {.op = LS_OP_SOFTMAX_CROSS_ENTROPY, .attrs = &attrs, .batch = 3, .x = SAMPLE(5)};
        c.x[1] = rows ? c.x[0] : (ls_tensor_type){.dtype = LS_DTYPE_I32};
        problem p = make_problem(c);
        scale(p.args.x[0], p.spec.kernel.x[0].shape, 20, 0);
        check(p);
        attrs.label_smoothing = 0.3;
        check_case(c);
    }
}

static void activations(void **state) {
    for (int a = LS_ACTIVATION_SIGMOID; a <= LS_ACTIVATION_RELU6; a++) {
        ls_activation_attrs attrs = {.activation = (ls_activation)a};
        check_case((op_case){.op = LS_OP_ACTIVATION, .attrs = &attrs, .batch = 3, .x = SAMPLE(2, 3, 5)});
        check_case((op_case){.op = LS_OP_ACTIVATION, .attrs = &attrs, .batch = 2, .x = SAMPLE(7)});
    }
    ls_activation_attrs cut = {.activation = LS_ACTIVATION_RELU6};  // of values from -9 to 9
    problem p = make_problem((op_case){.op = LS_OP_ACTIVATION, .attrs = &cut, .batch = 2, .x = SAMPLE(3, 5)});
    scale(p.args.x[0], p.spec.kernel.x[0].shape, 60, 0);
    check(p);
}

static void concat_and_multiply(void **state) {
    for (int axis = -3; axis <= 3; axis++) {
        ls_concat_attrs a = {.axis = axis};
        op_case c = {.op = LS_OP_CONCAT, .attrs = &a, .batch = 2, .x_count = 3};
        for (int k = 0; k < 3; k++) {
            c.x[k].shape = LS_SHAPE(2, 3, 4);
            c.x[k].shape.dim[axis > 0 ? axis - 1 : axis < 0 ? axis + 3 : 2] = 1 + k;
        }
        check_case(c);
    }
    check_case(
        (op_case){.op = LS_OP_MULTIPLY, .batch = 2, .x = {{.shape = LS_SHAPE(2, 3, 4)}, {.shape = LS_SHAPE(2, 3, 4)}}});
}

static void multiply_by_channel(void **state) {
    check_case(
        (op_case){.op = LS_OP_MULTIPLY, .batch = 2, .x = {{.shape = LS_SHAPE(2, 3, 4)}, {.shape = LS_SHAPE(1, 1, 4)}}});
    check_case(
        (op_case){.op = LS_OP_MULTIPLY, .batch = 3, .x = {{.shape = LS_SHAPE(3, 2)}, {.shape = LS_SHAPE(1, 2)}}});
}

static void rescaling_and_normalization(void **state) {
    check_case((op_case){.op = LS_OP_RESCALING,
                         .batch = 2,
                         .x = SAMPLE(2, 3, 4),
                         .attrs = &(ls_rescaling_attrs){.scale = -0.3, .offset = 2}});
    check_case((op_case){.op = LS_OP_NORMALIZATION, .batch = 2, .x = SAMPLE(2, 3, 4)});
}

// Exponentials of values between -1 and 1.
static void samples_of_distributions(void **state) {
    check_case((op_case){.op = LS_OP_NORMAL_SAMPLE, .batch = 3, .x = {{.shape = LS_SHAPE(6)}, {.shape = LS_SHAPE(3)}}});
    check_case((op_case){
        .op = LS_OP_NORMAL_SAMPLE, .batch = 2, .x = {{.shape = LS_SHAPE(2, 3, 4)}, {.shape = LS_SHAPE(2, 3, 2)}}});
    check_case((op_case){.op = LS_OP_NORMAL_DIVERGENCE, .batch = 3, .x = SAMPLE(6)});
    check_case((op_case){
        .op = LS_OP_NORMAL_DIVERGENCE, .batch = 2, .x = SAMPLE(2, 3, 4), .attrs = &(ls_loss_attrs){.weight = 0.3}});
}

static void separable_conv2d(void **state) {
    check_case((op_case){.op = LS_OP_SEPARABLE_CONV2D,
                         .batch = 2,
                         .x = SAMPLE(4, 5, 3),
                         .attrs = &(ls_separable_conv2d_attrs){.filters = 4, .kernel = {3, 2}, .multiplier = 2}});
    check_case((op_case){.op = LS_OP_SEPARABLE_CONV2D,
                         .x = SAMPLE(5, 4, 2),
                         .attrs = &(ls_separable_conv2d_attrs){.filters = 3,
                                                               .kernel = {2, 3},
                                                               .strides = {2, 2},
                                                               .dilation = {2, 1},
                                                               .padding = LS_PADDING_SAME,
                                                               .no_bias = 1}});
}

static void global_pooling_that_keeps_dimensions(void **state) {
    ls_pool2d_attrs a = {.keepdims = 1};
    check_case((op_case){.op = LS_OP_GLOBAL_AVERAGE_POOL2D, .batch = 2, .x = SAMPLE(3, 2, 4), .attrs = &a});
    check_case((op_case){.op = LS_OP_GLOBAL_MAX_POOL2D, .batch = 2, .x = SAMPLE(3, 2, 4), .attrs = &a});
}

static void conv2d_with_groups_and_dilation(void **state) {
    check_case((op_case){.op = LS_OP_CONV2D,
                         .batch = 2,
                         .x = SAMPLE(5, 6, 4),
                         .attrs = &(ls_conv2d_attrs){.filters = 6, .kernel = {3, 2}, .groups = 2, .dilation = {2, 3}}});
    check_case((op_case){.op = LS_OP_CONV2D,
                         .batch = 2,
                         .x = SAMPLE(4, 5, 3),
                         .attrs = &(ls_conv2d_attrs){.filters = 3,
                                                     .kernel = {2, 3},
                                                     .groups = 3,
                                                     .dilation = {1, 2},
                                                     .strides = {2, 1},
                                                     .padding = LS_PADDING_SAME}});
}

static void depthwise_conv2d(void **state) {
    check_case((op_case){.op = LS_OP_DEPTHWISE_CONV2D,
                         .batch = 2,
                         .x = SAMPLE(4, 5, 3),
                         .attrs = &(ls_depthwise_conv2d_attrs){.kernel = {3, 2}, .multiplier = 2}});
    check_case((op_case){
        .op = LS_OP_DEPTHWISE_CONV2D,
        .x = SAMPLE(5, 4, 2),
        .attrs = &(ls_depthwise_conv2d_attrs){
            .kernel = {2, 3}, .strides = {2, 2}, .dilation = {2, 1}, .padding = LS_PADDING_SAME, .no_bias = 1}});
}

static void conv2d_transpose(void **state) {
    check_case((op_case){.op = LS_OP_CONV2D_TRANSPOSE,
                         .batch = 2,
                         .x = SAMPLE(3, 4, 3),
                         .attrs = &(ls_conv2d_transpose_attrs){.filters = 2, .kernel = {3, 2}, .strides = {2, 3}}});
    check_case(
        (op_case){.op = LS_OP_CONV2D_TRANSPOSE,
                  .x = SAMPLE(4, 3, 2),
                  .attrs = &(ls_conv2d_transpose_attrs){
                      .filters = 3, .kernel = {4, 3}, .strides = {1, 2}, .padding = LS_PADDING_SAME, .no_bias = 1}});
}

static void up_sampling2d(void **state) {
    check_case((op_case){.op = LS_OP_UP_SAMPLING2D,
                         .batch = 2,
                         .x = SAMPLE(3, 2, 3),
                         .attrs = &(ls_up_sampling2d_attrs){.size = {2, 3}}});
}

static void layer_norm(void **state) {
    check_norm((op_case){.op = LS_OP_LAYER_NORM, .batch = 2, .x = SAMPLE(3, 4, 5)});
    check_norm((op_case){.op = LS_OP_LAYER_NORM, .batch = 3, .x = SAMPLE(7)});
}

static void group_norm(void **state) {
    ls_group_norm_attrs pairs = {.groups = 3}, each = {.groups = -1};
    check_norm((op_case){.op = LS_OP_GROUP_NORM, .batch = 2, .x = SAMPLE(3, 2, 6), .attrs = &pairs});
    check_norm((op_case){.op = LS_OP_GROUP_NORM, .batch = 2, .x = SAMPLE(3, 4, 2), .attrs = &each});
}

static void embedding(void **state) {
    for (int dims = 0; dims < 2; dims++)
        check_case((op_case){.op = LS_OP_EMBEDDING,
                             .batch = 3,
                             .x = {{.shape = {.ndim = dims, .dim = {4}}, .dtype = LS_DTYPE_I32}},
                             .attrs = &(ls_embedding_attrs){.rows = 5, .width = 3}});
}

static void global_average_pool1d(void **state) {
    check_case((op_case){.op = LS_OP_GLOBAL_AVERAGE_POOL1D, .batch = 2, .x = SAMPLE(4, 3)});
    check_case((op_case){.op = LS_OP_GLOBAL_AVERAGE_POOL1D, .batch = 3, .x = MASKED(4, 3)});
}

static void position_embedding(void **state) {
    check_case((op_case){.op = LS_OP_POSITION_EMBEDDING,
                         .batch = 2,
                         .x = SAMPLE(3, 4),
                         .attrs = &(ls_position_embedding_attrs){.rows = 5}});
}

static void attention(void **state) {
    for (int i = 0; i < 4; i++) {
        ls_attention_attrs a = {.heads = 1 + i % 2, .causal = i / 2};
        check_case((op_case){.op = LS_OP_ATTENTION, .batch = 2, .x = SAMPLE(4, 12), .attrs = &a});
        check_case((op_case){.op = LS_OP_ATTENTION, .batch = 3, .x = MASKED(4, 12), .attrs = &a});
    }
}

static void recurrent(void **state) {
    for (int i = 0; i < 8; i++) {
        ls_recurrent_attrs a = {.units = 3, .return_sequences = i % 2, .backwards = i / 2 % 2};
        ls_op_kind op = i / 4 ? LS_OP_GRU : LS_OP_LSTM;
        check_case((op_case){.op = op, .batch = 2, .x = SAMPLE(3, 2), .attrs = &a});
        check_case((op_case){.op = op, .batch = 3, .x = MASKED(4, 2), .attrs = &a});
    }
}

static void losses_of_sequences(void **state) {
    for (int i = 0; i < 2; i++)
        check_case((op_case){.op = LS_OP_SOFTMAX_CROSS_ENTROPY,
                             .batch = 2,
                             .below = 4,
                             .x = {{.shape = LS_SHAPE(3, 4)}, {.shape = LS_SHAPE(3), .dtype = LS_DTYPE_I32}},
                             .attrs = &(ls_loss_attrs){.weight = 0.7, .label_smoothing = i ? 0.2 : 0}});
}

static void dense_of_sequences(void **state) {
    check_case((op_case){.op = LS_OP_DENSE, .batch = 2, .x = SAMPLE(3, 4), .attrs = &(ls_dense_attrs){.units = 5}});
}

static void reshape(void **state) {
    check_case((op_case){
        .op = LS_OP_RESHAPE, .batch = 2, .x = SAMPLE(2, 6), .attrs = &(ls_reshape_attrs){.shape = {3, -1, 2}}});
}

// --- what the device adds to the loops -------------------------------------------------------------------------------

static ls_kernel_spec spec_of(op_case c) { return op_spec_of(&c, LS_DTYPE_F32).kernel; }

// Runs a kernel on memory of the test's.
static void run(const ls_kernel_spec *spec, void *const args[LS_ARG_COUNT]) {
    ls_kernel *k;
    ls_queue *queue;
    ls_buffer buffers[LS_ARG_COUNT];
    ls_span spans[LS_ARG_COUNT] = {0};
    assert_int_equal(ls_kernel_create(device, spec, &k), LS_OK);
    assert_int_equal(ls_queue_create(device, &queue), LS_OK);
    void *scratch = malloc((size_t)k->scratch_bytes + 1);
    for (int i = 0; i < LS_ARG_COUNT; i++) {
        buffers[i] = (ls_buffer){.device = device, .memory = i == LS_ARG_SCRATCH ? scratch : args[i], .borrowed = 1};
        if (buffers[i].memory) spans[i].buffer = &buffers[i];
        if (k->layout[i] && !args[i]) fail_msg("%s uses argument %d, which is not there", op_describe(spec), i);
    }
    assert_int_equal(ls_kernel_run(k, queue, spans), LS_OK);
    assert_int_equal(ls_synchronize(queue), LS_OK);
    free(scratch);
    ls_queue_destroy(&queue);
    ls_kernel_destroy(&k);
    assert_null(k);
}

// Worked by hand: what gradients alone cannot show, since forward and backward share their geometry.
static void forward_values(void **state) {
    ls_conv2d_attrs conv = {.filters = 1, .kernel = {1, 2}, .padding = LS_PADDING_SAME, .no_bias = 1};
    op_case c = {.op = LS_OP_CONV2D, .attrs = &conv, .x = SAMPLE(1, 4, 1)};
    float x[] = {1, 2, 3, 4}, w[] = {10, 1}, y[4];
    ls_kernel_spec spec = spec_of(c);
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_W] = w, [LS_ARG_Y] = y});
    assert_memory_equal(y, ((float[]){12, 23, 34, 40}), sizeof y);
    conv.strides[0] = 1, conv.strides[1] = 2;
    spec = spec_of(c);
    assert_true(ls_shape_equal(spec.y[0].shape, LS_SHAPE(1, 1, 2, 1)));
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_W] = w, [LS_ARG_Y] = y});
    assert_memory_equal(y, ((float[]){12, 34}), 2 * sizeof *y);
    // Two channels in, two out, on one pixel: w is (1, 1, in, out).
    spec = spec_of((op_case){
        .op = LS_OP_CONV2D, .attrs = &(ls_conv2d_attrs){.filters = 2, .kernel = {1, 1}}, .x = SAMPLE(1, 1, 2)});
    run(&spec,
        (void *[LS_ARG_COUNT]){
            [LS_ARG_X] = x, [LS_ARG_W] = (float[]){1, 2, 3, 4}, [LS_ARG_W + 1] = (float[]){100, 200}, [LS_ARG_Y] = y});
    assert_memory_equal(y, ((float[]){107, 210}), 2 * sizeof *y);
    // 3x3 windows with padding on a 2x2 image: padding counts for neither the mean nor the maximum.
    c = (op_case){.op = LS_OP_AVERAGE_POOL2D,
                  .attrs = &(ls_pool2d_attrs){.size = {3, 3}, .strides = {1, 1}, .padding = LS_PADDING_SAME},
                  .x = SAMPLE(2, 2, 1)};
    spec = spec_of(c);
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_Y] = y});
    assert_memory_equal(y, ((float[]){2.5f, 2.5f, 2.5f, 2.5f}), sizeof y);
    c.op = LS_OP_MAX_POOL2D;
    spec = spec_of(c);
    int32_t workspace[4];
    run(&spec,
        (void *[LS_ARG_COUNT]){[LS_ARG_X] = (float[]){-1, -2, -3, -4}, [LS_ARG_Y] = y, [LS_ARG_WORKSPACE] = workspace});
    assert_memory_equal(y, ((float[]){-1, -1, -1, -1}), sizeof y);
}

static void fused_relu_and_masked_gradient(void **state) {
    ls_kernel_spec spec = spec_of((op_case){.op = LS_OP_DENSE,
                                            .batch = 2,
                                            .x = SAMPLE(2),
                                            .attrs = &(ls_dense_attrs){.units = 2, .activation = LS_ACTIVATION_RELU}});
    float x[] = {1, 0, -1, 2}, w[] = {1, -2, 3, 4}, b[] = {0.5f, 1}, y[4], dy[] = {1, 2, 3, 4}, dx[4];
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_W] = w, [LS_ARG_W + 1] = b, [LS_ARG_Y] = y});
    const float y_expected[] = {1.5f, 0, 5.5f, 11};  // the second is -1 before the ReLU
    assert_memory_equal(y, y_expected, sizeof y);
    spec.pass = LS_PASS_BACKWARD_DATA;
    spec.mask_dx = 1;
    run(&spec,
        (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_W] = w, [LS_ARG_W + 1] = b, [LS_ARG_DY] = dy, [LS_ARG_DX] = dx});
    const float dx_expected[] = {1 - 4, 0, 0, 9 + 16};  // nothing where x is 0 or less
    assert_memory_equal(dx, dx_expected, sizeof dx);
}

// Worked by hand: two samples of two pixels and two channels. Channel 0 holds 1, 3, 5, 7: mean 4, variance 5; channel 1 is
// 2 throughout.
static void normalized_values(void **state) {
    ls_kernel_spec spec = spec_of((op_case){.op = LS_OP_BATCH_NORM, .batch = 2, .x = SAMPLE(1, 2, 2)});
    ((ls_batch_norm_attrs *)(void *)spec.attrs.bytes)->epsilon = 4;
    float x[] = {1, 2, 3, 2, 5, 2, 7, 2}, gamma[] = {6, 9}, beta[] = {1, -1}, y[8];
    void *args[LS_ARG_COUNT] = {[LS_ARG_X] = x, [LS_ARG_W] = gamma, [LS_ARG_W + 1] = beta, [LS_ARG_Y] = y};
    run(&spec, args);
    assert_memory_equal(y, ((float[]){-5, -1, -1, -1, 3, -1, 7, -1}), sizeof y);
    spec.residual = 1;
    spec.activation = LS_ACTIVATION_RELU;
    float residual[] = {5, 1, 2, 0, -3, 2, 0, 3};
    args[LS_ARG_RESIDUAL] = residual;
    run(&spec, args);
    assert_memory_equal(y, ((float[]){0, 0, 1, 0, 0, 1, 7, 2}), sizeof y);
    spec.pass = LS_PASS_BACKWARD;
    float dy[] = {1, 2, 3, 4, 5, 6, 7, 8}, dx[8], dresidual[8], dgamma[2], dbeta[2], dmean[2], dvariance[2];
    args[LS_ARG_DY] = dy, args[LS_ARG_DX] = dx, args[LS_ARG_DRESIDUAL] = dresidual, args[LS_ARG_DW] = dgamma;
    args[LS_ARG_DW + 1] = dbeta, args[LS_ARG_DW + 2] = dmean, args[LS_ARG_DW + 3] = dvariance;
    run(&spec, args);
    assert_memory_equal(dresidual, ((float[]){0, 0, 3, 0, 0, 6, 7, 8}), sizeof dresidual);
    assert_memory_equal(dbeta, ((float[]){10, 14}), sizeof dbeta);
    assert_memory_equal(dgamma, ((float[]){6, 0}), sizeof dgamma);  // 3 * (3 - 4) / 3 + 7 * (7 - 4) / 3
    assert_memory_equal(dmean, ((float[]){8, 4}), sizeof dmean);    // two samples
    assert_memory_equal(dvariance, ((float[]){10, 0}), sizeof dvariance);
    // Inference uses what it is given: (x - 1) / 4.
    spec.pass = LS_PASS_INFERENCE;
    spec.residual = 0;
    spec.activation = LS_ACTIVATION_NONE;
    float mean[] = {1, 1}, variance[] = {12, 12};
    args[LS_ARG_W + 2] = mean, args[LS_ARG_W + 3] = variance;
    run(&spec, args);
    assert_memory_equal(y, ((float[]){1, 1.25f, 4, 1.25f, 7, 1.25f, 10, 1.25f}), sizeof y);
}

static void sums_and_padding(void **state) {
    ls_kernel_spec spec = spec_of((op_case){.op = LS_OP_ADD, .x = {{.shape = LS_SHAPE(3)}, {.shape = LS_SHAPE(3)}}});
    float x[] = {1, 2, 3}, x2[] = {10, -20, 30}, y[9];
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_X + 1] = x2, [LS_ARG_Y] = y});
    assert_memory_equal(y, ((float[]){11, -18, 33}), 3 * sizeof *y);
    // A convolution that only scales, with a residual before its ReLU.
    spec = spec_of(
        (op_case){.op = LS_OP_CONV2D,
                  .x = SAMPLE(1, 3, 1),
                  .residual = 1,
                  .attrs = &(ls_conv2d_attrs){.filters = 1, .kernel = {1, 1}, .activation = LS_ACTIVATION_RELU}});
    float w[] = {2}, b[] = {1};
    run(&spec, (void *[LS_ARG_COUNT]){
                   [LS_ARG_X] = x, [LS_ARG_RESIDUAL] = x2, [LS_ARG_W] = w, [LS_ARG_W + 1] = b, [LS_ARG_Y] = y});
    assert_memory_equal(y, ((float[]){13, 0, 37}), 3 * sizeof *y);
    spec = spec_of((op_case){
        .op = LS_OP_ZERO_PAD2D, .x = SAMPLE(1, 3, 1), .attrs = &(ls_zero_pad2d_attrs){.padding = {{1, 0}, {1, 0}}}});
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_Y] = y});
    assert_memory_equal(y, ((float[]){0, 0, 0, 0, 0, 1, 2, 3}), 8 * sizeof *y);
    spec = spec_of((op_case){
        .op = LS_OP_CROPPING2D, .x = SAMPLE(1, 3, 1), .attrs = &(ls_cropping2d_attrs){.cropping = {{0, 0}, {1, 0}}}});
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_Y] = y});
    assert_memory_equal(y, ((float[]){2, 3}), 2 * sizeof *y);
    // Maxima over images of negative numbers within zeros: only the window without padding sees them.
    spec = spec_of((op_case){.op = LS_OP_MAX_POOL2D,
                             .x = SAMPLE(1, 3, 1),
                             .sides = {{0, 0}, {1, 1}},
                             .attrs = &(ls_pool2d_attrs){.size = {1, 2}, .strides = {1, 1}}});
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
    op_case c = {.op = LS_OP_DENSE, .x = SAMPLE(2), .attrs = &(ls_dense_attrs){.units = 1, .no_bias = 1}};
    ls_kernel_spec spec = op_spec_of(&c, LS_DTYPE_BF16).kernel;
    ls_bf16 x[] = {ls_float_to_bf16(1), ls_float_to_bf16(0x1p-8f)}, w[] = {ls_float_to_bf16(1), ls_float_to_bf16(3)}, y;
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_W] = w, [LS_ARG_Y] = &y});
    assert_int_equal(y, ls_float_to_bf16(1 + 3 * 0x1p-8f));
    c.wide = 1;
    spec = op_spec_of(&c, LS_DTYPE_BF16).kernel;
    float y32;
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_W] = w, [LS_ARG_Y] = &y32});
    assert_true(y32 == 1 + 3 * 0x1p-8f);
    assert_int_equal(device->ops->supports(device, LS_DTYPE_I32), LS_STATUS_UNSUPPORTED);
}

static void the_first_of_equal_maxima_wins(void **state) {
    ls_kernel_spec spec = spec_of((op_case){.op = LS_OP_MAX_POOL2D, .x = SAMPLE(2, 2, 1)});
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
    uint64_t key[] = {1, 2, 10, 11, 12}, moved[] = {1, 2, 12, 10, 11};  // seed, epoch, samples
    ls_kernel_spec spec = spec_of(
        (op_case){.op = LS_OP_DROPOUT, .batch = N, .x = SAMPLE(SIZE), .attrs = &(ls_dropout_attrs){.rate = 0.25f}});
    for (int i = 0; i < N * SIZE; i++) x[i] = 3;
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_Y] = y, [LS_ARG_RANDOM] = key});
    int dropped = 0;
    for (int i = 0; i < N * SIZE; i++) {
        assert_true(y[i] == 0 || y[i] == 4);
        dropped += y[i] == 0;
    }
    assert_true(abs(dropped - N * SIZE / 4) < 100);  // four standard deviations of 24
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_Y] = z, [LS_ARG_RANDOM] = moved});
    assert_memory_equal(z, y + 2 * SIZE, SIZE * sizeof *z);
    assert_memory_equal(z + SIZE, y, 2 * SIZE * sizeof *z);
    assert_memory_not_equal(y, y + SIZE, SIZE * sizeof *y);
    moved[1] = 3;
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_Y] = y, [LS_ARG_RANDOM] = moved});
    assert_memory_not_equal(y, z, SIZE * sizeof *y);
    spec.pass = LS_PASS_INFERENCE;
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_Y] = y});
    assert_memory_equal(x, y, sizeof x);
}

static void losses_and_accuracy(void **state) {
    op_case c = {.op = LS_OP_SOFTMAX_CROSS_ENTROPY, .batch = 3, .x = {{.shape = LS_SHAPE(2)}, {.dtype = LS_DTYPE_I32}}};
    ls_kernel_spec spec = op_spec_of(&c, LS_DTYPE_BF16).kernel;
    float x[] = {0, 0, 0, 0, 1000, -1000};  // the last would overflow a plain exp
    int32_t labels[] = {0, 1, 0};           // of equal logits the first wins: right, wrong
    double loss, correct;
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_X + 1] = labels, [LS_ARG_Y] = &loss});
    assert_true(fabs(loss - 2 * log(2)) < 1e-15);
    spec.pass = LS_PASS_BACKWARD_DATA;
    ls_bf16 dx[6];
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_X + 1] = labels, [LS_ARG_DX] = dx});
    const float expected[] = {-0.5f, 0.5f, 0.5f, -0.5f, 0, 0};
    for (int i = 0; i < 6; i++) assert_true(ls_bf16_to_float(dx[i]) == expected[i]);
    c.op = LS_OP_ACCURACY;
    spec = spec_of(c);
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_X + 1] = labels, [LS_ARG_Y] = &correct});
    assert_true(correct == 2);
    c.x[1] = c.x[0];
    spec = spec_of(c);
    float rows[] = {0.4f, 0.6f, 0.5f, 0.5f, 1, 0};  // of equal targets the first counts, too
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_X + 1] = rows, [LS_ARG_Y] = &correct});
    assert_true(correct == 2);
}

// Keras: CategoricalCrossentropy(from_logits=True, label_smoothing=S). The numbers are those of its formula in Python:
// t = one_hot * (1 - S) + S / 4; loss = sum(t * (log(sum(exp(x))) - x)); gradient = exp(x) / sum(exp(x)) - t.
static void smoothed_labels(void **state) {
    ls_loss_attrs attrs = {.label_smoothing = 0.1};
    op_case c = {.op = LS_OP_SOFTMAX_CROSS_ENTROPY,
                 .attrs = &attrs,
                 .batch = 2,
                 .x = {{.shape = LS_SHAPE(4)}, {.dtype = LS_DTYPE_I32}}};
    ls_kernel_spec spec = spec_of(c);
    float x[] = {1, -2, 0.5f, 3, -1, 0, 2, 0.25f}, dx[8];
    int32_t labels[] = {3, 1};
    double loss, plain;
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_X + 1] = labels, [LS_ARG_Y] = &loss});
    assert_true(fabs(loss - 2.71517627019043) < 1e-12);
    spec.pass = LS_PASS_BACKWARD_DATA;
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_X + 1] = labels, [LS_ARG_DX] = dx});
    const double expected[] = {0.08555375036, -0.01949585287, 0.04205423914, -0.1081121366,
                               0.01163787189, -0.8254079386,  0.7108913286,  0.1028787381};
    for (int i = 0; i < 8; i++) assert_true(fabs(dx[i] - expected[i]) < 1e-7);
    // Inference measures against the labels as they are; a weight is a factor.
    spec.pass = LS_PASS_INFERENCE;
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_X + 1] = labels, [LS_ARG_Y] = &loss});
    attrs = (ls_loss_attrs){.weight = 2.5};
    spec = spec_of(c);
    run(&spec, (void *[LS_ARG_COUNT]){[LS_ARG_X] = x, [LS_ARG_X + 1] = labels, [LS_ARG_Y] = &plain});
    assert_true(fabs(plain - 2.5 * loss) < 1e-14 && fabs(loss - 2.71517627019043) > 0.01);
}

static void reorder_converts(void **state) {
    const ls_layout *f32, *bf16, *again;
    ls_kernel *k;
    ls_queue *queue;
    assert_int_equal(device->ops->layout_plain(device, LS_SHAPE(2), LS_DTYPE_F32, 0, &f32), LS_OK);
    assert_int_equal(device->ops->layout_plain(device, LS_SHAPE(2), LS_DTYPE_BF16, 0, &bf16), LS_OK);
    assert_int_equal(device->ops->layout_plain(device, LS_SHAPE(2), LS_DTYPE_F32, 0, &again), LS_OK);
    assert_ptr_equal(f32, again);
    assert_int_equal(bf16->bytes, 4);
    assert_int_equal(device->ops->reorder_create(device, f32, bf16, &k), LS_OK);
    assert_int_equal(ls_queue_create(device, &queue), LS_OK);
    float x[] = {1.00390625f, -2};  // the first lies half way between two bf16 numbers
    ls_bf16 y[2];
    ls_buffer *from, *to;
    assert_int_equal(ls_buffer_wrap(device, x, sizeof x, &from), LS_OK);
    assert_int_equal(ls_buffer_wrap(device, y, sizeof y, &to), LS_OK);
    ls_span args[LS_ARG_COUNT] = {[LS_ARG_X] = {from, 0}, [LS_ARG_Y] = {to, 0}};
    assert_int_equal(ls_kernel_run(k, queue, args), LS_OK);
    assert_int_equal(y[0], 0x3F80);
    assert_int_equal(y[1], 0xC000);
    ls_buffer_destroy(&from), ls_buffer_destroy(&to);
    ls_queue_destroy(&queue);
    ls_kernel_destroy(&k);
}

static void refused(const ls_kernel_spec *spec, const char *sentence) {
    ls_kernel *k;
    assert_int_equal(ls_kernel_create(device, spec, &k), LS_STATUS_INTERNAL);
    assert_null(k);
    assert_string_equal(ls_error_message(), sentence);
}

static void unknown_devices_and_impossible_kernels(void **state) {
    ls_device *d;
    assert_int_equal(ls_device_create("gpu", NULL, &d), LS_STATUS_NOT_FOUND);
    assert_null(d);
    assert_string_equal(ls_error_message(), "there is no device named \"gpu\"; the devices are cpu, ref");
    assert_int_equal(ls_device_create("ref", &(ls_device_options){.threads = -1}, &d), LS_STATUS_INVALID_ARGUMENT);
    const ls_kernel_spec relu = spec_of((op_case){.op = LS_OP_RELU, .batch = 2, .x = SAMPLE(2)});
    ls_kernel_spec spec = relu;
    spec.pass = LS_PASS_BACKWARD_WEIGHTS;
    refused(&spec, "a relu has no pass 3 to compute");
    spec = spec_of((op_case){.op = LS_OP_ADD, .x = {{.shape = LS_SHAPE(2)}, {.shape = LS_SHAPE(2)}}});
    spec.pass = LS_PASS_BACKWARD_DATA;  // its inputs share its output's gradient
    refused(&spec, "a add has no pass 2 to compute");
    spec = relu;
    spec.op = LS_OP_INPUT;
    refused(&spec, "a kernel was asked for operation 0, which computes nothing");
    spec = relu;
    spec.x_count = 0;
    refused(&spec, "a relu kernel was asked for shapes it cannot have");
    spec = relu;
    spec.y[0].shape.dim[1] = 0;
    refused(&spec, "a relu kernel was asked for shapes it cannot have");
    spec = relu;
    assert_int_equal(device->ops->layout_plain(device, LS_SHAPE(2), LS_DTYPE_F32, 0, &spec.layout[LS_ARG_X]), LS_OK);
    refused(&spec, "a relu kernel was given a layout of another shape or dtype");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv2d),
        cmocka_unit_test(dense),
        cmocka_unit_test(volumes),
        cmocka_unit_test(pooling),
        cmocka_unit_test(pooling_of_padded_images),
        cmocka_unit_test(batch_norm),
        cmocka_unit_test(zero_padding),
        cmocka_unit_test(cropping),
        cmocka_unit_test(relu_and_flatten),
        cmocka_unit_test(dropout),
        cmocka_unit_test(softmax_cross_entropy),
        cmocka_unit_test(activations),
        cmocka_unit_test(multiply_by_channel),
        cmocka_unit_test(rescaling_and_normalization),
        cmocka_unit_test(samples_of_distributions),
        cmocka_unit_test(separable_conv2d),
        cmocka_unit_test(global_pooling_that_keeps_dimensions),
        cmocka_unit_test(concat_and_multiply),
        cmocka_unit_test(conv2d_with_groups_and_dilation),
        cmocka_unit_test(depthwise_conv2d),
        cmocka_unit_test(conv2d_transpose),
        cmocka_unit_test(up_sampling2d),
        cmocka_unit_test(layer_norm),
        cmocka_unit_test(group_norm),
        cmocka_unit_test(embedding),
        cmocka_unit_test(global_average_pool1d),
        cmocka_unit_test(position_embedding),
        cmocka_unit_test(attention),
        cmocka_unit_test(recurrent),
        cmocka_unit_test(losses_of_sequences),
        cmocka_unit_test(dense_of_sequences),
        cmocka_unit_test(reshape),
        cmocka_unit_test(forward_values),
        cmocka_unit_test(fused_relu_and_masked_gradient),
        cmocka_unit_test(normalized_values),
        cmocka_unit_test(sums_and_padding),
        cmocka_unit_test(bf16_is_rounded_once_at_the_edges),
        cmocka_unit_test(the_first_of_equal_maxima_wins),
        cmocka_unit_test(dropout_is_a_function_of_the_sample),
        cmocka_unit_test(losses_and_accuracy),
        cmocka_unit_test(smoothed_labels),
        cmocka_unit_test(reorder_converts),
        cmocka_unit_test(unknown_devices_and_impossible_kernels),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
