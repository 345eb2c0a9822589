// The operations: their kinds, and their attributes as the graph hands them to a device.
#ifndef LS_DEVICE_OP_H
#define LS_DEVICE_OP_H

#include <lockstep/graph.h>

//   kind                 Keras's class            Keras's automatic name
#define LS_OP_LIST(X)                                                                                                  \
    X(INPUT, "InputLayer", "input")                                                                                    \
    X(CONV2D, "Conv2D", "conv2d")                                                                                      \
    X(DENSE, "Dense", "dense")                                                                                         \
    X(MAX_POOL2D, "MaxPooling2D", "max_pooling2d")                                                                     \
    X(AVERAGE_POOL2D, "AveragePooling2D", "average_pooling2d")                                                         \
    X(GLOBAL_MAX_POOL2D, "GlobalMaxPooling2D", "global_max_pooling2d")                                                 \
    X(GLOBAL_AVERAGE_POOL2D, "GlobalAveragePooling2D", "global_average_pooling2d")                                     \
    X(BATCH_NORM, "BatchNormalization", "batch_normalization")                                                         \
    X(ADD, "Add", "add")                                                                                               \
    X(ZERO_PAD2D, "ZeroPadding2D", "zero_padding2d")                                                                   \
    X(RELU, "ReLU", "re_lu")                                                                                           \
    X(ACTIVATION, "Activation", "activation") /* in graphs only: plans compute it as a ReLU */                         \
    X(FLATTEN, "Flatten", "flatten")                                                                                   \
    X(DROPOUT, "Dropout", "dropout")                                                                                   \
    X(SOFTMAX_CROSS_ENTROPY, "SoftmaxCrossEntropy", "loss")

typedef enum ls_op_kind {
#define LS_OP_ENUM(kind, klass, name) LS_OP_##kind,
    LS_OP_LIST(LS_OP_ENUM)
#undef LS_OP_ENUM
        LS_OP_COUNT
} ls_op_kind;

// Attributes with every default resolved (strides set, "same" padding turned into numbers).
typedef struct ls_op_attrs {
    int filters;         // conv2d: output channels; dense: units
    int kernel[2];       // conv2d, pooling: window height, width; global pooling: the whole image
    int strides[2];      // the same ones'
    ls_padding padding;  // as it was asked for
    int pad[4];          // what it came to: top, left, bottom, right; zero padding: what is asked for
    int pad_zeros;       // max pooling: the padding takes part as zeros (a zero padding before it, folded in)
    ls_activation activation;
    int use_bias;
    float rate;               // dropout
    float momentum, epsilon;  // batch normalization
    int one_hot;  // loss: labels are rows of class weights (Keras's categorical cross-entropy), not class numbers
    double label_smoothing;  // loss: S; a target t becomes (1 - S) t + S / classes (Keras)
    uint32_t layer;          // dropout: the layer's number, a part of its random counter
} ls_op_attrs;

const char *ls_op_class(ls_op_kind kind);      // Keras's class: "Conv2D"
const char *ls_op_auto_name(ls_op_kind kind);  // Keras's automatic name, without its number: "conv2d"

#endif
