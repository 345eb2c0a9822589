// Building a network: a static graph of layers, with Keras's names, defaults and shapes.
//
//     ls_graph *g;
//     CHECK(ls_graph_create("my-net", LS_SHAPE(28, 28, 1), &g));
//     ls_value x = ls_graph_input(g);
//     x = ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 32, .kernel = {3, 3}, .activation = LS_ACTIVATION_RELU});
//     x = ls_flatten(g, x);
//     x = ls_dense(g, x, &(ls_dense_attrs){.units = 10});
//     CHECK(ls_graph_finish(g, x));  // CHECK: yours; every call returns a status
//
// A layer function returns the value it computes. When something is wrong (a kernel larger than its image, say) it
// returns LS_NO_VALUE, the graph remembers the first such failure, later layers pass it on, and ls_graph_finish
// returns it: one check at the end is enough. Every layer has to lead to the output. Nothing here communicates ("Not
// collective").
#ifndef LOCKSTEP_GRAPH_H
#define LOCKSTEP_GRAPH_H

#include <lockstep/status.h>
#include <lockstep/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_graph ls_graph;
typedef int ls_value;  // what a layer computes, as an index in its graph
#define LS_NO_VALUE (-1)

typedef enum ls_activation { LS_ACTIVATION_NONE, LS_ACTIVATION_RELU } ls_activation;
typedef enum ls_padding { LS_PADDING_VALID, LS_PADDING_SAME } ls_padding;

// Weight initializers, under Keras's names; each with Keras's formula.
//   enum name          text
#define LS_INITIALIZER_LIST(X)                                                                                         \
    X(DEFAULT, "default") /* glorot_uniform for kernels, zeros for biases */                                           \
    X(GLOROT_UNIFORM, "glorot_uniform")                                                                                \
    X(GLOROT_NORMAL, "glorot_normal")                                                                                  \
    X(HE_UNIFORM, "he_uniform")                                                                                        \
    X(HE_NORMAL, "he_normal")                                                                                          \
    X(LECUN_UNIFORM, "lecun_uniform")                                                                                  \
    X(LECUN_NORMAL, "lecun_normal")                                                                                    \
    X(ZEROS, "zeros")                                                                                                  \
    X(ONES, "ones")
typedef enum ls_initializer {
#define LS_INITIALIZER_ENUM(name, text) LS_INITIALIZER_##name,
    LS_INITIALIZER_LIST(LS_INITIALIZER_ENUM)
#undef LS_INITIALIZER_ENUM
} ls_initializer;

// In every attribute struct a zero means Keras's default, and `name` NULL means Keras's automatic name (conv2d_1).

typedef struct ls_conv2d_attrs {
    const char *name;
    int filters;         // output channels
    int kernel[2];       // height, width
    int strides[2];      // default 1, 1
    ls_padding padding;  // default valid
    ls_activation activation;
    int no_bias;  // 1: without the bias (Keras's use_bias=False)
    ls_initializer kernel_initializer, bias_initializer;
} ls_conv2d_attrs;

typedef struct ls_pool2d_attrs {
    const char *name;
    int size[2];         // default 2, 2
    int strides[2];      // default: the size
    ls_padding padding;  // default valid
} ls_pool2d_attrs;

typedef struct ls_dense_attrs {
    const char *name;
    int units;
    ls_activation activation;
    int no_bias;
    ls_initializer kernel_initializer, bias_initializer;
} ls_dense_attrs;

typedef struct ls_batch_norm_attrs {
    const char *name;
    float momentum;  // of the moving mean and variance; default 0.99
    float epsilon;   // added to the variance; default 0.001
} ls_batch_norm_attrs;

typedef struct ls_zero_pad2d_attrs {
    const char *name;
    int padding[2][2];  // {top, bottom}, {left, right}; all zero: 1 on each side
} ls_zero_pad2d_attrs;

typedef struct ls_dropout_attrs {
    const char *name;
    float rate;  // the fraction set to zero, 0 <= rate < 1; the rest is scaled by 1 / (1 - rate)
} ls_dropout_attrs;

// A new graph for samples of the given shape (without the batch), e.g. (H, W, C). The caller destroys it.
// Errors: INVALID_ARGUMENT (a dimension under 1, more than 3 dimensions), OUT_OF_MEMORY.
ls_status ls_graph_create(const char *name, ls_shape input, ls_graph **out);
void ls_graph_destroy(ls_graph **graph);

ls_value ls_graph_input(const ls_graph *graph);

// (N, H, W, C) -> (N, H', W', filters). Parameters: NAME/kernel (KH, KW, C, filters), NAME/bias (filters).
ls_value ls_conv2d(ls_graph *graph, ls_value x, const ls_conv2d_attrs *attrs);
// (N, C) -> (N, units). Parameters: NAME/kernel (C, units), NAME/bias (units).
ls_value ls_dense(ls_graph *graph, ls_value x, const ls_dense_attrs *attrs);
// (N, H, W, C) -> (N, H', W', C).
ls_value ls_max_pool2d(ls_graph *graph, ls_value x, const ls_pool2d_attrs *attrs);
// The same with the mean; padding does not count.
ls_value ls_average_pool2d(ls_graph *graph, ls_value x, const ls_pool2d_attrs *attrs);
// (N, H, W, C) -> (N, C).
ls_value ls_global_max_pool2d(ls_graph *graph, ls_value x, const char *name);
ls_value ls_global_average_pool2d(ls_graph *graph, ls_value x, const char *name);
ls_value ls_relu(ls_graph *graph, ls_value x, const char *name);
// The same under the name of Keras's Activation layer.
ls_value ls_activate(ls_graph *graph, ls_value x, ls_activation activation, const char *name);
// (N, ..., C) -> the same: each channel normalized to mean 0 and variance 1, then scaled by gamma and shifted by beta.
// Training takes mean and (population) variance over the micro-batch, evaluation the moving ones, which after every step move
// by 1 - momentum towards the mean of the step's micro-batches. Parameters: NAME/gamma, NAME/beta (C); not trained:
// NAME/moving_mean, NAME/moving_variance (C). Source: Ioffe and Szegedy 2015; defaults and statistics as Keras has them.
ls_value ls_batch_norm(ls_graph *graph, ls_value x, const ls_batch_norm_attrs *attrs);
// The sum of two values of one shape.
ls_value ls_add(ls_graph *graph, ls_value a, ls_value b, const char *name);
// (N, H, W, C) -> (N, top + H + bottom, left + W + right, C), zero outside.
ls_value ls_zero_pad2d(ls_graph *graph, ls_value x, const ls_zero_pad2d_attrs *attrs);
// (N, ...) -> (N, product): rows in NHWC order, as Keras does it.
ls_value ls_flatten(ls_graph *graph, ls_value x, const char *name);
// Zeroes a fraction of the elements while training; the identity in evaluation. Which elements is a function of
// (seed, epoch, sample, layer), not of the batch or the worker.
ls_value ls_dropout(ls_graph *graph, ls_value x, const ls_dropout_attrs *attrs);

// Declares `logits` (N, classes) the output and closes the graph: from here on it is immutable. Training adds the
// softmax cross-entropy on it. Errors: whatever the first failing layer said; INVALID_ARGUMENT.
ls_status ls_graph_finish(ls_graph *graph, ls_value logits);
// The same for a network without a classifier: `features` is its output, of any shape. It has layers and parameters to look
// at and cannot be trained.
ls_status ls_graph_finish_features(ls_graph *graph, ls_value features);

const char *ls_graph_name(const ls_graph *graph);
int64_t ls_graph_parameter_count(const ls_graph *graph);            // scalars, as Keras counts them
int64_t ls_graph_trainable_parameter_count(const ls_graph *graph);  // without the statistics of batch normalization
int ls_graph_classes(const ls_graph *graph);                        // 0: not finished, or without a classifier

// How a built-in network is to be: the arguments Keras's applications take. ls_model_config_init gives the defaults.
typedef struct ls_model_config {
    ls_shape input;   // of one sample; {0} (the default): the model's own
    int classes;      // 0 (the default): the model's own
    int include_top;  // 1 (the default): with the classifier; 0: the network ends in features (ls_graph_finish_features)
    const char *pooling;  // of the features: "none" (the default) (H, W, C); "avg", "max": (C), over the image
    // "softmax" (the default), "none". The network ends in logits either way: the softmax is part of the loss.
    const char *classifier_activation;
    double batch_norm_momentum;  // of all moving means and variances, below 1; 0 (the default): the model's own
} ls_model_config;

void ls_model_config_init(ls_model_config *config);

// A built-in network by name; `lockstep models` lists them. The caller destroys it. Errors: NOT_FOUND (with the names there
// are), INVALID_ARGUMENT (an option the network does not have, images it is too deep for, ...).
ls_status ls_model_build(const char *name, const ls_model_config *config, ls_graph **out);
// The same with everything but the input's shape and the number of classes as it is by default; {0} and 0 mean the model's own.
ls_status ls_model_create(const char *name, ls_shape input, int classes, ls_graph **out);

#ifdef __cplusplus
}
#endif
#endif
