#include <stddef.h>

#include "base/error.h"
#include "graph/ops/window.h"
#include "graph/plan_build.h"

static const ls_attr rows[] = {
    {"cropping", LS_ATTR_SIDES, offsetof(ls_cropping2d_attrs, cropping),
     .help = "rows at the top and bottom, columns at the left and right"},
    {.name = NULL},
};

static ls_status infer(ls_graph *graph, ls_node *node) {
    const int(*crop)[2] = LS_ATTRS(ls_cropping2d_attrs, &node->attrs)->cropping;
    ls_shape x = ls__input_type(graph, node, 0)->shape;
    LS_TRY(ls__images_check(node, x));
    int64_t height = x.dim[0] - crop[0][0] - crop[0][1], width = x.dim[1] - crop[1][0] - crop[1][1];
    if (height < 1 || width < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: nothing is left of images of %lld x %lld without %d rows at the top, %d at the bottom, %d "
                       "columns at the left and %d at the right; crop less, or give it larger images",
                       node->name, (long long)x.dim[0], (long long)x.dim[1], crop[0][0], crop[0][1], crop[1][0],
                       crop[1][1]);
    return ls__node_output(node, LS_SHAPE(height, width, x.dim[2]), LS_DTYPE_F32);
}

ls_value ls_cropping2d(ls_graph *graph, ls_value x, const ls_cropping2d_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_CROPPING2D, &x, 1, attrs);
}

const ls_op ls__op_cropping2d = {
    .kind = LS_OP_CROPPING2D,
    .keras_class = "Cropping2D",
    .keras_name = "cropping2d",
    .attrs = rows,
    .attrs_bytes = sizeof(ls_cropping2d_attrs),
    .inputs = 1,
    .infer = infer,
    .backward = ls__backward_layer,
    .recompute = LS_RECOMPUTE_LIGHT,
};
