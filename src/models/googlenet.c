// GoogLeNet as torchvision has it, with the names of its modules and without its auxiliary classifiers.
//
// Source: Szegedy et al., "Going deeper with convolutions", 2014, table 1; torchvision/models/googlenet.py, which has batch normalization,
// and 3 x 3 kernels where the paper has 5 x 5. Its pooling rounds sizes up: a last window may reach over the end by one pixel.
#include <stdio.h>

#include "models/models.h"

static ls_value conv(ls_graph *g, ls_value x, const char *block, const char *part, int filters, int side, int stride,
                     const ls_model_config *c) {
    char base[LS_LAYER_NAME], name[LS_LAYER_NAME];
    ls__layer_name(base, block, part);
    int padded = stride > 1;
    if (padded)
        x = ls_zero_pad2d(g, x,
                          &(ls_zero_pad2d_attrs){.name = ls__layer_name(name, base, ".pad"),
                                                 .padding = {{side / 2, side / 2}, {side / 2, side / 2}}});
    x = ls_conv2d(g, x,
                  &(ls_conv2d_attrs){.name = ls__layer_name(name, base, ".conv"),
                                     .filters = filters,
                                     .kernel = {side, side},
                                     .strides = {stride, stride},
                                     .padding = padded ? LS_PADDING_VALID : LS_PADDING_SAME,
                                     .no_bias = 1,
                                     .kernel_initializer = LS_INITIALIZER_HE_NORMAL});
    x = ls_batch_norm(
        g, x,
        &(ls_batch_norm_attrs){
            .name = ls__layer_name(name, base, ".bn"), .momentum = ls__model_momentum(c, 0.9f), .epsilon = 1e-3f});
    return ls_activate(g, x, LS_ACTIVATION_RELU, ls__layer_name(name, base, ".relu"));
}

// Every second pixel's window, rounded up: an even side has one pixel more at its end, which a pooling behind a ReLU may take for zero.
static ls_value pool(ls_graph *g, ls_value x, const char *name, int side) {
    ls_shape s = ls__model_shape(g, x);
    int odd[2] = {(int)(s.dim[0] % 2), (int)(s.dim[1] % 2)};
    ls_padding padding = side == 2 || (!odd[0] && !odd[1]) ? LS_PADDING_SAME : LS_PADDING_VALID;
    char pad[LS_LAYER_NAME];
    if (padding == LS_PADDING_VALID && odd[0] != odd[1])
        x = ls_zero_pad2d(
            g, x,
            &(ls_zero_pad2d_attrs){.name = ls__layer_name(pad, name, ".pad"), .padding = {{0, !odd[0]}, {0, !odd[1]}}});
    return ls_max_pool2d(g, x,
                         &(ls_pool2d_attrs){.name = name, .size = {side, side}, .strides = {2, 2}, .padding = padding});
}

// Filters: of the 1 x 1 branch; of the second, before and after; of the third; behind the pooling.
static ls_value inception(ls_graph *g, ls_value x, const char *block, const int f[6], const ls_model_config *c) {
    char name[LS_LAYER_NAME];
    ls_value branch[4];
    branch[0] = conv(g, x, block, ".branch1", f[0], 1, 1, c);
    branch[1] = conv(g, x, block, ".branch2.0", f[1], 1, 1, c);
    branch[1] = conv(g, branch[1], block, ".branch2.1", f[2], 3, 1, c);
    branch[2] = conv(g, x, block, ".branch3.0", f[3], 1, 1, c);
    branch[2] = conv(g, branch[2], block, ".branch3.1", f[4], 3, 1, c);
    branch[3] = ls_max_pool2d(g, x,
                              &(ls_pool2d_attrs){.name = ls__layer_name(name, block, ".branch4.0"),
                                                 .size = {3, 3},
                                                 .strides = {1, 1},
                                                 .padding = LS_PADDING_SAME});
    branch[3] = conv(g, branch[3], block, ".branch4.1", f[5], 1, 1, c);
    return ls_concat(g, branch, 4, &(ls_concat_attrs){.name = block});
}

static ls_value build(const ls_model *model, ls_graph *g, ls_value x, const ls_model_config *c) {
    static const struct {
        const char *name;
        int filters[6];
    } blocks[] = {
        {"inception3a", {64, 96, 128, 16, 32, 32}},     {"inception3b", {128, 128, 192, 32, 96, 64}},
        {"inception4a", {192, 96, 208, 16, 48, 64}},    {"inception4b", {160, 112, 224, 24, 64, 64}},
        {"inception4c", {128, 128, 256, 24, 64, 64}},   {"inception4d", {112, 144, 288, 32, 64, 64}},
        {"inception4e", {256, 160, 320, 32, 128, 128}}, {"inception5a", {256, 160, 320, 32, 128, 128}},
        {"inception5b", {384, 192, 384, 48, 128, 128}},
    };
    x = conv(g, x, "", "conv1", 64, 7, 2, c);
    x = pool(g, x, "maxpool1", 3);
    x = conv(g, x, "", "conv2", 64, 1, 1, c);
    x = conv(g, x, "", "conv3", 192, 3, 1, c);
    x = pool(g, x, "maxpool2", 3);
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        x = inception(g, x, blocks[i].name, blocks[i].filters, c);
        if (i == 1) x = pool(g, x, "maxpool3", 3);
        if (i == 6) x = pool(g, x, "maxpool4", 2);
    }
    if (!c->include_top) return ls__model_pooled(g, x, c, "avgpool", "max_pool");
    x = ls_global_average_pool2d(g, x, "avgpool");
    x = ls_dropout(g, x, &(ls_dropout_attrs){.name = "dropout", .rate = 0.2f});
    return ls_dense(g, x, &(ls_dense_attrs){.name = "fc", .units = c->classes});
}

const ls_model ls__model_googlenet = {
    .name = "googlenet",
    .help = "torchvision's googlenet, without the auxiliary classifiers",
    .input = {3, {224, 224, 3}},
    .classes = 1000,
    .least_side = 15,
    .has_features = 1,
    .imagenet_top1 = 69.78,
    .build = build,
};
