#define _GNU_SOURCE
#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIPE_TRIES = 50 };  // ten a second: somebody may be about to read a pipe

static int is_special(const char *path) {
    struct stat there;
    return stat(path, &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode);
}

static FILE *open_beside(char *beside) {
    int fd = mkstemp(beside);
    mode_t mask = umask(0);
    umask(mask);
    // mkstemp's 0600 would hide the file from colleagues.
    FILE *file = fd >= 0 && fchmod(fd, 0666 & ~mask) == 0 ? fdopen(fd, "w") : NULL;
    if (!file && fd >= 0) {
        int why = errno;
        close(fd);
        unlink(beside);
        errno = why;
    }
    return file;
}

FILE *ls_output_stream(const char *path) {
    int file = -1;
    for (int tries = 0; tries < PIPE_TRIES; tries++) {
        if (tries) usleep(100000);
        file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
        if (file >= 0 || errno != ENXIO) break;
    }
    if (file < 0) return NULL;
    int flags = fcntl(file, F_GETFL);
    FILE *out = flags >= 0 && fcntl(file, F_SETFL, flags & ~O_NONBLOCK) == 0 ? fdopen(file, "w") : NULL;
    if (!out) close(file);
    return out;
}

int ls_output_open(const char *path, ls_output *out) {
    *out = (ls_output){0};
    if (is_special(path)) {
        out->file = ls_output_stream(path);
        return out->file ? 0 : -1;
    }
    struct stat there;
    errno = EISDIR;
    if (stat(path, &there) == 0 && S_ISDIR(there.st_mode)) return -1;
    if (access(path, F_OK) == 0 && access(path, W_OK) != 0) return -1;
    if (asprintf(&out->beside, "%s.XXXXXX", path) < 0) {
        out->beside = NULL;
        errno = ENOMEM;
        return -1;
    }
    out->file = open_beside(out->beside);
    if (out->file) return 0;
    int why = errno;
    free(out->beside);
    out->beside = NULL;
    errno = why;
    return -1;
}

int ls_output_close(ls_output *o, const char *path, int keep) {
    int failed = 0, why = 0;
    if (fflush(o->file) != 0 || ferror(o->file) || (keep && o->beside && fsync(fileno(o->file)) != 0)) {
        failed = 1;
        why = errno;
    }
    if (fclose(o->file) != 0 && !failed) {
        failed = 1;
        why = errno;
    }
    if (keep && !failed && o->beside && rename(o->beside, path) != 0) {
        failed = 1;
        why = errno;
    }
    if (o->beside && (failed || !keep)) unlink(o->beside);
    free(o->beside);
    *o = (ls_output){0};
    errno = why;
    return failed || !keep ? -1 : 0;
}

int ls_output_check(const char *path) {
    if (is_special(path)) return access(path, W_OK);
    ls_output output;
    if (ls_output_open(path, &output) != 0) return -1;
    ls_output_close(&output, path, 0);
    return 0;
}

static int make(const char *path) { return mkdir(path, 0777) == 0 || errno == EEXIST ? 0 : -1; }

int ls_output_folder(const char *path) {
    if (make(path) == 0) return 0;
    char *part = errno == ENOENT && *path ? strdup(path) : NULL;
    if (!part) return -1;
    int failed = 0;
    for (char *slash = part + 1; !failed && (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        failed = make(part);
        *slash = '/';
    }
    free(part);
    return failed ? failed : make(path);
}
