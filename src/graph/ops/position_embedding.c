#include <limits.h>
#include <stddef.h>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/plan_build.h"

static const ls_attr rows[] = {
    {"sequence_length", LS_ATTR_INT, offsetof(ls_position_embedding_attrs, rows), .minimum = 1, .maximum = INT_MAX,
     .help = "positions there are: the longest sequence it takes"},
    {"initializer", LS_ATTR_CHOICE, offsetof(ls_position_embedding_attrs, initializer),
     .choices = ls__initializer_names, .help = "of the vectors"},
    {.name = NULL},
};

static ls_status infer(ls_graph *graph, ls_node *node) {
    const ls_position_embedding_attrs *a = LS_ATTRS(ls_position_embedding_attrs, &node->attrs);
    const ls_tensor_type *x = ls__input_type(graph, node, 0);
    char text[LS_SHAPE_TEXT];
    if (x->dtype != LS_DTYPE_F32 || x->shape.ndim != 2)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: a %s layer works on sequences of vectors (None, T, C), but its input is %s of %s",
                       node->name, ls__op_find(node->op)->keras_class, ls_dtype_name(x->dtype),
                       ls__shape_text(x->shape, text));
    if (x->shape.dim[0] > a->rows)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: sequences of %lld are longer than the %d positions that there are vectors for: shorten "
                       "them, or ask for more positions",
                       node->name, (long long)x->shape.dim[0], a->rows);
    LS_TRY(ls__graph_param(graph, node, "embeddings", LS_SHAPE(a->rows, x->shape.dim[1]), LS_PARAM_KERNEL,
                           a->initializer, LS_INITIALIZER_RANDOM_UNIFORM, a->rows, x->shape.dim[1]));
    return ls__node_output(node, x->shape, LS_DTYPE_F32);
}

ls_value ls_position_embedding(ls_graph *graph, ls_value x, const ls_position_embedding_attrs *attrs) {
    return ls__graph_add(graph, LS_OP_POSITION_EMBEDDING, &x, 1, attrs);
}

const ls_op ls__op_position_embedding = {
    .kind = LS_OP_POSITION_EMBEDDING,
    .keras_class = "PositionEmbedding",
    .keras_name = "position_embedding",
    .attrs = rows,
    .attrs_bytes = sizeof(ls_position_embedding_attrs),
    .inputs = 1,
    .infer = infer,
    .backward = ls__backward_joint,
    .recompute = LS_RECOMPUTE_LIGHT,
};
