// Runs gnuplot, without a shell in between.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "report/study_impl.h"

// In the child: only calls that are safe after fork. `told` is closed by a successful exec and else tells errno.
static void become_gnuplot(const char *folder, const char *script, int words, int told) {
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0 && dup2(nothing, 0) >= 0 && dup2(words, 1) >= 0 && dup2(words, 2) >= 0 && chdir(folder) == 0)
        execlp("gnuplot", "gnuplot", script, (char *)NULL);
    int why = errno;
    ssize_t n = write(told, &why, sizeof why);
    _exit(n == sizeof why ? 127 : 126);
}

// Everything that comes until the other end is closed; what fits is kept.
static void read_all(int fd, char *text, size_t size) {
    char rest[512];
    size_t used = 0;
    for (;;) {
        int room = used + 1 < size;
        ssize_t n = room ? read(fd, text + used, size - 1 - used) : read(fd, rest, sizeof rest);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        if (room) used += (size_t)n;
    }
    text[used] = 0;
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < ' ') *p = ' ';
}

ls_status ls__gnuplot(const char *folder, const char *name) {
    char script[128], words[400];
    snprintf(script, sizeof script, "%s.gp", name);
    int out[2], told[2], why = 0, status = 0;
    if (pipe2(out, O_CLOEXEC) != 0) return LS_FAIL(LS_STATUS_IO, "cannot make a pipe: %s", strerror(errno));
    if (pipe2(told, O_CLOEXEC) != 0) {
        close(out[0]);
        close(out[1]);
        return LS_FAIL(LS_STATUS_IO, "cannot make a pipe: %s", strerror(errno));
    }
    pid_t child = fork();
    if (child == 0) become_gnuplot(folder, script, out[1], told[1]);
    close(out[1]);
    close(told[1]);
    if (child > 0) {
        if (read(told[0], &why, sizeof why) != sizeof why) why = 0;
        read_all(out[0], words, sizeof words);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
    } else {
        why = errno;
    }
    close(out[0]);
    close(told[0]);
    if (why == ENOENT)
        return LS_FAIL(LS_STATUS_UNSUPPORTED,
                       "gnuplot is not on PATH, so no charts were drawn; install it (Debian: gnuplot-nox) and run "
                       "'lockstep report' on the same folder; the charts' scripts and data are in %s",
                       folder);
    if (why) return LS_FAIL(LS_STATUS_IO, "cannot run gnuplot: %s", strerror(why));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return LS_FAIL(LS_STATUS_LIBRARY, "gnuplot could not draw %s/%s.gp: %s", folder, name, words);
    return LS_OK;
}
