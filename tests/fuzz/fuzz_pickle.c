// Fuzzes the reader of pickles. The first byte of an input says whether the rest goes to the in-memory reader alone or,
// on disk as the training set of a small CIFAR-100, through ls_data_open; there also as a file of binary records.
//
// With clang's libFuzzer (cmake -DLS_FUZZ=ON) that looks for inputs of its own. Built without, as it always is, main()
// below stands in for it: it spoils good files in a fixed sequence of ways, the same in every run.
//
//   fuzz_pickle [--iterations N]   spoil and try
//   fuzz_pickle --seeds DIR        write good files as a corpus for libFuzzer
//   fuzz_pickle FILE...            try these inputs, to see again what a fuzzer found
#define _GNU_SOURCE
#include <lockstep/status.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../cifar_files.h"
#include "../data_set.h"
#include "data/dataset.h"
#include "data/formats/pickle.h"

enum { IN_MEMORY, ON_DISK, RECORDS, WAYS };
enum { COUNT = 2, CLASSES = 100 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What must hold whatever the input; ends the run where it does not.
#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "fuzz_pickle: line %d: not so: %s (last error: %s)\n", __LINE__, #condition,               \
                    ls_error_message());                                                                               \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

static void in_memory(const uint8_t *data, size_t size) {
    ls__pickle *pickle;
    ls_status status = ls__pickle_parse("input", data, (int64_t)size, &pickle);
    MUST((status == LS_OK) == (pickle != NULL));
    if (!pickle) {
        MUST(status == LS_STATUS_BAD_DATA && strstr(ls_error_message(), "input"));
        return;
    }
    const ls__pickle_value *array = ls__pickle_find(ls__pickle_root(pickle), "data");
    if (array && array->kind == LS__PICKLE_ARRAY && array->node->built) {
        int64_t bytes = 1;
        for (int i = 0; i < array->node->ndim; i++) bytes *= array->node->dim[i];
        MUST(array->node->data >= data && bytes <= (int64_t)size - (array->node->data - data));
    }
    ls__pickle_free(&pickle);
}

static char dir[64];
static const char *const names[] = {"train", "train.bin", "test", "test.bin"};

static const char *path_of(int which) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, names[which]);
    return path;
}

static void remove_dir(void) {
    for (int i = 0; i < 4; i++) unlink(path_of(i));
    rmdir(dir);
}

static cifar_file good(int records, int which) {
    cifar_recipe r = {.which = which, .classes = CLASSES, .count = COUNT};
    return records ? cifar_records(which, CLASSES, COUNT) : cifar_pickle(&r);
}

static void on_disk(int records, const uint8_t *data, size_t size) {
    if (!dir[0]) {
        strcpy(dir, access("/dev/shm", W_OK) == 0 ? "/dev/shm/lockstep-fuzz-XXXXXX" : "/tmp/lockstep-fuzz-XXXXXX");
        MUST(mkdtemp(dir));
        atexit(remove_dir);
    }
    remove_dir();
    MUST(mkdir(dir, 0700) == 0);
    cifar_file test = good(records, 1);
    MUST(cifar_save(path_of(2 + records), test.p, test.n));
    MUST(cifar_save(path_of(records), data, size));
    free(test.p);

    char spec[96];
    ls_data_host *host;
    ls_dataset *dataset;
    snprintf(spec, sizeof spec, "cifar100:%s", dir);
    MUST(ls_data_host_create_self(&host) == LS_OK);
    ls_status status = ls_data_open(host, spec, &dataset);
    MUST((status == LS_OK) == (dataset != NULL));
    MUST(status == LS_OK || (status == LS_STATUS_BAD_DATA && strstr(ls_error_message(), dir)));
    if (dataset) {
        MUST(dataset->train->count > 0 && dataset->test->count == COUNT);
        for (int64_t i = 0; i < dataset->train->count; i++) MUST(set_of(dataset->train).labels[i] < CLASSES);
    }
    ls_data_close(&dataset);
    ls_data_host_destroy_self(&host);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    // An exact copy, so that a sanitizer sees the first byte read past the end.
    uint8_t *copy = malloc(size > 1 ? size - 1 : 1);
    memcpy(copy, data + 1, size - 1);
    if (data[0] % WAYS == IN_MEMORY)
        in_memory(copy, size - 1);
    else
        on_disk(data[0] % WAYS == RECORDS, copy, size - 1);
    free(copy);
    return 0;
}

#ifndef LS_FUZZ_LIBFUZZER

#include "driver.h"

// A place in the file: mostly outside the pixels, of which a change is none to the reader.
static size_t draw_place(const cifar_file *f) {
    size_t edge = f->n < 700 ? f->n : 350;
    if (f->n < 700 || draw(8) == 0) return draw((uint32_t)f->n);
    return draw(2) ? draw((uint32_t)edge) : f->n - 1 - draw((uint32_t)edge);
}

// One change.
static void spoil(cifar_file *f) {
    static const uint8_t opcodes[] =
        "(.JKMNRTU]abcehjqrst)u}\x80\x85\x86\x87\x88\x89"
        "0dgilopIX\x81\x93\x94\xff";
    if (f->n == 0) return;
    size_t at = draw_place(f), from = draw_place(f), run = 1 + draw(16);
    switch (draw(7)) {
    case 0: f->p[at] ^= (uint8_t)(1u << draw(8)); break;
    case 1: f->p[at] = (uint8_t)draw(256); break;
    case 2: f->p[at] = opcodes[draw(sizeof opcodes - 1)]; break;
    case 3: f->n = at; break;
    case 4:  // a run from elsewhere
        if (from + run <= f->n && at + run <= f->n) memmove(f->p + at, f->p + from, run);
        break;
    case 5:  // a run again
        if (from + run > f->n) break;
        cifar_add(f, f->p, run);  // room for it
        memmove(f->p + at + run, f->p + at, f->n - run - at);
        memmove(f->p + at, f->p + from, run);
        break;
    default:  // a run is missing
        if (at + run > f->n) break;
        memmove(f->p + at, f->p + at + run, f->n - at - run);
        f->n -= run;
    }
}

// An input of its own: a good file, spoiled.
static cifar_file make_input(void) {
    uint8_t way = draw(8) ? IN_MEMORY : (uint8_t)(1 + draw(2));
    cifar_file file = good(way == RECORDS, 0), input = {0};
    for (uint32_t i = 1 + draw(4); i; i--) spoil(&file);
    cifar_add(&input, &way, 1);
    cifar_add(&input, file.p, file.n);
    free(file.p);
    return input;
}

static int write_seeds(const char *folder) {
    for (uint8_t way = 0; way < WAYS; way++) {
        cifar_file file = good(way == RECORDS, 0), seed = {0};
        char path[512];
        cifar_add(&seed, &way, 1);
        cifar_add(&seed, file.p, file.n);
        snprintf(path, sizeof path, "%s/seed-%d", folder, way);
        int saved = cifar_save(path, seed.p, seed.n);
        free(seed.p);
        free(file.p);
        if (!saved) {
            fprintf(stderr, "fuzz_pickle: cannot write %s\n", path);
            return 1;
        }
    }
    return 0;
}

static void try_one(void) {
    cifar_file input = make_input();
    LLVMFuzzerTestOneInput(input.p, input.n);
    free(input.p);
}

int main(int argc, char **argv) {
    static const fuzzer f = {"fuzz_pickle", try_one, write_seeds};
    return fuzz_main(&f, argc, argv);
}

#endif
