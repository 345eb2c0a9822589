// One run of a study: this program again, as a process group of its own, watched until it ends.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/launcher.h"
#include "cli/scale.h"

#define TICK_SECONDS  0.5
#define GRACE_SECONDS 10  // between asking a run to end and ending it

// In the child, which does not return. `path` is this program, `argv` the run's words, `extra` what srun is to be told.
static void become(const char *path, char **argv, const char *extra, int log, const sigset_t *mask, pid_t parent) {
    setpgid(0, 0);         // a Ctrl-C reaches this program alone, which then ends the run
    cli_end_with(parent);  // and its end, however it comes, is that of the run
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    if (extra) setenv("LOCKSTEP_SRUN_ARGS", extra, 1);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execv(path, argv);
    dprintf(STDERR_FILENO, "lockstep scale: cannot start %s: %s\n", path, strerror(errno));
    _exit(127);
}

static ls_status start(const json_t *command, const char *log_path, const sigset_t *mask, pid_t *out) {
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0) return LS_FAIL(LS_STATUS_IO, "cannot find out where this program is: %s", strerror(errno));
    self[n] = 0;
    size_t count = json_array_size(command), skip = 0;
    const char *extra = NULL;
    if (strcmp(json_string_value(json_array_get(command, 0)), "env") == 0) {
        extra = strchr(json_string_value(json_array_get(command, 1)), '=') + 1;
        skip = 2;
    }
    char **argv;
    LS_TRY(ls_calloc((int64_t)(count - skip) + 1, sizeof *argv, &argv));
    argv[0] = self;
    for (size_t i = skip + 1; i < count; i++) argv[i - skip] = (char *)json_string_value(json_array_get(command, i));
    ls_status status = LS_OK;
    unlink(log_path);  // a new one: what stands there may be a link to anywhere
    int log = open(log_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (log < 0) LS_FAIL_GOTO(LS_STATUS_IO, done, "cannot write %s: %s", log_path, strerror(errno));
    fflush(NULL);
    pid_t parent = getpid();
    *out = fork();
    if (*out == 0) become(self, argv, extra, log, mask, parent);
    if (*out < 0) LS_FAIL_GOTO(LS_STATUS_IO, done, "cannot start another process: %s", strerror(errno));
    setpgid(*out, *out);
done:
    if (log >= 0) close(log);
    free(argv);
    return status;
}

// Ends the run, kindly first: a launcher then ends its workers.
static void end(pid_t pid, const sigset_t *signals, int *wait_status) {
    kill(-pid, SIGTERM);
    double since = ls_clock();
    while (waitpid(pid, wait_status, WNOHANG) == 0) {
        if (ls_clock() - since > GRACE_SECONDS) {
            kill(-pid, SIGKILL);
            waitpid(pid, wait_status, 0);
            return;
        }
        sigtimedwait(signals, NULL, &(struct timespec){.tv_nsec = 100000000});
    }
}

typedef enum outcome { ENDED, TIMED_OUT, INTERRUPTED } outcome;

// Waits for the run, a signal or the time limit. `signals` are blocked, and taken from here.
static outcome watch(pid_t pid, const sigset_t *signals, double timeout, void (*tick)(void *, double), void *user,
                     int *wait_status) {
    double began = ls_clock(), ticked = began;
    while (waitpid(pid, wait_status, WNOHANG) == 0) {
        double now = ls_clock();
        if (timeout > 0 && now - began > timeout) {
            end(pid, signals, wait_status);
            return TIMED_OUT;
        }
        if (now - ticked >= TICK_SECONDS) {
            tick(user, now - began);
            ticked = now;
        }
        int signal = sigtimedwait(signals, NULL, &(struct timespec){.tv_nsec = 100000000});
        if (signal > 0 && signal != SIGCHLD) {
            end(pid, signals, wait_status);
            return INTERRUPTED;
        }
    }
    return ENDED;
}

// What follows `begin` in the first or the last line of the log that begins so; 0 where there is none.
static int words_after(const char *log_path, const char *begin, int last, char *out, size_t size) {
    FILE *log = fopen(log_path, "r");
    if (!log) return 0;
    char line[2048];
    int found = 0;
    while ((last || !found) && fgets(line, sizeof line, log)) {
        if (strncmp(line, begin, strlen(begin)) != 0) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(out, size, "%s", line + strlen(begin));
        found = 1;
    }
    fclose(log);
    return found;
}

// What ended it, 0 where it ended itself. Launchers tell of a worker's signal as shells do.
static int crash_signal(int wait_status) {
    if (WIFSIGNALED(wait_status)) return WTERMSIG(wait_status);
    int code = WEXITSTATUS(wait_status);
    return code > 128 && code < 128 + 65 ? code - 128 : 0;
}

// Writes NAME.failed: one sentence.
static ls_status note_failure(const scale_plan *p, const scale_run *r, const char *log_path, outcome how,
                              double timeout, int wait_status) {
    char sentence[2200], words[2048];
    if (how == TIMED_OUT)
        snprintf(sentence, sizeof sentence, "it took longer than the %g s of --timeout", timeout);
    else if (crash_signal(wait_status))
        snprintf(sentence, sizeof sentence, "it crashed: signal %d (%s); runs/%s.log may say more",
                 crash_signal(wait_status), strsignal(crash_signal(wait_status)), scale_name(r));
    else if (words_after(log_path, "lockstep train: ", 1, words, sizeof words))
        snprintf(sentence, sizeof sentence, "%s", words);
    else if (words_after(log_path, "srun: error: ", 0, words, sizeof words))  // Slurm has refused it
        snprintf(sentence, sizeof sentence, "srun says: %.1900s; runs/%s.log may say more", words, scale_name(r));
    else if (WEXITSTATUS(wait_status) != 0)
        snprintf(sentence, sizeof sentence, "it ended with exit status %d; runs/%s.log may say why",
                 WEXITSTATUS(wait_status), scale_name(r));
    else
        snprintf(sentence, sizeof sentence, "it ended without a record; runs/%s.log may say why", scale_name(r));
    char *path;
    LS_TRY(scale_path(p, r, "failed", &path));
    unlink(path);
    FILE *file = fopen(path, "wx");
    int failed = !file || fprintf(file, "%s\n", sentence) < 0;
    if (file) failed |= fclose(file) != 0;
    ls_status status = failed ? LS_FAIL(LS_STATUS_IO,
                                        "cannot write %s: %s; when it can be written again, the same command goes on "
                                        "with what is not done",
                                        path, strerror(errno))
                              : LS_OK;
    if (failed) unlink(path);
    free(path);
    return status;
}

static ls_status run_it(const scale_plan *p, scale_run *r, const char *record, const char *log_path, double timeout,
                        void (*tick)(void *, double), void *user, int *interrupted) {
    sigset_t signals, before;
    int wait_status = 0;
    pid_t pid;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, &before);
    double began = ls_clock();
    ls_status status = start(json_object_get(r->entry, "command"), log_path, &before, &pid);
    if (status == LS_OK) {
        outcome how = watch(pid, &signals, timeout, tick, user, &wait_status);
        r->seconds = ls_clock() - began;
        r->fresh = 1;
        int good = how == ENDED && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0 && access(record, R_OK) == 0;
        if (!good) unlink(record);  // what it may have written before it was ended is not a whole run
        *interrupted = how == INTERRUPTED;
        json_t *stopped = scale_stopped(record);
        if (how != INTERRUPTED) r->state = !good ? SCALE_FAILED : stopped ? SCALE_STOPPED : SCALE_DONE;
        json_decref(stopped);
        if (how != INTERRUPTED && !good) status = note_failure(p, r, log_path, how, timeout, wait_status);
    }
    // A signal that came after the last look counts too; left pending it would end this program before it says where it stopped.
    for (int signal; (signal = sigtimedwait(&signals, NULL, &(struct timespec){0})) > 0;)
        if (signal != SIGCHLD) *interrupted = 1;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}

ls_status scale_run_one(const scale_plan *plan, scale_run *run, double timeout,
                        void (*tick)(void *user, double seconds), void *user, int *interrupted) {
    char *record, *log_path = NULL, *failed = NULL, *before = NULL;
    *interrupted = 0;
    LS_TRY(scale_path(plan, run, "json", &record));
    ls_status status = scale_path(plan, run, "log", &log_path);
    if (status == LS_OK) status = scale_path(plan, run, "failed", &failed);
    if (status == LS_OK) status = scale_path(plan, run, "stopped", &before);
    if (status == LS_OK) {
        unlink(failed);  // it gets another chance
        // The record of a run that was stopped makes room, and comes back if this one leaves none.
        int kept = rename(record, before) == 0;
        status = run_it(plan, run, record, log_path, timeout, tick, user, interrupted);
        if (kept && access(record, F_OK) == 0)
            unlink(before);
        else if (kept)
            rename(before, record);
    }
    free(before);
    free(record);
    free(log_path);
    free(failed);
    return status;
}
