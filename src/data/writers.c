// What readers in formats/ read, written. Sources are there.
#include "data/writers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/protobuf.h"
#include "data/records.h"

static int put(FILE *file, const void *bytes, int64_t size) {
    return fwrite(bytes, 1, (size_t)size, file) == (size_t)size ? 0 : -1;
}

static void little(unsigned char *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) to[i] = (unsigned char)(value >> 8 * i);
}

// --- tar -------------------------------------------------------------------------------------------------------------

enum { BLOCK = 512 };

// Time, owner and mode are the same for all: equal samples, equal archives.
static int tar_member(FILE *file, const char *name, const void *bytes, int64_t size) {
    static const char none[BLOCK];
    char h[BLOCK] = "";
    unsigned sum = 0;
    snprintf(h, 100, "%s", name);
    memcpy(h + 100,
           "0000644\0"
           "0000000\0"
           "0000000\0",
           24);
    snprintf(h + 124, 12, "%011llo", (unsigned long long)size);
    memcpy(h + 136,
           "00000000000\0"
           "        "
           "0",
           21);
    memcpy(h + 257,
           "ustar\0"
           "00",
           8);
    for (int i = 0; i < BLOCK; i++) sum += (unsigned char)h[i];
    snprintf(h + 148, 8, "%06o", sum);
    h[155] = ' ';
    if (put(file, h, BLOCK) != 0 || put(file, bytes, size) != 0) return -1;
    return put(file, none, (BLOCK - size % BLOCK) % BLOCK);
}

static int tar_add(FILE *file, const ls_written *s) {
    char name[64], class[16];
    snprintf(name, sizeof name, "%010lld.%s", (long long)s->number, s->ending);
    if (tar_member(file, name, s->image, s->size) != 0) return -1;
    snprintf(name, sizeof name, "%010lld.cls", (long long)s->number);
    return tar_member(file, name, class, snprintf(class, sizeof class, "%d", s->class));
}

static int tar_end(FILE *file) {
    static const char none[2 * BLOCK];
    return put(file, none, sizeof none);
}

// --- TFRecord --------------------------------------------------------------------------------------------------------

// An entry of a map of names to features: a list of bytes (1), or of one number (3), packed.
static void feature(ls_pb_out *m, const char *name, int list, const void *bytes, int64_t number) {
    int64_t begin = m->size;
    ls_pb_put_text(m, 1, name);
    int64_t value = m->size;
    if (bytes)
        ls_pb_raw(m, bytes, number);
    else
        ls_pb_varint(m, (uint64_t)number);
    ls_pb_wrap(m, 1, value);
    ls_pb_wrap(m, list, value);
    ls_pb_wrap(m, 2, value);
    ls_pb_wrap(m, 1, begin);
}

// Features in the order of their names.
static int tfrecord_add(FILE *file, const ls_written *s) {
    int png = strcmp(s->ending, "png") == 0;
    unsigned char frame[12], sum[4];
    ls_pb_out m = {0};
    feature(&m, "image/class/label", 3, NULL, s->class);
    feature(&m, "image/encoded", 1, s->image, s->size);
    feature(&m, "image/format", 1, png ? "PNG" : "JPEG", png ? 3 : 4);
    ls_pb_wrap(&m, 1, 0);
    little(frame, (uint64_t)m.size, 8);
    little(frame + 8, ls_crc32c_masked(frame, 8), 4);
    little(sum, ls_crc32c_masked(m.bytes, m.size), 4);
    int failed = m.status != LS_OK || put(file, frame, 12) != 0 || put(file, m.bytes, m.size) != 0;
    if (m.status != LS_OK) errno = ENOMEM;
    free(m.bytes);
    return failed ? -1 : put(file, sum, 4);
}

// --- RecordIO --------------------------------------------------------------------------------------------------------

typedef struct record {
    unsigned char header[24];
    const ls_written *sample;
    int64_t size;
} record;

static unsigned char record_byte(const record *r, int64_t i) {
    return i < 24 ? r->header[i] : r->sample->image[i - 24];
}

static int record_bytes(FILE *file, const record *r, int64_t from, int64_t size) {
    int64_t in_header = from < 24 ? (size < 24 - from ? size : 24 - from) : 0;
    if (in_header > 0 && put(file, r->header + from, in_header) != 0) return -1;
    return size > in_header ? put(file, r->sample->image + (from + in_header - 24), size - in_header) : 0;
}

static int record_part(FILE *file, const record *r, unsigned which, int64_t from, int64_t size) {
    static const char none[4];
    unsigned char head[8];
    little(head, LS_RECORDIO_MAGIC, 4);
    little(head + 4, which << 29 | (uint64_t)size, 4);
    if (put(file, head, 8) != 0 || record_bytes(file, r, from, size) != 0) return -1;
    return put(file, none, (4 - size % 4) % 4);
}

// Cut where the magic number stands in the bytes at a multiple of four.
static int recordio_add(FILE *file, const ls_written *s) {
    record r = {.sample = s, .size = s->size + 24};
    float label = (float)s->class;
    uint32_t bits;
    memcpy(&bits, &label, 4);
    little(r.header + 4, bits, 4);
    little(r.header + 8, (uint64_t)s->number, 8);
    int64_t begin = 0;
    for (int64_t i = 24; i + 4 <= r.size; i += 4) {
        uint32_t word = 0;
        for (int b = 3; b >= 0; b--) word = word << 8 | record_byte(&r, i + b);
        if (word != LS_RECORDIO_MAGIC) continue;
        if (record_part(file, &r, begin == 0 ? 1 : 2, begin, i - begin) != 0) return -1;
        begin = i + 4;
    }
    return record_part(file, &r, begin == 0 ? 0 : 3, begin, r.size - begin);
}

const ls_writer *ls_writer_find(const char *format) {
    static const ls_writer writers[] = {
        {.format = "tar", .add = tar_add, .end = tar_end},
        {.format = "tfrecord", .add = tfrecord_add},
        {.format = "recordio", .add = recordio_add},
    };
    static const ls_writer *const libraries[] = {&ls__writer_lmdb, &ls__writer_numpy, &ls__writer_hdf5};
    for (size_t i = 0; i < sizeof writers / sizeof writers[0]; i++)
        if (strcmp(writers[i].format, format) == 0) return &writers[i];
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++)
        if (strcmp(libraries[i]->format, format) == 0) return libraries[i];
    return NULL;
}
