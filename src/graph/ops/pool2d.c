#include "graph/ops/pool2d.h"

#include <stddef.h>

#include "base/error.h"
#include "graph/ops/window.h"

const ls_attr ls__pool2d_rows[] = {
    {"pool_size", LS_ATTR_PAIR, offsetof(ls_pool2d_attrs, size), .initial = 2, .minimum = 1,
     .help = "height and width of the window"},
    {"strides", LS_ATTR_PAIR, offsetof(ls_pool2d_attrs, strides),
     .help = "how far the window moves; 0: as far as it is large"},
    {"padding", LS_ATTR_CHOICE, offsetof(ls_pool2d_attrs, padding), .choices = ls__padding_names,
     .help = "same: the output is as large as the input over the strides"},
    {.name = NULL},
};

const ls_attr ls__global_pool2d_rows[] = {
    {"keepdims", LS_ATTR_FLAG, offsetof(ls_pool2d_attrs, keepdims), .help = "the output is an image of one pixel"},
    {.name = NULL},
};

ls_status ls__pool2d_infer(ls_graph *graph, ls_node *node) {
    ls_pool2d_attrs *a = (ls_pool2d_attrs *)(void *)node->attrs.bytes;
    ls_shape x = ls__input_type(graph, node, 0)->shape;
    int64_t out[2];
    for (int i = 0; i < 2 && !a->strides[0] && !a->strides[1]; i++)
        if (i == 1) a->strides[0] = a->size[0], a->strides[1] = a->size[1];
    LS_TRY(ls__window_infer(node, x, "window", a->size, a->strides, a->padding, a->pad, out));
    return ls__node_output(node, LS_SHAPE(out[0], out[1], x.dim[2]), LS_DTYPE_F32);
}

ls_status ls__global_pool2d_infer(ls_graph *graph, ls_node *node) {
    ls_pool2d_attrs *a = (ls_pool2d_attrs *)(void *)node->attrs.bytes;
    ls_shape x = ls__input_type(graph, node, 0)->shape;
    LS_TRY(ls__images_check(node, x));
    for (int i = 0; i < 2; i++) a->size[i] = a->strides[i] = (int)x.dim[i];
    return ls__node_output(node, a->keepdims ? LS_SHAPE(1, 1, x.dim[2]) : LS_SHAPE(x.dim[2]), LS_DTYPE_F32);
}

int ls__pool2d_absorb_padding(ls_attrs *attrs, const int sides[2][2]) {
    ls_pool2d_attrs *a = (ls_pool2d_attrs *)(void *)attrs->bytes;
    if (a->padding != LS_PADDING_VALID) return 0;
    ls__window_absorb(a->pad, sides);
    a->pad_zeros = 1;
    return 1;
}
