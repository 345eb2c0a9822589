// The batch script itself.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "cli/batch.h"
#include "cli/checkpoints.h"

enum { MOST_RESTARTS = 1000 };  // of a job: one that never gets anywhere is not to go round for ever

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.,:=+@/%-"

// Where a shell would put the home folder: at the beginning of a word, and after the ':' or '=' that our own words have.
static const char *home_mark(const char *text) {
    const char *home = getenv("HOME");
    if (!home || !*home) return NULL;
    for (const char *p = text; (p = strchr(p, '~')); p++)
        if ((p == text || p[-1] == ':' || p[-1] == '=') && (p[1] == '/' || !p[1])) return p;
    return NULL;
}

// A word as the shell reads it back; "~" is what it is now, because quotes would keep it.
static void print_word(const char *text) {
    const char *mark = home_mark(text), *home = mark ? getenv("HOME") : NULL;
    char *whole = NULL;
    size_t size = home ? strlen(text) + strlen(home) + 1 : 0;
    if (home && (whole = malloc(size))) {
        snprintf(whole, size, "%.*s%s%s", (int)(mark - text), text, home, mark + 1);
        text = whole;
    }
    if (*text && !text[strspn(text, LETTERS)]) {
        fputs(text, stdout);
    } else {
        putchar('\'');
        for (const char *c = text; *c; c++)
            if (*c == '\'')
                fputs("'\\''", stdout);
            else
                putchar(*c);
        putchar('\'');
    }
    free(whole);
}

// --- requests --------------------------------------------------------------------------------------------------------

static int has_option(const batch *b, const char *name) {
    size_t n = strlen(name);
    for (int i = 0; i < b->command.count; i++)
        if (strncmp(b->command.list[i], name, n) == 0 && (!b->command.list[i][n] || b->command.list[i][n] == '='))
            return 1;
    return 0;
}

// A training that keeps checkpoints goes on from them, in the same job.
static int goes_on(const batch *b) { return !b->scale && has_option(b, "--checkpoint"); }

static void slurm_requests(const batch *b) {
    const batch_settings *set = &b->set;
    const char *number = b->array_count ? "%A_%a" : "%j";
    printf("#SBATCH --job-name=%s\n", set->job_name);
    if (set->output)
        printf("#SBATCH --output=%s\n", set->output);
    else
        printf("#SBATCH --output=%%x.%s.out\n", number);
    if (set->error)
        printf("#SBATCH --error=%s\n", set->error);
    else if (!set->output)
        printf("#SBATCH --error=%%x.%s.err\n", number);
    printf("#SBATCH --nodes=%d\n#SBATCH --ntasks-per-node=%d\n", set->nodes, set->tasks_per_node);
    if (set->cpus_per_task) printf("#SBATCH --cpus-per-task=%d\n", set->cpus_per_task);
    const char *const texts[][2] = {{"time", set->time},
                                    {"account", set->account},
                                    {"qos", set->qos},
                                    {"partition", set->partition},
                                    {"reservation", set->reservation},
                                    {"gres", set->gres},
                                    {"mem", set->mem},
                                    {"mem-per-cpu", set->mem_per_cpu}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i][1]) printf("#SBATCH --%s=%s\n", texts[i][0], texts[i][1]);
    if (b->array_count) printf("#SBATCH --array=0-%d\n", b->array_count - 1);
    if (goes_on(b)) printf("#SBATCH --requeue\n#SBATCH --open-mode=append\n");
    for (int i = 0; i < b->directives.count; i++) printf("#SBATCH %s\n", b->directives.list[i]);
}

static void pbs_requests(const batch *b) {
    const batch_settings *set = &b->set;
    int cores = set->tasks_per_node * (set->cpus_per_task ? set->cpus_per_task : 1);
    printf("#PBS -N %s\n", set->job_name);
    if (set->output) printf("#PBS -o %s\n", set->output);
    if (set->error) printf("#PBS -e %s\n", set->error);
    printf("#PBS -l select=%d:ncpus=%d:mpiprocs=%d", set->nodes, cores, set->tasks_per_node);
    if (set->mem) printf(":mem=%s", set->mem);
    if (set->gres) printf(":ngpus=%s", set->gres + strlen("gpu:"));
    printf("\n#PBS -l place=scatter\n");
    long seconds = (long)b->seconds;
    if (seconds > 0) printf("#PBS -l walltime=%02ld:%02ld:%02ld\n", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if (set->account) printf("#PBS -A %s\n", set->account);
    if (set->partition) printf("#PBS -q %s\n", set->partition);
    if (b->array_count) printf("#PBS -J 0-%d\n", b->array_count - 1);
    for (int i = 0; i < b->directives.count; i++) printf("#PBS %s\n", b->directives.list[i]);
}

// --- what is given, and the environment ------------------------------------------------------------------------------

static void slurm_facts(const batch *b) {
    printf(
        "\n# What Slurm has given.\n"
        "echo \"Job:             $SLURM_JOB_NAME, number $SLURM_JOB_ID\"\n"
        "echo \"Submitted from:  $SLURM_SUBMIT_DIR\"\n"
        "echo \"Partition:       $SLURM_JOB_PARTITION\"\n"
        "echo \"Account:         ${SLURM_JOB_ACCOUNT:-none}\"\n"
        "echo \"Nodes:           $SLURM_JOB_NUM_NODES ($SLURM_JOB_NODELIST)\"\n"
        "echo \"Tasks:           $SLURM_NTASKS, $SLURM_NTASKS_PER_NODE on each node\"\n"
        "echo \"Cores per task:  ${SLURM_CPUS_PER_TASK:-the cluster's default}\"\n"
        "echo \"Devices:         ${SLURM_GPUS_ON_NODE:-0} on each node${SLURM_JOB_GPUS:+, here number "
        "$SLURM_JOB_GPUS}\"\n");
    if (b->set.gres) printf("if command -v nvidia-smi >/dev/null; then nvidia-smi; fi\n");
    printf("echo\n");
}

static void pbs_facts(void) {
    printf(
        "\ncd \"$PBS_O_WORKDIR\" || exit 1\n"
        "\n# What PBS has given.\n"
        "echo \"Job:             $PBS_JOBNAME, number $PBS_JOBID\"\n"
        "echo \"Submitted from:  $PBS_O_WORKDIR\"\n"
        "echo \"Queue:           $PBS_QUEUE\"\n"
        "echo \"Nodes:           $(sort -u \"$PBS_NODEFILE\" | tr '\\n' ' ')\"\n"
        "echo \"Tasks:           $(wc -l <\"$PBS_NODEFILE\")\"\n"
        "echo\n");
}

static void environment(const batch *b) {
    if (b->modules.count) {
        printf("\nmodule load");
        for (int i = 0; i < b->modules.count; i++) {
            putchar(' ');
            print_word(b->modules.list[i]);
        }
        putchar('\n');
    }
    if (b->setup) printf("\n%s", b->setup);
    // They bind each worker to one core, where Lockstep's replicas then share it. The program binds its threads itself.
    if (!LS_MPI_IS_OPEN_MPI) printf("\nexport I_MPI_PIN=off MV2_ENABLE_AFFINITY=0  # Intel MPI, MVAPICH2\n");
}

// The words of this task become the script's own.
static void array_tasks(const batch *b) {
    if (!b->array_count) return;
    printf("\ncase $%s in\n", b->pbs ? "PBS_ARRAY_INDEX" : "SLURM_ARRAY_TASK_ID");
    for (int i = 0; i < b->array_count; i++) printf("%d) set -- %s ;;\n", i, b->array[i]);
    printf("*)\n    echo \"this script has the tasks 0 to %d\" >&2\n    exit 1\n    ;;\nesac\n", b->array_count - 1);
}

// --- the command -----------------------------------------------------------------------------------------------------

static void launcher(const batch *b) {
    const batch_settings *set = &b->set;
    const char *exec = goes_on(b) ? "" : "exec ";
    if (b->scale) {
        printf("exec");  // it starts its runs itself: in Slurm as steps of the job
    } else if (!b->pbs && strcmp(set->launcher, "srun") == 0) {
        printf("%ssrun", exec);
        // LOCKSTEP_SRUN_ARGS may have several words. None of them is the shell's to expand.
        char words[4096], *rest = words, *word;
        snprintf(words, sizeof words, "%s", cli_job_pmi());
        while ((word = strsep(&rest, " \t\n")))
            if (*word) putchar(' '), print_word(word);
        printf(" --kill-on-bad-exit=1");
        // srun does not take it from the job.
        if (set->cpus_per_task) printf(" --cpus-per-task=%d", set->cpus_per_task);
    } else {
        const char *bind = LS_MPI_IS_OPEN_MPI ? "--bind-to" : "-bind-to";
        printf("%smpirun %s none", exec, bind);
        // Without the file an MPI that was built without PBS's library starts all workers on the first node.
        if (b->pbs)
            printf(" %s \"$PBS_NODEFILE\" -n \"$(wc -l <\"$PBS_NODEFILE\")\"",
                   LS_MPI_IS_OPEN_MPI ? "--hostfile" : "-f");
        else
            printf(" -n \"$SLURM_NTASKS\"");
    }
}

// Stopped before its end, with a checkpoint: by the time limit, or by somebody.
static void end_and_go_on(const batch *b) {
    printf("status=$?\n");
    if (b->pbs)
        printf("[ $status -ne %d ] || echo 'Not done yet: submit this script again, and it goes on.'\n",
               CLI_UNFINISHED);
    else
        printf(
            "# Not done yet: the job goes back to the queue, and on from its newest checkpoint.\n"
            "if [ $status -eq %d ] && [ \"${SLURM_RESTART_COUNT:-0}\" -lt %d ]; then exec scontrol requeue "
            "\"$SLURM_JOB_ID\"; fi\n",
            CLI_UNFINISHED, MOST_RESTARTS);
    printf("exit $status\n");
}

void batch_print(const batch *b, const char *program) {
    printf("#!/bin/sh\n");
    b->pbs ? pbs_requests(b) : slurm_requests(b);
    if (b->note[0]) printf("\n# Note: %s.\n", b->note);
    b->pbs ? pbs_facts() : slurm_facts(b);
    environment(b);
    array_tasks(b);
    putchar('\n');
    launcher(b);
    printf(" \\\n    ");
    print_word(program);
    printf(b->scale ? " scale" : " train");
    for (int i = 0; i < b->command.count; i++) {
        putchar(' ');
        print_word(b->command.list[i]);
    }
    if (b->array_count) {
        printf(" \"$@\"");
        if (!has_option(b, "--record"))
            printf(" --record %s.\"$%s\".json", b->set.job_name, b->pbs ? "PBS_ARRAY_INDEX" : "SLURM_ARRAY_TASK_ID");
    }
    if (goes_on(b) && !has_option(b, "--resume")) printf(" --resume");
    // PBS does not say when it will end the job; a minute is for what comes before and after the program.
    if (b->pbs && b->seconds > 300 && !has_option(b, "--time-limit"))
        printf(" --time-limit 0:%ld", (long)b->seconds - 60);
    putchar('\n');
    if (goes_on(b)) end_and_go_on(b);
}
