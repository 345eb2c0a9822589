// What can be known of a job before there is one: who would be who, and what MPI itself takes.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/comm_impl.h"

static void destroy(ls_comm *comm) {
    ls__comm_arrays_free(comm);
    free(comm);
}

static ls_status refuse(void) {
    return LS_FAIL(LS_STATUS_INTERNAL, "a job that is only planned was asked to exchange something");
}

static void describe(const ls_comm *comm, char *text, size_t size) {
    snprintf(text, size, "%d planned workers on %d hosts", comm->size, comm->hosts);
}

static ls_status barrier(ls_comm *comm) { return refuse(); }
static ls_status broadcast(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, int root) { return refuse(); }
static ls_status allgather(ls_comm *comm, const void *mine, void *all, int64_t bytes) { return refuse(); }
static ls_status sum(ls_comm *comm, const float *mine, float *all, int64_t count) { return refuse(); }
static ls_status isend(ls_comm *comm, const void *data, int64_t count, ls_dtype dtype, int to, int tag,
                       ls_request *request) {
    return refuse();
}
static ls_status irecv(ls_comm *comm, void *data, int64_t count, int shorter, ls_dtype dtype, int from, int tag,
                       ls_request *request) {
    return refuse();
}
static ls_status wait_all(ls_comm *comm, ls_request *requests, int count) { return refuse(); }
static ls_status test_all(ls_comm *comm, ls_request *requests, int count, int *pending) {
    *pending = -1;
    return refuse();
}
static ls_status host_alloc(ls_comm *comm, int64_t bytes, ls_shared **out) { return refuse(); }
static void host_free(ls_shared *shared) {}
static ls_status host_read(ls_comm *comm, const char *path, int64_t offset, int64_t bytes, void *out) {
    return refuse();
}
static void end_all(ls_comm *comm, int exit_status) {}

static const ls_comm_ops planned_ops = {
    .name = "planned",
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
    .host_alloc = host_alloc,
    .host_free = host_free,
    .host_barrier = barrier,
    .host_read = host_read,
    .abort = end_all,
};

ls_status ls_comm_create_planned(int size, int hosts, int rank, ls_comm **out) {
    ls_comm *comm = NULL;
    int *leaders = NULL;
    ls_status status;
    *out = NULL;
    if (size < 1 || hosts < 1 || hosts > size)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%d worker%s cannot be spread over %d hosts: each has at least one",
                       size, size == 1 ? "" : "s", hosts);
    if (rank < 0 || rank >= size)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "there is no worker %d among %d: they are numbered from 0", rank,
                       size);
    LS_TRY(ls_calloc(1, sizeof *comm, &comm));
    comm->ops = &planned_ops;
    comm->size = size;
    comm->rank = rank;
    comm->any_thread = comm->between = 1;
    LS_TRY_GOTO(ls_calloc(size, sizeof *leaders, &leaders), failed);
    // Host h begins at worker ceil(h * size / hosts), so that host 0 is among the largest.
    for (int r = 0; r < size; r++) {
        int64_t host = (int64_t)r * hosts / size;
        leaders[r] = (int)((host * size + hosts - 1) / hosts);
        comm->local_size += host == (int64_t)rank * hosts / size;
        comm->local_rank += r < rank && host == (int64_t)rank * hosts / size;
    }
    LS_TRY_GOTO(ls__comm_arrange(comm, leaders), failed);
    free(leaders);
    *out = comm;
    return LS_OK;
failed:
    free(leaders);
    free(comm);
    return status;
}

// --- MPI -------------------------------------------------------------------------------------------------------------

// Resident bytes by what is mapped: files by their names, the rest under one name.
typedef struct mapped {
    char name[128];
    int64_t bytes;
} mapped;
enum { MAX_MAPPED = 256 };

static mapped *find_mapped(mapped *list, int *count, const char *name) {
    for (int i = 0; i < *count; i++)
        if (strcmp(list[i].name, name) == 0) return &list[i];
    if (*count == MAX_MAPPED) return &list[MAX_MAPPED - 1];
    snprintf(list[*count].name, sizeof list[*count].name, "%s", name);
    list[*count].bytes = 0;
    return &list[(*count)++];
}

static int read_mapped(mapped *list) {
    char line[1024];
    int count = 0;
    mapped *now = NULL;
    FILE *file = fopen("/proc/self/smaps", "r");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        const char *slash = strchr(line, '/');
        if (strncmp(line, "Rss:", 4) == 0 && now)
            now->bytes += strtoll(line + 4, NULL, 10) * 1024;
        else if (strchr("0123456789abcdef", line[0]))
            now = find_mapped(list, &count, slash ? strrchr(slash, '/') : "");
    }
    if (file) fclose(file);
    return count;
}

// A process that a launcher started has a place in its job, which a child must not take: it begins alone.
static void forget_launcher(void) {
    static const char *const signs[] = {"OMPI_COMM_WORLD", "OMPI_MCA_ess", "OMPI_MCA_orte", "ORTE_",
                                        "PMIX_",           "PMI_",         "SLURM_STEP"};
    for (char **e = environ; *e;) {
        char name[256];
        size_t length = strcspn(*e, "="), i = 0;
        while (i < sizeof signs / sizeof signs[0] && strncmp(*e, signs[i], strlen(signs[i])) != 0) i++;
        if (i < sizeof signs / sizeof signs[0] && length < sizeof name) {
            snprintf(name, sizeof name, "%.*s", (int)length, *e);
            unsetenv(name);  // the next takes its place
        } else {
            e++;
        }
    }
}

// The child: MPI in a process like this one, whose output goes nowhere. What of the parent's files it did not touch again is not
// mapped in it, so what it has beyond the parent is counted file by file.
static void measure(int to, mapped *before, int before_count, mapped *after) {
    int nowhere = open("/dev/null", O_RDWR);
    for (int fd = 0; nowhere >= 0 && fd <= 2; fd++) dup2(nowhere, fd);
    int64_t bytes = 0;
    ls_comm *comm;
    forget_launcher();
    if (ls__comm_mpi_create(1, NULL, &comm) != LS_OK) _exit(1);
    int count = read_mapped(after);
    for (int i = 0; i < count; i++) {
        int64_t added = after[i].bytes - find_mapped(before, &before_count, after[i].name)->bytes;
        if (added > 0) bytes += added;
    }
    ssize_t written = write(to, &bytes, sizeof bytes);
    ls_comm_destroy(&comm);
    _exit(written != (ssize_t)sizeof bytes);
}

// What the child says within some seconds; 0: it does not.
static int64_t read_answer(int from) {
    struct pollfd wait = {.fd = from, .events = POLLIN};
    int64_t bytes = 0;
    int ready;
    do ready = poll(&wait, 1, 20000);
    while (ready < 0 && errno == EINTR);
    if (ready != 1 || read(from, &bytes, sizeof bytes) != (ssize_t)sizeof bytes || bytes < 0) return 0;
    return bytes;
}

int64_t ls_comm_library_bytes(void) {
    int ends[2], unused;
    mapped *before;
    if (!LS_WITH_MPI || ls_calloc(2 * MAX_MAPPED, sizeof *before, &before) != LS_OK) return 0;
    if (pipe(ends) != 0) {
        free(before);
        return 0;
    }
    int before_count = read_mapped(before);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        measure(ends[1], before, before_count, before + MAX_MAPPED);
    }
    close(ends[1]);
    free(before);
    int64_t bytes = child > 0 ? read_answer(ends[0]) : 0;
    close(ends[0]);
    if (child <= 0) return 0;
    if (!bytes) kill(child, SIGKILL);
    while (waitpid(child, &unused, 0) < 0 && errno == EINTR) continue;
    return bytes;
}
