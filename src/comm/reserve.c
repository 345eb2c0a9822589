#define _GNU_SOURCE
#include "comm/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"

// Open MPI's messages between processes have 4 MB of each, which they touch when they come to it.
#define MPI_BYTES_PER_WORKER (5 << 20)

static ls_status no_room(double needed, double available, const char *place) {
    return LS_FAIL(LS_STATUS_OUT_OF_MEMORY,
                   "the workers of this host want to share %.1f MB, but %s has only %.1f MB left: make it larger "
                   "(mount -o remount,size=... /dev/shm; docker run --shm-size=...), remove what ended jobs left there "
                   "('lockstep check' names it), or use fewer workers with more replicas",
                   needed / 1e6, place, available / 1e6);
}

// A file without a name: whatever ends this process leaves nothing behind.
static int nameless(const char *place) {
    int file = open(place, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file >= 0) return file;
    char name[256];
    snprintf(name, sizeof name, "%s/lockstep.XXXXXX", place);
    file = mkostemp(name, O_CLOEXEC);
    if (file >= 0) unlink(name);
    return file;
}

ls_status ls__reserve_shared(const char *place, int64_t bytes, int workers) {
    struct statvfs fs;
    if (statvfs(place, &fs) != 0 || fs.f_blocks == 0) return LS_OK;  // no such place, or one without limit
    double left = ls_limits_memory_left(), available = (double)fs.f_bavail * (double)fs.f_frsize;
    double needed = (double)bytes + (double)MPI_BYTES_PER_WORKER * workers;
    if (left >= 0 && needed > left)
        return LS_FAIL(
            LS_STATUS_OUT_OF_MEMORY,
            "the workers of this host want to share %.1f MB, and %.1f MB of memory are left here: use a smaller "
            "network or dataset, or ask for more",
            needed / 1e6, left / 1e6);
    if (needed > available) return no_room(needed, available, place);
    int file = nameless(place), why;
    if (file < 0) return LS_OK;  // MPI has its own ways, and says what it thinks of them
    do why = posix_fallocate(file, 0, (off_t)needed);
    while (why == EINTR);
    close(file);
    if (why == ENOSPC) return no_room(needed, available, place);
    if (why == EFBIG)
        return LS_FAIL(
            LS_STATUS_OUT_OF_MEMORY,
            "the workers of this host want to share %.1f MB, but files may not be so large here (ulimit -f): raise "
            "that limit",
            needed / 1e6);
    return LS_OK;
}

static int may_map(size_t size) {
    void *p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p != MAP_FAILED && munmap(p, size) == 0;
}

ls_status ls__reserve_addresses(int64_t bytes) {
    size_t size = (size_t)bytes + MPI_BYTES_PER_WORKER;
    if (!may_map(size))
        return LS_FAIL(
            LS_STATUS_OUT_OF_MEMORY,
            "the workers of this host want to share %.1f MB, which this process may not map (%s): raise its limit of "
            "memory (ulimit -v), or use fewer workers",
            (double)size / 1e6, strerror(errno));
    return LS_OK;
}

ls_status ls__reserve_start(int64_t bytes) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && !may_map((size_t)bytes))
        return LS_FAIL(LS_STATUS_OUT_OF_MEMORY,
                       "to start MPI this process maps up to %.0f MB, more than its limit of memory of %.0f MB leaves "
                       "(ulimit -v): raise that limit",
                       (double)bytes / 1e6, (double)limit.rlim_cur / 1e6);
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= MPI_BYTES_PER_WORKER)
        return LS_OK;
    return LS_FAIL(
        LS_STATUS_UNSUPPORTED,
        "MPI keeps files of %d MB in shared memory, and files may grow to %lld bytes here (ulimit -f): raise "
        "that limit",
        MPI_BYTES_PER_WORKER >> 20, (long long)limit.rlim_cur);
}
