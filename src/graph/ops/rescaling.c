#include <stddef.h>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/plan_build.h"

static const ls_attr rows[] = {
    {"scale", LS_ATTR_REAL, offsetof(ls_rescaling_attrs, scale), .initial = 1, .minimum = -1e30, .maximum = 1e30,
     .help = "what each element is multiplied by"},
    {"offset", LS_ATTR_REAL, offsetof(ls_rescaling_attrs, offset), .minimum = -1e30, .maximum = 1e30,
     .help = "what is added then"},
    {.name = NULL},
};

static ls_status infer(ls_graph *graph, ls_node *node) {
    const ls_tensor_type *x = ls__input_type(graph, node, 0);
    if (x->dtype != LS_DTYPE_F32)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: only floating values are rescaled, not whole numbers",
                       node->name);
    return ls__node_output(node, x->shape, LS_DTYPE_F32);
}

ls_value ls_rescaling(ls_graph *graph, ls_value x, const ls_rescaling_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_RESCALING, &x, 1, attrs);
}

const ls_op ls__op_rescaling = {
    .kind = LS_OP_RESCALING,
    .keras_class = "Rescaling",
    .keras_name = "rescaling",
    .attrs = rows,
    .attrs_bytes = sizeof(ls_rescaling_attrs),
    .inputs = 1,
    .infer = infer,
    .backward = ls__backward_layer,
    .recompute = LS_RECOMPUTE_LIGHT,
};
