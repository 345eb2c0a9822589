// What a device is: memory, a stream that runs kernels in order, and kernels created from an operation and its shapes.
//
// A kernel computes one pass of one operation for one fixed set of shapes. When it is created it says how it wants
// every argument laid out in memory; the plan connects kernels, placing reorders where layouts differ. Running a kernel
// allocates nothing. A kernel belongs to one thread at a time; two kernels of a device may run in two threads.
#ifndef LS_DEVICE_DEVICE_H
#define LS_DEVICE_DEVICE_H

#include <lockstep/status.h>
#include <lockstep/tensor.h>

#include "device/op.h"

typedef struct ls_device ls_device;
typedef struct ls_kernel ls_kernel;

// How a tensor lies in memory. Owned by its device and interned there: equal layouts are the same pointer, and it
// lives as long as the device does. `shape` is the logical shape: NHWC for images (N, H, W, C), HWIO for kernels.
typedef struct ls_layout {
    ls_shape shape;
    ls_dtype dtype;
    int64_t bytes;       // with padding
    int plain;           // 1: row-major in the logical order, no padding: as files and the public API have it
    const void *native;  // the device's own descriptor
} ls_layout;

typedef enum ls_pass {
    LS_PASS_TRAINING,          // forward, keeping what backward needs
    LS_PASS_INFERENCE,         // forward only
    LS_PASS_BACKWARD_DATA,     // DY -> DX
    LS_PASS_BACKWARD_WEIGHTS,  // X, DY -> DW, DB
} ls_pass;

// Batch normalization, also with a residual and a ReLU of its own (spec.residual, attrs.activation):
//   TRAINING       X, W = gamma, B = beta, [X2] -> Y = relu(gamma * (X - mean) / deviation + beta + X2); WORKSPACE keeps the
//                  micro-batch's statistics
//   INFERENCE      the same with the running MEAN and VARIANCE
//   BACKWARD_DATA  X, W, B, DY, WORKSPACE, [Y], [ADDEND] -> DX, DW, DB, DMEAN, DVARIANCE, [DX2 = DY where Y > 0]; Y only with
//                  a residual and a ReLU (else whether Y > 0 is computed from X again)
// W, B and the statistics are plain F32 (C).
//
// The arguments of a kernel. Which are used depends on operation and pass; unused ones have no layout and stay NULL.
typedef enum ls_arg {
    LS_ARG_X,   // the operation's input
    LS_ARG_X2,  // its second: of an addition; with spec.residual, what is added before the activation
    LS_ARG_W,   // its kernel (weights)
    LS_ARG_B,   // its bias, always plain F32
    LS_ARG_Y,   // its output
    LS_ARG_DX,  // gradients of the same, F32 for DW and DB
    LS_ARG_DX2,
    LS_ARG_DW,
    LS_ARG_DB,
    LS_ARG_DY,
    LS_ARG_ADDEND,  // with spec.addend: added to DX on its way out (the gradient from X's other readers)
    LS_ARG_MEAN,    // batch normalization: running statistics, plain F32 (C)
    LS_ARG_VARIANCE,
    LS_ARG_DMEAN,  // and what they move towards: N times the micro-batch's own, F32 (C)
    LS_ARG_DVARIANCE,
    LS_ARG_WORKSPACE,  // kept from forward to backward (e.g. which element was the maximum)
    LS_ARG_SCRATCH,    // free again when the kernel returns
    LS_ARG_LABELS,     // int32_t (N): the class of each sample; with one_hot float (N, C): its class weights
    LS_ARG_METRICS,    // ls_loss_metrics: written by the loss's forward
    LS_ARG_RANDOM,     // const ls_random_key *
    LS_ARG_COUNT
} ls_arg;

// What the loss kernel reports of one micro-batch: sums over its samples.
typedef struct ls_loss_metrics {
    double loss;      // sum of the cross-entropies
    int64_t correct;  // samples whose largest logit is the label's (the first of equals wins)
    int64_t samples;
} ls_loss_metrics;

// What random kernels are keyed by: dropout of sample i draws from (seed, epoch, samples[i], layer, element).
typedef struct ls_random_key {
    uint64_t seed;
    uint32_t epoch;
    const uint64_t *samples;  // (N): each sample's index in its dataset
} ls_random_key;

typedef struct ls_kernel_spec {
    ls_op_kind op;
    ls_op_attrs attrs;
    ls_pass pass;
    ls_shape x, y;      // with the batch: (N, ...)
    ls_dtype x_dtype;   // of X and DX
    ls_dtype y_dtype;   // of Y
    ls_dtype dy_dtype;  // of DY; the loss has no DY and this is the dtype of its DX (its X, the logits, is F32)
    ls_dtype w_dtype;   // of W (DW and DB are always F32)
    // DX is multiplied by (X > 0) on its way out: X is the output of a ReLU fused into the operation before.
    // Told to the forward pass too, so that a kernel may keep the decision in its workspace and not read X in backward.
    int mask_dx;
    int residual;  // convolution, batch normalization: X2 is added before the activation; it lies as Y does
    int addend;    // batch normalization, backward: ADDEND is added to DX; it lies as DX does
    // Layouts the caller has already settled, by argument; NULL lets the kernel choose.
    const ls_layout *layout[LS_ARG_COUNT];
} ls_kernel_spec;

typedef struct ls_kernel_ops {
    ls_status (*run)(ls_kernel *kernel, void *const args[LS_ARG_COUNT]);
    void (*destroy)(ls_kernel *kernel);
} ls_kernel_ops;

// An output that may lie in the memory of an input: the kernel has read an element before it writes it.
typedef struct ls_in_place {
    ls_arg output, input;
} ls_in_place;
#define LS_MAX_IN_PLACE 4

// The head every device's kernels start with.
struct ls_kernel {
    const ls_kernel_ops *ops;
    const char *name;                       // the implementation's name, for people ("jit:avx512_core")
    const ls_layout *layout[LS_ARG_COUNT];  // chosen layouts; NULL for WORKSPACE and the like
    int64_t workspace_bytes, scratch_bytes;
    ls_in_place in_place[LS_MAX_IN_PLACE];
    int in_place_count;
    double flops;  // multiply-adds counted twice; 0 where memory is what counts
};

typedef struct ls_device_options {
    int threads;  // threads a kernel may use
} ls_device_options;

typedef struct ls_device_ops {
    const char *name;
    const char *help;
    ls_status (*create)(const ls_device_options *options, ls_device **out);
    void (*destroy)(ls_device *device);
    // A sentence for records: library, version, instruction set.
    void (*describe)(const ls_device *device, char *text, size_t size);
    // OK, or UNSUPPORTED with a sentence when this machine cannot compute in the type.
    ls_status (*supports)(const ls_device *device, ls_dtype precision);
    // The row-major layout of a shape; is_weights: the shape is a parameter's (HWIO, (in, out)), not an activation's.
    // Errors: OUT_OF_MEMORY.
    ls_status (*layout_plain)(ls_device *device, ls_shape shape, ls_dtype dtype, int is_weights, const ls_layout **out);
    // A kernel for `spec`. Errors: UNSUPPORTED (names the op and shape), OUT_OF_MEMORY, LIBRARY.
    ls_status (*kernel_create)(ls_device *device, const ls_kernel_spec *spec, ls_kernel **out);
    // Copies X to Y between two layouts of one shape, converting the dtype.
    ls_status (*reorder_create)(ls_device *device, const ls_layout *from, const ls_layout *to, ls_kernel **out);
    // Called by each thread that will run kernels, before its first: sets that thread's share of cores.
    void (*thread_begin)(ls_device *device);
    // y[i] += x[i], F32, in the memory gradients live in.
    void (*accumulate)(ls_device *device, float *y, const float *x, int64_t n);
    // For `lockstep bench`: the kernel library's fastest implementation for a spec, over all its algorithms and layouts, by
    // measuring them now. What it is compared with must not depend on it. NULL: this device has no library to search.
    ls_status (*fastest)(ls_device *device, const ls_kernel_spec *spec, ls_kernel **out);
} ls_device_ops;

struct ls_device {
    const ls_device_ops *ops;
    ls_device_options options;
};

// Creates a device by name ("cpu", "ref"). Errors: NOT_FOUND with the names there are. The caller destroys it, after all
// kernels and plans made from it.
ls_status ls_device_create(const char *name, const ls_device_options *options, ls_device **out);
void ls_device_destroy(ls_device **device);

ls_status ls_kernel_create(ls_device *device, const ls_kernel_spec *spec, ls_kernel **out);
void ls_kernel_destroy(ls_kernel **kernel);
static inline ls_status ls_kernel_run(ls_kernel *kernel, void *const args[LS_ARG_COUNT]) {
    return kernel->ops->run(kernel, args);
}

#endif
