#include <limits.h>
#include <stddef.h>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/plan_build.h"

static const ls_attr rows[] = {
    {"input_dim", LS_ATTR_INT, offsetof(ls_embedding_attrs, rows), .minimum = 1, .maximum = INT_MAX,
     .help = "numbers there are, from 0 on"},
    {"output_dim", LS_ATTR_INT, offsetof(ls_embedding_attrs, width), .minimum = 1, .maximum = INT_MAX,
     .help = "of the vector that each becomes"},
    {"embeddings_initializer", LS_ATTR_CHOICE, offsetof(ls_embedding_attrs, initializer),
     .choices = ls__initializer_names, .help = "of the vectors"},
    {.name = NULL},
};

static ls_status infer(ls_graph *graph, ls_node *node) {
    const ls_embedding_attrs *a = LS_ATTRS(ls_embedding_attrs, &node->attrs);
    const ls_tensor_type *x = ls__input_type(graph, node, 0);
    char text[LS_SHAPE_TEXT];
    if (x->dtype != LS_DTYPE_I32 || x->shape.ndim > 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: an embedding takes whole numbers (i32), (None) or (None, T), but its input is %s of %s",
                       node->name, ls_dtype_name(x->dtype), ls__shape_text(x->shape, text));
    ls_shape out = x->shape;
    out.dim[out.ndim++] = a->width;
    LS_TRY(ls__graph_param(graph, node, "embeddings", LS_SHAPE(a->rows, a->width), LS_PARAM_KERNEL, a->initializer,
                           LS_INITIALIZER_RANDOM_UNIFORM, a->rows, a->width));
    return ls__node_output(node, out, LS_DTYPE_F32);
}

ls_value ls_embedding(ls_graph *graph, ls_value x, const ls_embedding_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_EMBEDDING, &x, 1, attrs);
}

// Whole numbers have no gradient: only the vectors do.
static ls_status backward(ls_builder *b, int i) {
    ls_tensor d;
    LS_TRY(ls__gradient_of(b, i, 0, &d));
    return ls__emit_backward(b, i, LS_PASS_BACKWARD_WEIGHTS, "backward weights", &d, NULL);
}

const ls_op ls__op_embedding = {
    .kind = LS_OP_EMBEDDING,
    .keras_class = "Embedding",
    .keras_name = "embedding",
    .attrs = rows,
    .attrs_bytes = sizeof(ls_embedding_attrs),
    .inputs = 1,
    .infer = infer,
    .backward = backward,
    .traits = LS_OP_PICKS | LS_OP_WHOLE_NUMBERS,
    .recompute = LS_RECOMPUTE_LIGHT,
};
