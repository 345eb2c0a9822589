// lockstep batch: a batch script for a cluster, checked now and not when the job's turn has come.
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/error.h"
#include "base/input.h"
#include "base/memory.h"
#include "cli/batch.h"
#include "cli/scale.h"

typedef batch_settings settings;

#define GROUP .group = "The job"

static const ls_option table[] = {
    {"system", LS_OPTION_TEXT, .offset = offsetof(settings, system), .metavar = "slurm|pbs", GROUP,
     .help = "what runs the cluster's jobs: Slurm, or PBS (OpenPBS, PBS Professional)"},
    {"nodes", LS_OPTION_INT, .offset = offsetof(settings, nodes), .metavar = "N", .min = 1, .max = 65536, GROUP,
     .help = "machines"},
    {"tasks-per-node", LS_OPTION_INT, .offset = offsetof(settings, tasks_per_node), .metavar = "N", .min = 1,
     .max = 65536, GROUP, .help = "workers on each node"},
    {"cpus-per-task", LS_OPTION_INT, .offset = offsetof(settings, cpus_per_task), .metavar = "N", .min = 1,
     .max = 65536, .initial = "the cluster's", GROUP, .help = "cores of each worker"},
    {"time", LS_OPTION_TEXT, .offset = offsetof(settings, time), .metavar = "[D-]H:M:S", .initial = "the cluster's",
     GROUP, .help = "when the job is ended at the latest"},
    {"account", LS_OPTION_TEXT, .offset = offsetof(settings, account), .metavar = "NAME", GROUP, .help = "who pays"},
    {"qos", LS_OPTION_TEXT, .offset = offsetof(settings, qos), .metavar = "NAME", GROUP,
     .help = "the quality of service asked for"},
    {"partition", LS_OPTION_TEXT, .offset = offsetof(settings, partition), .metavar = "NAME", GROUP,
     .help = "the set of nodes to run on; of PBS the queue"},
    {"reservation", LS_OPTION_TEXT, .offset = offsetof(settings, reservation), .metavar = "NAME", GROUP,
     .help = "nodes set aside, as for a course"},
    {"gres", LS_OPTION_TEXT, .offset = offsetof(settings, gres), .metavar = "LIST", GROUP,
     .help = "devices on each node, as gpu:4"},
    {"mem", LS_OPTION_TEXT, .offset = offsetof(settings, mem), .metavar = "SIZE", .initial = "the cluster's", GROUP,
     .help = "memory of each node, as 'lockstep plan' says: 900M, 16G"},
    {"mem-per-cpu", LS_OPTION_TEXT, .offset = offsetof(settings, mem_per_cpu), .metavar = "SIZE", GROUP,
     .help = "memory for each core instead (Slurm)"},
    {"job-name", LS_OPTION_TEXT, .offset = offsetof(settings, job_name), .metavar = "NAME", GROUP,
     .help = "its name, and that of its output: NAME.JOB.out and NAME.JOB.err"},
    {"output", LS_OPTION_TEXT, .offset = offsetof(settings, output), .metavar = "FILE", .initial = "NAME.JOB.out",
     GROUP, .help = "where what it prints goes; with Slurm its errors too, unless --error says otherwise"},
    {"error", LS_OPTION_TEXT, .offset = offsetof(settings, error), .metavar = "FILE", .initial = "NAME.JOB.err", GROUP,
     .help = "where its errors go"},
    {"sbatch", LS_OPTION_TEXT, .offset = offsetof(settings, listed), .metavar = "WORDS", .initial = "none", GROUP,
     .help = "one more line '#SBATCH WORDS', as --sbatch \"--chdir=.\"; may be given several times"},
    {"pbs", LS_OPTION_TEXT, .offset = offsetof(settings, listed), .metavar = "WORDS", .initial = "none", GROUP,
     .help = "one more line '#PBS WORDS', as --pbs \"-W umask=022\"; may be given several times"},
    {"module", LS_OPTION_TEXT, .offset = offsetof(settings, listed), .metavar = "NAME", .initial = "none", GROUP,
     .help = "'module load NAME' before the program starts; may be given several times"},
    {"setup", LS_OPTION_TEXT, .offset = offsetof(settings, setup), .metavar = "FILE", GROUP,
     .help = "shell lines to put in before the program starts: the text of FILE as it is now"},
    {"array", LS_OPTION_TEXT, .offset = offsetof(settings, array), .metavar = "WORDS", GROUP,
     .help =
         "for train: a job array, a task for each of lr=0.01,0.02 or 'lr=0.1 | lr=0.2 momentum=0.9', as --compare of "
         "'lockstep scale' takes them"},
    {"launcher", LS_OPTION_TEXT, .offset = offsetof(settings, launcher), .metavar = "srun|mpirun", GROUP,
     .help = "what starts the workers"},
    {.name = NULL},
};

// `scale` says itself how many nodes and workers it compares, and starts them.
static const char *const not_of_scale[] = {"nodes", "tasks-per-node", "launcher"};

// May be given several times.
static const char *const lists[] = {"sbatch", "pbs", "module"};

static void help(const settings *set) {
    printf(
        "Usage: lockstep batch train MODEL [OPTIONS OF train] [OPTIONS]\n"
        "       lockstep batch scale MODEL... [OPTIONS OF scale] [OPTIONS]\n\n");
    ls_print_entry(
        stdout, "", 0, cli_help_width(),
        "Prints a batch script that trains, or makes a scaling study, on a cluster: for sbatch, or for qsub. Options "
        "that are not listed here are those of 'lockstep train' or 'lockstep scale', which the script calls "
        "with them. A study asks for the most nodes and workers that it compares (--nodes, "
        "--workers-per-node, --layout, --workers of 'lockstep scale'). 'lockstep slurm' is the same.");
    ls_options_help(stdout, (ls_option_set[]){{table, (void *)set}, {NULL, NULL}}, cli_help_width());
    printf(
        "\nTry:\n  lockstep batch train mnist-cnn --epochs 5 --nodes 2 --tasks-per-node 4 --time 00:30:00 > job.slurm\n"
        "  sbatch job.slurm\n"
        "  lockstep batch scale mnist-cnn --nodes 1,2 --workers-per-node 1,2,4 --out study --time 01:00:00 | sbatch\n"
        "  lockstep batch train mnist-cnn --system pbs --nodes 2 --tasks-per-node 4 --time 00:30:00 | qsub\n");
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

// The list that `argument` adds to; NULL: none.
static batch_words *list_of(batch *b, const char *argument) {
    if (strncmp(argument, "--", 2) != 0) return NULL;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (names(lists[i], argument)) return i < 2 ? &b->directives : &b->modules;
    return NULL;
}

// Deals the command line out: to the job what its table has, to train or scale the rest as it stands.
static ls_status deal(batch *b, int argc, char **argv, batch_words *job) {
    int words_only = 0, scale = b->scale;
    for (int i = 0; i < argc; i++) {
        words_only |= strcmp(argv[i], "--") == 0;
        batch_words *list = words_only ? NULL : list_of(b, argv[i]);
        char *value = strchr(argv[i], '=');
        if (list) {
            if (!value && i + 1 == argc) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s needs a value", argv[i]);
            if (list == &b->directives && names("pbs", argv[i]) != b->pbs)
                return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: this script is for %s; --system says which", argv[i],
                               b->pbs ? "PBS" : "Slurm");
            list->list[list->count++] = value ? value + 1 : argv[++i];
        } else if (words_only || !is_ours(argv[i], scale)) {
            b->command.list[b->command.count++] = argv[i];
        } else {
            job->list[job->count++] = argv[i];
            if (!value && i + 1 < argc) job->list[job->count++] = argv[++i];
        }
    }
    return LS_OK;
}

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.,:=+@/%-"

// A whole number and K, M, G or T, as Slurm and PBS read it.
static ls_status check_size(const char *option, const char *text) {
    size_t digits = text ? strspn(text, "0123456789") : 0;
    if (!text) return LS_OK;
    if (digits > 0 && digits < 10 && atol(text) > 0 &&
        (!text[digits] || (strchr("KMGT", text[digits]) && !text[digits + 1])))
        return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "--%s: expected an amount of memory as 900M or 16G, a whole number and K, M, G or T, got '%s'",
                   option, text);
}

// Whether an option's text is no word of a request.
static int is_free(const char *name) {
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (strcmp(lists[i], name) == 0) return 1;
    return strcmp(name, "setup") == 0 || strcmp(name, "array") == 0;
}

// Values become words of the script's lines of requests, where nothing can be quoted.
static ls_status check_texts(batch *b) {
    const settings *set = &b->set;
    for (const ls_option *o = table; o->name; o++) {
        if (o->type != LS_OPTION_TEXT || is_free(o->name)) continue;
        const char *text = *(const char *const *)((const char *)set + o->offset);
        if (text && (!*text || text[strspn(text, LETTERS)]))
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "--%s '%s': a batch script takes letters, digits and _.,:=+@/%%- here, and no spaces",
                           o->name, text);
    }
    for (int i = 0; i < b->directives.count; i++)
        if (b->directives.list[i][0] != '-' || strpbrk(b->directives.list[i], "\n\r"))
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--%s '%s': expected one line that begins with an option, as %s",
                           b->pbs ? "pbs" : "sbatch", b->directives.list[i], b->pbs ? "-W umask=022" : "--chdir=.");
    LS_TRY(check_size("mem", set->mem));
    LS_TRY(check_size("mem-per-cpu", set->mem_per_cpu));
    if (set->mem && set->mem_per_cpu)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--mem and --mem-per-cpu: give one of them");
    ls_status status = set->time ? ls_duration_parse(set->time, &b->seconds) : LS_OK;
    return status == LS_OK ? LS_OK : ls__fail_context(status, "--time: ");
}

// What PBS has no word for.
static ls_status check_pbs(const batch *b) {
    const settings *set = &b->set;
    const char *const no[][3] = {{"qos", set->qos, "say it with --pbs as your site does"},
                                 {"reservation", set->reservation, "a reservation is a queue of PBS: --partition NAME"},
                                 {"mem-per-cpu", set->mem_per_cpu, "give --mem, that of a node"}};
    for (int i = 0; i < 3; i++)
        if (no[i][1]) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--%s is Slurm's: %s", no[i][0], no[i][2]);
    if (set->gres && (strncmp(set->gres, "gpu:", 4) != 0 || !isdigit((unsigned char)set->gres[4])))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--gres %s: for PBS it is gpu:N, the devices of a node", set->gres);
    if (b->scale && set->nodes > 1)
        return LS_FAIL(
            LS_STATUS_UNSUPPORTED,
            "a study over several nodes takes Slurm's steps: in PBS compare workers on one node, or submit a "
            "'train' for each number of nodes and put their records together with 'lockstep report'");
    return LS_OK;
}

// --- what the run would do with what is asked for --------------------------------------------------------------------

// Cores that are asked for and not used are paid for all the same.
static ls_status check_cores(batch *b, const ls_train_config *c) {
    int64_t micro_batch = c->micro_batch ? c->micro_batch : ls_micro_batch_default(c->batch_size);
    int64_t v = (c->batch_size + micro_batch - 1) / micro_batch,
            workers = (int64_t)b->set.nodes * b->set.tasks_per_node;
    if (!b->scale && !b->array_count && workers > v)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%lld workers for %lld micro-batches of %lld in a global batch of %lld: ask for fewer, or make "
                       "--micro-batch smaller or --batch-size larger",
                       (long long)workers, (long long)v, (long long)micro_batch, (long long)c->batch_size);
    int cores = b->set.cpus_per_task, replicas = 1, threads = c->threads ? c->threads : 1;
    ls_train_config one = *c;
    if (b->scale && !one.replicas) one.replicas = 1;
    // A task of the array may have another batch, and then nothing is known.
    if (v >= workers) LS_TRY(ls_train_spread(&one, b->scale ? 1 : (int)workers, cores, &replicas, &threads));
    int used = replicas * threads;
    if (cores <= used) return LS_OK;
    if (b->scale || c->replicas)
        snprintf(b->note, sizeof b->note,
                 "each worker asks for %d cores and uses %d: it has %d replica%s; ask for fewer, or give --replicas %d",
                 cores, used, replicas, replicas == 1 ? "" : "s", cores / threads);
    else
        snprintf(
            b->note, sizeof b->note,
            "each worker asks for %d cores and uses %d: a step of %lld samples in micro-batches of %lld, over %lld "
            "worker%s, makes %d replica%s of %d thread%s; ask for fewer, or give a smaller --micro-batch or a "
            "larger --batch-size",
            cores, used, (long long)c->batch_size, (long long)micro_batch, (long long)workers, workers == 1 ? "" : "s",
            replicas, replicas == 1 ? "" : "s", threads, threads == 1 ? "" : "s");
    return LS_OK;
}

static ls_status read_setup(batch *b) {
    const char *path = b->set.setup;
    size_t size = 0, room = 65536;
    if (!path) return LS_OK;
    FILE *file = ls_input_open(path);
    if (!file) return LS_FAIL(LS_STATUS_IO, "--setup: cannot read %s: %s", path, ls_input_why(errno));
    ls_status status = ls_calloc((int64_t)room + 2, 1, &b->setup);
    if (status == LS_OK) size = fread(b->setup, 1, room, file);
    if (status == LS_OK && (ferror(file) || size == room || strlen(b->setup) != size))
        status = LS_FAIL(LS_STATUS_BAD_DATA, "--setup: %s is not a text of less than 64 KiB", path);
    fclose(file);
    if (status == LS_OK && size > 0 && b->setup[size - 1] != '\n') b->setup[size] = '\n';
    return status;
}

static ls_status read_array(batch *b) {
    if (!b->set.array) return LS_OK;
    if (b->scale)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "--array is for train: a study compares with --compare, in one job; or give each task its own study");
    for (int i = 0; i < b->command.count; i++)
        if (strncmp(b->command.list[i], "--checkpoint", strlen("--checkpoint")) == 0)
            return LS_FAIL(
                LS_STATUS_INVALID_ARGUMENT,
                "--array and --checkpoint: the tasks would keep their checkpoints in one folder; submit a job "
                "for each of them");
    return scale_compare_words(b->set.array, &b->array, &b->array_count);
}

static ls_status write_script(batch *b, batch_words *job) {
    ls_words words;
    settings *set = &b->set;
    ls_train_config config;
    LS_TRY(ls_options_parse((ls_option_set[]){{table, set}, {NULL, NULL}}, job->count, job->list, 0, &words));
    LS_TRY(check_texts(b));
    LS_TRY(read_array(b));
    LS_TRY(read_setup(b));
    LS_TRY(b->scale ? cli_scale_check(b->command.count, b->command.list, &set->nodes, &set->tasks_per_node, &config)
                    : cli_train_check(b->command.count, b->command.list, &config));
    if (b->pbs) LS_TRY(check_pbs(b));
    LS_TRY(check_cores(b, &config));
    char program[4096];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0) return LS_FAIL(LS_STATUS_IO, "cannot tell where this program is: there is no /proc here");
    program[n] = 0;
    batch_print(b, program);
    if (b->note[0]) fprintf(stderr, "lockstep batch: note: %s\n", b->note);
    return LS_OK;
}

// Before everything else, because it says what other options mean.
static int wants_pbs(int argc, char **argv) {
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--system=pbs") == 0 ||
            (strcmp(argv[i], "--system") == 0 && i + 1 < argc && strcmp(argv[i + 1], "pbs") == 0))
            return 1;
    return 0;
}

static ls_status run(cli *c, int argc, char **argv) {
    (void)c;
    batch b = {.set = {.system = "slurm", .nodes = 1, .tasks_per_node = 1, .job_name = "lockstep", .launcher = "srun"}};
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) {
            help(&b.set);
            return LS_OK;
        }
    b.scale = argc > 0 && strcmp(argv[0], "scale") == 0;
    b.pbs = wants_pbs(argc, argv);
    if (argc == 0 || (!b.scale && strcmp(argv[0], "train") != 0))
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "%s%s%s Usage: lockstep batch train MODEL [OPTIONS OF train] [OPTIONS]; 'lockstep batch --help' "
            "lists the latter",
            argc ? "there are batch scripts for train and scale only, not for '" : "a batch script for what?",
            argc ? argv[0] : "", argc ? "'." : "");
    batch_words job = {.count = 0}, *const all[] = {&job, &b.command, &b.directives, &b.modules};
    ls_status status = LS_OK;
    for (int i = 0; i < 4 && status == LS_OK; i++) status = ls_calloc(argc, sizeof(char *), &all[i]->list);
    if (status == LS_OK) status = deal(&b, argc - 1, argv + 1, &job);
    if (status == LS_OK) status = write_script(&b, &job);
    for (int i = 0; i < 4; i++) free(all[i]->list);
    free(b.array);
    free(b.setup);
    return status;
}

const cli_command cli_command_batch = {"batch", "print a batch script for Slurm or PBS", run};
const cli_command cli_command_slurm = {"slurm", "the same as batch", run};
