// Files of weights, tensor by tensor, for programs that look into them. A trainer or a predictor reads and writes whole networks.
//
// The format is safetensors: 8 bytes with the length of a header (little-endian), the header as JSON, then the values of all tensors
// behind one another. Names and shapes are Keras's: "conv1_conv/kernel" (7, 7, 3, 64).
//
//     {"__metadata__": {"model": "mnist-mlp"}, "dense/kernel": {"dtype": "F32", "shape": [784, 128], "data_offsets": [0, 401408]}}
//
// The reader believes nothing before it is checked against the file's length. Not collective.
#ifndef LOCKSTEP_WEIGHTS_H
#define LOCKSTEP_WEIGHTS_H

#include <stdint.h>

#include <lockstep/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define LS_WEIGHTS_MAX_DIMS 8

typedef struct ls_stored_tensor {
    const char *name, *dtype;  // "F32"; the name is the file's own words: any UTF-8, control characters included
    int ndim;
    int64_t dim[LS_WEIGHTS_MAX_DIMS];
    int64_t count;       // elements
    int64_t begin, end;  // its bytes, from the end of the header
    const char *layer;   // what a file of Keras calls its layer; NULL: it does not say
} ls_stored_tensor;

typedef struct ls_weights_file {
    char *path;
    const char *model;          // what the file says it has the weights of; NULL where it does not
    void *header;               // what the tensors' texts live in
    ls_stored_tensor *tensors;  // in the header's order
    int count;
    int64_t data_offset;  // in the file
    int fd;               // -1: only parsed
} ls_weights_file;

// Reads and checks the header; the values stay in the file. The caller closes it. Errors: NOT_FOUND, IO, BAD_DATA (what is wrong with
// it), OUT_OF_MEMORY.
ls_status ls_weights_file_open(const char *path, ls_weights_file **out);
void ls_weights_file_close(ls_weights_file **file);
// NULL where there is none of that name.
const ls_stored_tensor *ls_weights_file_find(const ls_weights_file *file, const char *name);
// Its values as floats, `tensor->count` of them. Types: F32, F16, BF16. Errors: IO, UNSUPPORTED (another type).
ls_status ls_weights_file_read(const ls_weights_file *file, const ls_stored_tensor *tensor, float *out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
