// ResNet-18 and 34 and ResNeXt-50 (32x4d) as torchvision has them, with the names of its modules; Keras has none of these.
//
// Sources: He, Zhang, Ren, Sun, "Deep residual learning for image recognition", 2015, table 1; Xie, Girshick, Dollar, Tu, He, "Aggregated
// residual transformations for deep neural networks", 2016; torchvision/models/resnet.py. Strides are in the first convolution of a block of
// two, in the second of a block of three. Zeros in front of the pooling are what -infinity is there, for a ReLU comes before it.
#include <stdio.h>

#include "models/models.h"

enum { STACKS = 4, GROUPS = 32 };

static ls_value norm(ls_graph *g, ls_value x, const char *block, const char *part, const ls_model_config *c) {
    char name[LS_LAYER_NAME];
    return ls_batch_norm(
        g, x,
        &(ls_batch_norm_attrs){
            .name = ls__layer_name(name, block, part), .momentum = ls__model_momentum(c, 0.9f), .epsilon = 1e-5f});
}

static ls_value relu(ls_graph *g, ls_value x, const char *block, const char *part) {
    char name[LS_LAYER_NAME];
    return ls_activate(g, x, LS_ACTIVATION_RELU, ls__layer_name(name, block, part));
}

// Padded by half of its kernel, on all sides alike.
static ls_value conv(ls_graph *g, ls_value x, const char *block, const char *part, int filters, int side, int stride,
                     int groups) {
    char name[LS_LAYER_NAME], pad[LS_LAYER_NAME + 8];
    int around = side / 2, padded = stride > 1 && around > 0;
    ls__layer_name(name, block, part);
    snprintf(pad, sizeof pad, "%s.pad", name);
    if (padded)
        x = ls_zero_pad2d(g, x, &(ls_zero_pad2d_attrs){.name = pad, .padding = {{around, around}, {around, around}}});
    return ls_conv2d(g, x,
                     &(ls_conv2d_attrs){.name = name,
                                        .filters = filters,
                                        .kernel = {side, side},
                                        .strides = {stride, stride},
                                        .padding = padded ? LS_PADDING_VALID : LS_PADDING_SAME,
                                        .no_bias = 1,
                                        .groups = groups,
                                        .kernel_initializer = LS_INITIALIZER_HE_NORMAL_FAN_OUT});
}

static ls_value stem(ls_graph *g, ls_value x, const ls_model_config *c) {
    x = conv(g, x, "", "conv1", 64, 7, 2, 1);
    x = norm(g, x, "", "bn1", c);
    x = relu(g, x, "", "relu");
    x = ls_zero_pad2d(g, x, &(ls_zero_pad2d_attrs){.name = "maxpool.pad", .padding = {{1, 1}, {1, 1}}});
    return ls_max_pool2d(g, x, &(ls_pool2d_attrs){.name = "maxpool", .size = {3, 3}, .strides = {2, 2}});
}

static ls_value shortcut_of(ls_graph *g, ls_value x, const char *block, int filters, int stride, int projects,
                            const ls_model_config *c) {
    if (!projects) return x;
    return norm(g, conv(g, x, block, ".downsample.0", filters, 1, stride, 1), block, ".downsample.1", c);
}

static ls_value end(ls_graph *g, ls_value x, ls_value shortcut, const char *block, const char *out) {
    char name[LS_LAYER_NAME];
    return relu(g, ls_add(g, x, shortcut, ls__layer_name(name, block, ".add")), block, out);
}

static ls_value basic_block(ls_graph *g, ls_value x, const char *block, int planes, int stride, int first,
                            const ls_model_config *c) {
    ls_value shortcut = shortcut_of(g, x, block, planes, stride, first && planes > 64, c);
    x = conv(g, x, block, ".conv1", planes, 3, stride, 1);
    x = relu(g, norm(g, x, block, ".bn1", c), block, ".relu");
    x = conv(g, x, block, ".conv2", planes, 3, 1, 1);
    return end(g, norm(g, x, block, ".bn2", c), shortcut, block, ".relu_1");
}

static ls_value grouped_block(ls_graph *g, ls_value x, const char *block, int planes, int stride, int first,
                              const ls_model_config *c) {
    ls_value shortcut = shortcut_of(g, x, block, 4 * planes, stride, first, c);
    int width = planes / 64 * 4 * GROUPS;
    x = conv(g, x, block, ".conv1", width, 1, 1, 1);
    x = relu(g, norm(g, x, block, ".bn1", c), block, ".relu");
    x = conv(g, x, block, ".conv2", width, 3, stride, GROUPS);
    x = relu(g, norm(g, x, block, ".bn2", c), block, ".relu_1");
    x = conv(g, x, block, ".conv3", 4 * planes, 1, 1, 1);
    return end(g, norm(g, x, block, ".bn3", c), shortcut, block, ".relu_2");
}

typedef ls_value (*block_fn)(ls_graph *g, ls_value x, const char *block, int planes, int stride, int first,
                             const ls_model_config *c);

static ls_value stacks(const ls_model *model, ls_graph *g, ls_value x, block_fn add_block, const ls_model_config *c) {
    x = stem(g, x, c);
    for (int stack = 0; stack < STACKS; stack++)
        for (int i = 0; i < model->blocks[stack]; i++) {
            char block[40];
            snprintf(block, sizeof block, "layer%d.%d", stack + 1, i);
            x = add_block(g, x, block, 64 << stack, i == 0 && stack > 0 ? 2 : 1, i == 0, c);
        }
    if (!c->include_top) return ls__model_pooled(g, x, c, "avgpool", "max_pool");
    x = ls_global_average_pool2d(g, x, "avgpool");
    return ls_dense(g, x, &(ls_dense_attrs){.name = "fc", .units = c->classes});
}

static ls_value build_basic(const ls_model *model, ls_graph *g, ls_value x, const ls_model_config *c) {
    return stacks(model, g, x, basic_block, c);
}

static ls_value build_grouped(const ls_model *model, ls_graph *g, ls_value x, const ls_model_config *c) {
    return stacks(model, g, x, grouped_block, c);
}

#define RESNET(member, kind, torchvision, top1, ...)                                                                   \
    const ls_model ls__model_##member = {                                                                              \
        .name = #member,                                                                                               \
        .help = "torchvision's " torchvision,                                                                          \
        .input = {3, {224, 224, 3}},                                                                                   \
        .classes = 1000,                                                                                               \
        .has_features = 1,                                                                                             \
        .imagenet_top1 = top1,                                                                                         \
        .blocks = (const int[STACKS]){__VA_ARGS__},                                                                    \
        .build = build_##kind,                                                                                         \
    }

RESNET(resnet18, basic, "resnet18", 69.76, 2, 2, 2, 2);
RESNET(resnet34, basic, "resnet34", 73.31, 3, 4, 6, 3);
RESNET(resnext50, grouped, "resnext50_32x4d", 77.62, 3, 4, 6, 3);
