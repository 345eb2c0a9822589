// Keras's files of weights: HDF5, in the layout of Keras 2 (.h5) and of Keras 3 (.weights.h5, and in the archive .keras). Not collective.
//
// The library that reads HDF5 was not written for files that somebody has tampered with, so a process of its own reads them, checks what they
// say, and hands the values on as a safetensors file in memory; where it dies or hangs, that is a sentence.
//
// Tensors are called "LAYER/kernel" where the file has their names (Keras 2). In a file of Keras 3 they are numbered in the
// group that is the place of their layer: "layers/conv2d_1/0"; since Keras 3.4 the file has the layer's name, too.
#ifndef LS_TRAIN_WEIGHTS_HDF5_H
#define LS_TRAIN_WEIGHTS_HDF5_H

#include "graph/graph.h"
#include "train/weights.h"
#include "train/weights_file.h"

// Whether a file of these first 8 bytes is one of them.
int ls__hdf5_begins(const unsigned char head[8]);
// As ls_weights_file_open, of such a file that is open.
ls_status ls__hdf5_open(const char *path, int fd, ls_weights_file **out);
// Where Keras 3 has the weights of a graph's layer: "layers/conv2d_1". Errors: OUT_OF_MEMORY.
ls_status ls__hdf5_place(const ls_graph *graph, int node, char out[128]);
// The nodes with weights in the order of Keras's layers; the caller frees *nodes. Errors: OUT_OF_MEMORY.
ls_status ls__hdf5_order(const ls_graph *graph, int **nodes, int *count);
// Whether weights of this name are written as HDF5: it ends in .h5 (.weights.h5: as Keras 3 does, otherwise as Keras 2 did).
int ls__hdf5_is_named(const char *path);
// Writes them. `path` says which layout, and is for sentences. Errors: IO, OUT_OF_MEMORY, LIBRARY.
ls_status ls__hdf5_write(const ls_weights *weights, FILE *out, const char *path);

#endif
