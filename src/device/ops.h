// Which operations there are: the names by which a graph asks a device for kernels. All that is known of one is in graph/ops/;
// how it is computed, in a file of each device.
#ifndef LS_DEVICE_OPS_H
#define LS_DEVICE_OPS_H

//   kind                   name
#define LS_OP_LIST(X)                                                                                                  \
    X(INPUT, input)                                                                                                    \
    X(CONV2D, conv2d)                                                                                                  \
    X(DENSE, dense)                                                                                                    \
    X(MAX_POOL2D, max_pool2d)                                                                                          \
    X(AVERAGE_POOL2D, average_pool2d)                                                                                  \
    X(GLOBAL_MAX_POOL2D, global_max_pool2d)                                                                            \
    X(GLOBAL_AVERAGE_POOL2D, global_average_pool2d)                                                                    \
    X(BATCH_NORM, batch_norm)                                                                                          \
    X(ADD, add)                                                                                                        \
    X(MULTIPLY, multiply)                                                                                              \
    X(CONCAT, concat)                                                                                                  \
    X(DEPTHWISE_CONV2D, depthwise_conv2d)                                                                              \
    X(SEPARABLE_CONV2D, separable_conv2d)                                                                              \
    X(CONV2D_TRANSPOSE, conv2d_transpose)                                                                              \
    X(CONV3D, conv3d)                                                                                                  \
    X(CONV3D_TRANSPOSE, conv3d_transpose)                                                                              \
    X(MAX_POOL3D, max_pool3d)                                                                                          \
    X(AVERAGE_POOL3D, average_pool3d)                                                                                  \
    X(UP_SAMPLING2D, up_sampling2d)                                                                                    \
    X(LAYER_NORM, layer_norm)                                                                                          \
    X(GROUP_NORM, group_norm)                                                                                          \
    X(EMBEDDING, embedding)                                                                                            \
    X(GLOBAL_AVERAGE_POOL1D, global_average_pool1d)                                                                    \
    X(POSITION_EMBEDDING, position_embedding)                                                                          \
    X(ATTENTION, attention)                                                                                            \
    X(LSTM, lstm)                                                                                                      \
    X(GRU, gru)                                                                                                        \
    X(RESHAPE, reshape)                                                                                                \
    X(ZERO_PAD2D, zero_pad2d)                                                                                          \
    X(CROPPING2D, cropping2d)                                                                                          \
    X(RESCALING, rescaling)                                                                                            \
    X(NORMALIZATION, normalization)                                                                                    \
    X(RELU, relu)                                                                                                      \
    X(ACTIVATION, activation)                                                                                          \
    X(FLATTEN, flatten)                                                                                                \
    X(DROPOUT, dropout)                                                                                                \
    X(SOFTMAX_CROSS_ENTROPY, softmax_cross_entropy)                                                                    \
    X(BINARY_CROSS_ENTROPY, binary_cross_entropy)                                                                      \
    X(MEAN_SQUARED_ERROR, mean_squared_error)                                                                          \
    X(MEAN_ABSOLUTE_ERROR, mean_absolute_error)                                                                        \
    X(ACCURACY, accuracy)                                                                                              \
    X(PERPLEXITY, perplexity)                                                                                          \
    X(TOP_K_ACCURACY, top_k_accuracy)                                                                                  \
    X(BINARY_ACCURACY, binary_accuracy)                                                                                \
    X(MEAN_ABSOLUTE_ERROR_METRIC, mean_absolute_error_metric)                                                          \
    X(AUC, auc)                                                                                                        \
    X(BALANCED_ACCURACY, balanced_accuracy)                                                                            \
    X(NORMAL_SAMPLE, normal_sample)                                                                                    \
    X(NORMAL_DIVERGENCE, normal_divergence)

typedef enum ls_op_kind {
#define LS_OP_ENUM(kind, name) LS_OP_##kind,
    LS_OP_LIST(LS_OP_ENUM)
#undef LS_OP_ENUM
        LS_OP_COUNT
} ls_op_kind;

const char *ls_op_name(ls_op_kind kind);  // "conv2d"

#endif
