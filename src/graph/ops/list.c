// Every op: one line each.
#include "graph/graph.h"

#define LS_OPS(X)                                                                                                      \
    X(input)                                                                                                           \
    X(conv2d)                                                                                                          \
    X(dense)                                                                                                           \
    X(max_pool2d)                                                                                                      \
    X(average_pool2d)                                                                                                  \
    X(global_max_pool2d)                                                                                               \
    X(global_average_pool2d)                                                                                           \
    X(batch_norm)                                                                                                      \
    X(add)                                                                                                             \
    X(zero_pad2d)                                                                                                      \
    X(relu)                                                                                                            \
    X(activation)                                                                                                      \
    X(flatten)                                                                                                         \
    X(dropout)                                                                                                         \
    X(softmax_cross_entropy)

#define X(name) extern const ls_op ls__op_##name;
LS_OPS(X)
#undef X

const ls_op *ls__op_find(ls_op_kind kind) {
    static const ls_op *const ops[] = {
#define X(name) &ls__op_##name,
        LS_OPS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (ops[i]->kind == kind) return ops[i];
    return NULL;
}
