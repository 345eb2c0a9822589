// What all strategies share: the gradient slots of a host, its barriers, slices, adding pieces up in the tree, and updating.
#ifndef LS_STRATEGY_STRATEGY_IMPL_H
#define LS_STRATEGY_STRATEGY_IMPL_H

#include <stdatomic.h>

#include "base/barrier.h"
#include "base/clock.h"
#include "strategy/strategy.h"

// Sums go through the caches in blocks of so many floats: a few of them fit the first level, and a block is large enough
// that reading the clock around it costs nothing.
#define LS_BLOCK 4096
// Of each thread of a replica's team, which goes through a block together: several of them fit the second level, and are worth its meeting.
#define LS_TEAM_BLOCK (1 << 14)
// On devices that are far from the host's memory, where each call costs more.
#define LS_FAR_BLOCK (1 << 18)

// Memory that messages and other processes reach, and where the device sees it. A device of the host's memory sees it as it is. For
// others there is either, or both: `device` empty: what is needed is copied there; `host` NULL: nobody else needs it.
typedef struct ls_window {
    void *host;
    ls_span device;
} ls_window;

static inline ls_window ls__window_at(ls_window w, int64_t bytes) {
    return (ls_window){w.host ? (char *)w.host + bytes : NULL,
                       w.device.buffer ? ls_span_at(w.device, bytes) : w.device};
}

// A node of the tree and where its sum lies: data is element `first` of the vector and what follows.
typedef struct ls_source {
    ls_piece piece;
    ls_window data;
    int64_t first;
    ls_dtype dtype;  // F32, or as messages of config.compress have it
    // Above 0: it came in messages of LS_COMPRESS_TOPK, from a host with so many pieces, of which it is number `index`. Then there is no `data`.
    int pieces;
    int index, host, bucket;
} ls_source;

// Elements [begin, end) of the vector, and how many there are in the slices of the same owner before this one: what is kept of
// all its slices lies behind one another.
typedef struct ls_slice {
    int64_t begin, end, first;
} ls_slice;

// What one replica keeps; in memory of its own, so that replicas do not disturb each other's caches.
typedef struct ls_lane {
    ls_piece stack[LS_TREE_MAX_PIECES];  // the running sums; stack[i] lies in slot i
    int depth;
    int64_t steps;       // it has been through
    int64_t skipped;     // of them, those that have updated nothing
    char failure[1024];  // the sentence of the latest step's first failure in a bucket; "": there is none
    ls_slice *slices;    // (bucket_count): what it updates
    char *begun;         // (bucket_count): which buckets this lane has handed over already
    int open;            // 1: between ls_strategy_gradient_begin and _end
    int voted;           // 1: for the step that has begun (ls_strategy_vote)
    ls_source *sources;  // (micro_batches): room to list what a sum is made of
    int source_count;    // of the bucket that was reduced last
    ls_span blocks;      // (block_count, strategy->block): partial sums; the first is the driver's
    ls_span state[LS_MAX_OPTIMIZER_STATE];
    ls_span slow;  // of its slices, with config.lookahead: the slow weights
    ls_span
        kept;  // of its slices: the mean gradient until the norm is known, or what a layer-wise optimizer will apply
    ls_span slots;        // (slots, length): its gradients, where they are not in the host's memory
    ls_span packed;       // (strategy->block): bf16, on the way into a message or out of one, with config.compress
    ls_span found;        // an int64: 1 + the first element of new weights that is no finite number; 0: none
    int64_t *found_host;  // the same on the host, as of the latest step
    // (leaves, length), with LS_COMPRESS_TOPK: of the micro-batches from first_leaf on, in parts of the mean gradient. Where steps may be left
    // out there are two of each (topk.h).
    ls_span residuals[2];
    char *turn;  // (leaves): which of the two counts
    int64_t first_leaf, leaves;
    float *scratch;      // (pieces, LS_TOPK_CHUNK) on the host, between it and a device that is far from it
    ls_span unit_sums;   // (block / LS_SLICE_ALIGN, 2): doubles on their way to the host, where they are not made there
    double (*norms)[2];  // (runs): of layer-wise optimizers, what update is told; of the runs this lane updates
} ls_lane;

// What is given: a pointer to host memory; a span of device memory; a window, which is host memory.
typedef enum ls_want_kind { LS_WANT_POINTER, LS_WANT_SPAN, LS_WANT_WINDOW } ls_want_kind;

// A block of memory that is going to be: decided while planning, allocated afterwards.
typedef struct ls_want {
    ls_strategy_part part;
    ls_want_kind kind;
    int replica;  // whose it is; LS_WORKER: the worker's; LS_HOST: the host's, zeroed and shared by its workers
    int64_t bytes;
    void *out;          // to what gets it
    void *memory;       // once allocated, where it is neither the host's nor the device's
    ls_buffer *buffer;  // once there is one
} ls_want;

#define LS_WORKER (-1)
#define LS_HOST   (-2)

// Consecutive elements that are updated alike.
typedef struct ls_run {
    int64_t begin, end;
    int frozen;
    int statistic;
    int adapts;                  // 1: one kernel, whose norms update is told
    float momentum;              // of a statistic
    float rate;                  // of learning, times the step's
    ls_optimizer_params params;  // without weight decay where there is none
} ls_run;

// The votes of a step: the maximum over the host's lanes, and over all hosts. Two of them take turns.
typedef struct ls_ballot {
    _Alignas(64) _Atomic int host;
    _Atomic int all;
} ls_ballot;

// How far the lanes of a host are, for those who exchange while others compute. All of it only grows: steps are told apart by what it
// has grown to.
typedef struct ls_progress {
    _Alignas(64) _Atomic uint64_t ready;  // lanes that have handed the bucket over, in all steps
    // The step whose mean is there, of strategies that make it as a whole; of the votes: the step that cannot be ended.
    _Alignas(64) _Atomic uint64_t reduced;
    // Of strategies that are early, workers in all steps: that have gathered the bucket, and made their part of its copies.
    _Alignas(64) _Atomic uint64_t gathered;
    _Atomic uint64_t fresh;
    _Atomic uint64_t decided;  // of the votes: the step whose decision is known
} ls_progress;

// Why a worker of a host cannot go on with its exchange, for the others there: the first one's sentence.
typedef struct ls_broken {
    _Atomic int begun, whole;  // 1: somebody writes it; it is there
    int rank;                  // whose it is
    char sentence[800];
} ls_broken;

typedef struct ls_overlap ls_overlap;
typedef struct ls_topk ls_topk;

struct ls_strategy {
    const ls_strategy_ops *ops;
    void *impl;  // the strategy's own
    ls_strategy_config config;
    ls_window weights;  // host NULL: no lane but this worker's reads them
    ls_span copies;
    ls_window
        mean;  // (length): the mean gradient, of strategies that make it as a whole; those set makes_mean while planning
    int makes_mean;
    int64_t block;  // sums are made of so many floats at a time
    ls_roles roles;
    int lanes;                  // of the job
    int host_lanes, host_lane;  // of this host; the first of this worker among them
    int slots;                  // gradient buffers of each lane
    int any_order;              // ls_strategy_any_order
    int *host_first;            // (hosts + 1): the position of each host's first worker
    int host_pieces;            // the most pieces a host's run can have
    int64_t *bucket_ends;       // (bucket_count)
    int bucket_count;
    ls_topk *topk;  // NULL: none
    ls_run *runs;   // (run_count), the whole vector without gaps
    int run_count;
    ls_shared *common;       // what wants of LS_HOST are given
    ls_shared *gradients;    // (host_lanes, slots, length); of 0 bytes: no other process needs them
    ls_window slots_window;  // the same, or none
    ls_buffer *slots_buffer;
    ls_barrier *host_barrier;    // all lanes of this host
    ls_barrier *worker_barrier;  // the replicas of this worker
    ls_ballot *ballots;          // (2), of the host
    ls_progress *progress;  // (bucket_count + 1), of the host, with config.overlap: of each bucket, and of the votes
    ls_broken *broken;      // of the host, likewise
    ls_overlap *overlap;    // NULL: none
    char about[2][64];      // what lanes that exchange themselves wait for, in turn (ls_comm.about)
    int about_turn;
    // Of the worker that speaks for its host to others:
    int vote_rounds, vote_round;  // how many, and the first that is not over
    int *votes;                   // (vote_rounds, 2): sent, received
    ls_request *vote_requests;    // the same
    // Of a host, or of a worker with weights of its own, doubles: sums of squares of the mean gradient, (length / LS_SLICE_ALIGN), for
    // clipping; of the weights and what is applied to them, (length / LS_SLICE_ALIGN, 2), for layer-wise optimizers.
    ls_window squares, layer_squares;
    ls_lane **lane;  // (replicas)
    ls_want *wants;
    int want_count, want_capacity;
    int64_t reads;  // elements that this worker reads of each of its host's sums of other workers
};

struct ls_lane_step {
    ls_strategy *strategy;
    ls_lane *lane;
    int replica;
    ls_queue *queue;
    const ls_step_info *info;
    ls_step_times *times;
    uint64_t number;  // of the step, from 1, as this strategy counts them
    int alone;  // 1: the one thread that exchanges goes through the phases for each replica, the first one last: nobody to wait for
    float factor;  // of clipping
    int skips;     // 1: this step updates nothing
    // What was called last, for the blocks of a run that follow.
    const ls_run *called;
    int called_direction;
    ls_formula_call call;
};

// How often n nodes can be halved until each is alone.
static inline int ls__levels(int n) {
    int levels = 0;
    while (1 << levels < n) levels++;
    return levels;
}

static inline int ls__host_memory(const ls_strategy *s) { return s->config.device->ops->host_memory; }
// Whether the lanes of a host work on one weights vector.
static inline int ls__one_vector(const ls_strategy *s) { return s->ops->weights_shared && ls__host_memory(s); }
// What sums are in messages.
static inline int ls__rounds(const ls_strategy *s) { return s->config.compress == LS_COMPRESS_BF16; }
static inline ls_dtype ls__sum_dtype(const ls_strategy *s) { return ls__rounds(s) ? LS_DTYPE_BF16 : LS_DTYPE_F32; }
static inline int64_t ls__sum_bytes(const ls_strategy *s) { return (int64_t)ls_dtype_size(ls__sum_dtype(s)); }
static inline ls_span ls__block(const ls_lane_step *step, int index) {
    return ls_span_at(step->lane->blocks, index * step->strategy->block * 4);
}

// --- planning --------------------------------------------------------------------------------------------------------

// ls_strategy_plan of a strategy that is not in the list.
ls_status ls__strategy_plan_ops(const ls_strategy_ops *ops, const ls_strategy_config *config, ls_strategy **out);
// Plan a block of memory, zeroed when it comes; `out` stays where it is until then. Those of LS_HOST are the same on all workers of a
// host. 0 bytes: none. ls_strategy_destroy frees it.
ls_status ls__want(ls_strategy *strategy, ls_strategy_part part, int replica, int64_t bytes, void *out);  // a pointer's
ls_status ls__want_span(ls_strategy *strategy, ls_strategy_part part, int replica, int64_t bytes, ls_span *out);
ls_status ls__want_window(ls_strategy *strategy, ls_strategy_part part, int replica, int64_t bytes, ls_window *out);
void ls__wants_free(ls_strategy *strategy);
// Part `part` of `parts` of [begin, end), cut at multiples of LS_SLICE_ALIGN from begin.
void ls__share(int64_t begin, int64_t end, int part, int parts, int64_t *part_begin, int64_t *part_end);
static inline int64_t ls__bucket_begin(const ls_strategy *s, int bucket) {
    return bucket > 0 ? s->bucket_ends[bucket - 1] : 0;
}
static inline int64_t ls__slice_length(ls_slice slice) { return slice.end - slice.begin; }
// The elements in all slices of an owner: (bucket_count).
static inline int64_t ls__slices_length(const ls_strategy *s, const ls_slice *slices) {
    const ls_slice *last = &slices[s->bucket_count - 1];
    return last->first + ls__slice_length(*last);
}
// How a bucket is cut, as ls_strategy_ops.slice.
typedef void ls_cut(const ls_strategy *strategy, int lane, int bucket, int64_t *begin, int64_t *end);
// What the lanes [first, last] of the job, whose slices follow each other, have by `cut`: slices, (bucket_count).
void ls__slices(const ls_strategy *strategy, ls_cut *cut, int first, int last, ls_slice *slices);
// Whether working copies are those of config.weights_of.
int ls__shares_copies(const ls_strategy *strategy);
// Lanes, barriers, runs and what else all strategies have. Not collective.
ls_status ls__common_plan(ls_strategy *strategy);
ls_status ls__lanes_plan(ls_strategy *strategy);  // once the strategy has planned its own
void ls__common_free(ls_strategy *strategy);      // collective once allocated
// Makes strategy->runs of the configuration's segments. Errors: OUT_OF_MEMORY, INTERNAL.
ls_status ls__runs_create(ls_strategy *strategy);

// --- messages --------------------------------------------------------------------------------------------------------

// A tag for each kind of message of each bucket, since buckets need not be begun in order. MPI promises 15 bits.
typedef enum ls_message {
    LS_MESSAGE_GRADIENTS,
    LS_MESSAGE_MEAN,
    LS_MESSAGE_WEIGHTS,
    LS_MESSAGE_SQUARES,
    LS_MESSAGE_VOTE,
    LS_MESSAGES
} ls_message;
#define LS_MAX_BUCKETS 6000
static inline int ls__tag(ls_message message, int bucket) { return LS_MESSAGES * bucket + (int)message; }

// --- sums ------------------------------------------------------------------------------------------------------------

// The pieces of a run of micro-batches, and the rule of adding: those of the tree (tree.h), or with any_order one, and anything.
int ls__pieces(const ls_strategy *strategy, int64_t micro_batches, int64_t begin, int64_t end, ls_piece *pieces);
int ls__merge(const ls_strategy *strategy, int64_t micro_batches, ls_piece *stack, int *depth);
// The pieces of the run of micro-batches that hosts [first, end) compute in a step of V, in order. Returns how many.
int ls__hosts_pieces(const ls_strategy *strategy, int64_t micro_batches, int first, int end, ls_piece *pieces);
// The most pieces that they have, in a full step and every shorter one.
int ls__most_pieces(const ls_strategy *strategy, int first, int end);
int ls__host_piece_count(const ls_strategy *strategy, int64_t micro_batches, int host);
// Adds what the tree has for siblings once the running micro-batch of a lane ends, of elements [begin, end): its stack stays as it is.
ls_status ls__gradient_merge(ls_strategy *strategy, int replica, ls_queue *queue, const ls_step_info *info,
                             int64_t begin, int64_t end);
// The sums that lanes [first, end) of this host hold at the end of a step of V, in tree order. Returns how many.
int ls__lanes_sources(const ls_strategy *strategy, int64_t micro_batches, int first, int end, ls_source *sources);
static inline int ls__host_sources(const ls_strategy *s, int64_t micro_batches, ls_source *sources) {
    return ls__lanes_sources(s, micro_batches, 0, s->host_lanes, sources);
}
// The sums of other hosts [first, end), received behind one another: (pieces, n) of ls__sum_dtype for elements from `begin` on.
int ls__received_sources(const ls_strategy *strategy, int64_t micro_batches, int first, int end, ls_window data,
                         int64_t begin, int64_t n, ls_source *sources);
// What follows works on elements [offset, offset + n) of the vector, n <= strategy->block, and is in the queue on return.
// Where the device can read a window: there, or else in the lane's block `block`.
ls_status ls__bring(ls_lane_step *step, ls_window window, int64_t n, int block, ls_span *out);
// The sum of two siblings, which out may be one of.
static inline ls_status ls__add(const ls_strategy *s, ls_queue *queue, ls_span out, ls_span a, ls_span b, int64_t n) {
    const ls_vector_ops *vector = ls__vector(queue);
    return (ls__rounds(s) ? vector->add_bf16 : vector->add)(queue, out, a, b, n);
}
// Adds up the sources as far as the tree allows. results[k] are the sums of piece k, in the lane's blocks or in a source. *pieces: how
// many remain (1 when the sources are the whole tree).
ls_status ls__reduce_block(ls_lane_step *step, const ls_source *sources, int count, int64_t offset, int64_t n,
                           ls_span *results, int *pieces);
// The sum of the lane's sources, which are the whole tree: in the lane's blocks or in a source.
ls_status ls__sum_block(ls_lane_step *step, int64_t offset, int64_t n, ls_span *sum);
// The mean of a block of sums from element `offset` of the vector on, into out, which may be sum: without the loss scale.
ls_status ls__scale_mean(ls_lane_step *step, int64_t offset, ls_span out, ls_span sum, int64_t n);
static inline float ls__gradient_scale(const ls_step_info *info) {
    return info->loss_scale > 0 ? (float)info->loss_scale : 1;
}
// The mean gradient, from the same.
ls_status ls__mean_block(ls_lane_step *step, int64_t offset, int64_t n, ls_span out);
// A block of sums, into a message: n of ls__sum_dtype at `out`, on the host once the queue is synchronized.
ls_status ls__send_block(ls_lane_step *step, void *out, ls_span sums, int64_t n);
// Adds up this host's pieces of elements [begin, end), this replica's share of it, into a message: (pieces, end - begin) of ls__sum_dtype.
ls_status ls__host_partials(ls_lane_step *step, int64_t begin, int64_t end, void *out);
// Where lanes of other workers can see this lane's sums of elements [begin, end) once the queue is synchronized.
ls_status ls__publish(ls_lane_step *step, int64_t begin, int64_t end);

// --- norms -----------------------------------------------------------------------------------------------------------

// Whether the norm of the mean gradient has to be known before anything is updated.
static inline int ls__clips(const ls_strategy *s) { return s->config.clip_norm > 0 || s->config.skip_not_finite; }
static inline int ls__layerwise(const ls_strategy *s) { return s->config.optimizer->layerwise; }
// For clipping: sums of squares of a block of the mean gradient, into strategy->squares once the queue is synchronized.
ls_status ls__note_squares(ls_lane_step *step, int64_t offset, int64_t n, ls_span g);
// What the mean gradient must be multiplied by, and whether all of it and the statistics are finite, once strategy->squares is complete.
float ls__clip_factor(const ls_strategy *strategy, int *finite);
// Multiplies a block of the mean gradient by it, into out, which may be g.
ls_status ls__clip(ls_lane_step *step, int64_t offset, int64_t n, ls_span g, ls_span out);
// For layer-wise optimizers: sums of squares of a block of the weights and of what is applied to them, into strategy->layer_squares
// once the queue is synchronized.
ls_status ls__note_layers(ls_lane_step *step, int64_t offset, int64_t n, ls_span w, ls_span g);
// The norms of all parameters with elements in [begin, end), into the lane's, once strategy->layer_squares is complete.
void ls__find_norms(const ls_strategy *strategy, ls_lane *lane, int64_t begin, int64_t end);

// --- updating --------------------------------------------------------------------------------------------------------

// The run that element `offset` lies in.
const ls_run *ls__run_at(const ls_strategy *strategy, int64_t offset);
// Where what a run has of elements before `end` ends.
static inline int64_t ls__run_end(const ls_run *run, int64_t end) { return run->end < end ? run->end : end; }
// The next stretch of [*begin, end) that is not frozen, at most `maximum` floats of it: *begin becomes where it begins. Returns its
// length; 0: there is none.
int64_t ls__trained(const ls_strategy *strategy, int64_t *begin, int64_t end, int64_t maximum);
// What an optimizer is applied to: elements [offset, offset + n) of the vector, spans as ls_update_span says.
typedef struct ls_update_block {
    int64_t offset, n;
    ls_span x[LS_UPDATE_SPANS];
} ls_update_block;
// A block of the mean gradient with the L2 penalty's, into out, which may be g.
ls_status ls__add_l2(ls_lane_step *step, int64_t at, int64_t n, ls_span g, ls_span out);
// What a layer-wise optimizer measures and applies: its direction.
ls_status ls__direct(ls_lane_step *step, const ls_update_block *block);
// Updates the elements, each as its run wants it.
ls_status ls__update(ls_lane_step *step, const ls_update_block *block);

// What the driver does to a lane's slice of a bucket that is reduced: keeps its mean gradient and notes its squares; keeps what a layer-wise
// optimizer is going to apply and notes its norms; updates it.
ls_status ls__slice_measure(ls_lane_step *step, int bucket);
ls_status ls__slice_direct(ls_lane_step *step, int bucket);
ls_status ls__slice_update(ls_lane_step *step, int bucket);

// --- votes -----------------------------------------------------------------------------------------------------------

// With the vote travels how far the exchange's thread was when backward ended (overlap.c), for the order of its buckets: all take one worker's.
ls_status ls__votes_plan(ls_strategy *strategy);
void ls__votes_free(ls_strategy *strategy);
void ls__vote_cast(ls_lane_step *step, int vote, int reached);  // before the first barrier of the step
ls_status ls__vote_send(ls_lane_step *step);                    // after it: hosts tell each other
ls_status ls__vote_arrived(ls_lane_step *step, int *peer);      // whether the next would not wait: *peer is -1
ls_status ls__vote_receive(ls_lane_step *step);                 // before the last barrier
void ls__vote_fail(ls_lane_step *step);  // before the last barrier: what other hosts say does not count any more
ls_vote ls__vote_decision(const ls_lane_step *step);  // after it
int ls__vote_reached(const ls_lane_step *step);       // likewise

// --- behind backward -------------------------------------------------------------------------------------------------

// overlap.c. The thread is started once there is memory. Errors: OUT_OF_MEMORY.
ls_status ls__overlap_plan(ls_strategy *strategy);
ls_status ls__overlap_start(ls_strategy *strategy);
void ls__overlap_free(ls_strategy *strategy);
// The lane has handed `bucket` over, or, bucket_count, cast its vote: what it wrote before is seen by who acts on it.
void ls__overlap_tell(ls_lane_step *step, int bucket);
// The lane has handed over all that it has of the step.
void ls__overlap_end(ls_lane_step *step);
// Waits until all is done that goes on behind backward, votes included. Afterwards the main thread may communicate.
ls_status ls__overlap_wait(ls_lane_step *step);
// Waits until the step's votes are there. Returns whether they are: not where communication has failed.
int ls__overlap_decided(ls_lane_step *step);
// How many buckets were begun when backward of the latest step ended, for its vote.
int ls__overlap_reached(ls_strategy *strategy);
// Whether communication has failed on a worker of this host, so that the step of this number cannot be ended: once all of them have waited.
int ls__overlap_broken(const ls_strategy *strategy, uint64_t number);
// Whether it ends with the new weights; where norms have to be known first, it ends with sums on their way.
static inline int ls__overlap_updates(const ls_strategy *s) {
    return s->overlap && !ls__clips(s) && !s->config.optimizer->layerwise;
}

// Whether steps end before their weights are home (strategy.h).
static inline int ls__early(const ls_strategy *s) {
    return s->config.early && ls__overlap_updates(s) && ls__host_memory(s);
}

// step.c: what the lane's slices had that is no finite number, once all of them are updated.
ls_status ls__read_found(const ls_lane_step *step);
// step.c: all that is done to a bucket once it is reduced, as far as it does not depend on other buckets.
ls_status ls__reduce_end(ls_lane_step *step, int bucket);

// --- time ------------------------------------------------------------------------------------------------------------

// [start, end) was spent in `phase`.
static inline void ls__spent(ls_step_times *times, ls_step_phase phase, double start, double end) {
    times->seconds[phase] += end - start;
    if (ls_trace_on(times->trace)) ls_trace_add(times->trace, times->trace_first + (int)phase, 0, start, end);
}

// The time since times->since, which becomes now, was spent in `phase`.
static inline void ls__lap(ls_step_times *times, ls_step_phase phase) {
    double now = ls_clock();
    ls__spent(times, phase, times->since, now);
    times->since = now;
}

static inline void ls__wait(ls_barrier *barrier, ls_step_times *times, ls_step_phase phase) {
    ls_barrier_wait(barrier);
    ls__lap(times, phase);
}

// The replicas of a worker wait for each other.
static inline void ls__meet(const ls_lane_step *step, ls_step_phase phase) {
    if (!step->alone) ls__wait(step->strategy->worker_barrier, step->times, phase);
}

// Keeps the first failure and its place.
static inline void ls__keep(ls_status *first, ls_status status) {
    if (*first == LS_OK) *first = status;
}

// --- owners ----------------------------------------------------------------------------------------------------------

// owners.c: the sums of a bucket have owners, each worker of the job a run of it; who on other hosts speaks to them, and how what those have comes here.

// A worker of another host: what this worker sends it of its host's sums.
typedef struct ls_served {
    int rank;
    ls_slice *slices;  // (bucket_count): what it owns
    char *partials;    // (host_pieces, length) of each slice behind one another, as sent: what this host has for it
} ls_served;

// Another host, as it is seen by what this worker owns.
typedef struct ls_remote {
    int rank;            // the worker there that speaks for it
    ls_window partials;  // as above: what that host has; none on this worker's own host
} ls_remote;

typedef struct ls_owners {
    ls_slice *slices;   // (bucket_count): what this worker owns
    ls_served *served;  // (served_count), of the next host first; NULL: there is one host
    int served_count;
    ls_remote *remotes;  // (hosts); NULL: there is one
} ls_owners;

// Messages on their way.
typedef struct ls_messages {
    ls_request *requests;
    int count;
} ls_messages;

// Whose what is, as `cut` has it for the lanes; asks for the memory of what is sent and received, and says what is read. `out` is freed, whatever comes of it.
// Errors: OUT_OF_MEMORY.
ls_status ls__owners_find(ls_strategy *strategy, ls_cut *cut, ls_owners *out);
void ls__owners_free(ls_owners *owners);
// Other hosts' sums of what this worker owns of a bucket are going to be received; by one replica.
ls_status ls__owners_receive(ls_strategy *strategy, const ls_owners *owners, int64_t micro_batches, int bucket,
                             ls_messages *messages);
// This host's sums of what others own of a bucket go out; by all replicas, who wait for each other.
ls_status ls__owners_send(ls_lane_step *step, const ls_owners *owners, int bucket, ls_messages *messages);
// The lane's sources become all there is for what this worker owns of a bucket: what this host's lanes hold, and what has come.
void ls__owners_sources(const ls_lane_step *step, const ls_owners *owners, int bucket);
// `count` elements from or to `rank`, unless there are none.
ls_status ls__receive(ls_strategy *strategy, ls_messages *messages, void *data, int64_t count, ls_dtype dtype, int rank,
                      int tag);
ls_status ls__send(ls_strategy *strategy, ls_messages *messages, const void *data, int64_t count, ls_dtype dtype,
                   int rank, int tag);
ls_status ls__wait_messages(ls_strategy *strategy, ls_messages *messages);

// Every lane has a slice of every bucket.
ls_cut ls__owners_all;
// On every host, that is: its lanes share each bucket among themselves.
ls_cut ls__owners_each_host;

// allreduce.c, which works with any slices: those who own some sum and update them in the one vector of their host, and send them to the
// other hosts. Strategies that differ from it in slices and roles only are tables of these phases.
ls_status ls__owners_plan(ls_strategy *strategy);
void ls__owners_destroy(ls_strategy *strategy);
ls_status ls__owners_reduce_begin(ls_lane_step *step, int bucket);
ls_status ls__owners_arrived(ls_lane_step *step, int bucket, int *peer);
ls_status ls__owners_reduce_end(ls_lane_step *step, int bucket);
ls_status ls__owners_share(ls_lane_step *step, double *units, int columns);
ls_status ls__owners_gather_begin(ls_lane_step *step, int bucket);
ls_status ls__owners_gather_end(ls_lane_step *step, int bucket);
#define LS_OWNERS_PHASES                                                                                               \
    .synchronous = 1, .weights_shared = 1, .plan = ls__owners_plan, .destroy = ls__owners_destroy,                     \
    .reduce_begin = ls__owners_reduce_begin, .arrived = ls__owners_arrived, .reduce_end = ls__owners_reduce_end,       \
    .share = ls__owners_share, .gather_begin = ls__owners_gather_begin, .gather_end = ls__owners_gather_end

// totals.c: for strategies of LS_COMPRESS_BF16 between hosts.
typedef struct ls_totals {
    ls_window total;  // (length), of the host: of the whole tree, as sent
    // With config.overlap: (bucket_count, local_size), of the host: the step in which a worker last had what it takes.
    _Atomic uint64_t *home;
} ls_totals;
ls_status ls__totals_want(ls_strategy *strategy, ls_totals *totals);
ls_window ls__total_at(const ls_strategy *strategy, const ls_totals *totals, int64_t at);
// The whole tree of elements [from, to), this replica's share of them or all, from the lane's sources into the total.
ls_status ls__totals_add_up(ls_lane_step *step, const ls_totals *totals, int64_t from, int64_t to);
// This worker has what it takes of a bucket. *peer, if it is -1: a worker of this host that has not.
void ls__totals_home(const ls_lane_step *step, const ls_totals *totals, int bucket, int *peer);
// The lane's one source is the bucket's total.
void ls__totals_source(const ls_lane_step *step, const ls_totals *totals, int bucket);

// halving.c: allreduce with messages to a few of many hosts; the second one as the next.
extern const ls_strategy_ops ls__strategy_allreduce_halving, ls__strategy_allreduce_halving_bf16;
// allreduce_bf16.c: sums both ways, which are half as long as weights; each host updates everything.
extern const ls_strategy_ops ls__strategy_allreduce_bf16;
// allreduce_topk.c: what is not zero goes to all hosts, each of which updates everything.
extern const ls_strategy_ops ls__strategy_allreduce_topk;

extern const ls_strategy_ops ls__strategy_allreduce, ls__strategy_reduce_broadcast, ls__strategy_mirrored,
    ls__strategy_central, ls__strategy_tree, ls__strategy_parameter_server;

#endif
