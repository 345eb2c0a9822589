#define _GNU_SOURCE
#include "cli/deadline.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/error.h"
#include "base/median.h"
#include "base/watch.h"

#define END "LOCKSTEP_END"  // in the environment: when to be over, in seconds since 1970, or "none"

#define ANSWER_SECONDS 5
#define LEAST_STEPS    4  // after which an evaluation's length can be told

// --- what the end is -------------------------------------------------------------------------------------------------

static double wall_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

ls_status cli_deadline_check(const char *limit) {
    double seconds;
    if (!limit || strcmp(limit, "none") == 0) return LS_OK;
    ls_status status = ls_duration_parse(limit, &seconds);
    return status == LS_OK ? LS_OK : ls__fail_context(status, "--time-limit: ");
}

static void become_squeue(int out, const char *job) {
    int nothing = open("/dev/null", O_RDWR);
    dup2(out, STDOUT_FILENO);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO), dup2(nothing, STDERR_FILENO);
    setenv("SLURM_TIME_FORMAT", "%s", 1);
    execlp("squeue", "squeue", "--noheader", "--jobs", job, "--Format", "EndTime", (char *)NULL);
    _exit(127);
}

// Reads what the process says, for so long; it is ended then. Returns 0 where there was no end to it.
static int read_answer(int in, char *out, size_t size) {
    double until = ls_clock() + ANSWER_SECONDS;
    size_t used = 0;
    for (;;) {
        struct pollfd wait = {.fd = in, .events = POLLIN};
        double left = until - ls_clock();
        out[used] = 0;
        if (left <= 0 || (poll(&wait, 1, (int)ceil(1e3 * left)) < 0 && errno != EINTR)) return 0;
        if (!wait.revents) continue;
        ssize_t n = used + 1 < size ? read(in, out + used, size - 1 - used) : 0;
        if (n <= 0) return 1;
        used += (size_t)n;
    }
}

// What squeue says of the job's end; 0 and a reason where it says nothing.
static int ask_squeue(const char *job, char *answer, size_t size, char *reason, size_t reason_size) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return 0;
    pid_t pid = fork();
    if (pid == 0) become_squeue(ends[1], job);
    close(ends[1]);
    int answered = pid > 0 && read_answer(ends[0], answer, size), wait_status = 0;
    close(ends[0]);
    if (pid <= 0) return 0;
    if (!answered) kill(pid, SIGKILL);
    waitpid(pid, &wait_status, 0);
    int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
    if (!answered)
        snprintf(reason, reason_size, "squeue gave no answer within %d s", ANSWER_SECONDS);
    else if (code == 127)
        snprintf(reason, reason_size, "there is no squeue here");
    else if (code != 0)
        snprintf(reason, reason_size, "squeue failed with exit status %d", code);
    return answered && code == 0;
}

// Seconds since 1970 at the head of `text`; 0 where there are none.
static double moment(const char *text) {
    char *end;
    double at = strtod(text, &end);
    return end > text && at > 1e9 && at < 1e11 && (*end == 0 || *end == ' ' || *end == '\n') ? at : 0;
}

// When the job ends, in seconds since 1970; 0 where it does not, or d->unknown says why nobody knows.
static double job_end(const char *job, cli_deadline *d) {
    const char *told = getenv("SLURM_JOB_END_TIME");
    if (told && moment(told)) return moment(told);
    char answer[256] = "", reason[128] = "";
    if (ask_squeue(job, answer, sizeof answer, reason, sizeof reason)) {
        if (moment(answer)) return moment(answer);
        answer[strcspn(answer, " \n")] = 0;
        if (strcmp(answer, "N/A") == 0 || strcmp(answer, "NONE") == 0) return 0;  // jobs may be without a limit
        snprintf(reason, sizeof reason, "squeue says '%.40s'", answer);
    }
    snprintf(d->unknown, sizeof d->unknown, "%s", reason);
    return 0;
}

static void earlier(cli_deadline *d, double at, const char *format, const char *what) {
    if (at == 0 || (d->at > 0 && d->at <= at)) return;
    d->at = at;
    snprintf(d->why, sizeof d->why, format, what);
}

void cli_deadline_find(const char *limit, double started, cli_deadline *out) {
    *out = (cli_deadline){.at = 0};
    double seconds, now = ls_clock(), wall = wall_clock();
    if (limit && strcmp(limit, "none") == 0) return;
    if (limit && ls_duration_parse(limit, &seconds) == LS_OK) earlier(out, started + seconds, "--time-limit %s", limit);
    const char *told = getenv(END), *job = getenv("SLURM_JOB_ID");
    double end = told ? moment(told) : 0;
    if (end > 0) earlier(out, now + end - wall, "%s", "the time limit of the study");
    if (job && *job && !told) {
        end = job_end(job, out);
        if (end > 0) earlier(out, now + end - wall, "the end of Slurm job %.24s", job);
    }
    double least = job && *job ? 5 : 2;  // srun and its daemons take their time too
    out->margin = out->at > 0 ? fmin(fmax(0.02 * (out->at - started), least), 60) : 0;
}

void cli_deadline_pass_on(const cli_deadline *d, double seconds) {
    char text[32] = "none";
    if (d->at > 0) snprintf(text, sizeof text, "%.3f", wall_clock() + d->at - seconds - ls_clock());
    setenv(END, text, 1);
}

void cli_deadline_print(const cli_deadline *d) {
    time_t end = (time_t)(wall_clock() + d->at - ls_clock());
    struct tm local;
    char text[32];
    if (d->at > 0 && strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", localtime_r(&end, &local)))
        printf("to be over by %s, %s\n", text, d->why);
    else if (d->unknown[0])
        printf("when this Slurm job ends is not known: %s; --time-limit says it\n", d->unknown);
}

// --- keeping it ------------------------------------------------------------------------------------------------------

ls_status cli_timekeeper_begin(cli_timekeeper *k, ls_context *context, const cli_deadline *deadline,
                               int64_t test_count) {
    *k = (cli_timekeeper){.deadline = *deadline, .test_count = test_count};
    struct {
        int64_t limited;
        double left;  // seconds, which is what clocks of several hosts agree on
    } first = {.limited = deadline->at > 0, .left = deadline->at - ls_clock()};
    LS_TRY(ls_context_broadcast(context, &first, sizeof first, 0));
    if (first.limited) ls_watch_deadline(ls_clock() + first.left);
    return LS_OK;
}

// Keeps how long steps take, without the first of each epoch: what is started then is found started by the others.
static void note_step(cli_timekeeper *k, const ls_step_report *p, double now) {
    if (p->step > 1 && k->latest > 0) {
        memmove(k->recent + 1, k->recent, (CLI_RECENT_STEPS - 1) * sizeof *k->recent);
        k->recent[0] = now - k->latest;
        if (k->recent_count < CLI_RECENT_STEPS) k->recent_count++;
    }
    k->latest = now;
    k->images = p->images_per_second * p->seconds / (double)p->step;
}

// The median of the latest steps: on a machine that others work on too, some take many times as long. 0: there were too few to tell.
static double step_seconds(const cli_timekeeper *k) {
    double sorted[CLI_RECENT_STEPS];
    int n = k->recent_count;
    if (n < LEAST_STEPS) return 0;
    memcpy(sorted, k->recent, sizeof sorted);
    return ls_median(sorted, n);
}

// An evaluation takes a third of what training takes for as many samples; somewhat more, to be sure.
static double evaluation_seconds(const cli_timekeeper *k, double a_step) {
    if (k->evaluation_seconds > 0) return 1.1 * k->evaluation_seconds;
    return k->images > 0 ? 0.45 * (double)k->test_count / k->images * a_step : 0;
}

int cli_timekeeper_step(cli_timekeeper *k, const ls_step_report *p, int validate) {
    if (k->deadline.at == 0) return 0;
    double now = ls_clock(), seconds = p->seconds / (double)p->step;
    double end = k->deadline.at - k->deadline.margin - k->reserved;
    if (k->latest > 0) seconds = fmax(seconds, now - k->latest);
    note_step(k, p, now);
    seconds *= 1.1;                  // none takes just what those before it took
    double usual = step_seconds(k);  // the first says little of that, and nothing of an evaluation
    double evaluation = evaluation_seconds(k, usual > 0 ? usual : seconds), left = end - evaluation - now;
    if (validate && p->step == p->steps) left -= evaluation;
    if (usual == 0) left = fmax(left, end - now - 2 * seconds);  // there is time to find out
    k->stop |= left < 2 * seconds;                               // once this one says to stop, another is done
    return k->stop;
}

int cli_timekeeper_too_late(const cli_timekeeper *k) {
    double usual = step_seconds(k);
    return k->stop && ls_clock() + evaluation_seconds(k, usual > 0 ? usual : k->recent[0]) > k->deadline.at;
}
