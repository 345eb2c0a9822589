// IDX files for the tests: made in memory, spoiled there, written into a folder of their own.
#ifndef TESTS_IDX_FILES_H
#define TESTS_IDX_FILES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

typedef struct bytes {
    uint8_t *p;
    size_t n;
} bytes;

enum { TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS, FILES };

static const char *const idx_names[FILES] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                             "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

static inline void idx_be32(uint8_t *p, uint32_t v) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (24 - 8 * i));
}

// Byte i of the payload of the file `which`: images anything, labels below 10.
static inline uint8_t idx_byte(int which, size_t i) {
    uint32_t x = ((uint32_t)i + 7919u * (uint32_t)which) * 2654435761u;
    return which == TRAIN_IMAGES || which == TEST_IMAGES ? (uint8_t)(x >> 24) : (uint8_t)((x >> 16) % 10);
}

static inline bytes idx_make(int which, uint32_t count, uint32_t height, uint32_t width) {
    int images = which == TRAIN_IMAGES || which == TEST_IMAGES;
    size_t header = images ? 16 : 8, n = images ? (size_t)count * height * width : count;
    bytes b = {malloc(header + n), header + n};
    idx_be32(b.p, images ? 0x803 : 0x801);
    idx_be32(b.p + 4, count);
    if (images) {
        idx_be32(b.p + 8, height);
        idx_be32(b.p + 12, width);
    }
    for (size_t i = header; i < b.n; i++) b.p[i] = idx_byte(which, i - header);
    return b;
}

// A gzip file with these contents, with a file name in its header as gzip writes one.
static inline bytes idx_gzip(const uint8_t *p, size_t n) {
    z_stream z = {0};
    gz_header head = {.name = (Bytef *)"train-images-idx3-ubyte", .os = 3};
    deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    deflateSetHeader(&z, &head);
    bytes b = {NULL, deflateBound(&z, n) + 64};
    b.p = malloc(b.n);
    z.next_in = (Bytef *)p;
    z.avail_in = (uInt)n;
    z.next_out = b.p;
    z.avail_out = (uInt)b.n;
    deflate(&z, Z_FINISH);
    b.n -= z.avail_out;
    deflateEnd(&z);
    return b;
}

static inline int idx_write(const char *dir, const char *name, bytes b) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (!f) return 0;
    int ok = fwrite(b.p, 1, b.n, f) == b.n;
    return fclose(f) == 0 && ok;
}

static inline void idx_remove(const char *dir, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    unlink(path);
}

#endif
