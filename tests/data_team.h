// Workers of a host for tests of datasets: threads, with a small host between them that also checks that all make the
// same collective calls in one order.
#ifndef TESTS_DATA_TEAM_H
#define TESTS_DATA_TEAM_H

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "data/dataset.h"

#define WORKERS_MAX 3

typedef struct team {
    int size;
    pthread_barrier_t barrier;
    const char *call[WORKERS_MAX];
    ls_status said[WORKERS_MAX];
    char message[WORKERS_MAX][1024];
    void *blocks[16];
    int64_t bytes[16], held, most;  // of each block; of those there are, now and at the most
    int allocated, freed;
    int fail_read_rank, fail_alloc_rank;  // -1: none
    int64_t read_bytes[WORKERS_MAX];
} team;

#define TEAM                                                                                                           \
    { .fail_read_rank = -1, .fail_alloc_rank = -1 }

typedef struct worker {
    team *team;
    ls_data_host host;
    const char *spec;
    ls_status status;
    char message[1024];
    ls_dataset *dataset;
} worker;

// All workers come here with the same name of a call, or the test ends: a real host would hang.
static inline void team_meet(worker *w, const char *call) {
    team *t = w->team;
    t->call[w->host.rank] = call;
    pthread_barrier_wait(&t->barrier);
    for (int r = 0; r < t->size; r++)
        if (strcmp(t->call[r], call) != 0) {
            fprintf(stderr, "worker %d calls %s while worker %d calls %s\n", w->host.rank, call, r, t->call[r]);
            abort();
        }
    pthread_barrier_wait(&t->barrier);
}

static inline ls_status team_alloc(void *self, int64_t size, void **out) {
    worker *w = self;
    team *t = w->team;
    if (w->host.rank == 0) {
        t->held += t->bytes[t->allocated] = size;
        if (t->held > t->most) t->most = t->held;
        t->blocks[t->allocated++] = calloc(1, (size_t)size);
    }
    team_meet(w, "alloc");
    *out = t->blocks[t->allocated - 1];
    team_meet(w, "alloc");
    if (w->host.rank == t->fail_alloc_rank) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "no memory, says the test");
    return LS_OK;
}

static inline void team_free(void *self, void *memory) {
    worker *w = self;
    team_meet(w, "free");
    if (w->host.rank != 0) return;
    for (int i = 0; i < w->team->allocated; i++)
        if (w->team->blocks[i] == memory) {
            free(memory);
            w->team->blocks[i] = NULL;
            w->team->freed++;
            w->team->held -= w->team->bytes[i];
        }
}

static inline ls_status team_read(void *self, const char *path, int64_t offset, int64_t size, void *out) {
    worker *w = self;
    team_meet(w, path);
    if (w->host.rank == w->team->fail_read_rank) return LS_FAIL(LS_STATUS_IO, "no reading, says the test");
    int fd = open(path, O_RDONLY);
    int64_t n = pread(fd, out, (size_t)size, offset);
    close(fd);
    w->team->read_bytes[w->host.rank] += n;
    return n == size ? LS_OK : LS_FAIL(LS_STATUS_IO, "short read");
}

static inline ls_status team_barrier(void *self) {
    team_meet(self, "barrier");
    return LS_OK;
}

static inline ls_status team_agree(void *self, ls_status mine) {
    worker *w = self;
    team *t = w->team;
    t->said[w->host.rank] = mine;
    snprintf(t->message[w->host.rank], sizeof t->message[0], "%s", ls_error_message());
    team_meet(w, "agree");
    int first = 0;
    while (first < t->size - 1 && t->said[first] == LS_OK) first++;
    ls_status status = t->said[first];
    if (status != LS_OK) ls__error_set(t->message[first]);
    team_meet(w, "agree");  // nobody overwrites before all have read
    return status;
}

static inline void *team_work(void *argument) {
    worker *w = argument;
    w->status = ls_data_open(&w->host, w->spec, &w->dataset);
    snprintf(w->message, sizeof w->message, "%s", w->status == LS_OK ? "" : ls_error_message());
    return NULL;
}

// Opens `spec` with `size` workers; all must end alike.
static inline void team_open(team *t, worker *w, int size, const char *spec) {
    pthread_t threads[WORKERS_MAX];
    t->size = size;
    pthread_barrier_init(&t->barrier, NULL, (unsigned)size);
    for (int r = 0; r < size; r++) {
        w[r] = (worker){.team = t, .spec = spec};
        w[r].host = (ls_data_host){.rank = r,
                                   .size = size,
                                   .self = &w[r],
                                   .alloc = team_alloc,
                                   .read = team_read,
                                   .barrier = team_barrier,
                                   .agree = team_agree,
                                   .free = team_free};
        assert_int_equal(pthread_create(&threads[r], NULL, team_work, &w[r]), 0);
    }
    for (int r = 0; r < size; r++) pthread_join(threads[r], NULL);
    for (int r = 0; r < size; r++) {
        assert_int_equal(w[r].status, w[0].status);
        assert_string_equal(w[r].message, w[0].message);
        assert_true((w[r].dataset != NULL) == (w[r].status == LS_OK));
    }
}

static inline void team_close(team *t, worker *w) {
    for (int r = 0; r < t->size; r++) ls_data_close(&w[r].dataset);
    for (int i = 0; i < t->allocated; i++) free(t->blocks[i]);
    pthread_barrier_destroy(&t->barrier);
}

#endif
