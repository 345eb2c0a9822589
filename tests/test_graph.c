// Building graphs: shapes, Keras's names, sentences for what does not fit, initial weights, models, the summary.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/graph.h>
#include <lockstep/predict.h>

#include "graph/graph.h"
#include "models/models.h"

static ls_graph *new_graph(ls_shape input) {
    ls_graph *g;
    assert_int_equal(ls_graph_create("net", input, &g), LS_OK);
    return g;
}

static void assert_failure(ls_graph *g, ls_value logits, ls_status status, const char *sentence) {
    assert_int_equal(ls_graph_finish(g, logits), status);
    assert_string_equal(ls_error_message(), sentence);
    ls_graph_destroy(&g);
    assert_null(g);
}

// The table of the network as its authors give it, from its Keras.
static void mnist_cnn_summary(void **state) {
    static const char expected[] =
        "Model: \"mnist-cnn\"\n"
        "_____________________________________________________________________\n"
        " Layer (type)                    Output Shape              Param #\n"
        "=====================================================================\n"
        " conv2d (Conv2D)                 (None, 26, 26, 32)        320\n"
        " max_pooling2d (MaxPooling2D)    (None, 13, 13, 32)        0\n"
        " conv2d_1 (Conv2D)               (None, 11, 11, 128)       36992\n"
        " max_pooling2d_1 (MaxPooling2D)  (None, 5, 5, 128)         0\n"
        " conv2d_2 (Conv2D)               (None, 3, 3, 256)         295168\n"
        " max_pooling2d_2 (MaxPooling2D)  (None, 1, 1, 256)         0\n"
        " flatten (Flatten)               (None, 256)               0\n"
        " dropout (Dropout)               (None, 256)               0\n"
        " dense (Dense)                   (None, 1000)              257000\n"
        " dense_1 (Dense)                 (None, 100)               100100\n"
        " dense_2 (Dense)                 (None, 10)                1010\n"
        "=====================================================================\n"
        "Total params: 690,590\n"
        "Trainable params: 690,590\n"
        "Non-trainable params: 0\n"
        "_____________________________________________________________________\n";
    ls_graph *g;
    char *text;
    assert_int_equal(ls_model_create("mnist-cnn", (ls_shape){0}, 0, &g), LS_OK);
    assert_int_equal(ls_graph_summary(g, &text), LS_OK);
    assert_string_equal(text, expected);
    free(text);
    assert_int_equal(ls_graph_parameter_count(g), 690590);
    assert_int_equal(ls_graph_classes(g), 10);
    assert_string_equal(ls_graph_name(g), "mnist-cnn");
    assert_int_equal(g->store->count, 12);
    assert_string_equal(g->store->params[2].name, "conv2d_1/kernel");
    assert_true(ls_shape_equal(g->store->params[2].shape, LS_SHAPE(3, 3, 32, 128)));
    assert_int_equal(g->store->params[2].fan_in, 9 * 32);
    assert_int_equal(g->store->params[2].fan_out, 9 * 128);
    assert_true(g->store->params[2].decay);
    assert_string_equal(g->store->params[11].name, "dense_2/bias");
    assert_false(g->store->params[11].decay);
    ls_graph_destroy(&g);
    ls_graph_destroy(&g);  // safe on NULL
}

static void every_model_builds(void **state) {
    for (const ls_model *const *m = ls_models(); *m; m++) {
        ls_graph *g;
        assert_int_equal(ls_model_create((*m)->name, (ls_shape){0}, 0, &g), LS_OK);
        int several = ls_graph_output_at(g, 0).shape.ndim > 1;  // scores of each position, or an image
        assert_int_equal(ls_graph_classes(g), several ? 0 : (*m)->classes);
        ls_graph_destroy(&g);
        if ((*m)->vocabulary || (*m)->input.ndim > 3) continue;  // of sequences: tests/test_sequences.c; of clips
        int side = (*m)->least_side > 32 ? (*m)->least_side : 32;
        assert_int_equal(ls_model_create((*m)->name, LS_SHAPE(side, side, 3), 7, &g), LS_OK);
        assert_int_equal(ls_graph_classes(g), several ? 0 : 7);
        assert_true(ls_shape_equal(g->nodes[0].output[0].shape, LS_SHAPE(side, side, 3)));
        ls_graph_destroy(&g);
    }
}

static void unfit_models(void **state) {
    ls_graph *g;
    assert_int_equal(ls_model_create("mnist-cnn", LS_SHAPE(8, 8, 1), 0, &g), LS_STATUS_INVALID_ARGUMENT);
    assert_null(g);
    assert_string_equal(ls_error_message(),
                        "mnist-cnn cannot be built: max_pooling2d_1: a 2x2 valid window does not fit "
                        "its 1x1 input; use padding same or drop a layer");
}

// One of every layer, with the shapes Keras gives them.
static void shapes_of_every_layer(void **state) {
    static const ls_conv2d_attrs tall = {.filters = 8, .kernel = {5, 2}, .strides = {2, 1}};
    static const ls_conv2d_attrs same = {
        .filters = 4, .kernel = {3, 3}, .strides = {2, 2}, .padding = LS_PADDING_SAME, .no_bias = 1};
    static const ls_pool2d_attrs dense_pool = {.size = {2, 2}, .strides = {1, 1}, .padding = LS_PADDING_SAME};
    const ls_shape shapes[] = {LS_SHAPE(15, 10, 3), LS_SHAPE(6, 9, 8), LS_SHAPE(3, 5, 4),
                               LS_SHAPE(3, 5, 4),   LS_SHAPE(3, 5, 4), LS_SHAPE(1, 2, 4),
                               LS_SHAPE(4),         LS_SHAPE(4),       LS_SHAPE(6)};
    ls_graph *g = new_graph(shapes[0]);
    ls_value x = ls_conv2d(g, ls_graph_input(g), &tall);
    x = ls_conv2d(g, x, &same);
    x = ls_relu(g, x, NULL);
    x = ls_max_pool2d(g, x, &dense_pool);
    x = ls_average_pool2d(g, x, &(ls_pool2d_attrs){0});
    x = ls_global_average_pool2d(g, x, "head");
    x = ls_dropout(g, x, &(ls_dropout_attrs){.rate = 0.25f});
    x = ls_dense(g, x, &(ls_dense_attrs){.units = 6});
    assert_int_equal(ls_graph_finish(g, x), LS_OK);
    assert_int_equal(g->node_count, sizeof shapes / sizeof shapes[0]);
    for (int i = 0; i < g->node_count; i++) assert_true(ls_shape_equal(g->nodes[i].output[0].shape, shapes[i]));
    // Same padding of 6x9, kernel 3, stride 2: a row below, a column on either side.
    const ls_conv2d_attrs *a = LS_ATTRS(ls_conv2d_attrs, &g->nodes[2].attrs);
    assert_int_equal(a->pad[0], 0);
    assert_int_equal(a->pad[1], 1);
    assert_int_equal(a->pad[2], 1);
    assert_int_equal(a->pad[3], 1);
    assert_int_equal(LS_ATTRS(ls_dropout_attrs, &g->nodes[7].attrs)->layer, 7);
    assert_int_equal(ls_graph_parameter_count(g), 5 * 2 * 3 * 8 + 8 + 3 * 3 * 8 * 4 + 4 * 6 + 6);
    ls_graph_destroy(&g);
}

static void names_are_keras_names(void **state) {
    ls_graph *g = new_graph(LS_SHAPE(16));
    ls_value x = ls_graph_input(g);
    x = ls_dense(g, x, &(ls_dense_attrs){.units = 3});
    x = ls_dense(g, x, &(ls_dense_attrs){.units = 3, .name = "mine"});
    x = ls_dense(g, x, &(ls_dense_attrs){.units = 3, .name = "dense_2"});
    x = ls_dense(g, x, &(ls_dense_attrs){.units = 3});
    x = ls_relu(g, x, NULL);
    x = ls_relu(g, x, NULL);
    x = ls_dense(g, x, &(ls_dense_attrs){.units = 3});
    static const char *const names[] = {"input", "dense", "mine", "dense_2", "dense_1", "re_lu", "re_lu_1", "dense_3"};
    assert_int_equal(g->node_count, 8);
    for (int i = 0; i < 8; i++) assert_string_equal(g->nodes[i].name, names[i]);
    ls_graph_destroy(&g);
}

static void the_first_failure_is_kept(void **state) {
    ls_graph *g = new_graph(LS_SHAPE(4, 4, 1));
    ls_value x = ls_max_pool2d(g, ls_graph_input(g), &(ls_pool2d_attrs){0});
    x = ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 2, .kernel = {3, 3}});
    assert_int_equal(x, LS_NO_VALUE);
    x = ls_dense(g, x, &(ls_dense_attrs){.units = -1});
    assert_int_equal(x, LS_NO_VALUE);
    assert_failure(g, x, LS_STATUS_INVALID_ARGUMENT,
                   "conv2d: a 3x3 valid kernel does not fit its 2x2 input; use padding same or drop a layer");
}

// What is a list's number is called by what there is.
static void an_unknown_activation_is_named(void **state) {
    for (int i = 0; i < 2; i++) {
        ls_graph *g = new_graph(LS_SHAPE(4));
        ls_dense_attrs attrs = {.units = 2, .activation = (ls_activation)99};
        ls_value x =
            i ? ls_activate(g, ls_graph_input(g), attrs.activation, NULL) : ls_dense(g, ls_graph_input(g), &attrs);
        assert_int_equal(x, LS_NO_VALUE);
        assert_failure(g, x, LS_STATUS_INVALID_ARGUMENT,
                       i ? "activation: its activation was given as number 99, which there is not: they go from 0 "
                           "(linear) to 7 (relu6)"
                         : "dense: its activation was given as number 99, which there is not: they go from 0 (linear) "
                           "to 7 (relu6)");
    }
}

// Why a graph was not finished is said where it is used all the same; that it was finished then is what counts.
static void what_kept_a_graph_open_is_not_hidden(void **state) {
    ls_graph *g = new_graph(LS_SHAPE(4, 4, 1));
    ls_predictor *p;
    ls_predict_config config;
    ls_predict_config_init(&config);
    assert_int_equal(ls_predictor_create(g, &config, &p), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(ls_error_message(), "model net is not finished: call ls_graph_finish first"));
    ls_value x = ls_dense(g, ls_flatten(g, ls_graph_input(g), NULL), &(ls_dense_attrs){.units = 2});
    assert_int_equal(ls_graph_finish(g, ls_graph_input(g)), LS_STATUS_INVALID_ARGUMENT);
    ls_graph_summary(g, NULL);  // another failure in between
    assert_int_equal(ls_predictor_create(g, &config, &p), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(ls_error_message(), "model net is not finished: net: the output has one value per class"));
    assert_int_equal(ls_graph_finish(g, x), LS_OK);
    assert_int_equal(ls_predictor_create(g, &config, &p), LS_OK);
    ls_predictor_destroy(&p);
    ls_graph_destroy(&g);
}

static ls_value on_image(ls_graph *g, int which) {
    ls_value x = ls_graph_input(g);
    switch (which) {
    case 0: return ls_conv2d(g, x, &(ls_conv2d_attrs){.kernel = {3, 3}});
    case 1: return ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 4, .kernel = {3, 0}});
    case 2: return ls_max_pool2d(g, x, &(ls_pool2d_attrs){.size = {9, 9}});
    case 3: return ls_dense(g, x, &(ls_dense_attrs){.units = 3});
    case 4: return ls_dense(g, ls_flatten(g, x, NULL), &(ls_dense_attrs){0});
    case 5: return ls_dropout(g, x, &(ls_dropout_attrs){.rate = 1});
    case 6: return ls_dropout(g, x, &(ls_dropout_attrs){.rate = NAN});
    case 7: return ls_max_pool2d(g, ls_flatten(g, x, NULL), &(ls_pool2d_attrs){0});
    case 8: return ls_relu(g, ls_relu(g, x, "twin"), "twin");
    case 9: return ls_relu(g, x, "a/b");
    case 10: return ls_relu(g, 17, NULL);
    case 11: return ls_relu(g, x, NULL);
    case 12: return ls_relu(g, x, NULL), ls_flatten(g, x, NULL);
    default: return ls_flatten(g, x, NULL) + 5;
    }
}

static void every_refusal_says_what_and_where(void **state) {
    static const struct {
        ls_status status;
        const char *sentence;
    } expected[] = {
        {LS_STATUS_INVALID_ARGUMENT, "conv2d: a convolution has at least 1 filter, but 0 were asked for"},
        {LS_STATUS_INVALID_ARGUMENT,
         "conv2d: the sides and strides of its kernel are at least 1, but a 3x0 kernel with "
         "strides 1x1 was asked for"},
        {LS_STATUS_INVALID_ARGUMENT,
         "max_pooling2d: a 9x9 valid window does not fit its 6x7 input; use padding same or drop a layer"},
        {LS_STATUS_UNSUPPORTED,
         "dense: a dense layer takes one vector per sample, (None, C), or a sequence of them, (None, T, C), but its "
         "input has shape "
         "(None, 6, 7, 2); put a flatten or a global pooling layer before it"},
        {LS_STATUS_INVALID_ARGUMENT, "dense: a dense layer has at least 1 unit, but 0 were asked for"},
        {LS_STATUS_INVALID_ARGUMENT,
         "dropout: a dropout rate is the fraction set to zero, at least 0 and less than 1, "
         "but 1 was asked for"},
        {LS_STATUS_INVALID_ARGUMENT, "dropout: rate of a Dropout layer lies between 0 and 1, but nan was asked for"},
        {LS_STATUS_INVALID_ARGUMENT,
         "max_pooling2d: a MaxPooling2D layer works on images (None, H, W, C), but its input "
         "has shape (None, 84)"},
        {LS_STATUS_INVALID_ARGUMENT,
         "two layers are named twin; give each layer its own name, or none for an automatic one"},
        {LS_STATUS_INVALID_ARGUMENT, "a ReLU layer cannot be named \"a/b\": a name is not empty and has no \"/\""},
        {LS_STATUS_INVALID_ARGUMENT, "a ReLU layer was given value 17 as its input, which is no layer of net"},
        {LS_STATUS_INVALID_ARGUMENT,
         "net: the output has one value per class, (None, classes), but its shape is "
         "(None, 6, 7, 2); end with a dense layer, or give the graph a loss of its own"},
        {LS_STATUS_INVALID_ARGUMENT,
         "net: layer re_lu does not lead to the output flatten; remove it, or pass its value "
         "to the next layer"},
        {LS_STATUS_INVALID_ARGUMENT, "net: value 6 was given as the output, which is no layer of it"},
    };
    for (int i = 0; i < (int)(sizeof expected / sizeof expected[0]); i++) {
        ls_graph *g = new_graph(LS_SHAPE(6, 7, 2));
        ls_value x = on_image(g, i);
        assert_failure(g, x, expected[i].status, expected[i].sentence);
    }
    ls_graph *g;
    assert_int_equal(ls_graph_create("net", LS_SHAPE(2, 0, 1), &g), LS_STATUS_INVALID_ARGUMENT);
    assert_int_equal(ls_graph_create("net", LS_SHAPE(2, 2, 2, 2, 2), &g), LS_STATUS_INVALID_ARGUMENT);
    assert_int_equal(ls_graph_create("net", (ls_shape){0}, &g), LS_STATUS_INVALID_ARGUMENT);
    assert_null(g);
}

static void a_finished_graph_stays_as_it_is(void **state) {
    ls_graph *g = new_graph(LS_SHAPE(4));
    ls_value x = ls_dense(g, ls_graph_input(g), &(ls_dense_attrs){.units = 3});
    assert_int_equal(ls_graph_classes(g), 0);
    assert_int_equal(ls_graph_finish(g, x), LS_OK);
    assert_int_equal(ls_relu(g, x, NULL), LS_NO_VALUE);
    assert_string_equal(ls_error_message(), "net is finished; layers are added before ls_graph_finish");
    assert_int_equal(ls_graph_finish(g, x), LS_STATUS_INVALID_ARGUMENT);
    assert_int_equal(g->node_count, 2);
    ls_graph_destroy(&g);
}

// A dense layer 300 -> 200 with the given initializer, drawn.
static float *draw(ls_initializer kernel, uint64_t seed, int layers, int param) {
    ls_graph *g = new_graph(LS_SHAPE(300));
    ls_value x = ls_graph_input(g);
    for (int i = 0; i < layers; i++)
        x = ls_dense(
            g, x,
            &(ls_dense_attrs){
                .units = i ? 300 : 200, .kernel_initializer = kernel, .bias_initializer = LS_INITIALIZER_ONES});
    float *values = malloc(sizeof(float) * (size_t)ls_shape_count(g->store->params[param].shape));
    assert_non_null(values);
    ls_param_initialize(ls_graph_store(g), param, seed, values);
    ls_graph_destroy(&g);
    return values;
}

static uint64_t hash(const float *values, int64_t count) {
    uint64_t h = 14695981039346656037u;  // FNV-1a
    for (const unsigned char *p = (const unsigned char *)values, *end = p + count * 4; p < end; p++)
        h = (h ^ *p) * 1099511628211u;
    return h;
}

// torch.nn.init.dirac_ on the first filters; the others are those of fan_in_uniform.
static void dirac_passes_channels_on(void **state) {
    static const struct {
        int height, width, channels, filters;
    } known[] = {{3, 3, 4, 10}, {3, 3, 6, 6}, {3, 5, 6, 4}, {2, 2, 3, 5}, {1, 1, 2, 3}};
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        int h = known[k].height, w = known[k].width, in = known[k].channels, out = known[k].filters;
        float values[2][3 * 5 * 6 * 10];
        for (int plain = 0; plain < 2; plain++) {
            ls_graph *g = new_graph(LS_SHAPE(8, 8, in));
            ls_conv2d(
                g, ls_graph_input(g),
                &(ls_conv2d_attrs){.filters = out,
                                   .kernel = {h, w},
                                   .kernel_initializer = plain ? LS_INITIALIZER_FAN_IN_UNIFORM : LS_INITIALIZER_DIRAC});
            ls_param_initialize(ls_graph_store(g), 0, 7, values[plain]);
            ls_graph_destroy(&g);
        }
        for (int i = 0; i < h * w * in * out; i++) {
            int o = i % out, c = i / out % in, x = i / out / in % w, y = i / out / in / w;
            if (o >= in)
                assert_true(values[0][i] == values[1][i] && values[0][i] != 0);
            else
                assert_true(values[0][i] == (y == h / 2 && x == w / 2 && c == o));
        }
    }
}

static void initializers_follow_keras(void **state) {
    enum { IN = 300, OUT = 200, COUNT = IN * OUT };
    // Variance and largest magnitude by Keras's formulas, and the bits: the same on every machine and compiler.
    static const struct {
        ls_initializer initializer;
        double variance, limit;
        uint64_t bits;
    } known[] = {
        {LS_INITIALIZER_DEFAULT, 2.0 / (IN + OUT), 0.1095445115010332, 0x3d224f70a363bf09},
        {LS_INITIALIZER_GLOROT_UNIFORM, 2.0 / (IN + OUT), 0.1095445115010332, 0x3d224f70a363bf09},
        {LS_INITIALIZER_GLOROT_NORMAL, 2.0 / (IN + OUT), 2 * 0.0632455532033676 / 0.87962566103423978,
         0x3cdc53c82cc6e4fb},
        {LS_INITIALIZER_HE_UNIFORM, 2.0 / IN, 0.1414213562373095, 0x665871c85bbcb673},
        {LS_INITIALIZER_HE_NORMAL, 2.0 / IN, 2 * 0.0816496580927726 / 0.87962566103423978, 0x0294e3bc8d844d23},
        {LS_INITIALIZER_LECUN_UNIFORM, 1.0 / IN, 0.1, 0xbe9e622fb7af947e},
        {LS_INITIALIZER_FAN_IN_UNIFORM, 1.0 / (3 * IN), 0.0577350269189626, 0x8c2aea55b9c7408b},
        {LS_INITIALIZER_LECUN_NORMAL, 1.0 / IN, 2 * 0.0577350269189626 / 0.87962566103423978, 0xac58a4e212ef6ceb},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        float *w = draw(known[i].initializer, 42, 1, 0);
        double sum = 0, squares = 0, largest = 0;
        for (int j = 0; j < COUNT; j++) {
            sum += w[j];
            squares += (double)w[j] * w[j];
            if (fabs(w[j]) > largest) largest = fabs(w[j]);
        }
        double deviation = sqrt(known[i].variance);
        assert_true(fabs(sum / COUNT) < 4 * deviation / sqrt(COUNT));       // four standard errors
        assert_true(fabs(squares / COUNT / known[i].variance - 1) < 0.02);  // about four as well
        assert_true(largest <= known[i].limit * (1 + 1e-6) && largest > 0.999 * known[i].limit);
        assert_int_equal(hash(w, COUNT), known[i].bits);
        free(w);
    }
    float *bias = draw(LS_INITIALIZER_DEFAULT, 42, 1, 1);
    for (int j = 0; j < OUT; j++) assert_true(bias[j] == 1.0f);
    free(bias);
}

static void draws_depend_on_seed_and_parameter_only(void **state) {
    float *a = draw(LS_INITIALIZER_HE_NORMAL, 1, 1, 0), *same = draw(LS_INITIALIZER_HE_NORMAL, 1, 3, 0);
    float *other_seed = draw(LS_INITIALIZER_HE_NORMAL, 2, 1, 0);
    assert_memory_equal(a, same, 1000 * sizeof *a);
    assert_memory_not_equal(a, other_seed, 1000 * sizeof *a);
    float *second = draw(LS_INITIALIZER_GLOROT_UNIFORM, 1, 3, 2), *third = draw(LS_INITIALIZER_GLOROT_UNIFORM, 1, 3, 4);
    int equal = 0;
    for (int i = 0; i < 1000; i++) equal += second[i] == third[i];
    assert_true(equal < 5);
    free(a), free(same), free(other_seed), free(second), free(third);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mnist_cnn_summary),
        cmocka_unit_test(every_model_builds),
        cmocka_unit_test(unfit_models),
        cmocka_unit_test(shapes_of_every_layer),
        cmocka_unit_test(names_are_keras_names),
        cmocka_unit_test(the_first_failure_is_kept),
        cmocka_unit_test(every_refusal_says_what_and_where),
        cmocka_unit_test(an_unknown_activation_is_named),
        cmocka_unit_test(what_kept_a_graph_open_is_not_hidden),
        cmocka_unit_test(a_finished_graph_stays_as_it_is),
        cmocka_unit_test(initializers_follow_keras),
        cmocka_unit_test(dirac_passes_channels_on),
        cmocka_unit_test(draws_depend_on_seed_and_parameter_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
