// EfficientNet B0 to B2 as Keras's applications have them (weights=None).
//
// Source: Tan and Le, "EfficientNet: rethinking model scaling for convolutional neural networks", 2019, tables 1 and 8;
// keras/src/applications/efficientnet.py. They take pixels from 0 to 255: rescaling and normalization are their first layers.
#include <math.h>
#include <stdio.h>

#include "models/models.h"

// Stages of B0: filters, blocks, stride, how much wider a block is inside, kernel.
static const struct {
    int filters, repeats, stride, expand, kernel;
} stages[] = {{16, 1, 1, 1, 3},  {24, 2, 2, 6, 3},  {40, 2, 2, 6, 5}, {80, 3, 2, 6, 3},
              {112, 3, 1, 6, 5}, {192, 4, 2, 6, 5}, {320, 1, 1, 6, 3}};
enum { STAGES = sizeof stages / sizeof stages[0] };

// A member is told by its number: width and depth, in tenths, and the dropout before the classifier, in tenths.
static const int scaling[][3] = {{10, 10, 2}, {10, 11, 2}, {11, 12, 3}};

typedef struct net {
    ls_graph *g;
    const ls_model_config *config;
} net;

// Filters times the width, to a multiple of 8 that is not less by more than a tenth.
static int widened(int filters, int tenths) {
    int scaled = filters * tenths, rounded = (scaled + 40) / 80 * 8;
    if (rounded < 8) rounded = 8;
    return 100 * rounded < 9 * scaled ? rounded + 8 : rounded;
}

static int deepened(int repeats, int tenths) { return (repeats * tenths + 9) / 10; }

static ls_value norm(const net *n, ls_value x, const char *block, const char *part, const char *activation) {
    char name[LS_LAYER_NAME];
    x = ls_batch_norm(n->g, x,
                      &(ls_batch_norm_attrs){.name = ls__layer_name(name, block, part),
                                             .momentum = ls__model_momentum(n->config, 0.99f)});
    return activation ? ls_activate(n->g, x, LS_ACTIVATION_SILU, ls__layer_name(name, block, activation)) : x;
}

static ls_value conv_1x1(const net *n, ls_value x, const char *block, const char *part, int filters, int bias,
                         ls_activation activation) {
    char name[LS_LAYER_NAME];
    return ls_conv2d(n->g, x,
                     &(ls_conv2d_attrs){.name = ls__layer_name(name, block, part),
                                        .filters = filters,
                                        .kernel = {1, 1},
                                        .padding = LS_PADDING_SAME,
                                        .activation = activation,
                                        .no_bias = !bias,
                                        .kernel_initializer = LS_INITIALIZER_HE_NORMAL_FAN_OUT});
}

static ls_value pad(const net *n, ls_value x, const char *block, const char *part, int kernel) {
    char name[LS_LAYER_NAME];
    ls_zero_pad2d_attrs a = {.name = ls__layer_name(name, block, part)};
    ls__model_correct_pad(n->g, x, kernel, a.padding);
    return ls_zero_pad2d(n->g, x, &a);
}

static ls_value stem(const net *n, ls_value x, int filters) {
    x = ls_rescaling(n->g, x, &(ls_rescaling_attrs){.scale = 1 / 255.0});
    x = ls_normalize(n->g, x, NULL);
    x = pad(n, x, "stem", "_conv_pad", 3);
    x = ls_conv2d(n->g, x,
                  &(ls_conv2d_attrs){.name = "stem_conv",
                                     .filters = filters,
                                     .kernel = {3, 3},
                                     .strides = {2, 2},
                                     .no_bias = 1,
                                     .kernel_initializer = LS_INITIALIZER_HE_NORMAL_FAN_OUT});
    return norm(n, x, "stem", "_bn", "_activation");
}

// Squeeze and excitation: each channel times what all channels' means say of it.
static ls_value excite(const net *n, ls_value x, const char *block, int channels, int squeezed) {
    char name[LS_LAYER_NAME];
    ls_value s = ls_global_average_pool2d(n->g, x, ls__layer_name(name, block, "se_squeeze"));
    s = ls_reshape(n->g, s,
                   &(ls_reshape_attrs){.name = ls__layer_name(name, block, "se_reshape"), .shape = {1, 1, channels}});
    s = conv_1x1(n, s, block, "se_reduce", squeezed, 1, LS_ACTIVATION_SILU);
    s = conv_1x1(n, s, block, "se_expand", channels, 1, LS_ACTIVATION_SIGMOID);
    return ls_multiply(n->g, x, s, ls__layer_name(name, block, "se_excite"));
}

static ls_value depthwise(const net *n, ls_value x, const char *block, int kernel, int stride) {
    char name[LS_LAYER_NAME];
    if (stride > 1) x = pad(n, x, block, "dwconv_pad", kernel);
    x = ls_depthwise_conv2d(n->g, x,
                            &(ls_depthwise_conv2d_attrs){.name = ls__layer_name(name, block, "dwconv"),
                                                         .kernel = {kernel, kernel},
                                                         .strides = {stride, stride},
                                                         .padding = stride > 1 ? LS_PADDING_VALID : LS_PADDING_SAME,
                                                         .no_bias = 1,
                                                         .kernel_initializer = LS_INITIALIZER_HE_NORMAL_FAN_OUT});
    return norm(n, x, block, "bn", "activation");
}

// `drop`: the share of samples for which the block is left out.
static ls_value add_block(const net *n, ls_value x, const char *block, int stage, int channels, int filters, int stride,
                          float drop) {
    char name[LS_LAYER_NAME];
    ls_value from = x;
    int inner = channels * stages[stage].expand;
    if (inner != channels) {
        x = conv_1x1(n, x, block, "expand_conv", inner, 0, LS_ACTIVATION_NONE);
        x = norm(n, x, block, "expand_bn", "expand_activation");
    }
    x = depthwise(n, x, block, stages[stage].kernel, stride);
    x = excite(n, x, block, inner, channels / 4 > 1 ? channels / 4 : 1);
    x = conv_1x1(n, x, block, "project_conv", filters, 0, LS_ACTIVATION_NONE);
    x = norm(n, x, block, "project_bn", NULL);
    if (stride > 1 || channels != filters) return x;
    if (drop > 0)
        x = ls_dropout(n->g, x,
                       &(ls_dropout_attrs){.name = ls__layer_name(name, block, "drop"), .rate = drop, .per_sample = 1});
    return ls_add(n->g, x, from, ls__layer_name(name, block, "add"));
}

static ls_value build(const ls_model *model, ls_graph *g, ls_value x, const ls_model_config *c) {
    const net n = {g, c};
    const int *scale = scaling[model->blocks[0]];
    int channels = widened(32, scale[0]), all = 0, done = 0;
    for (int s = 0; s < STAGES; s++) all += deepened(stages[s].repeats, scale[1]);
    x = stem(&n, x, channels);
    for (int s = 0; s < STAGES; s++)
        for (int i = 0; i < deepened(stages[s].repeats, scale[1]); i++, done++) {
            char block[40];
            int filters = widened(stages[s].filters, scale[0]);
            snprintf(block, sizeof block, "block%d%c_", s + 1, 'a' + i);
            x = add_block(&n, x, block, s, channels, filters, i == 0 ? stages[s].stride : 1, (float)(0.2 * done / all));
            channels = filters;
        }
    x = conv_1x1(&n, x, "top", "_conv", widened(1280, scale[0]), 0, LS_ACTIVATION_NONE);
    x = norm(&n, x, "top", "_bn", "_activation");
    if (!c->include_top) return ls__model_pooled(g, x, c, "avg_pool", "max_pool");
    x = ls_global_average_pool2d(g, x, "avg_pool");
    x = ls_dropout(g, x, &(ls_dropout_attrs){.name = "top_dropout", .rate = (float)(scale[2] / 10.0)});
    return ls_dense(
        g, x,
        &(ls_dense_attrs){
            .name = "predictions", .units = c->classes, .kernel_initializer = LS_INITIALIZER_FAN_OUT_UNIFORM});
}

#define EFFICIENTNET(member, keras, number, side, top1)                                                                \
    const ls_model ls__model_##member = {                                                                              \
        .name = #member,                                                                                               \
        .help = "Keras's " keras,                                                                                      \
        .input = {3, {side, side, 3}},                                                                                 \
        .classes = 1000,                                                                                               \
        .least_side = 32,                                                                                              \
        .has_features = 1,                                                                                             \
        .imagenet_top1 = top1,                                                                                         \
        .blocks = (const int[1]){number},                                                                              \
        .build = build,                                                                                                \
    }

EFFICIENTNET(efficientnetb0, "EfficientNetB0", 0, 224, 77.1);
EFFICIENTNET(efficientnetb1, "EfficientNetB1", 1, 240, 79.1);
EFFICIENTNET(efficientnetb2, "EfficientNetB2", 2, 260, 80.1);
