// A run's record: what ran, on what, how long it took and what came out, as one JSON object. docs/records.md describes the
// keys. Only the worker that speaks writes one.
#ifndef LS_REPORT_RECORD_H
#define LS_REPORT_RECORD_H

#include <stdio.h>

#include <lockstep/checkpoint.h>

#include "base/options.h"
#include "report/roc.h"
#include "report/trace_report.h"

#define LS_RECORD_FORMAT 1  // "lockstep_run"; grows when a key changes its meaning or goes away

// One of several losses, times its weight; numbers are NAN where there are none.
typedef struct ls_record_loss {
    const char *name;
    const double *train, *val;  // by the number of the epoch, less 1: in training; on the test set after it
    double test;
} ls_record_loss;

typedef struct ls_record_info {
    const char *model, *data;
    const char *network;  // of a file: its layers as text; NULL: a built-in one
    int64_t parameters, train_count, test_count;
    double read_seconds, first_step_seconds, total_seconds;
    const ls_train_config *config;
    const ls_option_set *options;  // every option the run was given or took by default
    const ls_train_result *result;
    int evaluated;                             // 0: there are no test_loss and test_accuracy
    int64_t tokens;                            // of a sample, where samples are sequences; 0: they are not
    double train_perplexity, test_perplexity;  // NAN: the network has none
    double train_top_5, test_top_5;            // shares of samples; NAN: there are none
    const ls_roc *roc;                         // (labels) of several labels, on the test set; NULL: there are none
    int labels;
    const ls_record_loss *losses;  // (loss_count); 0 of them: the network has one loss, or none of its own
    int loss_count;
    double until_accuracy;         // of the test set, at which to end; 0: none was asked for
    double until_seconds;          // of training until then
    int until_epoch;               // 0: it was not reached
    const char *stopped;           // why before its time, "time limit"; NULL: it was not
    const ls_trace_layer *layers;  // (layer_count) of the trace, slowest first; NULL: none was recorded
    int layer_count;
    const char *resumed_from;                // the checkpoint that the run went on from; NULL: it did not
    const ls_checkpoint_costs *checkpoints;  // NULL: none were asked for
    char *const *argv;                       // NULL-terminated command line
    const char *compiler;
} ls_record_info;

// Whether a record can be written to `path`, asked before hours of training: creates a temporary file beside it and removes
// it again. Errors: IO (path and the system's words), OUT_OF_MEMORY.
ls_status ls_record_check(const char *path);
// Writes the record beside `path` and puts it in place in one move: what stood there stays whole until then. Errors as above.
ls_status ls_record_write(const char *path, const ls_record_info *info);

// The same JSON on a stream. Errors: IO, OUT_OF_MEMORY.
ls_status ls_record_print(FILE *out, const ls_record_info *info);

// The recipe of a run as a JSON object, in the form that ls_config_load reads: model, data, and all options of the tables. The caller frees
// *out. Errors: OUT_OF_MEMORY.
ls_status ls_recipe_text(const char *model, const char *data, const ls_option_set *options, char **out);

// Sets options from a JSON file: an object with the options' names. *keep owns the text values the options then point to; free
// it with ls_config_free after their last use. `model`, when not NULL, gets the value of "model" if it is there.
// Errors: IO, BAD_DATA (line of the syntax error), INVALID_ARGUMENT (which option and what is wrong with it).
ls_status ls_config_load(const char *path, const ls_option_set *sets, const char **model, void **keep);
// The same from an object that is read already, of a file `path`; the texts are copied.
struct json_t;
ls_status ls_config_take(const char *path, const struct json_t *root, const ls_option_set *sets, const char **model,
                         void **keep);
void ls_config_free(void **keep);

#endif
