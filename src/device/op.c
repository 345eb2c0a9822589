#include "device/op.h"

const char *ls_op_class(ls_op_kind kind) {
    static const char *const classes[] = {
#define X(kind, klass, name) klass,
        LS_OP_LIST(X)
#undef X
    };
    return classes[kind];
}

const char *ls_op_auto_name(ls_op_kind kind) {
    static const char *const names[] = {
#define X(kind, klass, name) name,
        LS_OP_LIST(X)
#undef X
    };
    return names[kind];
}
