// A generative adversarial network of two convolutional networks, for small images. The discriminator has strided convolutions, the generator transposed ones, as of
// Radford, Metz and Chintala, "Unsupervised representation learning with deep convolutional generative adversarial networks", 2015 (DCGAN). Neither has batch
// normalization, whose statistics would be those of a micro-batch of real and drawn images mixed: the generator normalizes the channels of each pixel instead (as Karras et al.,
// "Progressive growing of GANs", 2017, section 4.2, but by mean and variance), the discriminator nothing, as in Keras's example of a DCGAN (2021), which also shows it both kinds of
// images in one batch. SiLU stands in for the leaky ReLU.
//
// Each sample is a coin and noise: where the coin says so, the discriminator is shown the sample's image, else what the generator makes of the noise. So one step of it is one
// batch, and which images it holds is a function of seed, epoch and sample.
//
// One that grows begins with small images and doubles them, as Karras et al. do. There what a stage adds is blended in by a factor that rises with the images seen; here it is added to what was there, and
// its last kernel begins at zero: at first all is as before, and how fast it comes in is learnt. So a stage is a graph like any other, in which nothing depends on the step. Pictures are summed over the sizes,
// as Karras et al., "Analyzing and improving the image quality of StyleGAN", 2019, section 4.2, have it.
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "models/models.h"

enum { NOISE = 64, WIDE = 64, NARROW = 32, MOST_STAGES = 8 };

// Of one that grows: the stage, counted from 0. As it is by default it does not grow.
typedef struct growth {
    int stages, stage;
} growth;

static ls_value up(ls_graph *g, ls_value x, const char *name, const char *norm, int filters) {
    x = ls_conv2d_transpose(
        g, x,
        &(ls_conv2d_transpose_attrs){
            .name = name, .filters = filters, .kernel = {4, 4}, .strides = {2, 2}, .padding = LS_PADDING_SAME});
    return ls_activate(g, ls_layer_norm(g, x, &(ls_layer_norm_attrs){.name = norm}), LS_ACTIVATION_RELU, NULL);
}

// Noise to the first features (H / part, W / part, WIDE).
static ls_value begin(ls_graph *g, ls_value noise, ls_shape image, int part) {
    int h = (int)image.dim[0] / part, w = (int)image.dim[1] / part;
    ls_value x = ls_dense(g, noise, &(ls_dense_attrs){.name = "generator_dense", .units = h * w * WIDE});
    x = ls_reshape(g, x, &(ls_reshape_attrs){.shape = {h, w, WIDE}});
    x = ls_layer_norm(g, x, &(ls_layer_norm_attrs){.name = "generator_norm0"});
    return ls_activate(g, x, LS_ACTIVATION_RELU, NULL);
}

static int filters_of(growth by, int stage) { return stage + 1 < by.stages ? WIDE : NARROW; }

// What a stage adds to the picture, before the sigmoid: of all but the first, nothing at first.
static ls_value to_image(ls_graph *g, ls_value x, ls_shape image, int stage) {
    char name[32];
    snprintf(name, sizeof name, "generator_image%d", stage);
    return ls_conv2d(g, x,
                     &(ls_conv2d_attrs){.name = name,
                                        .filters = (int)image.dim[2],
                                        .kernel = {3, 3},
                                        .padding = LS_PADDING_SAME,
                                        .kernel_initializer = stage ? LS_INITIALIZER_ZEROS : LS_INITIALIZER_DEFAULT});
}

static ls_value generate_grown(ls_graph *g, ls_value noise, ls_shape image, growth by) {
    ls_value x = begin(g, noise, image, 1 << (by.stages - 1)), picture = to_image(g, x, image, 0);
    for (int stage = 1; stage <= by.stage; stage++) {
        char name[32], norm[32];
        snprintf(name, sizeof name, "generator_up%d", stage);
        snprintf(norm, sizeof norm, "generator_norm%d", stage);
        x = up(g, x, name, norm, filters_of(by, stage));
        picture = ls_add(g, ls_up_sampling2d(g, picture, NULL), to_image(g, x, image, stage), NULL);
    }
    return ls_activate(g, picture, LS_ACTIVATION_SIGMOID, NULL);
}

// Noise to an image with values between 0 and 1.
static ls_value generate(ls_graph *g, ls_value noise, ls_shape image, growth by) {
    if (by.stages) return generate_grown(g, noise, image, by);
    ls_value x = begin(g, noise, image, 4);
    x = up(g, x, "generator_up1", "generator_norm1", WIDE);
    x = up(g, x, "generator_up2", "generator_norm2", NARROW);
    return ls_conv2d(g, x,
                     &(ls_conv2d_attrs){.name = "generator_image",
                                        .filters = (int)image.dim[2],
                                        .kernel = {5, 5},
                                        .padding = LS_PADDING_SAME,
                                        .activation = LS_ACTIVATION_SIGMOID});
}

static ls_value down(ls_graph *g, ls_value x, const char *name, int filters, ls_initializer initializer) {
    return ls_conv2d(g, x,
                     &(ls_conv2d_attrs){.name = name,
                                        .filters = filters,
                                        .kernel = {5, 5},
                                        .strides = {2, 2},
                                        .padding = LS_PADDING_SAME,
                                        .activation = LS_ACTIVATION_SILU,
                                        .kernel_initializer = initializer});
}

// At each size the image itself and what comes from the size above, which is nothing at first.
static ls_value features_grown(ls_graph *g, ls_value image, growth by) {
    ls_value above = LS_NO_VALUE;
    for (int stage = by.stage; stage >= 0; stage--) {
        char name[40];
        snprintf(name, sizeof name, "discriminator_image%d", stage);
        ls_value x = ls_conv2d(g, image,
                               &(ls_conv2d_attrs){.name = name,
                                                  .filters = filters_of(by, stage),
                                                  .kernel = {3, 3},
                                                  .padding = LS_PADDING_SAME,
                                                  .activation = LS_ACTIVATION_SILU});
        if (stage < by.stage) x = ls_add(g, x, above, NULL);
        snprintf(name, sizeof name, "discriminator_down%d", stage);
        if (!stage) return down(g, x, name, 2 * WIDE, LS_INITIALIZER_DEFAULT);
        above = down(g, x, name, filters_of(by, stage - 1), LS_INITIALIZER_ZEROS);
        image = ls_average_pool2d(g, image, NULL);
    }
    return above;
}

static ls_value features(ls_graph *g, ls_value image, growth by) {
    if (by.stages) return features_grown(g, image, by);
    ls_value x = down(g, image, "discriminator_down1", NARROW, LS_INITIALIZER_DEFAULT);
    return down(g, x, "discriminator_down2", 2 * WIDE, LS_INITIALIZER_DEFAULT);
}

// An image to a logit: whether it is of the dataset.
static ls_value judge(ls_graph *g, ls_value x, growth by) {
    x = features(g, x, by);
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

// How many times smaller its images are than the last stage's.
static int smaller(growth by) { return by.stages ? 1 << (by.stages - 1 - by.stage) : 1; }

static ls_status build_discriminator(ls_graph *g, ls_shape image, growth by) {
    ls_value real = ls_graph_add_input(g, "image", image, LS_DTYPE_F32);
    int part = smaller(by);
    if (part > 1) real = ls_average_pool2d(g, real, &(ls_pool2d_attrs){.size = {part, part}});
    ls_value noise = ls_graph_add_input(g, LS_INPUT_NOISE, LS_SHAPE(NOISE), LS_DTYPE_F32);
    ls_value coin = ls_graph_add_input(g, LS_INPUT_COIN, LS_SHAPE(1), LS_DTYPE_F32);
    ls_value drawn = generate(g, noise, image, by);
    ls_value shown = ls_add(g, ls_multiply(g, real, spread(g, coin, image), NULL),
                            ls_multiply(g, drawn, spread(g, not(g, coin), image), NULL), NULL);
    ls_value score = judge(g, shown, by);
    ls_binary_cross_entropy(g, score, coin, &(ls_loss_attrs){.name = "discriminator_loss", .label_smoothing = 0.1});
    ls_binary_accuracy(g, score, coin, &(ls_metric_attrs){.name = "accuracy"});
    LS_TRY(ls_graph_finish(g, score));
    return ls_graph_freeze(g, "generator*", 1, NULL);
}

// Its loss is low where the discriminator takes all that is drawn for real.
static ls_status build_generator(ls_graph *g, ls_shape image, growth by) {
    ls_value noise = ls_graph_add_input(g, LS_INPUT_NOISE, LS_SHAPE(NOISE), LS_DTYPE_F32);
    ls_value coin = ls_graph_add_input(g, LS_INPUT_COIN, LS_SHAPE(1), LS_DTYPE_F32);
    ls_value score = judge(g, generate(g, noise, image, by), by);
    ls_binary_cross_entropy(g, score, ls_add(g, coin, not(g, coin), "ones"),
                            &(ls_loss_attrs){.name = "generator_loss"});
    LS_TRY(ls_graph_finish(g, score));
    return ls_graph_freeze(g, "discriminator*", 1, NULL);
}

static ls_status build_drawing(ls_graph *g, ls_shape image, growth by) {
    ls_value noise = ls_graph_add_input(g, LS_INPUT_NOISE, LS_SHAPE(NOISE), LS_DTYPE_F32);
    ls_value drawn = generate(g, noise, image, by);
    int part = smaller(by);
    if (part > 1) drawn = ls_up_sampling2d(g, drawn, &(ls_up_sampling2d_attrs){.size = {part, part}});
    return ls_graph_finish_features(g, drawn);
}

static ls_status build(ls_store *store, ls_shape image, growth by, ls_gan *out) {
    *out = (ls_gan){.noise = NOISE};
    ls_status status = ls_graph_create_empty("discriminator", store, &out->discriminator);
    if (status == LS_OK) status = ls_graph_create_empty("generator", store, &out->generator);
    if (status == LS_OK) status = ls_graph_create_empty("drawing", store, &out->drawing);
    if (status == LS_OK) status = build_discriminator(out->discriminator, image, by);
    if (status == LS_OK) status = build_generator(out->generator, image, by);
    if (status == LS_OK) status = build_drawing(out->drawing, image, by);
    if (status != LS_OK) ls_gan_destroy(out);
    return status;
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
    ls_status status = build(store, image, (growth){0}, out);
    ls_store_destroy(&store);
    return status;
}

ls_status ls_gan_build_growing(ls_shape image, int stages, ls_gan *out) {
    ls_store *store;
    LS_NEED(out, "out");
    if (stages < 2 || stages > MOST_STAGES)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "images grow in 2 to %d stages, not in %d", MOST_STAGES, stages);
    memset(out, 0, (size_t)stages * sizeof *out);
    int part = 1 << (stages - 1);
    if (image.ndim != 3 || image.dim[0] < 4 * part || image.dim[1] < 4 * part || image.dim[0] % part ||
        image.dim[1] % part || (image.dim[2] != 1 && image.dim[2] != 3))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "in %d stages images grow, in grey or colour, whose sides %d divides, of %d pixels at least: "
                       "resize them (image_size), or let them grow in fewer",
                       stages, part, 4 * part);
    LS_TRY(ls_store_create(&store));
    ls_status status = LS_OK;
    for (int stage = 0; stage < stages && status == LS_OK; stage++)
        status = build(store, image, (growth){stages, stage}, &out[stage]);
    ls_store_destroy(&store);
    for (int stage = 0; stage < stages && status != LS_OK; stage++) ls_gan_destroy(&out[stage]);
    return status;
}

void ls_gan_destroy(ls_gan *gan) {
    if (!gan) return;
    ls_graph_destroy(&gan->discriminator);
    ls_graph_destroy(&gan->generator);
    ls_graph_destroy(&gan->drawing);
}
