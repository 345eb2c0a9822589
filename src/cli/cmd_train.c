#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "cli/train_run.h"
#include "report/record.h"

typedef cli_train_settings settings;

#define SLOW_DISK 50e6  // bytes per second

static const ls_option table[] = {
    {"data", LS_OPTION_TEXT, .offset = offsetof(settings, data), .metavar = "SPEC", .group = "Training",
     .help = "the dataset: digits, mnist:DIR, ...; 'lockstep datasets' lists them"},
    {"weights", LS_OPTION_TEXT, .offset = offsetof(settings, weights), .metavar = "FILE", .group = "Network",
     .initial = "none: drawn from the seed",
     .help = "the weights to begin with: safetensors with Keras's names, or Keras's own .h5, .weights.h5 or .keras"},
    {"weights-by-name", LS_OPTION_FLAG, .offset = offsetof(settings, weights_by_name), .group = "Network",
     .help = "take from it the weights whose names and shapes are the network's, and draw the others from the seed"},
    {"without-top", LS_OPTION_FLAG, .offset = offsetof(settings, without_top), .group = "Network",
     .help = "take from it the weights of all but the classifier, which begins anew: for other classes"},
    {"save", LS_OPTION_TEXT, .offset = offsetof(settings, save), .metavar = "FILE", .group = "Output",
     .help = "write the weights after training to FILE: safetensors, or Keras's where it ends in .h5 or .weights.h5"},
    {"workers", LS_OPTION_INT, .offset = offsetof(settings, workers), .metavar = "N", .min = 1, .max = 65536,
     .initial = "1, or as many as a launcher started", .group = "Workers, replicas, threads",
     .help = "processes to train with: starts them with mpirun, inside a Slurm allocation with srun"},
    {"verbose", LS_OPTION_INT, .offset = offsetof(settings, verbose), .metavar = "LEVEL", .max = 2, .group = "Output",
     .help = "0: silent; 1: a live progress bar; 2: one line an epoch"},
    {"record", LS_OPTION_TEXT, .offset = offsetof(settings, record), .metavar = "FILE", .group = "Output",
     .help = "write what ran and what came out to FILE, as JSON"},
    {"metrics", LS_OPTION_TEXT, .offset = offsetof(settings, metrics), .metavar = "FILE", .group = "Output",
     .help = "write a line per epoch to FILE, as CSV"},
    {"tensorboard", LS_OPTION_TEXT, .offset = offsetof(settings, tensorboard), .metavar = "DIR", .group = "Output",
     .help = "write events for TensorBoard to DIR"},
    {"tensorboard-every", LS_OPTION_INT, .offset = offsetof(settings, tensorboard_every), .metavar = "N",
     .group = "Output", .help = "among them the loss of every N-th step; 0: of epochs only"},
    {"time-limit", LS_OPTION_TEXT, .offset = offsetof(settings, time_limit), .metavar = "TIME",
     .initial = "the end of the Slurm job, inside one", .group = "Training",
     .help =
         "stop early enough to be done, evaluation and record included, so long after the start: 90 (minutes), 5:30 "
         "(minutes:seconds), 1:15:00; none: not even at the end of a Slurm job"},
    {"wait-limit", LS_OPTION_TEXT, .offset = offsetof(settings, wait_limit), .metavar = "TIME",
     .initial = "30 minutes, 1 where it is stopped", .group = "Workers, replicas, threads",
     .help =
         "end the job, naming who is missing, when a worker has waited for another one so long; as a --time-limit is "
         "told, or none"},
    {"until-accuracy", LS_OPTION_REAL, .offset = offsetof(settings, until_accuracy), .metavar = "A", .max = 1,
     .initial = "none", .group = "Training",
     .help = "end training when the test accuracy after an epoch is at least A, as 0.98, and tell how long that took; "
             "evaluates after every epoch"},
    {"early-stop", LS_OPTION_INT, .offset = offsetof(settings, early_stop), .metavar = "N", .max = 1000000,
     .initial = "none", .group = "Training",
     .help = "end training when the test accuracy (of several labels the area under the ROC curve; where there is "
             "neither, the loss) has not been better for N epochs; evaluates after every epoch"},
    {"restore-best", LS_OPTION_FLAG, .offset = offsetof(settings, restore_best), .group = "Training",
     .help =
         "in the end take the weights after the best epoch, as --early-stop means it, from its checkpoint; evaluates "
         "after every epoch"},
    {"trace", LS_OPTION_TEXT, .offset = offsetof(settings, trace), .metavar = "DIR", .group = "Output",
     .help =
         "write a timeline of every worker and replica to DIR/trace.json: for ui.perfetto.dev, chrome://tracing and "
         "'lockstep report DIR'"},
    {"trace-steps", LS_OPTION_COUNT, .offset = offsetof(settings, trace_steps), .metavar = "N", .min = 1,
     .group = "Output", .help = "with so many steps of every epoch, after its first two"},
    {"samples", LS_OPTION_TEXT, .offset = offsetof(settings, samples), .metavar = "DIR", .group = "Output",
     .help = "of a network that draws images, as an auto-encoder: what it makes of ten, after each epoch, to "
             "DIR/epoch-0001.png, ..."},
    {"config", LS_OPTION_TEXT, .offset = offsetof(settings, config), .metavar = "FILE", .group = "Output",
     .help = "take options from FILE, a JSON object with the names used here; the command line wins"},
    {.name = NULL},
};

const ls_option *cli_train_options(void) { return table; }

const ls_option *cli_course_options(void) {
    static const ls_option course[] = {
        {.name = "top"},
        {.name = "pooling"},
        {.name = "momentum-correction"},
        {.name = "batch-norm-momentum"},
        {.name = "seed"},
        {.name = "shuffle"},
        {.name = "drop-remainder"},
        {.name = "label-smoothing"},
        {.name = "positive-weight"},
        {.name = "noise"},
        {.name = "lr"},
        {.name = "beta1"},
        {.name = "beta2"},
        {.name = "epsilon"},
        {.name = "trust-coefficient"},
        {.name = "lr-scaling"},
        {.name = "lr-base-batch"},
        {.name = "warmup-epochs"},
        {.name = "warmup"},
        {.name = "schedule"},
        {.name = "schedule-step"},
        {.name = "schedule-steps"},
        {.name = "schedule-gamma"},
        {.name = "schedule-power"},
        {.name = "schedule-end"},
        {.name = "schedule-start"},
        {.name = "schedule-rise"},
        {.name = "schedule-period"},
        {.name = NULL},
    };
    return course;
}

static void defaults(cli_train_run *r) {
    r->set = (settings){.data = "digits", .verbose = 1, .tensorboard_every = 1, .trace_steps = 10};
    ls_train_config_init(&r->config);
    r->options[0] = (ls_option_set){ls_train_options(), &r->config};
    ls_model_config_init(&r->model);
    r->options[1] = (ls_option_set){ls_model_options(), &r->model};
    r->options[2] = (ls_option_set){table, &r->set};
    cli_checkpoint_defaults(&r->checkpoints.set);
    r->options[3] = (ls_option_set){cli_checkpoint_options(), &r->checkpoints.set};
    ls_cluster_init(&r->cli->cluster);
    r->options[4] = (ls_option_set){cli_cluster_options(), &r->cli->cluster};
    r->options[5] = (ls_option_set){NULL, NULL};
}

static void help(const cli_train_run *r) {
    printf("Usage: lockstep train MODEL [--data SPEC] [OPTIONS]\n\n");
    ls_print_entry(
        stdout, "", 0, cli_help_width(),
        "Trains a network and prints the result table. The same MODEL, data and recipe give the same bits for any "
        "number of workers and replicas. 'lockstep models' lists the networks.");
    ls_options_help(stdout, r->options, cli_help_width());
}

// Keras's three words for weights: None, 'imagenet' and a path.
static ls_status check_weights(settings *set) {
    if (set->weights && strcasecmp(set->weights, "none") == 0) set->weights = NULL;
    char path[CLI_DOCUMENT];
    if (set->weights && strcasecmp(set->weights, "imagenet") == 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "--weights %s: nothing is downloaded here; weights come from a file, --weights FILE, "
                       "and %s says how to make one of Keras's",
                       set->weights, cli_document("models.md", path));
    if (set->without_top && !set->weights)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--without-top: of which file? --weights FILE names it");
    if (set->without_top && set->weights_by_name)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "--without-top takes all weights but the classifier's, --weights-by-name those that fit: give one "
            "of them");
    if (set->weights_by_name && !set->weights)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--weights-by-name: from which file? --weights FILE names it");
    return LS_OK;
}

static ls_status read_wait_limit(const char *text, double *seconds) {
    *seconds = text && strcmp(text, "none") == 0 ? -1 : 0;
    ls_status status = text && *seconds == 0 ? ls_duration_parse(text, seconds) : LS_OK;
    return status == LS_OK ? LS_OK : ls__fail_context(status, "--wait-limit: ");
}

// Reads the command line; when it names a config file, that first and the command line again on top of it.
static ls_status read_options(cli_train_run *r, int argc, char **argv, ls_words *words) {
    defaults(r);
    LS_TRY(ls_options_parse(r->options, argc, argv, 1, words));
    if (words->help) return LS_OK;
    const char *path = r->set.config;
    if (path) {
        defaults(r);
        LS_TRY(ls_config_load(path, r->options, &r->set.model, &r->file));
        LS_TRY(ls_options_parse(r->options, argc, argv, 1, words));
    }
    if (words->count > 0) r->set.model = words->word[0];
    if (!r->set.model)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "which model? Usage: lockstep train MODEL [OPTIONS]; 'lockstep models' lists them");
    LS_TRY(cli_deadline_check(r->set.time_limit));
    LS_TRY(read_wait_limit(r->set.wait_limit, &r->cli->wait_limit));
    if (r->set.until_accuracy > 0 || r->set.early_stop > 0 || r->set.restore_best) r->config.validate = 1;
    LS_TRY(check_weights(&r->set));
    LS_TRY(cli_checkpoints_check(&r->checkpoints));
    if (r->set.restore_best && !r->checkpoints.set.folder)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--restore-best takes them from a checkpoint: --checkpoint DIR");
    // Of those that are started again there may be one left.
    if (r->checkpoints.set.restarts > 0 && r->set.workers < 2 && !cli_job_is_launched())
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "--restarts starts workers again that this program has started: --workers N, two or more");
    r->cli->restarts = r->checkpoints.set.restarts;
    r->cli->stops_kindly = r->checkpoints.set.folder != NULL;
    return cli_model_check(r->set.model, &r->model);
}

ls_status cli_train_check(int argc, char **argv, ls_train_config *config) {
    cli nobody = {0};
    cli_train_run r = {.cli = &nobody};
    ls_words words;
    ls_status status = read_options(&r, argc, argv, &words);
    *config = r.config;
    if (status == LS_OK && r.set.workers)
        status = LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                         "--workers %d: leave it out; the job's nodes and tasks say how many workers there are",
                         r.set.workers);
    if (status == LS_OK && nobody.cluster.hosts)
        status = LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--hosts: leave it out; the job's launcher starts the workers");
    ls_config_free(&r.file);
    return status;
}

// Before the workers do anything together that depends on it: with different options they would wait for each other for ever.
// Folders and files may differ from host to host: what was read from them is compared by the trainer, or sent by worker 0.
static ls_status check_options(const cli_train_run *r) {
    char line[4096];
    size_t used = 0, format = strcspn(r->set.data, ":");
    ls_text_add(line, sizeof line, &used,
                "model=%.80s; data=%.*s; weights=%s; save=%s; trace=%lld; until-accuracy=%.17g; checkpoints=%s %s %s "
                "%s; early-stop=%d %d; ",
                r->set.model, (int)(format < 80 ? format : 80), r->set.data,
                !r->set.weights          ? "drawn"
                : r->set.without_top     ? "from a file, without the top"
                : r->set.weights_by_name ? "from a file, by name"
                                         : "from a file",
                r->set.save ? "yes" : "no", r->set.trace ? (long long)r->set.trace_steps : 0, r->set.until_accuracy,
                r->checkpoints.set.folder ? "yes" : "no", r->checkpoints.set.every ? r->checkpoints.set.every : "",
                r->checkpoints.set.keep_epochs ? r->checkpoints.set.keep_epochs : "",
                r->checkpoints.set.from ? "from another" : "", r->set.early_stop, r->set.restore_best);
    ls_options_line((ls_option_set[]){r->options[0], r->options[1], {NULL, NULL}}, line + used, sizeof line - used);
    return ls_context_check_equal(r->cli->context, "the options", line);
}

// All but the classifier's.
static ls_status load_body(cli_train_run *r, const ls_model_config *built) {
    ls_model_config config = *built;
    ls_graph *body;
    config.include_top = 0;
    config.freeze = config.lr_scale = config.decay_scale = NULL;  // which may name the classifier
    config.batch_norm_momentum = 0;
    LS_TRY(ls_model_build(r->set.model, &config, &body));
    ls_status status = ls_trainer_load_body(r->trainer, r->set.weights, body, &r->loaded);
    ls_graph_destroy(&body);
    return status;
}

static ls_status load_weights(cli_train_run *r, const ls_model_config *built) {
    if (!r->set.weights || r->checkpoints.resumed) return LS_OK;
    r->loaded = ls_store_count(ls_graph_store(r->graph));
    if (r->set.without_top) return load_body(r, built);
    if (r->set.weights_by_name) return ls_trainer_load_weights_by_name(r->trainer, r->set.weights, &r->loaded);
    return ls_trainer_load_weights(r->trainer, r->set.weights);
}

static ls_status on_step(void *user, const ls_step_report *step, int *stop) {
    cli_train_run *r = user;
    cli_progress_step(&r->progress, step);
    if (r->metrics) cli_train_note_metrics(r, ls_metrics_step(r->metrics, step));
    r->timekeeper.reserved = r->checkpoints.seconds;
    *stop = (cli_train_speaks(r) && cli_timekeeper_step(&r->timekeeper, step, r->config.validate)) ||
            cli_checkpoints_asked();
    return LS_OK;
}

static void note_epoch(cli_train_run *r, const ls_epoch_result *e) {
    r->trained_seconds += e->seconds;
    if (r->set.until_accuracy > 0 && e->val_accuracy >= r->set.until_accuracy && !r->until_epoch) {
        r->until_epoch = e->epoch;
        r->until_seconds = r->trained_seconds;
    }
    double score = ls_epoch_score(e);
    if (!isnan(score) && (!r->best_epoch || score > r->best_score)) {
        r->best_epoch = e->epoch;
        r->best_score = score;
    }
    r->settled = r->set.early_stop > 0 && r->best_epoch && e->epoch - r->best_epoch >= r->set.early_stop;
}

// What the log was before training is gone on with.
static void note_epochs(cli_train_run *r) {
    for (int i = 0; i < r->result.epochs; i++) {
        const ls_epoch_result *e = &r->result.epoch[i];
        if (e->steps != r->result.steps_per_epoch) continue;
        note_epoch(r, e);
        if (r->metrics) cli_train_note_metrics(r, ls_metrics_epoch(r->metrics, e));
    }
}

static void say_skipped(cli_train_run *r, const ls_epoch_result *e) {
    const char *cause = ls_trainer_not_finite(r->trainer);
    if (e->skipped == 0 || !cli_train_speaks(r)) return;
    char scale[64] = "";
    if (e->loss_scale != 1) snprintf(scale, sizeof scale, "; the loss scale is %.10g now", e->loss_scale);
    cli_progress_pause(&r->progress);
    fprintf(stderr, "lockstep train: left out %lld of the %lld steps of epoch %d: a gradient was not finite%s%s%s\n",
            (long long)e->skipped, (long long)e->steps, e->epoch, scale, *cause ? ". The first such number was " : "",
            cause);
}

static ls_status on_epoch(void *user, const ls_epoch_result *e, int *stop) {
    cli_train_run *r = user;
    note_epoch(r, e);
    say_skipped(r, e);
    cli_losses_epoch(&r->losses, r->trainer, e, &r->progress);
    cli_progress_epoch(
        &r->progress, e,
        e->epoch < r->config.epochs && !r->timekeeper.stop && !r->until_epoch && !r->settled && isfinite(e->loss));
    if (r->config.validate) r->timekeeper.evaluation_seconds = e->val_seconds;
    if (r->metrics) cli_train_note_metrics(r, ls_metrics_epoch(r->metrics, e));
    if (r->set.samples && cli_train_speaks(r))
        cli_train_note_samples(r, cli_samples_draw(&r->samples, r->trainer, e->epoch));
    *stop = r->until_epoch > 0 || r->settled || cli_checkpoints_asked();
    return LS_OK;
}

// Divergence is seen by all workers alike, who then leave together.
static ls_status known_to_all(cli_train_run *r, ls_status status) {
    if (status == LS_STATUS_DIVERGED) r->cli->stage = CLI_STAGE_TOGETHER;
    return status;
}

// Training, until all epochs are done or the time is up.
static ls_status fit(cli_train_run *r) {
    int evaluates = r->config.evaluate || r->config.validate;
    ls_callbacks callbacks = {.user = r, .on_step = on_step, .on_epoch = on_epoch};
    LS_TRY(
        cli_timekeeper_begin(&r->timekeeper, r->cli->context, &r->deadline, evaluates ? cli_train_test_count(r) : 0));
    // What has been reached before it was gone on with is not trained beyond.
    int over = r->settled || r->until_epoch;
    ls_status status = over ? LS_OK : known_to_all(r, ls_trainer_fit(r->trainer, &callbacks));
    if (status == LS_STATUS_LIBRARY) r->cli->stage = CLI_STAGE_ALONE;  // where communication failed others may wait
    LS_TRY(status);
    LS_TRY(ls_trainer_result(r->trainer, &r->result));
    int late = cli_timekeeper_too_late(&r->timekeeper);
    LS_TRY(ls_context_broadcast(r->cli->context, &late, sizeof late, 0));
    r->too_late_to_evaluate = late;
    r->stopped = !r->until_epoch && !r->settled && cli_train_whole_epochs(&r->result) < r->config.epochs;
    return LS_OK;
}

// An evaluation after the last epoch is the one at the end too.
static ls_status evaluate(cli_train_run *r) {
    const ls_train_result *t = &r->result;
    r->evaluated = t->epochs > 0 && !isnan(t->epoch[t->epochs - 1].val_seconds) && !r->restored;
    if (r->evaluated || !r->config.evaluate || r->too_late_to_evaluate || r->asked || cli_train_test_count(r) == 0)
        return LS_OK;
    LS_TRY(known_to_all(r, ls_trainer_evaluate(r->trainer, NULL, NULL)));
    r->evaluated = 1;
    LS_TRY(ls_trainer_result(r->trainer, &r->result));
    if (r->metrics) cli_train_note_metrics(r, ls_metrics_test(r->metrics, t->epochs, t->test_loss, t->test_accuracy));
    return LS_OK;
}

static void pause_progress(void *user) {
    cli_train_run *r = user;
    cli_progress_pause(&r->progress);
}

// The recipe that the result depends on: what is left to the library's choice is in it as chosen.
static ls_status find_checkpoint(cli_train_run *r) {
    ls_train_config config = r->config;
    if (!config.micro_batch) config.micro_batch = ls_micro_batch_default(config.batch_size);
    const ls_option_set sets[] = {{ls_train_options(), &config}, {ls_model_options(), &r->model}, {NULL, NULL}};
    return cli_checkpoints_find(&r->checkpoints, r->cli->context, r->set.model, r->set.data, sets);
}

// Which signal asked for it is known to the worker that it came to. Collective.
static ls_status find_asked(cli_train_run *r) {
    int asked = cli_checkpoints_asked(), *all;
    int workers = ls_context_size(r->cli->context);
    if (!r->stopped || !r->checkpoints.set.folder) return LS_OK;
    LS_TRY(ls_calloc(workers, sizeof *all, &all));
    ls_status status = ls_context_gather(r->cli->context, &asked, all, sizeof asked);
    for (int i = 0; i < workers; i++)
        if (all[i]) r->asked = all[i];
    free(all);
    // Launchers end the others of a job when one of them ends with a status, and pass it on: it is worker 0's alone then.
    if (status == LS_OK && (cli_train_speaks(r) || r->cli->clustered)) r->cli->exit_status = CLI_UNFINISHED;
    return status;
}

// The checkpoint of the best epoch is kept for this.
static ls_status restore_best(cli_train_run *r) {
    char path[4200];
    int elsewhere =
        r->checkpoints.branches && r->best_epoch < r->checkpoints.epoch;  // its checkpoint is in another folder
    if (!r->set.restore_best || r->stopped || !r->best_epoch || r->best_epoch == r->result.epochs || elsewhere)
        return LS_OK;
    snprintf(path, sizeof path, "%s/epoch-%04d/weights.safetensors", r->checkpoints.set.folder, r->best_epoch);
    int there = cli_train_speaks(r) && access(path, R_OK) == 0;
    LS_TRY(ls_context_broadcast(r->cli->context, &there, sizeof there, 0));
    if (!there) {
        if (cli_train_speaks(r))
            fprintf(stderr, "lockstep train: %s, of the best epoch, is not there: the weights are those of the last\n",
                    path);
        return LS_OK;
    }
    LS_TRY(ls_trainer_load_weights(r->trainer, path));
    r->restored = 1;
    return ls_trainer_result(r->trainer, &r->result);
}

static ls_status train(cli_train_run *r) {
    cli *c = r->cli;
    LS_TRY(cli_job_check_batch(c, &r->config, r->set.workers));
    LS_TRY(cli_cluster_find(c, r->set.workers));
    LS_TRY(cli_job_launch(c, r->set.workers));
    c->stage = CLI_STAGE_TOGETHER;
    // Launchers pass a wish on from the start. Of --hosts there is nothing to save while the others are waited for.
    if (r->checkpoints.set.folder && !c->clustered) cli_checkpoints_listen();
    if (cli_job_rank() <= 0) cli_deadline_find(r->set.time_limit, c->started, &r->deadline);
    c->deadline = r->deadline.at;
    LS_TRY(cli_job_join(c, "train", r->set.workers));
    if (r->checkpoints.set.folder && c->clustered) cli_checkpoints_listen();
    LS_TRY(check_options(r));
    LS_TRY(cli_train_check_outputs(r));
    LS_TRY(cli_train_check_trace(r));
    LS_TRY(find_checkpoint(r));
    LS_TRY(ls_dataset_open(c->context, r->set.data, &r->dataset));
    ls_model_config model = r->model;  // that one stays as it was asked for, for the record
    ls_train_fit_model(&r->config, r->dataset, &model);
    LS_TRY(ls_model_build(r->set.model, &model, &r->graph));
    ls_train_config config = r->config;
    config.weights_follow = r->checkpoints.resumed;
    LS_TRY(ls_trainer_create(c->context, r->graph, r->dataset, &config, &r->trainer));
    LS_TRY(load_weights(r, &model));
    LS_TRY(cli_checkpoints_begin(&r->checkpoints, c->context, r->trainer, r->dataset, pause_progress, r));
    // How long one takes is known once one was written; until then what a slow disk would take.
    r->checkpoints.seconds =
        r->checkpoints.set.folder ? 12.0 * (double)ls_graph_parameter_count(r->graph) / SLOW_DISK : 0;
    LS_TRY(ls_trainer_result(r->trainer, &r->result));
    LS_TRY(cli_train_open_metrics(r));
    note_epochs(r);
    LS_TRY(cli_losses_begin(&r->losses, r->trainer, r->config.epochs));
    if (r->set.samples) LS_TRY(cli_train_begin_samples(r));
    if (r->set.trace) LS_TRY(ls_trainer_trace(r->trainer, r->set.trace_steps));
    int loud = cli_train_speaks(r) ? r->set.verbose : 0;
    if (loud) cli_train_print_head(r);
    cli_progress_begin(&r->progress, loud, r->checkpoints.resumed ? r->checkpoints.epoch : 1, r->config.epochs);
    r->progress.tokens = cli_train_tokens_of(r);
    r->progress.perplexity = cli_train_has_perplexity(r);
    c->stage = CLI_STAGE_ALONE;
    LS_TRY(fit(r));
    LS_TRY(find_asked(r));
    LS_TRY(restore_best(r));
    cli_train_save_weights(r);
    LS_TRY(evaluate(r));
    if (r->evaluated) cli_losses_test(&r->losses, r->trainer);
    // Of a training that was at its end before it was gone on with there are no scores.
    if (r->evaluated && ls_dataset_labels(r->dataset) > 0 && !ls_graph_has_losses(r->graph)) {
        ls_status curves = cli_label_curves(r->trainer, r->dataset, &r->roc, &r->labels);
        LS_TRY(curves == LS_STATUS_OUT_OF_MEMORY ? curves : LS_OK);
    }
    c->stage = CLI_STAGE_TOGETHER;
    r->first_step_seconds = r->progress.first > 0 ? r->progress.first - c->started : 0;
    r->total_seconds = ls_clock() - c->started;
    if (r->stopped && cli_train_speaks(r)) cli_train_print_stop(r);
    if (loud) cli_train_print_table(r);
    ls_status trace = r->set.trace ? cli_train_write_trace(r) : LS_OK;  // what is slow in it is in the record
    char sentence[1024];                                                // the first failure is the one to tell
    snprintf(sentence, sizeof sentence, "%s", trace == LS_OK ? "" : ls_error_message());
    LS_TRY(cli_train_close_outputs(r));
    if (r->checkpoints.set.folder) cli_checkpoints_deafen();
    if (trace != LS_OK) ls__error_set(sentence);
    return trace;
}

static ls_status run_train(cli *c, int argc, char **argv) {
    cli_train_run r = {.cli = c};
    ls_words words;
    ls_status status = read_options(&r, argc, argv, &words);
    if (status == LS_OK && words.help)
        help(&r);
    else if (status == LS_OK)
        status = train(&r);
    cli_samples_end(&r.samples);  // its predictor borrows the graph
    // A failure that the other workers may not have seen leaves everything to the end of the process: taking leave of them
    // would wait for them.
    if (status == LS_OK || c->stage != CLI_STAGE_ALONE) {
        ls_trainer_destroy(&r.trainer);
        ls_graph_destroy(&r.graph);
        ls_dataset_destroy(&r.dataset);
    }
    ls_metrics_destroy(&r.metrics);
    cli_losses_end(&r.losses);
    free(r.roc);
    cli_checkpoints_end(&r.checkpoints);
    ls_config_free(&r.file);
    return status;
}

const cli_command cli_command_train = {"train", "train a network, on one worker or on many", run_train};
