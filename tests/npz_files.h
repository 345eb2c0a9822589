// NumPy's archives for tests: made in memory as numpy.savez does, with local headers that have the extra field of large sizes.
#ifndef TESTS_NPZ_FILES_H
#define TESTS_NPZ_FILES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "image_files.h"

// An array with the header's text; its values are `size` bytes.
static inline image_file npy_make(const char *text, const void *values, size_t size) {
    image_file f = {NULL, 0, 0};
    char head[512];
    int length = snprintf(head + 10, sizeof head - 10, "%s", text);
    while ((10 + length + 1) % 64) head[10 + length++] = ' ';
    head[10 + length++] = '\n';
    memcpy(head, "\x93NUMPY\1\0", 8);
    head[8] = (char)(length & 255);
    head[9] = (char)(length >> 8);
    image_add(&f, head, (size_t)(10 + length));
    image_add(&f, values, size);
    return f;
}

typedef struct npz {
    image_file file, directory;
    int members;
} npz;

static inline void npz_put(unsigned char *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) at[i] = (unsigned char)(value >> 8 * i);
}

// Takes the array over.
static inline void npz_add(npz *z, const char *name, image_file array, int deflated) {
    unsigned char local[30] = "PK\3\4", entry[46] = "PK\1\2", extra[20] = {1, 0, 16, 0};
    uLongf size = compressBound((uLong)array.size);
    unsigned char *packed = malloc(size);
    size_t at = z->file.size, length = strlen(name);
    if (deflated) {
        z_stream s = {
            .next_in = array.bytes, .avail_in = (uInt)array.size, .next_out = packed, .avail_out = (uInt)size};
        deflateInit2(&s, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
        deflate(&s, Z_FINISH);
        size = s.total_out;
        deflateEnd(&s);
    } else {
        memcpy(packed, array.bytes, size = (uLongf)array.size);
    }
    npz_put(local + 8, deflated ? 8 : 0, 2);
    npz_put(local + 18, 0xffffffff, 4), npz_put(local + 22, 0xffffffff, 4);
    npz_put(local + 26, length, 2), npz_put(local + 28, 20, 2);
    npz_put(extra + 4, array.size, 8), npz_put(extra + 12, size, 8);
    image_add(&z->file, local, 30), image_add(&z->file, name, length), image_add(&z->file, extra, 20);
    image_add(&z->file, packed, size);
    npz_put(entry + 10, deflated ? 8 : 0, 2);
    npz_put(entry + 16, crc32(0, array.bytes, (uInt)array.size), 4);
    npz_put(entry + 20, size, 4), npz_put(entry + 24, array.size, 4);
    npz_put(entry + 28, length, 2), npz_put(entry + 42, at, 4);
    image_add(&z->directory, entry, 46), image_add(&z->directory, name, length);
    z->members++;
    free(packed);
    free(array.bytes);
}

// With the directory at its end; the caller frees it.
static inline image_file npz_end(npz *z) {
    unsigned char end[22] = "PK\5\6";
    npz_put(end + 8, (uint64_t)z->members, 2), npz_put(end + 10, (uint64_t)z->members, 2);
    npz_put(end + 12, z->directory.size, 4), npz_put(end + 16, z->file.size, 4);
    image_add(&z->file, z->directory.bytes, z->directory.size);
    image_add(&z->file, end, 22);
    free(z->directory.bytes);
    return z->file;
}

enum { NPZ_TRAIN = 7, NPZ_TEST = 3, NPZ_SIDE = 4, NPZ_PIXELS = NPZ_SIDE * NPZ_SIDE };

static inline uint8_t npz_pixel(int i) { return (uint8_t)(i * 37 + 11); }

// x_train, y_train, x_test, y_test: pixels, and labels i % 3 as int64; every second member deflated.
static inline image_file npz_make(void) {
    npz z = {.members = 0};
    uint8_t pixels[NPZ_TRAIN * NPZ_PIXELS];
    int64_t labels[NPZ_TRAIN];
    for (int i = 0; i < NPZ_TRAIN * NPZ_PIXELS; i++) pixels[i] = npz_pixel(i);
    for (int i = 0; i < NPZ_TRAIN; i++) npz_put((unsigned char *)&labels[i], (uint64_t)(i % 3), 8);
    npz_add(&z, "x_train.npy",
            npy_make("{'descr': '|u1', 'fortran_order': False, 'shape': (7, 4, 4), }", pixels, 7 * 16), 0);
    npz_add(&z, "y_train.npy", npy_make("{'descr': '<i8', 'fortran_order': False, 'shape': (7,), }", labels, 7 * 8), 1);
    npz_add(&z, "x_test.npy",
            npy_make("{'descr': '|u1', 'fortran_order': False, 'shape': (3, 4, 4), }", pixels, 3 * 16), 1);
    npz_add(&z, "y_test.npy", npy_make("{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }", labels, 3 * 8), 0);
    return npz_end(&z);
}

// The same with rows of labels, or (1) of numbers, (2) with images that are learned, in place of labels; there is no test set.
static inline image_file npz_make_rows(int targets) {
    static const uint8_t rows[NPZ_TRAIN * 3] = {1, 0, 1, 0, 0, 0, 1, 1, 1};
    const float numbers[NPZ_TRAIN * 2] = {1.5F, -2};
    const double images[NPZ_TRAIN * 2] = {1.5, -2};
    uint8_t pixels[NPZ_TRAIN * NPZ_PIXELS];
    npz z = {.members = 0};
    for (int i = 0; i < NPZ_TRAIN * NPZ_PIXELS; i++) pixels[i] = npz_pixel(i);
    npz_add(&z, "x_train.npy",
            npy_make("{'descr': '|u1', 'fortran_order': False, 'shape': (7, 4, 4), }", pixels, 7 * 16), 0);
    if (targets == 2)
        npz_add(&z, "targets_train.npy",
                npy_make("{'descr': '<f8', 'fortran_order': False, 'shape': (7, 1, 2), }", images, sizeof images), 0);
    else if (targets)
        npz_add(&z, "targets_train.npy",
                npy_make("{'descr': '<f4', 'fortran_order': False, 'shape': (7, 2), }", numbers, sizeof numbers), 0);
    else
        npz_add(&z, "y_train.npy", npy_make("{'descr': '|b1', 'fortran_order': False, 'shape': (7, 3), }", rows, 21),
                1);
    return npz_end(&z);
}

#endif
