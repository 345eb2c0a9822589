// The process that has started a job: it looks after the launcher, passes signals on, and says what nobody else can say any more.
#ifndef LS_CLI_LAUNCHER_H
#define LS_CLI_LAUNCHER_H

#include <lockstep/status.h>

// Runs the launcher `argv[0]` (a path) until it ends, and does not return then: the process ends with its exit status. `command` is ours,
// for what is said. `speaks`: the launcher is mpirun or mpiexec, whose own words about workers that ended are replaced by ours.
// `patience`: seconds for which the launcher, or all that is left of its workers, may be stopped; < 0: for ever.
// Errors: IO (it cannot be started).
ls_status cli_launcher_run(const char *command, char **argv, int speaks, double patience);

#endif
