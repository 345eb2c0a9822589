// lockstep evaluate: what a trained network is worth on a dataset, with the loss and accuracy that train prints at its end, bit for bit:
// the trainer's own evaluation, of the same micro-batches in the same order.
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/output.h"
#include "base/text.h"
#include "cli/evaluate.h"

enum { PATH = 4096 };

typedef cli_evaluate_settings settings;
typedef cli_evaluation evaluation;

static const ls_option table[] = {
    {"model", LS_OPTION_TEXT, .offset = offsetof(settings, model), .metavar = "MODEL", .group = "Network",
     .initial = "the recipe's", .help = "the network that the weights are of, for a file of weights alone"},
    {"data", LS_OPTION_TEXT, .offset = offsetof(settings, data), .metavar = "SPEC", .group = "Evaluation",
     .initial = "the recipe's", .help = "the dataset: digits, mnist:DIR, ...; 'lockstep datasets' lists them"},
    {"split", LS_OPTION_TEXT, .offset = offsetof(settings, split), .metavar = "test|train", .group = "Evaluation",
     .help = "the samples to evaluate on: those to test with, or those that were trained on"},
    {"limit", LS_OPTION_COUNT, .offset = offsetof(settings, limit), .metavar = "N", .min = 1, .max = 1e12,
     .group = "Evaluation", .initial = "those that training used", .help = "use only the first N samples"},
    {"json", LS_OPTION_TEXT, .offset = offsetof(settings, json), .metavar = "FILE", .group = "Output",
     .help = "write all numbers to FILE, as JSON"},
    {"csv", LS_OPTION_TEXT, .offset = offsetof(settings, csv), .metavar = "FILE", .group = "Output",
     .help = "write a line for each class, or label, to FILE, as CSV"},
    {"out", LS_OPTION_TEXT, .offset = offsetof(settings, out), .metavar = "DIR", .group = "Output",
     .help = "write what was taken for what to DIR, as a picture, confusion.svg, and as confusion.csv; of several "
             "labels the "
             "ROC curves, roc.svg and roc.csv, and the scores, scores.csv"},
    {"workers", LS_OPTION_INT, .offset = offsetof(settings, workers), .metavar = "N", .min = 1, .max = 65536,
     .initial = "1, or as many as a launcher started", .group = "Workers, replicas, threads",
     .help = "processes to evaluate with, which find the same numbers: starts them with mpirun, inside a Slurm "
             "allocation with "
             "srun"},
    {.name = NULL},
};

// Options of train that mean something else here.
static const ls_option train_table[] = {
    {"micro-batch", LS_OPTION_COUNT, .offset = offsetof(ls_train_config, micro_batch), .metavar = "M", .min = 1,
     .max = LS_MAX_BATCH, .group = "Evaluation", .initial = "the recipe's",
     .help = "samples that one replica computes at a time: the last digits of the loss may depend on it"},
    {"noise", LS_OPTION_REAL, .offset = offsetof(ls_train_config, noise), .metavar = "S", .max = 10,
     .group = "Evaluation", .initial = "the recipe's",
     .help = "of networks that draw their image again: noise on what they see, as train has it"},
    {"positive-weight", LS_OPTION_REAL, .offset = offsetof(ls_train_config, positive_weight), .metavar = "X",
     .max = 1e6, .group = "Evaluation", .initial = "the recipe's",
     .help = "of several labels: the weight of those that are there, in the loss"},
    {"tta", LS_OPTION_TEXT, .offset = offsetof(ls_train_config, tta), .metavar = "none|flip|flip-translate",
     .group = "Evaluation", .initial = "the recipe's",
     .help = "average the scores of each image, its mirror image, and both moved by a pixel"},
    {.name = NULL},
};

static int speaks(const evaluation *e) { return ls_context_rank(e->cli->context) == 0; }

static int on_training(const evaluation *e) { return strcmp(e->set.split, "train") == 0; }

// --- the command line ------------------------------------------------------------------------------------------------

static void defaults(evaluation *e) {
    e->set = (settings){.split = "test"};
    cli_trained_init(&e->trained);
    ls_cluster_init(&e->cli->cluster);
    const ls_option_set options[] = {{table, &e->set},
                                     {cli_cluster_options(), &e->cli->cluster},
                                     {train_table, &e->trained.config},
                                     {cli_trained_options(), &e->trained.config},
                                     {cli_trained_hidden(), NULL},
                                     {cli_course_options(), NULL},
                                     {ls_train_options(), &e->trained.config},
                                     {ls_model_options(), &e->trained.network},
                                     {NULL, NULL}};
    memcpy(e->options, options, sizeof options);
}

static void help(const evaluation *e) {
    printf("Usage: lockstep evaluate CHECKPOINT [--data SPEC] [--split train] [OPTIONS]\n\n");
    ls_print_entry(
        stdout, "", 0, cli_help_width(),
        "Evaluates a trained network: loss, accuracy, accuracy of each class, and what was taken for what; of several "
        "labels the area under the ROC curve of each; of a language model its perplexity. CHECKPOINT is a "
        "checkpoint, a folder of checkpoints, of which the newest counts, or a .safetensors file, which takes --model "
        "and "
        "--data. The numbers are the same for any number of workers, and those that train prints at its end.");
    ls_options_help(stdout, e->options, cli_help_width());
}

static ls_status read_options(evaluation *e, int argc, char **argv, ls_words *words) {
    defaults(e);
    LS_TRY(ls_options_parse(e->options, argc, argv, 1, words));
    if (words->help) return LS_OK;
    if (words->count == 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "which network? Usage: lockstep evaluate CHECKPOINT [OPTIONS]");
    defaults(e);
    LS_TRY(cli_trained_open(&e->trained, words->word[0]));
    LS_TRY(ls_options_parse(e->options, argc, argv, 1, words));
    LS_TRY(cli_trained_names(&e->trained, e->set.model, e->set.data));
    if (e->trained.data) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "on which dataset? --data names it; 'lockstep datasets' lists them");
}

// --- evaluating ------------------------------------------------------------------------------------------------------

// What an evaluation depends on; of what only training does, as little as there can be: an optimizer without state.
static ls_train_config config_of(const evaluation *e) {
    const ls_train_config *from = &e->trained.config;
    ls_train_config c;
    ls_train_config_init(&c);
    c.epochs = 1;
    c.optimizer = "sgd";
    c.weights_follow = 1;
    c.precision = from->precision;
    c.device = from->device;
    c.isa = from->isa;
    c.replicas = from->replicas;
    c.threads = from->threads;
    c.hyperthreads = from->hyperthreads;
    c.loader_threads = from->loader_threads;
    c.bind = from->bind;
    c.image_size = from->image_size;
    c.resize = from->resize;
    c.interpolation = from->interpolation;
    c.normalize = from->normalize;
    c.mean = from->mean;
    c.std = from->std;
    c.scale = from->scale;
    c.channel_order = from->channel_order;
    c.positive_weight = from->positive_weight;
    c.noise = from->noise;
    c.seed = from->seed;
    c.tta = from->tta;
    c.limit_test = e->set.limit ? e->set.limit : on_training(e) ? from->limit_train : from->limit_test;
    c.micro_batch = from->micro_batch > 0 ? from->micro_batch : ls_micro_batch_default(from->batch_size);
    // As many as there are to train with, or more, so that each replica has some: evaluation does not see how many.
    int64_t pieces = (from->batch_size + c.micro_batch - 1) / c.micro_batch;
    int64_t lanes = (int64_t)ls_context_size(e->cli->context) * (from->replicas > 0 ? from->replicas : 1);
    c.batch_size = c.micro_batch * (pieces > lanes ? pieces : lanes);
    return c;
}

// Before the workers do anything together that depends on it.
static ls_status check_options(const evaluation *e, const ls_train_config *config) {
    char line[4096];
    size_t used = 0;
    ls_text_add(line, sizeof line, &used, "model=%.80s; data=%.200s; split=%s; weights=%s; ", e->trained.model,
                e->trained.data, e->set.split, cli_saved_digest(&e->trained.saved, "weights.safetensors"));
    ls_options_line(
        (ls_option_set[]){
            {ls_train_options(), (void *)config}, {ls_model_options(), (void *)&e->trained.network}, {NULL, NULL}},
        line + used, sizeof line - used);
    return ls_context_check_equal(e->cli->context, "the options", line);
}

static ls_status out_path(const evaluation *e, const char *name, char path[PATH]) {
    if (snprintf(path, PATH, "%s/%s", e->set.out, name) < PATH) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--out: the folder's name is too long");
}

static ls_status cannot_write(const char *path) {
    return LS_FAIL(LS_STATUS_IO, "cannot write %s: %s; name a place that can be written to", path, strerror(errno));
}

static ls_status check_output(const char *path) {
    return !path || ls_output_check(path) == 0 ? LS_OK : cannot_write(path);
}

// By worker 0, which will write them; and that the weights are those which were saved.
static ls_status check_files(const evaluation *e) {
    char path[PATH];
    LS_TRY(check_output(e->set.json));
    LS_TRY(check_output(e->set.csv));
    if (!e->set.out) return LS_OK;
    if (ls_output_folder(e->set.out) != 0) return cannot_write(e->set.out);
    LS_TRY(out_path(e, "evaluation", path));
    return check_output(path);
}

// What there is to be told of it, and whether there are files for all that is asked for.
static ls_status find_kind(evaluation *e) {
    e->kind = ls_graph_has_losses(e->network) || ls_dataset_targets(e->dataset) > 0 ? &cli_evaluation_losses
              : ls_dataset_labels(e->dataset) > 0                                   ? &cli_evaluation_labels
                                                                                    : &cli_evaluation_classes;
    if (e->kind->csv || (!e->set.csv && !e->set.out)) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%s: %s names neither classes nor labels that a table or a picture could be of; --json FILE has all "
                   "numbers",
                   e->set.csv ? "--csv" : "--out", e->trained.model);
}

static ls_status build(evaluation *e, const ls_train_config *config) {
    cli_trained *t = &e->trained;
    const char **columns = cli_saved_columns(&t->saved);
    ls_status status = ls_dataset_open_columns(e->cli->context, t->data, columns, &e->dataset);
    free(columns);
    if (status != LS_OK && !e->set.data) ls__fail_context(status, "the recipe's dataset (--data names another): ");
    LS_TRY(status);
    if (on_training(e)) ls_dataset_test_on_training(e->dataset);
    if (ls_dataset_test_count(e->dataset) == 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s has no samples to test with: --split train takes the others",
                       t->data);
    e->samples = ls_dataset_test_count(e->dataset);
    if (config->limit_test > 0 && config->limit_test < e->samples) e->samples = config->limit_test;
    ls_train_fit_model(config, e->dataset, &t->network);
    if (t->whole) t->network.classes = 0;  // its own: a classifier made anew has learned nothing
    LS_TRY(ls_model_build(t->model, &t->network, &e->network));
    LS_TRY(find_kind(e));
    LS_TRY(cli_trained_check_classes(t, e->dataset));
    ls_port input = ls_graph_input_at(e->network, 0);
    e->tokens = input.dtype == LS_DTYPE_I32 ? ls_shape_count(input.shape) : 0;
    if (e->kind->build) LS_TRY(e->kind->build(e));
    LS_TRY(ls_trainer_create(e->cli->context, e->graph ? e->graph : e->network, e->dataset, config, &e->trainer));
    return t->whole ? LS_OK : ls_trainer_load_weights(e->trainer, t->saved.weights);
}

double cli_evaluation_measure(const evaluation *e, const char *name) {
    for (int i = 0; i < ls_trainer_measure_count(e->trainer); i++)
        if (strcmp(ls_trainer_measure(e->trainer, i).name, name) == 0) return ls_trainer_measure(e->trainer, i).test;
    return NAN;
}

static ls_status evaluate(evaluation *e) {
    e->cli->stage = CLI_STAGE_ALONE;
    ls_status status = ls_trainer_evaluate(e->trainer, &e->loss, &e->accuracy);
    if (status == LS_OK || status == LS_STATUS_DIVERGED) e->cli->stage = CLI_STAGE_TOGETHER;
    LS_TRY(status);
    LS_TRY(ls_trainer_result(e->trainer, &e->result));
    const char *numerics = cli_saved_numerics(&e->trained.saved);
    e->other_numerics = numerics && strcmp(numerics, e->result.device_description) != 0;
    return ls_context_agree(e->cli->context, e->kind->find ? e->kind->find(e) : LS_OK);
}

// --- output ----------------------------------------------------------------------------------------------------------

static ls_status print(const evaluation *e) {
    char what[512], count[32];
    const char *set = on_training(e) ? "Training" : "Test";
    int rest = 27 - (int)strlen(set);
    cli_trained_describe(&e->trained, what, sizeof what);
    cli_say("%s", what);
    cli_say("%s: %s of the samples to %s\n", e->trained.data, cli_count(e->samples, count),
            on_training(e) ? "train on" : "test with");
    if (e->other_numerics)
        cli_say("Trained by %s; this is %s: last digits may be others\n", cli_saved_numerics(&e->trained.saved),
                e->result.device_description);
    printf("%s %-*s%.4f\n", set, rest, "loss", e->loss);
    char right[80] = "";
    if (e->counts)
        snprintf(right, sizeof right, " (%s of %s)", cli_count(ls_confusion_right(&e->confusion, -1), (char[32]){0}),
                 count);
    if (isfinite(e->accuracy)) printf("%s %-*s%.2f %%%s\n", set, rest, "accuracy", 100 * e->accuracy, right);
    return e->kind->print ? e->kind->print(e) : LS_OK;
}

json_t *cli_json_number(double x) { return isfinite(x) ? json_real(x) : json_null(); }

json_t *cli_json_text(const char *s) {
    json_t *j = s ? json_string(s) : json_null();
    return j ? j : json_string("(not UTF-8)");
}

static ls_status write_json(const evaluation *e, FILE *out) {
    const cli_saved *saved = &e->trained.saved;
    json_t *o = json_pack("{s:i,s:o,s:o,s:o,s:s,s:I,s:o,s:o}", "lockstep_evaluation", 1, "model",
                          cli_json_text(e->trained.model), "weights", cli_json_text(saved->weights), "data",
                          cli_json_text(e->trained.data), "split", e->set.split, "samples", (json_int_t)e->samples,
                          "loss", cli_json_number(e->loss), "accuracy", cli_json_number(e->accuracy));
    if (o) e->kind->json(e, o);
    char *text = o ? ls_json_shorten(json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(17))) : NULL;
    int failed = !text || fprintf(out, "%s\n", text) < 0;
    free(text);
    json_decref(o);
    return failed ? LS_FAIL(LS_STATUS_IO, "cannot write the evaluation as JSON: %s", strerror(errno)) : LS_OK;
}

static ls_status write_file(const evaluation *e, const char *path, ls_status (*write)(const evaluation *e, FILE *out)) {
    ls_output output;
    if (!path) return LS_OK;
    if (ls_output_open(path, &output) != 0) return cannot_write(path);
    ls_status status = write(e, output.file);
    int failed = ls_output_close(&output, path, status == LS_OK);
    return status == LS_OK && failed ? cannot_write(path) : status;
}

static ls_status write_files(const evaluation *e) {
    char path[PATH];
    LS_TRY(write_file(e, e->set.json, write_json));
    if (e->set.csv) LS_TRY(write_file(e, e->set.csv, e->kind->csv));
    for (int i = 0; e->set.out && e->kind->files[i].name; i++) {
        LS_TRY(out_path(e, e->kind->files[i].name, path));
        LS_TRY(write_file(e, path, e->kind->files[i].write));
        if (!e->kind->files[i + 1].name) printf("\n%-28s%s\n", "Picture", path);
    }
    return LS_OK;
}

// --- the command -----------------------------------------------------------------------------------------------------

static ls_status work(evaluation *e) {
    cli *c = e->cli;
    LS_TRY(cli_cluster_find(c, e->set.workers));
    LS_TRY(cli_job_launch(c, e->set.workers));
    c->stage = CLI_STAGE_TOGETHER;
    LS_TRY(cli_job_join(c, "evaluate", e->set.workers));
    ls_train_config config = config_of(e);
    LS_TRY(check_options(e, &config));
    LS_TRY(ls_context_agree(c->context, speaks(e) ? check_files(e) : LS_OK));
    LS_TRY(build(e, &config));
    LS_TRY(evaluate(e));
    ls_status status = LS_OK;
    if (speaks(e)) {
        status = print(e);
        if (status == LS_OK) status = write_files(e);
    }
    return ls_context_agree(c->context, status);
}

static ls_status run(cli *c, int argc, char **argv) {
    evaluation e = {.cli = c};
    ls_words words;
    ls_status status = read_options(&e, argc, argv, &words);
    if (status == LS_OK && words.help)
        help(&e);
    else if (status == LS_OK)
        status = work(&e);
    // After a failure that may be this worker's alone, taking leave of the others would wait for them.
    if (status == LS_OK || c->stage != CLI_STAGE_ALONE) {
        ls_trainer_destroy(&e.trainer);
        ls_graph_destroy(&e.graph);
        ls_graph_destroy(&e.network);
        ls_dataset_destroy(&e.dataset);
    }
    free(e.counts);
    free(e.roc);
    free(e.names);
    cli_trained_close(&e.trained);
    return status;
}

const cli_command cli_command_evaluate = {"evaluate",
                                          "evaluate a trained network: accuracy by class, what is taken for what", run};
