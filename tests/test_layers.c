// Layers that are built of what they were not made for: what the graph refuses, activations that are part of a layer, and whole networks
// on device "cpu" against the reference. (tests/test_ops.c has each operation by itself, tests/test_ref_gradients.c its gradients.)
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "graph/graph.h"
#include "graph/runner.h"
#include "ok.h"

// --- layers that do not fit -----------------------------------------------------------------------------------------

// That adding a layer to the graph g fails with the sentence. INPUT(...) is an input of g.
#define INPUT(...)    ls_graph_add_input(g, NULL, LS_SHAPE(__VA_ARGS__), LS_DTYPE_F32)
#define WHOLE_NUMBERS ls_graph_add_input(g, NULL, LS_SHAPE(2, 3), LS_DTYPE_I32)
#define REFUSED(sentence, layer)                                                                                       \
    do {                                                                                                               \
        ls_graph *g;                                                                                                   \
        OK(ls_graph_create_empty("net", NULL, &g));                                                                    \
        assert_int_equal(layer, LS_NO_VALUE);                                                                          \
        assert_string_equal(ls_error_message(), sentence);                                                             \
        ls_graph_destroy(&g);                                                                                          \
    } while (0)

static void losses_are_ends(void **state) {
    REFUSED(
        "a ReLU layer was given mean_squared_error as its input, and no layer computes with a loss or a metric: its "
        "value is what training and evaluation tell",
        ls_relu(g, ls_mean_squared_error(g, INPUT(2, 3), INPUT(2, 3), NULL), NULL));
    ls_graph *g;
    OK(ls_graph_create("net", LS_SHAPE(3), &g));
    ls_value loss = ls_mean_squared_error(g, ls_relu(g, ls_graph_input(g), NULL), ls_graph_input(g), NULL);
    assert_int_equal(ls_graph_add_output(g, loss, NULL), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(ls_error_message(), "net: mean_squared_error was given as the output"));
    ls_graph_destroy(&g);
}

static void refusals_of_distributions(void **state) {
    REFUSED(
        "sampling: it takes C means and behind them C log variances, (None, ..., 2 C), and noise (None, ..., C), and "
        "was "
        "given (None, 7) and (None, 3)",
        ls_normal_sample(g, INPUT(7), INPUT(3), NULL));
    REFUSED(
        "sampling: it takes C means and behind them C log variances, (None, ..., 2 C), and noise (None, ..., C), and "
        "was "
        "given (None, 2, 6) and (None, 3)",
        ls_normal_sample(g, INPUT(2, 6), INPUT(3), NULL));
    REFUSED("sampling: only floating values are drawn, not whole numbers",
            ls_normal_sample(g, INPUT(2, 6), WHOLE_NUMBERS, NULL));
    REFUSED(
        "normal_divergence: it takes C means and behind them C log variances, (None, ..., 2 C) of fp32, and was given "
        "(None, 7) of fp32",
        ls_normal_divergence(g, INPUT(7), NULL));
    REFUSED(
        "normal_divergence: it takes C means and behind them C log variances, (None, ..., 2 C) of fp32, and was given "
        "(None, 2, 3) of i32",
        ls_normal_divergence(g, WHOLE_NUMBERS, NULL));
    REFUSED("normal_divergence: a NormalDivergence layer has no label_smoothing, but 0.1 was asked for",
            ls_normal_divergence(g, INPUT(6), &(ls_loss_attrs){.label_smoothing = 0.1}));
}

static void refusals_of_multiply(void **state) {
    REFUSED(
        "multiply: only values of one shape can be multiplied, or the second has one value for each channel of the "
        "first, and not (None, 2, 3) and (None, 2, 1)",
        ls_multiply(g, INPUT(2, 3), INPUT(2, 1), NULL));
    REFUSED(
        "multiply: only values of one shape can be multiplied, or the second has one value for each channel of the "
        "first, and not (None, 1, 1, 3) and (None, 2, 2, 3)",
        ls_multiply(g, INPUT(1, 1, 3), INPUT(2, 2, 3), NULL));
}

static void refusals_of_what_images_go_through_first(void **state) {
    REFUSED("rescaling: only floating values are rescaled, not whole numbers", ls_rescaling(g, WHOLE_NUMBERS, NULL));
    REFUSED("rescaling: scale of a Rescaling layer lies between -1e+30 and 1e+30, but inf was asked for",
            ls_rescaling(g, INPUT(2, 3), &(ls_rescaling_attrs){.scale = INFINITY}));
    REFUSED("normalization: channels of floating values are normalized, not whole numbers, and not a single number",
            ls_normalize(g, WHOLE_NUMBERS, NULL));
}

static void refusals_of_separable_conv2d(void **state) {
    REFUSED("separable_conv2d: a convolution has at least 1 filter, but 0 were asked for",
            ls_separable_conv2d(g, INPUT(4, 4, 2), &(ls_separable_conv2d_attrs){.kernel = {3, 3}}));
    REFUSED(
        "separable_conv2d: a SeparableConv2D layer works on images (None, H, W, C), but its input has shape (None, 4)",
        ls_separable_conv2d(g, INPUT(4), &(ls_separable_conv2d_attrs){.filters = 2, .kernel = {3, 3}}));
    REFUSED("separable_conv2d: depth_multiplier of a SeparableConv2D layer is at least 1, but -1 was asked for",
            ls_separable_conv2d(g, INPUT(4, 4, 2),
                                &(ls_separable_conv2d_attrs){.filters = 2, .kernel = {3, 3}, .multiplier = -1}));
    REFUSED("separable_conv2d: 2000000 channels times 2000 are too many",
            ls_separable_conv2d(g, INPUT(4, 4, 2000000),
                                &(ls_separable_conv2d_attrs){.filters = 2, .kernel = {3, 3}, .multiplier = 2000}));
}

static void refusals_of_volumes(void **state) {
    REFUSED(
        "conv3d: a Conv3D layer works on volumes or clips (None, D, H, W, C), but its input has shape (None, 4, 4, 2)",
        ls_conv3d(g, INPUT(4, 4, 2), &(ls_conv3d_attrs){.filters = 2, .kernel = {3, 3, 3}}));
    REFUSED("conv3d: filters of a Conv3D layer is at least 1, but 0 was asked for",
            ls_conv3d(g, INPUT(4, 4, 4, 2), &(ls_conv3d_attrs){.kernel = {3, 3, 3}}));
    REFUSED("conv3d: kernel_size of a Conv3D layer lies between 1 and 1024, but 0 was asked for",
            ls_conv3d(g, INPUT(4, 4, 4, 2), &(ls_conv3d_attrs){.filters = 2, .kernel = {3, 3}}));
    REFUSED("conv3d: a 3x5x3 valid kernel does not fit its 4x4x4 input; use padding same or drop a layer",
            ls_conv3d(g, INPUT(4, 4, 4, 2), &(ls_conv3d_attrs){.filters = 2, .kernel = {3, 5, 3}}));
    REFUSED(
        "conv3d_transpose: a Conv3DTranspose layer works on volumes or clips (None, D, H, W, C), but its input has "
        "shape (None, 4)",
        ls_conv3d_transpose(g, INPUT(4), &(ls_conv3d_transpose_attrs){.filters = 2, .kernel = {3, 3, 3}}));
    REFUSED(
        "conv3d_transpose: strides of a Conv3DTranspose layer lies between 1 and 1024, but 2000 was asked for",
        ls_conv3d_transpose(g, INPUT(4, 4, 4, 2),
                            &(ls_conv3d_transpose_attrs){.filters = 2, .kernel = {3, 3, 3}, .strides = {1, 1, 2000}}));
    REFUSED(
        "max_pooling3d: the sides and strides of its window are at least 1, but a 2x2x2 window with strides 0x2x2 was "
        "asked for",
        ls_max_pool3d(g, INPUT(4, 4, 4, 2), &(ls_pool3d_attrs){.strides = {0, 2, 2}}));
    REFUSED(
        "average_pooling3d: a AveragePooling3D layer works on volumes or clips (None, D, H, W, C), but its input has "
        "shape (None, 4, 4, 2)",
        ls_average_pool3d(g, INPUT(4, 4, 2), NULL));
}

static void refusals_of_concat(void **state) {
    REFUSED("concatenate: values of shape (None, 2, 3) cannot be put together along axis 3",
            ls_concat(g, (ls_value[]){INPUT(2, 3), INPUT(2, 3)}, 2, &(ls_concat_attrs){.axis = 3}));
    REFUSED("concatenate: values of shape (None, 2, 3) cannot be put together along axis -3",
            ls_concat(g, (ls_value[]){INPUT(2, 3), INPUT(2, 3)}, 2, &(ls_concat_attrs){.axis = -3}));
    REFUSED(
        "concatenate: values that are put together along axis 2 have the same shape in the others, but (None, 2, 3) "
        "and "
        "(None, 1, 3) were given",
        ls_concat(g, (ls_value[]){INPUT(2, 3), INPUT(1, 3)}, 2, NULL));
    REFUSED(
        "concatenate: only values of one type can be put together, not fp32 and i32",
        ls_concat(g, (ls_value[]){INPUT(2, 3), ls_graph_add_input(g, NULL, LS_SHAPE(2, 3), LS_DTYPE_I32)}, 2, NULL));
    REFUSED("a Concatenate layer has 2 to 16 inputs, but 1 were given",
            ls_concat(g, (ls_value[]){INPUT(2, 3)}, 1, NULL));
}

// --- activations inside layers ---------------------------------------------------------------------------------------

static void activations_inside_layers(void **state) {
    ls_graph *g;
    char *text;
    OK(ls_graph_create("net", LS_SHAPE(4, 4, 2), &g));
    ls_value x = ls_conv2d(g, ls_graph_input(g),
                           &(ls_conv2d_attrs){.filters = 3, .kernel = {3, 3}, .activation = LS_ACTIVATION_TANH});
    x = ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 3, .kernel = {1, 1}, .activation = LS_ACTIVATION_RELU});
    x = ls_flatten(g, x, NULL);
    x = ls_dense(g, x, &(ls_dense_attrs){.units = 4, .activation = LS_ACTIVATION_SOFTMAX});
    OK(ls_graph_finish(g, x));
    assert_int_equal(g->node_count, 7);
    assert_string_equal(g->nodes[2].name, "conv2d");
    assert_true(g->nodes[2].inside && g->nodes[6].inside && !g->nodes[3].inside);
    assert_string_equal(ls_graph_output_at(g, 0).name, "dense");
    OK(ls_graph_summary(g, &text));
    assert_non_null(strstr(text, "dense (Dense)"));
    assert_null(strstr(text, "ctivation"));
    free(text);
    ls_graph_destroy(&g);
}

static void activations_end_no_logits(void **state) {
    for (int a = LS_ACTIVATION_RELU; a <= LS_ACTIVATION_RELU6; a++)
        for (int own = 0; own < 2; own++) {
            ls_graph *g;
            OK(ls_graph_create("net", LS_SHAPE(4), &g));
            ls_dense_attrs attrs = {.units = 3, .activation = own ? LS_ACTIVATION_NONE : (ls_activation)a};
            ls_value label = ls_graph_add_input(g, "label", (ls_shape){0}, LS_DTYPE_I32);
            ls_value x = ls_dense(g, ls_graph_input(g), &attrs);
            if (own) x = ls_activate(g, x, (ls_activation)a, "end");
            ls_softmax_cross_entropy(g, x, label, NULL);
            assert_int_equal(ls_graph_finish(g, LS_NO_VALUE), LS_STATUS_INVALID_ARGUMENT);
            char sentence[128];
            snprintf(sentence, sizeof sentence,
                     "model net ends in layer %s: the last layer must give logits, without an activation",
                     own ? "end" : "dense");
            assert_string_equal(ls_error_message(), sentence);
            ls_graph_destroy(&g);
        }
}

// --- networks --------------------------------------------------------------------------------------------------------

// A network with a softmax cross-entropy of 4 classes at its end; gradients of all its parameters on both devices.
typedef ls_value (*build_fn)(ls_graph *g);

enum { BATCH = 5, CLASSES = 4 };

static ls_graph *new_network(build_fn build) {
    ls_graph *g;
    OK(ls_graph_create_empty("net", NULL, &g));
    ls_value x = build(g);
    ls_value label = ls_graph_add_input(g, "label", (ls_shape){0}, LS_DTYPE_I32);
    ls_softmax_cross_entropy(g, x, label, NULL);
    OK(ls_graph_finish(g, x));
    return g;
}

static void fill_input(ls_runner *r, int index, int below) {
    ls_port port = ls_graph_input_at(r->graph, index);
    int64_t count = ls_shape_count(port.shape) * BATCH;
    float *values = malloc((size_t)count * sizeof *values);
    int32_t *whole = malloc((size_t)count * sizeof *whole);
    for (int64_t i = 0; i < count; i++) {
        uint32_t word = ls_philox(7, (uint32_t)i, (uint32_t)index, 0, 0).v[0];
        values[i] = (float)(word >> 24) / 128 - 1;
        whole[i] = (int32_t)(word % (uint32_t)below);
    }
    OK(ls_runner_write(r, index, port.dtype == LS_DTYPE_I32 ? (const void *)whole : values));
    free(values);
    free(whole);
}

// Losses and gradients of a step, one parameter after the other; the caller frees them.
static float *step_of(const ls_graph *g, const char *device, ls_dtype precision, ls_remat remat, double *loss,
                      int64_t *count) {
    ls_device *d;
    ls_runner *r;
    ls_plan_config config = {.batch = BATCH, .precision = precision, .mode = LS_PLAN_TRAINING, .remat = remat};
    OK(ls_device_create(device, NULL, &d));
    OK(ls_runner_create(g, d, &config, NULL, &r));
    OK(ls_runner_initialize(r, 3));
    for (int i = 0; i < ls_graph_input_count(g); i++) fill_input(r, i, CLASSES);
    OK(ls_runner_forward(r, loss));
    OK(ls_runner_backward(r));
    float *gradient = NULL;
    *count = 0;
    for (int i = 0; i < ls_store_count(g->store); i++) {
        int64_t n = ls_shape_count(ls_store_parameter(g->store, i).shape);
        gradient = realloc(gradient, (size_t)(*count + n) * sizeof *gradient);
        assert_non_null(gradient);
        memset(gradient + *count, 0, (size_t)n * sizeof *gradient);
        if (!ls_store_parameter(g->store, i).frozen) OK(ls_runner_get(r, i, r->gradient, gradient + *count));
        *count += n;
    }
    ls_runner_destroy(&r);
    ls_device_destroy(&d);
    return gradient;
}

static double distance(const float *a, const float *b, int64_t count) {
    double difference = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    assert_true(size > 0);
    return sqrt(difference / size);
}

// Of the parameter whose gradients are farthest apart.
static double farthest(const ls_graph *g, const float *a, const float *b) {
    double most = 0;
    for (int64_t i = 0, at = 0, n; i < ls_store_count(g->store); i++, at += n) {
        n = ls_shape_count(ls_store_parameter(g->store, (int)i).shape);
        if (!ls_store_parameter(g->store, (int)i).frozen) most = fmax(most, distance(a + at, b + at, n));
    }
    return most;
}

// In fp32 all sums are short. In bf16 every tensor between two layers is rounded to 2^-9 of itself, on both devices, but not the same
// way where they sum differently.
static void check_network(build_fn build) {
    ls_graph *g = new_network(build);
    ls_device *cpu;
    OK(ls_device_create("cpu", NULL, &cpu));
    int precisions = cpu->ops->supports(cpu, LS_DTYPE_BF16) == LS_OK ? 2 : 1;
    ls_device_destroy(&cpu);
    for (int p = 0; p < precisions; p++) {
        ls_dtype precision = p ? LS_DTYPE_BF16 : LS_DTYPE_F32;
        double ref_loss, cpu_loss, again_loss;
        int64_t count;
        float *ref = step_of(g, "ref", precision, LS_REMAT_NONE, &ref_loss, &count);
        float *found = step_of(g, "cpu", precision, LS_REMAT_NONE, &cpu_loss, &count);
        float *again = step_of(g, "cpu", precision, LS_REMAT_FULL, &again_loss, &count);
        double apart = farthest(g, found, ref);
        print_message("%s: loss %.6f, gradients apart %.2g\n", p ? "bf16" : "fp32", ref_loss, apart);
        assert_true(fabs(cpu_loss - ref_loss) <= (p ? 1e-2 : 1e-5) * fabs(ref_loss));
        assert_true(apart <= (p ? 5e-2 : 1e-5));
        assert_true(again_loss == cpu_loss);
        assert_memory_equal(again, found, (size_t)count * sizeof *found);
        free(ref), free(found), free(again);
    }
    ls_graph_destroy(&g);
}

static ls_value of_activations(ls_graph *g) {
    ls_value x = ls_graph_add_input(g, NULL, LS_SHAPE(6, 6, 3), LS_DTYPE_F32);
    x = ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 16, .kernel = {3, 3}, .activation = LS_ACTIVATION_TANH});
    x = ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 5, .kernel = {3, 3}, .activation = LS_ACTIVATION_SIGMOID});
    x = ls_activate(g, ls_flatten(g, x, NULL), LS_ACTIVATION_GELU, NULL);
    x = ls_dense(g, x, &(ls_dense_attrs){.units = 9, .activation = LS_ACTIVATION_SOFTMAX});
    x = ls_dense(g, x, &(ls_dense_attrs){.units = 7, .activation = LS_ACTIVATION_SILU});
    return ls_dense(g, x, &(ls_dense_attrs){.units = CLASSES});
}

static void network_of_activations(void **state) { check_network(of_activations); }

static ls_value of_branches(ls_graph *g) {
    ls_value x = ls_graph_add_input(g, NULL, LS_SHAPE(6, 6, 3), LS_DTYPE_F32);
    ls_value a = ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 16, .kernel = {3, 3}, .activation = LS_ACTIVATION_RELU});
    ls_value b = ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 32, .kernel = {3, 3}, .activation = LS_ACTIVATION_GELU});
    ls_value c = ls_concat(g, (ls_value[]){a, b, a}, 3, NULL);  // one of them twice
    c = ls_conv2d(g, c, &(ls_conv2d_attrs){.filters = 16, .kernel = {1, 1}, .activation = LS_ACTIVATION_RELU});
    c = ls_concat(g, (ls_value[]){c, ls_multiply(g, a, c, NULL), a}, 3, &(ls_concat_attrs){.axis = 1});
    c = ls_multiply(g, c, c, NULL);  // both inputs are the same
    return ls_dense(g, ls_flatten(g, c, NULL), &(ls_dense_attrs){.units = CLASSES});
}

// As networks for telephones are built: cut-off ReLUs, squeeze and excitation, separable convolutions, normalizations without gamma.
static ls_value of_small_parts(ls_graph *g) {
    ls_value x = ls_graph_add_input(g, NULL, LS_SHAPE(8, 8, 3), LS_DTYPE_F32), s;
    x = ls_normalize(g, ls_rescaling(g, x, &(ls_rescaling_attrs){.scale = 2, .offset = 0.25}), NULL);
    x = ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 24, .kernel = {3, 3}, .no_bias = 1});
    x = ls_activate(g, ls_batch_norm(g, x, NULL), LS_ACTIVATION_RELU6, NULL);
    x = ls_separable_conv2d(
        g, x, &(ls_separable_conv2d_attrs){.filters = 32, .kernel = {3, 3}, .multiplier = 2, .no_bias = 1});
    x = ls_activate(g, ls_batch_norm(g, x, &(ls_batch_norm_attrs){.no_scale = 1}), LS_ACTIVATION_SILU, NULL);
    s = ls_global_average_pool2d_keepdims(g, x, NULL);
    s = ls_conv2d(g, s, &(ls_conv2d_attrs){.filters = 32, .kernel = {1, 1}, .activation = LS_ACTIVATION_SIGMOID});
    ls_value y = ls_multiply(g, x, s, NULL);
    y = ls_separable_conv2d(g, y,
                            &(ls_separable_conv2d_attrs){.filters = 32,
                                                         .kernel = {3, 3},
                                                         .padding = LS_PADDING_SAME,
                                                         .no_bias = 1,
                                                         .activation = LS_ACTIVATION_RELU6});
    y = ls_dropout(g, y, &(ls_dropout_attrs){.rate = 0.5f, .per_sample = 1});
    x = ls_global_average_pool2d(g, ls_add(g, y, x, NULL), NULL);
    return ls_dense(g, x, &(ls_dense_attrs){.units = CLASSES});
}

static void network_of_small_parts(void **state) { check_network(of_small_parts); }

static void network_of_branches(void **state) { check_network(of_branches); }

static void refusals_of_groups(void **state) {
    ls_conv2d_attrs a = {.filters = 4, .kernel = {3, 3}, .groups = 4};
    REFUSED("conv2d: 4 groups do not divide its 6 channels and 4 filters", ls_conv2d(g, INPUT(5, 5, 6), &a));
    a.groups = 3;
    REFUSED("conv2d: 3 groups do not divide its 6 channels and 4 filters", ls_conv2d(g, INPUT(5, 5, 6), &a));
    a.groups = -1;
    REFUSED("conv2d: groups of a Conv2D layer is at least 1, but -1 was asked for", ls_conv2d(g, INPUT(5, 5, 6), &a));
    a = (ls_conv2d_attrs){.filters = 4, .kernel = {3, 3}, .dilation = {3, 2}};
    REFUSED("conv2d: a 7x5 valid kernel does not fit its 5x5 input; use padding same or drop a layer",
            ls_conv2d(g, INPUT(5, 5, 6), &a));
}

static void croppings(void **state) {
    REFUSED(
        "cropping2d: nothing is left of images of 5 x 5 without 2 rows at the top, 3 at the bottom, 0 columns at "
        "the left and 1 at the right; crop less, or give it larger images",
        ls_cropping2d(g, INPUT(5, 5, 3), &(ls_cropping2d_attrs){.cropping = {{2, 3}, {0, 1}}}));
    REFUSED("cropping2d: cropping of a Cropping2D layer is at least 0, but -1 was asked for",
            ls_cropping2d(g, INPUT(5, 5, 3), &(ls_cropping2d_attrs){.cropping = {{-1, 0}, {0, 1}}}));
    REFUSED("cropping2d: a Cropping2D layer works on images (None, H, W, C), but its input has shape (None, 6)",
            ls_cropping2d(g, INPUT(6), &(ls_cropping2d_attrs){.cropping = {{1, 0}, {0, 1}}}));
}

static ls_value of_groups(ls_graph *g) {
    ls_value x = ls_graph_add_input(g, NULL, LS_SHAPE(8, 8, 3), LS_DTYPE_F32);
    x = ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 32, .kernel = {3, 3}, .activation = LS_ACTIVATION_RELU});
    ls_value y = ls_depthwise_conv2d(
        g, x, &(ls_depthwise_conv2d_attrs){.kernel = {3, 3}, .padding = LS_PADDING_SAME, .no_bias = 1});
    y = ls_relu(g, ls_add(g, y, x, NULL), NULL);
    y = ls_conv2d(g, ls_zero_pad2d(g, y, NULL),
                  &(ls_conv2d_attrs){.filters = 16, .kernel = {3, 3}, .groups = 4, .activation = LS_ACTIVATION_SILU});
    y = ls_depthwise_conv2d(
        g, y,
        &(ls_depthwise_conv2d_attrs){
            .kernel = {3, 3}, .strides = {2, 2}, .multiplier = 2, .activation = LS_ACTIVATION_GELU});
    y = ls_conv2d(g, y, &(ls_conv2d_attrs){.filters = 6, .kernel = {2, 1}, .dilation = {1, 2}});
    return ls_dense(g, ls_flatten(g, y, NULL), &(ls_dense_attrs){.units = CLASSES});
}

static void network_of_groups(void **state) { check_network(of_groups); }

static ls_value of_an_auto_encoder(ls_graph *g) {
    ls_value x = ls_graph_add_input(g, NULL, LS_SHAPE(8, 8, 1), LS_DTYPE_F32);
    x = ls_conv2d(
        g, x, &(ls_conv2d_attrs){.filters = 16, .kernel = {3, 3}, .strides = {2, 2}, .activation = LS_ACTIVATION_RELU});
    x = ls_up_sampling2d(g, x, NULL);
    x = ls_conv2d_transpose(
        g, x, &(ls_conv2d_transpose_attrs){.filters = 17, .kernel = {3, 3}, .activation = LS_ACTIVATION_RELU});
    x = ls_conv2d_transpose(
        g, x,
        &(ls_conv2d_transpose_attrs){.filters = 3, .kernel = {3, 3}, .strides = {2, 2}, .padding = LS_PADDING_SAME});
    return ls_dense(g, ls_flatten(g, x, NULL), &(ls_dense_attrs){.units = CLASSES});
}

static void network_of_an_auto_encoder(void **state) { check_network(of_an_auto_encoder); }

// What is folded into convolutions of volumes: a residual with a ReLU, and masks; activations that are not.
static ls_value of_clips(ls_graph *g) {
    ls_value x = INPUT(2, 4, 6, 3);
    ls_conv3d_attrs a = {.filters = 16, .kernel = {2, 3, 3}, .padding = LS_PADDING_SAME};
    a.no_bias = 1;  // whose gradient would be nothing but roundings
    x = ls_relu(g, ls_batch_norm(g, ls_conv3d(g, x, &a), NULL), NULL);
    a.no_bias = 0;
    x = ls_relu(g, ls_add(g, ls_conv3d(g, x, &a), x, NULL), NULL);
    x = ls_max_pool3d(g, x, &(ls_pool3d_attrs){.size = {1, 2, 2}});
    x = ls_conv3d_transpose(g, x,
                            &(ls_conv3d_transpose_attrs){.filters = 5,
                                                         .kernel = {2, 2, 2},
                                                         .strides = {1, 2, 2},
                                                         .padding = LS_PADDING_SAME,
                                                         .activation = LS_ACTIVATION_TANH});
    x = ls_average_pool3d(g, x,
                          &(ls_pool3d_attrs){.size = {2, 2, 2}, .strides = {1, 2, 2}, .padding = LS_PADDING_SAME});
    return ls_dense(g, ls_flatten(g, x, NULL), &(ls_dense_attrs){.units = CLASSES});
}

static void network_of_clips(void **state) { check_network(of_clips); }

static void numbers_that_no_embedding_has(void **state) {
    static const char *const devices[] = {"cpu", "ref"};
    static const int32_t wrong[] = {-1, 7, INT32_MIN, INT32_MAX};
    for (int d = 0; d < 2; d++) {
        ls_graph *g;
        ls_device *device;
        ls_runner *r;
        float out[BATCH * 3 * 2];
        OK(ls_graph_create_empty("net", NULL, &g));
        ls_value x = ls_graph_add_input(g, NULL, LS_SHAPE(3), LS_DTYPE_I32);
        OK(ls_graph_finish_features(g, ls_embedding(g, x, &(ls_embedding_attrs){.rows = 7, .width = 2})));
        OK(ls_device_create(devices[d], NULL, &device));
        OK(ls_runner_create(g, device,
                            &(ls_plan_config){.batch = BATCH, .precision = LS_DTYPE_F32, .mode = LS_PLAN_PREDICTION},
                            NULL, &r));
        OK(ls_runner_initialize(r, 1));
        for (int i = 0; i < 4; i++) {
            int32_t numbers[BATCH * 3] = {0, 6};
            OK(ls_runner_write(r, 0, numbers));
            OK(ls_runner_forward(r, NULL));
            OK(ls_runner_read(r, 0, BATCH, out));
            for (int k = 0; k < 6; k++) assert_true(fabsf(out[k]) <= 0.05f && out[k] != 0);
            numbers[BATCH * 3 - 1] = wrong[i];
            OK(ls_runner_write(r, 0, numbers));
            assert_int_equal(ls_runner_forward(r, NULL), LS_STATUS_INVALID_ARGUMENT);
            char sentence[80];
            snprintf(sentence, sizeof sentence, "an embedding of 7 rows has none of number %d", (int)wrong[i]);
            assert_string_equal(ls_error_message(), sentence);
        }
        ls_runner_destroy(&r);
        ls_device_destroy(&device);
        ls_graph_destroy(&g);
    }
    REFUSED(
        "embedding: an embedding takes whole numbers (i32), (None) or (None, T), but its input is fp32 of (None, 3)",
        ls_embedding(g, INPUT(3), &(ls_embedding_attrs){.rows = 7, .width = 2}));
    REFUSED("embedding: input_dim of a Embedding layer lies between 1 and 2.14748e+09, but 0 was asked for",
            ls_embedding(g, INPUT(3), NULL));
    REFUSED(
        "group_normalization: 6 channels cannot be cut into 4 groups of as many: give a number that divides them, or "
        "-1 for one of each",
        ls_group_norm(g, INPUT(2, 6), &(ls_group_norm_attrs){.groups = 4}));
    REFUSED(
        "group_normalization: 48 channels cannot be cut into 32 groups of as many: give a number that divides them, "
        "or -1 for one of each",
        ls_group_norm(g, INPUT(48), NULL));
    REFUSED(
        "group_normalization: groups of a GroupNormalization layer lies between -1 and 2.14748e+09, but -2 was asked "
        "for",
        ls_group_norm(g, INPUT(48), &(ls_group_norm_attrs){.groups = -2}));
}

static ls_value of_sequences(ls_graph *g) {
    ls_value words = ls_graph_add_input(g, "words", LS_SHAPE(6), LS_DTYPE_I32);
    ls_value x = ls_embedding(
        g, words, &(ls_embedding_attrs){.rows = 9, .width = 12, .initializer = LS_INITIALIZER_GLOROT_NORMAL});
    ls_value y = ls_layer_norm(g, x, NULL);
    y = ls_dense(g, y, &(ls_dense_attrs){.units = 20, .activation = LS_ACTIVATION_GELU});
    y = ls_dense(g, y, &(ls_dense_attrs){.units = 12});
    x = ls_layer_norm(g, ls_add(g, x, y, NULL), NULL);
    y = ls_dense(g, x, &(ls_dense_attrs){.units = 12, .activation = LS_ACTIVATION_RELU});
    x = ls_multiply(g, x, ls_activate(g, y, LS_ACTIVATION_SOFTMAX, NULL), NULL);
    return ls_dense(g, ls_global_average_pool1d(g, x, NULL), &(ls_dense_attrs){.units = CLASSES});
}

static void network_of_sequences(void **state) { check_network(of_sequences); }

// Groups of several channels and of one each, between convolutions in blocks.
static ls_value of_normalized_groups(ls_graph *g) {
    ls_value x = ls_graph_add_input(g, NULL, LS_SHAPE(8, 8, 3), LS_DTYPE_F32);
    x = ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 16, .kernel = {3, 3}, .no_bias = 1});
    x = ls_relu(g, ls_group_norm(g, x, &(ls_group_norm_attrs){.groups = 2}), NULL);
    x = ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 24, .kernel = {3, 3}, .no_bias = 1});
    x = ls_group_norm(g, x, &(ls_group_norm_attrs){.groups = -1});
    x = ls_average_pool2d(g, x, &(ls_pool2d_attrs){.size = {2, 2}});
    return ls_dense(g, ls_flatten(g, x, NULL), &(ls_dense_attrs){.units = CLASSES});
}

static void network_of_normalized_groups(void **state) { check_network(of_normalized_groups); }

static void refusals_of_reshape(void **state) {
    REFUSED("reshape: (None, 2, 6) cannot be reshaped to 5x-1x0x0 (0: no more dimensions; one may be -1)",
            ls_reshape(g, INPUT(2, 6), &(ls_reshape_attrs){.shape = {5, -1}}));
    REFUSED("reshape: (None, 2, 6) cannot be reshaped to -1x-1x0x0 (0: no more dimensions; one may be -1)",
            ls_reshape(g, INPUT(2, 6), &(ls_reshape_attrs){.shape = {-1, -1}}));
    REFUSED("reshape: (None, 2, 6) cannot be reshaped to 3x0x4x0 (0: no more dimensions; one may be -1)",
            ls_reshape(g, INPUT(2, 6), &(ls_reshape_attrs){.shape = {3, 0, 4}}));
    REFUSED("reshape: (None, 2, 6) cannot be reshaped to 0x0x0x0 (0: no more dimensions; one may be -1)",
            ls_reshape(g, INPUT(2, 6), NULL));
    REFUSED("reshape: (None, 2, 6) cannot be reshaped to 13x0x0x0 (0: no more dimensions; one may be -1)",
            ls_reshape(g, INPUT(2, 6), &(ls_reshape_attrs){.shape = {13}}));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals_of_reshape),
        cmocka_unit_test(network_of_sequences),
        cmocka_unit_test(network_of_normalized_groups),
        cmocka_unit_test(numbers_that_no_embedding_has),
        cmocka_unit_test(network_of_an_auto_encoder),
        cmocka_unit_test(network_of_clips),
        cmocka_unit_test(croppings),
        cmocka_unit_test(network_of_groups),
        cmocka_unit_test(network_of_small_parts),
        cmocka_unit_test(refusals_of_groups),
        cmocka_unit_test(losses_are_ends),
        cmocka_unit_test(refusals_of_distributions),
        cmocka_unit_test(refusals_of_multiply),
        cmocka_unit_test(refusals_of_what_images_go_through_first),
        cmocka_unit_test(refusals_of_separable_conv2d),
        cmocka_unit_test(refusals_of_concat),
        cmocka_unit_test(refusals_of_volumes),
        cmocka_unit_test(activations_inside_layers),
        cmocka_unit_test(activations_end_no_logits),
        cmocka_unit_test(network_of_activations),
        cmocka_unit_test(network_of_branches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
