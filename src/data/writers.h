// How containers are written: a row for each format that can be.
#ifndef LS_DATA_WRITERS_H
#define LS_DATA_WRITERS_H

#include <stdint.h>
#include <stdio.h>

// A sample on its way into a file.
typedef struct ls_written {
    int64_t number;  // in its set, from 0
    const unsigned char *image;
    int64_t size;
    const char *ending;  // "jpg", "png"
    int class;
} ls_written;

typedef struct ls_writer {
    const char *format;
    // Both: 0, or -1 with errno.
    int (*add)(FILE *file, const ls_written *sample);
    int (*end)(FILE *file);  // NULL: there is nothing behind the last
} ls_writer;

// By the format's name; NULL: it cannot be written.
const ls_writer *ls_writer_find(const char *format);

#endif
