// The fields of ls_train_config as an option table: what `lockstep train` offers, records, and workers compare.
#ifndef LS_TRAIN_OPTIONS_H
#define LS_TRAIN_OPTIONS_H

#include "base/options.h"

#define LS_MAX_BATCH 1000000000  // samples in a step: far below what overflows when they are counted

// A table over ls_train_config, one row per field.
const ls_option *ls_train_options(void);

#endif
