// NumPy's files: an array (.npy), and several in a zip archive (.npz). Sources: numpy/lib/format.py ("Format Version 1.0" to 3.0); PKWARE's APPNOTE
// 6.3.9, sections 4.3 to 4.5.
#ifndef LS_DATA_FORMATS_NPZ_H
#define LS_DATA_FORMATS_NPZ_H

#include <stdint.h>

#include <lockstep/status.h>
#include <lockstep/tensor.h>

#define LS__NPY_HEAD 4096  // bytes, in which an array's header ends

// An array in a file.
typedef struct ls__npy {
    char type;       // 'u', 'i', 'f', 'b': unsigned, signed, floating, true or false
    int width, big;  // bytes of a value; the most significant first
    int ndim;
    int64_t dim[LS_MAX_DIMS];
    int64_t count, bytes;  // of values; of all of them
    int64_t header_bytes;
} ls__npy;

// From the first `size` bytes of an array, LS__NPY_HEAD of them or all. `total`, the length of all of it, is what bytes are held against. `name` is for
// sentences. Errors: BAD_DATA, UNSUPPORTED (columns first, objects, text).
ls_status ls__npy_parse(const char *name, const uint8_t *head, int64_t size, int64_t total, ls__npy *out);

// A member of an archive.
typedef struct ls__zip_member {
    char name[128];
    int64_t at;             // of its local header
    int64_t packed, bytes;  // as it lies there, and unpacked
    int deflated;
    uint32_t crc;  // of the unpacked bytes, as is told
} ls__zip_member;

// The members by the directory that ends an archive: `end` is its last `size` bytes, of `total`. Returns at most `room` of them. Errors: BAD_DATA, UNSUPPORTED
// (packed otherwise, encrypted).
ls_status ls__zip_directory(const char *name, const uint8_t *end, int64_t size, int64_t total, ls__zip_member *out,
                            int room, int *count);

#endif
