// How replicas and workers exchange gradients and update parameters. One file per strategy.
//
// The *lanes* of a job are its replicas over all workers: lane = (worker's position in comm order) * replicas + replica. In each step a
// lane computes the micro-batches it is dealt, its gradients go to memory the strategy gives it, added up in the tree as it
// goes; then all lanes call ls_strategy_step together.
//
// The parameter vector: all parameters behind one another as F32, in the layouts the plan wants, each start aligned and
// padding zero. It is cut into *buckets*, the units of exchange, and each bucket into *slices*, one for each lane that updates: no
// bucket waits for one busy owner. All cuts are at multiples of LS_SLICE_ALIGN, so vector tails never move, and neither
// buckets nor slices show in the bits.
//
//     vector   |            bucket 0             |        bucket 1        |    bucket 2    |
//     slices   | lane 0  | lane 1  |  ...        | 0    | 1    |  ...     | 0  | 1  | ...  |
//     state    the optimizer's: each lane keeps that of its slices of all buckets
//
// A step, as every lane goes through it; what the strategies differ in is in capitals (their table, ls_strategy_ops):
//
//     all gradients of the host are there (of a bucket, with config.overlap: then what follows happens behind backward), votes are cast
//       → REDUCE of each bucket: what its slices are summed of arrives
//       → norms over the vector, where they are wanted: sums of squares are SHARED
//       → update of each slice, then GATHER of its bucket: all lanes get its new weights
//       → working copies are refreshed
//
// All arithmetic is the device's, put into the queue that a lane brings along; a strategy is its client. What it has on the device are
// spans: gradient slots, weights, working copies, state, sums. On a device whose memory is the host's they wrap the memory that
// the workers of a host share, and nothing is copied. On any other each worker has weights of its own in device memory. What lanes of
// other workers have to see (their sums, new weights) is read to memory that the host shares, its *windows*, before a barrier, and
// what is needed of theirs is written to the device after it. The bits are the same.
//
// With LS_COMPRESS_BF16 the value of each node of the tree (tree.h) is rounded to bf16: a leaf's, the gradient of a micro-batch, as a sum's. Which
// nodes travel depends on the lanes; what they are does not, and a message of bf16 loses nothing of any. Additions are F32, as is all that
// follows the tree. Rounding twice is rounding once, so a leaf is rounded by whoever reads it, which takes no pass of its own.
//
// Top-k (topk.h) changes a leaf, too: of a micro-batch's gradient only the largest elements count, and what is left over waits for the next step. That is
// done by whoever computed it, so it does not depend on the lanes either. Between hosts what is zero is not sent.
//
// Some workers may be *servers*: they are dealt nothing, hold the optimizer's state of their slices and update them for all others.
//
// Not all of the vector is trained. What is *frozen* (ls_segment) is left alone: no sum, no norm and no update concerns it. A *statistic* (ls_segment) has no gradient: its sum divided by the samples is the mean of
// the micro-batches' statistics, and it moves towards that by a rule of its own, whatever the optimizer is. It neither decays
// nor counts in the norm of clipping.
#ifndef LS_STRATEGY_STRATEGY_H
#define LS_STRATEGY_STRATEGY_H

#include "base/trace.h"
#include "comm/comm.h"
#include "device/device.h"
#include "graph/segment.h"
#include "optim/optim.h"
#include "strategy/tree.h"

#define LS_SLICE_ALIGN LS_VECTOR_ALIGN  // floats

typedef struct ls_strategy ls_strategy;
typedef struct ls_strategy_ops ls_strategy_ops;

// --- who does what ---------------------------------------------------------------------------------------------------

// What dealing and slices depend on.
typedef struct ls_roles {
    int workers, replicas;  // of the job; of each worker
    int servers;            // of the workers
    int64_t whole;  // above 0: steps of fewer micro-batches are dealt as one of so many, but for those that they lack
} ls_roles;

// How many servers a strategy has: roles->servers is what was asked for, 0: what the strategy has by itself. Not collective. Errors:
// INVALID_ARGUMENT (not with so many workers, or servers; says what to do).
ls_status ls_strategy_assign(const ls_strategy_ops *ops, ls_roles *roles);
// The number among the servers of the worker at a position; -1: it is none. They are spread evenly, and the first worker is none.
int ls_roles_server(const ls_roles *roles, int position);
// The micro-batches [begin, end) that lane `lane` of the job computes in a step, or an evaluation, of so many: runs that follow each
// other, and differ by at most one; of lanes of servers none. Not collective.
void ls_roles_deal(const ls_roles *roles, int64_t micro_batches, int lane, int64_t *begin, int64_t *end);

// --- making one ------------------------------------------------------------------------------------------------------

// Whom the workers of a host speak to, of strategies that leave it open.
typedef enum ls_algorithm {
    // Direct up to LS_DIRECT_HOSTS hosts, and up to LS_DIRECT_HOSTS_MOST where a host's part of the vector has LS_DIRECT_BYTES; else halving.
    LS_ALGORITHM_AUTO,
    LS_ALGORITHM_DIRECT,  // the owner of a slice to a worker of every other host: one message of the way, hosts - 1 at once
    LS_ALGORITHM_HALVING  // recursive halving and doubling: log2(hosts) messages one after the other
} ls_algorithm;
#define LS_DIRECT_HOSTS      8
#define LS_DIRECT_HOSTS_MOST 15
#define LS_DIRECT_BYTES      6144

// What becomes of gradients on their way.
typedef enum ls_compress {
    LS_COMPRESS_NONE,
    LS_COMPRESS_BF16,  // all sums are bf16
    LS_COMPRESS_TOPK   // of each micro-batch's gradient the largest elements, the rest later
} ls_compress;

// Elements [begin, end) have come home, and now those outside of [low, high) all are; low == high: the whole vector.
typedef struct ls_homecoming {
    int64_t begin, end, low, high;
} ls_homecoming;

typedef struct ls_strategy_config {
    ls_comm *comm;
    ls_device *device;
    int replicas;           // per worker, the same on all
    int threads;            // that the lanes' queues have; 0: one
    int servers;            // as ls_strategy_assign takes it
    int64_t length;         // floats in the parameter vector, a multiple of LS_SLICE_ALIGN
    int64_t micro_batches;  // in a full step
    // Where the buckets end: ascending multiples of LS_SLICE_ALIGN, the last `length`; borrowed while planning. NULL: one bucket.
    const int64_t *bucket_ends;
    int bucket_count;
    const ls_optimizer *optimizer;
    ls_optimizer_params params;  // resolved
    // The parameters, from 0 to `length` without gaps; borrowed while planning. NULL: all is one kernel.
    const ls_segment *segments;
    int segment_count;
    int decay_kernels_only;  // 1: weight decay, and l2, leave alone what is no kernel
    int lookahead;           // 1: slow weights are kept, which ls_step_info.slow_keeps moves (optim/lookahead.h)
    double clip_norm;        // the largest norm of a mean gradient; a larger one is scaled down to it. 0: none
    int find_not_finite;     // 1: new weights are looked through for what is no finite number (ls_strategy_not_finite)
    int skip_not_finite;  // 1: a step whose mean gradient holds what is no finite number leaves weights and state as they are
    ls_compress compress;
    double compress_fraction;  // of LS_COMPRESS_TOPK: the part of a kernel's elements that stays; above 0, at most 1
    ls_algorithm algorithm;
    int spin;  // barriers spin this often before sleeping
    // 1: a thread of its own exchanges buckets as they are told to be ready, while lanes compute; it wants comm->any_thread. 0: the step
    // does it all.
    int overlap;
    int early;  // 1, with overlap: a step ends before its weights are home, where that can be ("before weights are home")
    int overlap_own_core;               // 1: that thread has a core and polls; 0: it shares one and naps between looks
    void (*overlap_begin)(void *user);  // called in that thread when it starts, to bind it; NULL: nothing
    void *overlap_user;
    // Working copies: what kernels read instead of the masters (other layouts, bf16). After every update the lanes that
    // share one weights vector share the work of refreshing the copies that belong to it: refresh(user, ...), which puts part `part` of `parts` into the queue.
    int64_t copies_bytes;
    ls_status (*refresh)(void *user, ls_queue *queue, ls_span weights, ls_span copies, int part, int parts);
    // The same of what is complete with some more of the vector, which comes home in pieces; with `early` it must be there where refresh is.
    ls_status (*refresh_some)(void *user, ls_queue *queue, ls_span weights, ls_span copies, const ls_homecoming *home,
                              int part, int parts);
    void *refresh_user;
    // Another strategy whose weights this one updates too, the two taking turns (two networks that train in turn). Borrowed: destroyed
    // after this one. Working copies are shared as well where refresh, refresh_user and copies_bytes are the same; else
    // ls_strategy_weights_changed brings the own ones up to date after the other's steps. NULL: weights of its own.
    ls_strategy *weights_of;
    void *behind;  // of strategies that are not in the list: whom they work for. Borrowed
} ls_strategy_config;

const ls_strategy_ops *const *ls_strategies(void);  // NULL-terminated
// Errors: NOT_FOUND with the names there are.
ls_status ls_strategy_find(const char *name, const ls_strategy_ops **out);
// config.compress and compress_fraction by their name: "none", "bf16", "topk", "topk:0.05". Errors: INVALID_ARGUMENT.
ls_status ls_compress_find(const char *name, ls_compress *out, double *fraction);
// Moves the ends of buckets to where the compression lets them be; *count may become smaller. Segments as in ls_strategy_config.
void ls_strategy_bucket_ends(int compress, const ls_segment *segments, int segment_count, int64_t *ends, int *count);
// config.algorithm by its name: "auto", "direct", "halving". Errors: INVALID_ARGUMENT.
ls_status ls_algorithm_find(const char *name, ls_algorithm *out);
// The algorithm that a strategy is going to use between so many hosts for a vector of so many floats: its name; "" where it has no choice, or there is one
// host.
const char *ls_strategy_algorithm(const ls_strategy_ops *ops, ls_algorithm algorithm, int hosts, int64_t length);
// A strategy that knows what memory it is going to have. Of the communicator it asks who is who, nothing else. Not collective.
// Errors: NOT_FOUND with the names there are, INVALID_ARGUMENT (weights_of does not fit, not with so many workers, not so compressed), INTERNAL, OUT_OF_MEMORY.
ls_status ls_strategy_plan(const char *name, const ls_strategy_config *config, ls_strategy **out);
// Gives it that memory; then it can be used. Collective. Errors: OUT_OF_MEMORY, LIBRARY.
ls_status ls_strategy_allocate(ls_strategy *strategy);
// Both at once. Collective.
ls_status ls_strategy_create(const char *name, const ls_strategy_config *config, ls_strategy **out);
void ls_strategy_destroy(ls_strategy **strategy);  // Collective once allocated
// In the middle of a step that will not be ended: stops the thread of config.overlap, and leaves alone, for ever, the memory that messages may still
// come for. Not collective.
void ls_strategy_abandon(ls_strategy **strategy);

const ls_strategy_ops *ls_strategy_ops_of(const ls_strategy *strategy);
const ls_strategy_config *ls_strategy_config_of(
    const ls_strategy *strategy);  // without what was borrowed while planning

// --- weights ---------------------------------------------------------------------------------------------------------

// Where the gradients lie that a replica writes, for who would have them near its cores: `bytes` of the host's memory. NULL, 0: not there.
void *ls_strategy_lane_gradients(const ls_strategy *strategy, int replica, int64_t *bytes);
ls_span ls_strategy_weights(ls_strategy *strategy);  // (length) floats: the vector this worker's lanes read
ls_span ls_strategy_copies(ls_strategy *strategy);   // (copies_bytes): the same for working copies
// Whether this worker is one of those that write the weights when they are set from outside: where a host shares one vector its first
// worker is, else each.
int ls_strategy_writes_weights(const ls_strategy *strategy);
// After the weights were set from outside by every worker that writes them (initial weights, a checkpoint; nothing is sent):
// refreshes all copies; done on return, what is in the queue before included. Collective; main threads only, no lane running.
// Errors: LIBRARY, those of the device and of refresh.
ls_status ls_strategy_weights_changed(ls_strategy *strategy, ls_queue *queue);

// --- a step ----------------------------------------------------------------------------------------------------------

typedef struct ls_step_info {
    int64_t micro_batches;  // in this step; fewer in the last of an epoch
    int64_t samples;        // the true number: the gradient sum is divided by it once
    double lr, lr_before;   // as in ls_update
    int64_t step;           // from 1, over the whole training
    double slow_keeps;      // with config.lookahead: as ls_lookahead_keeps
    // A power of two that gradients come multiplied by, and statistics do not: their mean is divided by it. 0: 1.
    double loss_scale;
    int takes_all;  // with config.skip_not_finite, 1: this step is not left out
} ls_step_info;

// As ls_roles_deal. Not collective.
void ls_strategy_deal(const ls_strategy *strategy, int64_t micro_batches, int lane, int64_t *begin, int64_t *end);
// The largest number of them that a lane of the job can have.
int64_t ls_strategy_deal_maximum(const ls_strategy *strategy, int64_t micro_batches);
// 1: from the next step on gradients are added up as they come, lane by lane, and not in the tree: the bits depend on the workers then. To measure
// what the tree costs, for nothing else. Between two steps, on all workers. Not collective.
void ls_strategy_any_order(ls_strategy *strategy, int any);

// Called by replica threads around each micro-batch: where to write its gradient (length floats; the padding and what is frozen must
// stay zero), and that all that makes it is in the queue, which a replica keeps to. Between the two nothing else may be asked of this
// replica. Errors: those of the device.
ls_span ls_strategy_gradient_begin(ls_strategy *strategy, int replica, const ls_step_info *info, int64_t micro_batch);
ls_status ls_strategy_gradient_end(ls_strategy *strategy, int replica, ls_queue *queue, const ls_step_info *info);
// In place of the latter, where the gradient was looked at and is to count for nothing: of the first micro-batch of a lane, outside of steps.
void ls_strategy_gradient_drop(ls_strategy *strategy, int replica);

// What a lane does in a step, in the words of traces.
#define LS_STEP_PHASE_LIST(X)                                                                                          \
    X(WAIT, "wait for replicas")  /* at a barrier of the host, for lanes that have not come yet */                     \
    X(SUM, "sum gradients")       /* add up what lanes of this host, or messages, hold */                              \
    X(SEND, "exchange gradients") /* messages, the wait for them, and the wait for one who does it for others */       \
    X(UPDATE, "update weights")                                                                                        \
    X(GATHER, "gather weights")  /* the same as SEND on the way back */                                                \
    X(REFRESH, "refresh copies") /* of the weights, in kernels' layouts */

typedef enum ls_step_phase {
#define X(name, words) LS_STEP_##name,
    LS_STEP_PHASE_LIST(X)
#undef X
        LS_STEP_PHASES
} ls_step_phase;

extern const char *const ls_step_phase_words[LS_STEP_PHASES];

// Where a lane's time goes. The caller zeroes it but for `since`, and may name a trace: phase i is recorded there under the name
// first + i.
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

// The thread of config.overlap records what it does in `trace` while that is on, phase i under the name first + i; NULL: nowhere. Without
// such a thread nothing is recorded. Not while a step runs. At most as many events a step as the second says; 0: there is no such thread.
void ls_strategy_overlap_record(ls_strategy *strategy, ls_trace *trace, int first);
int64_t ls_strategy_overlap_events(const ls_strategy *strategy);
// Seconds since the strategy was made in which messages were on their way, or sums and updates made, while lanes still computed. Not
// while a step runs. Not collective.
double ls_strategy_overlap_seconds(const ls_strategy *strategy);

// The largest number of events that a step puts into a trace.
int64_t ls_strategy_trace_events(const ls_strategy *strategy);

// What a lane wants after the step; the largest vote of all lanes of all workers counts. A lane that has failed goes through
// the step all the same, so that nobody waits for it: all leave after that step, and then the main threads find out why (ls_comm_agree).
typedef enum ls_vote { LS_VOTE_GO_ON, LS_VOTE_CHECKPOINT, LS_VOTE_STOP, LS_VOTE_FAILED } ls_vote;

// Sums all lanes' gradients in the tree, divides, updates, and makes the new weights (and copies) visible to the lanes of this
// worker; *decision is the same on every lane of every worker. Called by every lane of every worker, each from its own thread;
// replica 0 is the worker's main thread, the only one that communicates. On return all is done that was in the lane's queue, and
// in those of the other lanes of its host. Collective over all lanes.
// Errors: LIBRARY, on the main thread whose communication failed; those of the device and of refresh, on the lane it happened to. The
// lanes of its host leave the step with LS_VOTE_FAILED, but other hosts may wait for it for ever: its main thread has to end the job
// (ls_comm_abort) once the sentence is told. So whoever wants to know before it votes whether its queue failed synchronizes it.
ls_status ls_strategy_step(ls_strategy *strategy, int replica, ls_queue *queue, const ls_step_info *info, ls_vote mine,
                           ls_vote *decision, ls_step_times *times);
// The bucket's gradients are complete on this lane, and it reads the bucket's weights no more in this step: in backward of its last
// micro-batch, or after it. With config.overlap the bucket is summed, and updated where no norm has to be known, while lanes go on; without it
// nothing happens. Waits for nobody. ls_strategy_step does it for the buckets that are left. Not collective. Errors: those of the device.
ls_status ls_strategy_bucket_ready(ls_strategy *strategy, int replica, ls_queue *queue, const ls_step_info *info,
                                   int bucket, ls_step_times *times);
// Steps that config.skip_not_finite has left out since the strategy was made. Not while a step runs. Not collective.
int64_t ls_strategy_skipped(const ls_strategy *strategy);
// The first element of the weights that is no finite number, of those that this replica has updated since it was last forgotten, with
// config.find_not_finite; -1: there is none. Both by the replica's thread, between its steps. Not collective. Errors: those of the device.
int64_t ls_strategy_not_finite(const ls_strategy *strategy, int replica);
ls_status ls_strategy_forget_not_finite(ls_strategy *strategy, int replica, ls_queue *queue);
// A barrier of all lanes of this host, for the trainer's own use.
void ls_strategy_host_barrier(ls_strategy *strategy);

// --- before weights are home -----------------------------------------------------------------------------------------
//
// A bucket is *home* on a worker once all lanes of its host may read its new weights and copies, and write its gradients again. With
// config.early a step's buckets come home behind the forward of the next one; the exchange's thread brings them, those first that forward
// reads first. Until all of them are:
//
//     may go on     forward of the lane's next micro-batch, each kernel once what it reads is home (ls_strategy_await); loaders; whatever looks at
//                   neither weights nor state and does not communicate: showing progress, a callback's own business
//     waits         everything else, by ls_strategy_home: backward (it writes gradients), the vote, another step's exchange; reading and
//                   setting weights, visiting state, evaluation, a digest, ls_strategy_not_finite and ls_strategy_overlap_seconds; and, since the
//                   thread communicates, whoever communicates (ls_comm_home is where all of those come by)
//
// A strategy is early where its config says so and nothing stands against it: a norm over all gradients comes before the first update (clipping,
// steps left out, layer-wise optimizers), or the device's memory is not the host's. Any other ends its steps with all weights home, and the
// functions below return at once. Bits are the same.
//
//     lanes     forward (await, await, ...) | home | vote | backward ······ ready 0 ··· ready 1 | step: decision | forward of the next ···
//     thread    home 7, 6, 5              ·         votes        begin 0 ··· begin 1 ···                           home 0, 7, 6, ...

int ls_strategy_is_early(const ls_strategy *strategy);
// This replica begins to compute for a step: until it comes to that step's end, what the exchange's thread does is hidden behind computing where not all
// such lanes wait (ls_strategy_overlap_seconds). Between two steps nothing is. By the replica's thread. Not collective.
void ls_strategy_begin(ls_strategy *strategy, int replica);
// Whether elements [offset, offset + count) of the weights that this replica's latest step made are home. By the replica's thread. Not collective.
int ls_strategy_is_home(const ls_strategy *strategy, int replica, int64_t offset, int64_t count);
// Waits until they are, which is counted as LS_STEP_GATHER: nothing hides it. Where communication fails they never are; then it returns, the
// replica's next vote or step says so, and what is computed until then is lost. By the replica's thread. Not collective. Errors: none.
void ls_strategy_await(ls_strategy *strategy, int replica, int64_t offset, int64_t count, ls_step_times *times);
// Waits until all of the latest step is, this replica's part of ls_strategy_not_finite included; the main thread may communicate again then. By the
// replica's thread, as often as it likes; for times may be NULL. Not collective, but that the other lanes of the host must come to their
// step's end, too. Errors: as ls_strategy_step, of that step.
ls_status ls_strategy_home(ls_strategy *strategy, int replica, ls_queue *queue, ls_step_times *times);
// Votes for the step that has begun, before its backward: hosts tell each other while that goes on. Waits as ls_strategy_home does. What is voted in
// ls_strategy_step does not count any more then: a lane that fails later votes so in the next step. Where a strategy is not early it does nothing.
ls_status ls_strategy_vote(ls_strategy *strategy, int replica, ls_queue *queue, const ls_step_info *info, ls_vote mine,
                           ls_step_times *times);

// --- state -----------------------------------------------------------------------------------------------------------

// Elements [offset, offset + count) of a vector that belongs to training: "weights", what the optimizer calls its state, or "residual-3", which
// LS_COMPRESS_TOPK keeps for micro-batch 3 of a step.
#define LS_RESIDUAL "residual-"
typedef struct ls_strategy_piece {
    const char *vector;  // while it is visited
    int lane;            // of the job, which keeps it; of weights the first that reads them
    int copy;  // 0: of all that have these elements of this vector the one that counts; else equal to it, and its number
    int64_t offset, count;
    float *data;  // (count), on the host; what the visitor writes there is the state from now on
} ls_strategy_piece;

typedef ls_status (*ls_strategy_visitor)(void *user, const ls_strategy_piece *piece);

// Calls `visit` for every piece that this worker has: enough to write a checkpoint (copies of number 0 are each vector exactly once, over
// all workers), and to read one, of any layout (all pieces; then ls_strategy_weights_changed). Pieces of a host's shared
// memory come up on one of its workers. Not collective; no lane running. Errors: those of `visit`, which end it, and of the device,
// OUT_OF_MEMORY.
ls_status ls_strategy_visit(ls_strategy *strategy, ls_queue *queue, ls_strategy_visitor visit, void *user);

// --- memory ----------------------------------------------------------------------------------------------------------

// What a strategy's memory is for.
typedef enum ls_strategy_part {
    LS_STRATEGY_WEIGHTS,
    LS_STRATEGY_COPIES,
    LS_STRATEGY_GRADIENTS,
    LS_STRATEGY_STATE,      // of the optimizer
    LS_STRATEGY_RESIDUALS,  // of LS_COMPRESS_TOPK
    LS_STRATEGY_SUMS,       // partial sums, received sums, norms, barriers
    LS_STRATEGY_PARTS
} ls_strategy_part;

typedef struct ls_strategy_bytes {
    int64_t replica;  // the largest replica's share of what follows
    int64_t own;      // this worker's, for itself alone
    int64_t shared;   // the host's, for all its workers
    int64_t seen;     // of that, what this worker works on: resident in its process
} ls_strategy_bytes;

typedef struct ls_strategy_memory {
    ls_strategy_bytes part[LS_STRATEGY_PARTS];
    int gradient_buffers;  // of each replica
} ls_strategy_memory;

// In bytes, as ls_strategy_allocate will allocate it, or has. Not collective.
ls_strategy_memory ls_strategy_memory_of(const ls_strategy *strategy);
int64_t ls_strategy_memory_bytes(const ls_strategy *strategy);  // this worker's share, for reports

// --- what a strategy is ----------------------------------------------------------------------------------------------

// One lane in one step, as the phases see it (strategy_impl.h).
typedef struct ls_lane_step ls_lane_step;

// One strategy; its file ends in this. Phases are called by every lane, in the order of the drawing above; a phase that fails goes on to
// its last barrier, so that no lane waits for it.
struct ls_strategy_ops {
    const char *name, *help;
    const ls_strategy_ops *halving;  // the same by LS_ALGORITHM_HALVING; NULL: there is one way only
    const ls_strategy_ops *bf16;     // the same between hosts with LS_COMPRESS_BF16; NULL: as it is
    const ls_strategy_ops *topk;     // the same between hosts with LS_COMPRESS_TOPK; NULL: it cannot
    int synchronous;     // 1: weights are the same bits for any number of workers and replicas; records say it
    int weights_shared;  // 1: the lanes of a host have one weights vector, if their device can; 0: each worker has its own
    // As ls_strategy_assign. NULL: any number of workers, and no servers.
    ls_status (*assign)(ls_roles *roles);
    // Decides what memory there will be and allocates none of it (strategy_impl.h: wants); what is its own goes to strategy->impl.
    ls_status (*plan)(ls_strategy *strategy);
    void (*destroy)(ls_strategy *strategy);  // its impl only
    // The elements of a bucket that lane `lane` of the job updates. Those of a worker's lanes follow each other.
    void (*slice)(const ls_strategy *strategy, int lane, int bucket, int64_t *begin, int64_t *end);
    // Starts to bring together what the bucket's slices are summed of; all gradients of the host are there. NULL: nothing to start.
    ls_status (*reduce_begin)(ls_lane_step *step, int bucket);
    // Whether reduce_end, or gather_end, would not wait: *peer is the rank that is waited for, -1: nobody. NULL: they never wait.
    ls_status (*arrived)(ls_lane_step *step, int bucket, int *peer);
    // Waits for it. Afterwards either the lane's sources are the whole tree for its slice, or strategy->mean holds that.
    ls_status (*reduce_end)(ls_lane_step *step, int bucket);
    // Brings `columns` doubles of each unit of LS_SLICE_ALIGN elements from the unit's owner to wherever `units` is kept: once for
    // each host if weights_shared, else for each worker: all have to know whether a step is left out. NULL: they all know them.
    ls_status (*share)(ls_lane_step *step, double *units, int columns);
    // The lane's slice of the bucket has its new weights: starts to bring them to all others. NULL: they have them.
    ls_status (*gather_begin)(ls_lane_step *step, int bucket);
    ls_status (*gather_end)(ls_lane_step *step, int bucket);  // waits for it
};

#endif
