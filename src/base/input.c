#define _GNU_SOURCE
#include "base/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WAIT_SECONDS = 5, MOST_BYTES = 64 << 20 };

// Everything that comes out of `from`, in a file without a name. NULL and errno where that fails.
static FILE *collect(int from) {
    FILE *all = tmpfile();
    char block[65536];
    int why = all ? 0 : errno;
    for (size_t size = 0; !why;) {
        struct pollfd wait = {.fd = from, .events = POLLIN};
        int ready = poll(&wait, 1, WAIT_SECONDS * 1000);
        if (ready == 0) why = ETIME;
        ssize_t n = ready > 0 ? read(from, block, sizeof block) : 0;
        if (ready > 0 && n == 0) break;
        if ((ready < 0 || n < 0) && errno != EINTR && errno != EAGAIN) why = errno;
        if (n <= 0) continue;
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

const char *ls_input_why(int code) {
    if (code == ETIME) return "it is a pipe or a device, and nothing came out of it for five seconds";
    if (code == EFBIG)
        return "it is a pipe or a device, and more than 64 MB came out of it: write them to a file first";
    return strerror(code);
}
