// The program: what its commands share. A new command is one file ending in its descriptor, and one line in commands.c.
//
// A command returns a status; main.c alone prints the sentence, from one worker, and picks the exit status. For that a
// command says at which stage it is.
#ifndef LS_CLI_CLI_H
#define LS_CLI_CLI_H

#include <stdint.h>
#include <stdio.h>

#include <lockstep/lockstep.h>

#include "base/options.h"

typedef enum cli_stage {
    CLI_STAGE_ARGUMENTS,  // reading the command line: every process fails alike, before any joined the job; exit 2
    CLI_STAGE_TOGETHER,   // collective calls, which fail with the same sentence on every worker; exit 1
    CLI_STAGE_ALONE,      // a failure may be this worker's only, the others waiting for it: it ends them all; exit 1
} cli_stage;

typedef struct cli {
    int argc;
    char **argv;     // the whole command line
    double started;  // ls_clock() when the process started, or the launcher that started it
    cli_stage stage;
    ls_context *context;  // once joined; main.c leaves the job
    double wait_limit;    // seconds for which others may be waited for; 0: what no healthy step reaches; < 0: for ever
    double deadline;      // ls_clock() when waiting is over in any case; 0: never
    const char *command;  // that is run
    int restarts;         // of workers that this process starts, with --resume
    int stops_kindly;     // a first Ctrl-C, SIGTERM, SIGHUP or SIGUSR1 is a wish to stop, of this process and theirs
    int exit_status;      // where all went well; 0, but for CLI_UNFINISHED
    ls_cluster cluster;   // cluster.c: --hosts, --task, --key-file
    int clustered;        // 1: the job is that of a list of hosts, without a launcher: each worker speaks for itself
} cli;

typedef struct cli_command {
    const char *name, *summary;
    // argv: what follows the command's name. -h and --help print the command's help.
    ls_status (*run)(cli *cli, int argc, char **argv);
} cli_command;

const cli_command *const *cli_commands(void);  // NULL-terminated

// job.c: the job this process is part of, as its launcher's environment tells, before MPI is asked.
// In an interactive shell of a Slurm step: forgets that step, of which no launcher has started this process. Before all others.
void cli_job_leave_step(void);
int cli_job_is_launched(void);  // whether this program has started this worker
int cli_job_rank(void);         // -1: no launcher
int cli_job_size(void);         // 0: no launcher
// For a handler of SIGTERM: this worker is to end, at once if that is an order. Returns whether it will be seen to.
int cli_job_note_end(int order);
void cli_job_hear(void);  // SIGTERM is an order again
// The end of what a worker says that ends the job because nobody answers: nothing is to be added to it.
#define CLI_JOB_ENDS "The job ends here"
// Makes the process a job of so many workers: returns at once when it is one already, or when one is asked for; otherwise
// this process becomes the launcher and does not return. 0 workers: however many there are.
// Errors: INVALID_ARGUMENT (the launcher started another number), NOT_FOUND (no launcher), UNSUPPORTED (built without MPI).
ls_status cli_job_launch(cli *cli, int workers);
// Before workers are started: whether a step of this configuration (sizes resolved or 0) has work for all of them.
// Errors: INVALID_ARGUMENT.
ls_status cli_job_check_batch(cli *cli, const ls_train_config *config, int workers);
// Joins the job with all that were started, each of which must run the same command. Collective. Errors: those of ls_context_create,
// MISMATCH (another command), UNSUPPORTED (`workers` were asked for, and there are others).
ls_status cli_job_join(cli *cli, const char *command, int workers);
// cluster.c: the options of commands that take a list of workers (values: cli->cluster, after ls_cluster_init), and whether one is given:
// on the command line, or in TF_CONFIG where neither a launcher nor --workers says otherwise. That sets cli->clustered: before
// cli_job_launch, which then starts nobody. Errors: INVALID_ARGUMENT (options that do not go together).
const ls_option *cli_cluster_options(void);
ls_status cli_cluster_find(cli *cli, int workers);
// Joins that job. Errors: those of ls_context_create_cluster.
ls_status cli_cluster_join(cli *cli);
// The launchers it would use: the path in `out`, or 0 where there is none.
int cli_job_mpiexec(char *out, size_t size);  // of the MPI this was built with
int cli_job_srun(char *out, size_t size);
const char *cli_job_pmi(void);  // what tells srun how to wire it up: "--mpi=pmix"; LOCKSTEP_SRUN_ARGS where that is set

// cmd_train.c: train's own options, beside those of the library, for a command that is given train's command line.
typedef struct cli_train_settings {
    const char *model, *data, *config, *record, *metrics, *tensorboard, *time_limit, *wait_limit, *trace, *weights,
        *save, *samples;
    int64_t trace_steps;
    double until_accuracy;  // 0: none
    int workers, verbose, tensorboard_every, weights_by_name, without_top, early_stop, restore_best;
} cli_train_settings;
const ls_option *cli_train_options(void);
// Names of options that change what training arrives at, but neither a step's time nor its memory: rows without help, for commands
// that take train's options and list those they go by.
const ls_option *cli_course_options(void);

// Whether train would take these arguments from a launcher. Not collective.
// Errors: INVALID_ARGUMENT, as train gives them, and for --workers, which is the launcher's to say.
ls_status cli_train_check(int argc, char **argv, ls_train_config *config);
// Whether scale would take these arguments inside an allocation, and the most nodes and workers on a node that it would use. Not
// collective. Errors: INVALID_ARGUMENT, as scale gives them; those of reading its config file.
ls_status cli_scale_check(int argc, char **argv, int *nodes, int *workers_per_node, ls_train_config *config);

// model.c: a network, built in or a file's, for the commands that have no dataset. Its input is `input_shape` ("224x224x3"), else images of
// `image_size`, else, with NULL and 0, the network's own. Errors: INVALID_ARGUMENT, and those of ls_model_build.
ls_status cli_model_build(const char *name, const ls_model_config *config, const char *input_shape, int image_size,
                          ls_graph **out);
// The input that is asked for: of no shape where neither is given. Errors: INVALID_ARGUMENT.
ls_status cli_model_shape(const char *name, const char *input_shape, int image_size, ls_shape *out);
// The network's own input, or what is asked for: of no shape where there is no network of this name. Errors: INVALID_ARGUMENT.
ls_status cli_model_input(const char *name, const char *input_shape, ls_shape *out);
// Whether a dataset's images could train it, as far as can be told without them. Errors: as above; INVALID_ARGUMENT (a network
// without its top).
ls_status cli_model_check(const char *name, const ls_model_config *config);
#define LS_INPUT_TEXT 64
const char *cli_input_text(ls_shape shape, char text[LS_INPUT_TEXT]);  // "224x224x3"; returns the text

// terminal.c
int cli_terminal_is(FILE *stream);  // a person is watching, also through a launcher's pipes
int cli_terminal_width(void);       // columns of stdout, 80 where unknown
int cli_terminal_utf8(void);        // the locale's characters are UTF-8
// A line, broken between words where a terminal is too narrow for it. Without the newline at its end.
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
int cli_help_width(void);                             // the same, between 60 and 100
double cli_process_started(void);                     // when this process started, on ls_clock()'s scale
const char *cli_compress_text(const char *compress);  // of --compress: "", ", gradients in ", ", gradients by "
const char *cli_count(int64_t n, char buffer[32]);    // "690,590"; returns the buffer

// progress.c: Keras's progress display. Not collective; silent with verbose 0.
typedef struct cli_progress {
    int verbose, terminal;
    double drawn;                       // when the live line was last drawn
    double first;                       // when the first step was done; 0 before
    int length;                         // of the live line
    int64_t tokens;                     // of a sample; 0: samples are images
    int perplexity;                     // the loss is a language model's: e to it is told as well
    char losses[240], val_losses[240];  // of the epoch that is over, where there are several: " - kl_loss: 6.1032"
    ls_step_report latest;
} cli_progress;
void cli_progress_begin(cli_progress *progress, int verbose, int epoch, int epochs);  // `epoch` is the first, from 1
void cli_progress_step(cli_progress *display, const ls_step_report *progress);
void cli_progress_pause(cli_progress *display);  // ends the live line: something else is printed
// An epoch is over; `more`: another one follows.
void cli_progress_epoch(cli_progress *display, const ls_epoch_result *epoch, int more);

// cmd_report.c: a study's tables on the standard output, and its charts if they are wanted. Errors: OUT_OF_MEMORY.
struct ls_study;
ls_status cli_print_study(const struct ls_study *study, int charts);

// crash.c: from now on a process that crashes says so before it ends.
void cli_crash_tell(void);
// Where a control group limits memory: from now on somebody says it when the kernel kills this process for it. For a process that no launcher
// has started: launchers say what became of theirs.
void cli_killed_tell(const char *command);

// version.c
const char *cli_compiler(void);  // "gcc 12.2.0"
ls_status cli_version(FILE *out);
// Where a document of docs/ is: as installed beside the program, or in the sources that it was built from; "docs/NAME" where neither is.
#define CLI_DOCUMENT 4096
const char *cli_document(const char *name, char path[CLI_DOCUMENT]);

#endif
