// Two messages: Event {1: wall_time, 2: step, 3: file_version, 5: summary} and
// Summary.Value {1: tag, 2: simple_value} (tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto).
#define _GNU_SOURCE
#include "report/events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/output.h"
#include "base/protobuf.h"

enum { MOST_TAG = 128 };

struct ls_events {
    FILE *file;
    char *path;
    ls_pb_out event, record;  // of the latest one; their memory is used again
};

// --- records ---------------------------------------------------------------------------------------------------------

static ls_status cannot_write(const char *path) {
    return LS_FAIL(LS_STATUS_IO, "cannot write the TensorBoard events %s: %s", path, strerror(errno));
}

// Puts a message into its record, as TFRecord has it.
static ls_status write_event(ls_events *e) {
    ls_pb_out *m = &e->event, *r = &e->record;
    r->size = 0;
    ls_pb_little_endian(r, (uint64_t)m->size, 8);
    if (r->status == LS_OK) ls_pb_little_endian(r, ls_crc32c_masked(r->bytes, 8), 4);
    ls_pb_raw(r, m->bytes, m->size);
    ls_pb_little_endian(r, ls_crc32c_masked(m->bytes, m->size), 4);
    LS_TRY(m->status);
    LS_TRY(r->status);
    return fwrite(r->bytes, 1, (size_t)r->size, e->file) == (size_t)r->size ? LS_OK : cannot_write(e->path);
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
    ls_events *e;
    ls_status status;
    LS_TRY(ls_calloc(1, sizeof *e, &e));
    LS_TRY_GOTO(make_folders(folder), fail);
    LS_TRY_GOTO(open_new(e, folder, wall_time), fail);
    ls_pb_put_double(&e->event, 1, wall_time);
    ls_pb_put_text(&e->event, 3, "brain.Event:2");
    LS_TRY_GOTO(write_event(e), fail);
    LS_TRY_GOTO(ls_events_flush(e), fail);
    *out = e;
    return LS_OK;
fail:
    ls_events_destroy(&e);
    return status;
}

ls_status ls_events_scalar(ls_events *e, double wall_time, int64_t step, const char *tag, double x) {
    ls_pb_out *m = &e->event;
    m->size = 0;
    ls_pb_put_double(m, 1, wall_time);
    if (step != 0) ls_pb_put(m, 2, step);  // zeros are left out
    int64_t summary = m->size, length = (int64_t)strlen(tag);
    ls_pb_put_bytes(m, 1, tag, length < MOST_TAG ? length : MOST_TAG);
    ls_pb_put_float(m, 2, (float)x);
    ls_pb_wrap(m, 1, summary);
    ls_pb_wrap(m, 5, summary);
    return write_event(e);
}

ls_status ls_events_flush(ls_events *e) { return fflush(e->file) == 0 ? LS_OK : cannot_write(e->path); }

const char *ls_events_path(const ls_events *e) { return e->path; }

void ls_events_destroy(ls_events **events) {
    ls_events *e = *events;
    if (!e) return;
    if (e->file) fclose(e->file);
    free(e->event.bytes);
    free(e->record.bytes);
    free(e->path);
    free(e);
    *events = NULL;
}
