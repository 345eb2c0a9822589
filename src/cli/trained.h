// A trained network as commands find it: what was saved, and the recipe that it was trained by, over which the command line goes.
#ifndef LS_CLI_TRAINED_H
#define LS_CLI_TRAINED_H

#include "cli/cli.h"
#include "cli/saved.h"

typedef struct cli_trained {
    cli_saved saved;
    cli_train_settings train;  // train's own options, of the recipe
    ls_train_config config;
    ls_model_config network;
    const char *model, *data;  // of the recipe; NULL: it does not tell
    int whole;                 // 1: a model of ONNX was named, which is the network and its weights
    void *keep;                // what the recipe's texts live in
} cli_trained;

// As without any recipe.
void cli_trained_init(cli_trained *trained);
// Opens what was saved and takes its recipe. What is there after a failure is for cli_trained_close, too. Errors: those of
// cli_saved_open, INVALID_ARGUMENT (an option of the recipe that this version does not have).
ls_status cli_trained_open(cli_trained *trained, const char *path);
void cli_trained_close(cli_trained *trained);

// Options of train that such commands do not have: rows without help, which belong in front of the library's.
const ls_option *cli_trained_hidden(void);
// Options of train over ls_train_config whose default is the recipe: a table for in front of train's.
const ls_option *cli_trained_options(void);
// The network and the dataset: what the command line says, else the recipe. Errors: INVALID_ARGUMENT (neither says it).
ls_status cli_trained_names(cli_trained *trained, const char *model, const char *data);
// That the dataset's classes, labels or targets have the names that those of training had: they are numbers to the network.
// Errors: INVALID_ARGUMENT.
ls_status cli_trained_check_classes(const cli_trained *trained, const ls_dataset *dataset);
// The input and the classes of its network: `input_shape` (NULL: none is told), else what the checkpoint tells, else those of the dataset, which is
// opened then. With `other` the dataset is another than the checkpoint's. Errors: those of opening it, INVALID_ARGUMENT.
ls_status cli_trained_fit(cli_trained *trained, cli *c, const char *input_shape, int other, ls_dataset **dataset);
ls_status cli_trained_dataset(cli_trained *trained, cli *c, ls_dataset **dataset);  // opens it, where it is not open
// A list of numbers that the checkpoint may tell, `count` of them. Returns whether it does.
int cli_trained_told(const cli_trained *trained, const char *key, int count, double *out);
// "resnet20 after 5,474 steps, 14 epochs and 2 steps (runs/a/step-000005474)"
void cli_trained_describe(const cli_trained *trained, char *text, size_t size);

#endif
