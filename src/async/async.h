// Asynchronous training: workers push gradients and pull weights each at its own pace, servers
// apply pushes as they come.
//
// The unit is the global batch. One computing worker takes it as a whole (a *ticket*: k = 1, 2, ...
// in the order of the epochs), its replicas share its micro-batches, and it pushes the sum of the
// tree. Servers have slices of the one parameter vector, and apply pushes in the order in which
// they come: a server's n-th push makes its *version* n, with the learning rate of step n.
//
//     computing worker                     first server (the clerk)             every server
//     ask: "my push is complete"   --->    ticket k, as soon as the bound on
//                                  <---    staleness allows it
//     pull                         ----------------------------------------->   its slice at its version p,
//                                  <-----------------------------------------   which is noted
//     forward, backward, sums of the tree
//     push                         ----------------------------------------->   version n; the push's staleness is n - 1 - p
//                                  <-----------------------------------------   "applied"
//
// With a staleness of N, ticket k is given once all batches on their way, and this one, were begun
// when k - 1 - N pushes or more were complete. So no push is ever staler than N, on any server, and
// with N = 0 one batch is on its way at a time: the sequence of synchronous training, bit for bit.
// With one computing worker it is that, too.
//
// A log of pushes (async/log.h) is enough for the same bits again: in a *replay* tickets are given,
// pulls answered and pushes applied where the log has them, and pushes that come too early are
// held.
//
// An epoch ends for all at once: when no ticket is left, or somebody wants to stop, and nothing is
// on its way, everybody is told so, and *settles*: has all weights of the last version, and the
// same position. A checkpoint is a pause of the same kind in the middle.
//
// A job of one worker is its own server. All of this is called by workers' main threads.
#ifndef LS_ASYNC_ASYNC_H
#define LS_ASYNC_ASYNC_H

#include "step/engine.h"

typedef struct ls_async ls_async;

// What a worker is told when it asks.
typedef enum ls_async_answer { LS_ASYNC_TICKET, LS_ASYNC_PAUSE, LS_ASYNC_END } ls_async_answer;

typedef struct ls_async_config {
    ls_comm *comm;        // of the job
    ls_comm *solo;        // this worker alone: its replicas work for its own batches
    const ls_mesh *mesh;  // of the job, with its servers. Borrowed while planning
    // For what is the same as in synchronous training: device, replicas, length, micro_batches,
    // optimizer, segments, refresh. Its communicator, servers and buckets do not count.
    ls_engine_config engine;
    int64_t staleness;  // the largest that a push may have; -1: any
    double
        compensation;  // lambda of DC-ASGD: a mean gradient g becomes g + lambda g g (weights now - weights pulled); 0: none
    // What a server applies its n-th push with, from 1 over the whole training: lr, lr_before and
    // step; the rest is the push's.
    void (*rate)(void *user, int64_t step, ls_step_info *info);
    void *user;
    const char *recipe;  // a line that tells trainings apart, for the log; borrowed
    const char *log;     // a file to write the log of pushes to; NULL: none. Borrowed
    const char *replay;  // a log that this training repeats; NULL: none. Borrowed
} ls_async_config;

// Plans it, and the engine that lanes of this worker go through steps with, which the caller
// allocates and destroys (after this). Not collective. Errors: INVALID_ARGUMENT (what asynchronous
// training cannot do; says what can), OUT_OF_MEMORY.
ls_status ls_async_plan(const ls_async_config *config, ls_async **out, ls_engine **worker);
// Once the engine is allocated: memory of servers, the logs. Collective. Errors: OUT_OF_MEMORY, IO
// (a log, with the system's words), BAD_DATA (a line of the log), MISMATCH (the log is of another
// training: in what).
ls_status ls_async_allocate(ls_async *async);
void ls_async_destroy(ls_async **async);  // the engine is still there

// The server that this worker is; NULL: it is none. What it keeps of the optimizer's state is to be
// visited there, weights at the worker's engine.
ls_engine *ls_async_server(const ls_async *async);

// Tickets done + 1 up to `last` may be given; all workers have the same weights. With a replay,
// `done` is where its log begins, or later. Not collective. Errors: MISMATCH.
ls_status ls_async_begin(ls_async *async, int64_t done, int64_t last);
// A computing worker asks for its next ticket, its push before being complete, and pulls. `vote`:
// what it wants besides. Waits for the first server. Errors: LIBRARY, those of the device.
ls_status ls_async_ask(ls_async *async, ls_queue *queue, ls_vote vote);
// What it was told last: the ticket, or with PAUSE and END the decision, which is all workers'.
ls_async_answer ls_async_answered(const ls_async *async, int64_t *ticket, ls_vote *decision);
// Pushes that the first server had applied when it told this worker last, of all of the training.
int64_t ls_async_version(const ls_async *async);
// Within a step, by the main thread (ls_step_client.call): pushes the sum, asks for the next ticket
// and pulls; where `vote` says that a lane has failed it pushes nothing. Returns what all lanes
// leave the step with: LS_VOTE_FAILED where *status is not LS_OK.
ls_vote ls_async_exchange(ls_async *async, ls_queue *queue, const ls_step_info *info, ls_vote vote, ls_status *status);

// Bytes that a server keeps of pushes and pulls, beside its engine's memory. Not collective.
int64_t ls_async_server_bytes(const ls_async *async);

// A server serves until all computing workers have been told PAUSE or END. Errors: LIBRARY; those
// of the device (not before all have left).
ls_status ls_async_serve(ls_async *async, ls_queue *queue);

// How stale pushes were, of the first server, since the training began.
typedef struct ls_staleness {
    int64_t pushes, sum, largest;
} ls_staleness;

// Once all have been told PAUSE or END, or have served: all weights of the last version, on all
// workers, and *done, the tickets that are; servers are told, too (ls_async_answered); the log is
// written up to here. Collective over the job. Errors: LIBRARY, IO (the log).
ls_status ls_async_settle(ls_async *async, ls_queue *queue, int64_t *done);
ls_staleness ls_async_staleness(const ls_async *async);  // as of the latest settling, the same on all workers
int64_t ls_async_skipped(const ls_async *async);         // as ls_engine_skipped, likewise

#endif
