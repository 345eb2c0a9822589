// Fuzzes the reader of kept indexes (data/index.h). An input is the file; its checksum and key are mended, which a fuzzer does not find its way past.
//
// With clang's libFuzzer (cmake -DLS_FUZZ=ON) that looks for inputs of its own. Built without, as it always is, main() below stands in for
// it: it spoils a good file in a fixed sequence of ways, the same in every run.
//
//   fuzz_index [--iterations N]   spoil and try
//   fuzz_index --seeds DIR        write a good file as a corpus for libFuzzer
//   fuzz_index FILE...            try these inputs, to see again what a fuzzer found
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "data/image.h"
#include "data/index.h"

// What must hold whatever the input; ends the run where it does not.
#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "fuzz_index: line %d: not so: %s\n", __LINE__, #condition);                                \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

static const char key[] = "images:/data from ";

static void look_at_text(const ls_records_builder *b, int64_t where) {
    MUST(where >= 0 && where < b->text_size && where + (int64_t)strlen(b->text + where) < b->text_size);
}

// All that readers take for granted.
static void look_at(const ls_records_builder *b) {
    MUST(b->count[0] > 0 && b->class_count > 0);
    for (int64_t i = 0; i < b->witness_count; i++) look_at_text(b, b->witness[i].name);
    for (int64_t i = 0; i < b->file_count; i++) look_at_text(b, b->file[i].name);
    for (int64_t i = 0; i < b->class_count; i++)
        if (b->class_name[i] >= 0) look_at_text(b, b->class_name[i]);
    MUST(b->label_width == 0 || b->label_width == b->class_count);
    for (int64_t i = 0; i < b->label_count * b->label_width; i++) {
        float value = 0;
        if (b->targets) memcpy(&value, b->label + 4 * i, sizeof value);
        MUST(b->targets ? value - value == 0 : b->label[i] <= 1);
    }
    for (int s = 0; s < LS_RECORDS_SETS; s++)
        for (int64_t i = 0; i < b->count[s]; i++) {
            const ls_record *r = &b->record[s][i];
            MUST(r->file < b->file_count && r->class >= 0);
            MUST(r->class < (b->label_width ? b->label_count : b->class_count));
            MUST(r->at >= 0 && r->bytes >= 0 && r->bytes <= LS_IMAGE_MAX_FILE);
            MUST(r->at + r->bytes <= b->file[r->file].bytes && (int64_t)r->skip + r->size <= r->bytes);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ls_records_builder b = {.file = NULL};
    if (size > 1 << 20) return 0;
    char *copy = aligned_alloc(64, (size + 64) / 64 * 64);
    memcpy(copy, data, size);
    if (size > 8 && size % 8 == 0) {
        uint64_t sum = ls_crc32c(copy, (int64_t)size - 8);
        memcpy(copy + size - 8, &sum, 8);
    }
    if (!ls__index_parse(copy, (int64_t)size, key, &b)) look_at(&b);
    ls_records_free(&b);
    free(copy);
    return 0;
}

#ifndef LS_FUZZ_LIBFUZZER

#include <unistd.h>

#include "driver.h"

// Good files, by the writer: of classes, of several labels, of numbers.
enum { CLASSES, LABELS, TARGETS, KINDS };
static uint8_t all[KINDS][1 << 14];
static size_t sizes[KINDS];

// Rows of three for the samples.
static void add_rows(ls_records_builder *b, int kind) {
    b->label_width = 3;
    b->targets = kind == TARGETS;
    for (int s = 0; s < LS_RECORDS_SETS; s++)
        for (int64_t i = 0; i < b->count[s]; i++) {
            float numbers[3] = {(float)i, -0.5F, 1e9F};
            uint8_t row[3] = {i % 2, i % 3 == 0, 1};
            MUST(ls_records_add_row(b, kind == TARGETS ? (const uint8_t *)numbers : row, &b->record[s][i].class) ==
                 LS_OK);
        }
}

static void make_one(int kind) {
    uint8_t *good = all[kind];
    size_t good_size;
    ls_records_builder b = {.file = NULL};
    char path[] = "/tmp/lockstep-fuzz-index-XXXXXX", note[512];
    uint32_t number;
    for (int c = 0; c < 3; c++) MUST(ls_records_add_class(&b, c ? "dog" : NULL) == LS_OK);
    for (int f = 0; f < 5; f++) {
        MUST(ls_records_add_file(&b, "/data/some.tar", 1000, 7, &number) == LS_OK);
        for (int i = 0; i < 4; i++)
            MUST(ls_records_add(
                     &b, i % 2,
                     (ls_record){.at = 100 * i, .bytes = 90, .file = number, .class = f % 3, .skip = 10, .size = 80}) ==
                 LS_OK);
    }
    if (kind != CLASSES) add_rows(&b, kind);
    MUST(ls_records_witness(&b, LS_WITNESS_FOLDER, "/") == LS_OK);
    int fd = mkstemp(path);
    MUST(fd >= 0 && setenv("LOCKSTEP_INDEX_SECONDS", "0", 1) == 0);
    b.witness[0].changed = 0;
    ls__index_write(path, key, &b, 1, note, sizeof note);
    FILE *f = fopen(path, "rb");
    MUST(note[0] == 0 && f);
    sizes[kind] = good_size = fread(good, 1, sizeof all[0], f);
    fclose(f);
    close(fd);
    unlink(path);
    ls_records_free(&b);
    MUST(good_size > 500 && good_size < sizeof all[0]);
    MUST(!ls__index_parse(good, (int64_t)good_size, key, &b));
    ls_records_free(&b);
}

static void make(void) {
    for (int kind = 0; kind < KINDS; kind++) make_one(kind);
}

static void try_one(void) {
    static uint8_t input[sizeof all[0]];
    if (!sizes[0]) make();
    int kind = (int)draw(KINDS);
    const uint8_t *good = all[kind];
    size_t good_size = sizes[kind], size = good_size;
    memcpy(input, good, size);
    for (uint32_t i = draw(4) + 1; i; i--) {
        size_t at = draw(2) ? draw(128) : draw((uint32_t)good_size);
        switch (draw(5)) {
        case 0: input[at] ^= (uint8_t)(1u << draw(8)); break;
        case 1: input[at] = (uint8_t)draw(256); break;
        case 2: memset(input + at / 8 * 8, draw(2) ? 255 : 0, 8); break;
        case 3: size = draw(4) ? size : draw((uint32_t)size + 1) / 8 * 8; break;
        default: memcpy(input + at / 8 * 8, input + draw((uint32_t)good_size) / 8 * 8, 8);
        }
    }
    LLVMFuzzerTestOneInput(input, size);
}

static int write_seeds(const char *folder) {
    char path[512];
    make();
    int failed = 0;
    for (int kind = 0; kind < KINDS && !failed; kind++) {
        snprintf(path, sizeof path, "%s/seed%d", folder, kind);
        FILE *f = fopen(path, "wb");
        failed = !(f && fwrite(all[kind], 1, sizes[kind], f) == sizes[kind] && fclose(f) == 0);
    }
    return failed;
}

int main(int argc, char **argv) {
    static const fuzzer f = {"fuzz_index", try_one, write_seeds};
    return fuzz_main(&f, argc, argv);
}

#endif
