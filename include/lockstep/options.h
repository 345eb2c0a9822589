// Options as data: one row of a table says everything about a field of a configuration: its name, type, bounds and what it is for.
//
// ls_train_options (train.h) is such a table over ls_train_config, ls_model_options (graph.h) one over ls_model_config: for programs
// that show them, take them from people or write them down. Tables and their texts are constant and owned by the library.
#ifndef LOCKSTEP_OPTIONS_H
#define LOCKSTEP_OPTIONS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum ls_option_type {
    LS_OPTION_FLAG,   // int: --name sets 1, --no-name sets 0
    LS_OPTION_INT,    // int
    LS_OPTION_COUNT,  // int64_t
    LS_OPTION_SEED,   // uint64_t, up to 2^63 - 1 so that any JSON reader can hold it
    LS_OPTION_REAL,   // double
    LS_OPTION_TEXT,   // const char *, borrowed from whoever gave the value
} ls_option_type;

// The index-th value an option can take, NULL past the last; *help gets one line about it, or NULL.
typedef const char *(*ls_option_choices)(int index, const char **help);

typedef struct ls_option {
    const char *name;  // "batch-size"; NULL ends a table
    ls_option_type type;
    size_t offset;              // of the field in the struct that holds the values
    const char *metavar;        // what --help calls the value: "N", "FILE"; or all the choices: "fp32|bf16"
    ls_option_choices choices;  // where the values are a list of their own; NULL otherwise
    int several;  // 1: the value is several of the choices, with commas between them; each may go on with "=" and what it takes
    double min, max;      // of numbers; max <= min: no upper limit
    const char *initial;  // words for the default where its value would say nothing; NULL: the value itself
    const char *group;    // heading in --help
    const char *help;     // a flag that is on by default is shown, and described, as --no-name; NULL: see below
} ls_option;

// A table and the struct its offsets point into. Functions take an array of these, ended by a NULL table, so that a command
// can add options of its own to those of the library. Of several rows with one name the first table's counts: a command has
// an option in its own words by a row in front. Where that row has no help, the command has no such option.
typedef struct ls_option_set {
    const ls_option *table;
    void *values;
} ls_option_set;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
