// Networks that are no classifiers of images, as make_networks.py has them in PyTorch: many labels at once, an image as target, clips, two inputs
// with two weighted losses, tokens, two that share a body; and one of images, of separable convolutions, squeeze and excitation.
#ifndef LS_TESTS_NETWORKS_H
#define LS_TESTS_NETWORKS_H

#include <string.h>

#include <lockstep/graph.h>

static inline ls_value network_conv(ls_graph *g, ls_value x, const char *name, int size, int filters, int same,
                                    int relu) {
    return ls_conv2d(g, x,
                     &(ls_conv2d_attrs){.name = name,
                                        .filters = filters,
                                        .kernel = {size, size},
                                        .padding = same ? LS_PADDING_SAME : LS_PADDING_VALID,
                                        .activation = relu ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE});
}

static inline ls_value network_dense(ls_graph *g, ls_value x, const char *name, int units, int relu) {
    return ls_dense(
        g, x,
        &(ls_dense_attrs){.name = name, .units = units, .activation = relu ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE});
}

// 14 labels at once: losses and metrics "loss", "auc" (14 parts), "binary_accuracy".
static inline ls_status network_multi_label(ls_graph *g) {
    ls_value x = ls_graph_add_input(g, "image", LS_SHAPE(12, 12, 3), LS_DTYPE_F32);
    ls_value there = ls_graph_add_input(g, "labels", LS_SHAPE(14), LS_DTYPE_F32);
    x = ls_max_pool2d(g, network_conv(g, x, NULL, 3, 8, 1, 1), &(ls_pool2d_attrs){.size = {2, 2}});
    x = ls_global_average_pool2d(g, network_conv(g, x, NULL, 3, 16, 0, 1), NULL);
    x = network_dense(g, x, NULL, 14, 0);
    ls_binary_cross_entropy(g, x, there, &(ls_loss_attrs){.name = "loss", .positive_weight = 2});
    ls_auc(g, x, there, NULL);
    ls_binary_accuracy(g, x, there, NULL);
    return ls_graph_finish(g, x);
}

// The image itself is the target, through a code of half its height and width: "loss", "error".
static inline ls_status network_auto_encoder(ls_graph *g) {
    ls_value image = ls_graph_add_input(g, "image", LS_SHAPE(8, 8, 3), LS_DTYPE_F32);
    ls_value x = ls_conv2d(g, image,
                           &(ls_conv2d_attrs){.filters = 8,
                                              .kernel = {3, 3},
                                              .strides = {2, 2},
                                              .padding = LS_PADDING_SAME,
                                              .activation = LS_ACTIVATION_RELU});
    x = network_conv(g, x, "code", 1, 4, 1, 0);
    x = ls_conv2d_transpose(g, x,
                            &(ls_conv2d_transpose_attrs){.filters = 8,
                                                         .kernel = {3, 3},
                                                         .strides = {2, 2},
                                                         .padding = LS_PADDING_SAME,
                                                         .activation = LS_ACTIVATION_RELU});
    x = network_conv(g, x, NULL, 3, 3, 1, 0);
    ls_mean_squared_error(g, x, image, &(ls_loss_attrs){.name = "loss"});
    ls_mean_absolute_error_metric(g, x, image, &(ls_metric_attrs){.name = "error"});
    return ls_graph_finish(g, x);
}

// A normal distribution of an image, 4 means and 4 log variances, and an image of a sample of it: "reconstruction_loss", "kl_loss".
static inline ls_status network_variational(ls_graph *g) {
    ls_value image = ls_graph_add_input(g, "image", LS_SHAPE(8, 8, 1), LS_DTYPE_F32);
    ls_value noise = ls_graph_add_input(g, LS_INPUT_NOISE, LS_SHAPE(4), LS_DTYPE_F32);
    ls_value x = ls_conv2d(g, image,
                           &(ls_conv2d_attrs){.filters = 8,
                                              .kernel = {3, 3},
                                              .strides = {2, 2},
                                              .padding = LS_PADDING_SAME,
                                              .activation = LS_ACTIVATION_RELU});
    ls_value code = network_dense(g, ls_flatten(g, x, NULL), "code", 8, 0);
    x = network_dense(g, ls_normal_sample(g, code, noise, NULL), "decoder", 64, 1);
    x = ls_reshape(g, x, &(ls_reshape_attrs){.shape = {4, 4, 4}});
    x = ls_conv2d_transpose(
        g, x,
        &(ls_conv2d_transpose_attrs){
            .name = "logits", .filters = 1, .kernel = {3, 3}, .strides = {2, 2}, .padding = LS_PADDING_SAME});
    ls_binary_cross_entropy(g, x, image, &(ls_loss_attrs){.name = "reconstruction_loss", .weight = 64});
    ls_normal_divergence(g, code, &(ls_loss_attrs){.name = "kl_loss", .weight = 0.5});
    return ls_graph_finish(g, x);
}

// What follows a clip, by convolutions and poolings over time, height and width: "loss", "error".
static inline ls_status network_volumes(ls_graph *g) {
    ls_value x = ls_graph_add_input(g, "image", LS_SHAPE(4, 6, 6, 2), LS_DTYPE_F32);
    ls_value target = ls_graph_add_input(g, "target", LS_SHAPE(4, 6, 6, 2), LS_DTYPE_F32);
    ls_conv3d_attrs conv = {
        .filters = 6, .kernel = {3, 3, 3}, .padding = LS_PADDING_SAME, .activation = LS_ACTIVATION_RELU};
    x = ls_max_pool3d(g, ls_conv3d(g, x, &conv), &(ls_pool3d_attrs){.size = {1, 2, 2}});
    x = ls_conv3d(
        g, x,
        &(ls_conv3d_attrs){
            .name = "code", .filters = 4, .kernel = {2, 3, 3}, .strides = {2, 1, 1}, .padding = LS_PADDING_SAME});
    x = ls_conv3d_transpose(g, x,
                            &(ls_conv3d_transpose_attrs){.filters = 6,
                                                         .kernel = {2, 4, 4},
                                                         .strides = {2, 2, 2},
                                                         .padding = LS_PADDING_SAME,
                                                         .activation = LS_ACTIVATION_RELU});
    x = ls_average_pool3d(g, x,
                          &(ls_pool3d_attrs){.size = {1, 3, 3}, .strides = {1, 1, 1}, .padding = LS_PADDING_SAME});
    conv.filters = 2, conv.activation = LS_ACTIVATION_NONE;
    x = ls_conv3d(g, x, &conv);
    ls_mean_squared_error(g, x, target, &(ls_loss_attrs){.name = "loss"});
    ls_mean_absolute_error_metric(g, x, target, &(ls_metric_attrs){.name = "error"});
    return ls_graph_finish(g, x);
}

// An image and some numbers; a class and some numbers: "class_loss", "top_2", "value_loss".
static inline ls_status network_two_losses(ls_graph *g) {
    ls_value image = ls_graph_add_input(g, "image", LS_SHAPE(6, 6, 2), LS_DTYPE_F32);
    ls_value numbers = ls_graph_add_input(g, "numbers", LS_SHAPE(5), LS_DTYPE_F32);
    ls_value label = ls_graph_add_input(g, "label", (ls_shape){0}, LS_DTYPE_I32);
    ls_value target = ls_graph_add_input(g, "target", LS_SHAPE(3), LS_DTYPE_F32);
    ls_value x = ls_flatten(g, network_conv(g, image, NULL, 3, 4, 0, 1), NULL);
    x = network_dense(g, x, "of_image", 10, 0);
    x = ls_relu(g, ls_add(g, x, network_dense(g, numbers, "of_numbers", 10, 1), NULL), NULL);
    ls_value scores = network_dense(g, x, "scores", 4, 0), values = network_dense(g, x, "values", 3, 0);
    ls_softmax_cross_entropy(g, scores, label, &(ls_loss_attrs){.name = "class_loss"});
    ls_top_k_accuracy(g, scores, label, &(ls_metric_attrs){.name = "top_2", .k = 2});
    ls_mean_squared_error(g, values, target, &(ls_loss_attrs){.name = "value_loss", .weight = 0.3});
    ls_graph_add_output(g, scores, NULL);
    ls_graph_add_output(g, values, NULL);
    return ls_graph_finish(g, LS_NO_VALUE);
}

// The mean of what tokens are embedded as: "loss", "accuracy".
static inline ls_status network_embedding(ls_graph *g) {
    ls_value tokens = ls_graph_add_input(g, "tokens", LS_SHAPE(10), LS_DTYPE_I32);
    ls_value label = ls_graph_add_input(g, "label", (ls_shape){0}, LS_DTYPE_I32);
    ls_value x = ls_embedding(g, tokens, &(ls_embedding_attrs){.rows = 12, .width = 6});
    x = network_dense(g, ls_global_average_pool1d(g, x, NULL), NULL, 8, 1);
    x = network_dense(g, x, NULL, 3, 0);
    ls_softmax_cross_entropy(g, x, label, &(ls_loss_attrs){.name = "loss"});
    ls_accuracy(g, x, label, &(ls_metric_attrs){.name = "accuracy"});
    return ls_graph_finish(g, x);
}

// Two that share a body, to be trained in turn: a class of an image (draws 0), some numbers of it (draws 1). The caller destroys it.
static inline ls_status network_in_turn(ls_store *store, int draws, ls_graph **out) {
    ls_status status = ls_graph_create_empty(draws ? "drawing" : "naming", store, out);
    if (status != LS_OK) return status;
    ls_value x = ls_flatten(*out, ls_graph_add_input(*out, "image", LS_SHAPE(6, 6, 2), LS_DTYPE_F32), NULL);
    x = network_dense(*out, x, "body", 10, 1);
    x = network_dense(*out, x, draws ? "values" : "scores", draws ? 3 : 4, 0);
    if (draws)
        ls_mean_squared_error(*out, x, ls_graph_add_input(*out, "target", LS_SHAPE(3), LS_DTYPE_F32), NULL);
    else
        ls_softmax_cross_entropy(*out, x, ls_graph_add_input(*out, "label", (ls_shape){0}, LS_DTYPE_I32), NULL);
    return ls_graph_finish(*out, x);
}

// What networks for telephones are built of, with normalizations over micro-batches: "loss".
static inline ls_status network_small_parts(ls_graph *g) {
    ls_value x = ls_graph_add_input(g, "image", LS_SHAPE(8, 8, 3), LS_DTYPE_F32), s;
    ls_value label = ls_graph_add_input(g, "label", (ls_shape){0}, LS_DTYPE_I32);
    x = ls_normalize(g, ls_rescaling(g, x, &(ls_rescaling_attrs){.scale = 2, .offset = 0.25}), NULL);
    x = ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 8, .kernel = {3, 3}, .no_bias = 1});
    x = ls_rescaling(g, ls_batch_norm(g, x, NULL), &(ls_rescaling_attrs){.scale = 40, .offset = 1});
    x = ls_activate(g, x, LS_ACTIVATION_RELU6, NULL);
    x = ls_separable_conv2d(g, x, &(ls_separable_conv2d_attrs){.filters = 12, .kernel = {3, 3}, .multiplier = 2});
    x = ls_activate(g, ls_batch_norm(g, x, &(ls_batch_norm_attrs){.no_scale = 1}), LS_ACTIVATION_RELU6, NULL);
    s = ls_global_average_pool2d_keepdims(g, x, NULL);
    s = ls_conv2d(g, s, &(ls_conv2d_attrs){.filters = 12, .kernel = {1, 1}, .activation = LS_ACTIVATION_SIGMOID});
    s = ls_separable_conv2d(
        g, ls_multiply(g, x, s, NULL),
        &(ls_separable_conv2d_attrs){.filters = 12, .kernel = {3, 3}, .padding = LS_PADDING_SAME, .no_bias = 1});
    x = ls_global_average_pool2d(g, ls_add(g, x, s, NULL), NULL);
    x = network_dense(g, x, NULL, 4, 0);
    ls_softmax_cross_entropy(g, x, label, &(ls_loss_attrs){.name = "loss"});
    return ls_graph_finish(g, x);
}

// One of them by its name in networks.json. The caller destroys it.
static inline ls_status network_create(const char *name, ls_graph **out) {
    ls_status status = ls_graph_create_empty(name, NULL, out);
    if (status != LS_OK) return status;
    if (strcmp(name, "multi-label") == 0) return network_multi_label(*out);
    if (strcmp(name, "auto-encoder") == 0) return network_auto_encoder(*out);
    if (strcmp(name, "variational") == 0) return network_variational(*out);
    if (strcmp(name, "volumes") == 0) return network_volumes(*out);
    if (strcmp(name, "embedding") == 0) return network_embedding(*out);
    if (strcmp(name, "small-parts") == 0) return network_small_parts(*out);
    return network_two_losses(*out);
}

#endif
