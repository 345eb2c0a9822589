// Writing models of ONNX from inside: what the files share that do it.
#ifndef LS_INTERCHANGE_ONNX_WRITE_H
#define LS_INTERCHANGE_ONNX_WRITE_H

#include "interchange/onnx.h"

enum {
    ONNX_WRITTEN = 21,  // opset: the first whose group normalization scales each channel
    ONNX_IR = 10,
    ONNX_VALUE = 200  // bytes of a value's name
};

typedef struct onnx_writer {
    const ls_graph *graph;
    ls_onnx_weights weights;
    void *user;
    ls_pb_out out;      // the GraphProto
    ls_pb_out node;     // the NodeProto at hand
    const ls_node *at;  // the layer at hand
    char *live;         // (node_count): outputs depend on it
    int *readers;       // (node_count): live nodes that read it, and outputs
    int *reader;        // (node_count): the last of them; -1: an output
    int functions;      // those that are used, a bit each
    ls_status status;   // the first failure
} onnx_writer;

// --- a node ----------------------------------------------------------------------------------------------------------

// Begins a node: its operation, and `part` behind the layer's name ("": the name alone). What follows up to onnx_end is its.
void onnx_op(onnx_writer *w, const char *op, const char *part);
void onnx_put_input(onnx_writer *w, const char *value);
void onnx_end(onnx_writer *w, const char *output);
void onnx_set_int(onnx_writer *w, const char *name, int64_t value);
void onnx_set_real(onnx_writer *w, const char *name, float value);
void onnx_set_text(onnx_writer *w, const char *name, const char *text);
void onnx_set_ints(onnx_writer *w, const char *name, const int *values, int count);

// Names of values, into the buffer: what input k of the layer reads, what it gives, and what lies between its nodes.
const char *onnx_input_name(const onnx_writer *w, int k, char name[ONNX_VALUE]);
const char *onnx_output_name(const onnx_writer *w, char name[ONNX_VALUE]);
const char *onnx_part_name(const onnx_writer *w, const char *part, char name[ONNX_VALUE]);
const char *onnx_value_name(const onnx_writer *w, ls_value value, char name[ONNX_VALUE]);

// --- tensors ---------------------------------------------------------------------------------------------------------

// Parameter k of the layer under its own name, as an input of the node that has begun last: element (i, j, ...) of the tensor (dim) is that of the
// parameter whose axes are in this order. `order` NULL: as it is. `dim` NULL: the parameter's in that order.
void onnx_put_param(onnx_writer *w, int k, const int *order, int ndim, const int64_t *dim);
// The values of parameter k, which the caller frees; NULL after a failure.
float *onnx_param_values(onnx_writer *w, int k);
void onnx_put_floats(onnx_writer *w, const char *name, const float *values, int ndim, const int64_t *dim);
void onnx_put_numbers(onnx_writer *w, const char *part, const int64_t *values, int count);
void onnx_put_number(onnx_writer *w, const char *part, float value);

// --- layers ----------------------------------------------------------------------------------------------------------

typedef void (*onnx_layer_writer)(onnx_writer *w, const ls_node *n);
// NULL: it cannot be written.
onnx_layer_writer onnx_find_writer(const ls_node *n);
// Whether a padding is a part of its only reader's node.
int onnx_is_absorbed(const onnx_writer *w, int node);
const ls_shape *onnx_sample(const onnx_writer *w, int k);  // of input k

// ls_onnx_write into memory, which the caller frees.
ls_status ls__onnx_bytes(const ls_graph *graph, ls_onnx_weights weights, void *user, ls_pb_out *out);

// --- functions -------------------------------------------------------------------------------------------------------

int onnx_use_function(const char *name);  // its bit; 0: there is none of that name
// What a ModelProto says of operations: the opsets, and the functions of these bits.
void onnx_put_functions(ls_pb_out *out, int used);

#endif
