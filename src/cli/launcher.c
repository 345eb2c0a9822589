// A launcher is started quietly or it talks too much: of a worker that was killed it says either nothing or half a page. This process reads
// what it writes, passes on what the workers say, and turns the rest into one sentence.
#define _GNU_SOURCE
#include "cli/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/lost.h"
#include "base/patience.h"
#include "base/watch.h"
#include "cli/checkpoints.h"
#include "cli/cli.h"
#include "cli/survivors.h"

#define RULE           "--------------------------------------------------------------------------"
#define KIND_SECONDS   5  // between asking the launcher to end and ending it
#define START_SECONDS  30
#define ORPHAN_SECONDS 20   // a launcher without workers, which waits for hosts that do not answer
#define TURN_COUNTS    1.0  // second for which a turn counts at most in all of them

enum { BLOCK = 8192, SHOWN_LOST = 8 };

typedef struct supervisor {
    const cli_launch *launch;
    pid_t launcher;
    double wished;        // when the workers were asked to stop, for which they may take their time; 0: not
    int words;            // its standard error; -1: its own affair, or closed
    int results;          // its standard output; -1: closed
    char text[PIPE_BUF];  // of that, not yet passed on
    size_t text_at, text_used;
    int unwritten;    // errno, where some of it could not be; 0: all could
    int signals;      // a signalfd
    char line[4096];  // not yet ended
    size_t line_used;
    char block[BLOCK];  // what the launcher says between two rules
    size_t block_used;
    int in_block;
    double block_since;
    int said;    // a worker has said why the job ends
    int spoken;  // a worker has said anything, or the launcher a block that was passed on
    int lost;    // how many workers have said that they have lost one
    double lost_since;
    char given_up[512];      // why this process ended the launcher; "": it did not, or somebody asked for it
    cli_survivors *workers;  // those of this host
    int rank, number;        // of a worker that a signal ended, as the launcher says; number 0: none
    int told;                // the worker that is lost, as others say
    char host[256];
    double asked;  // when it was asked to end; 0: not
    int ordered;   // the signal that asked for it; 0: none did
    int killed;    // 1: it was ended, having been asked to in vain
    int had_workers;
    double alone;       // since when the launcher has no workers any more; 0: it has
    double frozen;      // since when the launcher, or all that is left of its workers, is stopped; 0: it runs
    ls_patience clock;  // what "when" is by
    int64_t kills;      // for memory, before
} supervisor;

static double clock_of(supervisor *s) {
    ls_patience_look(&s->clock);
    return 1 + s->clock.waited;  // 0: never
}

static void pass_on(const char *text, size_t n) {
    while (n > 0) {
        ssize_t written = write(STDERR_FILENO, text, n);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return;
        text += written;
        n -= (size_t)written;
    }
}

// --- what launchers say ------------------------------------------------------------------------------------------------

// Of a worker that a signal ended, as Open MPI and MPICH's Hydra have it. 1 where it is that.
static int note_signal(supervisor *s, const char *text) {
    const char *noticed = strstr(text, "noticed that process rank "), *on = strstr(text, " on node ");
    const char *by = strstr(text, " on signal ");
    if (noticed && by) {
        sscanf(noticed, "noticed that process rank %d", &s->rank);
        sscanf(by, " on signal %d", &s->number);
        if (on) sscanf(on, " on node %255s", s->host);
        return s->number != 0;
    }
    const char *bad = strstr(text, "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES"),
               *rank = strstr(text, "RANK ");
    const char *at = strstr(text, "RUNNING AT "), *code = strstr(text, "EXIT CODE: ");
    if (!bad) return 0;
    if (rank) sscanf(rank, "RANK %d", &s->rank);
    if (at) sscanf(at, "RUNNING AT %255s", s->host);
    if (code && strstr(text, "terminated with")) sscanf(code, "EXIT CODE: %d", &s->number);
    return 1;
}

// Words of the launcher that say nothing which the workers, or this process, do not say better.
static int is_noise(const char *text) {
    static const char *const known[] = {"Primary job  terminated normally", "processes exited with non-zero status",
                                        "MPI_ABORT was invoked on rank", "has exited improperly",
                                        "detected that one or more processes exited"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strstr(text, known[i])) return 1;
    return 0;
}

static void end_block(supervisor *s, int with_rule) {
    s->block[s->block_used] = 0;
    if (!s->block_used && !with_rule) pass_on(RULE "\n", strlen(RULE) + 1);
    if (s->block_used && !note_signal(s, s->block) && !is_noise(s->block)) {
        pass_on(RULE "\n", strlen(RULE) + 1);
        pass_on(s->block, s->block_used);
        if (with_rule) pass_on(RULE "\n", strlen(RULE) + 1);
    }
    s->in_block = 0;
    s->block_used = 0;
}

// A worker has seen another one end. All that are left do; returns whether this one is to be heard.
static int note_lost(supervisor *s, const char *line) {
    const char *who = strstr(line, ": worker ");
    if (s->lost++ == 0) s->lost_since = clock_of(s);
    if (who) cli_survivors_heard(s->workers, atoi(who + strlen(": worker ")));
    if (s->told < 0) sscanf(strstr(line, LS_LOST), LS_LOST " %d", &s->told);
    return s->lost <= SHOWN_LOST && !s->asked;
}

// One line, its end included.
static void take_line(supervisor *s, const char *line, size_t n) {
    if (strncmp(line, RULE, strlen(RULE)) == 0 && n <= strlen(RULE) + 2) {
        if (s->in_block && s->block_used) {
            end_block(s, 1);
        } else {
            s->in_block = 1;
            s->block_since = clock_of(s);
        }
        return;
    }
    if (strncmp(line, "lockstep", 8) == 0) {
        s->spoken |= !strstr(line, " On this host:") && !strstr(line, ": left out ");  // which ends nothing
        s->said |= strstr(line, CLI_JOB_ENDS) != NULL;
        if (s->in_block) end_block(s, 0);
        if (strstr(line, LS_LOST) && !note_lost(s, line)) return;
    }
    if (s->in_block && s->block_used + n < BLOCK) {
        memcpy(s->block + s->block_used, line, n);
        s->block_used += n;
        return;
    }
    if (s->in_block) end_block(s, 0);
    // Hydra has rules of another kind, and Open MPI lines of its own about these blocks.
    if (strncmp(line, "= ", 2) == 0 || strncmp(line, "=====", 5) == 0) {
        if (s->block_used + n < BLOCK) memcpy(s->block + s->block_used, line, n), s->block_used += n;
        s->block[s->block_used] = 0;
        note_signal(s, s->block);
        return;
    }
    if (strstr(line, "Set MCA parameter \"orte_base_help_aggregate\"") ||
        strstr(line, "more process has sent help message") || strstr(line, "more processes have sent help message") ||
        strstr(line, ": Forwarding signal ") || strncmp(line, "YOUR APPLICATION TERMINATED WITH", 32) == 0 ||
        strncmp(line, "This typically refers to a problem with your application", 56) == 0 ||
        strncmp(line, "Please see the FAQ page for debugging suggestions", 49) == 0)
        return;
    pass_on(line, n);
}

static void take_words(supervisor *s) {
    ssize_t n = read(s->words, s->line + s->line_used, sizeof s->line - 1 - s->line_used);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n <= 0) {
        close(s->words);
        s->words = -1;
        return;
    }
    s->line_used += (size_t)n;
    s->line[s->line_used] = 0;
    char *begin = s->line, *end;
    while ((end = memchr(begin, '\n', s->line_used - (size_t)(begin - s->line)))) {
        char after = end[1];
        end[1] = 0;
        take_line(s, begin, (size_t)(end + 1 - begin));
        end[1] = after;
        begin = end + 1;
    }
    s->line_used -= (size_t)(begin - s->line);
    memmove(s->line, begin, s->line_used);
    // A line that is not going to end, or a display that has no lines.
    if (s->line_used == sizeof s->line - 1 || memchr(s->line, '\r', s->line_used)) {
        pass_on(s->line, s->line_used);
        s->line_used = 0;
    }
}

// What the workers print. It goes on from here, so that what cannot be written is known. Who reads it may take their time:
// a pipe that is ready takes PIPE_BUF bytes at once, so signals are looked at all the while.
static struct pollfd results_wait(const supervisor *s) {
    if (s->text_used) return (struct pollfd){.fd = STDOUT_FILENO, .events = POLLOUT};
    return (struct pollfd){.fd = s->results, .events = POLLIN};
}

static void take_results(supervisor *s) {
    if (!s->text_used) {
        ssize_t n = read(s->results, s->text, sizeof s->text);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
        if (n <= 0) {
            close(s->results);
            s->results = -1;
            return;
        }
        s->text_at = 0;
        s->text_used = (size_t)n;
        return;
    }
    ssize_t n = write(STDOUT_FILENO, s->text + s->text_at, s->text_used - s->text_at);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n < 0) s->unwritten = errno;
    s->text_at = n < 0 ? s->text_used : s->text_at + (size_t)n;
    if (s->text_at == s->text_used) s->text_used = 0;
}

// --- processes -----------------------------------------------------------------------------------------------------------

static void send_signal(void *user, int64_t process, char state) {
    (void)state;
    kill((pid_t)process, *(const int *)user);
}

// Sends a signal (0: none) to each child of `parent`; how many there are.
static int children(pid_t parent, int signal_number) {
    return ls_watch_children(parent, signal_number ? send_signal : NULL, &signal_number);
}

void cli_end_with(pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);  // it had ended before, of which nobody tells this one any more
}

// A child of this program's process, which becomes the launcher.
static void become(char **argv, const sigset_t *mask, int words, int results, pid_t parent) {
    setpgid(0, 0);  // a Ctrl-C reaches this program's process alone, which passes it on
    cli_end_with(parent);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    if (words >= 0) dup2(words, STDERR_FILENO);
    dup2(results, STDOUT_FILENO);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execv(argv[0], argv);
    dprintf(STDERR_FILENO, "lockstep: cannot start %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static void ask(supervisor *s) {
    s->asked = clock_of(s);
    kill(s->launcher, SIGTERM);
}

// Ends the launcher where it was asked to end and does not.
static void press(supervisor *s) {
    if (!s->asked || s->killed || clock_of(s) - s->asked < KIND_SECONDS) return;
    s->killed = 1;
    children(s->launcher, SIGKILL);  // workers that are stopped hear nothing else
    kill(s->launcher, SIGKILL);
}

// The signal that has come; 0: none.
static int next_signal(const supervisor *s) {
    struct signalfd_siginfo info;
    return read(s->signals, &info, sizeof info) == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}

static void take_signal(supervisor *s) {
    int number = next_signal(s);
    if (number == 0 || number == SIGCHLD) return;
    if (number == SIGTSTP) {  // Ctrl-Z: the job stops, then this process
        kill(-s->launcher, SIGSTOP);
        children(s->launcher, SIGSTOP);
        raise(SIGSTOP);
        children(s->launcher, SIGCONT);
        kill(-s->launcher, SIGCONT);
        s->frozen = 0;
        return;
    }
    if (s->asked) return;
    int wish = s->launch->stops_kindly && number != SIGQUIT && number != SIGUSR2;
    if (wish && s->wished > 0 && clock_of(s) - s->wished < 1e-3 * CLI_REPEAT_MS) return;
    if (wish && s->wished == 0) {
        s->wished = clock_of(s);
        fprintf(stderr, "lockstep %s: finishing the step and writing a checkpoint; asked once more, it ends at once\n",
                s->launch->command);
        kill(s->launcher, SIGUSR1);
        return;
    }
    s->ordered = number;
    ask(s);
}

// A launcher whose workers are gone waits for hosts it does not reach, and for those that are stopped. It hears, and they do, once they go on.
static void give_up(supervisor *s, const char *why) {
    snprintf(s->given_up, sizeof s->given_up, "%s", why);
    ask(s);
    kill(s->launcher, SIGCONT);
}

typedef struct states {
    int running, stopped;
    int64_t process;  // one that is stopped
} states;

static void note_state(void *user, int64_t process, char state) {
    states *of = user;
    if (state == 'T')
        of->stopped++, of->process = process;
    else
        of->running++;
}

// Workers that wait for one which is stopped say so themselves; those that have ended do not, nor does anybody where it is the launcher.
static void look_at_stopped(supervisor *s, const states *of) {
    char launcher, why[480];
    double now = clock_of(s);
    int named = ls_watch_started(s->launcher, &launcher) >= 0 && launcher == 'T';
    int frozen = named || (of->running == 0 && of->stopped > 0);
    s->frozen = !frozen ? 0 : s->frozen > 0 ? s->frozen : now;
    if (!frozen || s->launch->patience < 0 || s->asked) return;
    if (now - s->frozen < s->launch->patience) return;
    char host[256] = "this host", who[32] = "a worker";
    gethostname(host, sizeof host - 1);
    int rank = named ? -1 : ls_watch_rank(of->process);
    if (rank >= 0) snprintf(who, sizeof who, "worker %d", rank);
    snprintf(why, sizeof why, "%s (process %lld) on %s has been stopped for %.0f s, as by SIGSTOP or a debugger%s",
             named ? "the launcher" : who, (long long)(named ? s->launcher : of->process), host, now - s->frozen,
             named ? "" : ", and no worker of this host runs");
    give_up(s, why);
}

static void look_after(supervisor *s) {
    states of = {0}, workers = {0};
    cli_survivors_find(s->workers, s->launcher);
    cli_survivors_each(s->workers, note_state, &workers);
    int count = ls_watch_children(s->launcher, note_state, &of);
    s->had_workers |= count > 0;
    // Between Hydra's launcher and its workers is a process that runs.
    look_at_stopped(s, workers.stopped == s->launch->workers ? &workers : &of);
    if (count > 0)
        s->alone = 0;
    else if (s->alone == 0)
        s->alone = clock_of(s);
    else if (!s->asked && s->had_workers && clock_of(s) - s->alone > (s->said ? KIND_SECONDS : ORPHAN_SECONDS))
        give_up(s, "all workers of this host are gone, and the launcher goes on without them");
    else if (!s->asked && !s->had_workers && clock_of(s) - s->alone > START_SECONDS)
        give_up(s, "the launcher has not started a worker; what stands above are its words");
    if (!s->asked && s->lost && clock_of(s) - s->lost_since > KIND_SECONDS)
        give_up(s, "a worker has ended, and the launcher goes on without it");
    if (s->in_block && clock_of(s) - s->block_since > 2) end_block(s, 0);
}

// --- the end -------------------------------------------------------------------------------------------------------------

// The signal that has ended a worker, 0: none. Open MPI and srun end with 128 more than its number, Hydra, which says why on the standard output alone, with the
// number itself; workers that end by themselves have 1, 2 or CLI_UNFINISHED.
static int signal_of(const supervisor *s, int code) {
    if (s->number) return s->number;
    if (code > 128 && code < 128 + 65) return code - 128;
    return s->launch->speaks && s->had_workers && code >= SIGQUIT && code <= SIGSYS ? code : 0;
}

static void say_end(const supervisor *s, int wait_status) {
    int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0, number = signal_of(s, code);
    if (*s->given_up && !s->said)
        fprintf(stderr, "lockstep %s: %s. " CLI_JOB_ENDS "\n", s->launch->command, s->given_up);
    if (s->ordered)
        fprintf(stderr, "lockstep %s: ended by signal %d (%s), and its workers with it\n", s->launch->command,
                s->ordered, strsignal(s->ordered));
    if (s->said || s->asked) return;
    // Workers that are left may take one for lost that the launcher has ended by then.
    int alone, first = cli_survivors_lost(s->workers, s->launch->workers, &alone);
    int rank = s->rank >= 0 ? s->rank : first >= 0 ? first : s->told, sure = s->rank >= 0 || (first >= 0 && alone);
    int heard = s->lost < SHOWN_LOST ? s->lost : SHOWN_LOST, more = s->lost - heard;
    if (number && !WIFSIGNALED(wait_status))
        more += cli_survivors_say(s->workers, s->launch->command, rank, alone, SHOWN_LOST - heard);
    if (more) fprintf(stderr, "lockstep %s: %d more workers have lost it, too\n", s->launch->command, more);
    if (WIFSIGNALED(wait_status)) {
        fprintf(stderr, "lockstep %s: the launcher was ended by signal %d (%s), and the job with it\n",
                s->launch->command, WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
        return;
    }
    if (!number && code && code != CLI_UNFINISHED && s->launch->speaks && !s->spoken)
        fprintf(stderr,
                "lockstep %s: the launcher ended with exit status %d, and no worker has said why; what stands above "
                "are its words\n",
                s->launch->command, code);
    if (!number || (number == SIGTERM && !s->launch->speaks)) return;  // srun so ends those who are left, and says why
    char who[320];
    if (rank >= 0)
        snprintf(who, sizeof who, "worker %d on %s%s", rank, s->host[0] ? s->host : "this host",
                 sure ? "" : CLI_SEEMS ",");
    else
        snprintf(who, sizeof who, "a worker");
    int64_t kills = ls_limits_kills();
    const char *why = number != SIGKILL ? ""
                      : s->kills >= 0 && kills > s->kills
                          ? "; the system has just ended a process because memory ran out: "
                            "'lockstep plan' says what needs less of it"
                          : "; that is what the system does when memory runs out, or somebody by hand";
    if (number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGABRT || number == SIGFPE)
        why = "; that is a crash, and most often what stands above is the reason";
    fprintf(stderr, "lockstep %s: %s was ended by signal %d (%s)%s. All workers end with it\n", s->launch->command, who,
            number, strsignal(number), why);
}

// What is still in the pipes, which a worker that outlives its launcher may hold open.
static void drain(supervisor *s) {
    double since = clock_of(s);
    while ((s->words >= 0 || s->results >= 0) && clock_of(s) - since < 1) {
        struct pollfd wait[] = {
            results_wait(s), {.fd = s->words, .events = POLLIN}, {.fd = s->signals, .events = POLLIN}};
        if (s->text_used) since = clock_of(s);  // who reads may take their time
        if (poll(wait, 3, 100) <= 0 && !s->text_used && children(getpid(), 0) == 0) break;
        if (wait[0].revents) take_results(s);
        if (wait[1].revents) take_words(s);
        int number = wait[2].revents ? next_signal(s) : 0;
        if (number && number != SIGCHLD && number != SIGTSTP) {
            s->ordered = number;
            break;
        }
    }
    if (s->line_used) pass_on(s->line, s->line_used);
    if (s->in_block && s->block_used) end_block(s, 1);
}

static int watch_it(supervisor *s) {
    int wait_status = 0;
    double looked = 0;
    for (;;) {
        struct pollfd wait[] = {results_wait(s),
                                {.fd = s->signals, .events = POLLIN},
                                {.fd = s->words, .events = POLLIN},
                                {.fd = cli_survivors_ends(s->workers), .events = POLLIN}};  // < 0: not looked at
        poll(wait, 4, 500);
        cli_survivors_look(s->workers);
        if (wait[0].revents) take_results(s);
        if (wait[1].revents) take_signal(s);
        if (wait[2].revents) take_words(s);
        if (waitpid(s->launcher, &wait_status, WNOHANG) == s->launcher) break;
        // Orphans that came to this process and have ended.
        siginfo_t other = {0};
        while (waitid(P_ALL, 0, &other, WEXITED | WNOHANG | WNOWAIT) == 0 && other.si_pid > 0 &&
               other.si_pid != s->launcher)
            waitpid(other.si_pid, NULL, 0);
        press(s);
        if (clock_of(s) - looked > 1) {
            looked = clock_of(s);
            look_after(s);
        }
    }
    drain(s);
    // Orphans come to this process, and end with it.
    for (int i = 0; i < 100 && children(getpid(), SIGKILL) > 0; i++) {
        usleep(50000);
        while (waitpid(-1, NULL, WNOHANG) > 0) continue;
    }
    return wait_status;
}

// Whether another start may get further: a worker or the launcher died or stood still, and nobody has asked for that.
static int died(const supervisor *s, int wait_status) {
    int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0;
    if (s->asked && !*s->given_up) return 0;
    return s->wished == 0 &&
           (WIFSIGNALED(wait_status) || signal_of(s, code) || s->said || s->lost || *s->given_up || code > 128);
}

static ls_status start(supervisor *s, char **argv, const sigset_t *mask) {
    int words[2] = {-1, -1}, results[2] = {-1, -1}, why;
    ls_status status;
    if ((s->launch->speaks && pipe2(words, O_CLOEXEC) != 0) || pipe2(results, O_CLOEXEC) != 0)
        LS_FAIL_GOTO(LS_STATUS_IO, failed, "cannot look after the workers: %s", strerror(errno));
    fflush(NULL);
    pid_t self = getpid();
    s->launcher = fork();
    why = errno;
    if (s->launcher == 0) become(argv, mask, words[1], results[1], self);
    if (s->launcher < 0) LS_FAIL_GOTO(LS_STATUS_IO, failed, "cannot start %s: %s", argv[0], strerror(why));
    setpgid(s->launcher, s->launcher);
    if (words[1] >= 0) close(words[1]);
    close(results[1]);
    s->words = words[0];
    s->results = results[0];
    return LS_OK;
failed:
    for (int i = 0; i < 2; i++) {
        if (words[i] >= 0) close(words[i]);
        if (results[i] >= 0) close(results[i]);
    }
    return status;
}

static supervisor begin(const cli_launch *launch, int signals) {
    return (supervisor){.launch = launch,
                        .words = -1,
                        .results = -1,
                        .rank = -1,
                        .told = -1,
                        .kills = ls_limits_kills(),
                        .workers = cli_survivors_new(),
                        .signals = signals,
                        .clock = ls_patience_begin(TURN_COUNTS)};
}

// What has come of it: where a signal ended it, as for a process of its own; 1 where what it printed could not be written.
static int exit_code(const supervisor *s, int wait_status) {
    int code = WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
    if (s->ordered) return 128 + s->ordered;
    if (code == 0 && s->asked) return 1;
    if (!s->unwritten || (code != 0 && code != CLI_UNFINISHED)) return code;
    fprintf(stderr, "lockstep: cannot write to the standard output: %s\n", strerror(s->unwritten));
    return 1;
}

ls_status cli_launcher_run(cli_launch *launch) {
    static const int passed[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGUSR1, SIGUSR2};
    sigset_t signals, before;
    struct sigaction action;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    for (size_t i = 0; i < sizeof passed / sizeof passed[0]; i++)  // what is ignored, as by nohup, stays so
        if (sigaction(passed[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(&signals, passed[i]);
    int listens = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (listens < 0) return LS_FAIL(LS_STATUS_IO, "cannot look after the workers: %s", strerror(errno));
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigprocmask(SIG_BLOCK, &signals, &before);
    supervisor s = begin(launch, listens);
    ls_status status = start(&s, launch->argv, &before);
    for (int restart = 1; status == LS_OK; restart++) {
        int wait_status = watch_it(&s), unwritten = s.unwritten;
        say_end(&s, wait_status);
        if (restart > launch->restarts || !died(&s, wait_status)) _exit(exit_code(&s, wait_status));
        if (s.words >= 0) close(s.words);
        if (s.results >= 0) close(s.results);
        cli_survivors_free(&s.workers);
        if (launch->look_at_hosts) launch->look_at_hosts(launch);
        fprintf(stderr, "lockstep %s: starting the workers again, from the newest checkpoint (restart %d of %d)\n",
                launch->command, restart, launch->restarts);
        s = begin(launch, listens);
        s.unwritten = unwritten;
        status = start(&s, launch->again, &before);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(listens);
    return status;
}
