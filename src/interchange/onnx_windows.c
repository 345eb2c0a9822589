// Layers of ONNX whose window moves over images or volumes: convolutions and pooling.
#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "interchange/onnx.h"

// --- windows ---------------------------------------------------------------------------------------------------------

// What convolutions and pooling have in common: sides, and zeros before and behind.
typedef struct window {
    int axes, size[3], strides[3], dilation[3];
    int begin[3], end[3];
    int none, same;  // the padding is none; is what the graph's layers call "same"
} window;

static ls_status small_list(onnx_reader *r, const char *name, int axes, int least, int *out, int otherwise) {
    int64_t list[ONNX_DIMS];
    int count;
    LS_TRY(onnx_list(r, name, -1, ONNX_DIMS, list, &count));
    for (int i = 0; i < axes; i++) {
        int64_t x = i < count ? list[i] : otherwise;
        if ((count && count != axes) || x < least || x > 1 << 20)
            return onnx_wrong(r->model, r->node, LS_STATUS_BAD_DATA, "its %s are not %d numbers from %d on", name, axes,
                              least);
        out[i] = (int)x;
    }
    return LS_OK;
}

static int64_t stride_of(const window *w, int axis) { return w->strides[axis] > 0 ? w->strides[axis] : 1; }

static ls_status take_pads(onnx_reader *r, const onnx_value *x, window *w) {
    const onnx_node *n = r->node;
    int pads[6] = {0};
    LS_TRY(small_list(r, "pads", 2 * w->axes, 0, pads, 0));
    int upper = onnx_is(n, "auto_pad", "SAME_UPPER", ""), lower = onnx_is(n, "auto_pad", "SAME_LOWER", "");
    w->none = w->same = 1;
    for (int i = 0; i < w->axes; i++) {
        int64_t in = x->dim[i + 2], stride = stride_of(w, i), reach = (w->size[i] - 1) * (int64_t)w->dilation[i] + 1;
        int64_t room = ((in + stride - 1) / stride - 1) * stride + reach - in;
        if (room < 0) room = 0;
        w->begin[i] = upper || lower ? (int)(lower ? room - room / 2 : room / 2) : pads[i];
        w->end[i] = upper || lower ? (int)room - w->begin[i] : pads[i + w->axes];
        w->none &= w->begin[i] == 0 && w->end[i] == 0;
        w->same &= w->begin[i] == room / 2 && w->end[i] == room - room / 2;
    }
    return LS_OK;
}

static ls_status take_window(onnx_reader *r, const onnx_value *x, const onnx_tensor *kernel, window *w) {
    w->axes = x->ndim - 2;
    for (int i = 0; i < w->axes && kernel; i++) {
        w->size[i] = kernel->dim[i + 2] <= 1 << 20 ? (int)kernel->dim[i + 2] : 0;
        if (w->size[i] < 1) return onnx_wrong(r->model, r->node, LS_STATUS_BAD_DATA, "a kernel without elements");
    }
    if (!kernel) LS_TRY(small_list(r, "kernel_shape", w->axes, 1, w->size, 0));
    LS_TRY(small_list(r, "strides", w->axes, 1, w->strides, 1));
    LS_TRY(small_list(r, "dilations", w->axes, 1, w->dilation, 1));
    return take_pads(r, x, w);
}

static ls_padding padding_of(const window *w) { return w->same && !w->none ? LS_PADDING_SAME : LS_PADDING_VALID; }

// The images with what padding the layer itself cannot have.
static ls_status padded(onnx_reader *r, const onnx_value *x, const window *w, ls_value *out) {
    *out = x->value;
    if (w->none || w->same) return LS_OK;
    if (w->axes != 2)
        return onnx_wrong(r->model, r->node, LS_STATUS_UNSUPPORTED,
                          "volumes are padded as \"same\" has it, or not at all");
    *out = ls_zero_pad2d(r->graph, x->value,
                         &(ls_zero_pad2d_attrs){.padding = {{w->begin[0], w->end[0]}, {w->begin[1], w->end[1]}}});
    return LS_OK;
}

// --- convolutions ----------------------------------------------------------------------------------------------------

static const int image_order[] = {2, 3, 1, 0}, volume_order[] = {2, 3, 4, 1, 0};

static ls_status begin_bias(onnx_reader *r, ls_value y, int k) {
    onnx_tensor *bias;
    if (!onnx_in(r, 2)) return LS_OK;
    LS_TRY(onnx_constant(r, 2, &bias));
    return onnx_begin(r, y, k, bias, NULL);
}

// A depthwise convolution and the 1 x 1 convolution behind it whose weights belong to the same layer.
static ls_status separable(onnx_reader *r, const onnx_value *x, const window *w, const onnx_tensor *kernel,
                           onnx_node *next, int *done) {
    static const char deep[] = "/depthwise_kernel", point[] = "/pointwise_kernel";
    char name[ONNX_NAME];
    onnx_tensor *second =
        next && next->input_count > 1 && next->inputs[1] >= 0 ? r->model->values[next->inputs[1]].tensor : NULL;
    size_t length = strlen(kernel->name), end = sizeof deep - 1;
    *done = 0;
    if (!second || length <= end || strcmp(kernel->name + length - end, deep) != 0 || strlen(second->name) != length ||
        strcmp(second->name + length - end, point) != 0 || strncmp(second->name, kernel->name, length - end) != 0 ||
        second->ndim != 4 || second->dim[2] != 1 || second->dim[3] != 1 || onnx_int(next, "group", 1) != 1 ||
        second->dim[0] > INT_MAX)
        return LS_OK;
    ls_value in;
    LS_TRY(padded(r, x, w, &in));
    LS_TRY(onnx_values(r->model, second));
    int no_bias = next->input_count < 3 || next->inputs[2] < 0;
    ls_separable_conv2d_attrs a = {.name = onnx_name(r, kernel, name),
                                   .filters = (int)second->dim[0],
                                   .kernel = {w->size[0], w->size[1]},
                                   .strides = {w->strides[0], w->strides[1]},
                                   .dilation = {w->dilation[0], w->dilation[1]},
                                   .multiplier = (int)(kernel->dim[0] / x->dim[1]),
                                   .padding = padding_of(w),
                                   .no_bias = no_bias};
    ls_value y = ls_separable_conv2d(r->graph, in, &a);
    LS_TRY(onnx_begin(r, y, 1, second, image_order));
    // (kh, kw, C, multiplier) lies as (kh, kw, 1, C * multiplier) does.
    onnx_tensor flat = *kernel;
    float *values;
    LS_TRY(ls_calloc(kernel->count, sizeof *values, &values));
    int64_t pixels = flat.dim[2] * flat.dim[3];
    for (int64_t o = 0; o < flat.dim[0]; o++)
        for (int64_t p = 0; p < pixels; p++) values[p * flat.dim[0] + o] = flat.floats[o * pixels + p];
    onnx_begin_with(r, y, 0, values);
    r->node = next;
    LS_TRY(begin_bias(r, y, 2));
    next->done = *done = 1;
    return onnx_give(r, 0, y, x);
}

static ls_status depthwise(onnx_reader *r, const onnx_value *x, ls_value in, const window *w, onnx_tensor *kernel) {
    char name[ONNX_NAME];
    ls_depthwise_conv2d_attrs a = {.name = onnx_name(r, kernel, name),
                                   .kernel = {w->size[0], w->size[1]},
                                   .strides = {w->strides[0], w->strides[1]},
                                   .dilation = {w->dilation[0], w->dilation[1]},
                                   .multiplier = (int)(kernel->dim[0] / x->dim[1]),
                                   .padding = padding_of(w),
                                   .no_bias = !onnx_in(r, 2)};
    ls_value y = ls_depthwise_conv2d(r->graph, in, &a);
    onnx_tensor flat = *kernel;  // as (1, kh, kw, C, multiplier)
    flat.ndim = 4;
    flat.dim[0] = x->dim[1];
    flat.dim[1] = a.multiplier;
    static const int order[] = {2, 3, 0, 1};
    LS_TRY(onnx_begin(r, y, 0, &flat, order));
    LS_TRY(begin_bias(r, y, 1));
    return onnx_give(r, 0, y, x);
}

static ls_status conv3d(onnx_reader *r, const onnx_value *x, const window *w, const onnx_tensor *kernel) {
    char name[ONNX_NAME];
    ls_conv3d_attrs a = {.name = onnx_name(r, kernel, name),
                         .filters = (int)kernel->dim[0],
                         .padding = padding_of(w),
                         .no_bias = !onnx_in(r, 2)};
    ls_value in;
    memcpy(a.kernel, w->size, sizeof a.kernel);
    memcpy(a.strides, w->strides, sizeof a.strides);
    memcpy(a.dilation, w->dilation, sizeof a.dilation);
    LS_TRY(padded(r, x, w, &in));
    ls_value y = ls_conv3d(r->graph, in, &a);
    LS_TRY(onnx_begin(r, y, 0, kernel, volume_order));
    LS_TRY(begin_bias(r, y, 1));
    return onnx_give(r, 0, y, x);
}

static ls_status take_kernel(onnx_reader *r, const onnx_value *x, onnx_tensor **kernel) {
    LS_TRY(onnx_need_images(r, x));
    LS_TRY(onnx_constant(r, 1, kernel));
    if ((*kernel)->ndim != x->ndim || !(*kernel)->floats || (*kernel)->count < 1 || (*kernel)->dim[0] > INT_MAX ||
        (*kernel)->dim[1] > INT_MAX)
        return onnx_wrong(r->model, r->node, LS_STATUS_BAD_DATA,
                          "its kernel has %d dimensions and its input %d, or it is none of floating numbers",
                          (*kernel)->ndim, x->ndim);
    return LS_OK;
}

static ls_status conv(onnx_reader *r, onnx_node *n) {
    onnx_value *x;
    onnx_tensor *kernel;
    window w = {0};
    int64_t groups = onnx_int(n, "group", 1);
    char name[ONNX_NAME];
    LS_TRY(onnx_data(r, 0, &x));
    LS_TRY(take_kernel(r, x, &kernel));
    LS_TRY(take_window(r, x, kernel, &w));
    if (groups < 1 || x->dim[1] % groups || kernel->dim[1] != x->dim[1] / groups || kernel->dim[0] % groups)
        return onnx_wrong(r->model, n, LS_STATUS_BAD_DATA,
                          "%lld groups and a kernel of %lld x %lld channels do not fit an input of %lld",
                          (long long)groups, (long long)kernel->dim[0], (long long)kernel->dim[1],
                          (long long)x->dim[1]);
    if (w.axes == 3 && groups == 1) return conv3d(r, x, &w, kernel);
    if (w.axes == 3) return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "over volumes there are no groups");
    ls_value in;
    int done = 0;
    if (groups == x->dim[1] && groups > 1) {
        onnx_node *next = onnx_in(r, 2) ? NULL : onnx_only_reader(r, 0, "Conv");
        LS_TRY(separable(r, x, &w, kernel, next, &done));
        if (done) return LS_OK;
        LS_TRY(padded(r, x, &w, &in));
        return depthwise(r, x, in, &w, kernel);
    }
    LS_TRY(padded(r, x, &w, &in));
    ls_conv2d_attrs a = {.name = onnx_name(r, kernel, name),
                         .filters = (int)kernel->dim[0],
                         .kernel = {w.size[0], w.size[1]},
                         .strides = {w.strides[0], w.strides[1]},
                         .dilation = {w.dilation[0], w.dilation[1]},
                         .groups = (int)groups,
                         .padding = padding_of(&w),
                         .no_bias = !onnx_in(r, 2)};
    ls_value y = ls_conv2d(r->graph, in, &a);
    LS_TRY(onnx_begin(r, y, 0, kernel, image_order));
    LS_TRY(begin_bias(r, y, 1));
    return onnx_give(r, 0, y, x);
}

// What is cut off the full output: `same` where that is as the graph's layers have it, else by a layer of its own.
static ls_status cut_of(onnx_reader *r, const window *w, int same[1], int cut[3][2]) {
    int more[3] = {0};
    LS_TRY(small_list(r, "output_padding", w->axes, 0, more, 0));
    *same = 1;
    for (int i = 0; i < w->axes; i++) {
        int beyond = w->size[i] > w->strides[i] ? w->size[i] - w->strides[i] : 0;
        // Kernels smaller than their stride leave pixels between them, which the graph's layers have and ONNX does not.
        int missing = w->strides[i] > w->size[i] ? w->strides[i] - w->size[i] : 0;
        cut[i][0] = w->begin[i];
        cut[i][1] = w->end[i] - more[i] + missing;
        *same &= cut[i][0] == beyond / 2 && cut[i][1] == beyond - beyond / 2;
        if (cut[i][1] < 0 || onnx_find(r->node, "output_shape") || onnx_is(r->node, "auto_pad", "SAME_UPPER", "") ||
            onnx_is(r->node, "auto_pad", "SAME_LOWER", ""))
            return onnx_wrong(r->model, r->node, LS_STATUS_UNSUPPORTED,
                              "its output is read as strides, pads and an output_padding below the pads say it");
    }
    return LS_OK;
}

static ls_status conv_transpose(onnx_reader *r, onnx_node *n) {
    onnx_value *x;
    onnx_tensor *kernel;
    window w = {0};
    char name[ONNX_NAME];
    int same, cut[3][2] = {{0}};
    LS_TRY(onnx_data(r, 0, &x));
    LS_TRY(take_kernel(r, x, &kernel));
    LS_TRY(take_window(r, x, kernel, &w));
    LS_TRY(cut_of(r, &w, &same, cut));
    int cuts = 0, dilated = 0;
    for (int i = 0; i < w.axes; i++) cuts |= cut[i][0] | cut[i][1], dilated |= w.dilation[i] != 1;
    if (onnx_int(n, "group", 1) != 1 || dilated || (w.axes == 3 && cuts && !same))
        return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED,
                          "transposed convolutions have one group and no dilation; over volumes, \"same\" padding or "
                          "none");
    ls_padding padding = same && cuts ? LS_PADDING_SAME : LS_PADDING_VALID;
    ls_value y;
    if (w.axes == 2) {
        y = ls_conv2d_transpose(r->graph, x->value,
                                &(ls_conv2d_transpose_attrs){.name = onnx_name(r, kernel, name),
                                                             .filters = (int)kernel->dim[1],
                                                             .kernel = {w.size[0], w.size[1]},
                                                             .strides = {w.strides[0], w.strides[1]},
                                                             .padding = padding,
                                                             .no_bias = !onnx_in(r, 2)});
    } else {
        y = ls_conv3d_transpose(r->graph, x->value,
                                &(ls_conv3d_transpose_attrs){.name = onnx_name(r, kernel, name),
                                                             .filters = (int)kernel->dim[1],
                                                             .kernel = {w.size[0], w.size[1], w.size[2]},
                                                             .strides = {w.strides[0], w.strides[1], w.strides[2]},
                                                             .padding = padding,
                                                             .no_bias = !onnx_in(r, 2)});
    }
    LS_TRY(onnx_begin(r, y, 0, kernel, w.axes == 2 ? image_order : volume_order));
    LS_TRY(begin_bias(r, y, 1));
    if (cuts && !same)
        y = ls_cropping2d(r->graph, y,
                          &(ls_cropping2d_attrs){.cropping = {{cut[0][0], cut[0][1]}, {cut[1][0], cut[1][1]}}});
    return onnx_give(r, 0, y, x);
}

// --- pooling ---------------------------------------------------------------------------------------------------------

// With ceil_mode the last window may reach beyond the padding: as far as that, there is more of it. The window begins in the image or the
// padding before it.
static void reach_on(const onnx_value *x, window *w) {
    w->none = w->same = 1;
    for (int i = 0; i < w->axes; i++) {
        int64_t in = x->dim[i + 2], stride = stride_of(w, i), size = w->size[i];
        int64_t all = in + w->begin[i] + w->end[i] - size;
        int64_t out = all < 0 ? 1 : (all + stride - 1) / stride + 1;
        if ((out - 1) * stride >= in + w->begin[i]) out--;
        int64_t end = (out - 1) * stride + size - in - w->begin[i];
        if (end > w->end[i]) w->end[i] = (int)end;
        int64_t room = ((in + stride - 1) / stride - 1) * stride + size - in;
        if (room < 0) room = 0;
        w->none &= w->begin[i] == 0 && w->end[i] == 0;
        w->same &= w->begin[i] == room / 2 && w->end[i] == room - room / 2;
    }
}

static ls_status pool(onnx_reader *r, onnx_node *n) {
    onnx_value *x;
    window w = {0}, asked;
    char name[ONNX_NAME];
    int maximum = n->op[0] == 'M', counts = maximum || onnx_int(n, "count_include_pad", 0);
    LS_TRY(onnx_data(r, 0, &x));
    LS_TRY(onnx_need_images(r, x));
    LS_TRY(take_window(r, x, NULL, &w));
    asked = w;
    if (onnx_int(n, "ceil_mode", 0)) reach_on(x, &w);
    int dilated = 0;
    for (int i = 0; i < w.axes; i++) dilated |= w.dilation[i] != 1;
    if (dilated || onnx_out(r, 1))
        return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "pooling has no dilation, and does not tell places");
    if (!maximum && memcmp(asked.end, w.end, sizeof w.end) != 0 && !w.same)
        return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED,
                          "ceil_mode lets a window reach beyond an image whose average it takes");
    // Zeros beside values that are not negative never are a maximum that was none.
    int by_same = !w.none && w.same && (maximum || !counts || !asked.none);
    if (!maximum && counts && !asked.none) by_same = 0;
    if (!w.none && !by_same && !(maximum ? x->not_negative : counts))
        return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED,
                          maximum ? "its padding is not that of \"same\", and its input may be negative: zeros in "
                                    "place of the padding would count"
                                  : "its padding is not that of \"same\", and does not count (count_include_pad)");
    ls_value in = x->value, y;
    if (!by_same) {
        w.same = w.none;
        LS_TRY(padded(r, x, &w, &in));
    }
    ls_padding padding = by_same ? LS_PADDING_SAME : LS_PADDING_VALID;
    const char *own = onnx_name(r, NULL, name);
    if (w.axes == 3) {
        ls_pool3d_attrs a = {.name = own, .padding = padding};
        memcpy(a.size, w.size, sizeof a.size);
        memcpy(a.strides, w.strides, sizeof a.strides);
        y = maximum ? ls_max_pool3d(r->graph, in, &a) : ls_average_pool3d(r->graph, in, &a);
    } else {
        ls_pool2d_attrs a = {
            .name = own, .size = {w.size[0], w.size[1]}, .strides = {w.strides[0], w.strides[1]}, .padding = padding};
        y = maximum ? ls_max_pool2d(r->graph, in, &a) : ls_average_pool2d(r->graph, in, &a);
    }
    if (onnx_out(r, 0)) onnx_out(r, 0)->not_negative = x->not_negative;
    return onnx_give(r, 0, y, x);
}

static ls_status global_pool(onnx_reader *r, onnx_node *n) {
    onnx_value *x;
    char name[ONNX_NAME];
    LS_TRY(onnx_data(r, 0, &x));
    LS_TRY(onnx_need_images(r, x));
    if (x->ndim != 4) return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "volumes are not pooled as a whole");
    const char *own = onnx_name(r, NULL, name);
    int maximum = n->op[6] == 'M';
    ls_value y = maximum ? ls_global_max_pool2d(r->graph, x->value, own) : LS_NO_VALUE;
    if (maximum)
        y = ls_reshape(r->graph, y, &(ls_reshape_attrs){.shape = {1, 1, (int)x->dim[1]}});
    else
        y = ls_global_average_pool2d_keepdims(r->graph, x->value, own);
    if (onnx_out(r, 0)) onnx_out(r, 0)->not_negative = x->not_negative;
    return onnx_give(r, 0, y, x);
}

static ls_status reduce_mean(onnx_reader *r, onnx_node *n) {
    onnx_value *x;
    int64_t axes[ONNX_DIMS];
    char name[ONNX_NAME];
    int count, axis, mask = 0, keep = (int)onnx_int(n, "keepdims", 1);
    LS_TRY(onnx_data(r, 0, &x));
    LS_TRY(onnx_list(r, "axes", 1, ONNX_DIMS, axes, &count));
    for (int i = 0; i < count; i++) {
        LS_TRY(onnx_axis(r, axes[i], x->ndim, &axis));
        if (x->axis[axis] >= 0) mask |= 1 << x->axis[axis];
    }
    const char *own = onnx_name(r, NULL, name);
    if (x->ndim == 4 && mask == 6 && onnx_is_images(x) && keep)
        return onnx_give(r, 0, ls_global_average_pool2d_keepdims(r->graph, x->value, own), x);
    if (x->ndim == 4 && mask == 6 && !keep)
        return onnx_give_plain(r, 0, ls_global_average_pool2d(r->graph, x->value, own));
    if (x->ndim == 3 && mask == 2 && !keep)
        return onnx_give_plain(r, 0, ls_global_average_pool1d(r->graph, x->value, own));
    return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED,
                      "means are taken of all pixels of an image, or of all steps of a sequence");
}

onnx_builder onnx_find_window(const onnx_node *n) {
    static const struct {
        const char *op;
        onnx_builder build;
    } rows[] = {{"Conv", conv},
                {"ConvTranspose", conv_transpose},
                {"MaxPool", pool},
                {"AveragePool", pool},
                {"GlobalAveragePool", global_pool},
                {"GlobalMaxPool", global_pool},
                {"ReduceMean", reduce_mean}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && !n->domain[0]; i++)
        if (strcmp(n->op, rows[i].op) == 0) return rows[i].build;
    return NULL;
}
