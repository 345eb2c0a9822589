// MPI, launchers, Slurm, kernels, accelerators, limits.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/check.h"

static check_line *line_of(check *c, int which) { return &c->mine.line[which]; }

static const char *environment(const char *name) {
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

// --- other programs --------------------------------------------------------------------------------------------------

#define ASK_SECONDS 1.0  // a launcher that cannot tell its version by then does not work either

// What a program prints when called with one argument. 0 when it could not be started, failed or did not end in time.
static int ask(const char *program, const char *argument, char *out, size_t size) {
    int ends[2], status = -1;
    size_t length = 0;
    out[0] = 0;
    if (pipe(ends) != 0) return 0;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        execl(program, program, argument, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    double end = ls_clock() + ASK_SECONDS;
    int ended = child < 0;
    while (!ended && ls_clock() < end) {
        struct pollfd p = {.fd = ends[0], .events = POLLIN};
        if (poll(&p, 1, 50) <= 0) continue;
        char rest[512];
        int keep = length + 1 < size;
        ssize_t n = read(ends[0], keep ? out + length : rest, keep ? size - 1 - length : sizeof rest);
        if (n > 0 && keep) length += (size_t)n;
        ended = n == 0 || (n < 0 && errno != EINTR);
    }
    out[length] = 0;
    close(ends[0]);
    if (child < 0) return 0;
    // It may have closed its output and go on.
    pid_t gone = 0;
    while (ended && ls_clock() < end && (gone = waitpid(child, &status, WNOHANG)) == 0) usleep(1000);
    if (gone == child) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return 0;
}

static int is_open_mpi(const char *text) {
    return strstr(text, "Open MPI") || strstr(text, "OpenRTE") || strstr(text, "PRRTE");
}

// "Open MPI 4.1.4" of "mpirun (Open MPI) 4.1.4", "Hydra 4.0.2" of Hydra's list of settings.
static void launcher_name(const char *text, char *out, size_t size) {
    const char *open = strchr(text, '('), *close = open ? strchr(open, ')') : NULL, *version = strstr(text, "Version:");
    if (is_open_mpi(text) && strstr(text, "OpenRTE") && close)  // Open MPI's own, of its version, up to 4
        snprintf(out, size, "Open MPI%.*s", (int)strcspn(close + 1, "\n"), close + 1);
    else if (is_open_mpi(text) && close)
        snprintf(out, size, "%.*s%.*s", (int)(close - open - 1), open + 1, (int)strcspn(close + 1, "\n"), close + 1);
    else if (version) {
        version += 8 + strspn(version + 8, " \t");
        snprintf(out, size, "Hydra %.*s", (int)strcspn(version, " \t\n"), version);
    } else
        snprintf(out, size, "%.*s", (int)strcspn(text, "\n"), text);
}

void check_launcher(check *c) {
    check_line *l = line_of(c, CHECK_LAUNCHER);
    char program[4096], text[2048], name[80], library[128];
    const char *package = LS_MPI_IS_OPEN_MPI ? "Open MPI" : "MPICH";
    if (!LS_WITH_MPI) {
        check_say(l, CHECK_OK, NULL, "none needed: built without MPI");
        return;
    }
    if (!cli_job_mpiexec(program, sizeof program)) {
        char remedy[200];
        snprintf(remedy, sizeof remedy,
                 "Install %s, load its module, or put its launcher on PATH: --workers needs it outside of Slurm.",
                 package);
        check_say(l, CHECK_WARN, remedy, "%s of %s is not on this machine's PATH",
                  LS_MPI_IS_OPEN_MPI ? "mpirun" : "mpiexec", package);
        return;
    }
    if (!ask(program, "--version", text, sizeof text)) {
        check_say(l, CHECK_WARN,
                  "Run it by hand with --version to see what is wrong: --workers starts workers with it.",
                  "%.150s does not run", program);
        return;
    }
    launcher_name(text, name, sizeof name);
    ls_machine_mpi(library, sizeof library);
    if (is_open_mpi(text) != LS_MPI_IS_OPEN_MPI)
        check_say(l, CHECK_WARN, "Put the launcher of the MPI this was built with first on PATH (or load its module).",
                  "%.100s is %.60s's, but this program was built with %.60s", program, name, library);
    else
        check_say(l, CHECK_OK, NULL, "%.140s (%.80s)", program, name);
}

// --- Slurm -----------------------------------------------------------------------------------------------------------

// Whether a list of srun's has the plugin that the option names: "--mpi=pmix" and "pmix" or "pmix_v4".
static int has_plugin(const char *list, const char *option) {
    const char *wanted = strstr(option, "--mpi=");
    if (!wanted) return 1;  // nothing known against it
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(wanted + 6, " \t"), wanted + 6);
    return strstr(list, name) != NULL;
}

static void inside_step(check_line *l) {
    const char *pmi = environment("PMIX_RANK") || environment("PMIX_NAMESPACE") ? "PMIx"
                      : environment("PMI_RANK") || environment("PMI_FD")        ? "PMI-2"
                                                                                : NULL;
    const char *nodes = environment("SLURM_JOB_NUM_NODES"), *tasks = environment("SLURM_STEP_NUM_TASKS");
    char remedy[120];
    snprintf(remedy, sizeof remedy, "Start the workers with srun %s.", cli_job_pmi());
    check_say(l, pmi ? CHECK_OK : CHECK_WARN, pmi ? NULL : remedy,
              "step %s of job %s: %s tasks on %s nodes, wired up by %s", environment("SLURM_STEP_ID"),
              environment("SLURM_JOB_ID"), tasks ? tasks : "?", nodes ? nodes : "?", pmi ? pmi : "nothing");
}

void check_slurm(check *c) {
    check_line *l = line_of(c, CHECK_SLURM);
    char srun[4096], plugins[2048] = "";
    const char *job = environment("SLURM_JOB_ID"), *nodes = environment("SLURM_JOB_NUM_NODES");
    int found = cli_job_srun(srun, sizeof srun);
    int listed = found && LS_WITH_MPI && ask(srun, "--mpi=list", plugins, sizeof plugins);
    if (!found && !job)
        check_say(l, CHECK_OK, NULL, "none here: no allocation, no srun on PATH");
    else if (!found)
        check_say(l, CHECK_WARN, "Put Slurm's commands on PATH: without srun, --workers starts them with mpirun.",
                  "inside job %s, but srun is not on PATH", job);
    else if (!LS_WITH_MPI)
        check_say(l, CHECK_OK, NULL, "%.100s; this build runs as one worker", srun);
    else if (!listed && !job)
        check_say(l, CHECK_OK, NULL, "%.100s, but no cluster is configured here; --workers uses %s", srun,
                  LS_MPI_IS_OPEN_MPI ? "mpirun" : "mpiexec");
    else if (!listed)
        check_say(l, CHECK_WARN, "Run 'srun --mpi=list' by hand to see what is wrong.",
                  "inside job %s, but srun fails: %.*s", job, (int)strcspn(plugins, "\n"), plugins);
    else if (!has_plugin(plugins, cli_job_pmi()))
        check_say(
            l, CHECK_WARN,
            "See 'srun --mpi=list'; install Slurm's plugin for it, or set LOCKSTEP_SRUN_ARGS to what this site uses.",
            "%.100s does not offer %.60s, which this program's MPI needs", srun, cli_job_pmi());
    else if (job && cli_job_rank() >= 0 && environment("SLURM_STEP_ID"))
        inside_step(l);
    else if (job)
        check_say(l, CHECK_OK, NULL, "inside job %s on %s node%s; --workers starts them with srun %.80s", job,
                  nodes ? nodes : "?", nodes && strcmp(nodes, "1") == 0 ? "" : "s", cli_job_pmi());
    else
        check_say(l, CHECK_OK, NULL, "%.100s, outside an allocation; inside one: srun %.80s", srun, cli_job_pmi());
}

// --- the build -------------------------------------------------------------------------------------------------------

void check_mpi(check *c) {
    check_line *l = line_of(c, CHECK_MPI);
    const char *level = ls_machine_mpi_thread_level();
    char library[80];
    ls_machine_mpi(library, sizeof library);
    snprintf(c->mine.facts.mpi, sizeof c->mine.facts.mpi, "%s", library);
    if (!LS_WITH_MPI)
        check_say(l, CHECK_WARN, "To train on several workers, build with -DLS_WITH_MPI=ON.", "%s", library);
    else if (!level)
        check_say(l, CHECK_OK, NULL, "%s, not started (--workers 2 does)", library);
    else  // joining the job has refused what is below MPI_THREAD_FUNNELED
        check_say(l, CHECK_OK, NULL, "%s, %s", library, level);
}

void check_kernels(check *c) {
    check_line *kernels = line_of(c, CHECK_KERNELS), *bf16 = line_of(c, CHECK_BF16);
    char *text = c->mine.facts.kernels;
    char described[sizeof c->mine.facts.kernels];
    if (ls_machine_kernels("cpu", described, sizeof described) != LS_OK) {
        check_say(kernels, CHECK_FAIL, "Install oneDNN again, or use --device ref, which is slow.", "%s",
                  ls_error_message());
        return;
    }
    snprintf(text, sizeof described, "%s", described + (strncmp(described, "cpu: ", 5) == 0 ? 5 : 0));
    check_say(kernels, CHECK_OK, NULL, "%s", text);
    const char *limit = environment("DNNL_MAX_CPU_ISA");
    if (ls_machine_computes("cpu", LS_DTYPE_BF16) == LS_OK)
        check_say(bf16, CHECK_OK, NULL, "in hardware: --precision bf16");
    else if (limit)
        check_say(bf16, CHECK_WARN,
                  "Unset DNNL_MAX_CPU_ISA to use all of this processor, or keep --precision fp32, the default.",
                  "not available: DNNL_MAX_CPU_ISA=%s limits oneDNN", limit);
    else
        check_say(bf16, CHECK_WARN,
                  "Keep --precision fp32, the default; bf16 needs AVX512-BF16 or AMX, and an oneDNN that knows them.",
                  "not available on this processor");
}

// --- accelerators ----------------------------------------------------------------------------------------------------

// The model in the driver's description of one card, "" where it has none.
static void card_model(const char *card, char *out, size_t size) {
    char path[512], text[128];
    snprintf(path, sizeof path, "/proc/driver/nvidia/gpus/%s/information", card);
    out[0] = 0;
    FILE *f = fopen(path, "r");
    if (!f) return;
    while (fgets(text, sizeof text, f))
        if (strncmp(text, "Model:", 6) == 0) {
            char *name = text + 6 + strspn(text + 6, " \t");
            snprintf(out, size, "%.*s", (int)strcspn(name, "\n"), name);
            break;
        }
    fclose(f);
}

// Entries of a folder whose names begin like this and go on with a digit; the last one's name in `last`.
static int entries(const char *folder, const char *begin, char *last, size_t size) {
    DIR *d = opendir(folder);
    int count = 0;
    size_t n = strlen(begin);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (strncmp(e->d_name, begin, n) != 0 || e->d_name[n] < '0' || e->d_name[n] > '9') continue;
        snprintf(last, size, "%s", e->d_name);
        count++;
    }
    if (d) closedir(d);
    return count;
}

void check_accelerators(check *c) {
    check_line *l = line_of(c, CHECK_ACCELERATORS);
    char name[256] = "", model[100] = "";
    int count = entries("/proc/driver/nvidia/gpus", "", name, sizeof name);
    if (count > 0) card_model(name, model, sizeof model);
    if (count == 0) count = entries("/dev", "nvidia", name, sizeof name);
    if (count > 0) {
        check_say(l, CHECK_WARN, "Nothing, to train on the CPU cores: this version has no kernels for accelerators.",
                  "%d x %s found; this build does not use %s", count, model[0] ? model : "NVIDIA",
                  count == 1 ? "it" : "them");
        return;
    }
    check_say(l, CHECK_OK, NULL, "none in this machine, and none built in: the CPU trains");
}

// --- limits ----------------------------------------------------------------------------------------------------------

void check_open_files(check *c) {
    check_line *l = line_of(c, CHECK_OPEN_FILES);
    struct rlimit limit;
    char count[32];
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        check_say(l, CHECK_OK, NULL, "no limit");
    else if (limit.rlim_cur < 1024)
        check_say(l, CHECK_WARN, "Raise it before starting many workers: ulimit -n 4096", "at most %s",
                  cli_count((int64_t)limit.rlim_cur, count));
    else
        check_say(l, CHECK_OK, NULL, "at most %s", cli_count((int64_t)limit.rlim_cur, count));
}
