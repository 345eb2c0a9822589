// A watch over waiting: a thread that sees when this process has waited for others too long, finds out which of them do not run, and
// says so to whoever started it, with what all processes of this host did last (base/flight.h). Everything that waits for other processes tells
// it, at the cost of a few stores.
#ifndef LS_BASE_WATCH_H
#define LS_BASE_WATCH_H

#include <stdint.h>

// A process of this host that is waited for.
typedef struct ls_watch_peer {
    int rank;
    int64_t process, started;  // ls_watch_started() of it, which tells it from a later one of the same number
} ls_watch_peer;

typedef struct ls_watch_limits {
    double stopped;   // seconds for which a process of this host may be stopped, or gone
    double gone;      // less, for which it may be gone, where nobody else sees to that; 0: as above
    double waiting;   // seconds of waiting without a known cause
    double slow;      // a wait within a step is told of after ten times the longest step, but no sooner than this
    double deadline;  // ls_clock() at which all has to be over; 0: none
} ls_watch_limits;

// A wait that is too long.
typedef struct ls_watch_report {
    int over;              // 1: for good. 0: it is unusual, and goes on; told once of a wait, by one process of a host
    const char *sentence;  // about what is waited for and who is missing
    const char *records;   // lines about what each process of this host does, each with its newline
} ls_watch_report;

// Called on the watch's thread. What it does is its own: where it is over it may end the process, and is not called again.
typedef void (*ls_watch_fn)(void *user, const ls_watch_report *report);

// The main thread waits for other processes: `what` ("all workers"; copied), and the rank it waits for or -1. Waits do not nest: the latest
// counts. Both cost nothing worth counting and may be called without a watch; calls of other threads are ignored.
void ls_watch_begin(const char *what, int rank);
void ls_watch_end(void);
// The same for a meeting of replicas, which may be those of other processes, with what the main thread has said that it is in the middle of
// (bucket 0 of 1, after `words`, which stay; NULL: nothing). It says so several times a step, so nothing is put into words before there is a wait.
void ls_watch_begin_replicas(void);
void ls_watch_within(const char *words, int bucket, int count);
// For how many seconds the main thread has waited (0: it does not), and for which rank or -1. Whoever finds out that this one only waits itself says
// who does not (-1: nobody is known): the sentence of this wait names that one. Any thread.
enum { LS_WATCH_ALL_WAIT = -2 };  // all that can be heard say that they wait: no one is named
double ls_watch_waited(int *rank);
void ls_watch_blame(int rank);

// Starts the watch, at most once in a process, from its main thread. Where that fails there is none.
void ls_watch_start(const ls_watch_limits *limits, ls_watch_fn fn, void *user);
void ls_watch_deadline(double at);
// This process is asked to end, and finishes its step first: where others do not, that wait is over soon. For signal handlers.
void ls_watch_asked(void);
// The rank of this process, of which no launcher tells: before it is told who there is. -1: nobody knows it.
void ls_watch_number(int rank);
int ls_watch_own_rank(void);
// A step took so long. The main thread tells.
void ls_watch_step(double seconds);
// Who there is. Before it is told, and without a watch, nobody is known.
typedef struct ls_watch_crew {
    int rank, hosts;             // this process's; how many there are
    const ls_watch_peer *peers;  // (peer_count): the others on this host, of whom 1,024 count
    int peer_count;
    const char (*host_names)[64];  // (host_count): of the hosts of the job's workers, by rank
    int host_count;
} ls_watch_crew;
void ls_watch_crew_told(const ls_watch_crew *crew);  // copied
// When a process started, in ticks since boot; -1 where there is none of this number. *state: its letter in
// /proc, T for one that a debugger has stopped, too.
int64_t ls_watch_started(int64_t process, char *state);
// Whether a process is gone, or about to be: it has ended, is on its way, or was sent SIGKILL.
int ls_watch_ends(int64_t process);
// The rank that its launcher has given a process of this host; -1 where that cannot be read.
int ls_watch_rank(int64_t process);
// Calls fn (NULL: nothing) for each process that `parent` has started, with its state as above. How many there are; those that have ended do not count.
typedef void (*ls_watch_child_fn)(void *user, int64_t process, char state);
int ls_watch_children(int64_t parent, ls_watch_child_fn fn, void *user);
// Ends the other processes of this host, as far as they still are those that were told of or, before, that were found.
// For an ls_watch_fn. Returns how many it reached.
int ls_watch_end_peers(void);
// For an ls_watch_fn, too: whoever waits is to stop waiting. A transport that looks does, and tells the other workers why.
void ls_watch_give_up(const char *why);  // copied; the first one counts
const char *ls_watch_given_up(void);     // NULL: nobody has given up

#endif
