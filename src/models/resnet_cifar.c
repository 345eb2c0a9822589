// The ResNets for small images: 6n + 2 layers in three stages of n blocks, with 16, 32 and 64 filters.
//
// Sources: He, Zhang, Ren, Sun, "Deep residual learning for image recognition", 2015, section 4.2, with the layers and names of
// TensorFlow's official resnet_cifar_model.py (its resnet56 is n = 9): no convolution has a bias, the first block of every
// stage projects its shortcut, and the projection is normalized. The v2 have the blocks of "Identity mappings in deep residual
// networks", 2016, figure 4(e), and shortcuts that project only where shapes change.
#include <stdio.h>

#include "models/models.h"

enum { STAGES = 3 };

// "res" or "bn", the block, and the branch: "res2block_0_branch2a".
static const char *name_of(char buffer[LS_LAYER_NAME], const char *kind, const char *block, const char *branch) {
    snprintf(buffer, LS_LAYER_NAME, "%s%s%s", kind, block, branch);
    return buffer;
}

static ls_value norm_named(ls_graph *g, ls_value x, const char *name, const ls_model_config *c) {
    return ls_batch_norm(
        g, x, &(ls_batch_norm_attrs){.name = name, .momentum = ls__model_momentum(c, 0.997f), .epsilon = 1e-5f});
}

static ls_value norm(ls_graph *g, ls_value x, const char *block, const char *branch, const ls_model_config *c) {
    char name[LS_LAYER_NAME];
    return norm_named(g, x, name_of(name, "bn", block, branch), c);
}

static ls_value relu(ls_graph *g, ls_value x) { return ls_activate(g, x, LS_ACTIVATION_RELU, NULL); }

static ls_value conv(ls_graph *g, ls_value x, const char *block, const char *branch, int filters, int side,
                     int stride) {
    char name[LS_LAYER_NAME];
    return ls_conv2d(g, x,
                     &(ls_conv2d_attrs){.name = name_of(name, "res", block, branch),
                                        .filters = filters,
                                        .kernel = {side, side},
                                        .strides = {stride, stride},
                                        .padding = LS_PADDING_SAME,
                                        .no_bias = 1,
                                        .kernel_initializer = LS_INITIALIZER_HE_NORMAL});
}

static ls_value stem(ls_graph *g, ls_value x) {
    x = ls_zero_pad2d(g, x, &(ls_zero_pad2d_attrs){.name = "conv1_pad"});
    return ls_conv2d(g, x,
                     &(ls_conv2d_attrs){.name = "conv1",
                                        .filters = 16,
                                        .kernel = {3, 3},
                                        .no_bias = 1,
                                        .kernel_initializer = LS_INITIALIZER_HE_NORMAL});
}

// Layers stand in the order of Keras's model.layers, in which shortcut and main path alternate at the end.
static ls_value block_v1(ls_graph *g, ls_value x, const char *block, int filters, int stride, int first,
                         const ls_model_config *c) {
    ls_value shortcut = x;
    x = conv(g, x, block, "2a", filters, 3, stride);
    x = norm(g, x, block, "2a", c);
    x = relu(g, x);
    x = conv(g, x, block, "2b", filters, 3, 1);
    if (first) shortcut = conv(g, shortcut, block, "1", filters, 1, stride);
    x = norm(g, x, block, "2b", c);
    if (first) shortcut = norm(g, shortcut, block, "1", c);
    x = ls_add(g, x, shortcut, NULL);
    return relu(g, x);
}

static ls_value block_v2(ls_graph *g, ls_value x, const char *block, int filters, int stride, int first,
                         const ls_model_config *c) {
    ls_value shortcut = x, preact;
    preact = norm(g, x, block, "2a", c);
    preact = relu(g, preact);
    x = conv(g, preact, block, "2a", filters, 3, stride);
    x = norm(g, x, block, "2b", c);
    x = relu(g, x);
    x = conv(g, x, block, "2b", filters, 3, 1);
    if (stride > 1) shortcut = conv(g, preact, block, "1", filters, 1, stride);
    return ls_add(g, x, shortcut, NULL);
}

typedef ls_value (*block_fn)(ls_graph *g, ls_value x, const char *block, int filters, int stride, int first,
                             const ls_model_config *c);

static ls_value stages(ls_graph *g, ls_value x, int blocks, block_fn add_block, const ls_model_config *c) {
    for (int stage = 0; stage < STAGES; stage++)
        for (int i = 0; i < blocks; i++) {
            char block[40];
            snprintf(block, sizeof block, "%dblock_%d_branch", stage + 2, i);
            x = add_block(g, x, block, 16 << stage, i == 0 && stage > 0 ? 2 : 1, i == 0, c);
        }
    return x;
}

static ls_value build_v1(const ls_model *model, ls_graph *g, ls_value x, const ls_model_config *c) {
    x = norm_named(g, stem(g, x), "bn_conv1", c);
    x = stages(g, relu(g, x), model->blocks[0], block_v1, c);
    return ls__model_top(g, x, c, "fc10");
}

static ls_value build_v2(const ls_model *model, ls_graph *g, ls_value x, const ls_model_config *c) {
    x = stages(g, stem(g, x), model->blocks[0], block_v2, c);
    x = relu(g, norm_named(g, x, "bn_post", c));
    return ls__model_top(g, x, c, "fc10");
}

#define RESNET(member, version, what, n)                                                                               \
    const ls_model ls__model_##member = {                                                                              \
        .name = #member,                                                                                               \
        .help = what " for small images, n = " #n,                                                                     \
        .input = {3, {32, 32, 3}},                                                                                     \
        .classes = 10,                                                                                                 \
        .has_features = 1,                                                                                             \
        .blocks = (const int[1]){n},                                                                                   \
        .build = build_##version,                                                                                      \
    }

RESNET(resnet20, v1, "ResNet", 3);
RESNET(resnet32, v1, "ResNet", 5);
RESNET(resnet44, v1, "ResNet", 7);
RESNET(resnet56, v1, "ResNet", 9);
RESNET(resnet110, v1, "ResNet", 18);
RESNET(resnet20v2, v2, "ResNet v2", 3);
RESNET(resnet32v2, v2, "ResNet v2", 5);
RESNET(resnet44v2, v2, "ResNet v2", 7);
RESNET(resnet56v2, v2, "ResNet v2", 9);
RESNET(resnet110v2, v2, "ResNet v2", 18);
