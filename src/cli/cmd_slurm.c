#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/cli.h"

typedef struct settings {
    int nodes, tasks_per_node, cpus_per_task;
    const char *time, *account, *qos, *partition, *reservation, *gres, *mem, *job_name, *launcher;
} settings;

#define GROUP .group = "The job"

static const ls_option table[] = {
    {"nodes", LS_OPTION_INT, .offset = offsetof(settings, nodes), .metavar = "N", .min = 1, .max = 65536, GROUP,
     .help = "machines"},
    {"tasks-per-node", LS_OPTION_INT, .offset = offsetof(settings, tasks_per_node), .metavar = "N", .min = 1,
     .max = 65536, GROUP, .help = "workers on each node"},
    {"cpus-per-task", LS_OPTION_INT, .offset = offsetof(settings, cpus_per_task), .metavar = "N", .min = 1,
     .max = 65536, .initial = "the cluster's", GROUP, .help = "cores of each worker"},
    {"time", LS_OPTION_TEXT, .offset = offsetof(settings, time), .metavar = "[D-]H:M:S", .initial = "the cluster's",
     GROUP, .help = "when Slurm ends the job at the latest"},
    {"account", LS_OPTION_TEXT, .offset = offsetof(settings, account), .metavar = "NAME", GROUP, .help = "who pays"},
    {"qos", LS_OPTION_TEXT, .offset = offsetof(settings, qos), .metavar = "NAME", GROUP,
     .help = "the quality of service asked for"},
    {"partition", LS_OPTION_TEXT, .offset = offsetof(settings, partition), .metavar = "NAME", GROUP,
     .help = "the set of nodes to run on"},
    {"reservation", LS_OPTION_TEXT, .offset = offsetof(settings, reservation), .metavar = "NAME", GROUP,
     .help = "nodes set aside, as for a course"},
    {"gres", LS_OPTION_TEXT, .offset = offsetof(settings, gres), .metavar = "LIST", GROUP,
     .help = "devices on each node, as gpu:4"},
    {"mem", LS_OPTION_TEXT, .offset = offsetof(settings, mem), .metavar = "SIZE", .initial = "the cluster's", GROUP,
     .help = "memory of each node, as 'lockstep plan' says"},
    {"job-name", LS_OPTION_TEXT, .offset = offsetof(settings, job_name), .metavar = "NAME", GROUP,
     .help = "its name, and that of its output: NAME.JOB.out and NAME.JOB.err"},
    {"launcher", LS_OPTION_TEXT, .offset = offsetof(settings, launcher), .metavar = "srun|mpirun", GROUP,
     .help = "what starts the workers"},
    {.name = NULL},
};

// `scale` says itself how many nodes and workers it compares, and starts them.
static const char *const not_of_scale[] = {"nodes", "tasks-per-node", "launcher"};

typedef struct arguments {
    char **list;
    int count;
} arguments;

static void help(const settings *set) {
    printf(
        "Usage: lockstep slurm train MODEL [OPTIONS OF train] [OPTIONS]\n"
        "       lockstep slurm scale MODEL... [OPTIONS OF scale] [OPTIONS]\n\n");
    ls_print_entry(
        stdout, "", 0, cli_help_width(),
        "Prints a batch script that trains, or makes a scaling study, on a Slurm cluster, for sbatch. Options "
        "that are not listed here are those of 'lockstep train' or 'lockstep scale', which the script calls "
        "with them. A study asks for the most nodes and workers that it compares (--nodes, "
        "--workers-per-node, --workers of 'lockstep scale').");
    ls_options_help(stdout, (ls_option_set[]){{table, (void *)set}, {NULL, NULL}}, cli_help_width());
    printf(
        "\nTry:\n  lockstep slurm train mnist-cnn --epochs 5 --nodes 2 --tasks-per-node 4 --time 00:30:00 > job.slurm\n"
        "  sbatch job.slurm\n"
        "  lockstep slurm scale mnist-cnn --nodes 1,2 --workers-per-node 1,2,4 --out study --time 01:00:00 | sbatch\n");
}

static int names(const char *option, const char *argument) {
    size_t length = strcspn(argument + 2, "=");
    return strlen(option) == length && strncmp(option, argument + 2, length) == 0;
}

static int is_ours(const char *argument, int scale) {
    if (strncmp(argument, "--", 2) != 0) return 0;
    for (size_t i = 0; scale && i < sizeof not_of_scale / sizeof *not_of_scale; i++)
        if (names(not_of_scale[i], argument)) return 0;
    for (const ls_option *o = table; o->name; o++)
        if (names(o->name, argument)) return 1;
    return 0;
}

// Deals the command line out: to the job what its table has, to train or scale the rest as it stands.
static void deal(int argc, char **argv, int scale, arguments *job, arguments *train) {
    int words_only = 0;
    for (int i = 0; i < argc; i++) {
        words_only |= strcmp(argv[i], "--") == 0;
        if (words_only || !is_ours(argv[i], scale)) {
            train->list[train->count++] = argv[i];
            continue;
        }
        job->list[job->count++] = argv[i];
        if (!strchr(argv[i], '=') && i + 1 < argc) job->list[job->count++] = argv[++i];
    }
}

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.,:=+@/%-"

// Values become words of the script's #SBATCH lines, where nothing can be quoted.
static ls_status check_texts(const settings *set) {
    for (const ls_option *o = table; o->name; o++) {
        if (o->type != LS_OPTION_TEXT) continue;
        const char *text = *(const char *const *)((const char *)set + o->offset);
        if (text && (!*text || text[strspn(text, LETTERS)]))
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "--%s '%s': a batch script takes letters, digits and _.,:=+@/%%- here, and no spaces",
                           o->name, text);
    }
    double seconds;
    ls_status status = set->time ? ls_duration_parse(set->time, &seconds) : LS_OK;
    return status == LS_OK ? LS_OK : ls__fail_context(status, "--time: ");
}

// A word as the shell reads it back.
static void print_word(const char *text) {
    if (*text && !text[strspn(text, LETTERS)]) {
        fputs(text, stdout);
        return;
    }
    putchar('\'');
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*text);
    putchar('\'');
}

static void print_requests(const settings *set) {
    printf("#SBATCH --job-name=%s\n#SBATCH --output=%%x.%%j.out\n#SBATCH --error=%%x.%%j.err\n", set->job_name);
    printf("#SBATCH --nodes=%d\n#SBATCH --ntasks-per-node=%d\n", set->nodes, set->tasks_per_node);
    if (set->cpus_per_task) printf("#SBATCH --cpus-per-task=%d\n", set->cpus_per_task);
    const char *const texts[][2] = {{"time", set->time},
                                    {"account", set->account},
                                    {"qos", set->qos},
                                    {"partition", set->partition},
                                    {"reservation", set->reservation},
                                    {"gres", set->gres},
                                    {"mem", set->mem}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i][1]) printf("#SBATCH --%s=%s\n", texts[i][0], texts[i][1]);
}

static void print_script(const settings *set, const char *program, int scale, const arguments *train) {
    printf("#!/bin/sh\n");
    print_requests(set);
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
    if (set->gres) printf("if command -v nvidia-smi >/dev/null; then nvidia-smi; fi\n");
    printf("echo\n\n");
    if (scale) {
        printf("exec");  // it makes its runs steps of the job
    } else if (strcmp(set->launcher, "srun") == 0) {
        printf("exec srun");
        // LOCKSTEP_SRUN_ARGS may have several words. None of them is the shell's to expand.
        char words[4096], *rest = words, *word;
        snprintf(words, sizeof words, "%s", cli_job_pmi());
        while ((word = strsep(&rest, " \t\n")))
            if (*word) putchar(' '), print_word(word);
        printf(" --kill-on-bad-exit=1");
        // srun does not take it from the job.
        if (set->cpus_per_task) printf(" --cpus-per-task=%d", set->cpus_per_task);
    } else {
        // The program places its threads itself.
        printf("exec mpirun %s none -n \"$SLURM_NTASKS\"", LS_MPI_IS_OPEN_MPI ? "--bind-to" : "-bind-to");
    }
    printf(" \\\n    ");
    print_word(program);
    printf(scale ? " scale" : " train");
    for (int i = 0; i < train->count; i++) {
        putchar(' ');
        print_word(train->list[i]);
    }
    putchar('\n');
}

static ls_status write_script(settings *set, int scale, arguments *job, arguments *train) {
    ls_words words;
    LS_TRY(ls_options_parse((ls_option_set[]){{table, set}, {NULL, NULL}}, job->count, job->list, 0, &words));
    LS_TRY(check_texts(set));
    LS_TRY(scale ? cli_scale_check(train->count, train->list, &set->nodes, &set->tasks_per_node)
                 : cli_train_check(train->count, train->list));
    char program[4096];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0) return LS_FAIL(LS_STATUS_IO, "cannot tell where this program is: there is no /proc here");
    program[n] = 0;
    print_script(set, program, scale, train);
    return LS_OK;
}

static ls_status run(cli *c, int argc, char **argv) {
    (void)c;
    settings set = {.nodes = 1, .tasks_per_node = 1, .job_name = "lockstep", .launcher = "srun"};
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) {
            help(&set);
            return LS_OK;
        }
    int scale = argc > 0 && strcmp(argv[0], "scale") == 0;
    if (argc == 0 || (!scale && strcmp(argv[0], "train") != 0))
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "%s%s%s Usage: lockstep slurm train MODEL [OPTIONS OF train] [OPTIONS]; 'lockstep slurm --help' "
            "lists the latter",
            argc ? "there are batch scripts for train and scale only, not for '" : "a batch script for what?",
            argc ? argv[0] : "", argc ? "'." : "");
    arguments job = {.count = 0}, train = {.count = 0};
    ls_status status;
    LS_TRY_GOTO(ls_calloc(argc, sizeof *job.list, &job.list), done);
    LS_TRY_GOTO(ls_calloc(argc, sizeof *train.list, &train.list), done);
    deal(argc - 1, argv + 1, scale, &job, &train);
    status = write_script(&set, scale, &job, &train);
done:
    free(train.list);
    free(job.list);
    return status;
}

const cli_command cli_command_slurm = {"slurm", "print a batch script that trains on a Slurm cluster", run};
