// The timeline of a job: what every replica of every worker does when, for the trace that people look at. timeline.c records,
// timeline_write.c brings the workers' recordings and clocks together.
#ifndef LS_TRAIN_TIMELINE_H
#define LS_TRAIN_TIMELINE_H

#include "base/trace.h"
#include "comm/comm.h"

struct ls_trainer;
struct ls_replica;

// What a replica does, in the words of the trace and their category, by which summaries add up. Behind these names come those of
// the engine's phases (step/engine.h), then those of the plans' steps.
#define LS_SPAN_LIST(X)                                                                                                \
    X(EPOCH, "epoch", "epoch")                                                                                         \
    X(SET_UP, "set up the epoch", "epoch")                                                                             \
    X(STEP, "step", "step")                                                                                            \
    X(LOAD, "wait for input", "load")                                                                                  \
    X(RESTORE, "give input back", "load")                                                                              \
    X(FORWARD, "forward", "forward")                                                                                   \
    X(BACKWARD, "backward", "backward")                                                                                \
    X(ADD, "add gradients", "exchange")                                                                                \
    X(PROGRESS, "show progress", "serial")                                                                             \
    X(EVALUATION, "evaluation", "evaluation")                                                                          \
    X(EVALUATE, "evaluate forward", "evaluation")                                                                      \
    X(PREPARE, "prepare a micro-batch", "loader")

typedef enum ls_timeline_span {
    LS_SPAN_NONE = -1,
#define X(name, text, category) LS_SPAN_##name,
    LS_SPAN_LIST(X)
#undef X
        LS_SPANS
} ls_timeline_span;

typedef struct ls_timeline {
    int64_t asked;         // steps of each epoch
    int64_t first, steps;  // recorded of an epoch, where it has as many: steps [first, first + steps), from 0
    int epochs;            // so many epochs are, the first ones
    int64_t evaluated;     // micro-batches of an evaluation that are, by each replica
    ls_trace_name *names;  // (name_count)
    char *texts;           // what plans' names live in
    int name_count, strategy_first;
    ls_trace **
        tracks;  // (track_count): the replicas', their loaders', and that of the exchange where it has a thread; each in memory of its own
    int track_count;
    ls_trace_clock clock;
} ls_timeline;

// How much of what was asked for is recorded where a replica has room for so many events and a step needs `need` of them, in `epochs`
// epochs of so many steps: fewer steps of all epochs rather than fewer epochs; one step of one epoch always.
void ls__timeline_choose(ls_timeline *timeline, int64_t steps, int64_t epochs, int64_t room, int64_t need);

// Sets recording up for all replicas of this worker. Collective.
ls_status ls__timeline_create(struct ls_trainer *trainer, int64_t steps, ls_timeline **out);
void ls__timeline_destroy(struct ls_trainer *trainer);
// Before each step (from 0) of an epoch and each micro-batch of an evaluation: whether it will be recorded. Costs nothing without a
// timeline. The exchange's thread has a step of its own: once it is through with the one before.
void ls__timeline_step(struct ls_replica *replica, int64_t step);
void ls__timeline_exchange(struct ls_replica *replica, int64_t step);
void ls__timeline_evaluate(struct ls_replica *replica, int64_t micro_batch);

// How much this worker's `clock` (ls_clock, but in tests) is ahead of worker 0's, and how far that may be off: half the fastest
// message and answer. Workers of one host have one clock. Collective.
ls_status ls__clock_offset(ls_comm *comm, double (*clock)(void), double *offset, double *error);

#endif
