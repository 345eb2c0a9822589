// When a run has to be over: a limit that was asked for, or the end of the Slurm job it is part of.
#ifndef LS_CLI_DEADLINE_H
#define LS_CLI_DEADLINE_H

#include <lockstep/lockstep.h>

typedef struct cli_deadline {
    double at;          // ls_clock() when the process has to have ended; 0: no limit
    double margin;      // seconds before that at which it ought to: clocks differ, and ending takes a moment
    char why[96];       // "--time-limit 1:15:00", "the end of Slurm job 17"
    char unknown[200];  // why the end of the Slurm job is not known; "" where it is, or there is none
} cli_deadline;

// Whether `limit` is a time, or "none", or NULL. Errors: INVALID_ARGUMENT.
ls_status cli_deadline_check(const char *limit);
// The earlier one of `limit` (checked; NULL: none), counted from `started` (ls_clock()), and what the environment tells, unless the
// limit is "none". Asks Slurm where the environment does not say it, for a few seconds at most. Not collective.
void cli_deadline_find(const char *limit, double started, cli_deadline *out);
// Tells processes started from now on that they have to be over `seconds` before the deadline; without one, that there is none.
void cli_deadline_pass_on(const cli_deadline *deadline, double seconds);
// "to be over by 2026-11-21 12:00:00, the end of Slurm job 17"; nothing without a deadline that is known.
void cli_deadline_print(const cli_deadline *deadline);

#define CLI_RECENT_STEPS 15

// Stops training in time: worker 0's clock decides, and the others hear of it from the step that follows.
typedef struct cli_timekeeper {
    cli_deadline deadline;
    int64_t test_count;                       // samples of an evaluation at the end; 0: there is none
    double evaluation_seconds;                // the latest evaluation; 0: none yet
    double recent[CLI_RECENT_STEPS], latest;  // seconds of the latest steps, and when the last of them ended
    int recent_count;
    double images;    // of a step
    double reserved;  // seconds for what else comes before the end: a checkpoint
    int stop;
} cli_timekeeper;

// On every worker: how long it may wait for the others is told by the deadline, which counts on worker 0 only. Collective.
ls_status cli_timekeeper_begin(cli_timekeeper *keeper, ls_context *context, const cli_deadline *deadline,
                               int64_t test_count);
// After every step, on worker 0: whether to stop, at the latest after the next one. `validate`: an evaluation follows each epoch.
int cli_timekeeper_step(cli_timekeeper *keeper, const ls_step_report *step, int validate);
// Afterwards, on worker 0: whether an evaluation now would take longer than there is time.
int cli_timekeeper_too_late(const cli_timekeeper *keeper);

#endif
