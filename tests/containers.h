// Containers for tests: written by the library's own writers, spoiled, and read by its readers.
#ifndef TESTS_CONTAINERS_H
#define TESTS_CONTAINERS_H

#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "data/writers.h"
#include "image_files.h"

// The first ones are streams; LMDB's library writes the last.
static const char *const container_formats[] = {"tar", "tfrecord", "recordio", "lmdb"};
enum { CONTAINER_STREAMS = 3, CONTAINER_LMDB = 3, CONTAINERS = 4, CONTAINER_SAMPLES = 5 };

// Sample i, below 6, is a PNG of one grey, of class i % 3.
static inline image_file container_image(int i) {
    uint8_t pixels[3 * 36];
    memset(pixels, 40 * i + 7, sizeof pixels);
    return image_png(6, 6, 8, PNG_COLOR_TYPE_RGB, 0, pixels, 18);
}

// The file of a database with `count` samples, of which every other one is pixels where `pixels` is 1.
static inline image_file container_lmdb(int count, int pixels) {
    static const unsigned char raw[2 * 3 * 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};
    const ls_writer *w = ls_writer_find("lmdb");
    char folder[] = "/tmp/lockstep-lmdb-XXXXXX", path[64], byte;
    image_file f = {NULL, 0, 0};
    void *database;
    if (!mkdtemp(folder)) return f;
    if (w->open(&(ls_writing){.path = folder, .count = count}, &database) != LS_OK) return f;
    for (int i = 0; i < count; i++) {
        image_file image = container_image(i % 6);
        ls_written s = {
            .number = i, .image = image.bytes, .size = (int64_t)image.size, .ending = "png", .class = i % 3};
        if (pixels && i % 2)
            s = (ls_written){
                .number = i, .image = raw, .size = sizeof raw, .class = i % 3, .height = 2, .width = 3, .channels = 3};
        if (w->put(database, &s) != LS_OK) fprintf(stderr, "%s\n", ls_error_message());
        free(image.bytes);
    }
    if (w->close(database, 1) != LS_OK) fprintf(stderr, "%s\n", ls_error_message());
    snprintf(path, sizeof path, "%s/data.mdb", folder);
    FILE *file = fopen(path, "rb");
    while (file && fread(&byte, 1, 1, file) == 1) image_add(&f, &byte, 1);
    if (file) fclose(file);
    unlink(path);
    rmdir(folder);
    return f;
}

// A TFRecord of a message.
static inline void container_record(image_file *f, const void *message, size_t size) {
    unsigned char head[12] = {(unsigned char)size, (unsigned char)(size >> 8)};
    uint32_t sum = ls_crc32c_masked(head, 8);
    for (int i = 0; i < 4; i++) head[8 + i] = (unsigned char)(sum >> 8 * i);
    image_add(f, head, 12);
    image_add(f, message, size);
    sum = ls_crc32c_masked(message, (int64_t)size);
    for (int i = 0; i < 4; i++) head[i] = (unsigned char)(sum >> 8 * i);
    image_add(f, head, 4);
}

// A TFRecord of an Example with the image "PIXELS" and a feature "l" of these bytes, at most 90; of none without one.
static inline void container_example(image_file *f, const char *feature, size_t size) {
    static const char image[] =
        "\x0a\x13\x0a\x05image\x12\x0a\x0a\x08\x0a\x06"
        "PIXELS";
    char message[160] = "\x0a";
    size_t n = 2;
    if (size) {
        memcpy(message + n, (char[]){10, (char)(5 + size), 10, 1, 'l', 18, (char)size}, 7);
        memcpy(message + n + 7, feature, size);
        n += 7 + size;
    }
    memcpy(message + n, image, sizeof image - 1);
    n += sizeof image - 1;
    message[1] = (char)(n - 2);
    container_record(f, message, n);
}

// A file in memory with them, which the caller frees.
static inline image_file container_make(int format) {
    const ls_writer *w = ls_writer_find(container_formats[format]);
    image_file f = {NULL, 0, 0};
    if (format == CONTAINER_LMDB) return container_lmdb(CONTAINER_SAMPLES, 0);
    FILE *file = open_memstream((char **)&f.bytes, &f.size);
    for (int i = 0; i < CONTAINER_SAMPLES; i++) {
        image_file image = container_image(i);
        w->add(file,
               &(ls_written){
                   .number = i, .image = image.bytes, .size = (int64_t)image.size, .ending = "png", .class = i % 3});
        free(image.bytes);
    }
    if (w->end) w->end(file);
    fclose(file);
    f.room = f.size;
    return f;
}

#endif
