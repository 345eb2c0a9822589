// A generative adversarial network of two convolutional networks, for small images. The discriminator has strided convolutions, the generator transposed ones, as of
// Radford, Metz and Chintala, "Unsupervised representation learning with deep convolutional generative adversarial networks", 2015 (DCGAN). Neither has batch
// normalization, whose statistics would be those of a micro-batch of real and drawn images mixed: the generator normalizes the channels of each pixel instead (as Karras et al.,
// "Progressive growing of GANs", 2017, section 4.2, but by mean and variance), the discriminator nothing, as in Keras's example of a DCGAN (2021), which also shows it both kinds of
// images in one batch. SiLU stands in for the leaky ReLU.
//
// Each sample is a coin and noise: where the coin says so, the discriminator is shown the sample's image, else what the generator makes of the noise. So one step of it is one
// batch, and which images it holds is a function of seed, epoch and sample.
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "models/models.h"

enum { NOISE = 64, WIDE = 64, NARROW = 32 };

static ls_value up(ls_graph *g, ls_value x, const char *name, const char *norm, int filters) {
    x = ls_conv2d_transpose(
        g, x,
        &(ls_conv2d_transpose_attrs){
            .name = name, .filters = filters, .kernel = {4, 4}, .strides = {2, 2}, .padding = LS_PADDING_SAME});
    return ls_activate(g, ls_layer_norm(g, x, &(ls_layer_norm_attrs){.name = norm}), LS_ACTIVATION_RELU, NULL);
}

// Noise to an image with values between 0 and 1.
static ls_value generate(ls_graph *g, ls_value noise, ls_shape image) {
    int h = (int)image.dim[0] / 4, w = (int)image.dim[1] / 4;
    ls_value x = ls_dense(g, noise, &(ls_dense_attrs){.name = "generator_dense", .units = h * w * WIDE});
    x = ls_reshape(g, x, &(ls_reshape_attrs){.shape = {h, w, WIDE}});
    x = ls_layer_norm(g, x, &(ls_layer_norm_attrs){.name = "generator_norm0"});
    x = ls_activate(g, x, LS_ACTIVATION_RELU, NULL);
    x = up(g, x, "generator_up1", "generator_norm1", WIDE);
    x = up(g, x, "generator_up2", "generator_norm2", NARROW);
    return ls_conv2d(g, x,
                     &(ls_conv2d_attrs){.name = "generator_image",
                                        .filters = (int)image.dim[2],
                                        .kernel = {5, 5},
                                        .padding = LS_PADDING_SAME,
                                        .activation = LS_ACTIVATION_SIGMOID});
}

static ls_value down(ls_graph *g, ls_value x, const char *name, int filters) {
    return ls_conv2d(g, x,
                     &(ls_conv2d_attrs){.name = name,
                                        .filters = filters,
                                        .kernel = {5, 5},
                                        .strides = {2, 2},
                                        .padding = LS_PADDING_SAME,
                                        .activation = LS_ACTIVATION_SILU});
}

// An image to a logit: whether it is of the dataset.
static ls_value judge(ls_graph *g, ls_value x) {
    x = down(g, x, "discriminator_down1", NARROW);
    x = down(g, x, "discriminator_down2", 2 * WIDE);
    x = ls_dropout(g, ls_flatten(g, x, NULL), &(ls_dropout_attrs){.name = "discriminator_dropout", .rate = 0.3f});
    return ls_dense(g, x, &(ls_dense_attrs){.name = "discriminator_score", .units = 1});
}

static ls_value not(ls_graph * g, ls_value coin) {
    return ls_rescaling(g, coin, &(ls_rescaling_attrs){.scale = -1, .offset = 1});
}

// A factor for each channel of an image out of one number.
static ls_value spread(ls_graph *g, ls_value coin, ls_shape image) {
    ls_value x = ls_reshape(g, coin, &(ls_reshape_attrs){.shape = {1, 1, 1}});
    return image.dim[2] == 1 ? x : ls_concat(g, (ls_value[]){x, x, x}, 3, &(ls_concat_attrs){.axis = 3});
}

static ls_status build_discriminator(ls_graph *g, ls_shape image) {
    ls_value real = ls_graph_add_input(g, "image", image, LS_DTYPE_F32);
    ls_value noise = ls_graph_add_input(g, LS_INPUT_NOISE, LS_SHAPE(NOISE), LS_DTYPE_F32);
    ls_value coin = ls_graph_add_input(g, LS_INPUT_COIN, LS_SHAPE(1), LS_DTYPE_F32);
    ls_value drawn = generate(g, noise, image);
    ls_value shown = ls_add(g, ls_multiply(g, real, spread(g, coin, image), NULL),
                            ls_multiply(g, drawn, spread(g, not(g, coin), image), NULL), NULL);
    ls_value score = judge(g, shown);
    ls_binary_cross_entropy(g, score, coin, &(ls_loss_attrs){.name = "discriminator_loss", .label_smoothing = 0.1});
    ls_binary_accuracy(g, score, coin, &(ls_metric_attrs){.name = "accuracy"});
    LS_TRY(ls_graph_finish(g, score));
    return ls_graph_freeze(g, "generator*", 1, NULL);
}

// Its loss is low where the discriminator takes all that is drawn for real.
static ls_status build_generator(ls_graph *g, ls_shape image) {
    ls_value noise = ls_graph_add_input(g, LS_INPUT_NOISE, LS_SHAPE(NOISE), LS_DTYPE_F32);
    ls_value coin = ls_graph_add_input(g, LS_INPUT_COIN, LS_SHAPE(1), LS_DTYPE_F32);
    ls_value score = judge(g, generate(g, noise, image));
    ls_binary_cross_entropy(g, score, ls_add(g, coin, not(g, coin), "ones"),
                            &(ls_loss_attrs){.name = "generator_loss"});
    LS_TRY(ls_graph_finish(g, score));
    return ls_graph_freeze(g, "discriminator*", 1, NULL);
}

static ls_status build_drawing(ls_graph *g, ls_shape image) {
    ls_value noise = ls_graph_add_input(g, LS_INPUT_NOISE, LS_SHAPE(NOISE), LS_DTYPE_F32);
    return ls_graph_finish_features(g, generate(g, noise, image));
}

ls_status ls_gan_build(ls_shape image, ls_gan *out) {
    ls_store *store;
    LS_NEED(out, "out");
    *out = (ls_gan){.noise = NOISE};
    if (image.ndim != 3 || image.dim[0] < 8 || image.dim[1] < 8 || image.dim[0] % 4 || image.dim[1] % 4 ||
        (image.dim[2] != 1 && image.dim[2] != 3))
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "the generator draws images in grey or colour whose sides 4 divides, of 8 pixels at least: resize "
            "them (image_size)");
    LS_TRY(ls_store_create(&store));
    ls_status status = ls_graph_create_empty("discriminator", store, &out->discriminator);
    if (status == LS_OK) status = ls_graph_create_empty("generator", store, &out->generator);
    if (status == LS_OK) status = ls_graph_create_empty("drawing", store, &out->drawing);
    if (status == LS_OK) status = build_discriminator(out->discriminator, image);
    if (status == LS_OK) status = build_generator(out->generator, image);
    if (status == LS_OK) status = build_drawing(out->drawing, image);
    ls_store_destroy(&store);
    if (status != LS_OK) ls_gan_destroy(out);
    return status;
}

void ls_gan_destroy(ls_gan *gan) {
    if (!gan) return;
    ls_graph_destroy(&gan->discriminator);
    ls_graph_destroy(&gan->generator);
    ls_graph_destroy(&gan->drawing);
}
