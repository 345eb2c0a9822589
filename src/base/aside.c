#define _GNU_SOURCE
#include "base/aside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "base/watch.h"

struct ls_aside {
    void *memory;
    int64_t bytes;
    int line, life;  // nothing is written to `life`: it closes when this process ends
    pid_t process;
    int ended;  // how, as waitpid tells it; -1: it did not
    int patience;
    int slept;  // 1: it was ended because it slept
    char path[4096], library[64];
    char opens[256];  // what it was opening then; empty where that is not known
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

// The system sends SIGIO, which ends the process, when its parent's end of this pipe closes. The thread that forked may
// end before its process does, so PR_SET_PDEATHSIG does not serve.
static void end_with_parent(int life) {
    struct pollfd parent = {.fd = life};
    signal(SIGIO, SIG_DFL);
    fcntl(life, F_SETOWN, getpid());
    fcntl(life, F_SETFL, O_ASYNC);
    if (poll(&parent, 1, 0) != 0) _exit(1);  // it had ended before
}

static int is_one_of(int fd, const int *some, int count) {
    while (count > 0 && some[count - 1] != fd) count--;
    return count > 0;
}

// All but these: above all other parents' ends, which would keep lines open.
static void close_others(const int *kept, int count) {
    int from = 3;
    for (int i = 0; i < count; i++) from = kept[i] >= from ? kept[i] + 1 : from;
#ifndef LS_SANITIZED  // what a library says while it dies helps nobody but us
    int nowhere = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3 && nowhere >= 0; fd++)
        if (fd != nowhere && !is_one_of(fd, kept, count)) dup2(nowhere, fd);
#endif
    for (int fd = 3; fd < from; fd++)
        if (!is_one_of(fd, kept, count)) close(fd);
#ifdef SYS_close_range
    if (syscall(SYS_close_range, from, ~0U, 0) == 0) return;
#endif
    long most = sysconf(_SC_OPEN_MAX);
    for (int fd = from; fd < (most > 0 && most < 65536 ? most : 65536); fd++) close(fd);
}

// A file that says it is large is not believed, and where memory runs out all the same it is this process that goes.
static void limit_memory(int64_t more) {
    struct rlimit limit;
    char text[64] = "";
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    long pages = file >= 0 && read(file, text, sizeof text - 1) > 0 ? strtol(text, NULL, 10) : 0;
    if (file >= 0) close(file);
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

// Another thread of the parent may have held a lock when it forked, above all of a sanitizer's malloc, which stays held:
// nothing here allocates memory before the limits that end a wait for it.
static _Noreturn void serve(const ls_aside_options *o, void *shared, const int line[2], const int life[2]) {
    const struct rlimit none = {0, 0};
    const int kept[] = {line[1], life[0], o->keep[0], o->keep[1]};
    char question;
    set_signals();
    close(line[0]);
    close(life[1]);
    end_with_parent(life[0]);
    limit_time(o->seconds);
    close_others(kept, 2 + o->keep_count);
    setrlimit(RLIMIT_CORE, &none);
    limit_memory(o->memory);
    for (size_t n = 8; n < (size_t)1 << 18; n += n / 4) {
        void *volatile memory = malloc(n);
        free(memory);
    }
    if (send(line[1], "!", 1, MSG_NOSIGNAL) != 1) _exit(1);
    for (;;) {
        ssize_t n = recv(line[1], &question, 1, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n != 1) _exit(0);
        answer a = {.status = LS_OK};
        limit_time(o->seconds);
        a.status = o->fn(o->user, shared);
        if (a.status != LS_OK) snprintf(a.sentence, sizeof a.sentence, "%s", ls_error_message());
        if (send(line[1], &a, sizeof a, MSG_NOSIGNAL) != sizeof a) _exit(1);
    }
}

// --- this process ----------------------------------------------------------------------------------------------------

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

// This process's handlers are not for the other one.
static void start(ls_aside *a, const ls_aside_options *o, const int line[2], const int life[2]) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    a->ended = 0;
    a->process = fork();
    if (a->process == 0) serve(o, a->memory, line, life);
    int why = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = why;
}

// Whether the process says within these seconds that it can allocate memory.
static int is_ready(const ls_aside *a, double seconds) {
    char word;
    ssize_t n = -1;
    for (double until = ls_clock() + seconds; n < 0 && ls_clock() < until;) {
        n = recv(a->line, &word, 1, 0);
        if (n < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) return 1;
    }
    return n >= 0;  // one that has died is told of when it is asked
}

// A process that was forked while another thread held a lock of the allocator waits for it for ever, where the allocator
// does not see to that (glibc's does; sanitizers' of their time do not): then another one is forked.
static void start_ready(ls_aside *a, const ls_aside_options *o, const int line[2], const int life[2]) {
    enum { TRIES = 4 };
    char word;
    for (int i = 0; i < TRIES; i++) {
        start(a, o, line, life);
        if (a->process < 0 || is_ready(a, 2 << i) || i == TRIES - 1) return;
        end(a);
        while (recv(a->line, &word, 1, MSG_DONTWAIT) >= 0) continue;
    }
}

ls_status ls_aside_create(const ls_aside_options *o, ls_aside **out) {
    int line[2] = {-1, -1}, life[2] = {-1, -1};
    ls_aside *a = calloc(1, sizeof *a);
    *out = NULL;
    if (!a) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory to read %s", o->path);
    a->bytes = o->bytes;
    a->patience = o->patience;
    snprintf(a->path, sizeof a->path, "%s", o->path);
    snprintf(a->library, sizeof a->library, "%s", o->library);
    a->memory = mmap(NULL, (size_t)o->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (a->memory == MAP_FAILED || pipe2(life, O_CLOEXEC) != 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line) != 0) {
        ls_status status =
            LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "cannot start a process to read %s: %s", o->path, strerror(errno));
        if (a->memory != MAP_FAILED) munmap(a->memory, (size_t)o->bytes);
        for (int i = 0; i < 2 && life[i] >= 0; i++) close(life[i]);
        free(a);
        return status;
    }
    a->line = line[0];
    a->life = life[1];
    // Answers are waited for in pieces of a second.
    setsockopt(line[0], SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = 1}, sizeof(struct timeval));
    start_ready(a, o, line, life);
    int why = errno;
    close(line[1]);
    close(life[0]);
    *out = a;
    if (a->process > 0) return LS_OK;
    a->process = 0;
    ls_aside_destroy(out);
    return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "cannot start a process to read %s: %s", o->path, strerror(why));
}

void ls_aside_destroy(ls_aside **aside) {
    ls_aside *a = *aside;
    if (!a) return;
    end(a);
    close(a->line);
    close(a->life);
    munmap(a->memory, (size_t)a->bytes);
    free(a);
    *aside = NULL;
}

void *ls_aside_memory(const ls_aside *a) { return a->memory; }

static ls_status has_died(const ls_aside *a) {
    if (a->slept)
        return LS_FAIL(LS_STATUS_IO,
                       "%s: %s has waited for %d s %s%s, which does not answer: it is a pipe, a device, or on storage "
                       "that is away; put a file there, or begin again when the storage is back",
                       a->path, a->library, a->patience, *a->opens ? "to open " : "for what it reads", a->opens);
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

// Seconds that a process has computed; below 0: that is not known.
static double computed(pid_t process) {
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &t) != 0) return -1;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Whether that is what /proc tells of: in a namespace of processes without a /proc of its own it tells of others.
static int is_child(pid_t process) {
    char name[64], line[128];
    int parent = -1;
    snprintf(name, sizeof name, "/proc/%d/status", (int)process);
    FILE *file = fopen(name, "re");
    while (file && parent < 0 && fgets(line, sizeof line, file)) sscanf(line, "PPid: %d", &parent);
    if (file) fclose(file);
    return parent == (int)getpid();
}

// The path in the system call that a process sleeps in, if that opens a file and the system tells.
static void find_what_it_opens(ls_aside *a) {
    char name[64], line[256] = "";
    unsigned long at[2] = {0, 0};
    long call = -1;
    snprintf(name, sizeof name, "/proc/%d/syscall", (int)a->process);
    FILE *file = fopen(name, "re");
    if (file && !fgets(line, sizeof line, file)) line[0] = 0;
    if (file) fclose(file);
    if (sscanf(line, "%ld %lx %lx", &call, &at[0], &at[1]) != 3) return;
#ifdef SYS_open
    if (call == SYS_open) at[1] = at[0];
    if (call != SYS_open && call != SYS_openat) return;
#else
    if (call != SYS_openat) return;
#endif
    snprintf(name, sizeof name, "/proc/%d/mem", (int)a->process);
    int memory = open(name, O_RDONLY | O_CLOEXEC);
    if (memory < 0) return;
    ssize_t n = pread(memory, a->opens, sizeof a->opens - 1, (off_t)at[1]);
    a->opens[n > 0 ? n : 0] = 0;
    ls_text_clean(a->opens);
    close(memory);
}

// Whether the process has slept since this was asked last. One that is stopped with its whole job does not sleep, nor does one that nothing lets run.
static int sleeps(const ls_aside *a, double *before) {
    double now = computed(a->process);
    char state;
    ls_watch_started(a->process, &state);
    int same = now >= 0 && now == *before && state == 'S' && is_child(a->process);
    *before = now;
    return same;
}

static ssize_t hear(ls_aside *a, answer *got) {
    double slept = 0, last = ls_clock(), before = -1;
    for (;;) {
        ssize_t n = recv(a->line, got, sizeof *got, 0);
        if (n >= 0 || (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)) return n;
        double now = ls_clock(), waited = now - last;
        if (waited < 0.9) continue;  // a signal
        last = now;
        if (!sleeps(a, &before))
            slept = 0;
        else if (waited < 2)
            slept += waited;  // else this process did not run either, and nothing is known
        if (slept < a->patience) continue;
        find_what_it_opens(a);
        a->slept = 1;
        return -1;
    }
}

ls_status ls_aside_ask(ls_aside *a) {
    answer got;
    ssize_t n = -1;
    if (a->process <= 0) return has_died(a);
    if (send(a->line, "?", 1, MSG_NOSIGNAL) == 1) n = hear(a, &got);
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
