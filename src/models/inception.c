// Inception v3 as Keras's applications have it: automatic names, in the order in which Keras makes the layers.
//
// Source: Szegedy, Vanhoucke, Ioffe, Shlens, Wojna, "Rethinking the Inception architecture for computer vision", 2015, table 1;
// keras/src/applications/inception_v3.py.
#include <stdio.h>

#include "models/models.h"

typedef struct net {
    ls_graph *g;
    const ls_model_config *config;
} net;

static ls_value conv_of(const net *n, ls_value x, int filters, int height, int width, int stride, ls_padding padding) {
    x = ls_conv2d(n->g, x,
                  &(ls_conv2d_attrs){.filters = filters,
                                     .kernel = {height, width},
                                     .strides = {stride, stride},
                                     .padding = padding,
                                     .no_bias = 1});
    x = ls_batch_norm(n->g, x, &(ls_batch_norm_attrs){.momentum = ls__model_momentum(n->config, 0.99f), .no_scale = 1});
    return ls_activate(n->g, x, LS_ACTIVATION_RELU, NULL);
}

static ls_value conv(const net *n, ls_value x, int filters, int height, int width) {
    return conv_of(n, x, filters, height, width, 1, LS_PADDING_SAME);
}

// Every second pixel, without padding.
static ls_value conv_down(const net *n, ls_value x, int filters) {
    return conv_of(n, x, filters, 3, 3, 2, LS_PADDING_VALID);
}

static ls_value pool_down(const net *n, ls_value x) {
    return ls_max_pool2d(n->g, x, &(ls_pool2d_attrs){.size = {3, 3}, .strides = {2, 2}});
}

static ls_value pool_conv(const net *n, ls_value x, int filters) {
    x = ls_average_pool2d(n->g, x, &(ls_pool2d_attrs){.size = {3, 3}, .strides = {1, 1}, .padding = LS_PADDING_SAME});
    return conv(n, x, filters, 1, 1);
}

static ls_value concat(const net *n, const ls_value *x, int count, const char *name) {
    return ls_concat(n->g, x, count, &(ls_concat_attrs){.name = name});
}

static ls_value stem(const net *n, ls_value x) {
    x = conv_of(n, x, 32, 3, 3, 2, LS_PADDING_VALID);
    x = conv_of(n, x, 32, 3, 3, 1, LS_PADDING_VALID);
    x = conv(n, x, 64, 3, 3);
    x = pool_down(n, x);
    x = conv_of(n, x, 80, 1, 1, 1, LS_PADDING_VALID);
    x = conv_of(n, x, 192, 3, 3, 1, LS_PADDING_VALID);
    return pool_down(n, x);
}

// 35 x 35: a 5 x 5 beside two 3 x 3.
static ls_value block_35(const net *n, ls_value x, int pooled, const char *name) {
    ls_value b[4];
    b[0] = conv(n, x, 64, 1, 1);
    b[1] = conv(n, conv(n, x, 48, 1, 1), 64, 5, 5);
    b[2] = conv(n, conv(n, conv(n, x, 64, 1, 1), 96, 3, 3), 96, 3, 3);
    b[3] = pool_conv(n, x, pooled);
    return concat(n, b, 4, name);
}

static ls_value to_17(const net *n, ls_value x) {
    ls_value b[3];
    b[0] = conv_down(n, x, 384);
    b[1] = conv_down(n, conv(n, conv(n, x, 64, 1, 1), 96, 3, 3), 96);
    b[2] = pool_down(n, x);
    return concat(n, b, 3, "mixed3");
}

// 17 x 17: 7 x 7 taken apart, once and twice.
static ls_value block_17(const net *n, ls_value x, int inner, const char *name) {
    ls_value b[4];
    b[0] = conv(n, x, 192, 1, 1);
    b[1] = conv(n, conv(n, conv(n, x, inner, 1, 1), inner, 1, 7), 192, 7, 1);
    b[2] = conv(n, conv(n, conv(n, x, inner, 1, 1), inner, 7, 1), inner, 1, 7);
    b[2] = conv(n, conv(n, b[2], inner, 7, 1), 192, 1, 7);
    b[3] = pool_conv(n, x, 192);
    return concat(n, b, 4, name);
}

static ls_value to_8(const net *n, ls_value x) {
    ls_value b[3];
    b[0] = conv_down(n, conv(n, x, 192, 1, 1), 320);
    b[1] = conv(n, conv(n, conv(n, x, 192, 1, 1), 192, 1, 7), 192, 7, 1);
    b[1] = conv_down(n, b[1], 192);
    b[2] = pool_down(n, x);
    return concat(n, b, 3, "mixed8");
}

// A 1 x 3 beside a 3 x 1. In this order: names count.
static ls_value forked(const net *n, ls_value x, const char *name) {
    ls_value wide = conv(n, x, 384, 1, 3), high = conv(n, x, 384, 3, 1);
    return concat(n, (ls_value[]){wide, high}, 2, name);
}

static ls_value block_8(const net *n, ls_value x, const char *inner, const char *name) {
    ls_value b[4];
    b[0] = conv(n, x, 320, 1, 1);
    b[1] = forked(n, conv(n, x, 384, 1, 1), inner);
    b[2] = forked(n, conv(n, conv(n, x, 448, 1, 1), 384, 3, 3), NULL);
    b[3] = pool_conv(n, x, 192);
    return concat(n, b, 4, name);
}

static ls_value build(const ls_model *model, ls_graph *g, ls_value x, const ls_model_config *c) {
    const net n = {g, c};
    x = stem(&n, x);
    x = block_35(&n, x, 32, "mixed0");
    x = block_35(&n, x, 64, "mixed1");
    x = block_35(&n, x, 64, "mixed2");
    x = to_17(&n, x);
    x = block_17(&n, x, 128, "mixed4");
    x = block_17(&n, x, 160, "mixed5");
    x = block_17(&n, x, 160, "mixed6");
    x = block_17(&n, x, 192, "mixed7");
    x = to_8(&n, x);
    x = block_8(&n, x, "mixed9_0", "mixed9");
    x = block_8(&n, x, "mixed9_1", "mixed10");
    return c->include_top ? ls__model_top(g, x, c, "predictions") : ls__model_pooled(g, x, c, NULL, NULL);
}

const ls_model ls__model_inceptionv3 = {
    .name = "inceptionv3",
    .help = "Keras's InceptionV3",
    .input = {3, {299, 299, 3}},
    .classes = 1000,
    .least_side = 75,
    .has_features = 1,
    .imagenet_top1 = 77.9,
    .build = build,
};
