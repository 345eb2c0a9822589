// Fuzzes what lists say of samples: lists of labels (csv:FILE,names=LIST), tables of many labels, of numbers and of numbers that are learned, lists of samples that are left out (by name and by
// number, of a table, an archive, and of a dataset whose samples have no names), and RecordIO with several labels. The first byte of an input says which; the rest is the
// file.
//
// With clang's libFuzzer (cmake -DLS_FUZZ=ON) that looks for inputs of its own. Built without, as it always is, main() below
// stands in for it: it spoils good files in a fixed sequence of ways, the same in every run.
//
//   fuzz_lists [--iterations N]   spoil and try
//   fuzz_lists --seeds DIR        write good files as a corpus for libFuzzer
//   fuzz_lists FILE...            try these inputs, to see again what a fuzzer found
#include "../containers.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "data/dataset.h"

// What must hold whatever the input; ends the run where it does not.
#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "fuzz_lists: line %d: not so: %s (last error: %s)\n", __LINE__, #condition,                \
                    ls_error_message());                                                                               \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

enum {
    NAMES,
    TABLE,
    OUT_OF_TABLE,
    OUT_OF_TAR,
    OUT_OF_NUMBERS,
    SEVERAL,
    NUMBERS,
    PIXELS,
    LEARNED,
    TARGETS,
    WIDE,
    KINDS
};

// A file of memory, by a path that does not depend on what else is open.
static int memory_file(const void *bytes, size_t size) {
    int fd = memfd_create("file", 0);
    MUST(fd >= 0 && pwrite(fd, bytes, size, 0) == (ssize_t)size);
    return fd;
}

typedef struct fixed {
    int list, table, classes, tar;  // files; `list` is the input's
} fixed;

static const fixed *files(void) {
    static fixed f;
    static int made;
    char text[400];
    if (made) return &f;
    made = 1;
    f.list = memfd_create("list", 0);
    MUST(f.list >= 0);
    // The pictures are the list itself, under several names.
    int n = snprintf(text, sizeof text,
                     "path,labels\n/proc/self/fd/%d,a|b\n/proc/self/fd/../fd/%d,No Finding\n/proc/self/./fd/%d,b\n",
                     f.list, f.list, f.list);
    f.table = memory_file(text, (size_t)n);
    n = snprintf(text, sizeof text, "path,label\n/proc/self/fd/%d,x\n/proc/self/fd/../fd/%d,y\n/proc/self/./fd/%d,x\n",
                 f.list, f.list, f.list);
    f.classes = memory_file(text, (size_t)n);
    image_file tar = container_make(0);
    f.tar = memory_file(tar.bytes, tar.size);
    free(tar.bytes);
    return &f;
}

static void make_spec(int kind, char *text, size_t size) {
    const fixed *f = files();
    switch (kind) {
    case NAMES: snprintf(text, size, "csv:/proc/self/fd/%d,names=/proc/self/fd/%d", f->table, f->list); break;
    case TABLE: snprintf(text, size, "csv:/proc/self/fd/%d,columns=all", f->list); break;
    case OUT_OF_TABLE:
        snprintf(text, size, "csv:/proc/self/fd/%d,exclude=/proc/self/fd/%d", f->classes, f->list);
        break;
    case OUT_OF_TAR:
        snprintf(text, size, "tar:/proc/self/fd/%d,validation-split=0.4,exclude=/proc/self/fd/%d", f->tar, f->list);
        break;
    case OUT_OF_NUMBERS: snprintf(text, size, "synthetic:2x2x1,3,70,9,exclude=/proc/self/fd/%d", f->list); break;
    case WIDE:  // lines too long to be kept in memory
    case NUMBERS: snprintf(text, size, "csv:/proc/self/fd/%d,numbers=all,validation-split=0.3", f->list); break;
    case PIXELS: snprintf(text, size, "csv:/proc/self/fd/%d,pixels=2x1x1", f->list); break;
    case LEARNED: snprintf(text, size, "csv:/proc/self/fd/%d,numbers=all,targets=y", f->list); break;
    case TARGETS: snprintf(text, size, "csv:/proc/self/fd/%d,targets=all", f->list); break;
    default: snprintf(text, size, "recordio:/proc/self/fd/%d", f->list);
    }
}

static void look_at(const ls_source *s) {
    void *scratch = NULL;
    int64_t before = -1;
    MUST(s->count >= 1);
    if (s->scratch_bytes) MUST(ls_memory_alloc(s->scratch_bytes, &scratch) == LS_OK);
    for (int64_t i = 0; i < s->count; i++) {
        ls_sample sample;
        int64_t number = ls_source_number(s, i);
        MUST(number > before && number < LS_MAX_SAMPLES);
        before = number;
        ls_status status = ls_source_read(s, i, scratch, &sample);
        MUST(status == LS_OK || ls_field_is_picture(&s->field[0]));
        if (status != LS_OK) continue;
        for (int64_t k = 0; k < ls_shape_count(s->field[0].shape) && s->field[0].dtype == LS_DTYPE_F32; k++) {
            float x = ((const float *)sample.field[0])[k];
            MUST(x - x == 0);
        }
        if (s->field_count < 2) continue;
        int is_target = strcmp(s->field[1].name, "target") == 0;
        for (int64_t k = 0; k < ls_shape_count(s->field[1].shape) && is_target; k++) {
            float x = ((const float *)sample.field[1])[k];
            MUST(x - x == 0);
        }
        int64_t labels = s->field[1].classes || is_target ? 0 : ls_shape_count(s->field[1].shape);
        for (int64_t k = 0; k < labels; k++) MUST(((const uint8_t *)sample.field[1])[k] <= 1);
        if (s->field[1].classes && s->field[1].dtype == LS_DTYPE_I32) {
            int32_t class = *(const int32_t *)sample.field[1];
            MUST(class >= 0 && class < s->field[1].classes);
        }
    }
    if (s->inner) MUST(s->count < s->inner->count && before < s->inner->count);
    ls_memory_free(scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ls_data_host *host;
    ls_dataset *d;
    char spec[200];
    if (size < 1 || size > 1 << 16) return 0;
    int kind = data[0] % KINDS, fd = files()->list;
    MUST(ftruncate(fd, 0) == 0 && pwrite(fd, data + 1, size - 1, 0) == (ssize_t)size - 1);
    make_spec(kind, spec, sizeof spec);
    MUST(ls_data_host_create_self(&host) == LS_OK);
    if (ls_data_open(host, spec, &d) == LS_OK) {
        look_at(d->train);
        if (d->test) look_at(d->test);
        ls_data_close(&d);
    } else {
        MUST(ls_error_message()[0]);
    }
    ls_data_host_destroy_self(&host);
    return 0;
}

#ifndef LS_FUZZ_LIBFUZZER

#include "driver.h"

static image_file make(int kind) {
    image_file f = {NULL, 0, 0};
    char text[400];
    const fixed *of = files();
    if (kind == SEVERAL) {
        for (int i = 0; i < 3; i++) {
            uint32_t head[2 + 6] = {0xced7230a, 24 + 4 * 3 + 4, 3};
            const float row[3] = {1, 0, (float)(i % 2)};
            image_add(&f, head, sizeof head);
            image_add(&f, row, sizeof row);
            image_add(&f, "JPEG", 4);
        }
        return f;
    }
    for (int line = 0; line < 5 && kind == WIDE; line++)
        for (int i = 0; i <= 70; i++) {
            snprintf(text, sizeof text, line ? "%s%d%s" : "%sc%d%s", line % 2 ? " " : "", line ? line * i : i,
                     i < 70 ? "," : "\n");
            if (i == 70) snprintf(text, sizeof text, line ? "%s%d%s" : "class\n", "\"", line % 2, "\"\r\n");
            image_add(&f, text, strlen(text));
        }
    if (kind == WIDE) return f;
    switch (kind) {
    case NAMES: snprintf(text, sizeof text, "b\r\n\n  a \n"); break;
    case TABLE:
        snprintf(text, sizeof text, "path,a,\"b, c\",d\n/proc/self/fd/%d,1,0,1\n/proc/self/fd/../fd/%d,,1.0,0.0\n",
                 of->list, of->list);
        break;
    case NUMBERS: snprintf(text, sizeof text, "a;b;class\n1;2.5;x\n-3e2;.5;y\n7;\"8\";x\n0x1p3;9;x\n"); break;
    case PIXELS: snprintf(text, sizeof text, "label,p,q\n3,0,255\n1,7.0,9\n"); break;
    case LEARNED: snprintf(text, sizeof text, "a\ty\tb\n1\t2\t3\n4\t5e-1\t6\n1\t2\t3\n"); break;
    case TARGETS:
        snprintf(text, sizeof text, "path,a,b\n/proc/self/fd/%d,1.5,-2\n/proc/self/fd/../fd/%d,1,1e3\n", of->list,
                 of->list);
        break;
    case OUT_OF_TABLE: snprintf(text, sizeof text, "# broken\n/proc/self/fd/../fd/%d\r\ntrain:1\n", of->list); break;
    case OUT_OF_TAR:
        snprintf(text, sizeof text,
                 "\xef\xbb\xbf"
                 "0000000003\n\ntest:0\ntrain:0-1\n");
        break;
    default: snprintf(text, sizeof text, "train:0\ntrain:5-17\ntest:3\ntrain:9-20\ntrain:69\n");
    }
    image_add(&f, text, strlen(text));
    return f;
}

static void spoil(image_file *f) {
    static const char words[][8] = {"train:", "test:", "-", "|", "\n", "0", "99", "#", ",", "\""};
    if (f->size == 0) return;
    size_t at = draw((uint32_t)f->size), from = draw((uint32_t)f->size), run = 1 + draw(12);
    const char *word = words[draw(sizeof words / sizeof words[0])];
    switch (draw(6)) {
    case 0: f->bytes[at] ^= (uint8_t)(1u << draw(8)); break;
    case 1: f->bytes[at] = (uint8_t)draw(256); break;
    case 2: f->size = at; break;
    case 3:
        if (at + strlen(word) <= f->size) memcpy(f->bytes + at, word, strlen(word));
        break;
    case 4:
        if (from + run <= f->size && at + run <= f->size) memmove(f->bytes + at, f->bytes + from, run);
        break;
    default:
        if (at + run > f->size) break;
        memmove(f->bytes + at, f->bytes + at + run, f->size - at - run);
        f->size -= run;
    }
}

static void try_one(void) {
    uint8_t first = (uint8_t)draw(KINDS);
    image_file input = {NULL, 0, 0}, f = make(first);
    for (uint32_t i = draw(5); i; i--) spoil(&f);
    image_add(&input, &first, 1);
    image_add(&input, f.bytes, f.size);
    LLVMFuzzerTestOneInput(input.bytes, input.size);
    free(input.bytes);
    free(f.bytes);
}

static int write_seeds(const char *folder) {
    for (int kind = 0; kind < KINDS; kind++) {
        char path[512];
        image_file f = make(kind), whole = {NULL, 0, 0};
        uint8_t first = (uint8_t)kind;
        snprintf(path, sizeof path, "%s/seed-%d", folder, kind);
        image_add(&whole, &first, 1);
        image_add(&whole, f.bytes, f.size);
        free(f.bytes);
        if (image_save(whole, path)) continue;
        fprintf(stderr, "fuzz_lists: cannot write %s\n", path);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    static const fuzzer f = {"fuzz_lists", try_one, write_seeds};
    return fuzz_main(&f, argc, argv);
}

#endif
