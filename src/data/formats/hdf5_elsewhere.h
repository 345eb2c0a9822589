// What a data set of an HDF5 file has in other files: parts of a view, raw values, the data set itself behind a link. Where one of them is missing or short the
// library gives zeros, or fails in the middle of a run, and where it opens a pipe it waits for ever; so they are looked for before, in its order. For the
// process that reads (hdf5_file.c).
#ifndef LS_DATA_FORMATS_HDF5_ELSEWHERE_H
#define LS_DATA_FORMATS_HDF5_ELSEWHERE_H

#include <hdf5.h>
#include <lockstep/status.h>

// A data set of a file that is open.
typedef struct ls__hdf5_place {
    const char *path, *name;  // for sentences: the file and the data set that were asked for
    const char *opened;       // the path by which `file` was opened
    hid_t file;
} ls__hdf5_place;

// Below 0: it cannot be opened. The caller closes it.
hid_t ls__hdf5_open_file(const char *path);
// BAD_DATA, with the library's words.
ls_status ls__hdf5_failed(const char *path, const char *name);
// Whether `set` is a data set of the file, behind links or not. Errors: BAD_DATA where a link leads to what is no file.
ls_status ls__hdf5_exists(const ls__hdf5_place *at, const char *set, int *there);
// The data set at->name, and no file beside its own yet; the caller closes it. Errors: BAD_DATA.
ls_status ls__hdf5_open_set(const ls__hdf5_place *at, hid_t *out);
// That all of it is there, before its size is asked for, for which the library opens files. Errors: NOT_FOUND and BAD_DATA, with the files' names.
ls_status ls__hdf5_check_elsewhere(const ls__hdf5_place *at, hid_t set);

#endif
