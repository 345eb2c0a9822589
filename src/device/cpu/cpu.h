// The CPU device from inside: its layouts, the oneDNN kernel wrapper, and who creates which kernel.
#ifndef LS_DEVICE_CPU_CPU_H
#define LS_DEVICE_CPU_CPU_H

#include <pthread.h>

#include "device/cpu/dnnl_api.h"
#include "device/host.h"

typedef struct ls_cpu_table ls_cpu_table;  // table.h

typedef struct ls_cpu {
    ls_device base;
    dnnl_engine_t engine;
    pthread_mutex_t mutex;  // guards the lists
    ls_layout **layouts;
    int layout_count, layout_capacity;
    ls_cpu_table *tables;
} ls_cpu;

// The interned layout for a descriptor (copied) of a tensor with this logical shape.
ls_status ls__cpu_layout(ls_cpu *cpu, ls_shape shape, ls_md md, const ls_layout **out);
// The interned layout by oneDNN's tag, its dims derived from the shape: 4-D NHWC -> NCHW, 4-D HWIO weights -> OIHW
// (is_weights), 5-D in the same way, 2-D weights (in, out) -> (out, in).
ls_status ls__cpu_layout_tag(ls_cpu *cpu, ls_shape shape, ls_dtype dtype, int is_weights, dnnl_format_tag_t tag,
                             const ls_layout **out);
// oneDNN's dims for a logical shape.
void ls__cpu_dims(ls_shape shape, int is_weights, dnnl_dims_t dims);
// The tag of images (4 dimensions) or volumes (5) whose channels lie in blocks of 16 or 8.
dnnl_format_tag_t ls__cpu_blocked_tag(int ndim, int block);
// For our own loops over images and volumes, which take the layout X or DX comes in: that layout where channels lie innermost in it, else
// plain; the same kind of layout for Y or DY; and how many channels lie together: C for plain ones, 16 or 8 for the
// blocked ones, which pad C up to whole blocks.
ls_status ls__cpu_image_layouts(ls_cpu *cpu, const ls_kernel_spec *spec, const ls_layout **x, const ls_layout **y,
                                int *block);
// For loops of our own that normalize: all values plain, gamma and beta and their gradients, too.
ls_status ls__cpu_norm_layouts(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel *kernel);

// Says that a kernel's output may lie in the memory of an input.
static inline void ls__cpu_in_place(ls_kernel *kernel, ls_arg output, ls_arg input) {
    kernel->in_place[kernel->in_place_count++] = (ls_in_place){output, input};
}

// Whether a kernel's layouts are those that the caller has settled.
static inline int ls__cpu_agrees(const ls_kernel_spec *spec, const ls_kernel *kernel) {
    for (int i = 0; i < LS_ARG_COUNT; i++)
        if (spec->layout[i] && kernel->layout[i] && spec->layout[i] != kernel->layout[i]) return 0;
    return 1;
}

// A kernel that runs one oneDNN primitive, and may finish with a pass over its output.
typedef struct ls_cpu_dnnl_kernel {
    ls_kernel base;
    dnnl_primitive_t primitive;
    dnnl_stream_t stream;
    int count;
    ls_arg from[8];  // which of our arguments each of the primitive's is
    dnnl_exec_arg_t args[8];
    void *bound[8];      // the pointer each memory object has now
    int64_t mask_count;  // elements of DX to multiply by (X > 0); 0: no masking
    int64_t add_count;   // elements of Y that X2 is added to; 0: none
    int add_relu;        // with a ReLU after it
    int threads;         // that the library was told of when it was made; 0: one
} ls_cpu_dnnl_kernel;

// Builds the kernel for an implementation: `names` pairs oneDNN's argument ids with ours, `query` says where the
// primitive keeps the descriptor of each.
typedef struct ls_cpu_arg {
    int dnnl_arg;
    ls_arg arg;
    dnnl_query_t query;
    int index;
} ls_cpu_arg;
ls_status ls__cpu_dnnl_kernel_create(ls_cpu *cpu, const_dnnl_primitive_desc_t pd, const ls_cpu_arg *args, int count,
                                     ls_kernel **out);

// Every op: one line each, with the creator of its kernels, which may be several ops'.
#define LS_CPU_OPS(X)                                                                                                  \
    X(CONV2D, conv2d)                                                                                                  \
    X(DENSE, conv2d)                                                                                                   \
    X(MAX_POOL2D, pool)                                                                                                \
    X(AVERAGE_POOL2D, pool)                                                                                            \
    X(GLOBAL_MAX_POOL2D, pool)                                                                                         \
    X(GLOBAL_AVERAGE_POOL2D, pool)                                                                                     \
    X(BATCH_NORM, batch_norm)                                                                                          \
    X(ADD, elementwise)                                                                                                \
    X(MULTIPLY, multiply)                                                                                              \
    X(CONCAT, concat)                                                                                                  \
    X(DEPTHWISE_CONV2D, depthwise_conv2d)                                                                              \
    X(SEPARABLE_CONV2D, separable_conv2d)                                                                              \
    X(CONV2D_TRANSPOSE, conv2d_transpose)                                                                              \
    X(CONV3D, conv2d)                                                                                                  \
    X(CONV3D_TRANSPOSE, conv2d_transpose)                                                                              \
    X(MAX_POOL3D, pool3d)                                                                                              \
    X(AVERAGE_POOL3D, pool3d)                                                                                          \
    X(UP_SAMPLING2D, up_sampling2d)                                                                                    \
    X(LAYER_NORM, layer_norm)                                                                                          \
    X(GROUP_NORM, group_norm)                                                                                          \
    X(EMBEDDING, embedding)                                                                                            \
    X(GLOBAL_AVERAGE_POOL1D, global_average_pool1d)                                                                    \
    X(POSITION_EMBEDDING, position_embedding)                                                                          \
    X(ATTENTION, attention)                                                                                            \
    X(LSTM, recurrent)                                                                                                 \
    X(GRU, recurrent)                                                                                                  \
    X(RESHAPE, elementwise)                                                                                            \
    X(ZERO_PAD2D, zero_pad2d)                                                                                          \
    X(CROPPING2D, cropping2d)                                                                                          \
    X(RESCALING, rescaling)                                                                                            \
    X(NORMALIZATION, normalization)                                                                                    \
    X(RELU, elementwise)                                                                                               \
    X(ACTIVATION, activation)                                                                                          \
    X(FLATTEN, elementwise)                                                                                            \
    X(DROPOUT, elementwise)                                                                                            \
    X(SOFTMAX_CROSS_ENTROPY, loss)                                                                                     \
    X(BINARY_CROSS_ENTROPY, binary_cross_entropy)                                                                      \
    X(MEAN_SQUARED_ERROR, mean_error)                                                                                  \
    X(MEAN_ABSOLUTE_ERROR, mean_error)                                                                                 \
    X(ACCURACY, accuracy)                                                                                              \
    X(PERPLEXITY, loss)                                                                                                \
    X(TOP_K_ACCURACY, accuracy)                                                                                        \
    X(BINARY_ACCURACY, binary_accuracy)                                                                                \
    X(MEAN_ABSOLUTE_ERROR_METRIC, mean_error)                                                                          \
    X(AUC, auc)                                                                                                        \
    X(BALANCED_ACCURACY, balanced_accuracy)                                                                            \
    X(NORMAL_SAMPLE, normal_sample)                                                                                    \
    X(NORMAL_DIVERGENCE, normal_divergence)

#define X(kind, creator) ls_status ls__cpu_##creator##_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out);
LS_CPU_OPS(X)
#undef X

// The convolution whose kernels compute a depthwise or a transposed one.
ls_kernel_spec ls__cpu_depthwise_as_conv2d(const ls_kernel_spec *spec);
ls_kernel_spec ls__cpu_transpose_as_conv(const ls_kernel_spec *spec);

typedef ls_status (*ls_cpu_create_fn)(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out);
ls_status ls__cpu_reorder_create(ls_device *device, const ls_layout *from, const ls_layout *to, ls_kernel **out);

// Whether convolutions are computed in tiles of the AMX unit (tiles.h): where the library may use it, and this was built with it.
int ls__cpu_has_tiles(void);

// What one thread can do at most (device.h: limits).
ls_status ls__cpu_limits(ls_device *device, ls_dtype precision, ls_device_limits *out);

// The library's fastest for a convolution or dense pass (device.h: fastest).
ls_status ls__cpu_fastest(ls_device *device, const ls_kernel_spec *spec, ls_kernel **out);

#endif
