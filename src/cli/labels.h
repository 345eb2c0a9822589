// What an evaluation found of samples with several labels, for the commands that tell it.
#ifndef LS_CLI_LABELS_H
#define LS_CLI_LABELS_H

#include <lockstep/train.h>

#include "report/roc.h"

// Of the trainer's latest evaluation, (*labels) of them; the caller frees *out. Not collective. Errors: those of ls_trainer_label_scores, OUT_OF_MEMORY.
ls_status cli_label_curves(const ls_trainer *trainer, const ls_dataset *dataset, ls_roc **out, int *labels);

#endif
