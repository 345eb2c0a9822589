#include <fcntl.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/flight.h"
#include "base/text.h"
#include "base/watch.h"
#include "cli/cli.h"

// Whether this worker is the one that speaks. Before it has joined the job its launcher's word counts, and after too when it
// turned out to be alone: several processes that each think they are the only one must not all talk.
static int speaks(const cli *c) {
    if (c->clustered) return 1;  // where it was started nobody else does
    if (c->context && ls_context_size(c->context) > 1) return ls_context_rank(c->context) == 0;
    return cli_job_rank() <= 0;
}

static void say(const char *command, const char *worker) {
    char sentence[1024];
    if (ls_watch_given_up()) return;  // it was told at once, with what all do
    snprintf(sentence, sizeof sentence, "%s", ls_error_message());
    ls_text_clean(sentence);  // it may hold words of a file
    fflush(stdout);
    fprintf(stderr, "lockstep%s%s: %s%s\n", command ? " " : "", command ? command : "", worker, sentence);
    if (getenv("LOCKSTEP_TRACE")) fprintf(stderr, "  at %s\n", ls_error_trace());
}

// A failure that may be this worker's alone while the others wait for it. Worker 0 speaks at once and ends the job; the
// others give it a moment to, so that a failure all of them have seen is told once.
static void fail_alone(const cli *c, const char *command) {
    char worker[32] = "";
    int rank = ls_context_rank(c->context);
    if (ls_context_size(c->context) > 1) snprintf(worker, sizeof worker, "worker %d: ", rank);
    if (rank > 0 && !c->clustered) usleep(1000000 + 20000 * (unsigned)rank);
    say(command, worker);
    ls_flight_leave();
    ls_context_abort(c->context, 1);
}

// A failure before the job was joined, of a worker that is not to speak. Most often all have it, and worker 0 says it, at which the launcher ends
// them. Whoever is still there then has a failure of its own.
static void fail_before(const char *command) {
    char worker[32];
    int rank = cli_job_rank();
    usleep(2500000 + 20000 * (unsigned)(rank < 200 ? rank : 200));
    snprintf(worker, sizeof worker, "worker %d: ", rank);
    say(command, worker);
}

// What is written to a closed stream would land in the next file that is opened.
static void open_streams(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) != fd) _exit(1);
}

static int finish(cli *c, const char *command, ls_status status) {
    char worker[32] = "";
    int rank = c->context ? ls_context_rank(c->context) : c->cluster.task;
    if (c->clustered && rank >= 0) snprintf(worker, sizeof worker, "worker %d: ", rank);
    if (status != LS_OK && c->stage == CLI_STAGE_ALONE && c->context)
        fail_alone(c, command);
    else if (status != LS_OK && speaks(c))
        say(command, worker);
    else if (status != LS_OK && (!c->context || ls_context_size(c->context) == 1))
        fail_before(command);
    fflush(stdout);  // a launcher may end whoever is late in leaving
    ls_flight_leave();
    ls_context_destroy(&c->context);
    if (status == LS_OK && (fflush(stdout) || ferror(stdout))) {
        perror("lockstep: cannot write to the standard output");
        return 1;
    }
    if (status == LS_OK && c->exit_status)
        usleep(300000);  // the others have ended then, whom a launcher would end for it
    return status == LS_OK ? c->exit_status : c->stage == CLI_STAGE_ARGUMENTS ? 2 : 1;
}

static const cli_command *command_find(const char *name) {
    for (const cli_command *const *p = cli_commands(); *p; p++)
        if (strcmp((*p)->name, name) == 0) return *p;
    return NULL;
}

static ls_status unknown_command(const char *name) {
    const char *names[64] = {"help"}, *near;
    int count = 1;
    for (const cli_command *const *p = cli_commands(); *p && count < 64; p++) names[count++] = (*p)->name;
    near = ls_nearest(name, names, count);
    if (near) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "unknown command '%s'; did you mean %s?", name, near);
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "unknown command '%s'; 'lockstep --help' lists the commands", name);
}

static void help(void) {
    int width = cli_help_width();
    printf(
        "Lockstep %s: distributed deep-learning training; the same bits on any number of workers.\n\n"
        "Usage: lockstep COMMAND [OPTIONS]\n\nCommands:\n",
        ls_version());
    for (const cli_command *const *p = cli_commands(); *p; p++) {
        char left[32];
        snprintf(left, sizeof left, "  %s", (*p)->name);
        ls_print_entry(stdout, left, 14, width, (*p)->summary);
    }
    ls_print_entry(stdout, "  help", 14, width, "this text, or the help of a command: lockstep help train");
    printf("\nOptions:\n");
    ls_print_entry(stdout, "  --version", 14, width, "the versions of Lockstep and of what it runs on");
    ls_print_entry(stdout, "  -h, --help", 14, width, "this text");
    printf(
        "\nTry:\n  lockstep train mnist-cnn                                 on the embedded dataset, with all cores\n"
        "  lockstep train mnist-cnn --data mnist:DIR --workers 4    on MNIST, across four processes\n");
}

static ls_status version(void) {
    char path[CLI_DOCUMENT];
    LS_TRY(cli_version(stdout));
    printf("documents: %s\n", cli_document("", path));
    return LS_OK;
}

// The C library gives threads heaps of their own, each with 64 MB of addresses or more. Where addresses are few (ulimit -v) they go to those who come first,
// and to libraries that do not look whether there were any; then all threads have one heap. So do those of the launcher, and of the workers that it starts.
static void save_addresses(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
#if defined(__GLIBC__)
    mallopt(M_ARENA_MAX, 1);
#endif
    setenv("MALLOC_ARENA_MAX", "1", 0);
}

int main(int argc, char **argv) {
    open_streams();
    save_addresses();
    cli_job_leave_step();
    cli_crash_tell();
    signal(SIGXFSZ,
           SIG_IGN);  // a file that grows too large is a failed write, which is said, not the end of the process
    cli c = {.argc = argc, .argv = argv, .started = cli_process_started()};
    ls_cluster_init(&c.cluster);
    const char *name = argc > 1 ? argv[1] : "--help";
    int asks_help = strcmp(name, "help") == 0;
    if (strcmp(name, "--version") == 0) return finish(&c, NULL, version());
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || (asks_help && argc == 2)) {
        help();
        return finish(&c, NULL, LS_OK);
    }
    if (asks_help) name = argv[2];
    const cli_command *command = command_find(name);
    if (!command) return finish(&c, NULL, unknown_command(name));
    c.command = name;
    char *only_help[] = {"--help", NULL};
    ls_status status = asks_help ? command->run(&c, 1, only_help) : command->run(&c, argc - 2, argv + 2);
    return finish(&c, name, status);
}
