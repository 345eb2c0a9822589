#include "models/models.h"

static ls_value build(const ls_model *model, ls_graph *g, ls_value x, const ls_model_config *config) {
    x = ls_flatten(g, x, NULL);
    x = ls_dense(g, x, &(ls_dense_attrs){.units = 128, .activation = LS_ACTIVATION_RELU});
    return ls_dense(g, x, &(ls_dense_attrs){.units = config->classes});
}

const ls_model ls__model_mnist_mlp = {
    .name = "mnist-mlp",
    .help = "one hidden layer of 128 units",
    .input = {3, {28, 28, 1}},
    .classes = 10,
    .build = build,
};
