// Every op: its line in device/ops.h.
#include <string.h>

#include "graph/op.h"

#define X(kind, name) extern const ls_op ls__op_##name;
LS_OP_LIST(X)
#undef X

static const ls_op *const ops[LS_OP_COUNT] = {
#define X(kind, name) [LS_OP_##kind] = &ls__op_##name,
    LS_OP_LIST(X)
#undef X
};

const ls_op *ls__op_find(ls_op_kind kind) { return ops[kind]; }

const ls_op *ls__op_acting_as(ls_acts_as what) {
    static const ls_attrs none;
    for (int i = 0; i < LS_OP_COUNT; i++)
        if (ls__acts_as(ops[i], &none) == what) return ops[i];
    return NULL;
}

const ls_op *ls__op_named(const char *name) {
    for (int i = 0; i < LS_OP_COUNT; i++)
        if (strcmp(ls_op_name(ops[i]->kind), name) == 0 || strcmp(ops[i]->keras_class, name) == 0) return ops[i];
    return NULL;
}
