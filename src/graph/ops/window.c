#include "graph/ops/window.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"

#define LARGEST_REACH ((int64_t)1 << 24)

ls_status ls__images_check(const ls_node *node, ls_shape x) {
    char text[LS_SHAPE_TEXT];
    if (x.ndim == 3) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%s: a %s layer works on images (None, H, W, C), but its input has shape %s", node->name,
                   ls__op_find(node->op)->keras_class, ls__shape_text(x, text));
}

ls_status ls__volumes_check(const ls_node *node, ls_shape x) {
    char text[LS_SHAPE_TEXT];
    if (x.ndim == 4) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%s: a %s layer works on volumes or clips (None, D, H, W, C), but its input has shape %s",
                   node->name, ls__op_find(node->op)->keras_class, ls__shape_text(x, text));
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

// "3x3": a number for each axis.
#define SIDES_TEXT 72
static const char *sides_text(int axes, const int64_t *sides, char text[SIDES_TEXT]) {
    int used = 0;
    for (int i = 0; i < axes; i++)
        used += snprintf(text + used, SIDES_TEXT - (size_t)used, "%s%" PRId64, i ? "x" : "", sides[i]);
    return text;
}

static ls_status check_sides(const ls_node *node, const char *what, int axes, const int *size, const int *strides) {
    char one[SIDES_TEXT], other[SIDES_TEXT];
    int64_t sizes[LS_MAX_DIMS], steps[LS_MAX_DIMS];
    int fine = 1;
    for (int i = 0; i < axes; i++) {
        sizes[i] = size[i], steps[i] = strides[i];
        fine &= size[i] >= 1 && strides[i] >= 1;
    }
    if (fine) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%s: the sides and strides of its %s are at least 1, but a %s %s with strides %s was asked for",
                   node->name, what, sides_text(axes, sizes, one), what, sides_text(axes, steps, other));
}

static ls_status check_reach(const ls_node *node, ls_shape x, const char *what, int axes, const int64_t *reach,
                             int same) {
    char one[SIDES_TEXT], other[SIDES_TEXT];
    int fits = 1;
    for (int i = 0; i < axes; i++) {
        fits &= reach[i] <= x.dim[i];
        if (reach[i] > LARGEST_REACH)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "%s: a %s that reaches over %" PRId64 " pixels is larger than any image", node->name, what,
                           reach[i]);
    }
    if (same || fits) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%s: a %s valid %s does not fit its %s input; use padding same or drop a layer", node->name,
                   sides_text(axes, reach, one), what, sides_text(axes, x.dim, other));
}

// Over the first `axes` axes of x; pad is what comes before each, then what comes behind.
static ls_status infer(const ls_node *node, ls_shape x, const char *what, int axes, const int *size, const int *strides,
                       const int *dilation, ls_padding padding, int *pad, int64_t *out) {
    int same = padding == LS_PADDING_SAME;
    int64_t reach[LS_MAX_DIMS];
    LS_TRY(check_sides(node, what, axes, size, strides));
    for (int i = 0; i < axes; i++) reach[i] = (size[i] - 1) * (int64_t)dilation[i] + 1;
    LS_TRY(check_reach(node, x, what, axes, reach, same));
    for (int i = 0; i < axes; i++) {
        int64_t in = x.dim[i], kernel = reach[i], stride = strides[i];
        out[i] = same ? (in + stride - 1) / stride : (in - kernel) / stride + 1;
        int64_t room = same ? (out[i] - 1) * stride + kernel - in : 0;
        if (room < 0) room = 0;
        pad[i] = (int)(room / 2);
        pad[i + axes] = (int)(room - room / 2);
    }
    return LS_OK;
}

ls_status ls__window_infer_dilated(const ls_node *node, ls_shape x, const char *what, const int size[2],
                                   const int strides[2], const int dilation[2], ls_padding padding, int pad[4],
                                   int64_t out[2]) {
    LS_TRY(ls__images_check(node, x));
    return infer(node, x, what, 2, size, strides, dilation, padding, pad, out);
}

ls_status ls__window_infer3d(const ls_node *node, ls_shape x, const char *what, const int size[3], const int strides[3],
                             const int dilation[3], ls_padding padding, int pad[6], int64_t out[3]) {
    LS_TRY(ls__volumes_check(node, x));
    return infer(node, x, what, 3, size, strides, dilation, padding, pad, out);
}

void ls__window_infer_transposed(int axes, ls_shape x, const int *kernel, const int *strides, ls_padding padding,
                                 int *pad, int64_t *out) {
    for (int i = 0; i < axes; i++) {
        int beyond = kernel[i] > strides[i] ? kernel[i] - strides[i] : 0;
        int cut = padding == LS_PADDING_SAME ? beyond : 0;
        out[i] = x.dim[i] * strides[i] + beyond - cut;
        pad[i] = cut / 2;
        pad[i + axes] = cut - cut / 2;
    }
}
