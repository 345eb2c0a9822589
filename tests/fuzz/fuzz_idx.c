// Fuzzes the IDX reader. The first byte of an input says which of the four files the rest is meant to be, whether it
// goes to the in-memory parser alone or, on disk beside three good files, through ls_data_open, and whether it is
// gzipped before (a fuzzer does not find its way past a checksum).
//
// With clang's libFuzzer (cmake -DLS_FUZZ=ON) that looks for inputs of its own. Built without, as it always is, main()
// below stands in for it: it spoils good files in a fixed sequence of ways, the same in every run.
//
//   fuzz_idx [--iterations N]   spoil and try
//   fuzz_idx --seeds DIR        write the good files as a corpus for libFuzzer
//   fuzz_idx FILE...            try these inputs, to see again what a fuzzer found
#define _GNU_SOURCE
#include "../idx_files.h"

#include <lockstep/status.h>

#include "../data_set.h"
#include "data/dataset.h"
#include "data/formats/idx.h"

#define TRAIN   7
#define TEST    5
#define HEIGHT  6
#define WIDTH   4
#define ON_DISK 4  // in the first byte, beside the number of the file
#define PACK    8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What must hold whatever the input; ends the run where it does not.
#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "fuzz_idx: line %d: not so: %s (last error: %s)\n", __LINE__, #condition,                  \
                    ls_error_message());                                                                               \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

static bytes good(int which) { return idx_make(which, which < 2 ? TRAIN : TEST, HEIGHT, WIDTH); }

static void in_memory(int which, const uint8_t *data, size_t size) {
    static ls__idx_file file;
    memset(&file, 0, sizeof file);
    snprintf(file.path, sizeof file.path, "input");
    file.kind = which % 2 ? LS__IDX_LABELS : LS__IDX_IMAGES;
    file.stored_bytes = (int64_t)size;
    ls_status status = ls__idx_parse(&file, data, size < LS__IDX_HEAD ? (int64_t)size : LS__IDX_HEAD);
    if (status != LS_OK) {
        MUST(status == LS_STATUS_BAD_DATA && strstr(ls_error_message(), "input"));
        return;
    }
    MUST(file.count > 0 && file.payload_bytes == file.count * file.height * file.width);
    MUST(file.payload_bytes <= (int64_t)size * 1032);
    uint8_t *payload = malloc((size_t)file.payload_bytes);
    if (file.gzip)
        status = ls__idx_unpack(&file, data, payload);
    else
        memcpy(payload, data + file.header_bytes, (size_t)file.payload_bytes);
    if (status == LS_OK && file.kind == LS__IDX_LABELS) status = ls__idx_check_labels(&file, payload, 10);
    MUST(status == LS_OK || strstr(ls_error_message(), "input"));
    free(payload);
}

static char dir[64];

static void remove_dir(void) {
    for (int i = 0; i < FILES; i++) idx_remove(dir, idx_names[i]);
    rmdir(dir);
}

static void on_disk(int which, const uint8_t *data, size_t size) {
    static int spoiled = -1;
    if (!dir[0]) {
        strcpy(dir, access("/dev/shm", W_OK) == 0 ? "/dev/shm/lockstep-fuzz-XXXXXX" : "/tmp/lockstep-fuzz-XXXXXX");
        MUST(mkdtemp(dir));
        atexit(remove_dir);
        for (int i = 0; i < FILES; i++) {
            bytes b = good(i);
            MUST(idx_write(dir, idx_names[i], b));
            free(b.p);
        }
    }
    if (spoiled >= 0 && spoiled != which) {
        bytes b = good(spoiled);
        MUST(idx_write(dir, idx_names[spoiled], b));
        free(b.p);
    }
    MUST(idx_write(dir, idx_names[which], (bytes){(uint8_t *)data, size}));
    spoiled = which;

    char spec[96];
    ls_data_host *host;
    ls_dataset *dataset;
    snprintf(spec, sizeof spec, "mnist:%s", dir);
    MUST(ls_data_host_create_self(&host) == LS_OK);
    ls_status status = ls_data_open(host, spec, &dataset);
    MUST((status == LS_OK) == (dataset != NULL));
    MUST(status == LS_OK || (status == LS_STATUS_BAD_DATA && strstr(ls_error_message(), dir)));
    if (dataset) {
        MUST(dataset->train->count > 0 && dataset->test->count > 0);
        for (int64_t i = 0; i < dataset->train->count; i++) MUST(set_of(dataset->train).labels[i] < 10);
        for (int64_t i = 0; i < dataset->test->count; i++) MUST(set_of(dataset->test).labels[i] < 10);
    }
    ls_data_close(&dataset);
    ls_data_host_destroy_self(&host);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    int which = data[0] % FILES;
    // An exact copy, so that a sanitizer sees the first byte read past the end.
    bytes copy = {malloc(size > 1 ? size - 1 : 1), size - 1};
    memcpy(copy.p, data + 1, size - 1);
    if (data[0] & PACK) {
        bytes packed = idx_gzip(copy.p, copy.n);
        free(copy.p);
        copy = packed;
    }
    if (data[0] & ON_DISK)
        on_disk(which, copy.p, copy.n);
    else
        in_memory(which, copy.p, copy.n);
    free(copy.p);
    return 0;
}

#ifndef LS_FUZZ_LIBFUZZER

#include "driver.h"

// One change to b, which has room for 64 bytes more.
static void spoil(bytes *b) {
    static const uint32_t words[] = {0, 1, 7, 0x801, 0x803, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x10000, 0x1F8B0800};
    size_t at = b->n ? draw((uint32_t)b->n) : 0, from = b->n ? draw((uint32_t)b->n) : 0, run = 1 + draw(32);
    if (b->n == 0) return;
    switch (draw(7)) {
    case 0: b->p[at] ^= (uint8_t)(1u << draw(8)); break;
    case 1: b->p[at] = (uint8_t)draw(256); break;
    case 2: b->n = at; break;
    case 3:  // more at the end
        for (size_t i = 0; i < run; i++) b->p[b->n + i] = b->p[from];
        b->n += run;
        break;
    case 4:  // a word of the header
        at = 4 * draw(4);
        if (at + 4 <= b->n) idx_be32(b->p + at, words[draw(sizeof words / sizeof words[0])]);
        break;
    case 5:  // a run from elsewhere
        if (from + run <= b->n && at + run <= b->n) memmove(b->p + at, b->p + from, run);
        break;
    default:  // a run is missing
        if (at + run <= b->n) {
            memmove(b->p + at, b->p + at + run, b->n - at - run);
            b->n -= run;
        }
    }
}

// An input of its own: a good file, spoiled before packing, after packing, or both.
static bytes make_input(void) {
    int which = (int)draw(FILES);
    bytes b = good(which);
    b.p = realloc(b.p, b.n + 512);
    if (draw(2))
        for (uint32_t i = 1 + draw(3); i; i--) spoil(&b);
    if (draw(2)) {
        bytes packed = idx_gzip(b.p, b.n);
        free(b.p);
        b = packed;
        b.p = realloc(b.p, b.n + 512);
        if (draw(2))
            for (uint32_t i = 1 + draw(3); i; i--) spoil(&b);
    }
    bytes input = {malloc(b.n + 1), b.n + 1};
    input.p[0] = (uint8_t)(which | (draw(8) ? 0 : ON_DISK));
    memcpy(input.p + 1, b.p, b.n);
    free(b.p);
    return input;
}

static int write_seeds(const char *folder) {
    for (int i = 0; i < 6 * FILES; i++) {
        bytes b = good(i % FILES), packed = idx_gzip(b.p, b.n), *from = i & 16 ? &packed : &b;
        bytes seed = {malloc(from->n + 1), from->n + 1};
        seed.p[0] = (uint8_t)(i & (ON_DISK | PACK | (FILES - 1)));
        memcpy(seed.p + 1, from->p, from->n);
        char name[32];
        snprintf(name, sizeof name, "seed-%02d", i);
        if (!idx_write(folder, name, seed)) {
            fprintf(stderr, "fuzz_idx: cannot write %s/%s\n", folder, name);
            return 1;
        }
        free(seed.p);
        free(packed.p);
        free(b.p);
    }
    return 0;
}

static void try_one(void) {
    bytes input = make_input();
    LLVMFuzzerTestOneInput(input.p, input.n);
    free(input.p);
}

int main(int argc, char **argv) {
    static const fuzzer f = {"fuzz_idx", try_one, write_seeds};
    return fuzz_main(&f, argc, argv);
}

#endif
