// DenseNet-121, 169 and 201 as Keras's applications have them: every layer of a dense block reads what all before it gave.
//
// Source: Huang, Liu, van der Maaten, Weinberger, "Densely connected convolutional networks", 2016, table 1, with growth 32;
// keras/src/applications/densenet.py.
#include <stdio.h>

#include "models/models.h"

enum { BLOCKS = 4, GROWTH = 32 };

static ls_value norm_relu(ls_graph *g, ls_value x, const char *block, const char *norm, const char *relu,
                          const ls_model_config *c) {
    char name[LS_LAYER_NAME];
    x = ls_batch_norm(
        g, x,
        &(ls_batch_norm_attrs){
            .name = ls__layer_name(name, block, norm), .momentum = ls__model_momentum(c, 0.99f), .epsilon = 1.001e-5f});
    return ls_activate(g, x, LS_ACTIVATION_RELU, ls__layer_name(name, block, relu));
}

static ls_value conv(ls_graph *g, ls_value x, const char *block, const char *part, int filters, int side) {
    char name[LS_LAYER_NAME];
    return ls_conv2d(g, x,
                     &(ls_conv2d_attrs){.name = ls__layer_name(name, block, part),
                                        .filters = filters,
                                        .kernel = {side, side},
                                        .padding = LS_PADDING_SAME,
                                        .no_bias = 1});
}

static ls_value stem(ls_graph *g, ls_value x, const ls_model_config *c) {
    x = ls_zero_pad2d(g, x, &(ls_zero_pad2d_attrs){.padding = {{3, 3}, {3, 3}}});
    x = ls_conv2d(
        g, x,
        &(ls_conv2d_attrs){.name = "conv1_conv", .filters = 64, .kernel = {7, 7}, .strides = {2, 2}, .no_bias = 1});
    x = norm_relu(g, x, "conv1", "_bn", "_relu", c);
    x = ls_zero_pad2d(g, x, &(ls_zero_pad2d_attrs){.padding = {{1, 1}, {1, 1}}});
    return ls_max_pool2d(g, x, &(ls_pool2d_attrs){.name = "pool1", .size = {3, 3}, .strides = {2, 2}});
}

static ls_value dense_layer(ls_graph *g, ls_value x, const char *block, const ls_model_config *c) {
    char name[LS_LAYER_NAME];
    ls_value y = norm_relu(g, x, block, "_0_bn", "_0_relu", c);
    y = conv(g, y, block, "_1_conv", 4 * GROWTH, 1);
    y = norm_relu(g, y, block, "_1_bn", "_1_relu", c);
    y = conv(g, y, block, "_2_conv", GROWTH, 3);
    return ls_concat(g, (ls_value[]){x, y}, 2, &(ls_concat_attrs){.name = ls__layer_name(name, block, "_concat")});
}

// Half of the channels, a quarter of the pixels.
static ls_value transition(ls_graph *g, ls_value x, const char *block, int channels, const ls_model_config *c) {
    char name[LS_LAYER_NAME];
    x = norm_relu(g, x, block, "_bn", "_relu", c);
    x = conv(g, x, block, "_conv", channels / 2, 1);
    return ls_average_pool2d(
        g, x, &(ls_pool2d_attrs){.name = ls__layer_name(name, block, "_pool"), .size = {2, 2}, .strides = {2, 2}});
}

static ls_value build(const ls_model *model, ls_graph *g, ls_value x, const ls_model_config *c) {
    char block[40];
    int channels = 64;
    x = stem(g, x, c);
    for (int b = 0; b < BLOCKS; b++) {
        for (int i = 0; i < model->blocks[b]; i++, channels += GROWTH) {
            snprintf(block, sizeof block, "conv%d_block%d", b + 2, i + 1);
            x = dense_layer(g, x, block, c);
        }
        if (b == BLOCKS - 1) break;
        snprintf(block, sizeof block, "pool%d", b + 2);
        x = transition(g, x, block, channels, c);
        channels /= 2;
    }
    x = norm_relu(g, x, "", "bn", "relu", c);
    return ls__model_top(g, x, c, "predictions");
}

#define DENSENET(member, keras, top1, ...)                                                                             \
    const ls_model ls__model_##member = {                                                                              \
        .name = #member,                                                                                               \
        .help = "Keras's " keras,                                                                                      \
        .input = {3, {224, 224, 3}},                                                                                   \
        .classes = 1000,                                                                                               \
        .least_side = 32,                                                                                              \
        .has_features = 1,                                                                                             \
        .imagenet_top1 = top1,                                                                                         \
        .blocks = (const int[BLOCKS]){__VA_ARGS__},                                                                    \
        .build = build,                                                                                                \
    }

DENSENET(densenet121, "DenseNet121", 75.0, 6, 12, 24, 16);
DENSENET(densenet169, "DenseNet169", 76.2, 6, 12, 32, 32);
DENSENET(densenet201, "DenseNet201", 77.3, 6, 12, 48, 32);
