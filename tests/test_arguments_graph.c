// As test_arguments.c, the functions that make graphs and models. And sizes that cannot be counted.
#include <limits.h>

#include "arguments.h"

static void layers(void **state) {
    const char *none = "a graph that is NULL";
    const ls_value x[] = {0, 0};
    NO_VALUE(none, ls_graph_add_input(NULL, "x", LS_SHAPE(1), LS_DTYPE_F32));
    NO_VALUE(none, ls_conv2d(NULL, 0, NULL));
    NO_VALUE(none, ls_dense(NULL, 0, NULL));
    NO_VALUE(none, ls_max_pool2d(NULL, 0, NULL));
    NO_VALUE(none, ls_average_pool2d(NULL, 0, NULL));
    NO_VALUE(none, ls_global_max_pool2d(NULL, 0, NULL));
    NO_VALUE(none, ls_global_average_pool2d(NULL, 0, NULL));
    NO_VALUE(none, ls_global_average_pool2d_keepdims(NULL, 0, NULL));
    NO_VALUE(none, ls_relu(NULL, 0, NULL));
    NO_VALUE(none, ls_activate(NULL, 0, LS_ACTIVATION_RELU, NULL));
    NO_VALUE(none, ls_activate(NULL, 0, LS_ACTIVATION_TANH, NULL));
    NO_VALUE(none, ls_batch_norm(NULL, 0, NULL));
    NO_VALUE(none, ls_add(NULL, 0, 0, NULL));
    NO_VALUE(none, ls_multiply(NULL, 0, 0, NULL));
    NO_VALUE(none, ls_separable_conv2d(NULL, 0, NULL));
    NO_VALUE(none, ls_rescaling(NULL, 0, NULL));
    NO_VALUE(none, ls_normalize(NULL, 0, NULL));
    NO_VALUE(none, ls_concat(NULL, x, 2, NULL));
    NO_VALUE(none, ls_depthwise_conv2d(NULL, 0, NULL));
    NO_VALUE(none, ls_conv2d_transpose(NULL, 0, NULL));
    NO_VALUE(none, ls_conv3d(NULL, 0, NULL));
    NO_VALUE(none, ls_conv3d_transpose(NULL, 0, NULL));
    NO_VALUE(none, ls_max_pool3d(NULL, 0, NULL));
    NO_VALUE(none, ls_average_pool3d(NULL, 0, NULL));
    NO_VALUE(none, ls_up_sampling2d(NULL, 0, NULL));
    NO_VALUE(none, ls_layer_norm(NULL, 0, NULL));
    NO_VALUE(none, ls_group_norm(NULL, 0, NULL));
    NO_VALUE(none, ls_embedding(NULL, 0, NULL));
    NO_VALUE(none, ls_global_average_pool1d(NULL, 0, NULL));
    NO_VALUE(none, ls_global_average_pool1d_masked(NULL, 0, 0, NULL));
    NO_VALUE(none, ls_position_embedding(NULL, 0, NULL));
    NO_VALUE(none, ls_attention(NULL, 0, 0, NULL));
    NO_VALUE(none, ls_normal_sample(NULL, 0, 0, NULL));
    NO_VALUE(none, ls_lstm(NULL, 0, 0, NULL));
    NO_VALUE(none, ls_gru(NULL, 0, 0, NULL));
    NO_VALUE(none, ls_perplexity(NULL, 0, 0, NULL));
    NO_VALUE(none, ls_reshape(NULL, 0, NULL));
    NO_VALUE(none, ls_zero_pad2d(NULL, 0, NULL));
    NO_VALUE(none, ls_cropping2d(NULL, 0, NULL));
    NO_VALUE(none, ls_flatten(NULL, 0, NULL));
    NO_VALUE(none, ls_dropout(NULL, 0, NULL));
    NO_VALUE(none, ls_softmax_cross_entropy(NULL, 0, 0, NULL));
    NO_VALUE(none, ls_binary_cross_entropy(NULL, 0, 0, NULL));
    NO_VALUE(none, ls_mean_squared_error(NULL, 0, 0, NULL));
    NO_VALUE(none, ls_normal_divergence(NULL, 0, NULL));
    NO_VALUE(none, ls_mean_absolute_error(NULL, 0, 0, NULL));
    NO_VALUE(none, ls_accuracy(NULL, 0, 0, NULL));
    NO_VALUE(none, ls_top_k_accuracy(NULL, 0, 0, NULL));
    NO_VALUE(none, ls_binary_accuracy(NULL, 0, 0, NULL));
    NO_VALUE(none, ls_mean_absolute_error_metric(NULL, 0, 0, NULL));
    NO_VALUE(none, ls_auc(NULL, 0, 0, NULL));
    NO_VALUE(none, ls_balanced_accuracy(NULL, 0, 0, NULL));
    ls_graph *g;
    OK(ls_graph_create("net", LS_SHAPE(2, 2, 1), &g));
    NO_VALUE("was given NULL in place of its inputs", ls_concat(g, NULL, 2, NULL));
    ls_graph_destroy(&g);
}

static void graphs(void **state) {
    ls_graph *g;
    ls_store *store;
    char *text;
    NEEDS("out", ls_graph_create("net", LS_SHAPE(1), NULL));
    REFUSED("a graph needs a name", ls_graph_create(NULL, LS_SHAPE(1), &g));
    NEEDS("out", ls_graph_create_empty("net", NULL, NULL));
    NEEDS("graph", ls_graph_add_output(NULL, 0, NULL));
    NEEDS("graph", ls_graph_finish(NULL, 0));
    NEEDS("graph", ls_graph_finish_features(NULL, 0));
    NEEDS("graph", ls_graph_check_classifier(NULL));
    assert_int_equal(ls_graph_has_losses(NULL), 0);
    ls_gan gan;
    NEEDS("out", ls_gan_build(LS_SHAPE(12, 12, 1), NULL));
    REFUSED("whose sides 4 divides", ls_gan_build(LS_SHAPE(12, 10, 1), &gan));
    REFUSED("whose sides 4 divides", ls_gan_build(LS_SHAPE(12, 12, 2), &gan));
    OK(ls_gan_build(LS_SHAPE(12, 8, 3), &gan));
    assert_int_equal(ls_graph_has_losses(gan.discriminator), 1);
    assert_int_equal(ls_graph_has_losses(gan.drawing), 0);
    ls_gan_destroy(&gan);
    ls_gan_destroy(&gan);
    ls_gan_destroy(NULL);
    ls_gan stages[3];
    NEEDS("out", ls_gan_build_growing(LS_SHAPE(16, 16, 1), 3, NULL));
    REFUSED("in 2 to 8 stages, not in 1", ls_gan_build_growing(LS_SHAPE(16, 16, 1), 1, stages));
    REFUSED("in 2 to 8 stages, not in 9", ls_gan_build_growing(LS_SHAPE(16, 16, 1), 9, stages));
    REFUSED("whose sides 4 divides, of 16 pixels", ls_gan_build_growing(LS_SHAPE(12, 16, 1), 3, stages));
    REFUSED("whose sides 4 divides, of 16 pixels", ls_gan_build_growing(LS_SHAPE(16, 18, 1), 3, stages));
    OK(ls_gan_build_growing(LS_SHAPE(16, 20, 3), 3, stages));
    assert_int_equal(ls_graph_has_losses(stages[0].generator), 1);
    for (int i = 0; i < 3; i++) ls_gan_destroy(&stages[i]);
    NEEDS("network", ls_graph_classifier(NULL, 0, &g));
    NEEDS("network", ls_graph_decoder(NULL, &g));
    NEEDS("graph", ls_graph_freeze(NULL, "*", 1, NULL));
    NEEDS("graph", ls_graph_summary(NULL, &text));
    NEEDS("out", ls_store_create(NULL));
    NEEDS("out", ls_model_create("mnist-cnn", (ls_shape){0}, 0, NULL));
    NEEDS("name", ls_model_create(NULL, (ls_shape){0}, 0, &g));
    ls_model_config config;
    ls_model_config_init(NULL);
    ls_model_config_init(&config);
    NEEDS("name", ls_model_build(NULL, &config, &g));
    NEEDS("config", ls_model_build("mnist-cnn", NULL, &g));
    NEEDS("out", ls_model_build("mnist-cnn", &config, NULL));
    NEEDS("path", ls_network_read(NULL, NULL, &config, &g));
    NEEDS("config", ls_network_read("my.net", NULL, NULL, &g));
    NEEDS("out", ls_network_read("my.net", NULL, &config, NULL));
    NEEDS("path", ls_onnx_read(NULL, &config, &g));
    NEEDS("config", ls_onnx_read("my.onnx", NULL, &g));
    NEEDS("out", ls_onnx_read("my.onnx", &config, NULL));
    NEEDS("graph", ls_onnx_write(NULL, "my.onnx", NULL, NULL));
    NEEDS("graph", ls_network_text(NULL, &text));
    NEEDS("name", ls_model_text(NULL, &config, &text));
    NEEDS("config", ls_model_text("mnist-cnn", NULL, &text));
    NEEDS("text", ls_model_text("mnist-cnn", &config, NULL));
    assert_int_equal(ls_model_is_file(NULL), 0);
    assert_null(ls_model_at(-1).name);
    assert_non_null(ls_model_options());

    g = network();
    NEEDS("path", ls_onnx_write(g, NULL, NULL, NULL));
    NEEDS("weights", ls_onnx_write(g, "my.onnx", NULL, NULL));
    NEEDS("pattern", ls_graph_freeze(g, NULL, 1, NULL));
    NEEDS("graph", ls_graph_scale_rate(NULL, "*", 2, NULL));
    NEEDS("pattern", ls_graph_scale_rate(g, NULL, 2, NULL));
    NEEDS("graph", ls_graph_scale_decay(NULL, "*", 2, NULL));
    NEEDS("pattern", ls_graph_scale_decay(g, NULL, 2, NULL));
    NEEDS("text", ls_network_text(g, NULL));
    NEEDS("out", ls_graph_classifier(g, 0, NULL));
    NEEDS("out", ls_graph_decoder(g, NULL));
    NEEDS("text", ls_graph_summary(g, NULL));
    assert_int_equal(ls_graph_input(NULL), LS_NO_VALUE);
    assert_null(ls_graph_name(NULL));
    assert_null(ls_graph_store(NULL));
    assert_true(ls_graph_parameter_count(NULL) == 0 && ls_graph_trainable_parameter_count(NULL) == 0);
    assert_true(ls_graph_cost(NULL).flops == 0 && ls_graph_cost(NULL).activations == 0);
    assert_true(ls_graph_classes(NULL) == 0 && ls_graph_input_count(NULL) == 0 && ls_graph_output_count(NULL) == 0);
    assert_null(ls_graph_input_at(NULL, 0).name);
    assert_null(ls_graph_input_at(g, 1).name);
    assert_null(ls_graph_output_at(NULL, 0).name);
    assert_null(ls_graph_output_at(g, -1).name);
    assert_int_equal(ls_store_count(NULL), 0);
    assert_null(ls_store_parameter(NULL, 0).name);
    assert_null(ls_store_parameter(ls_graph_store(g), 2).name);
    ls_graph_destroy(&g);
    ls_graph_destroy(&g);
    ls_graph_destroy(NULL);
    OK(ls_store_create(&store));
    ls_store_destroy(&store);
    ls_store_destroy(&store);
    ls_store_destroy(NULL);
}

// What does not fit into a number of 64 bits, or into any memory, is refused and does not wrap around.
static void sizes_that_cannot_be_counted(void **state) {
    const int64_t many = (int64_t)1 << 40;
    const char *sentence = "are more than any memory holds";
    ls_graph *g;
    assert_true(ls_shape_count(LS_SHAPE(many, many)) == INT64_MAX);
    assert_true(ls_shape_count(LS_SHAPE(many, many, 0)) == 0);
    assert_true(ls_shape_count(LS_SHAPE(INT64_MAX)) == INT64_MAX);
    assert_true(ls_shape_count((ls_shape){.ndim = 1 << 30, .dim = {1, 1, 1, 1, 1}}) == 1);
    assert_false(ls_shape_equal(LS_SHAPE(1), LS_SHAPE(1, 1)));
    REFUSED(sentence, ls_graph_create("net", LS_SHAPE(many, many, many), &g));
    OK(ls_graph_create("net", LS_SHAPE(many), &g));
    NO_VALUE(sentence, ls_dense(g, ls_graph_input(g), &(ls_dense_attrs){.units = INT_MAX}));
    ls_graph_destroy(&g);
    OK(ls_graph_create("net", LS_SHAPE(1 << 20, 1 << 18, 1), &g));
    NO_VALUE(sentence, ls_up_sampling2d(g, ls_graph_input(g), &(ls_up_sampling2d_attrs){.size = {1 << 15, 1 << 15}}));
    ls_graph_destroy(&g);
    OK(ls_graph_create("net", LS_SHAPE(8, 8, 1), &g));
    NO_VALUE("pixels is larger than any image",
             ls_conv2d(g, ls_graph_input(g),
                       &(ls_conv2d_attrs){.filters = 1, .kernel = {1 << 20, 1}, .dilation = {1 << 15, 1}}));
    ls_graph_destroy(&g);
    OK(ls_graph_create("net", LS_SHAPE(8, 8, 1), &g));
    NO_VALUE("is at most 1048576, but 2147483647 was asked for",
             ls_zero_pad2d(g, ls_graph_input(g), &(ls_zero_pad2d_attrs){.padding = {{INT_MAX, INT_MAX}, {1, 1}}}));
    ls_graph_destroy(&g);
    OK(ls_graph_create("net", LS_SHAPE(8, 8, 1 << 30), &g));
    NO_VALUE("are too many",
             ls_depthwise_conv2d(g, ls_graph_input(g),
                                 &(ls_depthwise_conv2d_attrs){.kernel = {1, 1}, .multiplier = INT_MAX}));
    ls_graph_destroy(&g);
    // Of a batch.
    ls_predictor *p;
    ls_predict_config config;
    ls_predict_config_init(&config);
    config.batch = (int64_t)1 << 30;
    OK(ls_graph_create("net", LS_SHAPE(many / 16), &g));
    OK(ls_graph_finish_features(g, ls_relu(g, ls_graph_input(g), NULL)));
    REFUSED(sentence, ls_predictor_create(g, &config, &p));
    ls_graph_destroy(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers),
        cmocka_unit_test(graphs),
        cmocka_unit_test(sizes_that_cannot_be_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
