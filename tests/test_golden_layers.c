// Layers by themselves against Keras's numbers (tests/golden/layers.json): shapes, parameters, outputs and gradients of the reference's
// loops, which compute in double as those numbers do. tests/test_ops.c holds other devices to the reference.
#include <math.h>
#include <stdlib.h>

#include "golden_check.h"
#include "op_case.h"

#define SAMPLE(...)                                                                                                    \
    {                                                                                                                  \
        { .shape = LS_SHAPE(__VA_ARGS__) }                                                                             \
    }

// A sequence (T, C), and a mask of its steps.
#define MASKED(t, c)                                                                                                   \
    {{.shape = LS_SHAPE(t, c)}, {.shape = LS_SHAPE(t), .dtype = LS_DTYPE_I32}}, .x_count = 2, .below = 2

enum { BATCH = 2 };

// As CASES of make_layers.py.
static const struct {
    const char *name;
    op_case c;
} cases[] = {
    {"sigmoid",
     {.op = LS_OP_ACTIVATION, .x = SAMPLE(3, 5), .attrs = &(ls_activation_attrs){.activation = LS_ACTIVATION_SIGMOID}}},
    {"tanh",
     {.op = LS_OP_ACTIVATION, .x = SAMPLE(3, 5), .attrs = &(ls_activation_attrs){.activation = LS_ACTIVATION_TANH}}},
    {"softmax",
     {.op = LS_OP_ACTIVATION, .x = SAMPLE(3, 5), .attrs = &(ls_activation_attrs){.activation = LS_ACTIVATION_SOFTMAX}}},
    {"gelu",
     {.op = LS_OP_ACTIVATION, .x = SAMPLE(3, 5), .attrs = &(ls_activation_attrs){.activation = LS_ACTIVATION_GELU}}},
    {"silu",
     {.op = LS_OP_ACTIVATION, .x = SAMPLE(3, 5), .attrs = &(ls_activation_attrs){.activation = LS_ACTIVATION_SILU}}},
    {"concat",
     {.op = LS_OP_CONCAT,
      .x_count = 3,
      .x = {{.shape = LS_SHAPE(3, 2)}, {.shape = LS_SHAPE(3, 1)}, {.shape = LS_SHAPE(3, 4)}}}},
    {"concat axis 1",
     {.op = LS_OP_CONCAT,
      .x = {{.shape = LS_SHAPE(3, 2)}, {.shape = LS_SHAPE(1, 2)}},
      .attrs = &(ls_concat_attrs){.axis = 1}}},
    {"multiply", {.op = LS_OP_MULTIPLY, .x = {{.shape = LS_SHAPE(3, 2)}, {.shape = LS_SHAPE(3, 2)}}}},
    {"conv2d groups",
     {.op = LS_OP_CONV2D,
      .x = SAMPLE(5, 6, 4),
      .attrs = &(ls_conv2d_attrs){.filters = 6, .kernel = {3, 2}, .groups = 2, .strides = {2, 1}}}},
    {"conv2d dilation",
     {.op = LS_OP_CONV2D,
      .x = SAMPLE(6, 7, 2),
      .attrs = &(ls_conv2d_attrs){.filters = 3, .kernel = {3, 2}, .dilation = {2, 3}, .padding = LS_PADDING_SAME}}},
    {"depthwise_conv2d",
     {.op = LS_OP_DEPTHWISE_CONV2D,
      .x = SAMPLE(5, 4, 3),
      .attrs = &(ls_depthwise_conv2d_attrs){.kernel = {3, 2}, .multiplier = 2}}},
    {"depthwise_conv2d same",
     {.op = LS_OP_DEPTHWISE_CONV2D,
      .x = SAMPLE(6, 5, 3),
      .attrs =
          &(ls_depthwise_conv2d_attrs){.kernel = {3, 3}, .strides = {2, 2}, .padding = LS_PADDING_SAME, .no_bias = 1}}},
    {"conv2d_transpose",
     {.op = LS_OP_CONV2D_TRANSPOSE,
      .x = SAMPLE(3, 2, 2),
      .attrs = &(ls_conv2d_transpose_attrs){.filters = 3, .kernel = {3, 4}, .strides = {2, 3}}}},
    {"conv2d_transpose same",
     {.op = LS_OP_CONV2D_TRANSPOSE,
      .x = SAMPLE(3, 4, 2),
      .attrs =
          &(ls_conv2d_transpose_attrs){.filters = 3, .kernel = {4, 3}, .strides = {2, 2}, .padding = LS_PADDING_SAME}}},
    {"conv2d_transpose short",
     {.op = LS_OP_CONV2D_TRANSPOSE,
      .x = SAMPLE(3, 2, 2),
      .attrs = &(ls_conv2d_transpose_attrs){.filters = 2, .kernel = {1, 2}, .strides = {2, 3}}}},
    {"conv2d_transpose short same",
     {.op = LS_OP_CONV2D_TRANSPOSE,
      .x = SAMPLE(3, 2, 2),
      .attrs =
          &(ls_conv2d_transpose_attrs){.filters = 2, .kernel = {2, 1}, .strides = {3, 2}, .padding = LS_PADDING_SAME}}},
    {"up_sampling2d",
     {.op = LS_OP_UP_SAMPLING2D, .x = SAMPLE(2, 3, 2), .attrs = &(ls_up_sampling2d_attrs){.size = {2, 3}}}},
    {"layer_norm", {.op = LS_OP_LAYER_NORM, .x = SAMPLE(3, 5)}},
    {"embedding",
     {.op = LS_OP_EMBEDDING,
      .x = {{.shape = LS_SHAPE(4), .dtype = LS_DTYPE_I32}},
      .attrs = &(ls_embedding_attrs){.rows = 7, .width = 3}}},
    {"global_average_pool1d", {.op = LS_OP_GLOBAL_AVERAGE_POOL1D, .x = SAMPLE(4, 3)}},
    {"dense of sequences", {.op = LS_OP_DENSE, .x = SAMPLE(3, 5), .attrs = &(ls_dense_attrs){.units = 4}}},
    {"reshape", {.op = LS_OP_RESHAPE, .x = SAMPLE(2, 6), .attrs = &(ls_reshape_attrs){.shape = {3, -1, 2}}}},
    {"separable_conv2d",
     {.op = LS_OP_SEPARABLE_CONV2D,
      .x = SAMPLE(5, 4, 3),
      .attrs = &(ls_separable_conv2d_attrs){.filters = 4, .kernel = {3, 2}, .multiplier = 2}}},
    {"separable_conv2d same",
     {.op = LS_OP_SEPARABLE_CONV2D,
      .x = SAMPLE(6, 5, 3),
      .attrs =
          &(ls_separable_conv2d_attrs){
              .filters = 2, .kernel = {3, 3}, .strides = {2, 2}, .padding = LS_PADDING_SAME, .no_bias = 1}}},
    {"multiply by channel", {.op = LS_OP_MULTIPLY, .x = {{.shape = LS_SHAPE(2, 3, 2)}, {.shape = LS_SHAPE(1, 1, 2)}}}},
    {"rescaling",
     {.op = LS_OP_RESCALING, .x = SAMPLE(3, 5), .attrs = &(ls_rescaling_attrs){.scale = -0.3, .offset = 2}}},
    {"global_average_pool2d keepdims",
     {.op = LS_OP_GLOBAL_AVERAGE_POOL2D, .x = SAMPLE(3, 2, 4), .attrs = &(ls_pool2d_attrs){.keepdims = 1}}},
    {"global_average_pool1d masked", {.op = LS_OP_GLOBAL_AVERAGE_POOL1D, .x = MASKED(4, 3)}},
    {"lstm", {.op = LS_OP_LSTM, .x = SAMPLE(4, 2), .attrs = &(ls_recurrent_attrs){.units = 3}}},
    {"lstm sequences masked",
     {.op = LS_OP_LSTM, .x = MASKED(5, 2), .attrs = &(ls_recurrent_attrs){.units = 3, .return_sequences = 1}}},
    {"lstm backwards",
     {.op = LS_OP_LSTM,
      .x = SAMPLE(4, 3),
      .attrs = &(ls_recurrent_attrs){.units = 2, .return_sequences = 1, .backwards = 1}}},
    {"gru", {.op = LS_OP_GRU, .x = SAMPLE(4, 2), .attrs = &(ls_recurrent_attrs){.units = 3}}},
    {"gru sequences masked",
     {.op = LS_OP_GRU, .x = MASKED(5, 2), .attrs = &(ls_recurrent_attrs){.units = 3, .return_sequences = 1}}},
    {"gru backwards masked",
     {.op = LS_OP_GRU, .x = MASKED(4, 3), .attrs = &(ls_recurrent_attrs){.units = 2, .backwards = 1}}},
    {"attention", {.op = LS_OP_ATTENTION, .x = SAMPLE(4, 12), .attrs = &(ls_attention_attrs){.heads = 2}}},
    {"attention causal",
     {.op = LS_OP_ATTENTION, .x = SAMPLE(5, 9), .attrs = &(ls_attention_attrs){.heads = 1, .causal = 1}}},
    {"attention masked", {.op = LS_OP_ATTENTION, .x = MASKED(6, 12), .attrs = &(ls_attention_attrs){.heads = 2}}},
    {"conv3d",
     {.op = LS_OP_CONV3D,
      .x = SAMPLE(3, 4, 5, 2),
      .attrs = &(ls_conv3d_attrs){.filters = 3, .kernel = {2, 3, 2}, .dilation = {1, 1, 2}}}},
    {"conv3d same",
     {.op = LS_OP_CONV3D,
      .x = SAMPLE(4, 3, 5, 2),
      .attrs =
          &(ls_conv3d_attrs){
              .filters = 2, .kernel = {3, 2, 3}, .strides = {2, 1, 2}, .padding = LS_PADDING_SAME, .no_bias = 1}}},
    {"conv3d_transpose",
     {.op = LS_OP_CONV3D_TRANSPOSE,
      .x = SAMPLE(2, 3, 2, 2),
      .attrs = &(ls_conv3d_transpose_attrs){.filters = 2, .kernel = {2, 3, 4}, .strides = {1, 2, 3}}}},
    {"conv3d_transpose same",
     {.op = LS_OP_CONV3D_TRANSPOSE,
      .x = SAMPLE(2, 2, 3, 2),
      .attrs =
          &(ls_conv3d_transpose_attrs){
              .filters = 2, .kernel = {3, 4, 1}, .strides = {2, 2, 2}, .padding = LS_PADDING_SAME}}},
    {"max_pool3d same",
     {.op = LS_OP_MAX_POOL3D,
      .x = SAMPLE(3, 4, 3, 2),
      .attrs = &(ls_pool3d_attrs){.size = {2, 3, 2}, .strides = {1, 2, 2}, .padding = LS_PADDING_SAME}}},
    {"average_pool3d same",
     {.op = LS_OP_AVERAGE_POOL3D,
      .x = SAMPLE(3, 4, 3, 2),
      .attrs = &(ls_pool3d_attrs){.size = {2, 3, 2}, .strides = {1, 2, 2}, .padding = LS_PADDING_SAME}}},
    {"group_norm", {.op = LS_OP_GROUP_NORM, .x = SAMPLE(3, 2, 6), .attrs = &(ls_group_norm_attrs){.groups = 2}}},
    {"group_norm of instances",
     {.op = LS_OP_GROUP_NORM, .x = SAMPLE(5, 3), .attrs = &(ls_group_norm_attrs){.groups = -1, .epsilon = 0.01f}}},
    {"cropping2d",
     {.op = LS_OP_CROPPING2D, .x = SAMPLE(5, 4, 2), .attrs = &(ls_cropping2d_attrs){.cropping = {{1, 2}, {0, 1}}}}},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static double *new_draws(ls_shape shape, uint32_t stream, int index) {
    int64_t count = ls_shape_count(shape);
    double *values = calloc((size_t)count, sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++) values[i] = draw_signed(stream, (uint32_t)index, i);
    return values;
}

static void compare(const json_t *golden, const char *what, const double *found, ls_shape shape,
                    const json_t *expected) {
    const char *name = json_string_value(member(golden, "name"));
    double tolerance = number(golden, "tolerance");
    assert_int_equal(json_array_size(expected), ls_shape_count(shape));
    for (int64_t i = 0; i < ls_shape_count(shape); i++) {
        double theirs = element(expected, (size_t)i);
        if (!(fabs(found[i] - theirs) <= tolerance * (1 + fabs(theirs))))
            fail_msg("%s: %s %lld is %.12g, of Keras %.12g", name, what, (long long)i, found[i], theirs);
    }
}

static void check_case(int index, const json_t *golden) {
    op_case c = cases[index].c;
    c.batch = BATCH;
    op_spec of = op_spec_of(&c, LS_DTYPE_F32);
    ls_kernel_spec spec = of.kernel;
    const ls_ref_op *op = ls__ref_op_find(spec.op);
    ls_ref_args a = {.spec = &spec};
    ls_pass passes[3];
    const json_t *parameters = member(golden, "parameters"), *dx = member(golden, "dx"), *dw = member(golden, "dw");
    assert_string_equal(json_string_value(member(golden, "name")), cases[index].name);
    ls_shape sample = {.ndim = spec.y[0].shape.ndim - 1};
    for (int d = 0; d < sample.ndim; d++) sample.dim[d] = spec.y[0].shape.dim[d + 1];
    check_shape(sample, member(golden, "shape"));
    assert_int_equal(json_array_size(parameters), spec.w_count);
    for (int k = 0; k < spec.x_count; k++) {
        a.x[k] = new_draws(spec.x[k].shape, (uint32_t)k, index);
        a.dx[k] = new_draws(spec.x[k].shape, 99, index);
        for (int64_t i = 0; i < ls_shape_count(spec.x[k].shape) && spec.x[k].dtype == LS_DTYPE_I32; i++)
            a.x[k][i] = draw((uint32_t)k, (uint32_t)index, i) % (uint32_t)of.below;
    }
    for (int k = 0; k < spec.w_count; k++) {
        check_shape(spec.w[k].shape, member(json_array_get(parameters, (size_t)k), "shape"));
        a.w[k] = new_draws(spec.w[k].shape, 16 + (uint32_t)k, index);
        a.dw[k] = new_draws(spec.w[k].shape, 99, index);
    }
    if (op->scratch) a.scratch = calloc((size_t)op->scratch(&spec), sizeof *a.scratch);
    assert_true(!op->scratch || a.scratch);
    a.workspace = calloc((size_t)ls_shape_count(spec.y[0].shape), sizeof *a.workspace);
    assert_non_null(a.workspace);
    a.y[0] = new_draws(spec.y[0].shape, 99, index);
    a.dy[0] = new_draws(spec.y[0].shape, 32, index);
    ls__ref_compute(op, &a);
    compare(golden, "output", a.y[0], spec.y[0].shape, member(golden, "y"));
    int count = op_backward_passes(&spec, passes);
    for (int i = 0; i < count; i++) {
        spec.pass = passes[i];
        ls__ref_compute(op, &a);
    }
    for (size_t k = 0; k < json_array_size(dx); k++)
        compare(golden, "gradient of input", a.dx[k], spec.x[k].shape, json_array_get(dx, k));
    for (size_t k = 0; k < json_array_size(dw); k++)
        compare(golden, "gradient of parameter", a.dw[k], spec.w[k].shape, json_array_get(dw, k));
    for (int k = 0; k < LS_MAX_INPUTS; k++) free(a.x[k]), free(a.dx[k]);
    for (int k = 0; k < LS_MAX_PARAMS; k++) free(a.w[k]), free(a.dw[k]);
    free(a.y[0]), free(a.dy[0]), free(a.scratch), free(a.workspace);
}

static void layers_are_those_of_keras(void **state) {
    json_t *golden = golden_load("layers");
    const json_t *list = member(golden, "cases");
    assert_int_equal(json_array_size(list), CASES);
    for (int i = 0; i < CASES; i++) check_case(i, json_array_get(list, (size_t)i));
    json_decref(golden);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers_are_those_of_keras)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
