// lockstep plan: how much memory training takes and where it goes, before there is any of it; the largest micro-batch for
// a limit; and what a step is made of.
#include "cli/plan.h"

#include <lockstep/program.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/check.h"
#include "report/record.h"

static const ls_option table[] = {
    {"memory", LS_OPTION_TEXT, .offset = offsetof(plan_settings, memory), .metavar = "SIZE", .group = "Memory",
     .initial = "no limit",
     .help =
         "find the largest micro-batch with which no worker takes more: 16G, 900M; 'host': with which the workers of a "
         "host fit in this machine's memory"},
    {"json", LS_OPTION_FLAG, .offset = offsetof(plan_settings, json), .group = "Memory",
     .help = "print JSON; memory in bytes"},
    {"program", LS_OPTION_FLAG, .offset = offsetof(plan_settings, program), .group = "Program",
     .help = "print what a worker does in a step, task by task, in place of where memory goes"},
    {"worker", LS_OPTION_INT, .offset = offsetof(plan_settings, worker), .metavar = "N", .min = 0, .max = 65535,
     .group = "Program", .help = "whose program"},
    {"data", LS_OPTION_TEXT, .offset = offsetof(plan_settings, data), .metavar = "SPEC", .group = "Training",
     .initial = "none: the network's own input and classes", .help = "the dataset, which is then read and counted in"},
    {"rate", LS_OPTION_REAL, .offset = offsetof(plan_settings, rate), .metavar = "R", .min = 0, .group = "Training",
     .help = "samples per second of the whole job, as 'lockstep bench' tells them: what a host reads of files then"},
    {"input-shape", LS_OPTION_TEXT, .offset = offsetof(plan_settings, input_shape), .metavar = "HxWxC",
     .initial = "the network's own", .group = "Network", .help = "the shape of a sample, where there is no dataset"},
    {"workers", LS_OPTION_INT, .offset = offsetof(plan_settings, workers), .metavar = "N", .min = 1, .max = 65536,
     .initial = "1, or as many as a launcher started", .group = "Workers, replicas, threads",
     .help = "processes to plan for; none is started"},
    {"hosts", LS_OPTION_INT, .offset = offsetof(plan_settings, hosts), .metavar = "N", .min = 1, .max = 65536,
     .group = "Workers, replicas, threads", .help = "hosts to spread them over, of this machine's kind"},
    {.name = NULL},
};

// Options of train that mean something else here.
static const ls_option train_table[] = {
    {"batch-size", LS_OPTION_COUNT, .offset = offsetof(ls_train_config, batch_size), .metavar = "B", .min = 1,
     .initial = "train's own, 128; with --memory, one micro-batch for each replica", .group = "Training",
     .help = "the GLOBAL batch: samples per step over ALL workers together, NOT per worker"},
    {.name = NULL},
};

// Options of train that are left out of the list, beside cli_course_options. They are taken, but take no memory worth a word.
static const ls_option weightless[] = {
    {.name = "epochs"},
    {.name = "augment"},
    {.name = "normalize"},
    {.name = "mean"},
    {.name = "std"},
    {.name = "scale"},
    {.name = "channel-order"},
    {.name = "bind"},
    {.name = "nesterov"},
    {.name = "weight-decay"},
    {.name = "l2"},
    {.name = "decay-biases"},
    {.name = "lookahead-step"},
    {.name = "lookahead-power"},
    {.name = "weights"},
    {.name = "weights-by-name"},
    {.name = "save"},
    {.name = "verbose"},
    {.name = "record"},
    {.name = "metrics"},
    {.name = "tensorboard"},
    {.name = "tensorboard-every"},
    {.name = "time-limit"},
    {.name = "wait-limit"},
    {.name = "trace"},
    {.name = "trace-steps"},
    {.name = "until-accuracy"},
    {.name = "checkpoint-every"},
    {.name = "keep"},
    {.name = "keep-epochs"},
    {.name = "resume"},
    {.name = "resume-from"},
    {.name = "restarts"},
    {.name = "early-stop"},
    {.name = "restore-best"},
    {.name = NULL},
};

static void defaults(plan *p) {
    p->set = (plan_settings){.hosts = 1, .rate = 1000};
    ls_train_config_init(&p->config);
    p->config.batch_size = 0;  // resolved once all is known
    ls_model_config_init(&p->network);
    p->options[0] = (ls_option_set){table, &p->set};
    p->options[1] = (ls_option_set){train_table, &p->config};
    p->options[2] = (ls_option_set){ls_train_options(), &p->config};
    p->options[3] = (ls_option_set){ls_model_options(), &p->network};
    p->options[4] = (ls_option_set){cli_train_options(), &p->train};
    p->options[5] = (ls_option_set){cli_checkpoint_options(), &p->checkpoints};
    p->options[6] = (ls_option_set){NULL, NULL};
}

static void help(const plan *p) {
    int width = cli_help_width();
    ls_option_set shown[9] = {{cli_course_options(), NULL}, {weightless, NULL}};
    memcpy(shown + 2, p->options, sizeof p->options);
    printf("Usage: lockstep plan MODEL [--memory SIZE] [OPTIONS]\n\n");
    ls_print_entry(
        stdout, "", 0, width,
        "Tells how much memory training takes and where it goes, without training, and with --memory the "
        "largest micro-batch that fits. Takes all options of train, so that its command line can be given as "
        "it is; listed are those on which memory depends. With --program, tells what a worker does in a step.");
    ls_options_help(stdout, shown, width);
}

// Reads the command line; when it names a config file, that first and the command line again on top of it.
static ls_status read_options(plan *p, ls_words *words) {
    defaults(p);
    LS_TRY(ls_options_parse(p->options, p->argc, p->argv, 1, words));
    const char *path = p->train.config;
    if (path && !words->help) {
        defaults(p);
        LS_TRY(ls_config_load(path, p->options, &p->model, &p->file));
        LS_TRY(ls_options_parse(p->options, p->argc, p->argv, 1, words));
    }
    if (words->count > 0) p->model = words->word[0];
    if (p->model || words->help) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "which model? Usage: lockstep plan MODEL [OPTIONS]; 'lockstep models' lists them");
}

static ls_status read_limit(plan *p) {
    if (!p->set.memory) return LS_OK;
    p->limit_host = strcmp(p->set.memory, "host") == 0;
    if (!p->limit_host) {
        ls_status status = ls_bytes_parse(p->set.memory, &p->limit);
        return status == LS_OK ? LS_OK : ls__fail_context(status, "--memory: ");
    }
    p->limit = check_host_memory();
    if (p->limit > 0) return LS_OK;
    return LS_FAIL(LS_STATUS_UNSUPPORTED,
                   "--memory host: /proc/meminfo does not tell how much this machine has; say it, as 16G");
}

static ls_status check_program(const plan *p) {
    if (p->set.program && p->set.memory)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "--memory looks for a micro-batch, and --program prints the program of one: leave one of them out");
    if (p->set.worker > 0 && !p->set.program)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--worker says whose program is printed: say --program, too");
    return LS_OK;
}

// Without a batch the search is free to choose one; else it is train's own default.
static ls_status check_batch(plan *p) {
    ls_train_config *c = &p->config;
    if (p->limit && c->micro_batch > 0)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "--memory finds the largest micro-batch: leave --micro-batch out, or --memory to see what it takes");
    if (!p->limit && !c->batch_size && !c->micro_batch) {
        ls_train_config train;
        ls_train_config_init(&train);
        c->batch_size = train.batch_size;
    }
    if (p->set.hosts > p->job.workers)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--hosts %d for %d worker%s: a host has at least one", p->set.hosts,
                       p->job.workers, p->job.workers == 1 ? "" : "s");
    return LS_OK;
}

static ls_status create_graph(plan *p) {
    ls_model_config network = p->network;
    ls_shape stored;
    if (p->dataset) {
        ls_train_fit_model(&p->config, p->dataset, &network);
    } else {
        LS_TRY(cli_model_input(p->model, p->set.input_shape, &stored));
        network.input = ls_train_image_shape(&p->config, stored);
    }
    return ls_model_build(p->model, &network, &p->graph);
}

ls_status plan_memory(plan *p, const ls_train_config *config, ls_memory *out) {
    LS_TRY(ls_memory_plan(p->cli->context, p->graph, &p->job, config, out));
    p->job.program = out->part[LS_MEMORY_PROGRAM].worker - p->job.more;
    return LS_OK;
}

int64_t plan_counted(const plan *p, const ls_memory *memory) {
    return p->limit_host ? memory->total.host : memory->total.worker;
}

static ls_status search(plan *p) {
    plan_found found;
    plan_other others[PLAN_OTHERS];
    int count;
    LS_TRY(plan_search(p, &p->config, 1, &found));
    LS_TRY(plan_others(p, &found, others, &count));
    if (!found.fits) return plan_refuse(p, &found, others, count);
    if (p->set.json) return plan_print_json(p, &found.memory, &found, others, count);
    plan_print(p, &found.memory);
    plan_print_found(p, &found, others, count);
    return LS_OK;
}

static ls_status print_program(const plan *p) {
    char *text;
    LS_TRY(ls_program_text(p->cli->context, p->graph, &p->job, &p->config, p->set.worker, p->set.json, &text));
    fputs(text, stdout);
    free(text);
    return LS_OK;
}

static ls_status run_all(plan *p) {
    p->job.workers = p->set.workers ? p->set.workers : cli_job_size() > 0 ? cli_job_size() : 1;
    p->job.hosts = p->set.hosts;
    p->job.checkpoints = p->checkpoints.folder != NULL;
    LS_TRY(check_program(p));
    LS_TRY(read_limit(p));
    LS_TRY(check_batch(p));
    LS_TRY(cli_model_check(p->model, &p->network));
    p->cli->stage = CLI_STAGE_TOGETHER;
    if (cli_job_rank() > 0) return LS_OK;  // one speaks for all
    LS_TRY(ls_context_create_alone(&p->cli->context));
    if (p->job.workers > 1) p->job.more = ls_machine_mpi_bytes();
    if (p->set.data) LS_TRY(ls_dataset_open(p->cli->context, p->set.data, &p->dataset));
    p->job.dataset = p->dataset;
    LS_TRY(create_graph(p));
    if (p->limit) return search(p);
    if (p->set.program) return print_program(p);
    ls_memory memory;
    LS_TRY(plan_memory(p, &p->config, &memory));
    if (p->set.json) return plan_print_json(p, &memory, NULL, NULL, 0);
    plan_print(p, &memory);
    return LS_OK;
}

static ls_status run_plan(cli *c, int argc, char **argv) {
    plan p = {.cli = c, .argc = argc, .argv = argv};
    ls_words words;
    ls_status status = read_options(&p, &words);
    if (status == LS_OK && words.help)
        help(&p);
    else if (status == LS_OK)
        status = run_all(&p);
    ls_graph_destroy(&p.graph);
    ls_dataset_destroy(&p.dataset);
    ls_config_free(&p.file);
    return status;
}

const cli_command cli_command_plan = {
    "plan", "tell where memory will go, the largest micro-batch that fits, or each task of a step", run_plan};
