// A convolutional auto-encoder: what it is trained towards is the image that it sees, or, where that has noise on it (--noise), the image without. The layers are those
// of Keras's example "Convolutional autoencoder for image denoising" (2021), whose sides go down to a quarter and up again, but that the last has no
// sigmoid and the loss is the squared error, so that it goes with every normalization of images.
#include "models/models.h"

enum { FILTERS = 32 };

static ls_value conv(ls_graph *g, ls_value x, int filters, ls_activation activation) {
    return ls_conv2d(
        g, x,
        &(ls_conv2d_attrs){.filters = filters, .kernel = {3, 3}, .padding = LS_PADDING_SAME, .activation = activation});
}

static ls_value up(ls_graph *g, ls_value x) {
    return ls_conv2d_transpose(g, x,
                               &(ls_conv2d_transpose_attrs){.filters = FILTERS,
                                                            .kernel = {3, 3},
                                                            .strides = {2, 2},
                                                            .padding = LS_PADDING_SAME,
                                                            .activation = LS_ACTIVATION_RELU});
}

static ls_value build(const ls_model *model, ls_graph *g, ls_value x, const ls_model_config *config) {
    ls_shape image = ls__model_shape(g, x);
    const ls_pool2d_attrs half = {.size = {2, 2}, .padding = LS_PADDING_SAME};
    for (int i = 0; i < 2; i++) x = ls_max_pool2d(g, conv(g, x, FILTERS, LS_ACTIVATION_RELU), &half);
    for (int i = 0; i < 2; i++) x = up(g, x);
    x = conv(g, x, image.ndim == 3 ? (int)image.dim[2] : 1, LS_ACTIVATION_NONE);
    if (x == LS_NO_VALUE) return x;
    ls_value target = ls_graph_add_input(g, "target", image, LS_DTYPE_F32);
    ls_mean_squared_error(g, x, target, &(ls_loss_attrs){.name = "loss"});
    ls_mean_absolute_error_metric(g, x, target, &(ls_metric_attrs){.name = "mean_absolute_error"});
    return x;
}

const ls_model ls__model_autoencoder = {
    .name = "autoencoder",
    .help = "draws its image again; with --noise, without the noise",
    .input = {3, {28, 28, 1}},
    .classes = 10,
    .divides = 4,
    .build = build,
};
