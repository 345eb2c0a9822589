// The engine of a worker's steps: it plans the programs of its rank (step/program.h), gives them
// memory, and runs them with threads, shared memory and messages. A worker is one rank; its lanes
// are the replicas' queues.
//
// The parameter vector: all parameters behind one another as F32, in the layouts the plan wants,
// each start aligned and padding zero. It is cut into *buckets*, the units of exchange, and these
// into slices, one for each lane that updates; all cuts are at multiples of LS_SLICE_ALIGN, so
// vector tails never move, and neither buckets nor slices show in the bits.
//
//     vector   |            bucket 0             |        bucket 1        |    bucket 2    |
//     slices   | lane 0  | lane 1  |  ...        | 0    | 1    |  ...     | 0  | 1  | ...  |
//     state    the optimizer's: each lane keeps that of its slices of all buckets
//
// All arithmetic is the device's, put into the queue that a lane brings along. Where the device's
// memory is the host's, regions of a host are memory that its workers share, and nothing is copied.
// Else each worker has weights of its own, and what others have to see goes through host memory.
//
// Not all of the vector is trained. What is *frozen* (ls_segment) is left alone: no sum, no norm
// and no update concerns it. A *statistic* has no gradient: its sum divided by the samples is the
// mean of the micro-batches' statistics, and it moves towards that by a rule of its own. It neither
// decays nor counts in the norm of clipping.
#ifndef LS_STEP_ENGINE_H
#define LS_STEP_ENGINE_H

#include <stdio.h>

#include "base/trace.h"
#include "comm/comm.h"
#include "device/device.h"
#include "graph/segment.h"
#include "optim/optim.h"
#include "step/strategies.h"

typedef struct ls_engine ls_engine;

// Elements [begin, end) are new, and now all outside of [low, high) are; low == high: the whole
// vector.
typedef struct ls_homecoming {
    int64_t begin, end, low, high;
} ls_homecoming;

typedef struct ls_engine_config {
    ls_comm *comm;
    ls_device *device;
    int lanes;              // per worker, the same on all
    int threads;            // that the lanes' queues have; 0: one
    int servers;            // as ls_strategy_assign takes it
    int64_t length;         // floats in the parameter vector, a multiple of LS_SLICE_ALIGN
    int64_t micro_batches;  // in a full step
    const int64_t
        *other_counts;      // (other_count_count): micro-batches of other steps that there are; borrowed while planning
    int other_count_count;  // -1: all up to micro_batches
    // Where the buckets end: ascending multiples of LS_SLICE_ALIGN, the last `length`; borrowed
    // while planning. NULL: one bucket.
    const int64_t *bucket_ends;
    int bucket_count;
    const ls_optimizer *optimizer;
    ls_optimizer_params params;  // resolved
    // The parameters, from 0 to `length` without gaps; borrowed while planning. NULL: all is one
    // kernel.
    const ls_segment *segments;
    int segment_count;
    int decay_kernels_only;  // 1: weight decay, and l2, leave alone what is no kernel
    int lookahead;           // 1: slow weights are kept, which ls_step_info.slow_keeps moves (optim/lookahead.h)
    double clip_norm;        // the largest norm of a mean gradient; a larger one is scaled down to it. 0: none
    int find_not_finite;     // 1: new weights are looked through for what is no finite number (ls_engine_not_finite)
    int skip_not_finite;  // 1: a step whose mean gradient holds what is no finite number leaves weights and state as they are
    ls_compress compress;
    double compress_fraction;  // of LS_COMPRESS_TOPK: the part of a kernel's elements that stays; above 0, at most 1
    ls_algorithm algorithm;
    int spin;  // waits spin this often before sleeping
    // 1: a thread of its own exchanges buckets as they are ready, while lanes compute; it takes
    // comm->any_thread. 0: the lanes do it all.
    int progress;
    int early;     // 1, with progress: a step ends before its weights are whole, where that can be (ls_engine_is_early)
    int in_order;  // of early: so many buckets are exchanged in their order, the others from the last one on
    const int *
        forward_order;  // (bucket_count): as forward reads buckets first; NULL: from the last one on. Borrowed while planning
    int own_core;                        // 1: that thread has a core and polls; 0: it shares one and naps between looks
    void (*progress_begin)(void *user);  // called in that thread when it starts, to bind it; NULL: nothing
    void *progress_user;
    // Working copies: what kernels read instead of the masters (other layouts, bf16). After every
    // update those who share one weights vector share the work of refreshing the copies that belong
    // to it: part `part` of `parts` is put into the queue.
    int64_t copies_bytes;
    ls_status (*refresh)(void *user, ls_queue *queue, ls_span weights, ls_span copies, int part, int parts);
    // The same of what is complete with some more of the vector; with `early` it must be there
    // where refresh is.
    ls_status (*refresh_some)(void *user, ls_queue *queue, ls_span weights, ls_span copies, const ls_homecoming *home,
                              int part, int parts);
    void *refresh_user;
    // Another engine whose weights this one updates too, the two taking turns. Borrowed: destroyed
    // after this one. Working copies are shared as well where refresh, refresh_user and
    // copies_bytes are the same; else ls_engine_weights_changed brings the own ones up to date
    // after the other's steps. NULL: weights of its own.
    ls_engine *weights_of;
    int push;                      // as ls_ways.push: for asynchronous training
    int64_t push_begin, push_end;  // with push 2: the slice that is updated
} ls_engine_config;

// An engine that knows what memory it is going to have. Of the communicator it asks who is who,
// nothing else. Not collective. Errors: NOT_FOUND with the names of strategies there are,
// INVALID_ARGUMENT (weights_of does not fit, not with so many workers, not so compressed),
// INTERNAL, OUT_OF_MEMORY.
ls_status ls_engine_plan(const char *strategy, const ls_engine_config *config, ls_engine **out);
// Gives it that memory; then it can be used. Collective. Errors: OUT_OF_MEMORY, LIBRARY.
ls_status ls_engine_allocate(ls_engine *engine);
// Both at once. Collective.
ls_status ls_engine_create(const char *strategy, const ls_engine_config *config, ls_engine **out);
void ls_engine_destroy(ls_engine **engine);  // Collective once allocated
// In the middle of a step that will not be ended: stops the progress thread, and leaves alone, for
// ever, the memory that messages may still come for. Not collective.
void ls_engine_abandon(ls_engine **engine);
// Moves the ends of buckets to where the compression lets them be; *count may become smaller.
// Segments as above.
void ls_engine_bucket_ends(ls_compress compress, const ls_segment *segments, int segment_count, int64_t *ends,
                           int *count);

const ls_engine_config *ls_engine_config_of(const ls_engine *engine);  // without what was borrowed while planning
const ls_mesh *ls_engine_mesh(const ls_engine *engine);
int ls_engine_sends_totals(const ls_engine *engine);  // 1: between hosts sums go both ways, and no weights
// The program of this rank for a step of so many micro-batches; NULL: it has none. *regions: what
// it names.
const ls_program *ls_engine_program(const ls_engine *engine, int64_t micro_batches, const ls_regions **regions);

// --- weights ---------------------------------------------------------------------------------------------------------

// Where the gradients lie that a lane writes, for who would have them near its cores: `bytes` of
// the host's memory. NULL, 0: not there.
void *ls_engine_lane_gradients(const ls_engine *engine, int lane, int64_t *bytes);
ls_span ls_engine_weights(const ls_engine *engine);     // (length) floats: the vector this worker's lanes read
ls_span ls_engine_copies(const ls_engine *engine);      // (copies_bytes): the same for working copies
void *ls_engine_host_weights(const ls_engine *engine);  // the same, where the host reads it; NULL: it cannot
// Whether this worker is one of those that write the weights when they are set from outside: where
// a host shares one vector its first worker is, else each.
int ls_engine_writes_weights(const ls_engine *engine);
// After the weights were set from outside by every worker that writes them: refreshes all copies;
// done on return, what is in the queue before included. Collective; main threads only, no step
// running. Errors: LIBRARY, those of the device and of refresh.
ls_status ls_engine_weights_changed(ls_engine *engine, ls_queue *queue);

// --- a step ----------------------------------------------------------------------------------------------------------

typedef struct ls_step_info {
    int64_t micro_batches;  // in this step: one of those that there are
    int64_t samples;        // the true number: the gradient sum is divided by it once
    double lr, lr_before;   // as in ls_update
    int64_t step;           // from 1, over the whole training
    double slow_keeps;      // with config.lookahead: as ls_lookahead_keeps
    // A power of two that gradients come multiplied by, and statistics do not: their mean is
    // divided by it. 0: 1.
    double loss_scale;
    int takes_all;  // with config.skip_not_finite, 1: this step is not left out
} ls_step_info;

// What a lane does in a step, in the words of traces.
#define LS_STEP_PHASE_LIST(X)                                                                                          \
    X(WAIT, "wait for replicas")  /* for lanes that have not come yet */                                               \
    X(SUM, "sum gradients")       /* add up what lanes of this host, or messages, hold */                              \
    X(SEND, "exchange gradients") /* messages, the wait for them, and the wait for one who does it for others */       \
    X(UPDATE, "sum and update")   /* the last sums, the mean and the update, in one pass through the caches */         \
    X(GATHER, "gather weights")   /* the same as SEND on the way back */                                               \
    X(REFRESH, "refresh copies")  /* of the weights, in kernels' layouts */

typedef enum ls_step_phase {
#define X(name, words) LS_STEP_##name,
    LS_STEP_PHASE_LIST(X)
#undef X
        LS_STEP_PHASES
} ls_step_phase;

extern const char *const ls_step_phase_words[LS_STEP_PHASES];

// Where a lane's time goes. The caller zeroes it but for `since`, and may name a trace: phase i is
// recorded there under the name first + i.
typedef struct ls_step_times {
    double seconds[LS_STEP_PHASES];  // added to
    double since;                    // when what is not yet in `seconds` began: before the step, now; after it, its end
    ls_trace *trace;
    int trace_first;
} ls_step_times;

static inline double ls_step_exchange(const ls_step_times *t) {
    return t->seconds[LS_STEP_SUM] + t->seconds[LS_STEP_SEND] + t->seconds[LS_STEP_GATHER];
}
static inline double ls_step_update(const ls_step_times *t) {
    return t->seconds[LS_STEP_UPDATE] + t->seconds[LS_STEP_REFRESH];
}

// What a lane wants after the step; the largest vote of all lanes of all workers counts. A lane
// that has failed goes through the step all the same, so that nobody waits for it: all leave after
// that step, and then the main threads find out why (ls_comm_agree).
typedef enum ls_vote { LS_VOTE_GO_ON, LS_VOTE_CHECKPOINT, LS_VOTE_STOP, LS_VOTE_FAILED } ls_vote;

// Kernels that a lane is asked to put into its queue.
typedef struct ls_step_run {
    int64_t micro_batch;
    int backward;  // 0: forward
    int part,
        parts;  // forward: up to where the weights of the part-th bucket in config.forward_order are read first and no later one is;
    // backward: until the gradients of bucket `part` are complete and its weights are not read any
    // more
    int last;          // 1: the lane's last micro-batch of the step
    ls_span gradient;  // of backward: (length), the padding and what is frozen must stay zero
} ls_step_run;

// What the engine asks of whoever trains, in the thread of the lane.
typedef struct ls_step_client {
    void *user;
    ls_vote (*vote)(void *user, int lane);  // once a step; NULL: LS_VOTE_GO_ON
    // With push 1, by the first lane: the batch's sum is in ls_engine_push. `vote` is the lanes';
    // what it returns all leave with.
    ls_vote (*call)(void *user, ls_vote vote, const ls_step_info *info);
} ls_step_client;

// A lane's part of one step, in three calls: it begins; as long as there are kernels to put into
// its queue it is given the next ones, and sums, exchanges and updates in between; it ends. So all
// lanes' gradients are summed in the tree, divided, weights are updated, and new ones (and copies)
// are visible to the lanes of this worker. Called by every lane of every worker, each from its own
// thread; lane 0 is the worker's main thread.
//
//     ls_engine_begin(engine, lane, queue, &info, &client, &times);
//     while (ls_engine_next(engine, lane, &run)) ...
//     ls_engine_end(engine, lane, &decision);
//
// Who puts kernels into the queue sets times->since to when that ended. Collective over all lanes:
// each goes through the whole step, whatever happens to it. Errors of begin: INTERNAL (no such
// number of micro-batches), OUT_OF_MEMORY; then there is nothing to end.
ls_status ls_engine_begin(ls_engine *engine, int lane, ls_queue *queue, const ls_step_info *info,
                          const ls_step_client *client, ls_step_times *times);
// Returns 0 when there are no more.
int ls_engine_next(ls_engine *engine, int lane, ls_step_run *run);
// *decision is the same on every lane of every worker. On return all is done that was in the lane's
// queue, and, unless the engine is early, in those of the other lanes of its host. What is left of
// the step's kernels is left out. Errors: LIBRARY, on the main thread, where communication failed;
// those of the device and of refresh, on the lane it happened to. The lanes of its host leave the
// step with LS_VOTE_FAILED, but other hosts may wait for it for ever: its main thread has to end
// the job (ls_comm_abort) once the sentence is reported.
ls_status ls_engine_end(ls_engine *engine, int lane, ls_vote *decision);
// Passes the kernels that were given last and goes on as far as it goes without waiting: for who
// has nothing to put into the queue now.
void ls_engine_pass(ls_engine *engine, int lane);
// The bucket that forward reads as number `part`, as config.forward_order has it.
int ls_engine_forward_bucket(const ls_engine *engine, int part);
// Where a lane writes a gradient outside of steps: nothing of it counts.
ls_span ls_engine_scratch_gradient(const ls_engine *engine, int lane);

// An engine is early where its config says so and nothing stands against it: a norm over all
// gradients comes before the first update (clipping, steps left out, layer-wise optimizers), or the
// device's memory is not the host's. Its steps end before their weights are whole; the next step's
// first forward goes on as they come. Until then everything else that looks at weights or state, or
// communicates, waits by ls_engine_home.
int ls_engine_is_early(const ls_engine *engine);
int ls_engine_is_home(const ls_engine *engine, int lane);  // whether the lane's latest step is whole
// Waits until it is, this lane's part of ls_engine_not_finite included; the main thread may
// communicate again then. By the lane's thread. Not collective. Errors: as ls_engine_end, of that
// step.
ls_status ls_engine_home(ls_engine *engine, int lane, ls_queue *queue, ls_step_times *times);

// Steps that config.skip_not_finite has left out since the engine was made. Not while a step runs.
// Not collective.
int64_t ls_engine_skipped(const ls_engine *engine);
// The first element of the weights that is no finite number, of those that this lane has updated
// since it was last forgotten, with config.find_not_finite; -1: there is none. Both by the lane's
// thread, between its steps. Not collective. Errors: those of the device.
int64_t ls_engine_not_finite(const ls_engine *engine, int lane);
ls_status ls_engine_forget_not_finite(ls_engine *engine, int lane, ls_queue *queue);
// A barrier of all lanes of this host, for the trainer's own use.
void ls_engine_host_barrier(ls_engine *engine);

// The progress thread records what it does in `trace` while that is on, phase i under the name
// first + i; NULL: nowhere. Not while a step runs.
void ls_engine_record(ls_engine *engine, ls_trace *trace, int first);
int64_t ls_engine_progress_events(const ls_engine *engine);  // at most so many a step; 0: there is no such thread
int64_t ls_engine_lane_events(const ls_engine *engine);      // of a lane, likewise
// Seconds since the engine was made in which messages were on their way, or sums and updates made,
// while lanes still computed. Not while a step runs.
double ls_engine_hidden_seconds(const ls_engine *engine);

// --- asynchronous training -------------------------------------------------------------------------------------------

void *ls_engine_push(const ls_engine *engine);  // (length) of ls_engine_push_type: what a worker pushes
ls_dtype ls_engine_push_type(const ls_engine *engine);
// With push 2: updates the slice with a sum of a whole step, `sum` (push_end - push_begin) of that
// type on the host. Not collective.
ls_status ls_engine_apply_push(ls_engine *engine, ls_queue *queue, const ls_step_info *info, void *sum);

// --- state -----------------------------------------------------------------------------------------------------------

// Elements [offset, offset + count) of a vector that belongs to training: "weights", what the
// optimizer calls its state, or "residual-3", which LS_COMPRESS_TOPK keeps for micro-batch 3 of a
// step.
#define LS_RESIDUAL "residual-"
typedef struct ls_state_piece {
    const char *vector;  // while it is visited
    int lane;            // of the job, which keeps it; of weights the first that reads them
    int copy;  // 0: of all that have these elements of this vector the one that counts; else equal to it, and its number
    int64_t offset, count;
    float *data;  // (count), on the host; what the visitor writes there is the state from now on
} ls_state_piece;

typedef ls_status (*ls_state_visitor)(void *user, const ls_state_piece *piece);

// Calls `visit` for every piece that this worker has: enough to write a checkpoint (copies of
// number 0 are each vector exactly once, over all workers), and to read one, of any layout (all
// pieces; then ls_engine_weights_changed). Pieces of a host's shared memory come up on one of its
// workers. Not collective; no step running. Errors: those of `visit`, which end it, and of the
// device, OUT_OF_MEMORY.
ls_status ls_engine_visit(ls_engine *engine, ls_queue *queue, ls_state_visitor visit, void *user);

// --- memory ----------------------------------------------------------------------------------------------------------

typedef enum ls_engine_part {
    LS_ENGINE_WEIGHTS,
    LS_ENGINE_COPIES,
    LS_ENGINE_GRADIENTS,
    LS_ENGINE_STATE,      // of the optimizer
    LS_ENGINE_RESIDUALS,  // of LS_COMPRESS_TOPK
    LS_ENGINE_SUMS,       // partial sums, messages, norms, signals
    LS_ENGINE_PARTS
} ls_engine_part;

typedef struct ls_engine_bytes {
    int64_t lane;    // the largest lane's share of what follows
    int64_t own;     // this worker's, for itself alone
    int64_t shared;  // the host's, for all its workers
    int64_t seen;    // of that, what this worker works on: resident in its process
} ls_engine_bytes;

typedef struct ls_engine_memory {
    ls_engine_bytes part[LS_ENGINE_PARTS];
    int gradient_buffers;  // of each lane
} ls_engine_memory;

// Prints the program of full steps (ls_program_print).
void ls_engine_print(const ls_engine *engine, int json, FILE *out);
// In bytes, as ls_engine_allocate will allocate it, or has. Not collective.
ls_engine_memory ls_engine_memory_of(const ls_engine *engine);
int64_t ls_engine_memory_bytes(const ls_engine *engine);  // this worker's share, for reports

#endif
