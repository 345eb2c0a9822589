#include <limits.h>
#include <stddef.h>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/ops/mask.h"
#include "graph/plan_build.h"

static const ls_attr rows[] = {
    {"num_heads", LS_ATTR_INT, offsetof(ls_attention_attrs, heads), .initial = 1, .minimum = 1, .maximum = INT_MAX,
     .help = "each with an equal share of the channels"},
    {"use_causal_mask", LS_ATTR_FLAG, offsetof(ls_attention_attrs, causal),
     .help = "a position attends to itself and to what is before it"},
    {.name = NULL},
};

static ls_status infer(ls_graph *graph, ls_node *node) {
    const ls_attention_attrs *a = LS_ATTRS(ls_attention_attrs, &node->attrs);
    LS_TRY(ls__check_mask(graph, node));
    ls_shape x = ls__input_type(graph, node, 0)->shape;
    if (x.dim[1] % (3 * (int64_t)a->heads) != 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: query, key and value of %d head%s are three equal parts of a position's channels, each for "
                       "as many heads, but there are %lld channels",
                       node->name, a->heads, a->heads == 1 ? "" : "s", (long long)x.dim[1]);
    return ls__node_output(node, LS_SHAPE(x.dim[0], x.dim[1] / 3), LS_DTYPE_F32);
}

ls_value ls_attention(ls_graph *graph, ls_value qkv, ls_value mask, const ls_attention_attrs *attrs) {
    return ls__add_masked(graph, LS_OP_ATTENTION, qkv, mask, attrs);
}

// Scores and what they weigh, of all pairs of positions: a causal one computes half of it.
static double products(const ls_kernel_spec *s) {
    return 4 * (double)ls_shape_count(s->y[0].shape) * (double)s->y[0].shape.dim[1];
}

const ls_op ls__op_attention = {
    .kind = LS_OP_ATTENTION,
    .keras_class = "Attention",
    .keras_name = "attention",
    .attrs = rows,
    .attrs_bytes = sizeof(ls_attention_attrs),
    .inputs = 1,
    .inputs_maximum = 2,
    .infer = infer,
    .backward = ls__backward_layer,
    .products = products,
};
