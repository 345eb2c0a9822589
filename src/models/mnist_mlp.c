#include "models/models.h"

static ls_value build(ls_graph *g, ls_value x, int classes) {
    x = ls_flatten(g, x, NULL);
    x = ls_dense(g, x, &(ls_dense_attrs){.units = 128, .activation = LS_ACTIVATION_RELU});
    return ls_dense(g, x, &(ls_dense_attrs){.units = classes});
}

const ls_model ls__model_mnist_mlp = {
    .name = "mnist-mlp",
    .help = "one hidden dense layer of 128 units; 101,770 parameters",
    .input = {3, {28, 28, 1}},
    .classes = 10,
    .build = build,
};
