// lockstep scale: what its parts share. cmd_scale.c reads the command line, scale_plan.c lists the runs and keeps study.json,
// scale_host.c describes the machine, scale_run.c runs one, scale_lock.c keeps others out.
#ifndef LS_CLI_SCALE_H
#define LS_CLI_SCALE_H

#include <jansson.h>

#include "cli/cli.h"

enum { SCALE_MAX_COUNTS = 64 };

typedef struct scale_settings {
    const char *data, *config, *out, *workers, *nodes, *workers_per_node, *mode;
    int repeats;
    double timeout;  // seconds a run may take; 0: no limit
    const char *time_limit;
    int terminal;  // print charts
} scale_settings;

// What is asked for, checked.
typedef struct scale_grid {
    const char *const *models;
    int model_count, repeats, weak;
    int nodes[SCALE_MAX_COUNTS], node_count;      // {1} without --nodes
    int workers[SCALE_MAX_COUNTS], worker_count;  // per node
    const char *data;
    ls_model_config model;
    ls_train_config config;  // of one worker where scaling is weak
} scale_grid;

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
