#define _GNU_SOURCE
#include "base/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

enum { WAIT_SECONDS = 5, MOST_BYTES = 64 << 20 };

ssize_t ls_input_read(int from, void *out, size_t size) {
    struct pollfd wait = {.fd = from, .events = POLLIN};
    for (;;) {
        int ready = poll(&wait, 1, WAIT_SECONDS * 1000);
        ssize_t n = ready > 0 ? read(from, out, size) : -1;
        if (ready == 0) errno = ETIME;
        if (n >= 0 || (errno != EINTR && errno != EAGAIN)) return n;
    }
}

// Everything that comes out of `from`, in a file without a name. NULL and errno where that fails.
static FILE *collect(int from) {
    FILE *all = tmpfile();
    char block[65536];
    int why = all ? 0 : errno;
    for (size_t size = 0; !why;) {
        ssize_t n = ls_input_read(from, block, sizeof block);
        if (n == 0) break;
        if (n < 0) why = errno;
        if (n < 0) continue;
        size += (size_t)n;
        if (size > MOST_BYTES)
            why = EFBIG;
        else if (fwrite(block, 1, (size_t)n, all) != (size_t)n)
            why = errno;
    }
    if (!why && fflush(all) != 0) why = errno;
    if (!why) {
        rewind(all);
        return all;
    }
    if (all) fclose(all);
    errno = why;
    return NULL;
}

FILE *ls_input_open(const char *path) {
    struct stat what;
    int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY), why;
    if (file < 0) return NULL;
    FILE *out = NULL;
    if (fstat(file, &what) != 0) {
        why = errno;
    } else if (S_ISDIR(what.st_mode)) {
        why = EISDIR;
    } else if (!S_ISREG(what.st_mode)) {
        out = collect(file);
        why = errno;
    } else {
        out = fdopen(file, "r");
        if (out) return out;
        why = errno;
    }
    close(file);
    errno = why;
    return out;
}

FILE *ls_input_open_small(const char *path, int64_t most) {
    struct stat what;
    FILE *file = ls_input_open(path);
    if (!file || fstat(fileno(file), &what) != 0 || what.st_size <= most) return file;
    fclose(file);
    errno = EFBIG;
    return NULL;
}

const char *ls_input_why(int code) {
    if (code == ETIME) return "it is a pipe or a device, and nothing came out of it for five seconds";
    if (code == EFBIG)
        return "it is larger than any such file, or a pipe or a device out of which more than 64 MB came: write them "
               "to a file first";
    return strerror(code);
}

static ls_status grow(ls_lines *l, int64_t bytes) {
    if (bytes + 1 < (int64_t)l->room) return LS_OK;
    size_t room = l->room ? 2 * l->room : 4096;
    char *text = realloc(l->text, room);
    if (!text) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for a line of %s", l->path);
    l->text = text;
    l->room = room;
    return LS_OK;
}

ls_status ls_lines_next(ls_lines *l, int *more) {
    int64_t n = 0;
    l->number++;
    errno = 0;
    for (int c = 0; c != '\n' && (c = getc_unlocked(l->file)) != EOF; n++) {
        if (c == 0)
            return LS_FAIL(LS_STATUS_BAD_DATA,
                           "line %lld of %s has a zero byte: it is no text, or text in UTF-16; save it as UTF-8",
                           (long long)l->number, l->path);
        if (n == LS_LINE_MOST)
            return LS_FAIL(LS_STATUS_BAD_DATA, "line %lld of %s has more than %d MB: it is no text in lines",
                           (long long)l->number, l->path, (int)(LS_LINE_MOST >> 20));
        LS_TRY(grow(l, n));
        l->text[n] = (char)c;
    }
    if (ferror(l->file)) return LS_FAIL(LS_STATUS_IO, "cannot read %s: %s", l->path, strerror(errno));
    LS_TRY(grow(l, n));
    l->text[n] = 0;
    l->bytes = n;
    *more = n > 0;
    if (l->number == 1 && strncmp(l->text, "\xef\xbb\xbf", 3) == 0) memmove(l->text, l->text + 3, (size_t)n - 2);
    return LS_OK;
}

ls_status ls_lines_read(const char *path, const char *what, void *self,
                        ls_status (*take)(void *self, const ls_lines *lines)) {
    ls_lines l = {.file = ls_input_open(path), .path = path};
    ls_status status = LS_OK;
    if (!l.file)
        return LS_FAIL(errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO, "cannot read %s%s: %s", path, what,
                       ls_input_why(errno));
    for (int more = 1; more && status == LS_OK;) {
        status = ls_lines_next(&l, &more);
        if (status == LS_OK && more) status = take(self, &l);
    }
    free(l.text);
    fclose(l.file);
    return status;
}
