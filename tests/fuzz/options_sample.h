// An option of every type, as the program's tables have them.
#ifndef LS_TESTS_FUZZ_OPTIONS_SAMPLE_H
#define LS_TESTS_FUZZ_OPTIONS_SAMPLE_H

#include "base/options.h"
#include "data/augment.h"

typedef struct sample_values {
    int epochs, shuffle, nesterov;
    int64_t batch;
    uint64_t seed;
    double lr;
    const char *precision, *augment, *record;
} sample_values;

static const sample_values sample_defaults = {
    .epochs = 5, .shuffle = 1, .batch = 128, .seed = 42, .lr = 0.1, .precision = "fp32", .augment = "none"};

static const ls_option sample_options[] = {
    {"epochs", LS_OPTION_INT, .offset = offsetof(sample_values, epochs), .metavar = "N", .min = 1, .group = "A",
     .help = "h"},
    {"batch-size", LS_OPTION_COUNT, .offset = offsetof(sample_values, batch), .metavar = "B", .min = 1, .max = 1e9,
     .group = "A", .help = "h"},
    {"seed", LS_OPTION_SEED, .offset = offsetof(sample_values, seed), .metavar = "N", .group = "A", .help = "h"},
    {"lr", LS_OPTION_REAL, .offset = offsetof(sample_values, lr), .metavar = "X", .max = 1, .group = "B", .help = "h"},
    {"shuffle", LS_OPTION_FLAG, .offset = offsetof(sample_values, shuffle), .group = "B", .help = "h"},
    {"nesterov", LS_OPTION_FLAG, .offset = offsetof(sample_values, nesterov), .group = "B", .help = "h"},
    {"precision", LS_OPTION_TEXT, .offset = offsetof(sample_values, precision), .metavar = "fp32|bf16", .group = "B",
     .help = "h"},
    {"augment", LS_OPTION_TEXT, .offset = offsetof(sample_values, augment), .metavar = "LIST",
     .choices = ls_augment_choice, .several = 1, .group = "B", .help = "h"},
    {"record", LS_OPTION_TEXT, .offset = offsetof(sample_values, record), .metavar = "FILE", .group = "C", .help = "h"},
    {.name = NULL},
};

#endif
