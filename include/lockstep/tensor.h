// Element types and shapes. Tensors at the public surface are NHWC for images and row-major otherwise.
#ifndef LOCKSTEP_TENSOR_H
#define LOCKSTEP_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#include <initializer_list>
extern "C" {
#endif
#pragma GCC visibility push(default)

//   name  bytes  text
#define LS_DTYPE_LIST(X)                                                                                               \
    X(F32, 4, "fp32")                                                                                                  \
    X(BF16, 2, "bf16")                                                                                                 \
    X(U8, 1, "u8")                                                                                                     \
    X(I32, 4, "i32")                                                                                                   \
    X(F64, 8, "fp64")                                                                                                  \
    X(I64, 8, "i64")                                                                                                   \
    X(F16, 2, "fp16")

typedef enum ls_dtype {
#define LS_DTYPE_ENUM(name, bytes, text) LS_DTYPE_##name,
    LS_DTYPE_LIST(LS_DTYPE_ENUM)
#undef LS_DTYPE_ENUM
} ls_dtype;

#define LS_MAX_DIMS 5

// A shape: `ndim` dimensions, outermost first. {0} is a scalar.
typedef struct ls_shape {
    int ndim;
    int64_t dim[LS_MAX_DIMS];
} ls_shape;

// LS_SHAPE(28, 28, 1).
#ifdef __cplusplus
#define LS_SHAPE(...) (ls_shape{(int)std::initializer_list<int64_t>{__VA_ARGS__}.size(), {__VA_ARGS__}})
#else
#define LS_SHAPE(...) ((ls_shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})
#endif

size_t ls_dtype_size(ls_dtype dtype);       // bytes; 0: there is no such type
const char *ls_dtype_name(ls_dtype dtype);  // "fp32"; "unknown"
int64_t ls_shape_count(ls_shape shape);     // elements; 1 for a scalar; INT64_MAX where they are more than that
int ls_shape_equal(ls_shape a, ls_shape b);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
