// Each kind of layer as nodes of ONNX.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "interchange/onnx_write.h"

#define ATTRS(type, n) LS_ATTRS(type, &(n)->attrs)

static int is_kind(const ls_node *n, const char *kind) { return strcmp(ls_op_name(n->op), kind) == 0; }
static int is_images(const ls_shape *sample) { return sample->ndim >= 3; }

// --- small steps -----------------------------------------------------------------------------------------------------

static void transpose(onnx_writer *w, const char *part, const char *from, const char *to, int axes, const int *order) {
    onnx_op(w, "Transpose", part);
    onnx_put_input(w, from);
    onnx_set_ints(w, "perm", order, axes);
    onnx_end(w, to);
}

// Whether the two orders of a sample's elements are one: a single pixel, or a single channel.
static int one_order(const ls_shape *sample) {
    int64_t channels = sample->dim[sample->ndim - 1];
    return sample->ndim < 3 || channels == 1 || ls_shape_count(*sample) == channels;
}

// Input k with its channels behind: a sequence's or an image's axis 1 goes to the end. `name` gets where it is.
static void channels_last(onnx_writer *w, int k, const char *part, char name[ONNX_VALUE]) {
    static const int image[] = {0, 2, 3, 1}, volume[] = {0, 2, 3, 4, 1};
    const ls_shape *s = onnx_sample(w, k);
    char from[ONNX_VALUE];
    onnx_input_name(w, k, from);
    snprintf(name, ONNX_VALUE, "%s", from);
    if (is_images(s))
        transpose(w, part, from, onnx_part_name(w, part, name), s->ndim + 1, s->ndim == 3 ? image : volume);
}

// A value with its channels behind becomes the layer's output.
static void channels_first(onnx_writer *w, const char *from, const char *part) {
    static const int image[] = {0, 3, 1, 2}, volume[] = {0, 4, 1, 2, 3};
    char to[ONNX_VALUE];
    int ndim = w->at->output[0].shape.ndim;
    transpose(w, part, from, onnx_output_name(w, to), ndim + 1, ndim == 3 ? image : volume);
}

static void refuse(onnx_writer *w, const ls_node *n, const char *why) {
    if (w->status == LS_OK)
        w->status = LS_FAIL(LS_STATUS_UNSUPPORTED, "%s: layer %s, %s, cannot be written as ONNX: %s", w->graph->name,
                            n->name, ls__op_find(n->op)->keras_class, why);
}

// --- activations -----------------------------------------------------------------------------------------------------

// `from` becomes `to`; the node is named after `part` of the layer.
static void put_activation(onnx_writer *w, ls_activation activation, const ls_shape *sample, const char *part,
                           const char *from, const char *to) {
    static const char *const ops[] = {
        [LS_ACTIVATION_RELU] = "Relu",       [LS_ACTIVATION_SIGMOID] = "Sigmoid", [LS_ACTIVATION_TANH] = "Tanh",
        [LS_ACTIVATION_SOFTMAX] = "Softmax", [LS_ACTIVATION_GELU] = "Gelu",       [LS_ACTIVATION_SILU] = "Mul",
        [LS_ACTIVATION_RELU6] = "Clip"};
    char inner[ONNX_VALUE];
    if (activation == LS_ACTIVATION_SILU) {
        onnx_op(w, "Sigmoid", "sigmoid");
        onnx_put_input(w, from);
        onnx_end(w, onnx_part_name(w, "sigmoid", inner));
    }
    onnx_op(w, ops[activation], part);
    onnx_put_input(w, from);
    if (activation == LS_ACTIVATION_SILU) onnx_put_input(w, inner);
    if (activation == LS_ACTIVATION_SOFTMAX) onnx_set_int(w, "axis", is_images(sample) ? 1 : sample->ndim);
    if (activation == LS_ACTIVATION_RELU6) onnx_put_number(w, "low", 0), onnx_put_number(w, "high", 6);
    onnx_end(w, to);
}

// Ends a layer's main node: where the kernels absorb its activation, that is a node behind it.
static void end_layer(onnx_writer *w, const ls_node *n) {
    const ls_op *op = ls__op_find(n->op);
    char name[ONNX_VALUE], between[ONNX_VALUE];
    ls_activation own = op->activation ? op->activation(&n->attrs) : LS_ACTIVATION_NONE;
    if (own == LS_ACTIVATION_NONE || ls__activation_inside(op, &n->attrs) != LS_ACTIVATION_NONE) {
        onnx_end(w, onnx_output_name(w, name));
        return;
    }
    onnx_end(w, onnx_part_name(w, "linear", between));
    put_activation(w, own, &n->output[0].shape, ls__activation_names[own], between, onnx_output_name(w, name));
}

static void activation(onnx_writer *w, const ls_node *n) {
    char from[ONNX_VALUE], to[ONNX_VALUE];
    ls_activation a = is_kind(n, "relu") ? LS_ACTIVATION_RELU : ATTRS(ls_activation_attrs, n)->activation;
    put_activation(w, a, &n->output[0].shape, n->inside ? ls__activation_names[a] : "", onnx_input_name(w, 0, from),
                   onnx_output_name(w, to));
}

// --- windows ---------------------------------------------------------------------------------------------------------

static int not_negative(const onnx_writer *w, ls_value value) {
    const ls_node *n = ls__value_node(w->graph, value);
    const ls_op *op = ls__op_find(n->op);
    ls_activation a = is_kind(n, "relu")         ? LS_ACTIVATION_RELU
                      : is_kind(n, "activation") ? ATTRS(ls_activation_attrs, n)->activation
                      : op->activation           ? op->activation(&n->attrs)
                                                 : LS_ACTIVATION_NONE;
    return a == LS_ACTIVATION_RELU || a == LS_ACTIVATION_RELU6 || a == LS_ACTIVATION_SIGMOID;
}

// Zeros around the image of a convolution are its padding. So are those of pooling, where a zero is as good as nothing or counts, and no window
// lies in them.
int onnx_is_absorbed(const onnx_writer *w, int node) {
    const ls_node *n = &w->graph->nodes[node];
    if (!is_kind(n, "zero_pad2d") || w->readers[node] != 1 || w->reader[node] < 0) return 0;
    const ls_node *to = &w->graph->nodes[w->reader[node]];
    if (is_kind(to, "conv2d")) return ATTRS(ls_conv2d_attrs, to)->padding == LS_PADDING_VALID;
    if (is_kind(to, "depthwise_conv2d")) return ATTRS(ls_depthwise_conv2d_attrs, to)->padding == LS_PADDING_VALID;
    if (is_kind(to, "separable_conv2d")) return ATTRS(ls_separable_conv2d_attrs, to)->padding == LS_PADDING_VALID;
    int maximum = is_kind(to, "max_pool2d");
    if ((!maximum && !is_kind(to, "average_pool2d")) || (maximum && !not_negative(w, n->inputs[0]))) return 0;
    const ls_pool2d_attrs *p = ATTRS(ls_pool2d_attrs, to);
    int fits = p->padding == LS_PADDING_VALID;
    for (int i = 0; i < 4; i++) fits &= ATTRS(ls_zero_pad2d_attrs, n)->padding[i / 2][i % 2] < p->size[i / 2];
    return fits;
}

// Begins a node whose input is images: input 0, or what an absorbed padding reads. Returns whether there was such.
static int begin_window(onnx_writer *w, const ls_node *n, const char *op, const char *part, int axes, const int *size,
                        const int *strides, const int *dilation, const int *pad) {
    char from[ONNX_VALUE];
    int pads[6], node = w->graph->values[n->inputs[0]].node, absorbed = onnx_is_absorbed(w, node);
    const ls_node *padding = &w->graph->nodes[node];
    memcpy(pads, pad, 2 * (size_t)axes * sizeof *pads);
    for (int i = 0; i < 4 && absorbed; i++)  // top, left, bottom, right
        pads[i] = ATTRS(ls_zero_pad2d_attrs, padding)->padding[i % 2][i / 2];
    onnx_op(w, op, part);
    onnx_put_input(w, onnx_value_name(w, absorbed ? padding->inputs[0] : n->inputs[0], from));
    onnx_set_ints(w, "kernel_shape", size, axes);
    onnx_set_ints(w, "strides", strides, axes);
    if (dilation) onnx_set_ints(w, "dilations", dilation, axes);
    onnx_set_ints(w, "pads", pads, 2 * axes);
    return absorbed;
}

static const int image_order[] = {3, 2, 0, 1}, volume_order[] = {4, 3, 0, 1, 2};

static void conv2d(onnx_writer *w, const ls_node *n) {
    const ls_conv2d_attrs *a = ATTRS(ls_conv2d_attrs, n);
    begin_window(w, n, "Conv", "", 2, a->kernel, a->strides, a->dilation, a->pad);
    if (a->groups > 1) onnx_set_int(w, "group", a->groups);
    onnx_put_param(w, 0, image_order, 0, NULL);
    if (!a->no_bias) onnx_put_param(w, 1, NULL, 0, NULL);
    end_layer(w, n);
}

static void conv3d(onnx_writer *w, const ls_node *n) {
    const ls_conv3d_attrs *a = ATTRS(ls_conv3d_attrs, n);
    begin_window(w, n, "Conv", "", 3, a->kernel, a->strides, a->dilation, a->pad);
    onnx_put_param(w, 0, volume_order, 0, NULL);
    if (!a->no_bias) onnx_put_param(w, 1, NULL, 0, NULL);
    end_layer(w, n);
}

// (KH, KW, C, multiplier) as (C * multiplier, 1, KH, KW).
static void put_depthwise(onnx_writer *w, const int *kernel, int multiplier) {
    static const int order[] = {2, 3, 0, 1};
    int64_t channels = onnx_sample(w, 0)->dim[2], dim[] = {channels * multiplier, 1, kernel[0], kernel[1]};
    onnx_set_int(w, "group", channels);
    onnx_put_param(w, 0, order, 4, dim);
}

static void depthwise_conv2d(onnx_writer *w, const ls_node *n) {
    const ls_depthwise_conv2d_attrs *a = ATTRS(ls_depthwise_conv2d_attrs, n);
    begin_window(w, n, "Conv", "", 2, a->kernel, a->strides, a->dilation, a->pad);
    put_depthwise(w, a->kernel, a->multiplier);
    if (!a->no_bias) onnx_put_param(w, 1, NULL, 0, NULL);
    end_layer(w, n);
}

static void separable_conv2d(onnx_writer *w, const ls_node *n) {
    const ls_separable_conv2d_attrs *a = ATTRS(ls_separable_conv2d_attrs, n);
    char between[ONNX_VALUE];
    begin_window(w, n, "Conv", "depthwise", 2, a->kernel, a->strides, a->dilation, a->pad);
    put_depthwise(w, a->kernel, a->multiplier);
    onnx_end(w, onnx_part_name(w, "depthwise", between));
    onnx_op(w, "Conv", "");
    onnx_put_input(w, between);
    onnx_set_ints(w, "kernel_shape", (int[]){1, 1}, 2);
    onnx_put_param(w, 1, image_order, 0, NULL);
    if (!a->no_bias) onnx_put_param(w, 2, NULL, 0, NULL);
    end_layer(w, n);
}

static void put_transposed(onnx_writer *w, const ls_node *n, int axes, const int *kernel, const int *strides,
                           const int *pad, int no_bias) {
    int more[3], any = 0;
    for (int i = 0; i < axes; i++) more[i] = strides[i] > kernel[i] ? strides[i] - kernel[i] : 0, any |= more[i];
    begin_window(w, n, "ConvTranspose", "", axes, kernel, strides, NULL, pad);
    if (any) onnx_set_ints(w, "output_padding", more, axes);
    onnx_put_param(w, 0, axes == 2 ? image_order : volume_order, 0, NULL);
    if (!no_bias) onnx_put_param(w, 1, NULL, 0, NULL);
    end_layer(w, n);
}

static void conv2d_transpose(onnx_writer *w, const ls_node *n) {
    const ls_conv2d_transpose_attrs *a = ATTRS(ls_conv2d_transpose_attrs, n);
    put_transposed(w, n, 2, a->kernel, a->strides, a->pad, a->no_bias);
}

static void conv3d_transpose(onnx_writer *w, const ls_node *n) {
    const ls_conv3d_transpose_attrs *a = ATTRS(ls_conv3d_transpose_attrs, n);
    put_transposed(w, n, 3, a->kernel, a->strides, a->pad, a->no_bias);
}

static void pool2d(onnx_writer *w, const ls_node *n) {
    const ls_pool2d_attrs *a = ATTRS(ls_pool2d_attrs, n);
    int maximum = is_kind(n, "max_pool2d");
    int absorbed = begin_window(w, n, maximum ? "MaxPool" : "AveragePool", "", 2, a->size, a->strides, NULL, a->pad);
    if (!maximum && absorbed) onnx_set_int(w, "count_include_pad", 1);
    end_layer(w, n);
}

static void pool3d(onnx_writer *w, const ls_node *n) {
    const ls_pool3d_attrs *a = ATTRS(ls_pool3d_attrs, n);
    begin_window(w, n, is_kind(n, "max_pool3d") ? "MaxPool" : "AveragePool", "", 3, a->size, a->strides, NULL, a->pad);
    end_layer(w, n);
}

static void global_pool2d(onnx_writer *w, const ls_node *n) {
    char name[ONNX_VALUE];
    onnx_op(w, is_kind(n, "global_max_pool2d") ? "GlobalMaxPool" : "GlobalAveragePool", "");
    onnx_put_input(w, onnx_input_name(w, 0, name));
    if (n->output[0].shape.ndim == 3) {
        end_layer(w, n);
        return;
    }
    onnx_end(w, onnx_part_name(w, "pooled", name));
    onnx_op(w, "Flatten", "flat");
    onnx_put_input(w, name);
    end_layer(w, n);
}

static void zero_pad2d(onnx_writer *w, const ls_node *n) {
    const int(*p)[2] = ATTRS(ls_zero_pad2d_attrs, n)->padding;
    char name[ONNX_VALUE];
    onnx_op(w, "Pad", "");
    onnx_put_input(w, onnx_input_name(w, 0, name));
    onnx_put_numbers(w, "pads", (int64_t[]){0, 0, p[0][0], p[1][0], 0, 0, p[0][1], p[1][1]}, 8);
    end_layer(w, n);
}

static void cropping2d(onnx_writer *w, const ls_node *n) {
    const int(*c)[2] = ATTRS(ls_cropping2d_attrs, n)->cropping;
    const ls_shape *s = onnx_sample(w, 0);
    char name[ONNX_VALUE];
    onnx_op(w, "Slice", "");
    onnx_put_input(w, onnx_input_name(w, 0, name));
    onnx_put_numbers(w, "starts", (int64_t[]){c[0][0], c[1][0]}, 2);
    onnx_put_numbers(w, "ends", (int64_t[]){s->dim[0] - c[0][1], s->dim[1] - c[1][1]}, 2);
    onnx_put_numbers(w, "axes", (int64_t[]){2, 3}, 2);
    end_layer(w, n);
}

static void up_sampling2d(onnx_writer *w, const ls_node *n) {
    const int *size = ATTRS(ls_up_sampling2d_attrs, n)->size;
    char name[ONNX_VALUE];
    float scales[] = {1, 1, (float)size[0], (float)size[1]};
    onnx_op(w, "Resize", "");
    onnx_put_input(w, onnx_input_name(w, 0, name));
    onnx_put_input(w, "");
    onnx_part_name(w, "scales", name);
    onnx_put_floats(w, name, scales, 1, (int64_t[]){4});
    onnx_put_input(w, name);
    onnx_set_text(w, "mode", "nearest");
    onnx_set_text(w, "coordinate_transformation_mode", "asymmetric");
    onnx_set_text(w, "nearest_mode", "floor");
    end_layer(w, n);
}

// --- vectors and normalizations --------------------------------------------------------------------------------------

static void dense(onnx_writer *w, const ls_node *n) {
    int no_bias = ATTRS(ls_dense_attrs, n)->no_bias, vectors = onnx_sample(w, 0)->ndim == 1;
    char name[ONNX_VALUE];
    onnx_op(w, vectors ? "Gemm" : "MatMul", "");
    onnx_put_input(w, onnx_input_name(w, 0, name));
    onnx_put_param(w, 0, NULL, 0, NULL);
    if (!no_bias && !vectors) {
        onnx_end(w, onnx_part_name(w, "product", name));
        onnx_op(w, "Add", "bias");
        onnx_put_input(w, name);
    }
    if (!no_bias) onnx_put_param(w, 1, NULL, 0, NULL);
    end_layer(w, n);
}

static void batch_norm(onnx_writer *w, const ls_node *n) {
    static const int order[] = {0, 2, 1};
    const ls_batch_norm_attrs *a = ATTRS(ls_batch_norm_attrs, n);
    char name[ONNX_VALUE], ones[ONNX_VALUE], turned[ONNX_VALUE];
    int64_t channels = n->output[0].shape.dim[n->output[0].shape.ndim - 1];
    int sequence = n->output[0].shape.ndim == 2;
    onnx_input_name(w, 0, name);
    if (sequence) transpose(w, "channels_first", name, onnx_part_name(w, "channels_first", turned), 3, order);
    onnx_op(w, "BatchNormalization", "");
    onnx_put_input(w, sequence ? turned : name);
    if (a->no_scale) {
        float *one;
        w->status = w->status == LS_OK ? ls_calloc(channels, sizeof *one, &one) : w->status;
        if (w->status != LS_OK) return;
        for (int64_t i = 0; i < channels; i++) one[i] = 1;
        onnx_put_floats(w, onnx_part_name(w, "ones", ones), one, 1, &channels);
        onnx_put_input(w, ones);
        free(one);
    }
    for (int k = 0; k < n->param_count; k++) onnx_put_param(w, k, NULL, 0, NULL);
    onnx_set_real(w, "epsilon", a->epsilon);
    onnx_set_real(w, "momentum", a->momentum);
    if (!sequence) {
        end_layer(w, n);
        return;
    }
    onnx_end(w, onnx_part_name(w, "normalized", turned));
    transpose(w, "channels_last", turned, onnx_output_name(w, name), 3, order);
}

static void layer_norm(onnx_writer *w, const ls_node *n) {
    char name[ONNX_VALUE];
    channels_last(w, 0, "channels_last", name);
    onnx_op(w, "LayerNormalization", "");
    onnx_put_input(w, name);
    for (int k = 0; k < 2; k++) onnx_put_param(w, k, NULL, 0, NULL);
    onnx_set_int(w, "axis", -1);
    onnx_set_real(w, "epsilon", ATTRS(ls_layer_norm_attrs, n)->epsilon);
    if (!is_images(&n->output[0].shape)) {
        end_layer(w, n);
        return;
    }
    onnx_end(w, onnx_part_name(w, "normalized", name));
    channels_first(w, name, "channels_first");
}

static void group_norm(onnx_writer *w, const ls_node *n) {
    const ls_group_norm_attrs *a = ATTRS(ls_group_norm_attrs, n);
    char name[ONNX_VALUE];
    if (!is_images(&n->output[0].shape)) refuse(w, n, "its input is no images");
    onnx_op(w, a->groups < 0 ? "InstanceNormalization" : "GroupNormalization", "");
    onnx_put_input(w, onnx_input_name(w, 0, name));
    for (int k = 0; k < 2; k++) onnx_put_param(w, k, NULL, 0, NULL);
    if (a->groups > 0) onnx_set_int(w, "num_groups", a->groups);
    onnx_set_real(w, "epsilon", a->epsilon);
    end_layer(w, n);
}

static void normalization(onnx_writer *w, const ls_node *n) {
    const ls_shape *s = onnx_sample(w, 0);
    int64_t dim[LS_MAX_DIMS] = {s->dim[s->ndim - 1], 1, 1, 1};
    char name[ONNX_VALUE];
    onnx_op(w, "Normalization", "");
    onnx_put_input(w, onnx_input_name(w, 0, name));
    for (int k = 0; k < 2; k++) onnx_put_param(w, k, NULL, is_images(s) ? s->ndim : 1, dim);
    end_layer(w, n);
}

// --- arithmetic ------------------------------------------------------------------------------------------------------

static void put_all(onnx_writer *w, const ls_node *n, const char *op) {
    char name[ONNX_VALUE];
    onnx_op(w, op, "");
    for (int k = 0; k < n->input_count; k++) onnx_put_input(w, onnx_input_name(w, k, name));
}

static void add(onnx_writer *w, const ls_node *n) {
    put_all(w, n, "Add");
    end_layer(w, n);
}

static void multiply(onnx_writer *w, const ls_node *n) {
    put_all(w, n, "Mul");
    end_layer(w, n);
}

static void concat(onnx_writer *w, const ls_node *n) {
    int axis = ATTRS(ls_concat_attrs, n)->axis, ndim = n->output[0].shape.ndim;
    put_all(w, n, "Concat");
    onnx_set_int(w, "axis", ndim < 3 ? axis : axis == ndim ? 1 : axis + 1);
    end_layer(w, n);
}

static void dropout(onnx_writer *w, const ls_node *n) {
    put_all(w, n, "Dropout");
    onnx_put_number(w, "ratio", ATTRS(ls_dropout_attrs, n)->rate);
    end_layer(w, n);
}

// A scale that is one over a float is a division by that: 1 / 255 is none.
static void rescaling(onnx_writer *w, const ls_node *n) {
    const ls_rescaling_attrs *a = ATTRS(ls_rescaling_attrs, n);
    double by = 1 / a->scale;
    int divides = 1 / (double)(float)by == a->scale && (double)(float)a->scale != a->scale;
    char name[ONNX_VALUE];
    put_all(w, n, divides ? "Div" : "Mul");
    onnx_put_number(w, "scale", (float)(divides ? by : a->scale));
    if (a->offset != 0) {
        onnx_end(w, onnx_part_name(w, "scaled", name));
        onnx_op(w, "Add", "shift");
        onnx_put_input(w, name);
        onnx_put_number(w, "offset", (float)a->offset);
    }
    end_layer(w, n);
}

// --- shapes ----------------------------------------------------------------------------------------------------------

static void flatten(onnx_writer *w, const ls_node *n) {
    char name[ONNX_VALUE];
    onnx_input_name(w, 0, name);
    if (!one_order(onnx_sample(w, 0))) channels_last(w, 0, "channels_last", name);
    onnx_op(w, "Flatten", "");
    onnx_put_input(w, name);
    end_layer(w, n);
}

static void reshape(onnx_writer *w, const ls_node *n) {
    const ls_shape *to = &n->output[0].shape;
    int64_t dim[LS_MAX_DIMS + 1] = {0};  // 0: as many samples as there are
    int first = is_images(to) && one_order(to);
    char name[ONNX_VALUE];
    onnx_input_name(w, 0, name);
    if (!one_order(onnx_sample(w, 0))) channels_last(w, 0, "channels_last", name);
    for (int i = 0; i < to->ndim; i++) dim[i + 1] = to->dim[!first ? i : i == 0 ? to->ndim - 1 : i - 1];
    onnx_op(w, "Reshape", "");
    onnx_put_input(w, name);
    onnx_put_numbers(w, "shape", dim, to->ndim + 1);
    if (!is_images(to) || first) {
        end_layer(w, n);
        return;
    }
    onnx_end(w, onnx_part_name(w, "reshaped", name));
    channels_first(w, name, "channels_first");
}

// --- sequences -------------------------------------------------------------------------------------------------------

static void embedding(onnx_writer *w, const ls_node *n) {
    char name[ONNX_VALUE];
    onnx_op(w, "Gather", "");
    onnx_put_param(w, 0, NULL, 0, NULL);
    onnx_put_input(w, onnx_input_name(w, 0, name));
    end_layer(w, n);
}

static void global_average_pool1d(onnx_writer *w, const ls_node *n) {
    put_all(w, n, n->input_count > 1 ? "MaskedMean" : "ReduceMean");
    if (n->input_count == 1) onnx_put_numbers(w, "axes", (int64_t[]){1}, 1), onnx_set_int(w, "keepdims", 0);
    end_layer(w, n);
}

static void position_embedding(onnx_writer *w, const ls_node *n) {
    put_all(w, n, "PositionEmbedding");
    onnx_put_param(w, 0, NULL, 0, NULL);
    end_layer(w, n);
}

static void attention(onnx_writer *w, const ls_node *n) {
    const ls_attention_attrs *a = ATTRS(ls_attention_attrs, n);
    int masked = n->input_count > 1;
    put_all(w, n,
            masked ? (a->causal ? "MaskedCausalAttention" : "MaskedAttention")
                   : (a->causal ? "CausalAttention" : "Attention"));
    onnx_set_int(w, "num_heads", a->heads);
    end_layer(w, n);
}

static void normal_sample(onnx_writer *w, const ls_node *n) {
    if (is_images(&n->output[0].shape)) refuse(w, n, "its code is images");
    put_all(w, n, "NormalSample");
    end_layer(w, n);
}

// Parameter k, (columns, gates * units) in our order of gates, as (1, gates * units, columns) in ONNX's.
static void put_gates(onnx_writer *w, int k, const int *order, int gates, int64_t units) {
    const ls_param *p = &w->graph->store->params[w->at->params[k]];
    int64_t columns = p->shape.dim[0], rows = gates * units;
    float *from = onnx_param_values(w, k), *to = NULL;
    if (from && w->status == LS_OK) w->status = ls_calloc(columns * rows, sizeof *to, &to);
    for (int64_t i = 0; i < columns && to; i++)
        for (int64_t j = 0; j < rows; j++)
            to[(order[j / units] * units + j % units) * columns + i] = from[i * rows + j];
    if (to) onnx_put_floats(w, p->name, to, 3, (int64_t[]){1, rows, columns});
    onnx_put_input(w, p->name);
    free(from);
    free(to);
}

// The biases of the input and, of an LSTM zeros, of the state: (1, 2 * gates * units).
static void put_biases(onnx_writer *w, const int *order, int gates, int64_t units) {
    const ls_param *p = &w->graph->store->params[w->at->params[2]];
    int64_t count = ls_shape_count(p->shape), rows = gates * units;
    float *from = onnx_param_values(w, 2), *to = NULL;
    if (from && w->status == LS_OK) w->status = ls_calloc(2 * rows, sizeof *to, &to);
    for (int64_t i = 0; i < count && to; i++) {
        int64_t j = i % rows;
        to[i / rows * rows + order[j / units] * units + j % units] = from[i];
    }
    if (to) onnx_put_floats(w, p->name, to, 2, (int64_t[]){1, 2 * rows});
    onnx_put_input(w, p->name);
    free(from);
    free(to);
}

static void recurrent(onnx_writer *w, const ls_node *n) {
    static const int steps_first[] = {1, 0, 2}, lstm_order[] = {0, 2, 3, 1}, gru_order[] = {0, 1, 2};
    const ls_recurrent_attrs *a = ATTRS(ls_recurrent_attrs, n);
    int lstm = is_kind(n, "lstm"), gates = lstm ? 4 : 3, all = a->return_sequences;
    const int *order = lstm ? lstm_order : gru_order;
    char name[ONNX_VALUE], steps[ONNX_VALUE], lengths[ONNX_VALUE] = "";
    if (all && n->input_count > 1) refuse(w, n, "ONNX gives zeros for steps that do not count, and not the last state");
    transpose(w, "steps", onnx_input_name(w, 0, name), onnx_part_name(w, "steps", steps), 3, steps_first);
    if (n->input_count > 1) {
        onnx_op(w, "SequenceLengths", "lengths");
        onnx_put_input(w, onnx_input_name(w, 1, name));
        onnx_end(w, onnx_part_name(w, "lengths", lengths));
    }
    onnx_op(w, lstm ? "LSTM" : "GRU", "");
    onnx_put_input(w, steps);
    for (int k = 0; k < 2; k++) put_gates(w, k, order, gates, a->units);
    put_biases(w, order, gates, a->units);
    if (lengths[0]) onnx_put_input(w, lengths);
    onnx_set_int(w, "hidden_size", a->units);
    onnx_set_text(w, "direction", a->backwards ? "reverse" : "forward");
    if (!lstm) onnx_set_int(w, "linear_before_reset", 1);
    onnx_part_name(w, "states", name);
    if (!all) ls_pb_put_text(&w->node, 2, "");  // the states after all steps
    onnx_end(w, name);
    onnx_op(w, "Squeeze", "squeezed");
    onnx_put_input(w, name);
    onnx_put_numbers(w, "axes", (int64_t[]){all ? 1 : 0}, 1);
    onnx_part_name(w, "squeezed", steps);
    onnx_end(w, all ? steps : onnx_output_name(w, name));
    if (all) transpose(w, "samples", steps, onnx_output_name(w, name), 3, steps_first);
}

onnx_layer_writer onnx_find_writer(const ls_node *n) {
    static const struct {
        const char *kind;
        onnx_layer_writer write;
    } rows[] = {{"conv2d", conv2d},
                {"conv3d", conv3d},
                {"depthwise_conv2d", depthwise_conv2d},
                {"separable_conv2d", separable_conv2d},
                {"conv2d_transpose", conv2d_transpose},
                {"conv3d_transpose", conv3d_transpose},
                {"max_pool2d", pool2d},
                {"average_pool2d", pool2d},
                {"max_pool3d", pool3d},
                {"average_pool3d", pool3d},
                {"global_average_pool2d", global_pool2d},
                {"global_max_pool2d", global_pool2d},
                {"zero_pad2d", zero_pad2d},
                {"cropping2d", cropping2d},
                {"up_sampling2d", up_sampling2d},
                {"dense", dense},
                {"batch_norm", batch_norm},
                {"layer_norm", layer_norm},
                {"group_norm", group_norm},
                {"normalization", normalization},
                {"relu", activation},
                {"activation", activation},
                {"add", add},
                {"multiply", multiply},
                {"concat", concat},
                {"dropout", dropout},
                {"rescaling", rescaling},
                {"flatten", flatten},
                {"reshape", reshape},
                {"embedding", embedding},
                {"global_average_pool1d", global_average_pool1d},
                {"position_embedding", position_embedding},
                {"attention", attention},
                {"normal_sample", normal_sample},
                {"lstm", recurrent},
                {"gru", recurrent}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (is_kind(n, rows[i].kind)) return rows[i].write;
    return NULL;
}
