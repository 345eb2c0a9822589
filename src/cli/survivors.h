// The workers of this host, as the process that has started their launcher sees them: which of them ends first, and what the others are at when the
// launcher ends them before they can say so themselves, as Hydra does.
#ifndef LS_CLI_SURVIVORS_H
#define LS_CLI_SURVIVORS_H

#include <poll.h>
#include <sys/types.h>

enum { CLI_SURVIVORS_MOST = 256 };  // workers that are looked at: each takes a file

typedef struct cli_survivors cli_survivors;

cli_survivors *cli_survivors_new(void);  // NULL: there is no memory, with which what follows does nothing
void cli_survivors_free(cli_survivors **list);
// Takes in workers below the launcher that are new. From time to time: it looks through /proc.
void cli_survivors_find(cli_survivors *list, pid_t launcher);
// What becomes readable when one of them ends, for poll: at most CLI_SURVIVORS_MOST. Returns how many.
int cli_survivors_ends(const cli_survivors *list, struct pollfd *ends);
// After each poll: which have ended. The first one, while all others go on, is the one that is lost.
void cli_survivors_look(cli_survivors *list);
// Its rank; -1: nobody knows, as where others end by the time that it is seen, or some of the job's workers are not seen from here.
int cli_survivors_lost(const cli_survivors *list, int workers);
// This one has said itself what it was at.
void cli_survivors_heard(cli_survivors *list, int rank);
// A sentence for each of the others but for the lost one (-1: nobody knows which), on the standard error, for at most `most` of them. Returns how many more
// there are.
int cli_survivors_say(const cli_survivors *list, const char *command, int lost, int most);

#endif
