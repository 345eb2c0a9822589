// The five fields of two messages are written by hand: Event {1: wall_time, 2: step, 3: file_version, 5: summary} and
// Summary.Value {1: tag, 2: simple_value} (tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto).
#define _GNU_SOURCE
#include "report/events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/output.h"

enum { MOST_TAG = 128, MOST_EVENT = 512 };

struct ls_events {
    FILE *file;
    char *path;
};

// --- protobuf --------------------------------------------------------------------------------------------------------

typedef struct message {
    unsigned char bytes[MOST_EVENT];
    size_t length;
} message;

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };  // how a field's value is written

static void put_varint(message *m, uint64_t x) {
    for (; x >= 128; x >>= 7) m->bytes[m->length++] = (unsigned char)(x | 128);
    m->bytes[m->length++] = (unsigned char)x;
}

static void put_key(message *m, int field, int type) { put_varint(m, (uint64_t)field << 3 | (uint64_t)type); }

static void put_little_endian(message *m, uint64_t x, int bytes) {
    for (int i = 0; i < bytes; i++) m->bytes[m->length++] = (unsigned char)(x >> 8 * i);
}

static void put_double(message *m, int field, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_key(m, field, FIXED64);
    put_little_endian(m, bits, 8);
}

static void put_float(message *m, int field, float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_key(m, field, FIXED32);
    put_little_endian(m, bits, 4);
}

static void put_bytes(message *m, int field, const void *bytes, size_t count) {
    put_key(m, field, BYTES);
    put_varint(m, count);
    memcpy(m->bytes + m->length, bytes, count);
    m->length += count;
}

// --- records ---------------------------------------------------------------------------------------------------------

// CRC-32C (Castagnoli), bit by bit: events are short.
static uint32_t crc32c(const unsigned char *bytes, size_t count) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (0x82f63b78u & -(crc & 1));
    }
    return ~crc;
}

// As TFRecord has it, so that a CRC of data with CRCs in it stays a good one.
static uint32_t masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

static ls_status cannot_write(const char *path) {
    return LS_FAIL(LS_STATUS_IO, "cannot write the TensorBoard events %s: %s", path, strerror(errno));
}

static ls_status write_record(ls_events *e, const message *data) {
    message head = {.length = 0}, foot = {.length = 0};
    put_little_endian(&head, data->length, 8);
    put_little_endian(&head, masked(crc32c(head.bytes, 8)), 4);
    put_little_endian(&foot, masked(crc32c(data->bytes, data->length)), 4);
    const message *const parts[] = {&head, data, &foot};
    for (int i = 0; i < 3; i++)
        if (fwrite(parts[i]->bytes, 1, parts[i]->length, e->file) != parts[i]->length) return cannot_write(e->path);
    return LS_OK;
}

// --- files -----------------------------------------------------------------------------------------------------------

static ls_status make_folders(const char *folder) {
    if (ls_output_folder(folder) == 0) return LS_OK;
    return LS_FAIL(LS_STATUS_IO, "cannot make the folder %s: %s", folder, strerror(errno));
}

// As TensorFlow names them. The number tells files apart that one process made within a second.
static ls_status open_new(ls_events *e, const char *folder, double wall_time) {
    char host[256] = "localhost";
    gethostname(host, sizeof host - 1);
    int file = -1;
    for (int number = 0; file < 0; number++) {
        free(e->path);
        e->path = NULL;
        if (asprintf(&e->path, "%s/events.out.tfevents.%010lld.%s.%d.%d.v2", folder, (long long)wall_time, host,
                     (int)getpid(), number) < 0)
            return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
        file = open(e->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file < 0 && errno != EEXIST) return cannot_write(e->path);
    }
    e->file = fdopen(file, "w");
    if (e->file) return LS_OK;
    close(file);
    return cannot_write(e->path);
}

ls_status ls_events_create(const char *folder, double wall_time, ls_events **out) {
    static const char version[] = "brain.Event:2";
    ls_events *e;
    ls_status status;
    LS_TRY(ls_calloc(1, sizeof *e, &e));
    LS_TRY_GOTO(make_folders(folder), fail);
    LS_TRY_GOTO(open_new(e, folder, wall_time), fail);
    message event = {.length = 0};
    put_double(&event, 1, wall_time);
    put_bytes(&event, 3, version, sizeof version - 1);
    LS_TRY_GOTO(write_record(e, &event), fail);
    LS_TRY_GOTO(ls_events_flush(e), fail);
    *out = e;
    return LS_OK;
fail:
    ls_events_destroy(&e);
    return status;
}

ls_status ls_events_scalar(ls_events *e, double wall_time, int64_t step, const char *tag, double x) {
    message event = {.length = 0}, summary = {.length = 0}, value = {.length = 0};
    size_t length = strlen(tag);
    put_bytes(&value, 1, tag, length < MOST_TAG ? length : MOST_TAG);
    put_float(&value, 2, (float)x);
    put_bytes(&summary, 1, value.bytes, value.length);
    put_double(&event, 1, wall_time);
    if (step != 0) {  // zeros are left out
        put_key(&event, 2, VARINT);
        put_varint(&event, (uint64_t)step);
    }
    put_bytes(&event, 5, summary.bytes, summary.length);
    return write_record(e, &event);
}

ls_status ls_events_flush(ls_events *e) { return fflush(e->file) == 0 ? LS_OK : cannot_write(e->path); }

const char *ls_events_path(const ls_events *e) { return e->path; }

void ls_events_destroy(ls_events **events) {
    ls_events *e = *events;
    if (!e) return;
    if (e->file) fclose(e->file);
    free(e->path);
    free(e);
    *events = NULL;
}
