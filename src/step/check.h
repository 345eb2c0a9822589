// The checker: runs the programs of all ranks on symbols in place of numbers, and proves what a run
// could only sample.
//
// Every element of every region has what it holds (a node of the tree, weights after so many
// steps), who wrote it, and who has read it since; every queue has a vector clock, which signals
// and messages carry on. So whatever the order in which queues really run,
//
//     only siblings are added, and every update begins with the root of the tree over all micro-batches of its step,
//     nothing is read before it is written, and nothing is written that somebody may still be reading, or sending,
//     every message is received, in the order in which it was sent, in the same size and type, and none rounds,
//     a signal is counted in its own step, nobody waits for ever, all weights and copies of them are new after every step,
//     and who updates knows the norms that it has to, and who decides the votes of all.
#ifndef LS_STEP_CHECK_H
#define LS_STEP_CHECK_H

#include "step/emit.h"

#define LS_CHECK_LIST(X)                                                                                               \
    X(NONE, "none")                                                                                                    \
    X(DEADLOCK, "queues wait for each other, or for what never comes")                                                 \
    X(UNMATCHED, "a message is not received")                                                                          \
    X(SIZE, "a message is of another size than what is received")                                                      \
    X(TYPE, "a message is of another type than what is received, or rounds")                                           \
    X(BOUNDS, "elements beyond a region")                                                                              \
    X(UNWRITTEN, "what is read was not written in this step")                                                          \
    X(CONTENT, "what is read is not what the task says")                                                               \
    X(SIBLINGS, "what is added are no siblings of the tree")                                                           \
    X(ROOT, "an update does not begin with the whole tree")                                                            \
    X(RACE, "written while others may read it, or read while it may be written")                                       \
    X(TWICE, "updated twice, or not in order")                                                                         \
    X(SIGNAL, "a signal may count for another step")                                                                   \
    X(VOTE, "a decision that not all have voted on")                                                                   \
    X(OLD, "weights that are not new after a step")

typedef enum ls_check_fault {
#define X(name, words) LS_CHECK_##name,
    LS_CHECK_LIST(X)
#undef X
        LS_CHECK_FAULTS
} ls_check_fault;

extern const char *const ls_check_words[LS_CHECK_FAULTS];

// What all ranks run. `programs`: (steps, ranks), the first steps of a training; a short last step
// of an epoch may be among them.
typedef struct ls_check_input {
    const ls_emit_config *config;
    const ls_program *const *programs;
    const ls_regions *const *regions;  // (ranks)
    int steps;
} ls_check_input;

// Errors: INTERNAL, with the rank, the queue, the task and what is wrong with it; then *fault says
// which kind it is. OUT_OF_MEMORY.
ls_status ls_check(const ls_check_input *input, ls_check_fault *fault);

#endif
