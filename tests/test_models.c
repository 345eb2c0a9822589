// The built-in networks: that they are what their sources say, and what can be asked of them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/graph.h>

#include "base/error.h"
#include "graph/graph.h"
#include "models/models.h"

static ls_graph *model(const char *name, ls_shape input, int classes) {
    ls_graph *g;
    if (ls_model_create(name, input, classes, &g) != LS_OK) fail_msg("%s: %s", name, ls_error_message());
    return g;
}

static void add_shape(FILE *out, ls_shape shape) {
    for (int i = 0; i < shape.ndim; i++) fprintf(out, "%s%lld", i ? ", " : " (", (long long)shape.dim[i]);
    fputs(")", out);
}

// The network as text, in the form of tests/golden/make_keras_layers.py.
static char *text_of(const ls_graph *g) {
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    for (int i = 0; i < g->node_count; i++) {
        const ls_node *n = &g->nodes[i];
        fprintf(out, "%s %s", n->name, ls__op_find(n->op)->keras_class);
        add_shape(out, n->output[0].shape);
        for (int k = 0; k < n->input_count; k++) fprintf(out, " %s", ls__value_node(g, n->inputs[k])->name);
        fputc('\n', out);
    }
    for (int i = 0; i < g->store->count; i++) {
        fputs(g->store->params[i].name, out);
        add_shape(out, g->store->params[i].shape);
        fputc('\n', out);
    }
    fclose(out);
    return text;
}

static uint64_t hash(const char *text) {
    uint64_t h = 14695981039346656037u;
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

static const ls_node *node(const ls_graph *g, const char *name) {
    for (int i = 0; i < g->node_count; i++)
        if (strcmp(g->nodes[i].name, name) == 0) return &g->nodes[i];
    fail_msg("%s has no layer %s", g->name, name);
    return NULL;
}

static ls_shape shape_of(const ls_graph *g, const char *name) { return node(g, name)->output[0].shape; }
static const ls_conv2d_attrs *conv(const ls_graph *g, const char *name) {
    return LS_ATTRS(ls_conv2d_attrs, &node(g, name)->attrs);
}
static const ls_batch_norm_attrs *norm(const ls_node *n) { return LS_ATTRS(ls_batch_norm_attrs, &n->attrs); }

static int count_of(const ls_graph *g, ls_op_kind op) {
    int n = 0;
    for (int i = 0; i < g->node_count; i++) n += g->nodes[i].op == op;
    return n;
}

// Layers, names, order, shapes, connections and weights: the table is printed by tests/golden/make_keras_layers.py.
static void resnets_are_those_of_keras(void **state) {
    static const struct {
        const char *name;
        int64_t parameters, fixed;
        int layers;
        uint64_t text;
    } keras[] = {
        {"resnet50", 25636712, 53120, 177, 0x1b54157e8eb0583e},
        {"resnet101", 44707176, 105344, 347, 0x90d7d5c465e0d9be},
        {"resnet152", 60419944, 151424, 517, 0x297e71a596da03c0},
        {"resnet50v2", 25613800, 45440, 192, 0xbbea43b04ffd25de},
        {"resnet101v2", 44675560, 97664, 379, 0x5d9750ba5e50fb33},
        {"resnet152v2", 60380648, 143744, 566, 0x1008543edfd08625},
    };
    for (size_t i = 0; i < sizeof keras / sizeof keras[0]; i++) {
        ls_graph *g = model(keras[i].name, (ls_shape){0}, 0);
        assert_int_equal(ls_graph_parameter_count(g), keras[i].parameters);
        assert_int_equal(ls_graph_parameter_count(g) - ls_graph_trainable_parameter_count(g), keras[i].fixed);
        assert_int_equal(g->node_count, keras[i].layers);
        char *text = text_of(g);
        if (hash(text) != keras[i].text) fail_msg("%s is another network than Keras's:\n%.2000s", keras[i].name, text);
        free(text);
        ls_graph_destroy(&g);
    }
}

// What the text does not say: paddings, strides, biases, constants, initial values.
static void resnets_have_keras_attributes(void **state) {
    ls_graph *g = model("resnet50v2", LS_SHAPE(128, 128, 3), 10);
    assert_int_equal(ls_graph_parameter_count(g), 23585290);
    assert_int_equal(ls_graph_trainable_parameter_count(g), 23539850);
    assert_int_equal(ls_graph_classes(g), 10);
    for (int i = 0; i < g->node_count; i++) {
        const ls_node *n = &g->nodes[i];
        if (n->op != LS_OP_BATCH_NORM) continue;
        assert_true(norm(n)->epsilon == 1.001e-5f && norm(n)->momentum == 0.99f);
    }
    for (int i = 0; i < g->store->count; i++) {
        const ls_param *p = &g->store->params[i];
        if (p->role == LS_PARAM_KERNEL) assert_int_equal(p->initializer, LS_INITIALIZER_GLOROT_UNIFORM);
        if (strstr(p->name, "_conv/bias")) assert_int_equal(p->initializer, LS_INITIALIZER_ZEROS);
    }
    for (int k = 0; k < 4; k++) {
        const ls_attrs *one = &node(g, "conv1_pad")->attrs, *other = &node(g, "pool1_pad")->attrs;
        assert_int_equal(LS_ATTRS(ls_zero_pad2d_attrs, one)->padding[k / 2][k % 2], 3);
        assert_int_equal(LS_ATTRS(ls_zero_pad2d_attrs, other)->padding[k / 2][k % 2], 1);
    }
    const ls_pool2d_attrs *pool = LS_ATTRS(ls_pool2d_attrs, &node(g, "max_pooling2d_1")->attrs);
    assert_int_equal(pool->size[0] * pool->size[1], 1);
    assert_int_equal(pool->strides[0], 2);
    assert_true(ls_shape_equal(shape_of(g, "max_pooling2d_1"), LS_SHAPE(8, 8, 512)));
    assert_int_equal(conv(g, "conv4_block6_2_conv")->strides[1], 2);
    assert_int_equal(conv(g, "conv5_block3_2_conv")->strides[1], 1);
    ls_graph_destroy(&g);
    g = model("resnet50", (ls_shape){0}, 0);
    assert_int_equal(conv(g, "conv3_block1_1_conv")->strides[0], 2);
    assert_int_equal(conv(g, "conv3_block1_0_conv")->strides[0], 2);
    assert_int_equal(conv(g, "conv3_block1_2_conv")->strides[0], 1);
    ls_graph_destroy(&g);
}

// He et al., 2015, table 6, and 6n + 2 layers with weights but for the shortcuts'.
static void resnets_for_small_images(void **state) {
    static const struct {
        const char *name;
        int depth;
        int64_t trainable, fixed;
    } known[] = {
        {"resnet20", 20, 272762, 1600},      {"resnet32", 32, 467194, 2496},    {"resnet44", 44, 661626, 3392},
        {"resnet56", 56, 856058, 4288},      {"resnet110", 110, 1731002, 8320}, {"resnet20v2", 20, 272282, 1376},
        {"resnet32v2", 32, 466714, 2272},    {"resnet44v2", 44, 661146, 3168},  {"resnet56v2", 56, 855578, 4064},
        {"resnet110v2", 110, 1730522, 8096},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        ls_graph *g = model(known[i].name, (ls_shape){0}, 0);
        int v2 = strstr(known[i].name, "v2") != NULL, shortcuts = v2 ? 2 : 3;
        assert_int_equal(ls_graph_trainable_parameter_count(g), known[i].trainable);
        assert_int_equal(ls_graph_parameter_count(g), known[i].trainable + known[i].fixed);
        assert_int_equal(count_of(g, LS_OP_CONV2D) + count_of(g, LS_OP_DENSE), known[i].depth + shortcuts);
        assert_true(ls_shape_equal(shape_of(g, "avg_pool"), LS_SHAPE(64)));
        for (int k = 0; k < g->store->count; k++) {
            const ls_param *p = &g->store->params[k];
            if (p->shape.ndim == 4) assert_int_equal(p->initializer, LS_INITIALIZER_HE_NORMAL);
        }
        for (int k = 0; k < g->node_count; k++) {
            const ls_node *n = &g->nodes[k];
            if (n->op == LS_OP_CONV2D) assert_int_equal(LS_ATTRS(ls_conv2d_attrs, &n->attrs)->no_bias, 1);
            if (n->op == LS_OP_BATCH_NORM) assert_true(norm(n)->epsilon == 1e-5f && norm(n)->momentum == 0.997f);
        }
        ls_graph_destroy(&g);
    }
}

// TensorFlow's resnet_cifar_model.py, around the beginning of its second stage.
static void a_small_resnet_has_the_official_names(void **state) {
    static const char expected[] =
        "res3block_0_branch2a Conv2D (16, 16, 32) activation_18\n"
        "bn3block_0_branch2a BatchNormalization (16, 16, 32) res3block_0_branch2a\n"
        "activation_19 Activation (16, 16, 32) bn3block_0_branch2a\n"
        "res3block_0_branch2b Conv2D (16, 16, 32) activation_19\n"
        "res3block_0_branch1 Conv2D (16, 16, 32) activation_18\n"
        "bn3block_0_branch2b BatchNormalization (16, 16, 32) res3block_0_branch2b\n"
        "bn3block_0_branch1 BatchNormalization (16, 16, 32) res3block_0_branch1\n"
        "add_9 Add (16, 16, 32) bn3block_0_branch2b bn3block_0_branch1\n"
        "activation_20 Activation (16, 16, 32) add_9\n"
        "res3block_1_branch2a Conv2D (16, 16, 32) activation_20\n";
    static const char expected_v2[] =
        "bn3block_0_branch2a BatchNormalization (32, 32, 16) add_8\n"
        "activation_18 Activation (32, 32, 16) bn3block_0_branch2a\n"
        "res3block_0_branch2a Conv2D (16, 16, 32) activation_18\n"
        "bn3block_0_branch2b BatchNormalization (16, 16, 32) res3block_0_branch2a\n"
        "activation_19 Activation (16, 16, 32) bn3block_0_branch2b\n"
        "res3block_0_branch2b Conv2D (16, 16, 32) activation_19\n"
        "res3block_0_branch1 Conv2D (16, 16, 32) activation_18\n"
        "add_9 Add (16, 16, 32) res3block_0_branch2b res3block_0_branch1\n"
        "bn3block_1_branch2a BatchNormalization (16, 16, 32) add_9\n";
    for (int v2 = 0; v2 < 2; v2++) {
        ls_graph *g = model(v2 ? "resnet56v2" : "resnet56", (ls_shape){0}, 0);
        char *text = text_of(g);
        if (!strstr(text, v2 ? expected_v2 : expected)) fail_msg("the stage begins otherwise:\n%s", text);
        assert_non_null(
            strstr(text, "conv1_pad ZeroPadding2D (34, 34, 3) input\nconv1 Conv2D (32, 32, 16) conv1_pad\n"));
        assert_non_null(strstr(text, "fc10 Dense (10) avg_pool\n"));
        free(text);
        ls_graph_destroy(&g);
    }
}

// The parts of Keras's table of ResNet50V2 where something happens.
static void a_summary_shows_connections(void **state) {
    static const char *const parts[] = {
        "Model: \"resnet50v2\"\n",
        "\n Layer (type)                                 Output Shape           Param #     Connected to\n",
        "\n input (InputLayer)                           [(None, 224, 224, 3)]  0           []\n"
        " conv1_pad (ZeroPadding2D)                    (None, 230, 230, 3)    0           ['input[0][0]']\n"
        " conv1_conv (Conv2D)                          (None, 112, 112, 64)   9472        ['conv1_pad[0][0]']\n",
        "\n conv2_block1_0_conv (Conv2D)                 (None, 56, 56, 256)    16640       "
        "['conv2_block1_preact_relu[0][0]']\n"
        " conv2_block1_3_conv (Conv2D)                 (None, 56, 56, 256)    16640       "
        "['conv2_block1_2_relu[0][0]']\n"
        " conv2_block1_out (Add)                       (None, 56, 56, 256)    0           "
        "['conv2_block1_0_conv[0][0]',\n"
        "                                                                                  "
        "'conv2_block1_3_conv[0][0]']\n"
        " conv2_block2_preact_bn (BatchNormalization)  (None, 56, 56, 256)    1024        ['conv2_block1_out[0][0]']\n",
        "\nTotal params: 25,613,800\nTrainable params: 25,568,360\nNon-trainable params: 45,440\n",
    };
    ls_graph *g = model("resnet50v2", (ls_shape){0}, 0);
    char *text;
    assert_int_equal(ls_graph_summary(g, &text), LS_OK);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!strstr(text, parts[i])) fail_msg("the summary lacks\n%s", parts[i]);
    free(text);
    ls_graph_destroy(&g);
}

static ls_graph *without_top(const char *pooling) {
    ls_graph *g;
    ls_model_config config;
    ls_model_config_init(&config);
    config.input = LS_SHAPE(64, 96, 1);
    config.include_top = 0;
    config.pooling = pooling;
    assert_int_equal(ls_model_build("resnet50v2", &config, &g), LS_OK);
    assert_int_equal(ls_graph_classes(g), 0);
    assert_int_equal(ls_graph_check_classifier(g), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(ls_error_message(), "resnet50v2 was built without its top"));
    return g;
}

// include_top=False, as Keras does it with its three kinds of pooling.
static void a_network_without_its_top(void **state) {
    ls_graph *g = without_top("none");
    assert_string_equal(ls_graph_output_at(g, 0).name, "post_relu");
    assert_true(ls_shape_equal(ls_graph_output_at(g, 0).shape, LS_SHAPE(2, 3, 2048)));
    assert_int_equal(ls_graph_parameter_count(g),
                     23564800 - 2 * 7 * 7 * 64);  // of images with one channel instead of three
    ls_graph_destroy(&g);
    g = without_top("avg");
    assert_string_equal(ls_graph_output_at(g, 0).name, "avg_pool");
    assert_true(ls_shape_equal(ls_graph_output_at(g, 0).shape, LS_SHAPE(2048)));
    ls_graph_destroy(&g);
    g = without_top("max");
    assert_string_equal(ls_graph_output_at(g, 0).name, "max_pool");
    assert_int_equal(ls__value_node(g, g->outputs[0].value)->op, LS_OP_GLOBAL_MAX_POOL2D);
    ls_graph_destroy(&g);
}

static void refuse(const char *name, const ls_model_config *config, const char *sentence) {
    ls_graph *g;
    assert_int_equal(ls_model_build(name, config, &g), LS_STATUS_INVALID_ARGUMENT);
    assert_null(g);
    assert_string_equal(ls_error_message(), sentence);
}

static void what_cannot_be_asked_for(void **state) {
    ls_model_config c;
    ls_model_config_init(&c);
    c.input = LS_SHAPE(28, 28, 1);
    refuse("resnet50v2", &c,
           "resnet50v2 takes images of at least 32x32, and these are 28x28: resize them to 32x32 or "
           "more");
    c.input = LS_SHAPE(224, 31, 3);
    refuse("resnet152", &c,
           "resnet152 takes images of at least 32x32, and these are 224x31: resize them to 32x32 or "
           "more");
    c.input = LS_SHAPE(30, 28, 1);
    refuse("autoencoder", &c,
           "autoencoder takes images whose sides 4 divides, and these are 30x28: the next larger ones are 32x28");
    refuse("vae", &c, "vae takes images whose sides 4 divides, and these are 30x28: the next larger ones are 32x28");
    c.input = LS_SHAPE(4, 32, 33, 1);
    refuse("frame-prediction", &c,
           "frame-prediction takes clips whose sides 4 divides, and these are 32x33: the next larger ones are 32x36");
    c.input = LS_SHAPE(784);
    refuse(
        "resnet20", &c,
        "resnet20 cannot be built: conv1_pad: a ZeroPadding2D layer works on images (None, H, W, C), but its input has "
        "shape (None, 784)");
    ls_model_config_init(&c);
    c.pooling = "avg";
    refuse("resnet50", &c,
           "resnet50: pooling avg is for a network without its classifier: ask for that too, or for no pooling");
    c.pooling = "min";
    refuse("resnet50", &c, "resnet50: unknown pooling 'min': there are none, avg and max");
    ls_model_config_init(&c);
    c.include_top = 0;
    refuse("mnist-cnn", &c,
           "mnist-cnn has no features without its classifier: networks of ImageNet and of CIFAR-10 have them");
    ls_model_config_init(&c);
    c.classes = -1;
    refuse("resnet50", &c, "resnet50: a network tells at least 1 class apart, not -1");
    ls_model_config_init(&c);
    c.classifier_activation = "relu";
    refuse("resnet50", &c, "resnet50: unknown classifier activation 'relu': there are softmax and none");
    c.classifier_activation = NULL;
    refuse("resnet50", &c, "resnet50: unknown classifier activation '': there are softmax and none");
}

// In every batch normalization: what a step's statistics are mixed into (the parameters), and what the layer says of itself.
static void moving_statistics_can_be_faster(void **state) {
    ls_model_config c;
    ls_model_config_init(&c);
    c.batch_norm_momentum = 0.9;
    const char *const names[] = {"resnet50v2", "resnet20"};
    for (int i = 0; i < 2; i++) {
        ls_graph *g;
        int statistics = 0;
        assert_int_equal(ls_model_build(names[i], &c, &g), LS_OK);
        for (int k = 0; k < g->node_count; k++)
            if (g->nodes[k].op == LS_OP_BATCH_NORM) assert_true(norm(&g->nodes[k])->momentum == 0.9f);
        for (int k = 0; k < g->store->count; k++) {
            if (g->store->params[k].role != LS_PARAM_STATISTIC) continue;
            assert_true(g->store->params[k].momentum == 0.9f);
            statistics++;
        }
        assert_int_equal(statistics, 2 * count_of(g, LS_OP_BATCH_NORM));
        ls_graph_destroy(&g);
    }
    refuse("mnist-cnn", &c, "mnist-cnn has no batch normalization: leave its momentum out");
    c.batch_norm_momentum = 1;
    refuse("resnet20", &c, "resnet20: a momentum of batch normalization lies between 0 and 1, not at 1");
}

static void frame_prediction(void **state) {
    ls_graph *g = model("frame-prediction", (ls_shape){0}, 0);
    assert_int_equal(ls_graph_parameter_count(g), 304353);
    assert_int_equal(ls_graph_trainable_parameter_count(g), 304353 - 2 * 224);
    assert_true(ls_shape_equal(shape_of(g, "conv3d_3"), LS_SHAPE(4, 8, 8, 64)));
    assert_true(ls_shape_equal(shape_of(g, "conv3d_4"), LS_SHAPE(4, 32, 32, 1)));
    assert_true(ls_shape_equal(shape_of(g, "conv3d_transpose_1"), LS_SHAPE(4, 32, 32, 16)));
    ls_graph_destroy(&g);
    g = model("frame-prediction", LS_SHAPE(5, 16, 24, 3), 0);
    assert_true(ls_shape_equal(ls_graph_output_at(g, 0).shape, LS_SHAPE(5, 16, 24, 3)));
    ls_graph_destroy(&g);
    assert_int_equal(ls_model_create("frame-prediction", LS_SHAPE(28, 28, 1), 0, &g), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(
        strstr(ls_error_message(), "works on volumes or clips (None, D, H, W, C), but its input has shape"));
    assert_int_equal(ls_model_create("frame-prediction", LS_SHAPE(4, 30, 30, 1), 0, &g), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(ls_error_message(), "takes clips whose sides 4 divides, and these are 30x30"));
}

static void unknown_models(void **state) {
    ls_graph *g;
    assert_int_equal(ls_model_create("resnet50v3", (ls_shape){0}, 0, &g), LS_STATUS_NOT_FOUND);
    assert_null(g);
    assert_non_null(strstr(ls_error_message(),
                           "there is no model named \"resnet50v3\" (did you mean resnet50v2?); the models "
                           "are mnist-cnn, mnist-mlp, mnist-linear, lenet5, resnet20, "));
    assert_non_null(strstr(ls_error_message(), ", resnet152v2"));
    assert_int_equal(ls_model_create("perceptron", (ls_shape){0}, 0, &g), LS_STATUS_NOT_FOUND);
    assert_null(strstr(ls_error_message(), "did you mean"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resnets_are_those_of_keras),
        cmocka_unit_test(frame_prediction),
        cmocka_unit_test(resnets_have_keras_attributes),
        cmocka_unit_test(resnets_for_small_images),
        cmocka_unit_test(a_small_resnet_has_the_official_names),
        cmocka_unit_test(a_summary_shows_connections),
        cmocka_unit_test(a_network_without_its_top),
        cmocka_unit_test(what_cannot_be_asked_for),
        cmocka_unit_test(moving_statistics_can_be_faster),
        cmocka_unit_test(unknown_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
