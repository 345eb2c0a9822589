// What workers of one host do together: find each other, share memory, read files.
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/watch.h"
#include "comm/reserve.h"
#include "comm/tcp_impl.h"

#define TAG_ALL  (-1)
#define TAG_HOST (-2)

ls__tcp_group ls__tcp_all(ls_comm *comm) {
    return (ls__tcp_group){.comm = comm, .count = comm->size, .self = comm->rank, .tag = TAG_ALL};
}

ls__tcp_group ls__tcp_host(ls_comm *comm) {
    return (ls__tcp_group){comm, ls__tcp_of(comm)->local, comm->local_size, comm->local_rank, TAG_HOST};
}

// --- who shares a host -----------------------------------------------------------------------------------------------

static void read_line(const char *path, char *out, size_t size) {
    FILE *f = fopen(path, "r");
    out[0] = 0;
    if (f && !fgets(out, (int)size, f)) out[0] = 0;
    if (f) fclose(f);
    out[strcspn(out, "\n")] = 0;
}

ls_status ls__tcp_beacon(ls__tcp *c, ls__greeting *mine) {
    char unused;
    *mine = (ls__greeting){.process = getpid(), .file = -1};
    mine->started = ls_watch_started(mine->process, &unused);
    gethostname(mine->name, sizeof mine->name - 1);
    read_line("/proc/sys/kernel/random/boot_id", mine->boot, sizeof mine->boot);
    if (getentropy(mine->beacon, sizeof mine->beacon) != 0)
        return LS_FAIL(LS_STATUS_LIBRARY, "the system has no random numbers: %s", strerror(errno));
    c->beacon = memfd_create("lockstep-beacon", MFD_CLOEXEC);
    if (c->beacon >= 0 && write(c->beacon, mine->beacon, sizeof mine->beacon) == (ssize_t)sizeof mine->beacon)
        mine->file = c->beacon;  // without one it has its host for itself
    return LS_OK;
}

static int opened(const ls__greeting *of, int32_t file, int flags) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/fd/%d", (long long)of->process, (int)file);
    return open(path, flags | O_CLOEXEC);
}

static int reads_beacon(const ls__greeting *of) {
    uint8_t seen[LS_BEACON + 1];
    int file = opened(of, of->file, O_RDONLY);
    if (file < 0) return 0;
    ssize_t n = pread(file, seen, sizeof seen, 0);
    close(file);
    return n == LS_BEACON && memcmp(seen, of->beacon, LS_BEACON) == 0;
}

// The entries in the list name one host, and this process can read the other's beacon.
static int shares(const ls__tcp *c, int rank) {
    const ls__greeting *mine = &c->theirs[c->head.rank], *other = &c->theirs[rank];
    if (rank == c->head.rank) return 1;
    return strcasecmp(c->list[rank].host, c->list[c->head.rank].host) == 0 && mine->boot[0] &&
           strcmp(mine->boot, other->boot) == 0 && mine->file >= 0 && other->file >= 0 && reads_beacon(other);
}

static ls_status tell_watch(ls__tcp *c) {
    ls_comm *comm = &c->head;
    ls_watch_peer *peers = NULL;
    char(*names)[64] = NULL;
    int count = 0;
    ls_status status = ls_calloc(comm->size, sizeof *peers, &peers);
    if (status == LS_OK) status = ls_calloc(comm->size, sizeof *names, &names);
    for (int r = 0; r < comm->size && status == LS_OK; r++) {
        memcpy(names[r], c->theirs[r].name, sizeof names[r]);
        if (r != comm->rank && comm->host_of[r] == comm->host && c->theirs[r].started >= 0)
            peers[count++] = (ls_watch_peer){r, c->theirs[r].process, c->theirs[r].started};
    }
    if (status == LS_OK)
        ls_watch_crew_told(
            &(ls_watch_crew){comm->rank, comm->hosts, peers, count, (const char(*)[64])names, comm->size});
    free(peers);
    free(names);
    return status;
}

static ls_status list_local(ls__tcp *c) {
    ls_comm *comm = &c->head;
    LS_TRY(ls_calloc(comm->size, sizeof *c->local, &c->local));
    comm->local_size = 0;
    for (int r = 0; r < comm->size; r++) {
        if (comm->host_of[r] != comm->host) continue;
        if (r == comm->rank) comm->local_rank = comm->local_size;
        c->local[comm->local_size++] = r;
    }
    return LS_OK;
}

ls_status ls__tcp_find_hosts(ls__tcp *c) {
    ls_comm *comm = &c->head;
    int leader = 0, *leaders;
    while (!shares(c, leader)) leader++;
    ls__tcp_group all = ls__tcp_all(comm);
    LS_TRY(ls_calloc(comm->size, sizeof *leaders, &leaders));
    ls_status status = ls__tcp_group_allgather(&all, &leader, leaders, sizeof leader);
    // One that does not share with its own leader's leader is nobody's: what all can see counts.
    for (int r = 0; r < comm->size && status == LS_OK; r++)
        if (leaders[leaders[r]] != leaders[r]) leaders[r] = r;
    if (status == LS_OK) status = ls__comm_arrange(comm, leaders);
    free(leaders);
    LS_TRY(status);
    LS_TRY(list_local(c));
    LS_TRY(tell_watch(c));
    return LS_OK;
}

// --- memory ----------------------------------------------------------------------------------------------------------

// Where the memory is: of the host's first worker.
typedef struct place {
    int32_t file;
    int64_t process;
} place;

static ls_status check_room(int64_t bytes) {
    double left = ls_limits_memory_left();
    if (left >= 0 && (double)bytes > left)
        return LS_FAIL(LS_STATUS_OUT_OF_MEMORY,
                       "the workers of this host want to share %.1f MB, and %.1f MB of memory are left here: use fewer "
                       "workers with more replicas, a smaller network or dataset, or ask for more",
                       (double)bytes / 1e6, left / 1e6);
    return LS_OK;
}

// Memory without a name: whatever ends this process leaves nothing behind.
static ls_status make(int64_t bytes, int *out) {
    *out = -1;
    int file = memfd_create("lockstep-shared", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, (off_t)bytes) == 0) {
        *out = file;
        return LS_OK;
    }
    int why = errno;
    if (file >= 0) close(file);
    return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "the workers of this host want to share %.1f MB, which is refused: %s%s",
                   (double)bytes / 1e6, strerror(why), why == EFBIG ? " (ulimit -f)" : "");
}

// What is mapped for so many bytes: whole pages, and never none.
static int64_t size_of(int64_t bytes) {
    int64_t page = sysconf(_SC_PAGESIZE);
    return (bytes + page) / page * page;
}

static ls_status map(ls_shared *shared, int file, int64_t bytes) {
    void *base = file < 0 ? MAP_FAILED : mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (base == MAP_FAILED)
        return LS_FAIL(LS_STATUS_LIBRARY, "cannot reach the memory of this host's first worker: %s", strerror(errno));
    shared->base = base;
    shared->native = base;
    return LS_OK;
}

// On each worker of the host; `size` bytes are mapped.
static ls_status share(ls_comm *comm, int64_t size, ls_shared *shared) {
    ls__tcp *c = ls__tcp_of(comm);
    ls__tcp_group host = ls__tcp_host(comm);
    int file = -1;
    place at = {0};
    ls_status status = ls__tcp_group_agree(&host, comm->local_rank == 0 ? make(size, &file) : LS_OK);
    if (status == LS_OK) {
        at = (place){file, getpid()};
        status = ls__tcp_group_broadcast(&host, &at, sizeof at, 0);
    }
    if (status == LS_OK) {
        if (comm->local_rank > 0) file = opened(&c->theirs[c->local[0]], at.file, O_RDWR);
        status = ls__tcp_group_agree(&host, map(shared, file, size));  // then nobody needs the name any more
    }
    if (file >= 0) close(file);
    return status;
}

ls_status ls__tcp_host_alloc(ls_comm *comm, int64_t bytes, ls_shared **out) {
    ls_shared *shared = NULL;
    ls_status status;
    if (comm->local_size == 1) {
        status = ls_comm_agree(comm, ls__private_alloc(comm, bytes, out));
        if (status == LS_OK || !*out) return status;
        ls__private_free(*out);
        *out = NULL;
        return status;
    }
    status = bytes < 0 || bytes > INT64_MAX / 2
                 ? LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "%lld bytes to share", (long long)bytes)
                 : ls_calloc(1, sizeof *shared, &shared);
    if (status == LS_OK) status = ls__reserve_addresses(bytes);
    if (status == LS_OK && comm->local_rank == 0) status = check_room(bytes);
    LS_TRY_GOTO(ls_comm_agree(comm, status), failed);
    assert(shared);  // agreeing means that this worker was fine too
    int64_t size = size_of(bytes);
    *shared = (ls_shared){.comm = comm, .bytes = bytes};
    LS_TRY_GOTO(share(comm, size, shared), failed);
    madvise(shared->base, (size_t)size, MADV_HUGEPAGE);  // a hint most systems ignore for shared memory
    // Each worker touches an equal part, so that pages lie near those who use that part.
    int64_t begin = bytes * comm->local_rank / comm->local_size,
            end = bytes * (comm->local_rank + 1) / comm->local_size;
    memset((char *)shared->base + begin, 0, (size_t)(end - begin));
    LS_TRY_GOTO(comm->ops->host_barrier(comm), failed);
    *out = shared;
    return LS_OK;
failed:
    if (shared && shared->native) munmap(shared->native, (size_t)size_of(shared->bytes));
    free(shared);
    return status;
}

void ls__tcp_host_free(ls_shared *shared) {
    if (!shared->native) {
        ls__private_free(shared);
        return;
    }
    munmap(shared->native, (size_t)size_of(shared->bytes));
    free(shared);
}

ls_status ls__tcp_host_read(ls_comm *comm, const char *path, int64_t offset, int64_t bytes, void *out) {
    ls__tcp_group host = ls__tcp_host(comm);
    return ls__tcp_group_agree(&host, ls__private_read(comm, path, offset, bytes, out));
}
