// Fuzzes the reader of weights. The first byte of an input says whether the rest is a whole file, parsed in memory or read from
// the disk, or only a header, which then gets its length in front and bytes behind it.
//
// With clang's libFuzzer (cmake -DLS_FUZZ=ON) that looks for inputs of its own. Built without, as it always is, main() below
// stands in for it: it spoils good files in a fixed sequence of ways, the same in every run.
//
//   fuzz_weights [--iterations N]   spoil and try
//   fuzz_weights --seeds DIR        write good files as a corpus for libFuzzer
//   fuzz_weights FILE...            try these inputs, to see again what a fuzzer found
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lockstep/status.h>

#include "../weights_sample.h"
#include "train/weights_file.h"

enum { IN_MEMORY, HEADER, ON_DISK, WAYS };
enum { LENGTH = LS_WEIGHTS_LENGTH_BYTES, DATA = 44, ROOM = 4096 };  // DATA: bytes behind the sample's header

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What must hold whatever the input; ends the run where it does not.
#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "fuzz_weights: line %d: not so: %s (last error: %s)\n", __LINE__, #condition,              \
                    ls_error_message());                                                                               \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

static void check(ls_status status, const ls_weights_file *file, const char *path, size_t size) {
    char text[LS_WEIGHTS_SHAPE_TEXT];
    MUST((status == LS_OK) == (file != NULL));
    if (!file) {
        MUST(status == LS_STATUS_BAD_DATA && strstr(ls_error_message(), path));
        for (const char *c = ls_error_message(); *c; c++) MUST((unsigned char)*c >= 0x20 && *c != 0x7F);
        return;
    }
    int64_t total = 0;
    for (int i = 0; i < file->count; i++) {
        const ls_stored_tensor *t = &file->tensors[i];
        MUST(t->begin >= 0 && t->begin <= t->end && file->data_offset + t->end <= (int64_t)size);
        MUST(t->count >= 0 && t->count <= t->end - t->begin && strlen(ls__stored_shape(t, text)) > 0);
        MUST(ls_weights_file_find(file, t->name) == t);
        total += t->end - t->begin;
    }
    MUST(file->data_offset + total == (int64_t)size);  // every byte has its place
}

static void in_memory(const uint8_t *data, size_t size) {
    ls_weights_file *file;
    // An exact copy, so that a sanitizer sees the first byte read past the end; the length is there even in a shorter file.
    uint8_t *copy = calloc(size > LENGTH ? size : LENGTH, 1);
    memcpy(copy, data, size);
    ls_status status = ls__weights_file_parse("input", copy, (int64_t)size, (int64_t)size, &file);
    check(status, file, "input", size);
    ls_weights_file_close(&file);
    free(copy);
}

static void header(const uint8_t *data, size_t size) {
    uint8_t *whole = calloc(LENGTH + size + DATA, 1);
    for (int i = 0; i < LENGTH; i++) whole[i] = (uint8_t)((uint64_t)size >> 8 * i);
    memcpy(whole + LENGTH, data, size);
    in_memory(whole, LENGTH + size + DATA);
    free(whole);
}

static char path[64];

static void remove_path(void) { unlink(path); }

static void on_disk(const uint8_t *data, size_t size) {
    if (!path[0]) {
        strcpy(path, access("/dev/shm", W_OK) == 0 ? "/dev/shm/lockstep-fuzz-XXXXXX" : "/tmp/lockstep-fuzz-XXXXXX");
        int fd = mkstemp(path);
        MUST(fd >= 0);
        close(fd);
        atexit(remove_path);
    }
    FILE *f = fopen(path, "wb");
    MUST(f && fwrite(data, 1, size, f) == size && fclose(f) == 0);
    ls_weights_file *file;
    ls_status status = ls_weights_file_open(path, &file);
    check(status, file, path, size);
    for (int i = 0; file && i < file->count; i++) {
        float *values = malloc((size_t)file->tensors[i].count * sizeof *values + 1);
        status = ls_weights_file_read(file, &file->tensors[i], values);
        MUST(status == LS_OK || status == LS_STATUS_UNSUPPORTED);
        free(values);
    }
    ls_weights_file_close(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    switch (data[0] % WAYS) {
    case IN_MEMORY: in_memory(data + 1, size - 1); break;
    case HEADER: header(data + 1, size - 1); break;
    default: on_disk(data + 1, size - 1); break;
    }
    return 0;
}

#ifndef LS_FUZZ_LIBFUZZER

#include "driver.h"

typedef struct input {
    uint8_t p[ROOM];
    size_t n;
} input;

static input good(int way) {
    input in = {.n = 1};
    in.p[0] = (uint8_t)way;
    size_t skip = way == HEADER ? LENGTH : 0, n = sizeof weights_sample - skip - (way == HEADER ? DATA : 0);
    memcpy(in.p + 1, weights_sample + skip, n);
    in.n += n;
    return in;
}

// Replaces `n` bytes at `at` by a text.
static void replace(input *in, size_t at, size_t n, const char *text) {
    size_t m = strlen(text);
    if (at + n > in->n || in->n + m > ROOM) return;
    memmove(in->p + at + m, in->p + at + n, in->n - at - n);
    memcpy(in->p + at, text, m);
    in->n += m - n;
}

// One change behind the first byte: bytes as they come, or words that mean something in a header.
static void spoil(input *in) {
    static const char *const words[] = {"F32",
                                        "F16",
                                        "BF16",
                                        "I64",
                                        "0",
                                        "1",
                                        "4",
                                        "-1",
                                        "1.0",
                                        "1e3",
                                        "[",
                                        "]",
                                        "{",
                                        "}",
                                        "\"",
                                        "null",
                                        ":",
                                        "shape",
                                        "32",
                                        "9223372036854775807",
                                        ",",
                                        "44",
                                        "\\u0000",
                                        "\\n",
                                        "[[[[[[[[[[[[",
                                        "dtype",
                                        "data_offsets",
                                        "__metadata__"};
    if (in->n < 2) return;
    uint32_t length = (uint32_t)in->n - 1;
    size_t at = 1 + draw(length), from = 1 + draw(length), run = 1 + draw(16);
    switch (draw(7)) {
    case 0: in->p[at] ^= (uint8_t)(1u << draw(8)); break;
    case 1: in->p[at] = (uint8_t)draw(256); break;
    case 2: in->n = at; break;
    case 3:
        if (from + run <= in->n && at + run <= in->n) memmove(in->p + at, in->p + from, run);
        break;
    case 4: replace(in, at, draw(4), words[draw(sizeof words / sizeof words[0])]); break;
    case 5: {  // a number is another one
        while (at < in->n && (in->p[at] < '0' || in->p[at] > '9')) at++;
        size_t end = at;
        while (end < in->n && in->p[end] >= '0' && in->p[end] <= '9') end++;
        char number[24];
        snprintf(number, sizeof number, "%u", draw(50));
        replace(in, at, end - at, number);
        break;
    }
    default: replace(in, at, run, ""); break;
    }
}

static int write_seeds(const char *folder) {
    for (int way = 0; way < WAYS; way++) {
        input in = good(way);
        char name[512];
        snprintf(name, sizeof name, "%s/seed-%d", folder, way);
        FILE *f = fopen(name, "wb");
        if (!f || fwrite(in.p, 1, in.n, f) != in.n || fclose(f) != 0) {
            fprintf(stderr, "fuzz_weights: cannot write %s\n", name);
            return 1;
        }
    }
    return 0;
}

static void try_one(void) {
    input in = good(draw(8) ? (int)draw(2) : ON_DISK);
    for (uint32_t k = draw(4); k; k--) spoil(&in);
    LLVMFuzzerTestOneInput(in.p, in.n);
}

int main(int argc, char **argv) {
    static const fuzzer f = {"fuzz_weights", try_one, write_seeds};
    return fuzz_main(&f, argc, argv);
}

#endif
