// Patterns of paths.
#include <ctype.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/containers.h"

#define MOST_PATHS 1000000

static ls_status add(ls_paths *p, const char *path) {
    if (p->count == MOST_PATHS)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a pattern stands for more than %d files", MOST_PATHS);
    if (p->count == p->room) {
        int64_t room = p->room ? 2 * p->room : 16;
        char **larger = realloc(p->path, (size_t)room * sizeof *larger);
        if (!larger) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for a list of %lld files", (long long)room);
        p->path = larger;
        p->room = room;
    }
    LS_TRY(ls_strdup(path, &p->path[p->count]));
    p->count++;
    return LS_OK;
}

void ls_paths_free(ls_paths *p) {
    for (int64_t i = 0; i < p->count; i++) free(p->path[i]);
    free(p->path);
    *p = (ls_paths){.path = NULL};
}

static ls_status expand_glob(const char *pattern, ls_paths *out) {
    glob_t found;
    ls_status status = LS_OK;
    if (!strpbrk(pattern, "*?[{")) return add(out, pattern);
    int failed = glob(pattern, GLOB_BRACE, NULL, &found);
    if (failed == GLOB_NOMATCH)
        return LS_FAIL(LS_STATUS_NOT_FOUND, "no file matches %s: check the path, and quote it from the shell", pattern);
    if (failed)
        return LS_FAIL(LS_STATUS_IO, "cannot look for %s: a folder cannot be read, or memory is short", pattern);
    for (size_t i = 0; i < found.gl_pathc && status == LS_OK; i++) status = add(out, found.gl_pathv[i]);
    globfree(&found);
    return status;
}

// "{000..015}" at `at`: its ends and how many digits; 0 where it is none.
static int is_range(const char *at, long *first, long *last, int *digits, const char **end) {
    char *p;
    if (!isdigit((unsigned char)at[1])) return 0;
    *first = strtol(at + 1, &p, 10);
    *digits = (int)(p - at - 1);
    if (strncmp(p, "..", 2) != 0 || !isdigit((unsigned char)p[2]) || *digits > 9) return 0;
    *last = strtol(p + 2, &p, 10);
    *end = p + 1;
    return *p == '}' && *last >= *first && *last - *first < MOST_PATHS;
}

static ls_status expand(const char *pattern, ls_paths *out, int depth) {
    long first, last;
    int digits;
    const char *end;
    for (const char *at = pattern; (at = strchr(at, '{')); at++) {
        if (depth > 2 || !is_range(at, &first, &last, &digits, &end)) continue;
        for (long i = first; i <= last; i++) {
            char one[4096];
            int n = snprintf(one, sizeof one, "%.*s%0*ld%s", (int)(at - pattern), pattern, digits, i, end);
            if (n < 0 || n >= (int)sizeof one)
                return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a path of more than 4000 bytes: %.100s...", pattern);
            LS_TRY(expand(one, out, depth + 1));
        }
        return LS_OK;
    }
    return expand_glob(pattern, out);
}

ls_status ls_paths_expand(const char *pattern, ls_paths *out) {
    *out = (ls_paths){.path = NULL};
    ls_status status = expand(pattern, out, 0);
    if (status != LS_OK) ls_paths_free(out);
    return status;
}
