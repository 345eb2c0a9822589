// What a run of `lockstep train` writes: its record, its weights, a trace, metrics.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/output.h"
#include "cli/train_run.h"

// Before training and by worker 0 alone, the one that will write them.
ls_status cli_train_check_outputs(cli_train_run *r) {
    ls_status status = LS_OK;
    if (r->set.record && cli_train_speaks(r)) status = ls_record_check(r->set.record);
    if (status == LS_OK && r->set.save && cli_train_speaks(r)) status = ls_weights_file_check(r->set.save);
    if (status == LS_OK && r->set.samples && cli_train_speaks(r)) status = cli_samples_check(r->set.samples);
    return ls_context_agree(r->cli->context, status);
}

static ls_status trace_path(const cli_train_run *r, char *path, size_t size) {
    const char *slash = r->set.trace[0] && r->set.trace[strlen(r->set.trace) - 1] == '/' ? "" : "/";
    if ((size_t)snprintf(path, size, "%s%strace.json", r->set.trace, slash) < size) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--trace: the folder's name is too long");
}

// Before training, by worker 0 alone: makes the folder and finds out whether it can be written to.
ls_status cli_train_check_trace(cli_train_run *r) {
    char path[4096];
    ls_status status = LS_OK;
    if (r->set.trace && cli_train_speaks(r)) {
        status = trace_path(r, path, sizeof path);
        if (status == LS_OK && (ls_output_folder(r->set.trace) != 0 || ls_output_check(path) != 0))
            status = LS_FAIL(LS_STATUS_IO, "cannot write the trace %s: %s; name a folder that can be written to", path,
                             strerror(errno));
    }
    return ls_context_agree(r->cli->context, status);
}

// The last thing of all: a full disk must not take the result of training with it.
ls_status cli_train_write_trace(cli_train_run *r) {
    char path[4096], sentence[1024];
    ls_status status = trace_path(r, path, sizeof path);
    if (status == LS_OK) status = ls_trainer_trace_write(r->trainer, path);
    if (status == LS_OK) {
        if (cli_train_speaks(r) && r->set.verbose) printf("%-28s%s\n", "Trace", path);
        return LS_OK;
    }
    snprintf(sentence, sizeof sentence, "%s", ls_error_message());
    return LS_FAIL(status, "%s. Training itself is done, and its result complete", sentence);
}

static ls_status write_record(cli_train_run *r) {
    ls_checkpoint_costs costs = ls_trainer_checkpoint_costs(r->trainer);
    ls_record_info info = {.model = r->set.model,
                           .data = r->set.data,
                           .parameters = ls_graph_parameter_count(r->graph),
                           .train_count = cli_train_samples(r),
                           .test_count = cli_train_test_count(r),
                           .read_seconds = ls_dataset_read_seconds(r->dataset),
                           .first_step_seconds = r->first_step_seconds,
                           .total_seconds = r->total_seconds,
                           .config = &r->config,
                           .options = r->options,
                           .result = &r->result,
                           .evaluated = r->evaluated,
                           .tokens = cli_train_tokens_of(r),
                           .train_perplexity = cli_train_perplexity(r, 0),
                           .test_perplexity = cli_train_perplexity(r, 1),
                           .train_top_5 = cli_train_top_5(r, 0),
                           .test_top_5 = cli_train_top_5(r, 1),
                           .roc = r->roc,
                           .labels = r->labels,
                           .losses = r->losses.of,
                           .loss_count = r->losses.count,
                           .until_accuracy = r->set.until_accuracy,
                           .until_seconds = r->until_seconds,
                           .until_epoch = r->until_epoch,
                           .stopped = r->stopped ? cli_train_stop_reason(r) : NULL,
                           .resumed_from = r->checkpoints.resumed ? r->checkpoints.path : NULL,
                           .checkpoints = r->checkpoints.set.folder ? &costs : NULL,
                           .argv = r->cli->argv,
                           .compiler = cli_compiler()};
    ls_trace_report *trace = NULL;
    char path[4096];
    if (r->set.trace && trace_path(r, path, sizeof path) == LS_OK && ls_trace_report_load(path, &trace) == LS_OK) {
        info.layers = trace->layers;
        info.layer_count = trace->layer_count;
    }
    char *network = NULL;
    if (ls_model_is_file(r->set.model) && ls_network_text(r->graph, &network) == LS_OK) info.network = network;
    ls_status status = ls_record_write(r->set.record, &info);
    ls_trace_report_free(&trace);
    if (status == LS_OK) {
        free(network);
        return LS_OK;
    }
    char sentence[1024];  // the numbers must not be lost with the disk; printing them may fail too, and say less
    snprintf(sentence, sizeof sentence, "%s", ls_error_message());
    ls_record_print(stdout, &info);
    free(network);
    return LS_FAIL(status, "%s. The record is printed on the standard output instead", sentence);
}

// As soon as they are there. A failure, which all workers see, is kept for the end: there are results to be shown.
void cli_train_save_weights(cli_train_run *r) {
    if (!r->set.save) return;
    r->saved = ls_trainer_save_weights(r->trainer, r->set.save);
    if (r->saved != LS_OK) snprintf(r->save_failure, sizeof r->save_failure, "%s", ls_error_message());
}

ls_status cli_train_open_metrics(cli_train_run *r) {
    ls_metrics_config config = {.csv = r->set.metrics,
                                .tensorboard = r->set.tensorboard,
                                .every = r->set.tensorboard_every,
                                .validate = r->config.validate,
                                .evaluate = r->config.evaluate};
    ls_status status = LS_OK;
    if ((config.csv || config.tensorboard) && cli_train_speaks(r)) status = ls_metrics_create(&config, &r->metrics);
    return ls_context_agree(r->cli->context, status);
}

// Training is worth more than its metrics: what goes wrong with them is said at once, and training goes on.
void cli_train_note_metrics(cli_train_run *r, ls_status status) {
    if (status == LS_OK) return;
    cli_progress_pause(&r->progress);
    fprintf(stderr, "lockstep train: %s; training goes on without it\n", ls_error_message());
    r->metrics_failed = 1;
}

ls_status cli_train_begin_samples(cli_train_run *r) {
    ls_status status = LS_OK;
    if (cli_train_speaks(r))
        status = cli_samples_begin(&r->samples, r->set.samples, r->graph, r->dataset, &r->config, &r->result);
    return ls_context_agree(r->cli->context, status);
}

// As with metrics.
void cli_train_note_samples(cli_train_run *r, ls_status status) {
    if (status == LS_OK || r->samples_failed) return;
    cli_progress_pause(&r->progress);
    fprintf(stderr, "lockstep train: %s; training goes on\n", ls_error_message());
    r->samples_failed = 1;
}

static ls_status close_metrics(cli_train_run *r) {
    ls_metrics_destroy(&r->metrics);
    if (!r->metrics_failed) return LS_OK;
    return LS_FAIL(LS_STATUS_IO, "training is done, but its metrics are not complete, as was said above");
}

ls_status cli_train_close_outputs(cli_train_run *r) {
    ls_status status = r->set.record && cli_train_speaks(r) ? write_record(r) : LS_OK, metrics = close_metrics(r);
    if (status == LS_OK) status = metrics;
    if (status == LS_OK && r->samples_failed)
        status =
            LS_FAIL(LS_STATUS_IO, "training is done, but not all pictures of samples were drawn, as was said above");
    if (status == LS_OK && r->checkpoints.failed && !(r->stopped && !r->checkpoints.latest_failed))
        status = LS_FAIL(LS_STATUS_IO, "training is done, but not all its checkpoints were written, as was said above");
    if (status == LS_OK && r->saved != LS_OK) status = LS_FAIL(r->saved, "%s", r->save_failure);
    return ls_context_agree(r->cli->context, status);
}
