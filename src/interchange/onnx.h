// ONNX models from inside: what the files of this folder share. A file becomes a model
// (onnx_parse.c), whose nodes then become constants (onnx_fold.c) or layers of a graph
// (onnx_read.c, onnx_windows.c, onnx_layers.c, onnx_shapes.c, onnx_sequences.c). Source: onnx/onnx.proto,
// docs/Operators.md of the ONNX project.
#ifndef LS_INTERCHANGE_ONNX_H
#define LS_INTERCHANGE_ONNX_H

#include "base/protobuf.h"
#include "graph/graph.h"

enum {
    ONNX_DIMS = 8,
    ONNX_NODES = 20000,
    ONNX_PORTS = 64,      // inputs or outputs of a node
    ONNX_OLDEST = 13,     // opset
    ONNX_NAME = 120,      // bytes of a layer's name
    ONNX_SMALL = 1 << 16  // elements of a constant that is computed with
};

// TensorProto.DataType.
enum {
    ONNX_FLOAT = 1,
    ONNX_UINT8,
    ONNX_INT8,
    ONNX_UINT16,
    ONNX_INT16,
    ONNX_INT32,
    ONNX_INT64,
    ONNX_STRING,
    ONNX_BOOL,
    ONNX_FLOAT16,
    ONNX_DOUBLE,
    ONNX_UINT32,
    ONNX_UINT64,
    ONNX_BFLOAT16 = 16,
};

// The number of samples, in shapes and in constants made of them.
#define ONNX_BATCH INT64_MIN
// In place of an axis.
#define ONNX_HALVES (-2)

// A constant. Of `floats` and `ints` one is there, once onnx_values has been called.
typedef struct onnx_tensor {
    const char *name;
    int type, ndim;
    int64_t dim[ONNX_DIMS], count;
    const unsigned char *raw;  // the elements, little-endian; NULL: they are decoded
    float *floats;
    int64_t *ints;
} onnx_tensor;

typedef struct onnx_attribute {
    const char *name;
    int64_t i;
    float f;
    const char *s;        // NULL: none
    onnx_tensor *tensor;  // NULL: none
    int64_t *ints;        // (count)
    int count;
    int graph;  // 1: it is a graph
} onnx_attribute;

typedef struct onnx_node {
    const char *name, *op, *domain;
    int *inputs, *outputs;  // of the model's values; -1: left out
    int input_count, output_count;
    onnx_attribute *attributes;
    int attribute_count;
    int live;  // 1: an output depends on it
    int done;  // 1: another node's layer computes it, too
} onnx_node;

// A value: what is known of it from the file, then what it is in the graph.
typedef struct onnx_value {
    const char *name;
    int maker;         // the node that makes it; -1: an initializer, an input, or nobody
    int uses, reader;  // by how many inputs of live nodes and outputs it is read; the last such node
    int output;        // 1: an output of the model
    int made;
    onnx_tensor *tensor;  // a constant; NULL: a value of the graph

    ls_value value;
    // Its shape as ONNX has it, with ONNX_BATCH, and where each axis lies in the graph's value: 0 is the batch; -1: nowhere,
    // it is a 1 that the value lacks; ONNX_HALVES: it is the two directions whose units lie behind each other in the last axis. Images (N, C, H, W) are (N, H, W, C) in the graph: 0, 3, 1, 2.
    int ndim;
    int64_t dim[ONNX_DIMS];
    int axis[ONNX_DIMS];
    ls_shape flat;  // ndim > 0: its rows are such images (H, W, C), flattened, which ONNX has as (C, H, W)
    int not_negative;
    int pending;  // 1: a sigmoid that the product with its input will take up
} onnx_value;

typedef struct onnx_port {
    int value;
    int type, ndim;          // of an input; ndim -1: it is not told
    int64_t dim[ONNX_DIMS];  // -1: open
} onnx_port;

typedef struct onnx_model {
    const char *path;
    unsigned char *bytes;
    int64_t size;
    ls_pb_from from;
    struct onnx_block *blocks;  // all other memory
    int64_t opset;
    onnx_node *nodes;
    int node_count;
    onnx_value *values;
    int value_count, value_room;
    int *table, table_size;  // of the values' names; a power of two
    onnx_port *inputs, *outputs;
    int input_count, output_count;
} onnx_model;

typedef struct onnx_reader {
    onnx_model *model;
    ls_graph *graph;
    const ls_model_config *config;
    int head;               // the node that is the classifier's last layer; -1: none is
    const onnx_node *node;  // the one at hand, for sentences
} onnx_reader;

// --- the model -------------------------------------------------------------------------------------------------------

// Reads a file, and the files its tensors lie in. onnx_free in any case. Errors: NOT_FOUND, IO, BAD_DATA, UNSUPPORTED, OUT_OF_MEMORY.
ls_status onnx_parse(const char *path, onnx_model *out);
// The same of a file's bytes, which the model takes over.
ls_status onnx_parse_bytes(const char *path, unsigned char *bytes, int64_t size, onnx_model *out);
void onnx_free(onnx_model *model);
// Zeroed memory that lasts as long as the model. Errors: OUT_OF_MEMORY.
ls_status onnx_alloc(onnx_model *model, int64_t count, int64_t size, void *out);
// Decodes a tensor's elements. Errors: UNSUPPORTED (texts), OUT_OF_MEMORY.
ls_status onnx_values(onnx_model *model, onnx_tensor *tensor);
// A sentence about a node: "FILE: node 'conv1' (Conv, output 'y'): ...".
ls_status onnx_wrong(const onnx_model *model, const onnx_node *node, ls_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Makes any bytes a name, or words for a sentence: printed characters, cut off.
void onnx_clean(const char *from, char *to, size_t size);

// --- nodes -----------------------------------------------------------------------------------------------------------

const onnx_attribute *onnx_find(const onnx_node *node, const char *name);
int64_t onnx_int(const onnx_node *node, const char *name, int64_t otherwise);
float onnx_real(const onnx_node *node, const char *name, float otherwise);
int onnx_is(const onnx_node *node, const char *name, const char *word, const char *otherwise);  // a text attribute
// An attribute, or in later opsets input k, of whole numbers: *count of them, 0 where there are none. Errors: BAD_DATA.
ls_status onnx_list(onnx_reader *r, const char *name, int k, int most, int64_t *out, int *count);

// Input or output k; NULL: it is left out.
onnx_value *onnx_in(const onnx_reader *r, int k);
onnx_value *onnx_out(const onnx_reader *r, int k);
// Input k as a value of the graph, or as a constant with its elements decoded. Errors: BAD_DATA, UNSUPPORTED (it is no such).
ls_status onnx_data(onnx_reader *r, int k, onnx_value **out);
ls_status onnx_constant(onnx_reader *r, int k, onnx_tensor **out);
// The same of a float or a whole constant with a single element.
ls_status onnx_scalar(onnx_reader *r, int k, double *out);
int onnx_is_scalar(const onnx_reader *r, int k);
// An axis from 0 to ndim - 1. Errors: BAD_DATA.
ls_status onnx_axis(onnx_reader *r, int64_t asked, int ndim, int *out);

// Constants: fills output k with a tensor whose elements the caller fills in.
ls_status onnx_make(onnx_reader *r, int k, int type, int ndim, const int64_t *dim, onnx_tensor **out);
// Output k is the same as another value.
void onnx_same(onnx_reader *r, int k, const onnx_value *as);
// Output k is a value of the graph, whose axes lie as those of `like`. Errors: what adding the layer has failed with.
ls_status onnx_give(onnx_reader *r, int k, ls_value value, const onnx_value *like);
// Output k is a value of the graph, (N, C, ...) in ONNX where it has images or volumes, else in the graph's order.
ls_status onnx_give_images(onnx_reader *r, int k, ls_value value);
ls_status onnx_give_plain(onnx_reader *r, int k, ls_value value);
int onnx_is_images(const onnx_value *value);  // its axes lie as N, C, H, W or N, C, D, H, W
int onnx_is_plain(const onnx_value *value);   // in the graph's order
ls_status onnx_need_images(onnx_reader *r, const onnx_value *value);
// The node that reads output k, where it is the only one and the output is no output of the model; NULL.
onnx_node *onnx_only_reader(const onnx_reader *r, int k, const char *op);

// --- layers ----------------------------------------------------------------------------------------------------------

// A layer's name that is free: after the tensor its first weights come from, else the node's. "" where there is none: NULL.
const char *onnx_name(const onnx_reader *r, const onnx_tensor *weights, char name[ONNX_NAME]);
// Parameter k of the layer that gives `value` begins with the tensor's elements: axis i of the parameter is the tensor's axis order[i]. Errors:
// BAD_DATA (other elements than the parameter has).
ls_status onnx_begin(onnx_reader *r, ls_value value, int k, const onnx_tensor *tensor, const int *order);
// The same of values in the parameter's own order, which the graph takes over.
void onnx_begin_with(onnx_reader *r, ls_value value, int k, float *values);
// Of rows that belong to a flattened image: the row that ONNX has at the place `i` of the graph's.
int64_t onnx_row(const onnx_value *value, int64_t i);

typedef ls_status (*onnx_builder)(onnx_reader *r, onnx_node *node);
// NULL: there is none.
onnx_builder onnx_find_fold(const onnx_node *node);
onnx_builder onnx_find_window(const onnx_node *node);
onnx_builder onnx_find_layer(const onnx_node *node);
onnx_builder onnx_find_shape(const onnx_node *node);
onnx_builder onnx_find_sequence(const onnx_node *node);

// ls_onnx_read of a file's bytes. Whatever lies in other files is looked for beside `path`.
ls_status ls__onnx_read_bytes(const char *path, const void *bytes, int64_t size, ls_graph **out);

// Our own operations: what ONNX has no single one for.
#define ONNX_OWN_DOMAIN "lockstep"

#endif
