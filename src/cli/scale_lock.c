// One study at a time in a folder. The lock is the system's (fcntl: also on file systems shared by hosts, where these have locks),
// so it ends with the process that holds it, however that ends; the file only tells others who that is.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/scale.h"

// "process 4711 on node1"
static void read_holder(int file, char *out, size_t size) {
    ssize_t n = pread(file, out, size - 1, 0);
    out[n > 0 ? n : 0] = 0;
    out[strcspn(out, "\n")] = 0;
}

static void write_holder(int file) {
    char host[256] = "this host", text[320];
    gethostname(host, sizeof host - 1);
    int n = snprintf(text, sizeof text, "process %ld on %s\n", (long)getpid(), host);
    // Without it the sentence that others get is shorter.
    if (ftruncate(file, 0) != 0 || pwrite(file, text, (size_t)n, 0) != n) return;
}

ls_status scale_lock(const char *folder, int *held) {
    char *path;
    if (asprintf(&path, "%s/.lock", folder) < 0) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666), why = errno;
    free(path);
    if (file < 0)
        return LS_FAIL(LS_STATUS_IO, "cannot write %s/.lock: %s; name a folder that can be written to with --out",
                       folder, strerror(why));
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(file, F_SETLK, &whole) == 0) {
        write_holder(file);
        *held = file;
        return LS_OK;
    }
    why = errno;
    char holder[320];
    read_holder(file, holder, sizeof holder);
    close(file);
    if (why == EACCES || why == EAGAIN)
        return LS_FAIL(LS_STATUS_IO,
                       "another 'lockstep scale' is at work in %s%s%s%s: wait until it is done, or name another folder "
                       "with --out",
                       folder, holder[0] ? " (" : "", holder, holder[0] ? ")" : "");
    fprintf(stderr,
            "lockstep scale: %s is on a file system without locks (%s): see to it that no other 'lockstep scale' works "
            "in it\n",
            folder, strerror(why));
    return LS_OK;
}

void scale_unlock(int *held) {
    if (*held >= 0) close(*held);
    *held = -1;
}
