// Xception as Keras's applications have it.
//
// Source: Chollet, "Xception: deep learning with depthwise separable convolutions", 2016, figure 5; keras/src/applications/xception.py.
#include <stdio.h>

#include "models/models.h"

static ls_value norm(ls_graph *g, ls_value x, const char *name, const ls_model_config *c) {
    return ls_batch_norm(g, x, &(ls_batch_norm_attrs){.name = name, .momentum = ls__model_momentum(c, 0.99f)});
}

static ls_value relu(ls_graph *g, ls_value x, const char *block, const char *part) {
    char name[LS_LAYER_NAME];
    return ls_activate(g, x, LS_ACTIVATION_RELU, ls__layer_name(name, block, part));
}

static ls_value conv(ls_graph *g, ls_value x, const char *block, int filters, int stride, const ls_model_config *c) {
    char name[LS_LAYER_NAME];
    x = ls_conv2d(g, x,
                  &(ls_conv2d_attrs){
                      .name = block, .filters = filters, .kernel = {3, 3}, .strides = {stride, stride}, .no_bias = 1});
    return relu(g, norm(g, x, ls__layer_name(name, block, "_bn"), c), block, "_act");
}

// block2_sepconv1 and its normalization.
static ls_value separable(ls_graph *g, ls_value x, const char *block, int i, int filters, const ls_model_config *c) {
    char part[40], name[LS_LAYER_NAME];
    snprintf(part, sizeof part, "%s_sepconv%d", block, i);
    x = ls_separable_conv2d(
        g, x,
        &(ls_separable_conv2d_attrs){
            .name = part, .filters = filters, .kernel = {3, 3}, .padding = LS_PADDING_SAME, .no_bias = 1});
    return norm(g, x, ls__layer_name(name, part, "_bn"), c);
}

// Two separable convolutions and a pooling, beside a projection of what comes in. The first block is without the first ReLU.
static ls_value down(ls_graph *g, ls_value x, const char *block, int first, int filters, int relus,
                     const ls_model_config *c) {
    char name[LS_LAYER_NAME];
    ls_value shortcut = ls_conv2d(
        g, x,
        &(ls_conv2d_attrs){
            .filters = filters, .kernel = {1, 1}, .strides = {2, 2}, .padding = LS_PADDING_SAME, .no_bias = 1});
    shortcut = norm(g, shortcut, NULL, c);
    if (relus == 2) x = relu(g, x, block, "_sepconv1_act");
    x = separable(g, x, block, 1, first, c);
    x = relu(g, x, block, "_sepconv2_act");
    x = separable(g, x, block, 2, filters, c);
    x = ls_max_pool2d(g, x,
                      &(ls_pool2d_attrs){.name = ls__layer_name(name, block, "_pool"),
                                         .size = {3, 3},
                                         .strides = {2, 2},
                                         .padding = LS_PADDING_SAME});
    return ls_add(g, x, shortcut, NULL);
}

static ls_value middle(ls_graph *g, ls_value x, const char *block, const ls_model_config *c) {
    ls_value shortcut = x;
    for (int i = 1; i <= 3; i++) {
        char act[40];
        snprintf(act, sizeof act, "_sepconv%d_act", i);
        x = relu(g, x, block, act);
        x = separable(g, x, block, i, 728, c);
    }
    return ls_add(g, x, shortcut, NULL);
}

static ls_value build(const ls_model *model, ls_graph *g, ls_value x, const ls_model_config *c) {
    x = conv(g, x, "block1_conv1", 32, 2, c);
    x = conv(g, x, "block1_conv2", 64, 1, c);
    x = down(g, x, "block2", 128, 128, 1, c);
    x = down(g, x, "block3", 256, 256, 2, c);
    x = down(g, x, "block4", 728, 728, 2, c);
    for (int i = 5; i <= 12; i++) {
        char block[40];
        snprintf(block, sizeof block, "block%d", i);
        x = middle(g, x, block, c);
    }
    x = down(g, x, "block13", 728, 1024, 2, c);
    x = separable(g, x, "block14", 1, 1536, c);
    x = relu(g, x, "block14", "_sepconv1_act");
    x = separable(g, x, "block14", 2, 2048, c);
    x = relu(g, x, "block14", "_sepconv2_act");
    return c->include_top ? ls__model_top(g, x, c, "predictions") : ls__model_pooled(g, x, c, NULL, NULL);
}

const ls_model ls__model_xception = {
    .name = "xception",
    .help = "Keras's Xception",
    .input = {3, {299, 299, 3}},
    .classes = 1000,
    .least_side = 71,
    .has_features = 1,
    .imagenet_top1 = 79.0,
    .build = build,
};
