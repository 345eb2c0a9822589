// How containers are written: a row for each format that can be.
#ifndef LS_DATA_WRITERS_H
#define LS_DATA_WRITERS_H

#include <lockstep/status.h>
#include <stdint.h>
#include <stdio.h>

// A sample on its way into a file.
typedef struct ls_written {
    int64_t number;  // in its set, from 0
    int64_t source;  // in what it is read from, for sentences
    const unsigned char *image;
    int64_t size;
    const char *ending;  // "jpg", "png"; NULL: the image is pixels, (height, width, channels)
    int class;
    int64_t height, width;  // of pixels
    int channels;
    int test;  // 1: of the test set, in a file that has both
} ls_written;

// What a file will hold, said before the first sample.
typedef struct ls_writing {
    const char *path;
    int64_t count;       // samples
    int64_t test_count;  // of the test set behind them, in a file that has both
    int caffe;           // 1: in the layout that Caffe reads, where the format has several
} ls_writing;

typedef struct ls_writer {
    const char *format;
    int pixels;   // whether it can hold pixels that are not encoded
    int arrays;   // 1: it holds nothing else, of one size, and both sets in a file
    int layouts;  // 1: there is also Caffe's layout, with a file for each set
    // Of one whose files are streams. Both: 0, or -1 with errno.
    int (*add)(FILE *file, const ls_written *sample);
    int (*end)(FILE *file);  // NULL: there is nothing behind the last
    // Of one that a library writes; NULL where the above are. What is opened is closed, with `keep` 0 after a failure: then nothing is left of it.
    // Errors: IO, INVALID_ARGUMENT (what the format cannot hold).
    ls_status (*open)(const ls_writing *what, void **out);
    ls_status (*put)(void *file, const ls_written *sample);
    ls_status (*close)(void *file, int keep);
} ls_writer;

extern const ls_writer ls__writer_lmdb;   // write_lmdb.c
extern const ls_writer ls__writer_numpy;  // write_numpy.c
extern const ls_writer ls__writer_hdf5;   // write_hdf5.c

// By the format's name; NULL: it cannot be written.
const ls_writer *ls_writer_find(const char *format);

#endif
