#define _GNU_SOURCE
#include "base/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// The first line of a small file; 0 where it cannot be read.
static int read_line(const char *path, char *out, size_t size) {
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    int ok = fgets(out, (int)size, f) != NULL;
    fclose(f);
    return ok;
}

// The number after `key` in a file like /proc/meminfo; -1 where there is none.
static double number_of(const char *path, const char *key) {
    char line[256];
    double value = -1;
    FILE *f = fopen(path, "r");
    while (f && value < 0 && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0) value = strtod(line + strlen(key), NULL);
    if (f) fclose(f);
    return value;
}

// Whether a list between commas has a word.
static int lists(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',')
        if (strcspn(p, ",") == n && strncmp(p, word, n) == 0) return 1;
    return 0;
}

#define MOUNT "/sys/fs/cgroup"
#define SELF  "/proc/self/cgroup"

// The control group that `self` names, as a path below `*root` in `mount`: version 2's, or version 1's of `controller`.
static void find_group(const char *mount, const char *self, const char *controller, const char **root, char *group,
                       size_t size) {
    char line[1024];
    snprintf(line, sizeof line, "%s/cgroup.controllers", mount);
    *root = access(line, R_OK) == 0 ? "" : controller;
    snprintf(group, size, "/");
    FILE *f = fopen(self, "r");
    while (f && fgets(line, sizeof line, f)) {
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path) continue;
        *path++ = 0;
        path[strcspn(path, "\n")] = 0;
        if (**root ? lists(names + 1, controller) : names[1] == 0) snprintf(group, size, "%s", path);
    }
    if (f) fclose(f);
}

// The least over the group and those above it of what `read` gives for a group's folder, -1 for none.
static double group_least(const char *mount, const char *self, const char *controller,
                          double (*read)(const char *folder)) {
    char folder[1200], group[1024];
    const char *root;
    find_group(mount, self, controller, &root, group, sizeof group);
    double least = -1;
    for (;;) {
        snprintf(folder, sizeof folder, "%.100s/%s%s", mount, root, group);
        double value = read(folder);
        if (value >= 0 && (least < 0 || value < least)) least = value;
        char *up = strrchr(group, '/');
        if (!up || !up[1]) break;
        *(up == group ? up + 1 : up) = 0;
    }
    return least;
}

// --- processor time --------------------------------------------------------------------------------------------------

// Version 2's cpu.max has quota and period, version 1 two files.
static double cpus(const char *folder) {
    char path[1300], text[128], *rest;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (read_line(path, text, sizeof text)) {
        double quota = strtod(text, &rest), period = strtod(rest, NULL);
        return rest != text && period > 0 ? quota / period : -1;
    }
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!read_line(path, text, sizeof text)) return -1;
    double quota = strtod(text, NULL);
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    double period = read_line(path, text, sizeof text) ? strtod(text, NULL) : 0;
    return quota > 0 && period > 0 ? quota / period : -1;
}

double ls_limits_group_cpus_in(const char *mount, const char *self) { return group_least(mount, self, "cpu", cpus); }
double ls_limits_group_cpus(void) { return ls_limits_group_cpus_in(MOUNT, SELF); }

void ls_limits_group_cpus_name(char *text, size_t size) {
    struct stat s = {0};  // a container may see its own group as the root, as others do theirs
    char group[1024];
    const char *root;
    stat("/proc/self/ns/cgroup", &s);
    find_group(MOUNT, SELF, "cpu", &root, group, sizeof group);
    snprintf(text, size, "%lld:%s", (long long)s.st_ino, group);
}

// --- memory ----------------------------------------------------------------------------------------------------------

// A number in one of two files of a group, by version 2's and version 1's names (NULL: not that one's); -1 where there is none ("max").
static double group_number(const char *folder, const char *name, const char *old_name) {
    const char *const names[] = {name, old_name};
    char path[1300], text[128], *rest;
    for (int i = 0; i < 2; i++) {
        if (!names[i]) continue;
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (!read_line(path, text, sizeof text)) continue;
        double value = strtod(text, &rest);
        return rest != text && value < 0x1p60 ? value : -1;  // version 1 has a very large number for none
    }
    return -1;
}

static double memory(const char *folder) { return group_number(folder, "memory.max", "memory.limit_in_bytes"); }

// With swap as far as the group and the machine have it. Version 1's limit is of both together, version 2's of swap alone.
static double memory_and_swap(const char *folder) {
    double limit = memory(folder), both = group_number(folder, NULL, "memory.memsw.limit_in_bytes");
    double swap = both < 0 ? group_number(folder, "memory.swap.max", NULL) : both - limit;
    double there = swap > 0 ? 1024 * number_of("/proc/meminfo", "SwapTotal:") : 0;
    if (limit < 0 || swap <= 0 || there <= 0) return limit;
    return limit + (swap < there ? swap : there);
}

static double memory_left(const char *folder) {
    char path[1300];
    double limit = memory_and_swap(folder), used = group_number(folder, "memory.current", "memory.usage_in_bytes");
    if (limit < 0 || used < 0) return -1;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    double cached = number_of(path, "inactive_file "), active = number_of(path, "active_file ");
    used -= (cached > 0 ? cached : 0) + (active > 0 ? active : 0);  // the kernel gives these up first
    return limit > used ? limit - used : 0;
}

double ls_limits_group_memory(void) { return group_least(MOUNT, SELF, "memory", memory); }

static double least_of(double a, double b) { return a < 0 ? b : b < 0 || a < b ? a : b; }

double ls_limits_memory(void) {
    double total = number_of("/proc/meminfo", "MemTotal:"), swap = number_of("/proc/meminfo", "SwapTotal:");
    return least_of(total > 0 ? 1024 * (total + (swap > 0 ? swap : 0)) : -1,
                    group_least(MOUNT, SELF, "memory", memory_and_swap));
}

double ls_limits_memory_left(void) {
    double left = number_of("/proc/meminfo", "MemAvailable:"), swap = number_of("/proc/meminfo", "SwapFree:");
    return least_of(left >= 0 ? 1024 * (left + (swap > 0 ? swap : 0)) : -1,
                    group_least(MOUNT, SELF, "memory", memory_left));
}

int64_t ls_limits_kills(void) {
    char folder[1200], path[1300], group[1024];
    const char *root;
    find_group(MOUNT, SELF, "memory", &root, group, sizeof group);
    // Of this group alone: those above count, or do not count, what happened in it.
    snprintf(folder, sizeof folder, MOUNT "/%s%s", root, group);
    snprintf(path, sizeof path, "%s/memory.events", folder);
    double count = number_of(path, "oom_kill ");
    snprintf(path, sizeof path, "%s/memory.oom_control", folder);
    if (count < 0) count = number_of(path, "oom_kill ");
    // Of the whole machine where no group counts.
    return (int64_t)(count >= 0 ? count : number_of("/proc/vmstat", "oom_kill "));
}
