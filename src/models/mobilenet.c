// MobileNet and MobileNetV2 as Keras's applications have them, alpha 1.
//
// Sources: Howard et al., "MobileNets: efficient convolutional neural networks for mobile vision applications", 2017, table 1; Sandler et
// al., "MobileNetV2: inverted residuals and linear bottlenecks", 2018, table 2; keras/src/applications/mobilenet.py and mobilenet_v2.py.
#include <stdio.h>

#include "models/models.h"

// The momentum of the normalizations, which differs.
typedef struct net {
    ls_graph *g;
    const ls_model_config *config;
    float momentum;
} net;

// A batch normalization, and behind it a ReLU that is cut off at 6; without one `relu` is NULL.
static ls_value norm(const net *n, ls_value x, const char *block, const char *part, const char *relu) {
    char name[LS_LAYER_NAME];
    x = ls_batch_norm(n->g, x,
                      &(ls_batch_norm_attrs){.name = ls__layer_name(name, block, part),
                                             .momentum = ls__model_momentum(n->config, n->momentum)});
    return relu ? ls_activate(n->g, x, LS_ACTIVATION_RELU6, ls__layer_name(name, block, relu)) : x;
}

static ls_value conv(const net *n, ls_value x, const char *block, const char *part, int filters, int side, int stride) {
    char name[LS_LAYER_NAME];
    return ls_conv2d(n->g, x,
                     &(ls_conv2d_attrs){.name = ls__layer_name(name, block, part),
                                        .filters = filters,
                                        .kernel = {side, side},
                                        .strides = {stride, stride},
                                        .padding = LS_PADDING_SAME,
                                        .no_bias = 1});
}

// With strides behind a zero padding `pad`.
static ls_value depthwise(const net *n, ls_value x, const char *block, const char *part, const char *pad,
                          const int padding[2][2], int stride) {
    char name[LS_LAYER_NAME];
    if (stride > 1)
        x = ls_zero_pad2d(n->g, x,
                          &(ls_zero_pad2d_attrs){
                              .name = pad,
                              .padding = {{padding[0][0], padding[0][1]}, {padding[1][0], padding[1][1]}},
                          });
    return ls_depthwise_conv2d(n->g, x,
                               &(ls_depthwise_conv2d_attrs){.name = ls__layer_name(name, block, part),
                                                            .kernel = {3, 3},
                                                            .strides = {stride, stride},
                                                            .padding = stride > 1 ? LS_PADDING_VALID : LS_PADDING_SAME,
                                                            .no_bias = 1});
}

// --- MobileNet -------------------------------------------------------------------------------------------------------

static ls_value block_v1(const net *n, ls_value x, int id, int filters, int stride) {
    static const int bottom_right[2][2] = {{0, 1}, {0, 1}};
    char pad[LS_LAYER_NAME], dw[40], pw[40];
    snprintf(pad, sizeof pad, "conv_pad_%d", id);
    snprintf(dw, sizeof dw, "conv_dw_%d", id);
    snprintf(pw, sizeof pw, "conv_pw_%d", id);
    x = depthwise(n, x, dw, "", pad, bottom_right, stride);
    x = norm(n, x, dw, "_bn", "_relu");
    x = conv(n, x, pw, "", filters, 1, 1);
    return norm(n, x, pw, "_bn", "_relu");
}

static ls_value build_v1(const ls_model *model, ls_graph *g, ls_value x, const ls_model_config *c) {
    static const int filters[] = {64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024};
    const net n = {g, c, 0.99f};
    int channels = 32;
    x = conv(&n, x, "conv1", "", channels, 3, 2);
    x = norm(&n, x, "conv1", "_bn", "_relu");
    for (int i = 0; i < 13; channels = filters[i++])
        x = block_v1(&n, x, i + 1, filters[i], i > 0 && filters[i] > channels ? 2 : 1);
    if (!c->include_top) return ls__model_pooled(g, x, c, NULL, NULL);
    x = ls_global_average_pool2d_keepdims(g, x, NULL);
    x = ls_dropout(g, x, &(ls_dropout_attrs){.name = "dropout", .rate = 1e-3f});
    x = ls_conv2d(
        g, x,
        &(ls_conv2d_attrs){.name = "conv_preds", .filters = c->classes, .kernel = {1, 1}, .padding = LS_PADDING_SAME});
    return ls_reshape(g, x, &(ls_reshape_attrs){.name = "reshape_2", .shape = {c->classes}});
}

// --- MobileNetV2 -----------------------------------------------------------------------------------------------------

// `channels` before it. The first block does not widen.
static ls_value block_v2(const net *n, ls_value x, int id, int channels, int filters, int stride) {
    char block[40], pad[LS_LAYER_NAME], add[LS_LAYER_NAME];
    ls_value from = x;
    snprintf(block, sizeof block, "block_%d_", id);
    if (id == 0) snprintf(block, sizeof block, "expanded_conv_");
    if (id > 0) {
        x = conv(n, x, block, "expand", 6 * channels, 1, 1);
        x = norm(n, x, block, "expand_BN", "expand_relu");
    }
    int padding[2][2];
    ls__model_correct_pad(n->g, x, 3, padding);
    x = depthwise(n, x, block, "depthwise", ls__layer_name(pad, block, "pad"), padding, stride);
    x = norm(n, x, block, "depthwise_BN", "depthwise_relu");
    x = conv(n, x, block, "project", filters, 1, 1);
    x = norm(n, x, block, "project_BN", NULL);
    return channels == filters && stride == 1 ? ls_add(n->g, from, x, ls__layer_name(add, block, "add")) : x;
}

static ls_value build_v2(const ls_model *model, ls_graph *g, ls_value x, const ls_model_config *c) {
    static const int stages[][3] = {{16, 1, 1}, {24, 2, 2},  {32, 3, 2}, {64, 4, 2},
                                    {96, 3, 1}, {160, 3, 2}, {320, 1, 1}};
    const net n = {g, c, 0.999f};
    int channels = 32, id = 0;
    x = conv(&n, x, "Conv1", "", channels, 3, 2);
    x = norm(&n, x, "", "bn_Conv1", "Conv1_relu");
    for (size_t s = 0; s < sizeof stages / sizeof stages[0]; s++)
        for (int i = 0; i < stages[s][1]; i++, channels = stages[s][0])
            x = block_v2(&n, x, id++, channels, stages[s][0], i == 0 ? stages[s][2] : 1);
    x = conv(&n, x, "Conv_1", "", 1280, 1, 1);
    x = norm(&n, x, "", "Conv_1_bn", "out_relu");
    if (!c->include_top) return ls__model_pooled(g, x, c, NULL, NULL);
    x = ls_global_average_pool2d(g, x, NULL);
    return ls_dense(g, x, &(ls_dense_attrs){.name = "predictions", .units = c->classes});
}

#define MOBILENET(member, version, keras, top1)                                                                        \
    const ls_model ls__model_##member = {                                                                              \
        .name = #member,                                                                                               \
        .help = "Keras's " keras,                                                                                      \
        .input = {3, {224, 224, 3}},                                                                                   \
        .classes = 1000,                                                                                               \
        .least_side = 32,                                                                                              \
        .has_features = 1,                                                                                             \
        .imagenet_top1 = top1,                                                                                         \
        .build = build_##version,                                                                                      \
    }

MOBILENET(mobilenet, v1, "MobileNet", 70.4);
MOBILENET(mobilenetv2, v2, "MobileNetV2", 71.3);
