#include "models/models.h"

static ls_value build(ls_graph *g, ls_value x, int classes) {
    x = ls_flatten(g, x, NULL);
    return ls_dense(g, x, &(ls_dense_attrs){.units = classes});
}

const ls_model ls__model_mnist_linear = {
    .name = "mnist-linear",
    .help = "softmax regression on the pixels: what a network has to beat; 7,850 parameters",
    .input = {3, {28, 28, 1}},
    .classes = 10,
    .build = build,
};
