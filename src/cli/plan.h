// lockstep plan: what its files share.
#ifndef LS_CLI_PLAN_H
#define LS_CLI_PLAN_H

#include "cli/checkpoints.h"
#include "cli/cli.h"

typedef struct plan_settings {
    const char *data, *memory, *input_shape;
    int workers, hosts, json, program, worker;
    double rate;
} plan_settings;

typedef struct plan {
    cli *cli;
    const char *model;
    char *const *argv;  // what the command was given, behind its name
    int argc;
    plan_settings set;
    ls_train_config config;
    ls_model_config network;
    cli_train_settings train;  // taken with the rest of a command line, and of no effect
    ls_option_set options[7];
    cli_checkpoint_settings checkpoints;
    void *file;  // what the config file's texts live in
    ls_graph *graph;
    ls_dataset *dataset;
    ls_memory_job job;
    int64_t limit;   // bytes, 0: none
    int limit_host;  // it is a host's, not a worker's
} plan;

// cmd_plan.c: what training with `config` takes. The first time, what the program takes is measured, then it stays.
ls_status plan_memory(plan *p, const ls_train_config *config, ls_memory *out);
// What the limit is about.
int64_t plan_counted(const plan *p, const ls_memory *memory);

// plan_search.c
typedef struct plan_found {
    int fits;                              // 0: nothing does, and `memory` is that of the smallest micro-batch
    ls_memory memory;                      // with the largest micro-batch that fits
    int64_t next_micro_batch, next_bytes;  // the next larger one, which does not; 0: there is none
} plan_found;
#define PLAN_MOST_SAMPLES 4096  // in a micro-batch, where no global batch says less: nobody trains with more
#define PLAN_WORTH_IT     128   // more of them make no kernel faster
// The largest micro-batch with which training with `config` takes no more than the limit: one that divides the global batch, or
// where none was asked for, any up to PLAN_MOST_SAMPLES. The search begins at `likely`, if that fits.
ls_status plan_search(plan *p, const ls_train_config *config, int64_t likely, plan_found *out);

// Another way to train, for the table of what would be if.
typedef struct plan_other {
    char options[96];  // "--remat --replicas 1"
    ls_train_config config;
    plan_found found;
} plan_other;
#define PLAN_OTHERS 4
// What --remat, bf16 and a single replica would give, each where it is not asked for yet, and all of them. Returns how many in
// *count; those that this machine cannot compute are left out.
ls_status plan_others(plan *p, const plan_found *found, plan_other out[PLAN_OTHERS], int *count);

// plan_print.c
void plan_print(const plan *p, const ls_memory *memory);
void plan_print_found(const plan *p, const plan_found *found, const plan_other *others, int count);
ls_status plan_print_json(const plan *p, const ls_memory *memory, const plan_found *found, const plan_other *others,
                          int count);
// The sentence for a limit that nothing fits in.
ls_status plan_refuse(const plan *p, const plan_found *found, const plan_other *others, int count);

#endif
