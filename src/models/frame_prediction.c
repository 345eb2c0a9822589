// Foretells the next frames of a clip: the network sees (frames, H, W, C) and gives as many that follow. A convolutional encoder and decoder over time,
// height and width, as the generator of Aigner and Körner 2018, "FutureGAN" (arXiv:1810.01325), is one, but far smaller and
// trained on the squared error alone: sides go down to a quarter by strides and up again by transposed convolutions, time stays.
#include "models/models.h"

typedef struct part {
    int filters, stride;  // of height and width
} part;

static ls_value normalized(ls_graph *g, ls_value x, const ls_model_config *config) {
    x = ls_batch_norm(g, x, &(ls_batch_norm_attrs){.momentum = ls__model_momentum(config, 0.9f)});
    return ls_relu(g, x, NULL);
}

static ls_value down(ls_graph *g, ls_value x, part p, const ls_model_config *config) {
    x = ls_conv3d(g, x,
                  &(ls_conv3d_attrs){.filters = p.filters,
                                     .kernel = {3, 3, 3},
                                     .strides = {1, p.stride, p.stride},
                                     .padding = LS_PADDING_SAME,
                                     .no_bias = 1});
    return normalized(g, x, config);
}

// A kernel that the stride divides covers all pixels alike.
static ls_value up(ls_graph *g, ls_value x, int filters, const ls_model_config *config) {
    x = ls_conv3d_transpose(
        g, x,
        &(ls_conv3d_transpose_attrs){
            .filters = filters, .kernel = {3, 4, 4}, .strides = {1, 2, 2}, .padding = LS_PADDING_SAME, .no_bias = 1});
    return normalized(g, x, config);
}

static ls_value build(const ls_model *model, ls_graph *g, ls_value x, const ls_model_config *config) {
    static const part parts[] = {{16, 1}, {32, 2}, {64, 2}, {64, 1}};
    ls_shape clip = ls__model_shape(g, x);
    for (int i = 0; i < 4; i++) x = down(g, x, parts[i], config);
    x = up(g, up(g, x, 32, config), 16, config);
    x = ls_conv3d(
        g, x,
        &(ls_conv3d_attrs){
            .filters = clip.ndim == 4 ? (int)clip.dim[3] : 1, .kernel = {3, 3, 3}, .padding = LS_PADDING_SAME});
    if (x == LS_NO_VALUE) return x;
    ls_value target = ls_graph_add_input(g, "target", clip, LS_DTYPE_F32);
    ls_mean_squared_error(g, x, target, &(ls_loss_attrs){.name = "loss"});
    ls_mean_absolute_error_metric(g, x, target, &(ls_metric_attrs){.name = "mean_absolute_error"});
    return x;
}

const ls_model ls__model_frame_prediction = {
    .name = "frame-prediction",
    .help = "foretells the next frames of a clip, by convolutions over time, height and width",
    .input = {4, {4, 32, 32, 1}},
    .classes = 10,
    .divides = 4,
    .build = build,
};
