#include "models/models.h"

static ls_value conv_pool(ls_graph *g, ls_value x, int filters) {
    x = ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = filters, .kernel = {3, 3}, .activation = LS_ACTIVATION_RELU});
    return ls_max_pool2d(g, x, &(ls_pool2d_attrs){.size = {2, 2}});
}

static ls_value build(const ls_model *model, ls_graph *g, ls_value x, const ls_model_config *config) {
    x = conv_pool(g, x, 32);
    x = conv_pool(g, x, 128);
    x = conv_pool(g, x, 256);
    x = ls_flatten(g, x, NULL);
    x = ls_dropout(g, x, &(ls_dropout_attrs){.rate = 0.5f});
    x = ls_dense(g, x, &(ls_dense_attrs){.units = 1000, .activation = LS_ACTIVATION_RELU});
    x = ls_dense(g, x, &(ls_dense_attrs){.units = 100, .activation = LS_ACTIVATION_RELU});
    return ls_dense(g, x, &(ls_dense_attrs){.units = config->classes});
}

// Source: Wang and Yang, "Distributed and parallel deep learning: a case study of image classification on MNIST
// database", figure 1.
const ls_model ls__model_mnist_cnn = {
    .name = "mnist-cnn",
    .help = "three convolutions, three dense",
    .input = {3, {28, 28, 1}},
    .classes = 10,
    .build = build,
};
