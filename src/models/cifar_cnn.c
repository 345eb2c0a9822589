// Seven layers for 32 x 32 images that learn in few epochs: airbench94 of K. Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024,
// section 3: a first convolution that whitens patches (of the dataset's images, which a trainer measures; its kernel is to be frozen), then three
// blocks of two convolutions, which begin by passing their channels on. Logits are divided by 9.
#include <stdio.h>

#include "models/models.h"

static ls_value norm_gelu(ls_graph *g, ls_value x, const char *block, const char *part, const ls_model_config *c) {
    char name[LS_LAYER_NAME];
    x = ls_batch_norm(g, x,
                      &(ls_batch_norm_attrs){.name = ls__layer_name(name, block, part),
                                             .momentum = ls__model_momentum(c, 0.6f),
                                             .epsilon = 1e-12f,
                                             .no_scale = 1});
    return ls_activate(g, x, LS_ACTIVATION_GELU, NULL);
}

static ls_value conv(ls_graph *g, ls_value x, const char *block, const char *part, int filters) {
    char name[LS_LAYER_NAME];
    return ls_conv2d(g, x,
                     &(ls_conv2d_attrs){.name = ls__layer_name(name, block, part),
                                        .filters = filters,
                                        .kernel = {3, 3},
                                        .padding = LS_PADDING_SAME,
                                        .no_bias = 1,
                                        .kernel_initializer = LS_INITIALIZER_DIRAC});
}

static ls_value build(const ls_model *model, ls_graph *g, ls_value x, const ls_model_config *c) {
    static const int filters[] = {64, 256, 256};
    ls_shape shape = ls__model_shape(g, x);
    int channels = shape.ndim == 3 ? (int)shape.dim[2] : 1;  // of other samples the convolution says what is wrong
    x = ls_conv2d(g, x,
                  &(ls_conv2d_attrs){.name = "whitening",
                                     .filters = 2 * 2 * 2 * channels,
                                     .kernel = {2, 2},
                                     .activation = LS_ACTIVATION_GELU,
                                     .kernel_initializer = LS_INITIALIZER_PATCH_WHITENING});
    for (int i = 0; i < 3; i++) {
        char block[LS_LAYER_NAME];
        snprintf(block, sizeof block, "block%d", i + 1);
        x = conv(g, x, block, "_conv1", filters[i]);
        x = ls_max_pool2d(g, x, NULL);
        x = norm_gelu(g, x, block, "_norm1", c);
        x = conv(g, x, block, "_conv2", filters[i]);
        x = norm_gelu(g, x, block, "_norm2", c);
    }
    if (!c->include_top) return ls__model_pooled(g, x, c, "avg_pool", "max_pool");
    x = ls_global_max_pool2d(g, x, "max_pool");
    // What divides the logits by 9, before a layer without a bias: so they come out in fp32.
    x = ls_rescaling(g, x, &(ls_rescaling_attrs){.name = "scale", .scale = 1.0 / 9});
    return ls_dense(g, x,
                    &(ls_dense_attrs){.name = "predictions",
                                      .units = c->classes,
                                      .no_bias = 1,
                                      .kernel_initializer = LS_INITIALIZER_FAN_IN_UNIFORM});
}

const ls_model ls__model_cifar_cnn = {
    .name = "cifar-cnn",
    .help = "seven layers for small images, fast to train; Jordan 2024",
    .input = {3, {32, 32, 3}},
    .classes = 10,
    .least_side = 9,
    .has_features = 1,
    .build = build,
};
