// An HDF5 file, as a process of its own reads it (base/aside.h): the library was not written for damaged files, and versions in use crash over them. Nothing of
// the library runs in this process.
#ifndef LS_DATA_FORMATS_HDF5_FILE_H
#define LS_DATA_FORMATS_HDF5_FILE_H

#include <lockstep/status.h>
#include <stdint.h>

// A data set of the file, and where it lies. Lies in memory shared by processes, so it has no pointers.
typedef struct ls__hdf5_set {
    char name[128];
    int there, pixels;  // pixels: U8, else F32
    int ndim;
    int64_t dim[4];
    int64_t at;  // in the file, where it lies there in one piece and as the machine has it; -1: not so
} ls__hdf5_set;

typedef enum ls__hdf5_type { LS__HDF5_U8, LS__HDF5_F32, LS__HDF5_F64 } ls__hdf5_type;

typedef struct ls__hdf5_file ls__hdf5_file;

// `bytes`: the most that is read at once. Nothing is opened yet. Errors: OUT_OF_MEMORY.
ls_status ls__hdf5_file_create(const char *path, int64_t bytes, ls__hdf5_file **out);
void ls__hdf5_file_destroy(ls__hdf5_file **file);
// The data sets of images and of what is learned by these names into out[0] and out[1]; *found 0: one of them is not there. `classes`: the second may
// be whole numbers of any type. What is told is in bounds: 1 to 4 dimensions from 1 to 2^31 - 1, samples of at most LS_IMAGE_MAX_FILE bytes, all of them
// stored. Errors: BAD_DATA with the file's name, IO.
ls_status ls__hdf5_file_find(ls__hdf5_file *file, const char *images, const char *learned, int classes,
                             ls__hdf5_set out[2], int *found);
// Opens the file and the data set, so that a file that takes its place later is not read. Errors: BAD_DATA.
ls_status ls__hdf5_file_open(ls__hdf5_file *file, const ls__hdf5_set *set);
// Samples from `from` on of a data set, as values of `type`; *values are theirs until the next call. One thread at a time. Errors: BAD_DATA, IO.
ls_status ls__hdf5_file_read(ls__hdf5_file *file, const ls__hdf5_set *set, ls__hdf5_type type, int64_t from,
                             int64_t count, const void **values);

#endif
