// The process that has started a job: it looks after the launcher, passes signals on, and says what nobody else can say any more.
#ifndef LS_CLI_LAUNCHER_H
#define LS_CLI_LAUNCHER_H

#include <lockstep/status.h>
#include <sys/types.h>

typedef struct cli_launch cli_launch;
struct cli_launch {
    const char *command;   // ours, for what is said
    char **argv, **again;  // the launcher, argv[0] a path; and what is run after a worker has died
    int speaks;            // it is mpirun or mpiexec, whose own words about workers that ended are replaced by ours
    double
        patience;  // seconds for which the launcher, or all that is left of its workers, may be stopped; < 0: for ever
    int restarts;  // how often it is started again
    // Before it is: makes `again` one for the hosts that are left, where one is gone. NULL: nobody knows of hosts.
    void (*look_at_hosts)(cli_launch *launch);
    int workers;
    int stops_kindly;  // the first SIGINT, SIGTERM, SIGHUP or SIGUSR1 goes to the workers as SIGUSR1, a wish to stop
};

// Runs the launcher until it ends, and again while workers die and `restarts` lasts, and does not return then: the process ends with its
// exit status. Errors: IO (it cannot be started).
ls_status cli_launcher_run(cli_launch *launch);

// In a child of `parent`: it gets SIGTERM when that one ends, and ends now where it already has.
void cli_end_with(pid_t parent);

#endif
