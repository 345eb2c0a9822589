#include <lockstep/tensor.h>

size_t ls_dtype_size(ls_dtype dtype) {
    static const unsigned char sizes[] = {
#define X(name, bytes, text) bytes,
        LS_DTYPE_LIST(X)
#undef X
    };
    return sizes[dtype];
}

const char *ls_dtype_name(ls_dtype dtype) {
    static const char *const names[] = {
#define X(name, bytes, text) text,
        LS_DTYPE_LIST(X)
#undef X
    };
    return names[dtype];
}

int64_t ls_shape_count(ls_shape shape) {
    int64_t count = 1;
    for (int i = 0; i < shape.ndim; i++) count *= shape.dim[i];
    return count;
}

int ls_shape_equal(ls_shape a, ls_shape b) {
    if (a.ndim != b.ndim) return 0;
    for (int i = 0; i < a.ndim; i++)
        if (a.dim[i] != b.dim[i]) return 0;
    return 1;
}
