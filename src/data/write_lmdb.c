// Databases of LMDB, with a Datum of Caffe's for each sample, by its library. It is written in a folder beside its place, which takes that place when it is whole.
#define _GNU_SOURCE
#include <errno.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/protobuf.h"
#include "data/writers.h"

enum { TOGETHER = 256 };  // samples of a transaction
#define FIRST_ROOM ((size_t)16 << 20)

typedef struct database {
    char path[4096], beside[4200];
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    size_t room, used;  // bytes of the map; what is surely enough for all that was put
    int pending;
    ls_pb_out datum;
} database;

static ls_status failed(const database *d, int code) {
    return LS_FAIL(LS_STATUS_IO, "cannot write %s: %s; name a place that can be written to, with room for it", d->path,
                   mdb_strerror(code));
}

// Where a call of the library fails, returns its sentence.
#define LMDB(call)                                                                                                     \
    do {                                                                                                               \
        int lmdb_code_ = (call);                                                                                       \
        if (lmdb_code_ != 0) return failed(d, lmdb_code_);                                                             \
    } while (0)

static ls_status commit(database *d) {
    MDB_txn *txn = d->txn;
    d->txn = NULL;
    d->pending = 0;
    if (txn) LMDB(mdb_txn_commit(txn));
    return LS_OK;
}

static ls_status begin(database *d) {
    if (d->txn) return LS_OK;
    LMDB(mdb_txn_begin(d->env, NULL, 0, &d->txn));
    LMDB(mdb_dbi_open(d->txn, NULL, 0, &d->dbi));
    return LS_OK;
}

// The map is made larger between transactions.
static ls_status make_room(database *d, size_t bytes) {
    d->used += 2 * bytes + 16384;
    if (d->used <= d->room && d->pending < TOGETHER) return LS_OK;
    LS_TRY(commit(d));
    while (d->room < d->used) d->room *= 2;
    LMDB(mdb_env_set_mapsize(d->env, d->room));
    return LS_OK;
}

static ls_status set_up(database *d) {
    struct stat there;
    if (stat(d->path, &there) == 0 && rmdir(d->path) != 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s is there already: name another folder, or remove it", d->path);
    if (mkdir(d->beside, 0777) != 0) return failed(d, errno);
    LMDB(mdb_env_create(&d->env));
    LMDB(mdb_env_set_mapsize(d->env, d->room));
    LMDB(mdb_env_open(d->env, d->beside, MDB_NOLOCK | MDB_NOSYNC, 0666));
    return begin(d);
}

static void remove_beside(const database *d) {
    char inside[4300];
    snprintf(inside, sizeof inside, "%s/data.mdb", d->beside);
    unlink(inside);
    rmdir(d->beside);
}

static ls_status end(database *d, int keep) {
    ls_status status = LS_OK;
    if (keep) {
        status = commit(d);
        int code = status == LS_OK ? mdb_env_sync(d->env, 1) : 0;
        if (code) status = failed(d, code);
    } else if (d->txn) {
        mdb_txn_abort(d->txn);
    }
    if (d->env) mdb_env_close(d->env);
    if (status == LS_OK && keep && rename(d->beside, d->path) != 0) status = failed(d, errno);
    if (status != LS_OK || !keep) remove_beside(d);
    free(d->datum.bytes);
    free(d);
    return status;
}

static ls_status lmdb_open(const ls_writing *what, void **out) {
    database *d;
    LS_TRY(ls_calloc(1, sizeof *d, &d));
    d->room = FIRST_ROOM;
    snprintf(d->path, sizeof d->path, "%.4000s", what->path);
    snprintf(d->beside, sizeof d->beside, "%s.%ld.part", d->path, (long)getpid());
    ls_status status = set_up(d);
    if (status == LS_OK) {
        *out = d;
        return LS_OK;
    }
    end(d, 0);
    return ls__fail_passed(status, __FILE__, __LINE__);
}

static ls_status lmdb_close(void *file, int keep) { return end(file, keep); }

// --- a Datum ---------------------------------------------------------------------------------------------------------

// Pixels as OpenCV gives them to Caffe: plane by plane, blue first.
static void put_planes(unsigned char *to, const ls_written *s) {
    int64_t pixels = s->height * s->width;
    for (int c = 0; c < s->channels; c++)
        for (int64_t i = 0; i < pixels; i++) *to++ = s->image[i * s->channels + s->channels - 1 - c];
}

// In the order of the fields' numbers, as protocol buffers write them.
static void make_datum(ls_pb_out *m, const ls_written *s) {
    m->size = 0;
    if (!s->ending) {
        ls_pb_put(m, 1, s->channels);
        ls_pb_put(m, 2, s->height);
        ls_pb_put(m, 3, s->width);
    }
    int64_t image = m->size;
    unsigned char *to = ls_pb_reserve(m, s->size);
    if (to && s->ending)
        memcpy(to, s->image, (size_t)s->size);
    else if (to)
        put_planes(to, s);
    ls_pb_wrap(m, 4, image);
    ls_pb_put(m, 5, s->class);
    if (s->ending) ls_pb_put(m, 7, 1);
}

static ls_status lmdb_put(void *file, const ls_written *s) {
    database *d = file;
    char key[32];
    LS_TRY(make_room(d, (size_t)s->size));
    LS_TRY(begin(d));
    make_datum(&d->datum, s);
    LS_TRY(d->datum.status);
    MDB_val k = {(size_t)snprintf(key, sizeof key, "%010lld", (long long)s->number), key};
    MDB_val v = {(size_t)d->datum.size, d->datum.bytes};
    LMDB(mdb_put(d->txn, d->dbi, &k, &v, MDB_APPEND));
    d->pending++;
    return LS_OK;
}

const ls_writer ls__writer_lmdb = {
    .format = "lmdb", .pixels = 1, .open = lmdb_open, .put = lmdb_put, .close = lmdb_close};
