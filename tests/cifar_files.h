// CIFAR files for the tests, of a few images: pickles as Python 2 writes them and binary records, made in memory and
// spoiled there.
#ifndef TESTS_CIFAR_FILES_H
#define TESTS_CIFAR_FILES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CIFAR_PIXELS = 3072 };

// A file being written; room for all that the tests make.
typedef struct cifar_file {
    uint8_t *p;
    size_t n, room;
    int memo;  // the next number
} cifar_file;

static inline void cifar_add(cifar_file *f, const void *bytes, size_t n) {
    if (f->n + n > f->room) {
        f->room = 2 * (f->n + n);
        f->p = realloc(f->p, f->room);
    }
    if (n) memcpy(f->p + f->n, bytes, n);
    f->n += n;
}

// Opcodes without memo, as C writes them: cifar_ops(f, "\x80\x02", 2).
#define cifar_ops(f, literal) cifar_add(f, literal, sizeof(literal) - 1)

static inline void cifar_le(cifar_file *f, uint32_t v, int bytes) {
    for (int i = 0; i < bytes; i++) cifar_add(f, &(uint8_t){(uint8_t)(v >> 8 * i)}, 1);
}

// BINPUT or LONG_BINPUT: numbers from 1 on.
static inline void cifar_put(cifar_file *f) {
    int index = ++f->memo;
    cifar_add(f, index < 256 ? "q" : "r", 1);
    cifar_le(f, (uint32_t)index, index < 256 ? 1 : 4);
}

static inline void cifar_string(cifar_file *f, const char *text) {
    cifar_ops(f, "U");
    cifar_le(f, (uint32_t)strlen(text), 1);
    cifar_add(f, text, strlen(text));
    cifar_put(f);
}

static inline void cifar_int(cifar_file *f, int64_t v) {
    if (v >= 0 && v < 256) {
        cifar_ops(f, "K");
        cifar_le(f, (uint32_t)v, 1);
    } else if (v >= 0 && v < 65536) {
        cifar_ops(f, "M");
        cifar_le(f, (uint32_t)v, 2);
    } else {
        cifar_ops(f, "J");
        cifar_le(f, (uint32_t)v, 4);
    }
}

// Byte b of image i of file `which`, in planes, and its labels.
static inline uint8_t cifar_pixel(int which, int i, int b) {
    uint32_t x = ((uint32_t)(i * CIFAR_PIXELS + b) + 7919u * (uint32_t)(which + 1)) * 2654435761u;
    return (uint8_t)(x >> 24);
}
static inline int cifar_label(int which, int i, int classes) { return (i * 7 + which * 3) % classes; }

// What a pickle says; as published, but for what a test spoils.
typedef struct cifar_recipe {
    int which, classes, count;
    int labels;          // how many labels; 0: count
    int bad_label;       // of the last image; 0: as cifar_label says
    int by_column;       // the array in Fortran order
    int ndim;            // 1: a flat array; 0: two dimensions
    int width;           // of the array's shape, its data stay; 0: CIFAR_PIXELS
    const char *dtype;   // NULL: "u1"
    const char *module;  // NULL: "numpy.core.multiarray"
    const char *data_key, *labels_key;
} cifar_recipe;

static inline void cifar_add_labels(cifar_file *f, const cifar_recipe *r, const char *key, int classes) {
    int count = r->labels ? r->labels : r->count;
    cifar_string(f, key);
    cifar_ops(f, "]");
    cifar_put(f);
    cifar_ops(f, "(");
    for (int i = 0; i < count; i++) {
        if (i && i % 1000 == 0) cifar_ops(f, "e(");
        cifar_int(f, r->bad_label && i == r->count - 1 ? r->bad_label : cifar_label(r->which, i, classes));
    }
    cifar_ops(f, "e");
}

// numpy.core.multiarray._reconstruct(numpy.ndarray, (0,), 'b') with the state (1, shape, dtype, order, bytes)
static inline void cifar_add_data(cifar_file *f, const cifar_recipe *r) {
    const char *module = r->module ? r->module : "numpy.core.multiarray", *dtype = r->dtype ? r->dtype : "u1";
    cifar_string(f, r->data_key ? r->data_key : "data");
    cifar_ops(f, "c");
    cifar_add(f, module, strlen(module));
    cifar_ops(f, "\n_reconstruct\n");
    cifar_put(f);
    cifar_ops(f, "cnumpy\nndarray\n");
    cifar_put(f);
    cifar_ops(f, "K\0\x85");
    cifar_put(f);
    cifar_string(f, "b");
    cifar_ops(f, "\x87");
    cifar_put(f);
    cifar_ops(f, "R");
    cifar_put(f);
    cifar_ops(f, "(K\1");
    if (r->ndim == 1) {
        cifar_int(f, (int64_t)r->count * CIFAR_PIXELS);
        cifar_ops(f, "\x85");
    } else {
        cifar_int(f, r->count);
        cifar_int(f, r->width ? r->width : CIFAR_PIXELS);
        cifar_ops(f, "\x86");
    }
    cifar_put(f);
    cifar_ops(f, "cnumpy\ndtype\n");
    cifar_put(f);
    cifar_string(f, dtype);
    cifar_ops(f, "K\0K\1\x87");
    cifar_put(f);
    cifar_ops(f, "R");
    cifar_put(f);
    cifar_ops(f, "(K\3U\1|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb");
    cifar_add(f, r->by_column ? "\x88" : "\x89", 1);
    cifar_ops(f, "T");
    cifar_le(f, (uint32_t)(r->count * CIFAR_PIXELS), 4);
    for (int k = 0; k < r->count * CIFAR_PIXELS; k++) {
        int i = r->by_column ? k % r->count : k / CIFAR_PIXELS, b = r->by_column ? k / r->count : k % CIFAR_PIXELS;
        cifar_add(f, &(uint8_t){cifar_pixel(r->which, i, b)}, 1);
    }
    cifar_put(f);
    cifar_ops(f, "tb");
}

static inline cifar_file cifar_pickle(const cifar_recipe *r) {
    cifar_file f = {0};
    cifar_ops(&f, "\x80\2}");
    cifar_put(&f);
    cifar_ops(&f, "(");
    cifar_string(&f, "batch_label");
    cifar_string(&f, "a batch of a test");
    if (r->classes == 100) cifar_add_labels(&f, r, "coarse_labels", 20);
    cifar_add_labels(&f, r, r->labels_key ? r->labels_key : r->classes == 100 ? "fine_labels" : "labels", r->classes);
    cifar_add_data(&f, r);
    cifar_string(&f, "filenames");
    cifar_ops(&f, "]");
    cifar_put(&f);
    cifar_ops(&f, "(");
    for (int i = 0; i < r->count; i++) {
        if (i && i % 1000 == 0) cifar_ops(&f, "e(");
        cifar_string(&f, "a_picture_s_000001.png");
    }
    cifar_ops(&f, "eu.");
    return f;
}

static inline cifar_file cifar_records(int which, int classes, int count) {
    cifar_file f = {0};
    for (int i = 0; i < count; i++) {
        if (classes == 100) cifar_add(&f, &(uint8_t){(uint8_t)cifar_label(which, i, 20)}, 1);
        cifar_add(&f, &(uint8_t){(uint8_t)cifar_label(which, i, classes)}, 1);
        for (int b = 0; b < CIFAR_PIXELS; b++) cifar_add(&f, &(uint8_t){cifar_pixel(which, i, b)}, 1);
    }
    return f;
}

static inline int cifar_save(const char *path, const uint8_t *p, size_t n) {
    FILE *f = fopen(path, "wb");
    if (!f) return 0;
    int ok = fwrite(p, 1, n, f) == n;
    return fclose(f) == 0 && ok;
}

#endif
