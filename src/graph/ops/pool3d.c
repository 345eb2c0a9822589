#include "graph/ops/pool3d.h"

#include <stddef.h>

#include "base/error.h"
#include "graph/ops/window.h"

const ls_attr ls__pool3d_rows[] = {
    {"pool_size", LS_ATTR_TRIPLE, offsetof(ls_pool3d_attrs, size), .initial = 2, .minimum = 1,
     .maximum = LS_MOST_VOLUME_SIDE, .help = "depth, height and width of the window"},
    {"strides", LS_ATTR_TRIPLE, offsetof(ls_pool3d_attrs, strides),
     .help = "how far the window moves; 0: as far as it is large"},
    {"padding", LS_ATTR_CHOICE, offsetof(ls_pool3d_attrs, padding), .choices = ls__padding_names,
     .help = "same: the output is as large as the input over the strides"},
    {.name = NULL},
};

ls_status ls__pool3d_infer(ls_graph *graph, ls_node *node) {
    static const int together[3] = {1, 1, 1};
    ls_pool3d_attrs *a = (ls_pool3d_attrs *)(void *)node->attrs.bytes;
    ls_shape x = ls__input_type(graph, node, 0)->shape;
    int64_t out[3];
    int given = a->strides[0] || a->strides[1] || a->strides[2];
    for (int i = 0; i < 3 && !given; i++) a->strides[i] = a->size[i];
    LS_TRY(ls__window_infer3d(node, x, "window", a->size, a->strides, together, a->padding, a->pad, out));
    return ls__node_output(node, LS_SHAPE(out[0], out[1], out[2], x.dim[3]), LS_DTYPE_F32);
}
