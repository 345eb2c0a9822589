// AlexNet as torchvision has it, with the names of its modules.
//
// Source: Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014, which is one tower of the network of 2012
// without its normalization; torchvision/models/alexnet.py. That pools any image to 6 x 6 before the dense layers; here, as in Keras's
// VGGs, classifier.1 takes what there is, which is 6 x 6 of images of 224 x 224. It counts its inputs in the order of NHWC.
#include "models/models.h"

static ls_value conv(ls_graph *g, ls_value x, const char *name, const char *relu, int filters, int side) {
    x = ls_conv2d(g, x,
                  &(ls_conv2d_attrs){.name = name,
                                     .filters = filters,
                                     .kernel = {side, side},
                                     .padding = LS_PADDING_SAME,
                                     .kernel_initializer = LS_INITIALIZER_HE_NORMAL});
    return ls_activate(g, x, LS_ACTIVATION_RELU, relu);
}

static ls_value pool(ls_graph *g, ls_value x, const char *name) {
    return ls_max_pool2d(g, x, &(ls_pool2d_attrs){.name = name, .size = {3, 3}, .strides = {2, 2}});
}

static ls_value dense(ls_graph *g, ls_value x, const char *dropout, const char *name, const char *relu) {
    x = ls_dropout(g, x, &(ls_dropout_attrs){.name = dropout, .rate = 0.5f});
    x = ls_dense(g, x, &(ls_dense_attrs){.name = name, .units = 4096, .kernel_initializer = LS_INITIALIZER_HE_NORMAL});
    return ls_activate(g, x, LS_ACTIVATION_RELU, relu);
}

static ls_value build(const ls_model *model, ls_graph *g, ls_value x, const ls_model_config *c) {
    x = ls_zero_pad2d(g, x, &(ls_zero_pad2d_attrs){.name = "features.0.pad", .padding = {{2, 2}, {2, 2}}});
    x = ls_conv2d(g, x,
                  &(ls_conv2d_attrs){.name = "features.0",
                                     .filters = 64,
                                     .kernel = {11, 11},
                                     .strides = {4, 4},
                                     .kernel_initializer = LS_INITIALIZER_HE_NORMAL});
    x = ls_activate(g, x, LS_ACTIVATION_RELU, "features.1");
    x = pool(g, x, "features.2");
    x = conv(g, x, "features.3", "features.4", 192, 5);
    x = pool(g, x, "features.5");
    x = conv(g, x, "features.6", "features.7", 384, 3);
    x = conv(g, x, "features.8", "features.9", 256, 3);
    x = conv(g, x, "features.10", "features.11", 256, 3);
    x = pool(g, x, "features.12");
    if (!c->include_top) return ls__model_pooled(g, x, c, NULL, NULL);
    x = ls_flatten(g, x, "flatten");
    x = dense(g, x, "classifier.0", "classifier.1", "classifier.2");
    x = dense(g, x, "classifier.3", "classifier.4", "classifier.5");
    return ls_dense(g, x, &(ls_dense_attrs){.name = "classifier.6", .units = c->classes});
}

const ls_model ls__model_alexnet = {
    .name = "alexnet",
    .help = "torchvision's alexnet",
    .input = {3, {224, 224, 3}},
    .classes = 1000,
    .least_side = 63,
    .has_features = 1,
    .imagenet_top1 = 56.52,
    .build = build,
};
