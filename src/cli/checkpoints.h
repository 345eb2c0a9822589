// What train does about checkpoints: its options, going on from one, and being asked to stop.
#ifndef LS_CLI_CHECKPOINTS_H
#define LS_CLI_CHECKPOINTS_H

#include "base/options.h"
#include "cli/cli.h"

#define CLI_UNFINISHED 75  // exit status of a training that was stopped and can be gone on with (EX_TEMPFAIL)

typedef struct cli_checkpoint_settings {
    const char *folder, *every, *keep_epochs, *from;
    int keep, resume, restarts;
} cli_checkpoint_settings;

const ls_option *cli_checkpoint_options(void);
void cli_checkpoint_defaults(cli_checkpoint_settings *settings);

typedef struct cli_checkpoints {
    cli_checkpoint_settings set;
    ls_checkpoint_config config;
    ls_checkpoint *found;  // worker 0's
    int resumed;           // 1: training goes on from it
    int branches;          // 1: it is --resume-from's, taken up in another recipe and folder
    char *recipe;
    char path[4096];  // of the one it goes on from
    int epoch;        // and in which epoch and after how many steps of it
    int64_t step;
    char changed[1024];  // what differs from its recipe; "": nothing
    int latest_failed;   // the latest could not
    double seconds;      // that the latest took to be written
    int failed;          // some could not be written, as was said
    void (*pause)(void *user);
    void *user;
} cli_checkpoints;

// From the settings, as they were read. Errors: INVALID_ARGUMENT.
ls_status cli_checkpoints_check(cli_checkpoints *c);
// The checkpoint that training is to go on from, where it is to and there is one; a recipe that has changed since is refused, or, with
// --resume-from, said. `options`: the tables that the result depends on, of train and of the network. Collective on context. Errors: those of
// ls_checkpoint_find, INVALID_ARGUMENT (what has changed).
ls_status cli_checkpoints_find(cli_checkpoints *c, ls_context *context, const char *model, const char *data,
                               const ls_option_set *options);
// Brings the trainer there, and sees to it that it takes checkpoints. `pause`: called before something is printed. Collective.
ls_status cli_checkpoints_begin(cli_checkpoints *c, ls_context *context, ls_trainer *trainer, const ls_dataset *dataset,
                                void (*pause)(void *user), void *user);
// Worker 0, in the head of a run: from where it goes on, and whether what computes is what computed that.
void cli_checkpoints_say(const cli_checkpoints *c, const char *numerics);
void cli_checkpoints_end(cli_checkpoints *c);

// From now on SIGINT, SIGTERM, SIGHUP and SIGUSR1 are wishes to stop after the step, the second of them an order; of this process.
#define CLI_REPEAT_MS 500  // what comes sooner is the first one again
void cli_checkpoints_listen(void);
void cli_checkpoints_deafen(void);  // and from now on orders: training is over
int cli_checkpoints_asked(void);    // the signal that was the wish; 0: none was

#endif
