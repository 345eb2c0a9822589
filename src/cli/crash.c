// The last words of a process that a signal ends: what the signal was, and what it most likely means.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/cli.h"

enum { STACK_BYTES = 65536 };

#ifndef LS_SANITIZED  // they tell more

// Nothing here but what may be called from a signal handler.
static void put(const char *text) {
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
}

static void put_number(int n) {
    char digits[16];
    int at = sizeof digits - 1;
    digits[at] = 0;
    do digits[--at] = (char)('0' + n % 10);
    while ((n /= 10) > 0 && at > 0);
    put(digits + at);
}

static void tell(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    put("lockstep: process ");
    put_number((int)getpid());
    put(" crashed: ");
    put(number == SIGSEGV  ? "it used memory it does not have (SIGSEGV); libraries do so where memory is limited too "
                             "tightly (ulimit -v)"
        : number == SIGBUS ? "memory it shares or a file it reads is not there (SIGBUS); most often /dev/shm or a disk "
                             "is full, or a file was cut short"
        : number == SIGILL ? "this processor lacks an instruction (SIGILL); most often it was built for another one"
        : number == SIGFPE ? "it computed what cannot be computed (SIGFPE)"
                           : "it gave up (SIGABRT); what it said above is the reason");
    put(". If that is not the cause it is a defect: please report the command\n");
    raise(number);  // the handler is gone; the process ends as it would have
}

static void tell_limit(int number) {
    (void)number;
    put("lockstep: process ");
    put_number((int)getpid());
    put(" has used the processor time it may have (ulimit -t); raise that limit, or do less\n");
    signal(SIGXCPU, SIG_DFL);
    raise(SIGXCPU);
}

// Where a limit of processor time is both the soft and the hard one, as ulimit sets it, the system kills at once when it is reached.
// So a timer of the same time rings a little before.
static void watch_processor_time(void) {
    const double before = 0.2;
    struct rlimit limit;
    struct rusage used;
    if (getrlimit(RLIMIT_CPU, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > 1 << 30) return;
    signal(SIGXCPU, tell_limit);
    signal(SIGPROF, tell_limit);
    getrusage(RUSAGE_SELF, &used);
    double left = (double)(limit.rlim_cur > 0 ? limit.rlim_cur : 1) - before -
                  (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) -
                  1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    if (left < 1e-3) left = 1e-3;
    struct itimerval timer = {.it_value = {(time_t)left, (suseconds_t)((left - (double)(time_t)left) * 1e6)}};
    setitimer(ITIMER_PROF, &timer, NULL);
}

void cli_crash_tell(void) {
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    static _Alignas(16) char stack[STACK_BYTES];  // the other one may be what has overflowed
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_sigaction = tell, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND | SA_NODEFER};
    if (sigaltstack(&other, NULL) != 0) action.sa_flags &= ~SA_ONSTACK;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) sigaction(numbers[i], &action, NULL);
    watch_processor_time();
}

#else
void cli_crash_tell(void) {}
#endif

// --- killed for memory -------------------------------------------------------------------------------------------------
//
// A process that the kernel kills for memory cannot say so itself, and its shell says one word at most. A child that does nothing but
// wait for the end of a pipe survives it, being small.

static int end_of_pipe = -1;

static void end_well(void) {
    ssize_t written = write(end_of_pipe, "", 1);
    (void)written;
}

static void wait_and_tell(const char *command, int pipe, double limit, int64_t kills) {
    char ended_well;
    for (int fd = 0; fd < 256; fd++)
        if (fd != pipe && fd != STDERR_FILENO) close(fd);
    ssize_t n;
    do n = read(pipe, &ended_well, 1);
    while (n < 0 && errno == EINTR);
    if (n == 0 && ls_limits_kills() > kills)
        dprintf(
            STDERR_FILENO,
            "lockstep %s: the system has killed this process because memory ran out: its control group allows %.1f MB; "
            "'lockstep plan' says where memory goes and what needs less of it\n",
            command, limit / 1e6);
    _exit(0);
}

void cli_killed_tell(const char *command) {
    double limit = ls_limits_group_memory();
    int64_t kills = ls_limits_kills();
    int ends[2];
    if (limit < 0 || kills < 0 || pipe2(ends, O_CLOEXEC) != 0) return;
    pid_t child = fork();
    if (child == 0) wait_and_tell(command, ends[0], limit, kills);
    close(ends[0]);
    if (child < 0) {
        close(ends[1]);
        return;
    }
    end_of_pipe = ends[1];
    atexit(end_well);
}
