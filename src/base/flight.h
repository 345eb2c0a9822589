// A flight record: what a process does and did last, in memory that other processes of its host can look at, whether it is stopped, stuck or, by
// those that looked before, gone. Nothing of it stays behind, however the process ends. Writing costs a few stores.
#ifndef LS_BASE_FLIGHT_H
#define LS_BASE_FLIGHT_H

#include <stddef.h>
#include <stdint.h>

// What a thread may be doing, in words that follow "worker 3: ".
#define LS_FLIGHT_PHASE_LIST(X)                                                                                        \
    X(START, "starting")                                                                                               \
    X(SET_UP, "setting up")                                                                                            \
    X(LOAD, "waiting for a micro-batch")                                                                               \
    X(FORWARD, "forward")                                                                                              \
    X(BACKWARD, "backward")                                                                                            \
    X(EXCHANGE, "exchange and update")                                                                                 \
    X(BETWEEN, "between two steps")                                                                                    \
    X(EVALUATE, "evaluation")                                                                                          \
    X(CHECKPOINT, "taking a checkpoint")

typedef enum ls_flight_phase {
#define X(name, words) LS_FLIGHT_##name,
    LS_FLIGHT_PHASE_LIST(X)
#undef X
        LS_FLIGHT_PHASES
} ls_flight_phase;

#define LS_FLIGHT_LANES 64  // replicas of a process that are told apart

typedef struct ls_flight ls_flight;

// --- this process's ---------------------------------------------------------------------------------------------------

// Makes it, at most once in a process; without, and where that fails, what follows does nothing. Not thread-safe.
void ls_flight_start(void);
// Its main thread begins a phase; epoch and step 0: none.
void ls_flight_mark(ls_flight_phase phase, int epoch, int64_t step);
// Replica `lane` begins a phase, by its own thread.
void ls_flight_lane(int lane, ls_flight_phase phase);
// Its main thread waits for other processes: what for (at most 47 characters count), and the rank or -1. NULL: it does not wait.
void ls_flight_wait(const char *what, int rank);
// The collective call that it is in, in words (as above).
void ls_flight_call(const char *words);
// The bucket that it hands over, or waits for, next, of so many; all of them: it has handed over the last.
void ls_flight_bucket(int bucket, int count);
// A pipe that this process alone can write to, by the file that is read from: it is hung up when the process ends, before its parent hears of it.
void ls_flight_end(int file);
// From now on its end surprises nobody: it ends by itself, and has said why where that is to be said, or was asked to. For signal handlers, too.
void ls_flight_leave(void);
void ls_flight_leave_asked(void);      // where it was asked to, and ends by the signal
ls_flight_phase ls_flight_now(void);   // of the main thread; START without a record
const ls_flight *ls_flight_own(void);  // NULL: there is none

// --- anybody's --------------------------------------------------------------------------------------------------------

// That of a process of this host, this one's too; NULL where there is none, or it may not be looked at. It stays as it was when the
// process ends. ls_flight_close gives it back.
const ls_flight *ls_flight_open(int64_t process);
void ls_flight_close(const ls_flight **flight);
// That pipe of the process whose record it is, to be closed; not to be read. -1: there is none, or not yet.
int ls_flight_open_end(const ls_flight *flight, int64_t process);
// Whether it waits for others, and since when (ls_clock).
int ls_flight_waits(const ls_flight *flight, double *since);
int ls_flight_has_left(const ls_flight *flight);
int ls_flight_was_asked(const ls_flight *flight);
// Where it is: "backward, step 17 of epoch 2, before bucket 3 of 12", or "exchange and update, step 17 of epoch 2, where it waits for the other replicas
// (bucket 3 of 12)".
void ls_flight_place(const ls_flight *flight, char *text, size_t size);
// "backward, step 17 of epoch 2, for 12.2 s; before: forward 0.21 s, waiting for a micro-batch 0.01 s".
void ls_flight_describe(const ls_flight *flight, double now, char *text, size_t size);

#endif
