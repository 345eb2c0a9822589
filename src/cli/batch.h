// lockstep batch: what its files share. cmd_batch.c reads and checks the command line, batch_script.c prints the script.
#ifndef LS_CLI_BATCH_H
#define LS_CLI_BATCH_H

#include "cli/cli.h"
#include "cli/scale.h"

typedef struct batch_settings {
    int nodes, tasks_per_node, cpus_per_task;
    const char *system, *time, *account, *qos, *partition, *reservation, *gres, *mem, *mem_per_cpu, *job_name,
        *launcher;
    const char *output, *error, *setup, *array;
    const char *listed;  // of options that may be given several times, which are dealt with before: always NULL
} batch_settings;

typedef struct batch_words {
    char **list;
    int count;
} batch_words;

typedef struct batch {
    batch_settings set;
    int pbs, scale;
    double seconds;                   // of --time; 0: the cluster's
    batch_words directives, modules;  // each as it was given
    batch_words command;              // of train or scale, without the program
    char (*array)[SCALE_WORDS];       // one task each: "--lr 0.01 --batch-size 128"
    int array_count;                  // 0: no array
    char *setup;                      // lines of the shell, from --setup's file; NULL: none
    char note[512];                   // what the person who asked should know; "": nothing
} batch;

void batch_print(const batch *b, const char *program);

#endif
