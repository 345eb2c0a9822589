// A variational auto-encoder of convolutions for small images: the encoder makes a normal distribution of an image, the decoder an image of a sample of that.
// Source: Kingma and Welling, "Auto-encoding variational Bayes", 2013. The convolutions are those of Keras's example "Variational AutoEncoder"
// (2020); the dense layer before the code is wider, and so is the code. One layer gives means and log variances, behind each other.
//
// The reconstruction's loss is the binary cross-entropy summed over an image, so pixels are to lie between 0 and 1.
#include <limits.h>

#include "models/models.h"

enum { NARROW = 32, WIDE = 64, HIDDEN = 128, CODE = 16 };

static ls_value down(ls_graph *g, ls_value x, const char *name, int filters) {
    return ls_conv2d(g, x,
                     &(ls_conv2d_attrs){.name = name,
                                        .filters = filters,
                                        .kernel = {3, 3},
                                        .strides = {2, 2},
                                        .padding = LS_PADDING_SAME,
                                        .activation = LS_ACTIVATION_RELU});
}

static ls_value up(ls_graph *g, ls_value x, const char *name, int filters) {
    return ls_conv2d_transpose(g, x,
                               &(ls_conv2d_transpose_attrs){.name = name,
                                                            .filters = filters,
                                                            .kernel = {3, 3},
                                                            .strides = {2, 2},
                                                            .padding = LS_PADDING_SAME,
                                                            .activation = LS_ACTIVATION_RELU});
}

static ls_value encode(ls_graph *g, ls_value x) {
    x = ls_flatten(g, down(g, down(g, x, "encoder_down1", NARROW), "encoder_down2", WIDE), NULL);
    x = ls_dense(g, x, &(ls_dense_attrs){.name = "encoder_dense", .units = HIDDEN, .activation = LS_ACTIVATION_RELU});
    return ls_dense(g, x, &(ls_dense_attrs){.name = "code", .units = 2 * CODE});
}

// To logits of the pixels.
static ls_value decode(ls_graph *g, ls_value z, ls_shape image) {
    int h = (int)(image.dim[0] + 3) / 4, w = (int)(image.dim[1] + 3) / 4, units;
    if (__builtin_mul_overflow(h, w * WIDE, &units)) units = INT_MAX;  // and reshaping says what is wrong
    ls_value x =
        ls_dense(g, z, &(ls_dense_attrs){.name = "decoder_dense", .units = units, .activation = LS_ACTIVATION_RELU});
    x = ls_reshape(g, x, &(ls_reshape_attrs){.shape = {h, w, WIDE}});
    x = up(g, up(g, x, "decoder_up1", WIDE), "decoder_up2", NARROW);
    return ls_conv2d(
        g, x,
        &(ls_conv2d_attrs){
            .name = "decoder_logits", .filters = (int)image.dim[2], .kernel = {3, 3}, .padding = LS_PADDING_SAME});
}

static ls_value build(const ls_model *model, ls_graph *g, ls_value x, const ls_model_config *config) {
    ls_shape image = ls__model_shape(g, x);
    ls_value code = encode(g, x);
    if (code == LS_NO_VALUE) return code;
    ls_value noise = ls_graph_add_input(g, LS_INPUT_NOISE, LS_SHAPE(CODE), LS_DTYPE_F32);
    ls_value target = ls_graph_add_input(g, "target", image, LS_DTYPE_F32);
    x = decode(g, ls_normal_sample(g, code, noise, "sample"), image);
    ls_binary_cross_entropy(g, x, target,
                            &(ls_loss_attrs){.name = "reconstruction_loss", .weight = (double)ls_shape_count(image)});
    ls_normal_divergence(g, code, &(ls_loss_attrs){.name = "kl_loss"});
    return ls_activate(g, x, LS_ACTIVATION_SIGMOID, "drawn");
}

const ls_model ls__model_vae = {
    .name = "vae",
    .help = "a variational auto-encoder: draws its image again, and others of noise",
    .input = {3, {28, 28, 1}},
    .classes = 10,
    .divides = 4,
    .build = build,
};
