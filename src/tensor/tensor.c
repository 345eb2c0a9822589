#include <lockstep/tensor.h>

size_t ls_dtype_size(ls_dtype dtype) {
    static const unsigned char sizes[] = {
#define X(name, bytes, text) bytes,
        LS_DTYPE_LIST(X)
#undef X
    };
    return (unsigned)dtype < sizeof sizes ? sizes[dtype] : 0;
}

const char *ls_dtype_name(ls_dtype dtype) {
    static const char *const names[] = {
#define X(name, bytes, text) text,
        LS_DTYPE_LIST(X)
#undef X
    };
    return (unsigned)dtype < sizeof names / sizeof names[0] ? names[dtype] : "unknown";
}

int64_t ls_shape_count(ls_shape shape) {
    int64_t count = 1;
    int overflow = 0;
    for (int i = 0; i < shape.ndim && i < LS_MAX_DIMS; i++) {
        if (shape.dim[i] == 0) return 0;
        overflow |= __builtin_mul_overflow(count, shape.dim[i], &count);
    }
    return overflow ? INT64_MAX : count;
}

int ls_shape_equal(ls_shape a, ls_shape b) {
    if (a.ndim != b.ndim) return 0;
    for (int i = 0; i < a.ndim && i < LS_MAX_DIMS; i++)
        if (a.dim[i] != b.dim[i]) return 0;
    return 1;
}
