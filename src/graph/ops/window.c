#include "graph/ops/window.h"

#include <inttypes.h>

#include "base/error.h"

#define LARGEST_REACH ((int64_t)1 << 24)

ls_status ls__images_check(const ls_node *node, ls_shape x) {
    char text[LS_SHAPE_TEXT];
    if (x.ndim == 3) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%s: a %s layer works on images (None, H, W, C), but its input has shape %s", node->name,
                   ls__op_find(node->op)->keras_class, ls__shape_text(x, text));
}

void ls__window_absorb(int pad[4], const int sides[2][2]) {
    pad[0] = sides[0][0], pad[1] = sides[1][0], pad[2] = sides[0][1], pad[3] = sides[1][1];
}

int ls__window_can_absorb(const int size[2], const int dilation[2], const int sides[2][2]) {
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            if (sides[i][j] >= ls__window_reach(size[i], dilation[i])) return 0;
    return 1;
}

// Sources for the padding: TensorFlow's guide to "same" and "valid"; the odd element goes to the bottom and the right.
ls_status ls__window_infer(const ls_node *node, ls_shape x, const char *what, const int size[2], const int strides[2],
                           ls_padding padding, int pad[4], int64_t out[2]) {
    return ls__window_infer_dilated(node, x, what, size, strides, (int[2]){1, 1}, padding, pad, out);
}

ls_status ls__window_infer_dilated(const ls_node *node, ls_shape x, const char *what, const int size[2],
                                   const int strides[2], const int dilation[2], ls_padding padding, int pad[4],
                                   int64_t out[2]) {
    LS_TRY(ls__images_check(node, x));
    if (size[0] < 1 || size[1] < 1 || strides[0] < 1 || strides[1] < 1)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "%s: the sides and strides of its %s are at least 1, but a %dx%d %s with strides %dx%d was asked for",
            node->name, what, size[0], size[1], what, strides[0], strides[1]);
    int same = padding == LS_PADDING_SAME;
    int64_t reach[2] = {(size[0] - 1) * (int64_t)dilation[0] + 1, (size[1] - 1) * (int64_t)dilation[1] + 1};
    for (int i = 0; i < 2; i++)
        if (reach[i] > LARGEST_REACH)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "%s: a %s that reaches over %" PRId64 " pixels is larger than any image", node->name, what,
                           reach[i]);
    if (!same && (reach[0] > x.dim[0] || reach[1] > x.dim[1]))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: a %dx%d valid %s does not fit its %" PRId64 "x%" PRId64
                       " input; use padding same or drop a layer",
                       node->name, (int)reach[0], (int)reach[1], what, x.dim[0], x.dim[1]);
    for (int i = 0; i < 2; i++) {
        int64_t in = x.dim[i], kernel = reach[i], stride = strides[i];
        out[i] = same ? (in + stride - 1) / stride : (in - kernel) / stride + 1;
        int64_t room = same ? (out[i] - 1) * stride + kernel - in : 0;
        if (room < 0) room = 0;
        pad[i] = (int)(room / 2);
        pad[i + 2] = (int)(room - room / 2);
    }
    return LS_OK;
}
