#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/flight.h"
#include "base/lost.h"
#include "base/memory.h"
#include "base/patience.h"
#include "base/watch.h"
#include "cli/cli.h"
#include "cli/launcher.h"

#ifndef LS_MPIEXEC
#define LS_MPIEXEC ""  // the launcher of the MPI this was built with
#endif

#define STOPPED_SECONDS 60    // a process of this host that does not run for so long does not come back by itself
#define GONE_SECONDS    3     // nor does one that has ended
#define WAIT_SECONDS    1800  // longer than any step
#define SLOW_SECONDS    10    // of which a wait is told, where steps are short
#define SURE_PART       0.75  // of the limit, where others wait as long
#define LEFT_SECONDS    2     // for a launcher to end the workers that are left
#define TELL_SECONDS    3     // for the others to hear why this process ends

#define MARK "LOCKSTEP_LAUNCHED"  // in the environment of the workers a launch starts: how many were asked for

static int number(const char *name) {
    const char *text = getenv(name);
    return text && *text ? atoi(text) : -1;
}

int cli_job_is_launched(void) { return number(MARK) > 0; }

// Whether srun started this process. Batch scripts and interactive shells inside an allocation carry Slurm's variables too, and
// have step numbers beyond all real ones.
static int in_slurm_step(void) {
    const char *step = getenv("SLURM_STEP_ID");
    return step && *step && strtoull(step, NULL, 10) < 0xFFFFFFF0u && getenv("SLURM_PROCID");
}

// In an interactive shell of a step (srun --pty), which has a terminal and gives its jobs process groups of their own: steps that are
// started there inherit the shell's variables, not that. A step of one task without PMI is no job of several workers either.
static int in_shell_of_step(void) {
    if (!in_slurm_step()) return 0;
    int terminal = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (terminal >= 0) close(terminal);
    if (terminal >= 0 && getenv("SLURM_PTY_PORT") && getpgrp() != getsid(0)) return 1;
    return number("SLURM_STEP_NUM_TASKS") == 1 && number("PMIX_RANK") < 0 && number("PMI_RANK") < 0;
}

void cli_job_leave_step(void) {
    static const char *const words[] = {"SLURM_STEP", "SLURM_PROCID=", "PMIX_", "PMI_"};
    if (!in_shell_of_step()) return;
    setenv("SLURM_OVERLAP", "1", 0);  // the step of the shell has all that a step of workers would wait for
    for (char **e = environ; *e;) {
        char name[64] = "";
        for (size_t i = 0; i < sizeof words / sizeof words[0] && !*name; i++)
            if (strncmp(*e, words[i], strlen(words[i])) == 0) sscanf(*e, "%63[^=]", name);
        if (!*name || unsetenv(name) != 0) e++;  // else the next one takes its place
    }
}

int cli_job_rank(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};
    for (int i = 0; i < 3; i++)
        if (number(names[i]) >= 0) return number(names[i]);
    return in_slurm_step() ? number("SLURM_PROCID") : -1;
}

int cli_job_size(void) {
    if (cli_job_rank() < 0) return 0;
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (int i = 0; i < 2; i++)
        if (number(names[i]) > 0) return number(names[i]);
    int n = in_slurm_step() ? number("SLURM_STEP_NUM_TASKS") : -1;
    return n > 0 ? n : 1;
}

// The path of a program on PATH, in `out`; 0 if there is none.
static int on_path(const char *name, char *out, size_t size) {
    if (strchr(name, '/')) {
        snprintf(out, size, "%s", name);
        return access(out, X_OK) == 0;
    }
    for (const char *p = getenv("PATH"); p && *p; p += strcspn(p, ":"), p += *p == ':') {
        snprintf(out, size, "%.*s/%s", (int)strcspn(p, ":"), p, name);
        if (access(out, X_OK) == 0) return 1;
    }
    return 0;
}

int cli_job_mpiexec(char *out, size_t size) {
    static const char *const open_mpi[] = {LS_MPIEXEC, "mpirun.openmpi", "mpirun", "mpiexec", NULL};
    static const char *const mpich[] = {LS_MPIEXEC, "mpiexec.mpich", "mpiexec.hydra", "mpiexec", "mpirun", NULL};
    const char *const *name = LS_MPI_IS_OPEN_MPI ? open_mpi : mpich;
    while (*name && !(**name && on_path(*name, out, size))) name++;
    return *name != NULL;
}

int cli_job_srun(char *out, size_t size) { return on_path("srun", out, size); }

const char *cli_job_pmi(void) {
    const char *given = getenv("LOCKSTEP_SRUN_ARGS");
    return given ? given : LS_MPI_IS_OPEN_MPI ? "--mpi=pmix" : "--mpi=pmi2";
}

typedef struct arguments {
    char **list;
    int count;
} arguments;

static void add(arguments *a, const char *text) { a->list[a->count++] = (char *)text; }

// Words of `text`, cut in place.
static void add_words(arguments *a, char *text, int most) {
    char *rest = text;
    for (char *word; most > 0 && (word = strsep(&rest, " \t")); most--)
        if (*word) add(a, word);
}

enum { LAUNCHER_WORDS = 64, EXTRA_WORDS = 40 };

// In an allocation of Slurm: srun, which knows its nodes. LOCKSTEP_SRUN_ARGS takes the place of how MPI is to be wired up.
static int srun_arguments(arguments *a, char *program, size_t size, const char *workers, char **extra) {
    if (!getenv("SLURM_JOB_ID") || !cli_job_srun(program, size)) return 0;
    add(a, "srun");
    add(a, "-n");
    add(a, workers);
    const char *given = getenv("LOCKSTEP_SRUN_ARGS");
    if (given && (*extra = strdup(given)))
        add_words(a, *extra, EXTRA_WORDS);
    else
        add(a, cli_job_pmi());
    add(a, "--kill-on-bad-exit=1");
    add(a, "--cpu-bind=none");
    if (number("SLURM_NTASKS") > 0 && atoi(workers) > number("SLURM_NTASKS")) add(a, "--overcommit");
    const char *cpus = getenv("SLURM_CPUS_PER_TASK");
    if (cpus) setenv("SRUN_CPUS_PER_TASK", cpus, 0);  // srun no longer takes it from the batch job
    return 1;
}

// Open MPI refuses to be started by root unless told twice. Root is who one is in containers; that it is done is said, where the user has not
// done it.
static void allow_root(void) {
    if (geteuid() != 0) return;
    if (!getenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM") && !getenv("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"))
        fprintf(stderr,
                "Starting workers as root, against which Open MPI guards: OMPI_ALLOW_RUN_AS_ROOT=1 and "
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 are set for this run.\n");
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("PRTE_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
}

static int mpiexec_arguments(arguments *a, char *program, size_t size, const char *workers) {
    if (!cli_job_mpiexec(program, size)) return 0;
    add(a, program);
    if (LS_MPI_IS_OPEN_MPI) {
        add(a, "--oversubscribe");
        add(a, "--bind-to");  // the program binds its replicas itself
        add(a, "none");
        allow_root();
        // Containers and virtual machines make it complain of networks they lack and of copies between processes they
        // forbid, which Lockstep does not use inside a host. What the user has set stays.
        setenv("OMPI_MCA_btl_base_warn_component_unused", "0", 0);
        setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
        setenv("HWLOC_HIDE_ERRORS", "2", 0);
    } else {
        add(a, "-bind-to");
        add(a, "none");
    }
    add(a, "-n");
    add(a, workers);
    return 1;
}

// What the workers are to know of this process, which they replace.
static void set_environment(const cli *c, const char *workers) {
    struct timespec t;
    char started[48];
    clock_gettime(CLOCK_REALTIME, &t);
    snprintf(started, sizeof started, "%.6f", (double)t.tv_sec + 1e-9 * (double)t.tv_nsec - (ls_clock() - c->started));
    setenv("LOCKSTEP_STARTED", started, 1);
    setenv("LOCKSTEP_TERMINAL", cli_terminal_is(stdout) ? "1" : "0", 1);
    setenv(MARK, workers, 1);
}

// Launchers hold pipes to every worker, and without them some wait for ever, or crash, instead of failing.
static ls_status check_files(int workers) {
    struct rlimit limit;
    int64_t needed = 4 * (int64_t)workers + (LS_MPI_IS_OPEN_MPI ? 28 : 16);  // Open MPI 4.1 and Hydra 4.0: one to spare
    for (int file = 3; file < 256; file++) needed += fcntl(file, F_GETFD) == 0;  // open here, and they inherit it
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return LS_OK;
    if (needed <= (int64_t)limit.rlim_cur) return LS_OK;
    return LS_FAIL(LS_STATUS_UNSUPPORTED,
                   "--workers %d: to start them takes %lld open files, and %lld are allowed (ulimit -n): start fewer, "
                   "with more --replicas, or raise the limit",
                   workers, (long long)needed, (long long)limit.rlim_cur);
}

// How long a process of this host may be stopped.
static double stopped_seconds(const cli *c) {
    return c->wait_limit > 0 && c->wait_limit < STOPPED_SECONDS ? c->wait_limit : STOPPED_SECONDS;
}

// The same with --resume behind the command's name, which stands before the last argc - 2 words, and room for one word more.
static ls_status with_resume(const arguments *a, int argc, char ***out) {
    int rest = argc - 2, head = a->count - rest;
    LS_TRY(ls_calloc(a->count + 3, sizeof **out, out));
    memcpy(*out, a->list, (size_t)head * sizeof **out);
    (*out)[head] = "--resume";
    memcpy(*out + head + 1, a->list + head, (size_t)rest * sizeof **out);
    return LS_OK;
}

// --- nodes that are gone ---------------------------------------------------------------------------------------------

// The nodes that Slurm has left to this job, which it takes those from that have failed (--no-kill); -1 where it does not tell.
static int nodes_left(void) {
    char command[96], *line = NULL;
    size_t size = 0;
    int nodes = -1;
    snprintf(command, sizeof command, "timeout 20 scontrol --oneliner show job %d 2>/dev/null", number("SLURM_JOB_ID"));
    FILE *out = popen(command, "r");
    while (out && getline(&line, &size, out) > 0) {
        const char *at = strstr(line, " NumNodes=");
        if (at) nodes = atoi(at + strlen(" NumNodes="));
    }
    if (out) pclose(out);
    free(line);
    return nodes;
}

// What Slurm has told of the job when it began, and srun would believe.
static void forget_nodes(int nodes) {
    static const char *const told[] = {"SLURM_NNODES",          "SLURM_NODELIST",         "SLURM_JOB_NODELIST",
                                       "SLURM_NTASKS",          "SLURM_NPROCS",           "SLURM_TASKS_PER_NODE",
                                       "SLURM_NTASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"};
    char count[16];
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) unsetenv(told[i]);
    snprintf(count, sizeof count, "%d", nodes);
    setenv("SLURM_JOB_NUM_NODES", count, 1);
}

// Of a job that has lost nodes: as many workers on each of those that are left as before.
static void fewer_workers(cli_launch *launch) {
    static char count[16], option[32];  // one process launches once
    int had = number("SLURM_JOB_NUM_NODES"), left = nodes_left();
    if (had < 1 || left < 1 || left >= had) return;
    int before = launch->workers;
    launch->workers = before * left / had > 0 ? before * left / had : 1;
    snprintf(count, sizeof count, "%d", launch->workers);
    snprintf(option, sizeof option, "--workers=%d", launch->workers);
    // srun's first words are its name, -n, and how many; of an option that is given twice the last one counts.
    launch->again[2] = count;
    char **last = launch->again;
    while (*last && *last != option) last++;
    *last = option;
    setenv(MARK, count, 1);
    forget_nodes(left);
    fprintf(stderr, "lockstep %s: %d of the job's %d nodes %s gone: going on with %d worker%s\n", launch->command,
            had - left, had, had - left == 1 ? "is" : "are", launch->workers, launch->workers == 1 ? "" : "s");
}

static ls_status launch(cli *c, int workers) {
    c->stage = CLI_STAGE_TOGETHER;  // what goes wrong from here on is not the command line's fault
    char self[4096], program[4096], count[16], *extra = NULL, **again = NULL;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        snprintf(self, sizeof self, "%s", c->argv[0]);
    else
        self[n] = 0;
    snprintf(count, sizeof count, "%d", workers);
    arguments a = {.count = 0};
    LS_TRY(ls_calloc(LAUNCHER_WORDS + c->argc + 1, sizeof *a.list, &a.list));
    ls_status status = LS_OK;
    set_environment(c, count);
    if (!srun_arguments(&a, program, sizeof program, count, &extra) &&
        !mpiexec_arguments(&a, program, sizeof program, count)) {
        LS_FAIL_GOTO(
            LS_STATUS_NOT_FOUND, failed,
            "--workers %d: cannot start them: %s is not on this machine's PATH; install %s, or start the workers "
            "yourself with the launcher of your site",
            workers, LS_MPI_IS_OPEN_MPI ? "mpirun" : "mpiexec", LS_MPI_IS_OPEN_MPI ? "Open MPI" : "MPICH");
    }
    int by_srun = strcmp(a.list[0], "srun") == 0;  // which says itself what becomes of its tasks
    if (!by_srun) LS_TRY_GOTO(check_files(workers), failed);
    add(&a, self);
    for (int i = 1; i < c->argc; i++) add(&a, c->argv[i]);
    a.list[0] = program;
    LS_TRY_GOTO(with_resume(&a, c->argc, &again), failed);
    cli_launch it = {.command = c->command,
                     .argv = a.list,
                     .again = again,
                     .speaks = !by_srun,
                     // A little longer than those who wait take, who know more.
                     .patience = c->wait_limit < 0 ? -1 : stopped_seconds(c) + 10,
                     .restarts = c->restarts,
                     .look_at_hosts = by_srun ? fewer_workers : NULL,
                     .workers = workers,
                     .stops_kindly = c->stops_kindly};
    status = cli_launcher_run(&it);
    if (status != LS_OK) ls__fail_context(status, "--workers %d: ", workers);
failed:
    free(extra);
    free(again);
    free(a.list);
    return status;
}

ls_status cli_job_check_batch(cli *c, const ls_train_config *config, int workers) {
    int64_t micro = config->micro_batch > 0 ? config->micro_batch : ls_micro_batch_default(config->batch_size);
    int64_t v = (config->batch_size + micro - 1) / micro;
    int servers;
    cli_stage stage = c->stage;
    if (workers < 1 || micro > config->batch_size) return LS_OK;  // which they refuse
    c->stage = CLI_STAGE_TOGETHER;                                // as where the workers find it out
    LS_TRY(ls_train_servers(config, workers, &servers));
    if (workers - servers > v && !config->async)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%d workers%s for %lld micro-batch%s of %lld in a global batch of %lld: start at most %lld, or "
                       "make --micro-batch smaller or --batch-size larger",
                       workers - servers, servers ? " beside the servers" : "", (long long)v, v == 1 ? "" : "es",
                       (long long)micro, (long long)config->batch_size, (long long)v + servers);
    c->stage = stage;
    return LS_OK;
}

// A wait that is told of; or the end of the job, on a thread of its own: nobody answers, so there is nobody to agree with. The launcher ends the workers it still
// reaches; those of this host, which may be stopped and hear no other signal, are ended here.
static void note_waiting(void *user, const ls_watch_report *report) {
    const cli *c = user;
    char host[256] = "this host", text[10240];
    gethostname(host, sizeof host - 1);
    int rank = c->clustered ? ls_watch_own_rank() : cli_job_rank();
    int n = snprintf(text, sizeof text, "lockstep %s: worker %d on %s %s. %s\n%s", c->command, rank, host,
                     report->sentence, report->over ? CLI_JOB_ENDS : "On this host:", report->records);
    if (n >= (int)sizeof text) n = (int)sizeof text - 1;
    while (write(STDERR_FILENO, text, (size_t)n) < 0 && errno == EINTR) continue;
    if (!report->over) return;
    ls_flight_leave();
    if (c->clustered) {  // whoever waits here tells the others why, and ends this process itself
        ls_watch_give_up(report->sentence);
        ls_patience_sleep(TELL_SECONDS);
    } else {
        ls_watch_end_peers();
    }
    _exit(1);
}

static volatile sig_atomic_t hears, ordered;  // what launchers send that end workers; and it was no wish to stop

// A worker of this host is lost, or the launcher ends this one. Where a worker has died launchers end the others, soon or now, so this says at once what it
// knows, and ends by itself where nobody does that.
static void note_lost(void *user, const char *sentence, int lost) {
    const cli *c = user;
    char host[256] = "this host", text[1024];
    if (!sentence) {
        if (!ordered) return;  // it stops after the step
        ls_flight_leave_asked();
        signal(SIGTERM, SIG_DFL);
        kill(getpid(), SIGTERM);
        return;
    }
    gethostname(host, sizeof host - 1);
    int n =
        snprintf(text, sizeof text, "lockstep %s: worker %d on %s %s\n", c->command, cli_job_rank(), host, sentence);
    if (n >= (int)sizeof text) n = (int)sizeof text - 1;
    // One that ends itself has said why, and may have ended that one with it.
    int left = lost && ls_flight_own() && ls_flight_has_left(ls_flight_own());
    while (!left && write(STDERR_FILENO, text, (size_t)n) < 0 && errno == EINTR) continue;
    if (!lost) return;
    ls_flight_leave();
    ls_patience_sleep(LEFT_SECONDS);
    _exit(1);
}

int cli_job_note_end(int order) {
    ordered |= order;
    ls_watch_asked();
    return hears && ls_lost_asked();
}

static void note_end(int number) {
    if (cli_job_note_end(1)) return;
    signal(number, SIG_DFL);
    raise(number);
}

void cli_job_hear(void) {
    struct sigaction action = {.sa_handler = hears ? note_end : SIG_DFL, .sa_flags = (int)SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
}

static void start_watch(cli *c) {
    double limit = c->wait_limit;
    if (!c->clustered) {  // others of --hosts hear of each other's end from their connections
        ls_lost_start(note_lost, c);
        hears = 1;
        if (!c->stops_kindly) cli_job_hear();  // else who listens for wishes tells of SIGTERM
    }
    // Whoever sees that a process of its own host is stopped says so before others take this one for the cause.
    double waiting = limit > 0 ? limit : limit < 0 ? INFINITY : WAIT_SECONDS;
    double stopped = limit < 0 ? INFINITY : stopped_seconds(c);
    if (c->clustered && stopped > SURE_PART * waiting) stopped = SURE_PART * waiting;
    ls_watch_limits limits = {.stopped = stopped,
                              .gone = c->clustered ? GONE_SECONDS : 0,  // a launcher would end the others
                              .waiting = waiting,
                              .slow = SLOW_SECONDS,
                              .deadline = c->deadline};
    ls_watch_start(&limits, note_waiting, c);
}

ls_status cli_job_join(cli *c, const char *command, int workers) {
    if (cli_job_size() > 1 || c->clustered) start_watch(c);
    if (cli_job_size() == 0) cli_killed_tell(command);
    // Beside a process that has a launcher's variables and no launcher Open MPI starts a daemon, with whose end it ends the process, and not a word.
    if (cli_job_size() == 1) setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
    if (c->clustered) LS_TRY(cli_cluster_join(c));
    if (!c->clustered) LS_TRY(ls_context_create(&c->context));
    char text[64];
    snprintf(text, sizeof text, "command=%s", command);
    LS_TRY(ls_context_check_equal(c->context, "the command", text));
    if (workers == 0 || ls_context_size(c->context) == workers) return LS_OK;
    return LS_FAIL(LS_STATUS_UNSUPPORTED,
                   "--workers %d, but the job has %d: the launcher's words in the environment (OMPI_COMM_WORLD_SIZE, "
                   "PMI_SIZE, " MARK ") say otherwise; unset them where no launcher started this",
                   workers, ls_context_size(c->context));
}

ls_status cli_job_launch(cli *c, int workers) {
    int size = cli_job_size();
    if (workers == 0 || c->clustered) return LS_OK;
    if (number(MARK) == workers && size == 0 && workers > 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "--workers %d: " MARK
                       "=%s is in the environment, as in a process that this program has started, but no "
                       "launcher did: unset " MARK,
                       workers, getenv(MARK));
    if (number(MARK) == workers) return LS_OK;
    if (size > 0 && size != workers)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "--workers %d, but the launcher started %d worker%s: leave out --workers, or start as many",
                       workers, size, size == 1 ? "" : "s");
    if (size > 0 || workers == 1) return LS_OK;
    if (!LS_WITH_MPI)
        return LS_FAIL(LS_STATUS_UNSUPPORTED,
                       "--workers %d: this lockstep was built without MPI and runs as one worker", workers);
    return launch(c, workers);
}
