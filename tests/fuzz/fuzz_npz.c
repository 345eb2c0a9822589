// Fuzzes the reader of NumPy's archives.
//
// With clang's libFuzzer (cmake -DLS_FUZZ=ON) that looks for inputs of its own. Built without, as it always is, main() below
// stands in for it: it spoils good files in a fixed sequence of ways, the same in every run.
//
//   fuzz_npz [--iterations N]   spoil and try
//   fuzz_npz --seeds DIR        write a good file as a corpus for libFuzzer
//   fuzz_npz FILE...            try these inputs, to see again what a fuzzer found
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "../npz_files.h"
#include "base/memory.h"
#include "data/dataset.h"

// What must hold whatever the input; ends the run where it does not.
#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "fuzz_npz: line %d: not so: %s (last error: %s)\n", __LINE__, #condition,                  \
                    ls_error_message());                                                                               \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

static void check_sample(const ls_source *s, const ls_sample *sample) {
    const uint8_t *pixels = sample->field[0], *learned = sample->field[1];
    uint64_t sum = 0;
    for (int64_t i = 0; i < s->sample_bytes[0]; i++) sum += pixels[i];
    MUST(sum <= 255 * (uint64_t)s->sample_bytes[0]);
    if (s->field[1].classes) {
        int32_t class = *(const int32_t *)sample->field[1];
        MUST(class >= 0 && class < s->field[1].classes);
        return;
    }
    int rows = strcmp(s->field[1].name, "label") == 0, pixels_too = s->field[1].dtype == LS_DTYPE_U8;
    for (int64_t i = 0; i < s->sample_bytes[1]; i++) MUST(!rows || learned[i] <= 1);
    for (int64_t i = 0; i < s->sample_bytes[1] / 4 && !pixels_too; i++) {
        float x = ((const float *)sample->field[1])[i];
        MUST(x - x == 0);
    }
}

static void check(const ls_source *s) {
    void *scratch;
    ls_sample sample;
    MUST(ls_memory_alloc(s->scratch_bytes + 64, &scratch) == LS_OK);
    for (int64_t i = 0; i < s->count; i++) {
        if (ls_source_read(s, i, scratch, &sample) == LS_OK)
            check_sample(s, &sample);
        else
            MUST(strstr(ls_error_message(), "no finite number"));
    }
    ls_memory_free(scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int fd = -1;
    ls_data_host *host;
    ls_dataset *d;
    char spec[64];
    if (size > 1 << 20) return 0;
    if (fd < 0) fd = memfd_create("input", 0);
    MUST(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    snprintf(spec, sizeof spec, "numpy:/proc/self/fd/%d", fd);
    MUST(ls_data_host_create_self(&host) == LS_OK);
    if (ls_data_open(host, spec, &d) == LS_OK) {
        check(d->train);
        if (d->test) check(d->test);
        ls_data_close(&d);
    } else {
        MUST(strstr(ls_error_message(), "/proc/self/fd") || strstr(ls_error_message(), "set of numpy"));
    }
    ls_data_host_destroy_self(&host);
    return 0;
}

#ifndef LS_FUZZ_LIBFUZZER

#include "driver.h"

static void spoil(image_file *f) {
    if (f->size == 0) return;
    size_t at = draw((uint32_t)f->size), from = draw((uint32_t)f->size), run = 1 + draw(8);
    switch (draw(6)) {
    case 0: f->bytes[at] ^= (uint8_t)(1u << draw(8)); break;
    case 1: f->bytes[at] = (uint8_t)draw(256); break;
    case 2: f->bytes[at] = draw(2) ? 255 : '9'; break;
    case 3: f->size = at; break;
    case 4:
        if (from + run <= f->size && at + run <= f->size) memmove(f->bytes + at, f->bytes + from, run);
        break;
    default:
        if (at + run > f->size) break;
        memmove(f->bytes + at, f->bytes + at + run, f->size - at - run);
        f->size -= run;
    }
}

static image_file make(int which) { return which ? npz_make_rows(which - 1) : npz_make(); }

static void try_one(void) {
    static image_file good[4];
    image_file f = {NULL, 0, 0}, *g = &good[draw(4)];
    if (!g->bytes) *g = make((int)(g - good));
    image_add(&f, g->bytes, g->size);
    for (uint32_t i = draw(4); i; i--) spoil(&f);
    LLVMFuzzerTestOneInput(f.bytes, f.size);
    free(f.bytes);
}

static int write_seeds(const char *folder) {
    for (int i = 0; i < 4; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/seed-%d", folder, i);
        if (image_save(make(i), path)) continue;
        fprintf(stderr, "fuzz_npz: cannot write %s\n", path);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    static const fuzzer f = {"fuzz_npz", try_one, write_seeds};
    return fuzz_main(&f, argc, argv);
}

#endif
