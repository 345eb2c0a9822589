// lockstep scale: what its parts share. scale_options.c reads the command line, scale_compare.c what is compared in it, scale_check.c
// finds out what can be known before the first run, scale_plan.c lists the runs and keeps study.json, cmd_scale.c goes through them, scale_host.c describes the machine, scale_run.c runs one, scale_lock.c keeps others out.
#ifndef LS_CLI_SCALE_H
#define LS_CLI_SCALE_H

#include <jansson.h>

#include "cli/cli.h"

enum {
    SCALE_MAX_COUNTS = 64,
    SCALE_MAX_LAYOUTS = 256,
    SCALE_MAX_WORKERS = 1 << 20,
    SCALE_MAX_VARIANTS = 64,
    SCALE_LABEL = 96,
    SCALE_WORDS = 512,
};

typedef struct scale_settings {
    const char *data, *config, *out, *workers, *nodes, *workers_per_node, *layout, *mode, *compare, *strategy;
    int repeats;
    double timeout;         // seconds a run may take; 0: no limit
    double until_accuracy;  // 0: none
    const char *time_limit;
    int terminal;  // print charts
} scale_settings;

// What grows with the workers.
typedef enum scale_mode {
    SCALE_STRONG,  // nothing: the same work for all
    SCALE_WEAK,    // batch and samples
    SCALE_BATCH,   // the batch alone, on the same samples
} scale_mode;
const char *scale_mode_name(scale_mode mode);  // "strong", "weak", "batch-per-worker"

typedef struct scale_layout {
    int nodes, per_node;
} scale_layout;

// One of the ways to train that are compared: what --compare changes in what all have in common.
typedef struct scale_variant {
    char label[SCALE_LABEL];  // "lr 0.02"; "" where nothing is compared
    char words[SCALE_WORDS];  // "--lr 0.02", for a shell
    const char *data;
    ls_model_config model;
    ls_train_config config;  // of one worker where the batch grows with the workers
} scale_variant;

// What is asked for, checked.
typedef struct scale_grid {
    const char *const *models;
    int model_count, repeats;
    scale_mode mode;
    scale_layout layouts[SCALE_MAX_LAYOUTS];
    int layout_count;
    scale_variant common, variants[SCALE_MAX_VARIANTS];
    int variant_count;
    const char *compare;    // as it was given; NULL: nothing
    double until_accuracy;  // 0: none
} scale_grid;

// A command line, read and checked as far as that goes without data, nodes or workers.
typedef struct scale_request {
    scale_settings set;
    scale_grid grid;
    ls_option_set options[4];
    ls_words words;
    void *file;        // what the config file's texts live in
    char *compare;     // what the values of --compare live in
    char *strategies;  // what a list of --strategy is compared by; NULL: there is none
} scale_request;
// Errors: INVALID_ARGUMENT; those of reading the config file. scale_request_free also after a failure.
ls_status scale_request_read(int argc, char **argv, scale_request *out);
void scale_request_free(scale_request *request);
void scale_help(void);

// Fills in the grid's variants from its common one. *keep: what their values live in, to be freed with free(), also after a failure.
// Errors: INVALID_ARGUMENT, OUT_OF_MEMORY.
ls_status scale_compare_read(const char *text, scale_grid *grid, char **keep);

// What --compare would make of the text, as words for a shell: (count), to be freed with free(). Errors: as above.
ls_status scale_compare_words(const char *text, char (**words)[SCALE_WORDS], int *count);

int scale_workers(const scale_layout *layout);  // of all nodes
int scale_most_workers(const scale_grid *grid);
int scale_most_nodes(const scale_grid *grid);

// What can be found out before hours of runs: whether workers can be started, the data is there, every configuration can be trained
// and has room in memory. Completes the grid: samples and micro-batch of one worker, where the batch grows.
// Errors: those of training; NOT_FOUND, UNSUPPORTED (no launcher), OUT_OF_MEMORY (how much it would take).
ls_status scale_check(scale_grid *grid);

// Stopped: it has a record, of less training than it was asked for.
typedef enum scale_state { SCALE_TO_RUN, SCALE_DONE, SCALE_FAILED, SCALE_STOPPED } scale_state;

typedef struct scale_run {
    const json_t *entry;  // its object in study.json: name, model, nodes, workers, repeat, batch_size, command
    scale_state state;
    int fresh;       // it ran now: not found done
    int late;        // it was not started: there is too little time
    double seconds;  // it took; 0: not known
} scale_run;

typedef struct scale_plan {
    const char *folder;
    json_t *study;  // study.json
    scale_run *runs;
    int count;
} scale_plan;

// Lists the runs, those whose record is there as done; compares with the study that is in the folder, writes nothing.
// Errors: BAD_DATA (another study, another record), INVALID_ARGUMENT (other options), OUT_OF_MEMORY, IO.
ls_status scale_plan_create(const scale_grid *grid, const char *folder, cli *cli, scale_plan *out);
// Makes the folders. Errors: IO.
ls_status scale_plan_folders(const scale_plan *plan);
// Writes study.json. Errors: IO.
ls_status scale_plan_write(const scale_plan *plan);
void scale_plan_destroy(scale_plan *plan);

const char *scale_name(const scale_run *run);
int scale_number(const scale_run *run, const char *key);
// "mnist-cnn, 4 workers on 2 nodes, repeat 1 of 3"
void scale_describe(const scale_plan *plan, const scale_run *run, char *text, size_t size);
// STUDY/runs/NAME.EXTENSION, to be freed with free().
ls_status scale_path(const scale_plan *plan, const scale_run *run, const char *extension, char **out);

// What the record at `path` says of a run that its time limit ended, to be released by the caller; NULL where it was not, or there
// is no record.
json_t *scale_stopped(const char *path);

// Runs it as processes of its own and waits. A run that fails is no error: its state and NAME.failed say it.
// `tick` is called about twice a second. *interrupted: a signal came, the run was ended and left nothing.
// Errors: IO (the study's folder cannot be written any more), OUT_OF_MEMORY.
ls_status scale_run_one(const scale_plan *plan, scale_run *run, double timeout,
                        void (*tick)(void *user, double seconds), void *user, int *interrupted);

// Keeps all others from working in the folder until scale_unlock or the end of the process; *held, < 0 before, is for that. A file
// system without locks is said on stderr and no failure. Errors: IO (who has it; or why it cannot be had).
ls_status scale_lock(const char *folder, int *held);
void scale_unlock(int *held);

json_t *scale_host(void);  // of this machine: a new reference

#endif
