#include "graph/ops/window.h"

#include <inttypes.h>

#include "base/error.h"

ls_status ls__images_check(const ls_node *node, ls_shape x) {
    char text[LS_SHAPE_TEXT];
    if (x.ndim == 3) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%s: a %s layer works on images (None, H, W, C), but its input has shape %s", node->name,
                   ls_op_class(node->op), ls__shape_text(x, text));
}

// Sources for the padding: TensorFlow's guide to "same" and "valid"; the odd element goes to the bottom and the right.
ls_status ls__window_infer(ls_node *node, ls_shape x, const char *what, int64_t out[2]) {
    ls_op_attrs *a = &node->attrs;
    LS_TRY(ls__images_check(node, x));
    if (a->kernel[0] < 1 || a->kernel[1] < 1 || a->strides[0] < 1 || a->strides[1] < 1)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "%s: the sides and strides of its %s are at least 1, but a %dx%d %s with strides %dx%d was asked for",
            node->name, what, a->kernel[0], a->kernel[1], what, a->strides[0], a->strides[1]);
    int same = a->padding == LS_PADDING_SAME;
    if (!same && (a->kernel[0] > x.dim[0] || a->kernel[1] > x.dim[1]))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: a %dx%d valid %s does not fit its %" PRId64 "x%" PRId64
                       " input; use padding same or drop a layer",
                       node->name, a->kernel[0], a->kernel[1], what, x.dim[0], x.dim[1]);
    for (int i = 0; i < 2; i++) {
        int64_t in = x.dim[i], kernel = a->kernel[i], stride = a->strides[i];
        out[i] = same ? (in + stride - 1) / stride : (in - kernel) / stride + 1;
        int64_t padding = same ? (out[i] - 1) * stride + kernel - in : 0;
        if (padding < 0) padding = 0;
        a->pad[i] = (int)(padding / 2);
        a->pad[i + 2] = (int)(padding - padding / 2);
    }
    return LS_OK;
}
