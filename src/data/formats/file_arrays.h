// Samples whose fields are arrays in files, a run of values for each sample: read at their place when they are wanted, so that they may be larger than memory. Small ones,
// as classes, are in memory all the same. What formats of arrays share.
#ifndef LS_DATA_FORMATS_FILE_ARRAYS_H
#define LS_DATA_FORMATS_FILE_ARRAYS_H

#include "data/source.h"

// A file as it was when it was described: one that is not so any more is refused. Bytes, and the time in nanoseconds.
typedef struct ls__array_file {
    const char *path;  // borrowed, as all here
    int64_t bytes, changed;
} ls__array_file;

// A field's values, of which those of a sample have the field's shape.
typedef struct ls__array_place {
    const void *memory;  // all of them, (count, shape); NULL: they are read
    ls__array_file in;   // else: their file,
    int64_t at;          // where in it they begin in one piece; -1: `read` has them
    int doubles;         // 1: floating numbers of 8 bytes there, and of 4 in the field
    int planes;          // 1: (channels, height, width) there; not of doubles
    const char *finite;  // the array's name, where it has floating numbers, which are finite; NULL: it has others
    // What only a library can read: sample i's values as they are there. Called from several threads at once.
    ls_status (*read)(void *self, int64_t i, void *out);
    void (*destroy)(void *self);
    void *self;
} ls__array_place;

// A source of `place`, (field_count), whose `self` it destroys, also where it fails. It opens the files, which are as they are said to be. Errors: IO, BAD_DATA (values
// behind a file's end), OUT_OF_MEMORY, those of ls_source_create.
ls_status ls__source_create_file_arrays(const char *name, const ls_field *fields, int field_count, int64_t count,
                                        const ls__array_place *place, ls_source **out);
// A sample's planes to pixels; `field` has the shape of pixels.
void ls__array_interleave(const ls_field *field, const void *planes, void *out);
// A file's size and time. Errors: NOT_FOUND, IO (no file).
ls_status ls__array_file_describe(const char *path, int64_t *bytes, int64_t *changed);
// IO: it was changed while it is in use.
ls_status ls__array_file_changed(const char *path);

#endif
