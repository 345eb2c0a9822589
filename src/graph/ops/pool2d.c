#include "graph/ops/pool2d.h"

#include "base/error.h"
#include "graph/ops/window.h"

ls_status ls__pool2d_infer(ls_graph *graph, ls_node *node, ls_shape x) {
    int64_t out[2];
    LS_TRY(ls__window_infer(node, x, "window", out));
    node->shape = LS_SHAPE(out[0], out[1], x.dim[2]);
    return LS_OK;
}

ls_status ls__global_pool2d_infer(ls_graph *graph, ls_node *node, ls_shape x) {
    LS_TRY(ls__images_check(node, x));
    for (int i = 0; i < 2; i++) node->attrs.kernel[i] = node->attrs.strides[i] = (int)x.dim[i];
    node->shape = LS_SHAPE(x.dim[2]);
    return LS_OK;
}

ls_value ls__pool2d_add(ls_graph *graph, ls_op_kind op, ls_value x, const ls_pool2d_attrs *attrs) {
    int default_size = !attrs->size[0] && !attrs->size[1], default_strides = !attrs->strides[0] && !attrs->strides[1];
    ls_op_attrs a = {.padding = attrs->padding};
    for (int i = 0; i < 2; i++) {
        a.kernel[i] = default_size ? 2 : attrs->size[i];
        a.strides[i] = default_strides ? a.kernel[i] : attrs->strides[i];
    }
    return ls__graph_add(graph, op, x, attrs->name, &a, LS_INITIALIZER_DEFAULT, LS_INITIALIZER_DEFAULT);
}

ls_value ls__global_pool2d_add(ls_graph *graph, ls_op_kind op, ls_value x, const char *name) {
    return ls__graph_add(graph, op, x, name, &(ls_op_attrs){0}, LS_INITIALIZER_DEFAULT, LS_INITIALIZER_DEFAULT);
}
