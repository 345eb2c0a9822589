// What is known of an operation but its arithmetic. One file per op under ops/, ending in one of these; one line in ops/list.c. No
// file outside ops/ and the devices' kernels names an op.
#ifndef LS_GRAPH_OP_H
#define LS_GRAPH_OP_H

#include "device/kernel.h"

typedef struct ls_graph ls_graph;
typedef struct ls_node ls_node;
struct ls_builder;

// --- attributes ------------------------------------------------------------------------------------------------------

typedef enum ls_attr_type {
    LS_ATTR_INT,
    LS_ATTR_PAIR,    // int[2]
    LS_ATTR_TRIPLE,  // int[3]
    LS_ATTR_SIDES,   // int[2][2]: {top, bottom}, {left, right}
    LS_ATTR_DIMS,    // int[4]: a shape; 0 after its last dimension
    LS_ATTR_FLAG,    // int: 0 or 1
    LS_ATTR_FLOAT,   // float
    LS_ATTR_REAL,    // double
    LS_ATTR_CHOICE,  // int: the index of a word
} ls_attr_type;

// One row of an op's attributes. Defaults, bounds, texts, and what workers compare all come from it. A value of 0 means the default
// (of pairs, triples and sides: all 0); numbers outside of [minimum, maximum] are refused (maximum <= minimum: no upper limit).
typedef struct ls_attr {
    const char *name;  // "filters", as Keras has it; NULL ends a table
    ls_attr_type type;
    size_t offset;  // in the op's struct of <lockstep/attrs.h>
    double initial, minimum, maximum;
    const char *const *choices;  // NULL at its end
    const char *help;
} ls_attr;

extern const char *const ls__activation_names[], *const ls__padding_names[], *const ls__initializer_names[];

// --- what it may absorb, or be absorbed as ---------------------------------------------------------------------------

// An allow-list: what is not named here is computed by itself.
typedef enum ls_absorbs {
    LS_ABSORBS_RELU = 1,      // forward: a ReLU of its output
    LS_ABSORBS_RESIDUAL = 2,  // forward: a sum of its output and another value, before that
    LS_ABSORBS_PADDING = 4,   // a zero padding of its input
    LS_ABSORBS_ADDEND = 8,    // backward: the gradient of its input from other readers
    LS_ABSORBS_MASK = 16,     // backward: the mask of a ReLU that its input's operation ended in
    LS_ABSORBS_RELU6 =
        32,  // forward: a ReLU of its output that is cut off at 6, and masks itself by it (LS_OP_MASKS_ITSELF)
    LS_ABSORBS_TABLE = 64,  // its input's vectors may be told as rows of a table and their numbers (LS_OP_PICKS)
} ls_absorbs;

typedef enum ls_acts_as {
    LS_ACTS_AS_ITSELF,
    LS_ACTS_AS_RELU,     // and computes it, forward and backward, in any layout
    LS_ACTS_AS_RELU6,    // the same of one that is cut off at 6
    LS_ACTS_AS_SUM,      // of two values, in any layout
    LS_ACTS_AS_PADDING,  // with zeros
} ls_acts_as;

typedef enum ls_part {
    LS_PART_LAYER,
    LS_PART_LOSS,    // gives sums that training makes small; its gradient begins backward
    LS_PART_METRIC,  // gives sums that people look at
} ls_part;

typedef enum ls_recompute {
    LS_RECOMPUTE_NEVER,  // its output is kept for backward: dear to make again, or small
    LS_RECOMPUTE_LIGHT,  // one pass over memory makes it again
    LS_RECOMPUTE_FULL,   // arithmetic does
} ls_recompute;

enum {
    LS_OP_CHOOSES_LAYOUT = 1,        // its kernels want layouts of their own; others take what comes
    LS_OP_WIDENS = 2,                // can give F32 out of a lower precision: what losses read
    LS_OP_RENAMES = 4,               // its output is its input under another shape: they share memory
    LS_OP_RENAMES_IN_INFERENCE = 8,  // in inference
    LS_OP_RANDOM = 16,               // its kernels read LS_ARG_RANDOM
    LS_OP_MASKS_ITSELF = 32,         // its backward kernel masks by the ReLU that it absorbed
    LS_OP_ROWS = 64,                 // of metrics: a row for each sample instead of sums; computed in evaluation alone
    LS_OP_ACTIVATES = 128,           // what it gives is no logits any more
    LS_OP_DRAWS = 256,               // what it gives is a sample of a distribution: behind it a decoder begins
    LS_OP_UNIT_TARGETS = 512,        // of losses: targets, the second input, are numbers from 0 to 1
    LS_OP_PICKS =
        1024,  // its output is rows of its first parameter, picked by its input, and so are gradients added up
    LS_OP_WHOLE_NUMBERS = 2048,  // of layers: its first input may be whole numbers
};

// What a metric's value is made from.
typedef struct ls_finish {
    const ls_attrs *attrs;
    const double *from;  // (count) sums over the samples; of LS_OP_ROWS (samples, count): what its output has for each
    int count;
    int64_t samples;
    int parts;  // the last dimension of its output: labels, say, each of which has a value
} ls_finish;

typedef struct ls_op {
    ls_op_kind kind;
    ls_part part;
    const char *keras_class;     // "Conv2D"
    const char *keras_name;      // its automatic name, without the number: "conv2d"
    const ls_attr *attrs;        // of the struct that nodes keep for it; NULL: none
    int attrs_bytes;             // of that struct
    int inputs, inputs_maximum;  // how many it has, at least and at most; 0 for the second: as the first
    // Checks and completes the node's attributes, says what its outputs are (ls__node_output) and which parameters it has
    // (ls__graph_param). The node has its name and inputs; it is not in the graph yet. Errors: INVALID_ARGUMENT or UNSUPPORTED with a
    // sentence that names the layer. NULL: one output like the first input.
    ls_status (*infer)(ls_graph *graph, ls_node *node);
    // Emits the steps of its gradient (plan_build.h); ls__backward_layer is the common case. NULL: none passes through it.
    ls_status (*backward)(struct ls_builder *b, int node);
    unsigned absorbs;                                       // LS_ABSORBS_*
    ls_acts_as (*acts_as)(const ls_attrs *attrs);           // NULL: itself
    ls_activation (*activation)(const ls_attrs *attrs);     // the activation it has of its own; NULL: none
    void (*sides)(const ls_attrs *attrs, int sides[2][2]);  // of what acts as a padding: {top, bottom}, {left, right}
    int (*absorb_padding)(ls_attrs *attrs, const int sides[2][2]);  // takes it over; 0: it cannot
    unsigned traits;                                                // LS_OP_*
    ls_recompute recompute;
    double (*flops)(
        const ls_kernel_spec *spec);  // multiply-adds counted twice, of one pass; NULL: memory is what counts
    // The same of an op of many products, which no single kernel of the library computes: for what a network costs alone. NULL: flops.
    double (*products)(const ls_kernel_spec *spec);
    int is_accuracy;    // of metrics: the one that displays show as "accuracy"
    int tells_classes;  // of metrics with rows: each is a sample's class and the one that it is taken for
    int tells_labels;   // of metrics with rows: each is a sample's scores of all labels, then which are there
    // Metrics whose values are no means over samples: values (parts), NaN where a part has none. The value of the whole is the mean of
    // those that there are. NULL: sums / samples. Errors: OUT_OF_MEMORY.
    ls_status (*finish)(const ls_finish *from, double *values);
} ls_op;

const ls_op *ls__op_find(ls_op_kind kind);
const ls_op *ls__op_acting_as(ls_acts_as what);  // the one whose kernels the plan itself asks for
const ls_op *ls__op_named(const char *name);     // by ls_op_name or Keras's class; NULL: none
static inline ls_acts_as ls__acts_as(const ls_op *op, const ls_attrs *attrs) {
    return op->acts_as ? op->acts_as(attrs) : LS_ACTS_AS_ITSELF;
}

// The activation it has of its own that its kernels do not absorb: a layer of its own computes that, inside it.
static inline ls_activation ls__activation_inside(const ls_op *op, const ls_attrs *attrs) {
    ls_activation own = op->activation ? op->activation(attrs) : LS_ACTIVATION_NONE;
    return own == LS_ACTIVATION_RELU && op->absorbs & LS_ABSORBS_RELU ? LS_ACTIVATION_NONE : own;
}

// --- for op files ----------------------------------------------------------------------------------------------------

// Fills defaults in and checks bounds by the op's rows. Errors: INVALID_ARGUMENT (names the layer and the attribute).
ls_status ls__attrs_resolve(const ls_op *op, const char *layer, ls_attrs *attrs);
// How many numbers an attribute has, one of them, and setting one, which fits its type.
int ls__attr_count(const ls_attr *row);
double ls__attr_get(const ls_attr *row, const ls_attrs *attrs, int index);
void ls__attr_set(const ls_attr *row, ls_attrs *attrs, int index, double value);
// "filters=32; kernel=3,3; padding=same": all rows. Returns how long it is, cut off at `size` or not.
int ls__attrs_text(const ls_op *op, const ls_attrs *attrs, char *text, size_t size);

#endif
