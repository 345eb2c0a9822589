// What holds for every communicator: who is who, exchanging bytes, memory of a host, agreeing on failures.
#ifndef LS_TESTS_COMM_CHECKS_H
#define LS_TESTS_COMM_CHECKS_H

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/barrier.h"
#include "base/error.h"
#include "base/memory.h"
#include "worker_check.h"

static void test_positions(ls_comm *c, int fake_hosts) {
    CHECK(c, c->hosts >= 1 && c->local_size >= 1 && c->local_rank < c->local_size);
    // All workers run on one machine here; a host gets no less than one worker.
    CHECK(c, c->hosts == (fake_hosts > c->size ? c->size : fake_hosts));
    int seen_hosts = 0, same_host = 0;
    for (int r = 0; r < c->size; r++) {
        CHECK(c, c->host_of[r] <= seen_hosts);  // numbered by their lowest rank
        if (c->host_of[r] == seen_hosts) seen_hosts++;
        if (c->host_of[r] == c->host) {
            if (r == c->rank) CHECK(c, same_host == c->local_rank);
            same_host++;
        }
        CHECK(c, c->order[c->position_of[r]] == r);
    }
    CHECK(c, seen_hosts == c->hosts && same_host == c->local_size);
    for (int i = 1; i < c->size; i++) {
        int before = c->order[i - 1], after = c->order[i];
        CHECK(c, c->host_of[before] < c->host_of[after] || (c->host_of[before] == c->host_of[after] && before < after));
    }
    CHECK(c, c->host == c->host_of[c->rank] && c->position == c->position_of[c->rank]);
}

static void test_collectives(ls_comm *c) {
    CHECK_OK(c, ls_comm_barrier(c));
    for (int root = 0; root < c->size; root++)
        for (int dtype = LS_DTYPE_F32; dtype <= LS_DTYPE_I32; dtype++) {
            unsigned char data[400];
            size_t bytes = 100 * ls_dtype_size((ls_dtype)dtype);
            memset(data, c->rank, sizeof data);
            CHECK_OK(c, ls_comm_broadcast(c, data, 100, (ls_dtype)dtype, root));
            for (size_t i = 0; i < sizeof data; i++) CHECK(c, data[i] == (i < bytes ? root : c->rank));
        }
    int64_t mine[2] = {c->rank, -c->rank}, *all;
    CHECK_OK(c, ls_calloc(c->size, sizeof mine, &all));
    CHECK_OK(c, ls_comm_allgather(c, mine, all, sizeof mine));
    for (int r = 0; r < c->size; r++) CHECK(c, all[2 * r] == r && all[2 * r + 1] == -r);
    free(all);
    CHECK(c, ls_comm_broadcast(c, mine, 1, LS_DTYPE_U8, c->size) == LS_STATUS_INTERNAL);
}

static void test_messages(ls_comm *c) {
    if (c->size == 1) return;
    // Around a ring in both directions, large enough that nobody can buffer it all.
    enum { N = 300000 };
    int next = (c->rank + 1) % c->size, before = (c->rank + c->size - 1) % c->size;
    float *sent[2], *got[2];
    ls_request requests[5];
    for (int d = 0; d < 2; d++) {
        CHECK_OK(c, ls_memory_alloc(N * 4, &sent[d]));
        CHECK_OK(c, ls_memory_alloc(N * 4, &got[d]));
        for (int i = 0; i < N; i++) sent[d][i] = (float)(c->rank * 2 + d) + (float)i / N;
    }
    CHECK_OK(c, ls_comm_irecv(c, got[0], N, LS_DTYPE_F32, before, 3, &requests[0]));
    CHECK_OK(c, ls_comm_irecv(c, got[1], N, LS_DTYPE_F32, next, 4, &requests[1]));
    CHECK_OK(c, ls_comm_isend(c, sent[1], N, LS_DTYPE_F32, before, 4, &requests[2]));
    CHECK_OK(c, ls_comm_isend(c, sent[0], N, LS_DTYPE_F32, next, 3, &requests[3]));
    requests[4].native = NULL;  // nothing pending is fine
    CHECK_OK(c, ls_comm_wait_all(c, requests, 5));
    for (int i = 0; i < 5; i++) CHECK(c, requests[i].native == NULL);
    for (int i = 0; i < N; i++) {
        CHECK(c, got[0][i] == (float)(before * 2) + (float)i / N);
        CHECK(c, got[1][i] == (float)(next * 2 + 1) + (float)i / N);
    }
    CHECK(c, ls_comm_isend(c, sent[0], (int64_t)1 << 31, LS_DTYPE_F32, next, 3, &requests[0]) ==
                 LS_STATUS_INVALID_ARGUMENT);
    CHECK(c, requests[0].native == NULL);
    for (int d = 0; d < 2; d++) {
        ls_memory_free(sent[d]);
        ls_memory_free(got[d]);
    }
}

static void test_host_memory(ls_comm *c) {
    const int64_t bytes = 1000003;
    ls_shared *shared;
    CHECK_OK(c, ls_comm_host_alloc(c, bytes, &shared));
    unsigned char *data = shared->base;
    CHECK(c, (uintptr_t)data % 64 == 0 && shared->bytes == bytes);
    for (int64_t i = 0; i < bytes; i++) CHECK(c, data[i] == 0);
    CHECK_OK(c, ls_comm_host_barrier(c));
    for (int64_t i = c->local_rank; i < bytes; i += c->local_size) data[i] = (unsigned char)(1 + c->rank);
    CHECK_OK(c, ls_comm_host_barrier(c));
    // Each byte was written by the worker of this host whose turn it is; workers of other hosts wrote elsewhere.
    for (int64_t i = 0; i < bytes; i++) {
        int writer = c->order[c->position - c->local_rank + (int)(i % c->local_size)];
        CHECK(c, data[i] == (unsigned char)(1 + writer));
    }
    ls_comm_host_free(&shared);
    CHECK(c, shared == NULL);
    ls_comm_host_free(&shared);

    // More than there is memory for, and more than there are addresses for.
    const char *said[] = {"want to share 8796", "which this process may not map"};
    for (int k = 0; k < 2; k++) {
        int64_t too_much = (int64_t)1 << (k ? 50 : 43);
        CHECK(c, ls_comm_host_alloc(c, too_much, &shared) == LS_STATUS_OUT_OF_MEMORY && shared == NULL);
        CHECK(c, c->local_size == 1 || strstr(ls_error_message(), said[k]));
    }
}

typedef struct place {
    ls_barrier barrier;
    _Atomic int64_t arrivals;
} place;

typedef struct thread {
    ls_comm *comm;
    place *place;
    int threads;
} thread;

#define ROUNDS 200

static void *synchronize(void *argument) {
    thread *t = argument;
    for (int round = 1; round <= ROUNDS; round++) {
        t->place->arrivals++;
        ls_barrier_wait(&t->place->barrier);
        CHECK(t->comm, t->place->arrivals == (int64_t)round * t->threads);
        ls_barrier_wait(&t->place->barrier);
    }
    return NULL;
}

// Two threads of each worker of a host at a barrier in its shared memory.
static void test_barrier_across_processes(ls_comm *c) {
    ls_shared *shared;
    CHECK_OK(c, ls_comm_host_alloc(c, sizeof(place), &shared));
    thread t = {c, shared->base, 2 * c->local_size};
    if (c->local_rank == 0) ls_barrier_init(&t.place->barrier, t.threads, 100);
    CHECK_OK(c, ls_comm_host_barrier(c));
    pthread_t other;
    CHECK(c, pthread_create(&other, NULL, synchronize, &t) == 0);
    synchronize(&t);
    CHECK(c, pthread_join(other, NULL) == 0);
    ls_comm_host_free(&shared);
}

static void test_reading(ls_comm *c) {
    char path[64];
    int pid = (int)getpid();
    CHECK_OK(c, ls_comm_broadcast(c, &pid, 1, LS_DTYPE_I32, 0));
    snprintf(path, sizeof path, "/tmp/lockstep-test-comm-%d", pid);
    const int per_worker = 70001;
    if (c->rank == 0) {
        FILE *file = fopen(path, "wb");
        CHECK(c, file != NULL);
        for (int64_t i = 0; i < (int64_t)per_worker * c->size; i++) fputc((int)(i * 31 % 251), file);
        CHECK(c, fclose(file) == 0);
    }
    CHECK_OK(c, ls_comm_barrier(c));
    unsigned char *data;
    CHECK_OK(c, ls_calloc(per_worker, 1, &data));
    // The last worker of a host reads nothing, to see that it need not.
    int64_t bytes = c->local_rank > 0 && c->local_rank == c->local_size - 1 ? 0 : per_worker;
    int64_t offset = (int64_t)per_worker * c->rank;
    CHECK_OK(c, ls_comm_host_read(c, path, offset, bytes, data));
    for (int64_t i = 0; i < per_worker; i++) CHECK(c, data[i] == (i < bytes ? (offset + i) * 31 % 251 : 0));

    // One worker reads past the end; all workers of its host hear of it.
    int past = c->local_rank == c->local_size - 1;
    CHECK(c, ls_comm_host_read(c, path, past ? (int64_t)per_worker * c->size - 10 : 0, 100, data) == LS_STATUS_IO);
    CHECK(c, strstr(ls_error_message(), path) && strstr(ls_error_message(), "90 bytes early"));
    CHECK_OK(c, ls_comm_barrier(c));
    if (c->rank == 0) unlink(path);
    CHECK_OK(c, ls_comm_barrier(c));
    CHECK(c, ls_comm_host_read(c, path, 0, 10, data) == LS_STATUS_IO);
    CHECK(c, strstr(ls_error_message(), path) && strstr(ls_error_message(), "No such file"));
    free(data);
}

static void test_agreement(ls_comm *c) {
    CHECK_OK(c, ls_comm_agree(c, LS_OK));
    for (int failing = 0; failing < c->size; failing++) {
        ls_status mine = LS_OK;
        if (c->rank >= failing && (c->rank - failing) % 2 == 0)
            mine = LS_FAIL(LS_STATUS_BAD_DATA, "worker %d has seen nonsense", c->rank);
        CHECK(c, ls_comm_agree(c, mine) == LS_STATUS_BAD_DATA);
        char expected[400], host[256] = "";
        gethostname(host, sizeof host - 1);
        snprintf(expected, sizeof expected, "worker %d on host %s: worker %d has seen nonsense", failing, host,
                 failing);
        CHECK(c, strcmp(ls_error_message(), c->size == 1 ? "worker 0 has seen nonsense" : expected) == 0);
    }
    // What all have seen needs no name.
    CHECK(c, ls_comm_agree(c, LS_FAIL(LS_STATUS_BAD_DATA, "nonsense")) == LS_STATUS_BAD_DATA);
    CHECK(c, strcmp(ls_error_message(), "nonsense") == 0);
    CHECK_OK(c, ls_comm_check_equal(c, "the options", "batch=128; seed=1"));
    CHECK_OK(c, ls_comm_check_equal(c, "the options", ""));
    if (c->size == 1) return;
    int odd = c->size - 1;
    char text[64], expected[64];
    snprintf(text, sizeof text, "batch=128; seed=%d; data=x", c->rank == odd ? 2 : 1);
    CHECK(c, ls_comm_check_equal(c, "the options", text) == LS_STATUS_MISMATCH);
    snprintf(expected, sizeof expected, "worker %d has \"seed=2\"", odd);
    CHECK(c, strstr(ls_error_message(), "the options") && strstr(ls_error_message(), "worker 0 has \"seed=1\""));
    CHECK(c, strstr(ls_error_message(), expected));
    CHECK(c, ls_comm_check_equal(c, "the data", c->rank == odd ? "a=1" : "a=1; b=2") == LS_STATUS_MISMATCH);
    CHECK(c, strstr(ls_error_message(), "worker 0 has \"b=2\"") && strstr(ls_error_message(), "has \"none\""));
}

static void test_everything(ls_comm *c, int fake_hosts) {
    char text[128] = "";
    c->ops->describe(c, text, sizeof text);
    CHECK(c, text[0]);
    test_positions(c, fake_hosts);
    test_collectives(c);
    test_messages(c);
    test_host_memory(c);
    test_barrier_across_processes(c);
    test_reading(c);
    test_agreement(c);
}

#endif
