// Weights in a file, in the format safetensors: 8 bytes with the length of a header (little-endian), the header as JSON, then
// the values of all tensors behind one another. Names and shapes are Keras's: "conv1_conv/kernel" (7, 7, 3, 64).
//
//     {"__metadata__": {"model": "mnist-mlp"}, "dense/kernel": {"dtype": "F32", "shape": [784, 128], "data_offsets": [0, 401408]}}
//
// The reader believes nothing before it is checked against the file's length. Not collective.
#ifndef LS_TRAIN_WEIGHTS_FILE_H
#define LS_TRAIN_WEIGHTS_FILE_H

#include <stdint.h>
#include <stdio.h>

#include <lockstep/status.h>

#define LS_WEIGHTS_LENGTH_BYTES 8
#define LS_WEIGHTS_MAX_DIMS     8
#define LS_WEIGHTS_NAME_TEXT    128
#define LS_WEIGHTS_SHAPE_TEXT   192

typedef struct ls_stored_tensor {
    const char *name, *dtype;  // "F32"
    int ndim;
    int64_t dim[LS_WEIGHTS_MAX_DIMS];
    int64_t count;       // elements
    int64_t begin, end;  // its bytes, from the end of the header
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

// Reads and checks the header; the values stay in the file. Errors: NOT_FOUND, IO, BAD_DATA (what is wrong with it), OUT_OF_MEMORY.
ls_status ls_weights_file_open(const char *path, ls_weights_file **out);
void ls_weights_file_close(ls_weights_file **file);
// The same for a header in memory, of a file of `file_bytes`; `header` has no more than the file has.
ls_status ls__weights_file_parse(const char *path, const void *header, int64_t header_bytes, int64_t file_bytes,
                                 ls_weights_file **out);
// NULL where there is none of that name.
const ls_stored_tensor *ls_weights_file_find(const ls_weights_file *file, const char *name);
// Its values as floats, `tensor->count` of them. Types: F32, F16, BF16. Errors: IO, UNSUPPORTED (another type).
ls_status ls_weights_file_read(const ls_weights_file *file, const ls_stored_tensor *tensor, float *out);

// A tensor's name and shape, and the model's name, for sentences: control characters replaced, overlong names cut; "(3, 3, 64)".
const char *ls__stored_name(const ls_stored_tensor *tensor, char text[LS_WEIGHTS_NAME_TEXT]);
const char *ls__stored_model(const ls_weights_file *file, char text[LS_WEIGHTS_NAME_TEXT]);  // NULL: it does not say
const char *ls__stored_shape(const ls_stored_tensor *tensor, char text[LS_WEIGHTS_SHAPE_TEXT]);

// The sentence for a write that failed, after errno: IO.
ls_status ls__weights_file_failed(const char *path);
// Writes the length and the header for F32 tensors that are to follow in this order (name, ndim and dim are read). `model` goes
// to the metadata. `path` is for sentences. Errors: IO, OUT_OF_MEMORY, INVALID_ARGUMENT (a name is not UTF-8).
ls_status ls_weights_header_write(FILE *out, const char *path, const char *model, const ls_stored_tensor *tensors,
                                  int count);

#endif
