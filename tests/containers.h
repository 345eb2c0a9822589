// Containers for tests: written by the library's own writers, spoiled, and read by its readers.
#ifndef TESTS_CONTAINERS_H
#define TESTS_CONTAINERS_H

#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/writers.h"
#include "image_files.h"

static const char *const container_formats[] = {"tar", "tfrecord", "recordio"};
enum { CONTAINERS = 3, CONTAINER_SAMPLES = 5 };

// Sample i is a PNG of one grey, of class i % 3.
static inline image_file container_image(int i) {
    uint8_t pixels[3 * 36];
    memset(pixels, 40 * i + 7, sizeof pixels);
    return image_png(6, 6, 8, PNG_COLOR_TYPE_RGB, 0, pixels, 18);
}

// A file in memory with them, which the caller frees.
static inline image_file container_make(int format) {
    const ls_writer *w = ls_writer_find(container_formats[format]);
    image_file f = {NULL, 0, 0};
    FILE *file = open_memstream((char **)&f.bytes, &f.size);
    for (int i = 0; i < CONTAINER_SAMPLES; i++) {
        image_file image = container_image(i);
        w->add(file, &(ls_written){i, image.bytes, (int64_t)image.size, "png", i % 3});
        free(image.bytes);
    }
    if (w->end) w->end(file);
    fclose(file);
    f.room = f.size;
    return f;
}

#endif
