// A kernel: one pass of one operation for one fixed set of shapes.
//
// When it is created it says which of the arguments it was offered it uses, how it wants each laid out in memory, what memory it
// needs beside them and which outputs may lie in the memory of an input. The plan connects kernels, placing reorders where layouts
// differ. Running a kernel allocates nothing. A kernel belongs to one thread at a time; two kernels of a device may run in two
// threads.
#ifndef LS_DEVICE_KERNEL_H
#define LS_DEVICE_KERNEL_H

#include <lockstep/attrs.h>
#include <lockstep/status.h>
#include <lockstep/tensor.h>

#include "device/ops.h"

typedef struct ls_device ls_device;
typedef struct ls_kernel ls_kernel;
typedef struct ls_buffer ls_buffer;
struct ls_queue;

// A place in a device's memory. buffer NULL: none.
typedef struct ls_span {
    ls_buffer *buffer;
    int64_t offset;  // bytes
} ls_span;

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
    LS_PASS_TRAINING,       // X, W -> Y, keeping what backward needs
    LS_PASS_INFERENCE,      // the same without keeping anything, where an operation can differ as it does in inference
    LS_PASS_BACKWARD_DATA,  // DY -> DX
    LS_PASS_BACKWARD_WEIGHTS,  // X, DY -> DW
    LS_PASS_BACKWARD,          // both at once, for operations that have one kernel for it
} ls_pass;

#define LS_MAX_INPUTS  16
#define LS_MAX_OUTPUTS 4
#define LS_MAX_PARAMS  8

// The arguments of a kernel: those of the operation, and those of what it absorbs. All that there are is offered; a kernel uses an
// argument where it names a layout for it.
typedef enum ls_arg {
    LS_ARG_X = 0,                           // inputs: X + i
    LS_ARG_W = LS_ARG_X + LS_MAX_INPUTS,    // parameters: W + k, in the order of the operation
    LS_ARG_Y = LS_ARG_W + LS_MAX_PARAMS,    // outputs: Y + j; of losses and metrics F64, sums over the samples
    LS_ARG_DX = LS_ARG_Y + LS_MAX_OUTPUTS,  // gradients of the same
    LS_ARG_DW = LS_ARG_DX + LS_MAX_INPUTS,  // always F32. Of statistics: N times the micro-batch's own
    LS_ARG_DY = LS_ARG_DW + LS_MAX_PARAMS,
    LS_ARG_RESIDUAL =
        LS_ARG_DY + LS_MAX_OUTPUTS,  // with spec.residual: added to Y before the activation; lies as Y does
    LS_ARG_DRESIDUAL,                // and its gradient, where the operation has a kernel of its own for that
    LS_ARG_ADDEND,                   // with spec.addend: added to DX on its way out; lies as DX does
    LS_ARG_WORKSPACE,                // kept from forward to backward (e.g. which element was the maximum)
    LS_ARG_SCRATCH,                  // free again when the kernel is done
    LS_ARG_RANDOM,                   // ls_random_key
    LS_ARG_NUMBERS,  // with spec.table_rows: I32, (N) or (N, T): which row of the table each vector of X is
    LS_ARG_SCALE,    // a float, which a loss multiplies the gradient by that begins at it; none: 1
    LS_ARG_COUNT
} ls_arg;

// What random kernels are keyed by, in device memory: dropout of sample i draws from (seed, epoch, samples[i], layer, element).
typedef struct ls_random_key {
    uint64_t seed, epoch;
    uint64_t samples[];  // (N): each sample's index in its dataset
} ls_random_key;

// A tensor as its operation sees it.
typedef struct ls_tensor_type {
    ls_shape shape;  // with the batch: (N, ...); of parameters without
    ls_dtype dtype;
    ls_dtype gradient;  // of its gradient
} ls_tensor_type;

#define LS_ATTRS_BYTES 96
typedef struct ls_attrs {
    _Alignas(8) unsigned char bytes[LS_ATTRS_BYTES];  // one of the structs of <lockstep/attrs.h>, resolved
} ls_attrs;
#define LS_ATTRS(type, attrs) ((const type *)(const void *)(attrs)->bytes)

typedef struct ls_kernel_spec {
    ls_op_kind op;
    ls_pass pass;
    ls_attrs attrs;
    int x_count, w_count, y_count;
    ls_tensor_type x[LS_MAX_INPUTS], w[LS_MAX_PARAMS], y[LS_MAX_OUTPUTS];
    // What the operation absorbs, of which its allow-list (graph/op.h) speaks:
    ls_activation activation;  // applied to Y
    // DX is multiplied by (X > 0) on its way out: X is the output of a ReLU absorbed by the operation before.
    // Told to the forward pass too, so that a kernel may keep the decision in its workspace and not read X in backward.
    int mask_dx;
    int residual;  // RESIDUAL is added before the activation
    int addend;    // backward: ADDEND is added to DX
    // Backward: of parameter k no gradient is wanted where bit k is set, so DW + k may be left out (its layout NULL).
    unsigned frozen;
    // X's vectors are rows of a table of so many rows, picked by NUMBERS, and all that becomes of DX is that those of one number are
    // added up: so DX may have their sum at one of them, and zeros at the others. 0: nothing is known of X.
    int64_t table_rows;
    // Backward: X can be read where a larger tensor has a copy of it: so many equal pieces (its samples, or the pixels of a row-major
    // image), each whole and as its layout has it, so many bytes from one to the next. 0: there is none.
    int64_t pieces, apart;
    // Layouts the caller has already settled, by argument; NULL lets the kernel choose.
    const ls_layout *layout[LS_ARG_COUNT];
} ls_kernel_spec;

typedef struct ls_kernel_ops {
    // Puts the kernel into the queue. args[i].buffer is NULL for what it does not use.
    ls_status (*run)(ls_kernel *kernel, struct ls_queue *queue, const ls_span args[LS_ARG_COUNT]);
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
    const ls_layout *layout[LS_ARG_COUNT];  // chosen layouts; NULL for WORKSPACE and the like, and for what is not used
    int64_t workspace_bytes, scratch_bytes;
    int64_t apart;  // that of the spec, if it reads X so; else 0
    // Cut into so many equal pieces, each of Y's is those of X, X + 1, ... one behind the other, as their layouts have them. 0: it is not so.
    int64_t holds_pieces;
    ls_in_place in_place[LS_MAX_IN_PLACE];
    int in_place_count;
    // Pieces its work is cut into, each the same whoever computes it: a function of the shapes alone, never of threads.
    int64_t tiles;
};

#endif
