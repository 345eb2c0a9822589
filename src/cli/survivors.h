// The workers of this host, as the process that has started their launcher sees them: which of them ends first, and what the others are at when the
// launcher ends them before they can say so themselves, as Hydra does.
#ifndef LS_CLI_SURVIVORS_H
#define LS_CLI_SURVIVORS_H

#include <sys/types.h>

#include "base/watch.h"

#define CLI_SEEMS ", as it seems"

typedef struct cli_survivors cli_survivors;

cli_survivors *cli_survivors_new(void);  // NULL: there is no memory, with which what follows does nothing
void cli_survivors_free(cli_survivors **list);
// Takes in workers below the launcher that are new. From time to time: it looks through /proc.
void cli_survivors_find(cli_survivors *list, pid_t launcher);
// Calls fn for each of those that are there, with its state.
void cli_survivors_each(const cli_survivors *list, ls_watch_child_fn fn, void *user);
// A file that becomes readable when one of them ends, for poll; -1: there is none, or the first has.
int cli_survivors_ends(const cli_survivors *list);
// After each poll: whether one has ended, and which.
void cli_survivors_look(cli_survivors *list);
// The rank of the one that was the first to end, but for those that had finished or said why; -1: none has, or some of the job's
// workers are not seen from here. *sure: others went on then, so that it was not ended for another's sake.
int cli_survivors_lost(const cli_survivors *list, int workers, int *sure);
// This one has said itself what it was at.
void cli_survivors_heard(cli_survivors *list, int rank);
// A sentence for each of the others but for the lost one (-1: nobody knows which), on the standard error, for at most `most` of them. Returns how many more
// there are.
int cli_survivors_say(const cli_survivors *list, const char *command, int lost, int sure, int most);

#endif
