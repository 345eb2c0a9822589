// LeNet-5 as textbooks have it: the layers of figure 2 of LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document
// recognition", 1998, with plain average pooling, every map of C3 connected to every one of S2, and a dense layer in place of the radial
// basis functions. Images are 28 x 28: C1 pads them to the 32 x 32 of the paper.
#include "models/models.h"

static ls_value conv_pool(ls_graph *g, ls_value x, const char *conv, const char *pool, int filters,
                          ls_padding padding) {
    x = ls_conv2d(
        g, x,
        &(ls_conv2d_attrs){
            .name = conv, .filters = filters, .kernel = {5, 5}, .padding = padding, .activation = LS_ACTIVATION_TANH});
    return ls_average_pool2d(g, x, &(ls_pool2d_attrs){.name = pool, .size = {2, 2}});
}

static ls_value build(const ls_model *model, ls_graph *g, ls_value x, const ls_model_config *config) {
    x = conv_pool(g, x, "c1", "s2", 6, LS_PADDING_SAME);
    x = conv_pool(g, x, "c3", "s4", 16, LS_PADDING_VALID);
    x = ls_flatten(g, x, NULL);
    x = ls_dense(g, x, &(ls_dense_attrs){.name = "c5", .units = 120, .activation = LS_ACTIVATION_TANH});
    x = ls_dense(g, x, &(ls_dense_attrs){.name = "f6", .units = 84, .activation = LS_ACTIVATION_TANH});
    return ls_dense(g, x, &(ls_dense_attrs){.name = "output", .units = config->classes});
}

const ls_model ls__model_lenet5 = {
    .name = "lenet5",
    .help = "LeCun et al. 1998, with tanh and average pooling",
    .input = {3, {28, 28, 1}},
    .classes = 10,
    .build = build,
};
