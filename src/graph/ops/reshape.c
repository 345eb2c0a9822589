#include <inttypes.h>
#include <limits.h>
#include <stddef.h>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/plan_build.h"

enum { DIMS = 4 };

static const ls_attr rows[] = {
    {"target_shape", LS_ATTR_DIMS, offsetof(ls_reshape_attrs, shape), .minimum = -1, .maximum = INT_MAX,
     .help = "of a sample; -1: what is left"},
    {.name = NULL},
};

// Puts what is left in the place of -1. Returns how many dimensions there are; 0: they do not come to `count` elements.
static int resolve(int shape[DIMS], int64_t count) {
    int dims = 0, open = -1;
    int64_t known = 1;
    while (dims < DIMS && shape[dims]) dims++;
    for (int i = 0; i < DIMS; i++) {
        if (i >= dims && shape[i]) return 0;
        if (i < dims && shape[i] < 0 && open >= 0) return 0;
        if (i < dims && shape[i] < 0) open = i;
        if (i < dims && shape[i] > 0) known *= shape[i];
        if (known > count) return 0;
    }
    if (count % known != 0 || (open < 0 && known != count) || count / known > INT_MAX) return 0;
    if (open >= 0) shape[open] = (int)(count / known);
    return dims;
}

static ls_status infer(ls_graph *graph, ls_node *node) {
    ls_reshape_attrs *a = (ls_reshape_attrs *)(void *)node->attrs.bytes;
    const ls_tensor_type *x = ls__input_type(graph, node, 0);
    const int asked[DIMS] = {a->shape[0], a->shape[1], a->shape[2], a->shape[3]};
    char text[LS_SHAPE_TEXT];
    ls_shape out = {.ndim = resolve(a->shape, ls_shape_count(x->shape))};
    if (out.ndim == 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: %s cannot be reshaped to %dx%dx%dx%d (0: no more dimensions; one may be -1)", node->name,
                       ls__shape_text(x->shape, text), asked[0], asked[1], asked[2], asked[3]);
    for (int i = 0; i < out.ndim; i++) out.dim[i] = a->shape[i];
    return ls__node_output(node, out, x->dtype);
}

ls_value ls_reshape(ls_graph *graph, ls_value x, const ls_reshape_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_RESHAPE, &x, 1, attrs);
}

const ls_op ls__op_reshape = {
    .kind = LS_OP_RESHAPE,
    .keras_class = "Reshape",
    .keras_name = "reshape",
    .attrs = rows,
    .attrs_bytes = sizeof(ls_reshape_attrs),
    .inputs = 1,
    .infer = infer,
    .backward = ls__backward_layer,
    .absorbs = LS_ABSORBS_MASK,
    .traits = LS_OP_RENAMES | LS_OP_WHOLE_NUMBERS,
};
