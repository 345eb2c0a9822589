// The attributes of layers, losses and metrics: what a graph says of them and kernels read.
//
// In every struct a zero means Keras's default. Fields marked "resolved" are the graph's to fill in: what the others come to for
// the shapes at hand.
#ifndef LOCKSTEP_ATTRS_H
#define LOCKSTEP_ATTRS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// Activations, under Keras's names.
//   enum name  text
#define LS_ACTIVATION_LIST(X)                                                                                          \
    X(NONE, "linear")                                                                                                  \
    X(RELU, "relu")                                                                                                    \
    X(SIGMOID, "sigmoid")                                                                                              \
    X(TANH, "tanh")                                                                                                    \
    X(SOFTMAX, "softmax") /* over the last axis */                                                                     \
    X(GELU, "gelu")       /* exactly, x Phi(x) with the error function, as Keras has it by default */                  \
    X(SILU, "silu")       /* x sigmoid(x), also called swish */                                                        \
    X(RELU6, "relu6")     /* a ReLU that is cut off at 6 */
typedef enum ls_activation {
#define LS_ACTIVATION_ENUM(name, text) LS_ACTIVATION_##name,
    LS_ACTIVATION_LIST(LS_ACTIVATION_ENUM)
#undef LS_ACTIVATION_ENUM
} ls_activation;

#define LS_PADDING_LIST(X)                                                                                             \
    X(VALID, "valid")                                                                                                  \
    X(SAME, "same")
typedef enum ls_padding {
#define LS_PADDING_ENUM(name, text) LS_PADDING_##name,
    LS_PADDING_LIST(LS_PADDING_ENUM)
#undef LS_PADDING_ENUM
} ls_padding;

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
    X(ONES, "ones")                                                                                                    \
    X(RANDOM_UNIFORM, "random_uniform")       /* from -0.05 to 0.05, for embeddings */                                 \
    X(HE_NORMAL_FAN_OUT, "he_normal_fan_out") /* VarianceScaling(2, "fan_out", "truncated_normal") */                  \
    X(FAN_OUT_UNIFORM, "fan_out_uniform")     /* VarianceScaling(1 / 3, "fan_out", "uniform") */                       \
    X(ORTHOGONAL, "orthogonal")   /* rows, or columns where there are fewer, of length 1 at right angles */            \
    X(UNIT_FORGET, "unit_forget") /* of an LSTM's bias: ones in its second quarter, else zeros */                      \
    X(DIRAC,                                                                                                           \
      "dirac") /* the first filters pass on a channel each (torch.nn.init.dirac_), the others as fan_in_uniform */     \
    X(FAN_IN_UNIFORM, "fan_in_uniform") /* VarianceScaling(1 / 3, "fan_in", "uniform"), PyTorch's own */               \
    X(PATCH_WHITENING,                                                                                                 \
      "patch_whitening") /* of a convolution of the images: measured by a trainer (ls_trainer_create) */
typedef enum ls_initializer {
#define LS_INITIALIZER_ENUM(name, text) LS_INITIALIZER_##name,
    LS_INITIALIZER_LIST(LS_INITIALIZER_ENUM)
#undef LS_INITIALIZER_ENUM
} ls_initializer;

typedef struct ls_conv2d_attrs {
    const char *name;    // NULL: Keras's automatic name (conv2d_1), here and below
    int filters;         // output channels
    int kernel[2];       // height, width
    int strides[2];      // default 1, 1
    ls_padding padding;  // default valid
    ls_activation activation;
    int no_bias;  // 1: without the bias (Keras's use_bias=False)
    ls_initializer kernel_initializer, bias_initializer;
    int groups;       // default 1: each group of filters reads a group of channels, as many of each
    int dilation[2];  // default 1, 1: from one element of the kernel to the next (Keras's dilation_rate)
    int pad[4];       // resolved: top, left, bottom, right
} ls_conv2d_attrs;

typedef struct ls_pool2d_attrs {
    const char *name;
    int size[2];         // default 2, 2; of global pooling resolved: the whole image
    int strides[2];      // default: the size
    ls_padding padding;  // default valid
    int pad[4];          // resolved: top, left, bottom, right
    int pad_zeros;       // resolved: of max pooling, the padding takes part as zeros (a zero padding before it)
    int keepdims;        // of global pooling, 1: the output is (N, 1, 1, C) and not (N, C)
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
    int no_scale;    // 1: without gamma (Keras's scale=False)
} ls_batch_norm_attrs;

typedef struct ls_concat_attrs {
    const char *name;
    int axis;  // counting the batch as 0; negative: from the last, -1 (the default). Resolved: from the first
} ls_concat_attrs;

typedef struct ls_depthwise_conv2d_attrs {
    const char *name;
    int kernel[2];    // height, width
    int strides[2];   // default 1, 1
    int multiplier;   // outputs of each channel; default 1 (Keras's depth_multiplier)
    int dilation[2];  // default 1, 1
    ls_padding padding;
    ls_activation activation;
    int no_bias;
    ls_initializer kernel_initializer, bias_initializer;
    int pad[4];  // resolved: top, left, bottom, right
} ls_depthwise_conv2d_attrs;

typedef struct ls_separable_conv2d_attrs {
    const char *name;
    int filters;      // output channels
    int kernel[2];    // height, width
    int strides[2];   // default 1, 1
    int multiplier;   // outputs of each channel, of which the filters are made; default 1 (Keras's depth_multiplier)
    int dilation[2];  // default 1, 1
    ls_padding padding;
    ls_activation activation;
    int no_bias;
    ls_initializer depthwise_initializer, pointwise_initializer, bias_initializer;
    int pad[4];  // resolved: top, left, bottom, right
} ls_separable_conv2d_attrs;

typedef struct ls_conv2d_transpose_attrs {
    const char *name;
    int filters;         // output channels
    int kernel[2];       // height, width
    int strides[2];      // default 1, 1
    ls_padding padding;  // default valid
    ls_activation activation;
    int no_bias;
    ls_initializer kernel_initializer, bias_initializer;
    int pad[4];  // resolved: top, left, bottom, right of the output, cut off
} ls_conv2d_transpose_attrs;

// Of volumes and clips (D, H, W, C): depth, or time, comes first.
typedef struct ls_conv3d_attrs {
    const char *name;
    int filters;         // output channels
    int kernel[3];       // depth, height, width
    int strides[3];      // default 1, 1, 1
    ls_padding padding;  // default valid
    ls_activation activation;
    int no_bias;
    ls_initializer kernel_initializer, bias_initializer;
    int dilation[3];  // default 1, 1, 1
    int pad[6];       // resolved: front, top, left, back, bottom, right
} ls_conv3d_attrs;

typedef struct ls_conv3d_transpose_attrs {
    const char *name;
    int filters;         // output channels
    int kernel[3];       // depth, height, width
    int strides[3];      // default 1, 1, 1
    ls_padding padding;  // default valid
    ls_activation activation;
    int no_bias;
    ls_initializer kernel_initializer, bias_initializer;
    int pad[6];  // resolved: front, top, left, back, bottom, right of the output, cut off
} ls_conv3d_transpose_attrs;

typedef struct ls_pool3d_attrs {
    const char *name;
    int size[3];         // default 2, 2, 2
    int strides[3];      // default: the size
    ls_padding padding;  // default valid
    int pad[6];          // resolved: front, top, left, back, bottom, right
} ls_pool3d_attrs;

typedef struct ls_up_sampling2d_attrs {
    const char *name;
    int size[2];  // rows and columns that each pixel becomes; default 2, 2
} ls_up_sampling2d_attrs;

typedef struct ls_layer_norm_attrs {
    const char *name;
    float epsilon;  // added to the variance; default 0.001
} ls_layer_norm_attrs;

typedef struct ls_group_norm_attrs {
    const char *name;
    int groups;  // of neighbouring channels, as many in each; -1: each channel is one (instance normalization); default 32
    float epsilon;  // added to the variance; default 0.001
} ls_group_norm_attrs;

typedef struct ls_embedding_attrs {
    const char *name;
    int rows;                    // numbers there are: 0 to rows - 1 (Keras's input_dim)
    int width;                   // of the vector that each becomes (Keras's output_dim)
    ls_initializer initializer;  // default random_uniform
} ls_embedding_attrs;

typedef struct ls_position_embedding_attrs {
    const char *name;
    int rows;                    // positions there are: the longest sequence it takes
    ls_initializer initializer;  // default random_uniform
} ls_position_embedding_attrs;

typedef struct ls_attention_attrs {
    const char *name;
    int heads;   // default 1; each has an equal share of the channels
    int causal;  // 1: a position attends to itself and to what is before it
} ls_attention_attrs;

// What LSTM and GRU have.
typedef struct ls_recurrent_attrs {
    const char *name;
    int units;
    int return_sequences;  // 1: the state after each step, (N, T, units); 0: after the last, (N, units)
    int backwards;         // 1: from the last step to the first; what belongs to a step still lies at its place
    ls_initializer kernel_initializer, recurrent_initializer;  // default glorot_uniform, orthogonal
    ls_initializer bias_initializer;  // default zeros, of an LSTM's forget gate ones (unit_forget_bias)
} ls_recurrent_attrs;

typedef struct ls_reshape_attrs {
    const char *name;
    int shape
        [4];  // of a sample, outermost first, 0 after the last; one of them may be -1: what is left. Resolved: what that is
} ls_reshape_attrs;

typedef struct ls_zero_pad2d_attrs {
    const char *name;
    int padding[2][2];  // {top, bottom}, {left, right}; all zero: 1 on each side
} ls_zero_pad2d_attrs;

typedef struct ls_cropping2d_attrs {
    const char *name;
    int cropping[2][2];  // {top, bottom}, {left, right}
} ls_cropping2d_attrs;

typedef struct ls_dropout_attrs {
    const char *name;
    float rate;      // the fraction set to zero, 0 <= rate < 1; the rest is scaled by 1 / (1 - rate)
    uint32_t layer;  // resolved: the layer's number, a part of its random counter
    int per_sample;  // 1: a sample is kept or set to zero as a whole (Keras's noise_shape (None, 1, 1, 1))
} ls_dropout_attrs;

typedef struct ls_rescaling_attrs {
    const char *name;
    double scale, offset;  // x * scale + offset; default 1, 0
} ls_rescaling_attrs;

typedef struct ls_activation_attrs {
    const char *name;
    ls_activation activation;
} ls_activation_attrs;

// Layers without attributes of their own.
typedef struct ls_plain_attrs {
    const char *name;
} ls_plain_attrs;

// What all losses have.
typedef struct ls_loss_attrs {
    const char *name;
    double weight;  // in the sum of all losses; default 1
    // S, 0 <= S < 1: training goes towards (1 - S) t + S / classes in place of a target t; of cross-entropies (binary: 2 classes)
    double label_smoothing;
    double positive_weight;  // of binary cross-entropy: what a label that is there adds is multiplied by it; default 1
    int rows;                // resolved: targets are rows of weights, (N, classes), instead of class numbers, (N)
} ls_loss_attrs;

typedef struct ls_metric_attrs {
    const char *name;
    int k;          // of top-k accuracy; default 5
    int per_label;  // of binary accuracy, 1: the value of each label beside their mean
    int rows;       // resolved: as in ls_loss_attrs
} ls_metric_attrs;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
