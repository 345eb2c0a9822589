// What ended jobs have left in /dev/shm: launchers that were killed could not remove it, and new jobs find it full.
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "cli/check.h"

enum { MOST_LEFT = 256, SHOWN = 3, NEW_SECONDS = 5 };  // a job that starts has its files before it maps them

typedef struct leftover {
    char name[NAME_MAX + 1];
    int64_t bytes;
    int used;
} leftover;

// Open MPI's, MPICH's and our own.
static int is_jobs(const char *name) {
    static const char *const begin[] = {"vader_segment.", "osc_sm.", "sm_segment.", "osc_rdma_",
                                        "mpich_shar_tmp", "MPICH_",  "psm2_shm.",   "lockstep"};
    for (size_t i = 0; i < sizeof begin / sizeof begin[0]; i++)
        if (strncmp(name, begin[i], strlen(begin[i])) == 0) return 1;
    return 0;
}

static int list_files(leftover *list) {
    struct dirent *entry;
    struct stat file;
    int count = 0;
    DIR *folder = opendir("/dev/shm");
    while (folder && count < MOST_LEFT && (entry = readdir(folder))) {
        if (!is_jobs(entry->d_name) || fstatat(dirfd(folder), entry->d_name, &file, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (!S_ISREG(file.st_mode) || file.st_uid != geteuid() || time(NULL) - file.st_mtime < NEW_SECONDS)
            continue;  // of others nobody tells us who uses them
        leftover *l = &list[count++];
        *l = (leftover){.bytes = (int64_t)file.st_blocks * 512};
        snprintf(l->name, sizeof l->name, "%s", entry->d_name);
    }
    if (folder) closedir(folder);
    return count;
}

// Marks what a process has mapped, by the names in its list of maps.
static void mark_used(leftover *list, int count, const char *process) {
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%.20s/maps", process);
    FILE *maps = fopen(path, "r");
    while (maps && fgets(line, sizeof line, maps)) {
        char *name = strstr(line, "/dev/shm/");
        if (!name) continue;
        name += strlen("/dev/shm/");
        name[strcspn(name, "\n")] = 0;
        for (int i = 0; i < count; i++) list[i].used |= strcmp(list[i].name, name) == 0;
    }
    if (maps) fclose(maps);
}

int check_leftovers(char *names, size_t size, int64_t *bytes) {
    leftover *list;
    *bytes = 0;
    names[0] = 0;
    if (ls_calloc(MOST_LEFT, sizeof *list, &list) != LS_OK) return 0;
    int count = list_files(list), left = 0;
    size_t used = 0;
    DIR *processes = count ? opendir("/proc") : NULL;
    for (struct dirent *p; processes && (p = readdir(processes));)
        if (isdigit((unsigned char)p->d_name[0])) mark_used(list, count, p->d_name);
    for (int i = 0; processes && i < count; i++) {
        if (list[i].used) continue;
        if (left++ < SHOWN) ls_text_add(names, size, &used, "%s/dev/shm/%s", left > 1 ? ", " : "", list[i].name);
        *bytes += list[i].bytes;
    }
    if (processes) closedir(processes);
    free(list);
    if (left > SHOWN) ls_text_add(names, size, &used, " and %d more", left - SHOWN);
    return left;
}
