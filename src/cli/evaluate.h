// lockstep evaluate: what its command (cmd_evaluate.c) and what is printed and written of each kind of network share.
//   evaluate_classes.c   one class for each sample: accuracy by class, what was taken for what
//   evaluate_labels.c    several labels for each sample: areas under ROC curves, precision and recall
//   evaluate_losses.c    networks with losses of their own: language models, auto-encoders
#ifndef LS_CLI_EVALUATE_H
#define LS_CLI_EVALUATE_H

#include <jansson.h>

#include "cli/labels.h"
#include "cli/trained.h"
#include "report/confusion.h"

typedef struct cli_evaluate_settings {
    const char *model, *data, *split, *json, *csv, *out;
    int64_t limit;
    int workers;
} cli_evaluate_settings;

typedef struct cli_evaluation {
    cli *cli;
    cli_evaluate_settings set;
    cli_trained trained;
    ls_option_set options[9];
    const struct cli_evaluation_kind *kind;
    ls_graph *network, *graph;  // the second is what is evaluated, with metrics that the first has not; or the first
    ls_dataset *dataset;
    ls_trainer *trainer;
    int64_t samples, tokens;  // of a sample; 0: samples are no sequences
    ls_train_result result;
    int other_numerics;     // it was trained by other kernels than those that are at work
    double loss, accuracy;  // the second NAN where there is none
    // Of classes.
    int64_t *counts;
    const char **names;  // (classes)
    ls_confusion confusion;
    double top, balanced;  // NAN where there are none
    // Of labels.
    int labels;
    ls_roc *roc;  // (labels)
} cli_evaluation;

typedef struct cli_evaluation_kind {
    // Makes e->graph, what is evaluated, where that is not the network. NULL: the network. Errors: those of making it.
    ls_status (*build)(cli_evaluation *e);
    // After the evaluation, by every worker, what there is to be told. Errors: OUT_OF_MEMORY and others, one worker's alone. NULL: nothing.
    ls_status (*find)(cli_evaluation *e);
    ls_status (*print)(const cli_evaluation *e);           // behind loss and accuracy. NULL: nothing
    void (*json)(const cli_evaluation *e, json_t *root);   // its keys
    ls_status (*csv)(const cli_evaluation *e, FILE *out);  // for --csv. NULL: there is nothing to write
    const struct {
        const char *name;
        ls_status (*write)(const cli_evaluation *e, FILE *out);
    } files[4];  // of --out; ended by a NULL name. The last is the picture
} cli_evaluation_kind;

extern const cli_evaluation_kind cli_evaluation_classes, cli_evaluation_labels, cli_evaluation_losses;

// A measure of the test set by its name; NAN: there is none.
double cli_evaluation_measure(const cli_evaluation *e, const char *name);
json_t *cli_json_number(double x);     // null where it is none
json_t *cli_json_text(const char *s);  // NULL: null; what is no text as JSON has it: a word that says so

#endif
