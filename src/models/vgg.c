// VGG-16 and VGG-19 as Keras's applications have them.
//
// Source: Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", 2014, table 1, D and E;
// keras/src/applications/vgg16.py.
#include <stdio.h>

#include "models/models.h"

enum { BLOCKS = 5 };

static ls_value build(const ls_model *model, ls_graph *g, ls_value x, const ls_model_config *c) {
    static const int filters[BLOCKS] = {64, 128, 256, 512, 512};
    char name[LS_LAYER_NAME];
    for (int b = 0; b < BLOCKS; b++) {
        for (int i = 0; i < model->blocks[b]; i++) {
            snprintf(name, sizeof name, "block%d_conv%d", b + 1, i + 1);
            x = ls_conv2d(g, x,
                          &(ls_conv2d_attrs){.name = name,
                                             .filters = filters[b],
                                             .kernel = {3, 3},
                                             .padding = LS_PADDING_SAME,
                                             .activation = LS_ACTIVATION_RELU});
        }
        snprintf(name, sizeof name, "block%d_pool", b + 1);
        x = ls_max_pool2d(g, x, &(ls_pool2d_attrs){.name = name, .size = {2, 2}, .strides = {2, 2}});
    }
    if (!c->include_top) return ls__model_pooled(g, x, c, NULL, NULL);
    x = ls_flatten(g, x, "flatten");
    x = ls_dense(g, x, &(ls_dense_attrs){.name = "fc1", .units = 4096, .activation = LS_ACTIVATION_RELU});
    x = ls_dense(g, x, &(ls_dense_attrs){.name = "fc2", .units = 4096, .activation = LS_ACTIVATION_RELU});
    return ls_dense(g, x, &(ls_dense_attrs){.name = "predictions", .units = c->classes});
}

#define VGG(member, keras, top1, ...)                                                                                  \
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

VGG(vgg16, "VGG16", 71.3, 2, 2, 3, 3, 3);
VGG(vgg19, "VGG19", 71.3, 2, 2, 4, 4, 4);
