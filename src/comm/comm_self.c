// The job of one process: MPI is not touched, so nothing has to be installed or started for it.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/comm_impl.h"

ls_status ls__private_alloc(ls_comm *comm, int64_t bytes, ls_shared **out) {
    ls_shared *shared;
    LS_TRY(ls_calloc(1, sizeof *shared, &shared));
    ls_status status = ls_memory_alloc(bytes, &shared->base);
    if (status != LS_OK) {
        free(shared);
        LS_TRY(status);
    }
    shared->comm = comm;
    shared->bytes = bytes;
    *out = shared;
    return LS_OK;
}

void ls__private_free(ls_shared *shared) {
    ls_memory_free(shared->base);
    free(shared);
}

ls_status ls__private_read(ls_comm *comm, const char *path, int64_t offset, int64_t bytes, void *out) {
    (void)comm;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return LS_FAIL(LS_STATUS_IO, "could not open %s: %s", path, strerror(errno));
    ls_status status = LS_OK;
    for (int64_t done = 0; done < bytes;) {
        ssize_t got = pread(file, (char *)out + done, (size_t)(bytes - done), (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            status = LS_FAIL(LS_STATUS_IO, "could not read %s: %s", path, strerror(errno));
            break;
        }
        if (got == 0) {
            status = LS_FAIL(LS_STATUS_IO, "could not read %s: it ends at byte %lld, %lld bytes early", path,
                             (long long)(offset + done), (long long)(bytes - done));
            break;
        }
        done += got;
    }
    close(file);
    return status;
}

static void destroy(ls_comm *comm) {
    ls__comm_arrays_free(comm);
    free(comm);
}

static void describe(const ls_comm *comm, char *text, size_t size) { snprintf(text, size, "one process, without MPI"); }
static ls_status barrier(ls_comm *comm) { return LS_OK; }

static ls_status broadcast(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, int root) { return LS_OK; }

static ls_status allgather(ls_comm *comm, const void *mine, void *all, int64_t bytes) {
    if (bytes > 0) memmove(all, mine, (size_t)bytes);
    return LS_OK;
}

static ls_status sum(ls_comm *comm, const float *mine, float *all, int64_t count) {
    return allgather(comm, mine, all, count * (int64_t)sizeof *all);
}

static ls_status isend(ls_comm *comm, const void *data, int64_t count, ls_dtype dtype, int to, int tag,
                       ls_request *request) {
    return LS_FAIL(LS_STATUS_INTERNAL, "a job of one worker sends a message to itself");
}

static ls_status irecv(ls_comm *comm, void *data, int64_t count, int shorter, ls_dtype dtype, int from, int tag,
                       ls_request *request) {
    return LS_FAIL(LS_STATUS_INTERNAL, "a job of one worker waits for a message from itself");
}

static ls_status wait_all(ls_comm *comm, ls_request *requests, int count) { return LS_OK; }

static ls_status test_all(ls_comm *comm, ls_request *requests, int count, int *pending) {
    *pending = -1;
    return LS_OK;
}

static void end_all(ls_comm *comm, int exit_status) {}

static const ls_comm_ops self_ops = {
    .name = "self",
    .destroy = destroy,
    .describe = describe,
    .barrier = barrier,
    .broadcast = broadcast,
    .allgather = allgather,
    .sum = sum,
    .isend = isend,
    .irecv = irecv,
    .wait_all = wait_all,
    .test_all = test_all,
    .host_alloc = ls__private_alloc,
    .host_free = ls__private_free,
    .host_barrier = barrier,
    .host_read = ls__private_read,
    .abort = end_all,
};

ls_status ls_comm_create_self(ls_comm **out) {
    ls_comm *comm;
    *out = NULL;
    LS_TRY(ls_calloc(1, sizeof *comm, &comm));
    comm->ops = &self_ops;
    comm->size = comm->local_size = comm->any_thread = comm->between = 1;
    ls_status status = ls__comm_arrange(comm, &(int){0});
    if (status != LS_OK) {
        free(comm);
        LS_TRY(status);
    }
    *out = comm;
    return LS_OK;
}
