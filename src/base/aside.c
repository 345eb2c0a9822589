#define _GNU_SOURCE
#include "base/aside.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"

enum { LINE = 3 };  // the other process's descriptor

struct ls_aside {
    void *memory;
    int64_t bytes;
    int line;
    pid_t process;
    int ended;  // how, as waitpid tells it; -1: it did not
    char path[4096], library[64];
};

typedef struct answer {
    ls_status status;
    char sentence[1000];
} answer;

// --- the other process -----------------------------------------------------------------------------------------------

static void set_signals(void) {
    static const int others[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                                 SIGUSR2, SIGALRM, SIGPROF, SIGPIPE, SIGTSTP};
    sigset_t none;
#ifndef LS_SANITIZED  // they tell more
    static const int fatal[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++) signal(fatal[i], SIG_DFL);
#endif
    signal(SIGXCPU, SIG_DFL);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) signal(others[i], SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

// All but the line, of which `line` has both ends: above all the parent's ends, which would keep lines open.
static void close_others(const int line[2]) {
    if (line[1] != LINE && dup2(line[1], LINE) != LINE) _exit(1);
    for (int end = 0; end < 2; end++)  // in a program that has closed its own 0 to 2
        if (line[end] < LINE) close(line[end]);
#ifndef LS_SANITIZED  // what a library says while it dies helps nobody but us
    int nowhere = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < LINE && nowhere >= 0; fd++)
        if (fd != nowhere) dup2(nowhere, fd);
#endif
#ifdef SYS_close_range
    if (syscall(SYS_close_range, LINE + 1, ~0U, 0) == 0) return;
#endif
    long most = sysconf(_SC_OPEN_MAX);
    for (int fd = LINE + 1; fd < (most > 0 && most < 65536 ? most : 65536); fd++) close(fd);
}

// A file that says it is large is not believed, and where memory runs out all the same it is this process that goes.
static void limit_memory(int64_t more) {
    struct rlimit limit;
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fscanf(file, "%ld", &pages) != 1) pages = 0;
    if (file) fclose(file);
    rlim_t most = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (rlim_t)more;
    if (pages > 0 && getrlimit(RLIMIT_AS, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > most)) {
        limit.rlim_cur = most;
        setrlimit(RLIMIT_AS, &limit);
    }
    int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (score < 0) return;
    ssize_t written = write(score, "1000", 4);
    (void)written;
    close(score);
}

// So many seconds from now on; the system ends the process then.
static void limit_time(int seconds) {
    struct rusage used;
    struct rlimit limit;
    getrusage(RUSAGE_SELF, &used);
    getrlimit(RLIMIT_CPU, &limit);
    rlim_t until = (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec + seconds + 1);
    limit.rlim_cur = limit.rlim_max < until ? limit.rlim_max : until;
    setrlimit(RLIMIT_CPU, &limit);
}

static _Noreturn void serve(const ls_aside_options *o, void *shared, const int line[2]) {
    const struct rlimit none = {0, 0};
    char question;
    set_signals();
    close_others(line);
    setrlimit(RLIMIT_CORE, &none);
    limit_memory(o->memory);
    for (;;) {
        ssize_t n = recv(LINE, &question, 1, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n != 1) _exit(0);
        answer a = {.status = LS_OK};
        limit_time(o->seconds);
        a.status = o->fn(o->user, shared);
        if (a.status != LS_OK) snprintf(a.sentence, sizeof a.sentence, "%s", ls_error_message());
        if (send(LINE, &a, sizeof a, MSG_NOSIGNAL) != sizeof a) _exit(1);
    }
}

// --- this process ----------------------------------------------------------------------------------------------------

ls_status ls_aside_create(const ls_aside_options *o, ls_aside **out) {
    int line[2];
    sigset_t all, before;
    ls_aside *a = calloc(1, sizeof *a);
    *out = NULL;
    if (!a) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory to read %s", o->path);
    a->bytes = o->bytes;
    snprintf(a->path, sizeof a->path, "%s", o->path);
    snprintf(a->library, sizeof a->library, "%s", o->library);
    a->memory = mmap(NULL, (size_t)o->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (a->memory == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line) != 0) {
        ls_status status =
            LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "cannot start a process to read %s: %s", o->path, strerror(errno));
        if (a->memory != MAP_FAILED) munmap(a->memory, (size_t)o->bytes);
        free(a);
        return status;
    }
    a->line = line[0];
    // This process's handlers are not for the other one.
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    a->process = fork();
    if (a->process == 0) serve(o, a->memory, line);
    int why = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(line[1]);
    *out = a;
    if (a->process > 0) return LS_OK;
    a->process = 0;
    ls_aside_destroy(out);
    return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "cannot start a process to read %s: %s", o->path, strerror(why));
}

static void end(ls_aside *a) {
    pid_t ended;
    if (a->process <= 0) return;
    // Where a program ignores SIGCHLD, or waits for any child, the number may be another process's by now.
    while ((ended = waitpid(a->process, &a->ended, WNOHANG)) < 0 && errno == EINTR) continue;
    if (ended == 0) {
        kill(a->process, SIGKILL);
        while ((ended = waitpid(a->process, &a->ended, 0)) < 0 && errno == EINTR) continue;
    }
    if (ended < 0) a->ended = -1;
    a->process = 0;
}

void ls_aside_destroy(ls_aside **aside) {
    ls_aside *a = *aside;
    if (!a) return;
    end(a);
    close(a->line);
    munmap(a->memory, (size_t)a->bytes);
    free(a);
    *aside = NULL;
}

void *ls_aside_memory(const ls_aside *a) { return a->memory; }

static ls_status has_died(const ls_aside *a) {
    if (a->ended == -1)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s: the process in which %s read this file has ended: the file is damaged or hostile, memory "
                       "ran out, or somebody ended it",
                       a->path, a->library);
    int signal = WIFSIGNALED(a->ended) ? WTERMSIG(a->ended) : 0;
    if (signal == SIGXCPU)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s: %s does not come to an end with this file; it is damaged or hostile: copy or make it again",
                       a->path, a->library);
    if (signal == SIGKILL)
        return LS_FAIL(LS_STATUS_OUT_OF_MEMORY,
                       "%s: the process in which %s read this file was killed: memory ran out (it is damaged or "
                       "hostile where other files of its size are read), or somebody ended it",
                       a->path, a->library);
    char how[64];
    snprintf(how, sizeof how, "it ended its process with status %d", WEXITSTATUS(a->ended));
    return LS_FAIL(LS_STATUS_BAD_DATA,
                   "%s: %s crashes on this file (%s); it is damaged or hostile: copy or make it again", a->path,
                   a->library, signal ? strsignal(signal) : how);
}

ls_status ls_aside_ask(ls_aside *a) {
    answer got;
    ssize_t n = -1;
    if (a->process <= 0) return has_died(a);
    if (send(a->line, "?", 1, MSG_NOSIGNAL) == 1) do
            n = recv(a->line, &got, sizeof got, 0);
        while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof got) {
        end(a);
        return has_died(a);
    }
    if (got.status == LS_OK) return LS_OK;
    got.sentence[sizeof got.sentence - 1] = 0;
    ls_text_clean(got.sentence);
    int known = got.status > LS_OK && got.status <= LS_STATUS_DIVERGED;
    return LS_FAIL(known ? got.status : LS_STATUS_BAD_DATA, "%s", got.sentence);
}
