// One IDX file, plain or gzipped, worked on in memory only: which worker reads which bytes is the caller's business.
//
// IDX is the format MNIST is published in: a big-endian magic number (two zero bytes, the element type, the number of
// dimensions), one 32-bit big-endian extent per dimension, then the elements.
#ifndef LS_DATA_FORMATS_IDX_H
#define LS_DATA_FORMATS_IDX_H

#include <lockstep/status.h>
#include <stdint.h>

typedef enum ls__idx_kind {
    LS__IDX_IMAGES,  // bytes in three dimensions: (count, height, width)
    LS__IDX_LABELS,  // bytes in one dimension: (count)
} ls__idx_kind;

// How much of a file's beginning is enough to find the IDX header, however long the gzip header in front of it is.
#define LS__IDX_HEAD       (128 << 10)
#define LS__IDX_HEADER_MAX 16

// What a file holds. Lies in memory shared by processes, so it has no pointers.
typedef struct ls__idx_file {
    char path[4096];
    ls__idx_kind kind;
    int64_t stored_bytes;  // size of the file
    // From here on filled in by ls__idx_parse.
    int gzip;  // by content, whatever the name says
    uint8_t header[LS__IDX_HEADER_MAX];
    int64_t header_bytes;          // used bytes of header
    int64_t count, height, width;  // labels: height and width are 1
    int64_t payload_bytes;         // count * height * width: what follows the header once unpacked
} ls__idx_file;

// Reads the header of a file whose path, kind and stored_bytes are known, from its first `head_bytes` bytes: all of
// them, or at least LS__IDX_HEAD. On success payload_bytes is safe to allocate: it is what a plain file holds, and for a
// gzipped one no more than gzip could have packed into it.
// Errors: BAD_DATA (empty, another magic, cut short, longer than announced, no samples, corrupt gzip), OUT_OF_MEMORY.
ls_status ls__idx_parse(ls__idx_file *file, const uint8_t *head, int64_t head_bytes);

// Unpacks the payload of a parsed gzipped file. stored: (stored_bytes); payload: (payload_bytes).
// Errors: BAD_DATA (corrupt, cut short, holds more or less than announced), OUT_OF_MEMORY.
ls_status ls__idx_unpack(const ls__idx_file *file, const uint8_t *stored, uint8_t *payload);

// Every label of a labels file must be below `classes`. labels: (count). Errors: BAD_DATA (the first that is not).
ls_status ls__idx_check_labels(const ls__idx_file *file, const uint8_t *labels, int classes);

#endif
