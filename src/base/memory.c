#define _GNU_SOURCE
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/error.h"
#include "base/limits.h"

#define HUGE    (2 << 20)
#define CHECKED (8 << 20)  // from here on what is left is looked up: taking more ends the process without a word

static int is_large(int64_t bytes) { return bytes >= 4 * HUGE; }

int64_t ls_memory_size(int64_t bytes) { return ls_round_up(bytes > 0 ? bytes : 1, is_large(bytes) ? HUGE : LS_ALIGN); }

ls_status ls_memory_alloc(int64_t bytes, void *out) {
    *(void **)out = NULL;
    if (bytes < 0) return LS_FAIL(LS_STATUS_INTERNAL, "asked for %lld bytes of memory", (long long)bytes);
    int large = is_large(bytes);
    size_t size = (size_t)ls_memory_size(bytes);
    if (bytes >= CHECKED) {
        double left = ls_limits_memory_left();
        if (left >= 0 && (double)bytes > left)
            return LS_FAIL(
                LS_STATUS_OUT_OF_MEMORY,
                "out of memory: %.1f MB are needed in one piece, and %.1f MB are left here; 'lockstep plan' says "
                "where memory goes and what needs less",
                (double)bytes / 1e6, left / 1e6);
    }
    void *p = aligned_alloc(large ? HUGE : LS_ALIGN, size);
    if (!p) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory: could not get %.1f MB", (double)bytes / 1e6);
    if (large) madvise(p, size, MADV_HUGEPAGE);  // a hint: fewer page faults and TLB misses; failure costs nothing
    memset(p, 0, size);
    *(void **)out = p;
    return LS_OK;
}

void ls_memory_free(void *pointer) { free(pointer); }

ls_status ls_calloc(int64_t count, int64_t size, void *out) {
    void *p = calloc(count > 0 ? (size_t)count : 1, (size_t)size);
    *(void **)out = p;
    if (!p)
        return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory: could not get %.1f MB", (double)(count * size) / 1e6);
    return LS_OK;
}

ls_status ls_strdup(const char *text, char **out) {
    *out = strdup(text);
    return *out ? LS_OK : LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
}

// The sum of the lines `key` of a file of the process, in bytes; -1 where it has none.
static int64_t process_number(const char *path, const char *key) {
    char line[256];
    int64_t sum = -1;
    FILE *file = fopen(path, "r");
    if (!file) return -1;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0)
            sum = (sum < 0 ? 0 : sum) + strtoll(line + strlen(key), NULL, 10) * 1024;
    fclose(file);
    return sum;
}

// Not getrusage's ru_maxrss where that can be helped: it counts what ran in this process before the program was loaded, such as
// a launcher's copy of itself.
int64_t ls_memory_peak_rss(void) {
    int64_t peak = process_number("/proc/self/status", "VmHWM:");
    if (peak >= 0) return peak;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (int64_t)usage.ru_maxrss * 1024;
}

// The status file's count is an estimate that can be off by megabytes on many cores; what is mapped is counted exactly.
int64_t ls_memory_rss(void) {
    int64_t now = process_number("/proc/self/smaps_rollup", "Rss:");
    if (now < 0) now = process_number("/proc/self/status", "VmRSS:");
    return now < 0 ? 0 : now;
}
