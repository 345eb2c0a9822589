// Where the key of a job comes from.
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/input.h"
#include "comm/tcp_hello.h"

#define HOW "`head -c 32 /dev/urandom | base64 >key; chmod 600 key` makes one"

static ls_status check_file(int file, const char *path) {
    struct stat s;
    if (fstat(file, &s) != 0) return LS_FAIL(LS_STATUS_IO, "cannot look at the key file %s: %s", path, strerror(errno));
    if (S_ISDIR(s.st_mode)) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the key file %s is a folder", path);
    if (S_ISREG(s.st_mode) && s.st_uid != geteuid() && s.st_uid != 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the key file %s belongs to another user, who may know the key: copy it, and chmod 600 the copy",
                       path);
    if (S_ISREG(s.st_mode) && (s.st_mode & 077) != 0)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "the key file %s is open to others (mode %03o), and who knows the key is let into the job: chmod "
            "600 %s, and take a new key where others may have read it",
            path, (unsigned)(s.st_mode & 0777), path);
    return LS_OK;
}

static ls_status read_file(const char *path, ls__key *out) {
    int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (file < 0)
        return LS_FAIL(errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO, "cannot open the key file %s: %s; " HOW,
                       path, strerror(errno));
    ls_status status = check_file(file, path);
    ssize_t n = 1;
    while (status == LS_OK && out->size < sizeof out->bytes && n > 0) {
        n = ls_input_read(file, out->bytes + out->size, sizeof out->bytes - out->size);
        if (n > 0) out->size += (size_t)n;
    }
    if (status == LS_OK && n < 0)
        status = LS_FAIL(LS_STATUS_IO, "cannot read the key file %s: %s", path, ls_input_why(errno));
    if (status == LS_OK && out->size == sizeof out->bytes)
        status =
            LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the key file %s is longer than %d bytes: " HOW, path, LS_KEY_MOST - 1);
    close(file);
    return status;
}

static void trim(ls__key *key) {
    size_t first = 0;
    while (key->size > 0 && isspace(key->bytes[key->size - 1])) key->size--;
    while (first < key->size && isspace(key->bytes[first])) first++;
    key->size -= first;
    memmove(key->bytes, key->bytes + first, key->size);
}

ls_status ls__key_read(const char *file, ls__key *out) {
    const char *from = file, *text = getenv("LOCKSTEP_KEY");
    out->size = 0;
    if (file) {
        LS_TRY(read_file(file, out));
    } else if (!text || !*text) {
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "there is no key: workers prove to each other that they know one before they talk. " HOW
                       "; then --key-file key, or LOCKSTEP_KEY in the environment, with the same on all workers");
    } else {
        from = "LOCKSTEP_KEY";
        size_t size = strlen(text);
        if (size >= sizeof out->bytes)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "LOCKSTEP_KEY is longer than %d bytes: " HOW, LS_KEY_MOST - 1);
        memcpy(out->bytes, text, size);
        out->size = size;
    }
    trim(out);
    if (out->size >= LS_KEY_LEAST) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "the key in %s has %d bytes, which can be guessed: it takes %d or more; " HOW, from, (int)out->size,
                   LS_KEY_LEAST);
}
