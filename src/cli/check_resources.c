// Cores, memory, shared memory, disk.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/memory.h"
#include "cli/check.h"

#define GB 1e9
#define MB 1e6

// The first line of a small file; 0 where it cannot be read.
static int read_line(const char *path, char *out, size_t size) {
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    int ok = fgets(out, (int)size, f) != NULL;
    fclose(f);
    if (ok) out[strcspn(out, "\n")] = 0;
    return ok;
}

// The number after `key` in a file like /proc/meminfo; -1 where there is none.
static int64_t number_of(const char *path, const char *key) {
    char line[256];
    int64_t value = -1;
    FILE *f = fopen(path, "r");
    if (!f) return -1;
    while (value < 0 && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0) value = strtoll(line + strlen(key), NULL, 10);
    fclose(f);
    return value;
}

// How many processors a list such as "0-3,8" names.
static int count_listed(const char *list) {
    int count = 0;
    for (char *p = (char *)list; *p;) {
        char *end;
        long first = strtol(p, &end, 10), last = first;
        if (end == p) break;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        count += (int)(last - first + 1);
        p = *end == ',' ? end + 1 : end;
    }
    return count;
}

int64_t check_cache(int *sharers) {
    char path[96], text[512];
    int64_t bytes = 0;
    *sharers = 0;
    for (int i = 0; i < 8; i++) {  // index 0, 1, ...: the last is the largest
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        if (!read_line(path, text, sizeof text)) break;
        char *unit;
        int64_t size = strtoll(text, &unit, 10) * (*unit == 'M' ? 1 << 20 : *unit == 'K' ? 1 << 10 : 1);
        if (size <= bytes) continue;
        bytes = size;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/shared_cpu_list", i);
        *sharers = read_line(path, text, sizeof text) ? count_listed(text) : 1;
    }
    return bytes;
}

// --- cores -----------------------------------------------------------------------------------------------------------

static int allowed_set(cpu_set_t *set, size_t bytes) { return sched_getaffinity(0, bytes, set) == 0; }

// "0-3,8" of a set.
static void list_set(const cpu_set_t *set, size_t bytes, int most, char *out, size_t size) {
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < most && at + 16 < size; i++) {
        if (!CPU_ISSET_S((size_t)i, bytes, set)) continue;
        int last = i;
        while (last + 1 < most && CPU_ISSET_S((size_t)last + 1, bytes, set)) last++;
        at += (size_t)snprintf(out + at, size - at, last > i ? "%s%d-%d" : "%s%d", at ? "," : "", i, last);
        i = last;
    }
}

static void processor(check_facts *f) {
    char line[256], text[64];
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && !f->cpu[0] && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, "model name", 10) != 0) continue;
        snprintf(f->cpu, sizeof f->cpu, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
    }
    if (file) fclose(file);
    if (!f->cpu[0]) snprintf(f->cpu, sizeof f->cpu, "processor of unknown make");
    if (read_line("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", text, sizeof text))
        f->clock = 1e3 * strtod(text, NULL);
}

void check_cores(check *c) {
    check_line *l = &c->mine.line[CHECK_CORES];
    check_facts *f = &c->mine.facts;
    enum { MOST = 8192 };
    union {
        cpu_set_t set;
        unsigned char bytes[MOST / 8];
    } allowed, bound;
    processor(f);
    int cpus = allowed_set(&allowed.set, sizeof allowed) ? CPU_COUNT_S(sizeof allowed, &allowed.set) : 0;
    f->cores = ls_topology_cores(c->topology);
    f->sharers = c->info.local_size;
    // What the trainer's binding makes of this thread is asked of the system.
    ls_topology_bind(c->topology, 0, f->cores);
    if (allowed_set(&bound.set, sizeof bound)) list_set(&bound.set, sizeof bound, MOST, f->bound, sizeof f->bound);
    ls_topology_unbind(c->topology);

    char text[512];
    int online = read_line("/sys/devices/system/cpu/online", text, sizeof text) ? count_listed(text) : cpus;
    char hidden[80] = "";
    if (online > cpus)
        snprintf(hidden, sizeof hidden, " (%d of the %d processors here are hidden from it)", online - cpus, online);
    int least = ls_topology_cores_least(c->topology);
    double quota = ls_limits_group_cpus();
    int limited = quota > 0 && quota + 0.01 < cpus;
    if (limited)
        snprintf(hidden, sizeof hidden, ": a control group allows the time of %.3g of %d processors", quota, cpus);
    if (f->cores == 0)
        check_say(l, CHECK_WARN, "Start at most as many workers as there are cores: sharing one makes all wait.",
                  "%d workers share %d core%s, unbound%s", f->sharers, ls_topology_host_cores(c->topology),
                  ls_topology_host_cores(c->topology) == 1 ? "" : "s", hidden);
    else if (limited)
        check_say(l, CHECK_WARN,
                  "Ask for whole cores instead of a share of time (docker run --cpuset-cpus; Slurm --cpus-per-task).",
                  "%d core%s%s%s", f->cores, f->cores == 1 ? "" : "s", c->info.size > 1 ? " for worker 0" : "", hidden);
    else if (cpus == 1 && online > f->sharers)
        check_say(l, CHECK_WARN, "If more are yours: srun --cpus-per-task=N, mpirun --bind-to none, no taskset.",
                  "1 core: CPU %s%s", f->bound, hidden);
    else
        check_say(l, CHECK_OK, NULL, "%d%s: %d one-thread replica%s, bound to CPU%s %s%s", f->cores,
                  c->info.size > 1 ? " for worker 0" : "", least > 0 ? least : 1, least > 1 ? "s" : "",
                  f->cores > 1 ? "s" : "", f->bound, hidden);
}

// --- memory ----------------------------------------------------------------------------------------------------------

int64_t check_host_memory(void) {
    double total = 1024.0 * (double)number_of("/proc/meminfo", "MemTotal:"), limit = ls_limits_group_memory();
    if (total < 0) total = 0;
    return (int64_t)(limit > 0 && (limit < total || total == 0) ? limit : total);
}

void check_memory(check *c) {
    check_line *l = &c->mine.line[CHECK_MEMORY];
    check_facts *f = &c->mine.facts;
    double total = 1024.0 * (double)number_of("/proc/meminfo", "MemTotal:"),
           available = 1024.0 * (double)number_of("/proc/meminfo", "MemAvailable:");
    double limit = ls_limits_group_memory();
    char words[80] = "";
    if (total < 0 || available < 0) {
        check_say(l, CHECK_OK, NULL, "of unknown size: /proc/meminfo does not tell");
        return;
    }
    if (limit > 0 && limit < total) {
        snprintf(words, sizeof words, "; a control group allows %.1f GB", limit / GB);
        if (limit < available) available = limit;
    }
    f->memory = (int64_t)total;
    f->memory_available = (int64_t)available;
    if (available < 1 * GB * f->sharers)
        check_say(l, CHECK_WARN,
                  "Free some, ask for more (Slurm --mem), or use fewer workers and a smaller --micro-batch.",
                  "%.1f GB, only %.1f GB free for %d worker%s%s", total / GB, available / GB, f->sharers,
                  f->sharers == 1 ? "" : "s", words);
    else
        check_say(l, CHECK_OK, NULL, "%.1f GB, %.1f GB free%s", total / GB, available / GB, words);
}

// A network of a few million parameters, its gradients from a handful of workers, and a dataset like MNIST.
#define SHM_COMFORTABLE (256 * MB)

void check_shared_memory(check *c) {
    check_line *l = &c->mine.line[CHECK_SHARED_MEMORY];
    check_facts *f = &c->mine.facts;
    struct statvfs fs;
    if (!LS_WITH_MPI) {
        check_say(l, CHECK_OK, NULL, "not needed: built without MPI");
        return;
    }
    if (statvfs("/dev/shm", &fs) != 0 || fs.f_blocks == 0) {
        check_say(l, CHECK_OK, NULL, "no /dev/shm of its own here; MPI takes another place");
        return;
    }
    f->shm_total = (int64_t)fs.f_blocks * (int64_t)fs.f_frsize;
    f->shm_free = (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
    char names[160];
    int64_t bytes;
    int left = check_leftovers(names, sizeof names, &bytes);
    if (left > 0)
        check_say(l, CHECK_WARN, "Remove what ended jobs have left there, once none of yours runs here: rm FILES.",
                  "/dev/shm has %.1f GB, %.1f GB free; %d file%s of ended jobs (%.1f MB): %s",
                  (double)f->shm_total / GB, (double)f->shm_free / GB, left, left == 1 ? "" : "s", (double)bytes / MB,
                  names);
    else if ((double)f->shm_free < SHM_COMFORTABLE)
        check_say(l, CHECK_WARN,
                  "Workers of a host share gradients and data there: make it larger (mount -o remount,size=1g "
                  "/dev/shm; docker "
                  "run --shm-size=1g), or use one worker with more replicas.",
                  "/dev/shm has only %.1f MB, %.1f MB free", (double)f->shm_total / MB, (double)f->shm_free / MB);
    else
        check_say(l, CHECK_OK, NULL, "/dev/shm has %.1f GB, %.1f GB free", (double)f->shm_total / GB,
                  (double)f->shm_free / GB);
}

// Some MPI libraries end the process when they cannot have their own part of it.
#define SHM_LEAST (32 * MB)

ls_status check_shared_room(void) {
    struct statvfs fs;
    if (statvfs("/dev/shm", &fs) != 0 || fs.f_blocks == 0) return LS_OK;
    double available = (double)fs.f_bavail * (double)fs.f_frsize;
    if (available >= SHM_LEAST) return LS_OK;
    return LS_FAIL(LS_STATUS_UNSUPPORTED,
                   "workers are not started: /dev/shm has only %.1f MB left for MPI and for what they share",
                   available / MB);
}

// --- disk ------------------------------------------------------------------------------------------------------------

#define DISK_PIECE   (4 << 20)
#define DISK_PIECES  16  // 64 MB in all
#define SMALL_PIECE  (1 << 16)
#define DISK_SECONDS 0.4       // for writing and again for reading: fewer pieces where the disk is slow
#define DISK_NEEDED  (1 * GB)  // records, charts and checkpoints of a study, with room to spare

// One transfer of a whole piece; -1 with errno on failure.
static int transfer(int file, void *piece, int index, int writes) {
    for (size_t done = 0; done < DISK_PIECE;) {
        off_t at = (off_t)index * DISK_PIECE + (off_t)done;
        ssize_t n = writes ? pwrite(file, (char *)piece + done, DISK_PIECE - done, at)
                           : pread(file, (char *)piece + done, DISK_PIECE - done, at);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) errno = EIO;
        if (n <= 0) return -1;
        done += (size_t)n;
    }
    if (!writes) return 0;
    // Until these bytes are on the disk, and no others: fdatasync would wait for what all programs here have written.
    return sync_file_range(file, (off64_t)index * DISK_PIECE, DISK_PIECE,
                           SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
}

// Writes and reads pieces of a file; bytes per second, 0 and errno on failure.
static double pass(int file, void *piece, int *pieces, int writes) {
    double start = ls_clock(), seconds = 0;
    int i = 0;
    while (i < *pieces && seconds < DISK_SECONDS) {
        if (transfer(file, piece, i++, writes) != 0) return 0;
        seconds = ls_clock() - start;
    }
    *pieces = i;
    return (double)i * DISK_PIECE / seconds;
}

// Pieces of 64 kB anywhere in what was written, as images of a container are read; bytes per second, 0 and errno on failure.
static double scattered(int file, void *piece, int pieces) {
    int64_t places = (int64_t)pieces * DISK_PIECE / SMALL_PIECE, read = 0;
    double start = ls_clock(), seconds = 0;
    for (uint64_t x = 1; seconds < DISK_SECONDS / 2 && read < places * SMALL_PIECE; seconds = ls_clock() - start) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        ssize_t n = pread(file, piece, SMALL_PIECE, (off_t)((int64_t)(x >> 33) % places * SMALL_PIECE));
        if (n < 0 && errno == EINTR) continue;
        if (n != SMALL_PIECE) {
            if (n >= 0) errno = EIO;
            return 0;
        }
        read += n;
    }
    return seconds > 0 ? (double)read / seconds : 0;
}

// The file has no name any more while it is in use: whatever ends this process leaves nothing behind.
static int measure_disk(check_facts *f) {
    char name[] = "lockstep-check.XXXXXX";
    unsigned char *piece = NULL;
    int pieces = DISK_PIECES, failed = 0;
    int file = mkostemp(name, O_CLOEXEC);
    if (file < 0) return errno;
    unlink(name);
    if (ls_memory_alloc(DISK_PIECE, &piece) != LS_OK) failed = ENOMEM;
    for (uint32_t i = 0, x = 1; !failed && i < DISK_PIECE; i++)
        piece[i] = (unsigned char)((x = x * 1664525 + 1013904223) >> 24);
    if (!failed && (f->disk_write = pass(file, piece, &pieces, 1)) <= 0) failed = errno;
    // What was just written is asked of the disk again, where the file system heeds that.
    if (!failed) posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    if (!failed && (f->disk_read = pass(file, piece, &pieces, 0)) <= 0) failed = errno;
    if (!failed) posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    if (!failed && (f->disk_random = scattered(file, piece, pieces)) <= 0) failed = errno;
    ls_memory_free(piece);
    close(file);
    return failed;
}

void check_disk(check *c) {
    check_line *l = &c->mine.line[CHECK_DISK];
    check_facts *f = &c->mine.facts;
    struct statvfs fs;
    char space[48] = "free space unknown";
    double available = -1;
    if (statvfs(".", &fs) == 0 && fs.f_blocks > 0) {
        available = (double)fs.f_bavail * (double)fs.f_frsize;
        f->disk_free = (int64_t)available;
        snprintf(space, sizeof space, "%.1f GB free", available / GB);
    }
    int failed = available >= 0 && available < 2.0 * DISK_PIECE * DISK_PIECES ? ENOSPC : measure_disk(f);
    if (failed)
        check_say(l, CHECK_WARN,
                  "Free some space or go to a folder you can write to, before --record and studies write here.",
                  "cannot write to this folder: %s (%s)", strerror(failed), space);
    else if (available >= 0 && available < DISK_NEEDED)
        check_say(l, CHECK_WARN, "Free some, or go to another folder before --record and studies write here.",
                  "only %s here; writes %.0f MB/s, reads %.0f MB/s", space, f->disk_write / MB, f->disk_read / MB);
    else if (f->disk_write < 20 * MB || f->disk_read < 20 * MB)
        check_say(l, CHECK_WARN, "Keep datasets and records on a faster disk; network folders are often slow.",
                  "%s here; writes %.1f MB/s, reads %.1f MB/s", space, f->disk_write / MB, f->disk_read / MB);
    else
        check_say(l, CHECK_OK, NULL,
                  "this folder: %s; writes %.0f MB/s, reads %.0f MB/s, in pieces of 64 kB at random %.0f MB/s", space,
                  f->disk_write / MB, f->disk_read / MB, f->disk_random / MB);
}
