// A run of `lockstep train`: what its command (cmd_train.c), what it prints (train_print.c) and what it writes (train_outputs.c) share.
#ifndef LS_CLI_TRAIN_RUN_H
#define LS_CLI_TRAIN_RUN_H

#include "cli/checkpoints.h"
#include "cli/cli.h"
#include "cli/deadline.h"
#include "cli/labels.h"
#include "cli/samples.h"
#include "report/metrics.h"
#include "report/record.h"

// The losses of a network that has several.
#define CLI_MOST_LOSSES 8
typedef struct cli_losses {
    int count, epochs;             // 0: there is one, or none of its own
    int measure[CLI_MOST_LOSSES];  // their numbers for ls_trainer_measure
    ls_record_loss *of;            // (count)
    double *values;                // (count, 2, epochs): in training, and on the test set
} cli_losses;

// Everything one training run holds.
typedef struct cli_train_run {
    cli *cli;
    cli_train_settings set;
    ls_train_config config;
    ls_model_config model;
    ls_option_set options[6];
    cli_checkpoints checkpoints;
    void *file;  // what the config file's texts live in
    ls_graph *graph;
    ls_dataset *dataset;
    ls_trainer *trainer;
    ls_train_result result;
    cli_progress progress;
    ls_metrics *metrics;  // of the worker that speaks, where they are asked for
    int metrics_failed, samples_failed;
    cli_losses losses;
    cli_samples samples;    // of the worker that speaks, where they are asked for
    cli_deadline deadline;  // worker 0's
    cli_timekeeper timekeeper;
    double trained_seconds, until_seconds;  // of the epochs so far; of those until the accuracy asked for
    int until_epoch;                        // in which it was reached; 0: it was not
    double best_score;                      // ls_epoch_score of it
    int best_epoch;                         // after which it was; 0: none was evaluated
    int settled;                            // --early-stop has ended training
    int restored;                           // the weights are those of best_epoch
    int stopped;                            // before the last epoch was over
    int asked;                              // the signal that asked it to stop; 0: none did
    int too_late_to_evaluate;
    int evaluated;  // there are numbers of the test set
    ls_roc *roc;    // (labels) of several labels at once, of the latest evaluation; NULL: there are none
    int labels;
    int loaded;       // parameters that came from a file
    ls_status saved;  // how writing the weights went
    char save_failure[1024];
    double first_step_seconds, total_seconds;
} cli_train_run;

static inline int cli_train_speaks(const cli_train_run *r) { return ls_context_rank(r->cli->context) == 0; }

// --- what it prints --------------------------------------------------------------------------------------------------

int64_t cli_train_samples(const cli_train_run *r);  // to train on
int64_t cli_train_test_count(const cli_train_run *r);
int64_t cli_train_tokens_of(const cli_train_run *r);  // of a sample, where samples are sequences of them; else 0
// Of a language model, after the last epoch, on the training or the test set; of others NAN.
double cli_train_perplexity(const cli_train_run *r, int test);
// Whether the class is among the five largest scores, of classifiers with more than ten classes, in the same way; of others NAN.
double cli_train_top_5(const cli_train_run *r, int test);
// The mean area under the ROC curves of several labels on the test set; NAN: there is none.
double cli_train_area(const cli_train_run *r);
int cli_train_has_perplexity(const cli_train_run *r);
const char *cli_train_stop_reason(const cli_train_run *r);
int cli_train_whole_epochs(const ls_train_result *t);
void cli_train_print_head(const cli_train_run *r);
void cli_train_print_stop(
    const cli_train_run *r);  // the one thing that even a silent run says: it did less than it was asked to
void cli_train_print_table(const cli_train_run *r);

// What each loss came to: in an epoch, for the display, and in the latest evaluation. `epochs`: there will be at most.
ls_status cli_losses_begin(cli_losses *losses, const ls_trainer *trainer, int epochs);
void cli_losses_epoch(cli_losses *losses, const ls_trainer *trainer, const ls_epoch_result *epoch,
                      cli_progress *display);
void cli_losses_test(cli_losses *losses, const ls_trainer *trainer);
void cli_losses_end(cli_losses *losses);

// --- what it writes --------------------------------------------------------------------------------------------------

// Before training: whether all that is to be written can be. Collective. Errors: IO and others, on every worker.
ls_status cli_train_check_outputs(cli_train_run *r);
ls_status cli_train_check_trace(cli_train_run *r);
ls_status cli_train_open_metrics(cli_train_run *r);
ls_status cli_train_begin_samples(cli_train_run *r);  // Collective. Errors: those of cli_samples_begin, on every worker
void cli_train_note_samples(cli_train_run *r, ls_status status);
// Training is worth more than its metrics: what goes wrong with them is said at once, and training goes on.
void cli_train_note_metrics(cli_train_run *r, ls_status status);
// As soon as there are weights to save. Collective. A failure is kept for the end: there are results to be shown.
void cli_train_save_weights(cli_train_run *r);
// The last things of all. Collective. Errors: what went wrong with any of them.
ls_status cli_train_write_trace(cli_train_run *r);
ls_status cli_train_close_outputs(cli_train_run *r);

#endif
