// Fuzzes the readers of containers, tar, TFRecord, RecordIO and LMDB, and of tables (csv). The first byte of an input says which, and whether checksums are mended before; the
// rest is the file.
//
// With clang's libFuzzer (cmake -DLS_FUZZ=ON) that looks for inputs of its own. Built without, as it always is, main() below
// stands in for it: it spoils good files in a fixed sequence of ways, the same in every run.
//
//   fuzz_containers [--iterations N]   spoil and try
//   fuzz_containers --seeds DIR        write good files as a corpus for libFuzzer
//   fuzz_containers FILE...            try these inputs, to see again what a fuzzer found
#include "../containers.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/memory.h"
#include "data/dataset.h"

// What must hold whatever the input; ends the run where it does not.
#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "fuzz_containers: line %d: not so: %s (last error: %s)\n", __LINE__, #condition,           \
                    ls_error_message());                                                                               \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

// In the first byte: beside the format; those behind the containers, of one class for each image, of lists of labels and of columns of labels.
// TFRecords with several labels, which are numbers where OTHER is set.
enum { MEND = 8, OTHER = 16, TABLE = CONTAINERS, LISTS, COLUMNS, ROWS, KINDS };

static uint64_t number(const uint8_t *p, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | p[i];
    return value;
}

static void put(uint8_t *p, uint32_t value) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(value >> 8 * i);
}

// What a fuzzer does not find its way past: sums of headers and of records.
static void mend(int format, uint8_t *p, size_t size) {
    for (size_t at = 0; format == 0 && at + 512 <= size; at += 512) {
        unsigned sum = 0;
        char text[8];
        if (memcmp(p + at + 257, "ustar", 5) != 0) continue;
        for (int i = 0; i < 512; i++) sum += i >= 148 && i < 156 ? ' ' : p[at + (size_t)i];
        snprintf(text, sizeof text, "%06o", sum);
        memcpy(p + at + 148, text, 7);
    }
    for (size_t at = 0; (format == 1 || format == ROWS) && at + 16 <= size;) {
        uint64_t length = number(p + at, 8);
        put(p + at + 8, ls_crc32c_masked(p + at, 8));
        if (length > size - at - 16) return;
        put(p + at + 12 + length, ls_crc32c_masked(p + at + 12, (int64_t)length));
        at += 16 + (size_t)length;
    }
}

// A sentence names the file; a table's names files of its own.
static int names_file(int format) { return format >= TABLE || strstr(ls_error_message(), "/proc/self/fd") != NULL; }

static void read_all(const ls_source *s, int format) {
    void *scratch;
    MUST(ls_memory_alloc(s->scratch_bytes, &scratch) == LS_OK);
    for (int64_t i = 0; i < s->count; i++) {
        ls_sample sample;
        if (ls_source_read(s, i, scratch, &sample) != LS_OK) {
            MUST(names_file(format));
            continue;
        }
        const ls_picture *p = sample.field[0];
        const unsigned char *bytes = p->bytes;
        unsigned sum = 0;
        MUST(p->size >= 0 && bytes + p->size <= (unsigned char *)scratch + s->scratch_bytes);
        for (int64_t k = 0; k < p->size; k++) sum += bytes[k];
        MUST(sum <= 255 * (uint64_t)p->size);
        ls_image image;
        if (p->raw.height && p->size < 1 << 16 && ls_image_file_load(p, 3, &image) == LS_OK) ls_image_free(&image);
        const uint8_t *row = sample.field[1];
        for (int64_t k = 0; !s->field[1].classes && k < s->field[1].shape.dim[0]; k++) MUST(row[k] <= 1);
        if (!s->field[1].classes) continue;
        int32_t class = *(const int32_t *)sample.field[1];
        MUST(class >= 0 && class < s->field[1].classes);
    }
    ls_memory_free(scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int fd = -1;
    static ls_data_host *host;
    if (size < 1 || size > 1 << 20) return 0;
    int format = data[0] % MEND % KINDS;
    uint8_t *copy = malloc(size);
    memcpy(copy, data + 1, size - 1);
    if (data[0] & MEND) mend(format, copy, size - 1);
    if (fd < 0) fd = memfd_create("input", 0);
    MUST(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, copy, size - 1, 0) == (ssize_t)size - 1);
    free(copy);
    char spec[64];
    snprintf(spec, sizeof spec, "%s:/proc/self/fd/%d%s",
             format == ROWS    ? "tfrecord"
             : format >= TABLE ? "csv"
                               : container_formats[format],
             fd,
             format == COLUMNS                     ? ",columns=all"
             : format == ROWS && (data[0] & OTHER) ? ",labels=l,label-count=3"
             : format == ROWS                      ? ",labels=l"
                                                   : "");
    ls_dataset *d;
    MUST(ls_data_host_create_self(&host) == LS_OK);
    if (ls_data_open(host, spec, &d) == LS_OK) {
        read_all(d->train, format);
        ls_data_close(&d);
    } else {
        MUST(names_file(format));
    }
    ls_data_host_destroy_self(&host);
    return 0;
}

#ifndef LS_FUZZ_LIBFUZZER

#include "driver.h"

static void spoil(image_file *f) {
    if (f->size == 0) return;
    size_t at = draw((uint32_t)f->size), from = draw((uint32_t)f->size), run = 1 + draw(16);
    if (draw(2)) at = at / 512 * 512 + draw(200) < f->size ? at / 512 * 512 + draw(200) : at;  // headers, mostly
    if (at >= f->size) at = 0;
    switch (draw(6)) {
    case 0: f->bytes[at] ^= (uint8_t)(1u << draw(8)); break;
    case 1: f->bytes[at] = (uint8_t)draw(256); break;
    case 2: f->size = at; break;
    case 3: f->bytes[at] = draw(2) ? 255 : 0; break;
    case 4:
        if (from + run <= f->size && at + run <= f->size) memmove(f->bytes + at, f->bytes + from, run);
        break;
    default:
        if (at + run > f->size) break;
        memmove(f->bytes + at, f->bytes + at + run, f->size - at - run);
        f->size -= run;
    }
}

// Its files are the table itself, which the first file that is opened is.
static image_file make(int format) {
    static const char text[] =
        "path,note,label\r\n\"/proc/self/fd/3\",\"a \"\"b\"\"\",dog\n/proc/self/fd/3,,cat\n/proc/self/fd/3,;,7\n";
    static const char lists[] =
        "path,labels\r\n\"/proc/self/fd/3\",\"b|a\"\n/proc/self/fd/../fd/3,No Finding\n/dev/fd/3,c\n";
    static const char columns[] = "path,a,b\n/proc/self/fd/3,1,0\n/dev/fd/3,0.0,1.0\n";
    image_file f = {NULL, 0, 0};
    if (format < TABLE) return container_make(format);
    if (format == TABLE) image_add(&f, text, sizeof text - 1);
    if (format == LISTS) image_add(&f, lists, sizeof lists - 1);
    if (format == COLUMNS) image_add(&f, columns, sizeof columns - 1);
    if (format == ROWS) {
        container_example(&f, "\x1a\5\x0a\3\1\0\1", 7);
        container_example(&f, "\x12\x0e\x0a\x0c\0\0\x80\x3f\0\0\0\0\0\0\x80\x3f", 16);
        container_example(&f, "\x1a\6\x08\0\x08\1\x08\0", 8);
    }
    return f;
}

static void try_one(void) {
    static image_file good[KINDS];
    uint8_t first = (uint8_t)(draw(KINDS) | (draw(4) ? MEND : 0) | (draw(2) ? OTHER : 0));
    image_file *g = &good[first % MEND], input = {NULL, 0, 0}, f = {NULL, 0, 0};
    if (!g->bytes) *g = make(first % MEND);
    image_add(&f, g->bytes, g->size);
    for (uint32_t i = draw(5); i; i--) spoil(&f);
    image_add(&input, &first, 1);
    image_add(&input, f.bytes, f.size);
    LLVMFuzzerTestOneInput(input.bytes, input.size);
    free(input.bytes);
    free(f.bytes);
}

static int write_seeds(const char *folder) {
    for (int format = 0; format < KINDS; format++) {
        char path[512];
        image_file f = make(format), whole = {NULL, 0, 0};
        uint8_t first = (uint8_t)(format | MEND);
        snprintf(path, sizeof path, "%s/seed-%d", folder, format);
        image_add(&whole, &first, 1);
        image_add(&whole, f.bytes, f.size);
        free(f.bytes);
        if (image_save(whole, path)) continue;
        fprintf(stderr, "fuzz_containers: cannot write %s\n", path);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    static const fuzzer f = {"fuzz_containers", try_one, write_seeds};
    return fuzz_main(&f, argc, argv);
}

#endif
