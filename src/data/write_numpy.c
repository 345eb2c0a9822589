// NumPy's archives as numpy.savez writes them, x_train, y_train, x_test and y_test in a zip archive that is not packed. Images go into it as they come,
// their classes when a set is over. Sources: numpy/lib/format.py ("Format Version 1.0"); PKWARE's APPNOTE 6.3.9, sections 4.3 and 4.4.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/write_arrays.h"

enum { LOCAL = 30, ENTRY = 46, END = 22, MEMBERS = 4, HEAD = 128 };
#define MOST ((int64_t)0xfffffffe)  // of a size or an offset in 32 bits

typedef struct member {
    const char *name;
    int64_t at, bytes;  // of its local header; with the array's header
    uint32_t crc;
} member;

typedef struct archive {
    char path[4096];
    ls_output output;
    ls_array_shape shape;
    member member[MEMBERS];
    int members, set;  // set: the one that is written
    int64_t count[2];  // samples of each set
    int64_t written;   // of this one
    int64_t *classes;  // (count[set])
} archive;

static void little(unsigned char *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) to[i] = (unsigned char)(value >> 8 * i);
}

static int put(archive *a, const void *bytes, int64_t size) {
    return fwrite(bytes, 1, (size_t)size, a->output.file) == (size_t)size ? 0 : -1;
}

// What belongs to the member that is written.
static ls_status add(archive *a, const void *bytes, int64_t size) {
    member *m = &a->member[a->members - 1];
    m->crc = (uint32_t)crc32_z(m->crc, bytes, (size_t)size);
    m->bytes += size;
    if (m->bytes > MOST)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: %s would have more than 4 GB, which an archive of NumPy's does not have here: write "
                       "hdf5:FILE, or fewer samples",
                       a->path, m->name);
    return put(a, bytes, size) == 0 ? LS_OK : ls_array_file_failed(a->path);
}

// The header in front of a member's name; sizes and sum are not known when it is written first.
static void local_header(const member *m, unsigned char h[LOCAL]) {
    memset(h, 0, LOCAL);
    little(h, 0x04034b50, 4);
    little(h + 4, 20, 2);
    little(h + 12, 33, 2);  // 1 January 1980: equal samples, equal archives
    little(h + 14, m->crc, 4);
    little(h + 18, (uint64_t)m->bytes, 4);
    little(h + 22, (uint64_t)m->bytes, 4);
    little(h + 26, strlen(m->name), 2);
}

static ls_status begin_member(archive *a, const char *name, const char *type, const char *shape) {
    unsigned char local[LOCAL];
    char head[HEAD] = "\x93NUMPY\1";
    member *m = &a->member[a->members++];
    *m = (member){.name = name, .at = ftello(a->output.file)};
    if (m->at < 0) return ls_array_file_failed(a->path);
    if (m->at > MOST)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s would have more than 4 GB: write hdf5:FILE, or fewer samples",
                       a->path);
    local_header(m, local);
    int n = snprintf(head + 10, HEAD - 10, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
    memset(head + 10 + n, ' ', (size_t)(HEAD - 10 - n));
    head[HEAD - 1] = '\n';
    little((unsigned char *)head + 8, HEAD - 10, 2);
    if (put(a, local, LOCAL) != 0 || put(a, name, (int64_t)strlen(name)) != 0) return ls_array_file_failed(a->path);
    return add(a, head, HEAD);
}

static ls_status end_member(archive *a) {
    unsigned char local[LOCAL];
    const member *m = &a->member[a->members - 1];
    local_header(m, local);
    FILE *f = a->output.file;
    int failed = fseeko(f, m->at, SEEK_SET) != 0 || put(a, local, LOCAL) != 0 || fseeko(f, 0, SEEK_END) != 0;
    return failed ? ls_array_file_failed(a->path) : LS_OK;
}

static ls_status begin_set(archive *a, int set) {
    char shape[80];
    const ls_array_shape *s = &a->shape;
    if (s->channels == 1)
        snprintf(shape, sizeof shape, "(%lld, %lld, %lld)", (long long)a->count[set], (long long)s->height,
                 (long long)s->width);
    else
        snprintf(shape, sizeof shape, "(%lld, %lld, %lld, %d)", (long long)a->count[set], (long long)s->height,
                 (long long)s->width, s->channels);
    a->set = set;
    a->written = 0;
    free(a->classes);
    LS_TRY(ls_calloc(a->count[set], sizeof *a->classes, &a->classes));
    return begin_member(a, set ? "x_test.npy" : "x_train.npy", "|u1", shape);
}

static ls_status end_set(archive *a) {
    char shape[40];
    LS_TRY(end_member(a));
    snprintf(shape, sizeof shape, "(%lld,)", (long long)a->written);
    LS_TRY(begin_member(a, a->set ? "y_test.npy" : "y_train.npy", "<i8", shape));
    for (int64_t i = 0; i < a->written; i++) {
        unsigned char value[8];
        little(value, (uint64_t)a->classes[i], 8);
        LS_TRY(add(a, value, 8));
    }
    return end_member(a);
}

static ls_status end_archive(archive *a) {
    unsigned char end[END] = "PK\5\6";
    int64_t at = ftello(a->output.file), size = 0;
    int failed = at < 0;
    if (at > MOST)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s would have more than 4 GB: write hdf5:FILE, or fewer samples",
                       a->path);
    for (int i = 0; i < a->members && !failed; i++) {
        const member *m = &a->member[i];
        unsigned char entry[ENTRY] = "PK\1\2", local[LOCAL];
        local_header(m, local);
        little(entry + 4, 20, 2);
        memcpy(entry + 6, local + 4, LOCAL - 4);
        little(entry + 42, (uint64_t)m->at, 4);
        int64_t length = (int64_t)strlen(m->name);
        failed = put(a, entry, ENTRY) != 0 || put(a, m->name, length) != 0;
        size += ENTRY + length;
    }
    little(end + 8, (uint64_t)a->members, 2);
    little(end + 10, (uint64_t)a->members, 2);
    little(end + 12, (uint64_t)size, 4);
    little(end + 16, (uint64_t)at, 4);
    return failed || put(a, end, END) != 0 ? ls_array_file_failed(a->path) : LS_OK;
}

static ls_status numpy_open(const ls_writing *what, void **out) {
    archive *a;
    LS_TRY(ls_calloc(1, sizeof *a, &a));
    snprintf(a->path, sizeof a->path, "%.4000s", what->path);
    a->count[0] = what->count;
    a->count[1] = what->test_count;
    a->set = -1;
    ls_status status = ls_array_file_open(a->path, &a->output);
    if (status != LS_OK) {
        free(a);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    *out = a;
    return LS_OK;
}

static ls_status numpy_put(void *file, const ls_written *s) {
    archive *a = file;
    LS_TRY(ls_array_shape_take(&a->shape, s));
    if (a->set >= 0 && a->set != s->test) LS_TRY(end_set(a));
    if (a->set != s->test) LS_TRY(begin_set(a, s->test));
    a->classes[a->written++] = s->class;
    return add(a, s->image, s->size);
}

static ls_status numpy_close(void *file, int keep) {
    archive *a = file;
    ls_status status = keep && a->set >= 0 ? end_set(a) : LS_OK;
    if (status == LS_OK && keep) status = end_archive(a);
    keep = keep && status == LS_OK;
    if (ls_output_close(&a->output, a->path, keep) != 0 && keep) status = ls_array_file_failed(a->path);
    free(a->classes);
    free(a);
    return status;
}

const ls_writer ls__writer_numpy = {
    .format = "numpy", .pixels = 1, .arrays = 1, .open = numpy_open, .put = numpy_put, .close = numpy_close};
