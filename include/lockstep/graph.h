// Building a network: a static graph of layers, with Keras's names, defaults and shapes.
//
//     #include <lockstep/graph.h>
//
//     ls_status make_net(ls_graph **g) {
//         ls_status status = ls_graph_create("my-net", LS_SHAPE(28, 28, 1), g);
//         if (status != LS_OK) return status;  // ls_error_message() says what is wrong
//         ls_value x = ls_graph_input(*g);
//         x = ls_conv2d(*g, x, &(ls_conv2d_attrs){.filters = 32, .kernel = {3, 3}, .activation = LS_ACTIVATION_RELU});
//         x = ls_flatten(*g, x, NULL);
//         x = ls_dense(*g, x, &(ls_dense_attrs){.units = 10});
//         return ls_graph_finish(*g, x);
//     }
//
// A layer function returns the value it computes; `attrs` may be NULL where all are as by default. When something is wrong (a kernel larger than its image, say) it
// returns LS_NO_VALUE, the graph remembers the first such failure, later layers pass it on, and ls_graph_finish
// returns it: one check at the end is enough. Every layer has to lead to the output. Nothing here communicates ("Not
// collective").
#ifndef LOCKSTEP_GRAPH_H
#define LOCKSTEP_GRAPH_H

#include <lockstep/attrs.h>
#include <lockstep/options.h>
#include <lockstep/status.h>
#include <lockstep/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct ls_graph ls_graph;
typedef struct ls_store ls_store;
typedef int ls_value;  // what a layer computes, as an index in its graph
#define LS_NO_VALUE (-1)

// --- graphs ----------------------------------------------------------------------------------------------------------

// A new graph for samples of the given shape (without the batch), e.g. (H, W, C). The caller destroys it.
// Errors: INVALID_ARGUMENT (a dimension under 1, more than 4 dimensions), OUT_OF_MEMORY.
ls_status ls_graph_create(const char *name, ls_shape input, ls_graph **out);
// A graph without inputs yet. Its parameters go into `store`, which other graphs may have theirs in, too: layers of one name share
// them, and must be of one shape. NULL: a store of its own. The graph holds the store; the caller may destroy it at once.
ls_status ls_graph_create_empty(const char *name, ls_store *store, ls_graph **out);
void ls_graph_destroy(ls_graph **graph);

// The (first) input.
ls_value ls_graph_input(const ls_graph *graph);
// Something batches bring along: `shape` of a sample ({0}: one number), F32 for anything floating (the plan decides in which
// precision), I32 for whole numbers: classes, words. `name` NULL: automatic. The dataset's field of that name is fed to it.
ls_value ls_graph_add_input(ls_graph *graph, const char *name, ls_shape shape, ls_dtype dtype);
// Something predictions give. `name` NULL: the layer's. Errors: INVALID_ARGUMENT, what an earlier layer failed with.
ls_status ls_graph_add_output(ls_graph *graph, ls_value value, const char *name);

// --- layers ----------------------------------------------------------------------------------------------------------

// (N, H, W, C) -> (N, H', W', filters). Parameters: NAME/kernel (KH, KW, C / groups, filters), NAME/bias (filters).
ls_value ls_conv2d(ls_graph *graph, ls_value x, const ls_conv2d_attrs *attrs);
// (N, C) -> (N, units), (N, T, C) -> (N, T, units). Parameters: NAME/kernel (C, units), NAME/bias (units).
ls_value ls_dense(ls_graph *graph, ls_value x, const ls_dense_attrs *attrs);
// (N, H, W, C) -> (N, H', W', C).
ls_value ls_max_pool2d(ls_graph *graph, ls_value x, const ls_pool2d_attrs *attrs);
// The same with the mean; padding does not count.
ls_value ls_average_pool2d(ls_graph *graph, ls_value x, const ls_pool2d_attrs *attrs);
// (N, H, W, C) -> (N, C).
ls_value ls_global_max_pool2d(ls_graph *graph, ls_value x, const char *name);
ls_value ls_global_average_pool2d(ls_graph *graph, ls_value x, const char *name);
// (N, H, W, C) -> (N, 1, 1, C). Keras's GlobalAveragePooling2D(keepdims=True).
ls_value ls_global_average_pool2d_keepdims(ls_graph *graph, ls_value x, const char *name);
ls_value ls_relu(ls_graph *graph, ls_value x, const char *name);
// Any activation, as Keras's Activation layer: (N, ...) -> the same. Softmax goes over the last axis. NONE: x itself.
ls_value ls_activate(ls_graph *graph, ls_value x, ls_activation activation, const char *name);
// (N, ..., C) -> the same: each channel normalized to mean 0 and variance 1, then scaled by gamma and shifted by beta.
// Training takes mean and (population) variance over the micro-batch, evaluation the moving ones, which after every step move
// by 1 - momentum towards the mean of the step's micro-batches. Parameters: NAME/gamma, NAME/beta (C); not trained:
// NAME/moving_mean, NAME/moving_variance (C). Source: Ioffe and Szegedy 2015; defaults and statistics as Keras has them.
ls_value ls_batch_norm(ls_graph *graph, ls_value x, const ls_batch_norm_attrs *attrs);
// The sum of two values of one shape.
ls_value ls_add(ls_graph *graph, ls_value a, ls_value b, const char *name);
// The product of two values of one shape, element by element; or the second has one value for each channel of a sample, (N, 1, 1, C) for
// (N, H, W, C), that all pixels are multiplied by. Keras's Multiply.
ls_value ls_multiply(ls_graph *graph, ls_value a, ls_value b, const char *name);
// `count` values, 2 to 16, one behind the other along an axis other than the batch; in the others their shapes are the same. Keras's
// Concatenate.
ls_value ls_concat(ls_graph *graph, const ls_value *x, int count, const ls_concat_attrs *attrs);
// (N, H, W, C) -> (N, H', W', C * multiplier): each channel by itself; output c * multiplier + m is the m-th of channel c. Parameters:
// NAME/kernel (KH, KW, C, multiplier), NAME/bias (C * multiplier). Keras's DepthwiseConv2D (before Keras 3: NAME/depthwise_kernel).
ls_value ls_depthwise_conv2d(ls_graph *graph, ls_value x, const ls_depthwise_conv2d_attrs *attrs);
// (N, H, W, C) -> (N, H', W', filters): a depthwise convolution without a bias, and a 1 x 1 convolution of what it gives. Parameters:
// NAME/depthwise_kernel (KH, KW, C, multiplier), NAME/pointwise_kernel (1, 1, C * multiplier, filters), NAME/bias (filters). Keras's
// SeparableConv2D.
ls_value ls_separable_conv2d(ls_graph *graph, ls_value x, const ls_separable_conv2d_attrs *attrs);
// (N, H, W, C) -> (N, H', W', filters), the reverse of a convolution that makes H x W of H' x W': H' is H * stride with padding same,
// else H * stride + max(KH - stride, 0). Parameters: NAME/kernel (KH, KW, filters, C), NAME/bias (filters). Keras's Conv2DTranspose.
ls_value ls_conv2d_transpose(ls_graph *graph, ls_value x, const ls_conv2d_transpose_attrs *attrs);
// (N, D, H, W, C) -> (N, D', H', W', filters): a convolution of volumes, or of clips, whose depth is time. Parameters: NAME/kernel
// (KD, KH, KW, C, filters), NAME/bias (filters). Keras's Conv3D, without groups.
ls_value ls_conv3d(ls_graph *graph, ls_value x, const ls_conv3d_attrs *attrs);
// (N, D, H, W, C) -> (N, D', H', W', filters), the reverse of one, each side as ls_conv2d_transpose has it. Parameters: NAME/kernel
// (KD, KH, KW, filters, C), NAME/bias (filters). Keras's Conv3DTranspose.
ls_value ls_conv3d_transpose(ls_graph *graph, ls_value x, const ls_conv3d_transpose_attrs *attrs);
// (N, D, H, W, C) -> (N, D', H', W', C). Keras's MaxPooling3D and AveragePooling3D; padding does not count.
ls_value ls_max_pool3d(ls_graph *graph, ls_value x, const ls_pool3d_attrs *attrs);
ls_value ls_average_pool3d(ls_graph *graph, ls_value x, const ls_pool3d_attrs *attrs);
// (N, H, W, C) -> (N, H * size[0], W * size[1], C): every pixel several times. Keras's UpSampling2D with interpolation nearest.
ls_value ls_up_sampling2d(ls_graph *graph, ls_value x, const ls_up_sampling2d_attrs *attrs);
// (N, ..., C) -> the same: the last axis of each sample normalized to mean 0 and variance 1, then scaled by gamma and shifted by beta, in
// training and evaluation alike. Parameters: NAME/gamma, NAME/beta (C). Source: Ba et al. 2016; Keras's LayerNormalization.
ls_value ls_layer_norm(ls_graph *graph, ls_value x, const ls_layer_norm_attrs *attrs);
// (N, ..., C) -> the same: of each sample, each group of neighbouring channels normalized over all pixels to mean 0 and variance 1, then each
// channel scaled by gamma and shifted by beta, in training and evaluation alike. Parameters: NAME/gamma, NAME/beta (C). Source: Wu and He
// 2018; Keras's GroupNormalization. With groups -1 instance normalization (Ulyanov et al. 2016).
ls_value ls_group_norm(ls_graph *graph, ls_value x, const ls_group_norm_attrs *attrs);
// Whole numbers (I32), (N) or (N, T) -> a vector for each, (N, width) or (N, T, width). A number that is not from 0 to rows - 1 fails the
// step that meets it. Parameter: NAME/embeddings (rows, width). Keras's Embedding.
ls_value ls_embedding(ls_graph *graph, ls_value x, const ls_embedding_attrs *attrs);
// (N, T, C) -> (N, C): the mean over the sequence. Keras's GlobalAveragePooling1D.
ls_value ls_global_average_pool1d(ls_graph *graph, ls_value x, const char *name);
// The same over the steps that count (below), 0 where none does.
ls_value ls_global_average_pool1d_masked(ls_graph *graph, ls_value x, ls_value mask, const char *name);
// (N, T, C) -> the same: to position t row t of a table is added. A sequence may be as long as the table, no longer. Parameter:
// NAME/embeddings (rows, C). As KerasHub's PositionEmbedding with the sum.
ls_value ls_position_embedding(ls_graph *graph, ls_value x, const ls_position_embedding_attrs *attrs);

// What follows takes sequences whose steps may not all count: `mask` is whole numbers (I32), (N, T), and a step whose number is 0 is
// padding, as Keras's Embedding(mask_zero=True) says it; LS_NO_VALUE: all count. Mostly it is the tokens themselves.

// (N, T, 3 C) -> (N, T, C): softmax attention. Of each position's 3 C channels the first C are its query, then come its key and its value;
// head h has channels h C / heads and on of each. What it gives is sum_j p_j value_j with p = softmax_j(query . key_j / sqrt(C / heads))
// over the positions j that count (and, with causal, are not after it), 0 where there are none. Without parameters: dense layers before
// and after it make a multi-head attention. Source: Vaswani et al. 2017.
ls_value ls_attention(ls_graph *graph, ls_value qkv, ls_value mask, const ls_attention_attrs *attrs);
// (N, T, C) -> (N, units), or (N, T, units) with return_sequences: a long short-term memory. A step that does not count leaves the state
// as it is, and gives it. Parameters, gates in the order input, forget, cell, output: NAME/kernel (C, 4 units), NAME/recurrent_kernel
// (units, 4 units), NAME/bias (4 units). Source: Hochreiter and Schmidhuber 1997; Keras's LSTM.
ls_value ls_lstm(ls_graph *graph, ls_value x, ls_value mask, const ls_recurrent_attrs *attrs);
// The same with gated recurrent units, gates in the order update, reset, candidate; the reset gate is applied after the recurrent product
// (reset_after=True, what cuDNN computes): NAME/kernel (C, 3 units), NAME/recurrent_kernel (units, 3 units), NAME/bias (2, 3 units), of
// the input and of the state. Source: Cho et al. 2014; Keras's GRU.
ls_value ls_gru(ls_graph *graph, ls_value x, ls_value mask, const ls_recurrent_attrs *attrs);
// (N, ..., 2 C) and noise (N, ..., C) -> (N, ..., C): mean + exp(log variance / 2) * noise, where the first C channels of the code are means
// and the others log variances. With noise of mean 0 and deviation 1 (LS_INPUT_NOISE) a sample of that normal distribution, through which
// gradients reach the code. Source: Kingma and Welling, "Auto-encoding variational Bayes", 2013, section 2.4.
ls_value ls_normal_sample(ls_graph *graph, ls_value code, ls_value noise, const char *name);
// (N, ...) -> (N, shape...): as many elements, in the same order. Keras's Reshape.
ls_value ls_reshape(ls_graph *graph, ls_value x, const ls_reshape_attrs *attrs);
// (N, H, W, C) -> (N, top + H + bottom, left + W + right, C), zero outside.
ls_value ls_zero_pad2d(ls_graph *graph, ls_value x, const ls_zero_pad2d_attrs *attrs);
// (N, top + H + bottom, left + W + right, C) -> (N, H, W, C): without what lies outside. INVALID_ARGUMENT where nothing is left. Keras's Cropping2D.
ls_value ls_cropping2d(ls_graph *graph, ls_value x, const ls_cropping2d_attrs *attrs);
// (N, ...) -> (N, product): rows in NHWC order, as Keras does it.
ls_value ls_flatten(ls_graph *graph, ls_value x, const char *name);
// x * scale + offset, element by element. Keras's Rescaling.
ls_value ls_rescaling(ls_graph *graph, ls_value x, const ls_rescaling_attrs *attrs);
// (N, ..., C) -> the same: (x - mean) / max(sqrt(variance), 1e-7), channel by channel, with numbers that come with the weights and are never
// trained. Parameters: NAME/mean, NAME/variance (C), NAME/count, one number that nothing reads. Keras's Normalization.
ls_value ls_normalize(ls_graph *graph, ls_value x, const char *name);
// Zeroes a fraction of the elements while training; the identity in evaluation. Which elements is a function of
// (seed, epoch, sample, layer), not of the batch or the worker. With per_sample a fraction of the samples.
ls_value ls_dropout(ls_graph *graph, ls_value x, const ls_dropout_attrs *attrs);

// --- losses and metrics ----------------------------------------------------------------------------------------------
//
// What training makes small is the sum of a graph's losses, each times its weight, over the samples; a metric is for people to look
// at. Both read what an input brings along as target, where they have one. A graph without losses is trained as a classifier: softmax cross-entropy and
// accuracy of its one output. Predictions compute neither.

// Softmax cross-entropy of scores (N, classes), which have no activation. Targets: I32 class numbers (N), or F32 rows of weights
// (N, classes). Of sequences, scores (N, T, classes) and class numbers (N, T): the mean over a sample's positions.
ls_value ls_softmax_cross_entropy(ls_graph *graph, ls_value logits, ls_value targets, const ls_loss_attrs *attrs);
// Binary cross-entropy of logits of any shape, which have no activation: many labels at once, each there or not. The mean over a sample's
// elements, as Keras's BinaryCrossentropy(from_logits=True). Targets: F32 of the same shape, mostly 0 or 1.
ls_value ls_binary_cross_entropy(ls_graph *graph, ls_value logits, ls_value targets, const ls_loss_attrs *attrs);
// The mean over a sample's elements of (prediction - target)^2. Predictions of any shape; targets: F32 of the same shape.
ls_value ls_mean_squared_error(ls_graph *graph, ls_value prediction, ls_value targets, const ls_loss_attrs *attrs);
// The same of |prediction - target|.
ls_value ls_mean_absolute_error(ls_graph *graph, ls_value prediction, ls_value targets, const ls_loss_attrs *attrs);
// How far the normal distribution that a code (N, ..., 2 C) is, C means and behind them C log variances, diverges from mean 0 and variance 1
// (Kullback and Leibler): the sum over a sample of (mean^2 + variance - 1 - log variance) / 2. It has no targets. Source: Kingma and
// Welling 2013, appendix B.
ls_value ls_normal_divergence(ls_graph *graph, ls_value code, const ls_loss_attrs *attrs);
// e to the mean of the softmax cross-entropy, over all samples and positions: how many classes a network is in doubt between. Targets as
// above.
ls_value ls_perplexity(ls_graph *graph, ls_value logits, ls_value targets, const ls_metric_attrs *attrs);
// The share of samples (and of positions) whose largest score is at the target's class; of equals the first counts. Targets as above.
ls_value ls_accuracy(ls_graph *graph, ls_value scores, ls_value targets, const ls_metric_attrs *attrs);
// The share of samples with fewer than k scores above that of the target's class, so that equals at the edge all count (Keras's
// TopKCategoricalAccuracy, k: 5). Targets as above.
ls_value ls_top_k_accuracy(ls_graph *graph, ls_value scores, ls_value targets, const ls_metric_attrs *attrs);
// The share of logits that are above 0 (a probability of 0.5) where their target is above 0.5, and not where it is not; the mean over all
// elements of a sample, any shape (Keras's BinaryAccuracy), with per_label each label's own as well. Targets: F32 of that shape.
ls_value ls_binary_accuracy(ls_graph *graph, ls_value logits, ls_value targets, const ls_metric_attrs *attrs);
// The mean over samples and their elements of |prediction - target|, to look at beside another loss. Targets: F32 of the prediction's
// shape.
ls_value ls_mean_absolute_error_metric(ls_graph *graph, ls_value prediction, ls_value targets,
                                       const ls_metric_attrs *attrs);
// The area under the ROC curve of each label of scores (N, labels), and their mean (macro average): from all samples of an evaluation at
// once, exact, equal scores counted half, as scikit-learn's roc_auc_score. Targets: F32 (N, labels), above 0.5 where a label is there,
// or I32 class numbers (N), each class against the rest. A label that all samples have, or none, has no area (NaN) and is left out of
// the mean. While training there is no value: each sample has a row of 2 labels doubles, which evaluation keeps.
ls_value ls_auc(ls_graph *graph, ls_value scores, ls_value targets, const ls_metric_attrs *attrs);
// The mean over classes of the share of a class's samples whose largest score is at it, of equals the first: every class counts as much as
// every other, however many samples it has (scikit-learn's balanced_accuracy_score). Classes without samples are left out. Targets as those of ls_accuracy. In
// evaluation alone, of which ls_trainer_confusion then tells what was taken for what.
ls_value ls_balanced_accuracy(ls_graph *graph, ls_value scores, ls_value targets, const ls_metric_attrs *attrs);

// --- finishing -------------------------------------------------------------------------------------------------------

// Declares `output` an output (LS_NO_VALUE: there are some already) and closes the graph: from here on it is immutable. Without losses
// of its own it is (N, classes) scores. Errors: whatever the first failing layer said; INVALID_ARGUMENT. The graph then stays open, and a
// trainer or predictor of it fails with the same sentence.
ls_status ls_graph_finish(ls_graph *graph, ls_value output);
// The same for a network without a classifier: `features` is its output, of any shape. It has layers and parameters to look
// at and cannot be trained without a loss of its own.
ls_status ls_graph_finish_features(ls_graph *graph, ls_value features);
// What a network with a layer ls_normal_sample draws of noise: all between that layer and its output, as a network of features on the same
// parameters, whose one input, LS_INPUT_NOISE, takes the sample's place. The caller destroys it. Errors: NOT_FOUND (there is no such layer),
// INVALID_ARGUMENT (its output is made of something else, too; not finished; several outputs), OUT_OF_MEMORY.
ls_status ls_graph_decoder(const ls_graph *network, ls_graph **out);
// Whether the graph is more than features: it can be trained as a classifier, or by losses of its own. Errors: INVALID_ARGUMENT.
ls_status ls_graph_check_classifier(const ls_graph *graph);
// Whether it has losses of its own.
int ls_graph_has_losses(const ls_graph *graph);
// A finished copy of a network without losses, on the same parameters, with those of a classifier: softmax cross-entropy "loss" and
// "accuracy", as a trainer adds them by itself, and besides "top_k_accuracy" of k scores, where k is above 0, and "balanced_accuracy". What is evaluated has the bits of
// the network's own evaluation. The caller destroys it. Errors: INVALID_ARGUMENT (losses of its own, features, several outputs, k), OUT_OF_MEMORY.
ls_status ls_graph_classifier(const ls_graph *network, int k, ls_graph **out);
// Parameters whose names match the pattern ("conv*", "block1_*", as file names match) are not trained by this graph (frozen 1) or are
// again (0), before a trainer is made of it. *matched (may be NULL): how many do; without it none is an error. Normalizations with
// frozen parameters compute as in inference. Errors: INVALID_ARGUMENT (not finished), NOT_FOUND.
ls_status ls_graph_freeze(ls_graph *graph, const char *pattern, int frozen, int *matched);
// The learning rate of parameters that match, times `scale` above 0: a new head on a trained body wants more, or the body less.
// Statistics have none. Errors: as above; INVALID_ARGUMENT (the scale).
ls_status ls_graph_scale_rate(ls_graph *graph, const char *pattern, double scale, int *matched);
// The weight decay of parameters that match, times `scale`, 0 or more. Decay is in proportion to a parameter's learning rate, too: where that is
// scaled by X and decay is to stay, scale it by 1/X. Errors: as above.
ls_status ls_graph_scale_decay(ls_graph *graph, const char *pattern, double scale, int *matched);

// --- looking at one --------------------------------------------------------------------------------------------------

typedef struct ls_port {
    const char *name;
    ls_shape shape;  // of a sample
    ls_dtype dtype;
} ls_port;

const char *ls_graph_name(const ls_graph *graph);
int64_t ls_graph_parameter_count(const ls_graph *graph);            // scalars, as Keras counts them
int64_t ls_graph_trainable_parameter_count(const ls_graph *graph);  // without statistics and what is frozen
int ls_graph_classes(const ls_graph *graph);                        // 0: not finished, or without a classifier
int ls_graph_input_count(const ls_graph *graph);
ls_port ls_graph_input_at(const ls_graph *graph, int index);
int ls_graph_output_count(const ls_graph *graph);
ls_port ls_graph_output_at(const ls_graph *graph, int index);
// What a network takes, for comparing one with another.
typedef struct ls_cost {
    double
        flops;  // of a sample's forward pass, additions and multiplications each counting as one; of convolutions, dense layers, recurrent ones and attention
    int64_t
        activations;  // elements that a sample's layers give, without those that only rename or are made in passing (paddings, ReLUs, sums)
} ls_cost;
ls_cost ls_graph_cost(const ls_graph *graph);  // a finished one's; NULL: zeros
// A table of the layers as Keras prints it; the caller frees *text. Errors: OUT_OF_MEMORY.
ls_status ls_graph_summary(const ls_graph *graph, char **text);

// --- parameters ------------------------------------------------------------------------------------------------------

// Parameters belong to a store, not to a graph. One that graphs share is made first and destroyed at any time after: those who use it
// hold it.
ls_status ls_store_create(ls_store **out);
void ls_store_destroy(ls_store **store);
ls_store *ls_graph_store(const ls_graph *graph);  // borrowed

typedef struct ls_parameter {
    const char *name;  // "conv2d/kernel"; borrowed
    ls_shape shape;    // Keras's: HWIO, (in, out), (out)
    const char *role;  // "kernel", "bias", "scale", "statistic"
    int frozen;
} ls_parameter;

int ls_store_count(const ls_store *store);
ls_parameter ls_store_parameter(const ls_store *store, int index);

// --- built-in networks -----------------------------------------------------------------------------------------------

// How a built-in network is to be: the arguments Keras's applications take. ls_model_config_init gives the defaults.
typedef struct ls_model_config {
    ls_shape input;  // of one sample; {0} (the default): the model's own
    int classes;     // 0 (the default): the model's own
    int vocabulary;  // of networks of sequences: how many tokens there are; 0 (the default): the model's own, or there are none
    int include_top;  // 1 (the default): with the classifier; 0: the network ends in features (ls_graph_finish_features)
    const char *pooling;  // of the features: "none" (the default) (H, W, C); "avg", "max": (C), over the image
    // "softmax" (the default), "none". The network ends in logits either way: the softmax is part of the loss.
    const char *classifier_activation;
    // Patterns of parameters that are not trained, as ls_graph_freeze has them, with commas between; NULL: all are. Those that leave
    // nothing to train are refused.
    const char *freeze;
    // Patterns of parameters, and what their learning rate is multiplied by: "head*=10,conv*=0.1"; NULL: none.
    const char *lr_scale;
    const char *decay_scale;     // the same of their weight decay, 0 or more: "*beta=0"; NULL: none
    double batch_norm_momentum;  // of all moving means and variances, below 1; 0 (the default): the model's own
} ls_model_config;

void ls_model_config_init(ls_model_config *config);
// A table over ls_model_config, all but the input's shape: programs take that from a dataset, or in words of their own.
const ls_option *ls_model_options(void);

// A built-in network as it is by default.
typedef struct ls_model_info {
    const char *name, *help;  // owned by the library
    ls_shape input;           // of one sample
    int classes;
    int vocabulary;  // of networks of sequences (T), whose input are whole numbers below it; 0: it takes floating samples
    double
        imagenet_top1;  // of published weights, in per cent of ImageNet's validation set (docs/models.md); 0: there are none
} ls_model_info;
// The index-th of them; past the last one the name is NULL. Not collective.
ls_model_info ls_model_at(int index);

// A built-in network by name; `lockstep models` lists them. A name that ends in ".net" or ".onnx" is a file's, as ls_network_read or
// ls_onnx_read has it. The caller destroys it. Errors: NOT_FOUND (with the names there are), INVALID_ARGUMENT (an option the network does not have, images it is too deep
// for, ...), those of ls_network_read.
ls_status ls_model_build(const char *name, const ls_model_config *config, ls_graph **out);
int ls_model_is_file(const char *name);  // "my.net", "my.onnx"
// The same with everything but the input's shape and the number of classes as it is by default; {0} and 0 mean the model's own.
ls_status ls_model_create(const char *name, ls_shape input, int classes, ls_graph **out);

// --- two networks against each other -----------------------------------------------------------------------------------

// Inputs (F32) that a trainer draws numbers for, where the dataset has no field of that name, as a function of seed, epoch and sample: normal ones of mean 0 and deviation 1; 0 or 1, all
// elements of a sample alike.
#define LS_INPUT_NOISE "noise"
#define LS_INPUT_COIN  "coin"

// A generative adversarial network of convolutions (DCGAN), for images (H, W, C) with values between 0 and 1: graphs on one store, whose trainers take
// steps in turn. Layers are named generator... and discriminator....
typedef struct ls_gan {
    // Told by a coin, it sees the sample's image or one that the generator makes of noise, and learns which it was: "discriminator_loss", "accuracy". The generator is
    // frozen in it.
    ls_graph *discriminator;
    ls_graph *generator;  // learns to be taken for real: "generator_loss". The discriminator is frozen in it
    ls_graph *drawing;    // the generator alone, for a predictor: LS_INPUT_NOISE (noise) to an image (H, W, C)
    int noise;
} ls_gan;

// The caller destroys it. Errors: INVALID_ARGUMENT (sides that 4 does not divide, under 8 pixels; other channels than 1 and 3), OUT_OF_MEMORY.
ls_status ls_gan_build(ls_shape image, ls_gan *out);
// One that grows: `stages` of them on one store, to be trained one after the other. The images of the first have sides 2^(stages - 1) times smaller than `image`, of each that
// follows twice as large, of the last as `image`; datasets give `image`, of which the discriminator averages squares, and drawings are enlarged to it. What a stage adds begins at zero, in the picture and
// in the discriminator: it goes on from the pictures of the stage before. Make the next stage's trainers before those of the last are destroyed, with which the weights would go. `out` (stages): the caller
// destroys each. Errors: INVALID_ARGUMENT (stages from 2 to 8, sides that the smallest cannot be made of or of which it would be under 4 pixels; other channels than 1 and 3), OUT_OF_MEMORY.
ls_status ls_gan_build_growing(ls_shape image, int stages, ls_gan *out);
void ls_gan_destroy(ls_gan *gan);

// --- networks as text ------------------------------------------------------------------------------------------------

// A network from a text that says what the functions above say, one layer a line; docs/networks.md has the format. `text` NULL: the file
// `path`, and what it includes. Otherwise `path` is for sentences, and what else is included is found beside it. `config`: as for a
// built-in network; its input's shape and classes take the place of the text's. The caller destroys the graph. Errors: NOT_FOUND,
// IO, BAD_DATA ("FILE:LINE:COLUMN: " and what is wrong there), INVALID_ARGUMENT (what is asked for does not fit it).
ls_status ls_network_read(const char *path, const char *text, const ls_model_config *config, ls_graph **out);
// A finished graph as such a text: read again it is the same, with the same parameters in the same order. The caller frees *text. Errors:
// INVALID_ARGUMENT (not finished), UNSUPPORTED (a name that no line can hold), OUT_OF_MEMORY.
ls_status ls_network_text(const ls_graph *graph, char **text);
// A built-in network, or a file's, as such a text, which says where its number of classes stands and where its classifier begins. `config`
// as for ls_model_build. The caller frees *text.
ls_status ls_model_text(const char *name, const ls_model_config *config, char **text);

// --- ONNX --------------------------------------------------------------------------------------------------------------

// A network from a model of ONNX, opset 13 or newer; docs/onnx.md has what is read. Its weights are those that training and
// predictions start with. `config`: as for a built-in network. Where it asks for other classes than the last dense layer has, that layer is made
// anew; without the top the network ends in what that layer reads. The caller destroys the graph. Errors: NOT_FOUND, IO, BAD_DATA (what
// is wrong in the file, and where), UNSUPPORTED (operations that are not read, all of them), INVALID_ARGUMENT, OUT_OF_MEMORY.
ls_status ls_onnx_read(const char *path, const ls_model_config *config, ls_graph **out);
// Gives a parameter's values, `count` of them in Keras's order.
typedef ls_status (*ls_onnx_weights)(void *user, const char *parameter, float *values, int64_t count);
// A finished graph as a model of ONNX, opset 21, in fp32, without losses and metrics; images become (N, C, H, W).
// Errors: INVALID_ARGUMENT (not finished), UNSUPPORTED (larger than 2 GB; a layer that cannot be written), IO, OUT_OF_MEMORY, what `weights` fails with.
ls_status ls_onnx_write(const ls_graph *graph, const char *path, ls_onnx_weights weights, void *user);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
