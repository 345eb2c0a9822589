// An operation to test, by itself: its attributes and the shapes of its inputs. All else (parameters, outputs, types, which passes
// there are) comes from the graph, from the operation's descriptor and from the reference device.
#ifndef LS_TESTS_OP_CASE_H
#define LS_TESTS_OP_CASE_H

#include "device/ref/ref.h"
#include "graph/graph.h"
#include "graph/plan_build.h"

// Values of a tensor. FEW: many equal ones; NOT_NEGATIVE: also many zeros; FAR: far from zero, close to each other
typedef enum kind { SMOOTH, FEW, NOT_NEGATIVE, FAR } kind;

typedef struct op_case {
    ls_op_kind op;
    const void *attrs;                // its struct of <lockstep/attrs.h>; NULL: all defaults
    int64_t batch;                    // 0: 1
    ls_tensor_type x[LS_MAX_INPUTS];  // of a sample: shape, and LS_DTYPE_I32 for whole numbers
    int x_count;                      // 0: the least the operation has
    int below;  // whole numbers are drawn from 0 to below - 1; 0: the last dimension of the first input, or the rows of the first parameter
    kind values;  // of the first input
    // How far from the reference outputs and gradients may be, as a share of the largest, in fp32. 0: to the bit.
    double forward, backward;
    double terms;  // the size of what cancels in sums, where it is more than that of the result
    // What it absorbs, and how a plan may otherwise ask for it:
    int relu, residual, addend, mask_dx;  // relu 6: one that is cut off there
    int wide;                             // its output is F32 in any precision
    double w_times;                       // what its parameters are multiplied by; 0: 1
    int rounds_between;  // in BF16 it rounds what it computes from halfway on, so many times more than the reference
    int sides[2][2];     // of a zero padding before it
} op_case;

typedef struct op_spec {
    ls_kernel_spec kernel;
    ls_param_role role[LS_MAX_PARAMS];
    kind w_values[LS_MAX_PARAMS];
    int below;
} op_spec;

// What a plan in `precision` asks the device for: the spec of the forward kernel in training. A failure is the test's.
op_spec op_spec_of(const op_case *c, ls_dtype precision);
// The backward passes that the operation has kernels for. Returns how many.
int op_backward_passes(const ls_kernel_spec *spec, ls_pass passes[3]);
// "conv2d fp32 filters=4; ...; x (2, 5, 5, 3)": until the next call.
const char *op_describe(const ls_kernel_spec *spec);

#endif
