// ResNet-50, 101 and 152 as Keras's applications have them: layers, names, order of the layers, biases.
//
// Sources: He, Zhang, Ren, Sun, "Deep residual learning for image recognition", 2015 (table 1), and "Identity mappings in deep
// residual networks", 2016 (the v2: normalization and ReLU before the convolutions); keras/src/applications/resnet.py. Where
// the two differ Keras counts: strides are in the first convolution of a stack's first block, in v2 in the second convolution
// of its last.
#include <stdio.h>

#include "models/models.h"

enum { STACKS = 4 };

static ls_value norm(ls_graph *g, ls_value x, const char *block, const char *part, const ls_model_config *c) {
    char name[LS_LAYER_NAME];
    return ls_batch_norm(
        g, x,
        &(ls_batch_norm_attrs){
            .name = ls__layer_name(name, block, part), .momentum = ls__model_momentum(c, 0.99f), .epsilon = 1.001e-5f});
}

static ls_value relu(ls_graph *g, ls_value x, const char *block, const char *part) {
    char name[LS_LAYER_NAME];
    return ls_activate(g, x, LS_ACTIVATION_RELU, ls__layer_name(name, block, part));
}

static ls_value pad(ls_graph *g, ls_value x, const char *block, const char *part, int sides) {
    char name[LS_LAYER_NAME];
    return ls_zero_pad2d(
        g, x,
        &(ls_zero_pad2d_attrs){.name = ls__layer_name(name, block, part), .padding = {{sides, sides}, {sides, sides}}});
}

static ls_value conv(ls_graph *g, ls_value x, const char *block, const char *part, const ls_conv2d_attrs *attrs) {
    char name[LS_LAYER_NAME];
    ls_conv2d_attrs a = *attrs;
    a.name = ls__layer_name(name, block, part);
    return ls_conv2d(g, x, &a);
}

static ls_value conv_1x1(ls_graph *g, ls_value x, const char *block, const char *part, int filters, int stride) {
    return conv(g, x, block, part,
                &(ls_conv2d_attrs){.filters = filters, .kernel = {1, 1}, .strides = {stride, stride}});
}

// Down to a quarter of the image's side: what both versions begin with. Only v1 normalizes here.
static ls_value stem(ls_graph *g, ls_value x, int normalize, const ls_model_config *c) {
    x = pad(g, x, "conv1", "_pad", 3);
    x = conv(g, x, "conv1", "_conv", &(ls_conv2d_attrs){.filters = 64, .kernel = {7, 7}, .strides = {2, 2}});
    if (normalize) {
        x = norm(g, x, "conv1", "_bn", c);
        x = relu(g, x, "conv1", "_relu");
    }
    x = pad(g, x, "pool1", "_pad", 1);  // with zeros, which take part in the maximum
    return ls_max_pool2d(g, x, &(ls_pool2d_attrs){.name = "pool1_pool", .size = {3, 3}, .strides = {2, 2}});
}

// A block's layers stand in the order of Keras's model.layers, in which shortcut and main path alternate at the end.
static ls_value block_v1(ls_graph *g, ls_value x, const char *block, int filters, int stride, int projects,
                         const ls_model_config *c) {
    ls_value shortcut = x;
    x = conv_1x1(g, x, block, "_1_conv", filters, stride);
    x = norm(g, x, block, "_1_bn", c);
    x = relu(g, x, block, "_1_relu");
    x = conv(g, x, block, "_2_conv",
             &(ls_conv2d_attrs){.filters = filters, .kernel = {3, 3}, .padding = LS_PADDING_SAME});
    x = norm(g, x, block, "_2_bn", c);
    x = relu(g, x, block, "_2_relu");
    if (projects) shortcut = conv_1x1(g, shortcut, block, "_0_conv", 4 * filters, stride);
    x = conv_1x1(g, x, block, "_3_conv", 4 * filters, 1);
    if (projects) shortcut = norm(g, shortcut, block, "_0_bn", c);
    x = norm(g, x, block, "_3_bn", c);
    char name[LS_LAYER_NAME];
    x = ls_add(g, shortcut, x, ls__layer_name(name, block, "_add"));
    return relu(g, x, block, "_out");
}

static ls_value block_v2(ls_graph *g, ls_value x, const char *block, int filters, int stride, int projects,
                         const ls_model_config *c) {
    ls_value shortcut = x, preact;
    preact = norm(g, x, block, "_preact_bn", c);
    preact = relu(g, preact, block, "_preact_relu");
    x = conv(g, preact, block, "_1_conv", &(ls_conv2d_attrs){.filters = filters, .kernel = {1, 1}, .no_bias = 1});
    x = norm(g, x, block, "_1_bn", c);
    x = relu(g, x, block, "_1_relu");
    x = pad(g, x, block, "_2_pad", 1);
    x = conv(g, x, block, "_2_conv",
             &(ls_conv2d_attrs){.filters = filters, .kernel = {3, 3}, .strides = {stride, stride}, .no_bias = 1});
    x = norm(g, x, block, "_2_bn", c);
    x = relu(g, x, block, "_2_relu");
    if (projects)
        shortcut = conv_1x1(g, preact, block, "_0_conv", 4 * filters, stride);
    else if (stride > 1)
        shortcut = ls_max_pool2d(g, shortcut, &(ls_pool2d_attrs){.size = {1, 1}, .strides = {stride, stride}});
    x = conv_1x1(g, x, block, "_3_conv", 4 * filters, 1);
    char name[LS_LAYER_NAME];
    return ls_add(g, shortcut, x, ls__layer_name(name, block, "_out"));
}

static ls_value build_v1(const ls_model *model, ls_graph *g, ls_value x, const ls_model_config *c) {
    x = stem(g, x, 1, c);
    for (int stack = 0; stack < STACKS; stack++)
        for (int i = 0; i < model->blocks[stack]; i++) {
            char block[40];
            snprintf(block, sizeof block, "conv%d_block%d", stack + 2, i + 1);
            x = block_v1(g, x, block, 64 << stack, i == 0 && stack > 0 ? 2 : 1, i == 0, c);
        }
    return ls__model_top(g, x, c, "predictions");
}

static ls_value build_v2(const ls_model *model, ls_graph *g, ls_value x, const ls_model_config *c) {
    x = stem(g, x, 0, c);
    for (int stack = 0; stack < STACKS; stack++)
        for (int i = 0; i < model->blocks[stack]; i++) {
            char block[40];
            snprintf(block, sizeof block, "conv%d_block%d", stack + 2, i + 1);
            int last = i == model->blocks[stack] - 1;
            x = block_v2(g, x, block, 64 << stack, last && stack < STACKS - 1 ? 2 : 1, i == 0, c);
        }
    x = norm(g, x, "post", "_bn", c);
    x = relu(g, x, "post", "_relu");
    return ls__model_top(g, x, c, "predictions");
}

#define RESNET(member, version, keras, top1, ...)                                                                      \
    const ls_model ls__model_##member = {                                                                              \
        .name = #member,                                                                                               \
        .help = "Keras's " keras,                                                                                      \
        .input = {3, {224, 224, 3}},                                                                                   \
        .classes = 1000,                                                                                               \
        .least_side = 32,                                                                                              \
        .has_features = 1,                                                                                             \
        .imagenet_top1 = top1,                                                                                         \
        .blocks = (const int[STACKS]){__VA_ARGS__},                                                                    \
        .build = build_##version,                                                                                      \
    }

RESNET(resnet50, v1, "ResNet50", 74.9, 3, 4, 6, 3);
RESNET(resnet101, v1, "ResNet101", 76.4, 3, 4, 23, 3);
RESNET(resnet152, v1, "ResNet152", 76.6, 3, 8, 36, 3);
RESNET(resnet50v2, v2, "ResNet50V2", 76.0, 3, 4, 6, 3);
RESNET(resnet101v2, v2, "ResNet101V2", 77.2, 3, 4, 23, 3);
RESNET(resnet152v2, v2, "ResNet152V2", 78.0, 3, 8, 36, 3);
