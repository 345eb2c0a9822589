// What files of arrays have in common when they are written: images of one size as pixels, (samples, height, width[, channels]), and a class for each.
#ifndef LS_DATA_WRITE_ARRAYS_H
#define LS_DATA_WRITE_ARRAYS_H

#include "base/output.h"
#include "data/writers.h"

// The shape that the first sample gave all of them.
typedef struct ls_array_shape {
    int64_t height, width, first;  // first: the number of the sample that it is of, and the set that this is in
    int channels, test, known;
} ls_array_shape;

// Holds a sample against the shape, which the first one sets. Errors: INVALID_ARGUMENT (it has another size).
ls_status ls_array_shape_take(ls_array_shape *shape, const ls_written *sample);

// Opens `path` to be written beside its place. Errors: IO; INVALID_ARGUMENT (a pipe or a device, in which one cannot go back).
ls_status ls_array_file_open(const char *path, ls_output *out);
// The sentence for errno. Returns IO.
ls_status ls_array_file_failed(const char *path);

#endif
