// What all strategies share: the gradient slots of a host, its barriers, and adding pieces up in the tree.
#ifndef LS_STRATEGY_STRATEGY_IMPL_H
#define LS_STRATEGY_STRATEGY_IMPL_H

#include "base/barrier.h"
#include "base/clock.h"
#include "strategy/strategy.h"

// Sums go through the caches in blocks of so many floats: a few of them fit the first level, and a block is large enough
// that reading the clock around it costs nothing.
#define LS_BLOCK 4096

// A node of the tree and where its sum lies: data[i] is element first + i of the vector.
typedef struct ls_source {
    ls_piece piece;
    const float *data;
    int64_t first;
} ls_source;

// What one replica keeps; in memory of its own, so that replicas do not disturb each other's caches.
typedef struct ls_lane {
    ls_piece stack[LS_TREE_MAX_PIECES];  // the running sums; stack[i] lies in slot i
    int depth;
    ls_source *sources;  // (micro_batches): room to list what a sum is made of
    float *blocks;       // (block_count, LS_BLOCK): partial sums; the first is the strategy's
    float *state[LS_MAX_OPTIMIZER_STATE];
    float *mean;         // of its slice, where the strategy keeps that
    double (*norms)[2];  // (runs): of layer-wise optimizers, what update is told; of the runs this lane updates
} ls_lane;

// A block of memory that is going to be: decided while planning, allocated afterwards.
typedef struct ls_want {
    ls_strategy_part part;
    int replica;  // whose it is; LS_WORKER: the worker's; LS_HOST: the host's, zeroed and shared by its workers
    int64_t bytes;
    void *out;     // a pointer to the pointer that gets it
    void *memory;  // once allocated, where it is not the host's
} ls_want;

#define LS_WORKER (-1)
#define LS_HOST   (-2)

// Consecutive elements that are updated alike.
typedef struct ls_run {
    int64_t begin, end;
    int statistic;
    int adapts;                  // 1: one kernel, whose norms update is told
    float momentum;              // of a statistic
    ls_optimizer_params params;  // without weight decay where there is none
} ls_run;

typedef struct ls_strategy_base {
    ls_strategy head;
    int lanes;                  // of the job
    int host_lanes, host_lane;  // of this host; the first of this worker among them
    int slots;                  // gradient buffers of each lane
    int *host_first;            // (hosts + 1): the position of each host's first worker
    int host_pieces;            // the most pieces a host's run can have
    ls_shared *common;          // the barrier, sums of squares, then what the strategy asked for
    ls_shared *gradients;       // (host_lanes, slots, length)
    ls_barrier *host_barrier;   // all lanes of this host
    double *squares;            // (length / LS_SLICE_ALIGN), for clipping: sums of squares of the mean gradient
    double
        *layer_squares;  // (length / LS_SLICE_ALIGN, 2), for layer-wise optimizers: of the weights, of what is applied
    ls_barrier *worker_barrier;  // the replicas of this worker
    ls_lane **lane;              // (replicas)
    ls_run *runs;                // (run_count), the whole vector without gaps
    int run_count;
    ls_want *wants;
    int want_count, want_capacity;
    int64_t reads;  // elements that this worker reads of each of its host's sums of other workers
} ls_strategy_base;

static inline ls_strategy_base *ls__base(ls_strategy *strategy) { return (ls_strategy_base *)strategy; }

// Plans what all strategies share; `base` starts with zeroes. Not collective.
ls_status ls__base_plan(ls_strategy_base *base, const ls_strategy_ops *ops, const ls_strategy_config *config);
// Plans a block of memory, zeroed when it comes; `out` is a pointer to a pointer that stays where it is. Those of LS_HOST are
// the same on all workers of a host. 0 bytes: none. base_destroy frees it.
ls_status ls__want(ls_strategy_base *base, ls_strategy_part part, int replica, int64_t bytes, void *out);
// Optimizer state of replica for n elements.
ls_status ls__want_state(ls_strategy_base *base, int replica, int64_t n);
void ls__base_destroy(ls_strategy_base *base);  // Collective once allocated; does not free base itself

// Part `part` of `parts` of [begin, end), cut at multiples of LS_SLICE_ALIGN from begin.
void ls__share(int64_t begin, int64_t end, int part, int parts, int64_t *part_begin, int64_t *part_end);
// The run of micro-batches a host computes in a step of V.
void ls__host_run(const ls_strategy_base *base, int64_t micro_batches, int host, int64_t *begin, int64_t *end);
int ls__host_piece_count(const ls_strategy_base *base, int64_t micro_batches, int host);
// The sums that the lanes of this host hold at the end of a step of V, in tree order. Returns how many.
int ls__host_sources(const ls_strategy_base *base, int64_t micro_batches, ls_source *sources);
// The sums of another host, received behind one another: (pieces, n) for elements from `begin` on.
int ls__received_sources(const ls_strategy_base *base, int64_t micro_batches, int host, const float *data,
                         int64_t begin, int64_t n, ls_source *sources);

// Adds up elements [offset, offset + n) of the sources as far as the tree allows; n <= LS_BLOCK. results[k] points at the
// sums of piece k, in the lane's blocks or in a source. Returns how many pieces remain (1 when the sources are the whole tree).
int ls__reduce_block(ls_lane *lane, int64_t micro_batches, const ls_source *sources, int count, int64_t offset,
                     int64_t n, const float **results);
// The mean gradient of elements [offset, offset + n), from the lane's sources, which are the whole tree.
void ls__mean_block(ls_lane *lane, const ls_step_info *info, int count, int64_t offset, int64_t n, float *out);
void ls__scale(float *out, const float *a, float factor, int64_t n);  // out may be a
// For clipping: sums of squares of elements [offset, offset + n) of the mean gradient g, (n), into base->squares.
void ls__note_squares(ls_strategy_base *base, int64_t offset, int64_t n, const float *g);
// What the mean gradient must be multiplied by, once base->squares is complete.
float ls__clip_factor(const ls_strategy_base *base);
// Multiplies elements [offset, offset + n) of the mean gradient g, (n), by it, into out, which may be g.
void ls__clip(const ls_strategy_base *base, int64_t offset, int64_t n, const float *g, float factor, float *out);
// Adds up this host's pieces of elements [begin, end), this replica's share of it, into out: (pieces, end - begin).
void ls__host_partials(ls_strategy_base *base, int replica, int64_t micro_batches, int64_t begin, int64_t end,
                       float *out);
// For layer-wise optimizers: sums of squares of elements [offset, offset + n) of the weights and of what is applied to them, w
// and g, (n) each, into base->layer_squares.
void ls__note_layers(ls_strategy_base *base, int64_t offset, int64_t n, const float *w, const float *g);
// The norms of all parameters with elements in [begin, end), into the lane's, once base->layer_squares is complete.
void ls__find_norms(const ls_strategy_base *base, ls_lane *lane, int64_t begin, int64_t end);
// What a layer-wise optimizer measures and applies: its direction of the elements from `offset` of the vector on that `update`
// describes, into out, (n), not update.g.
void ls__direct(const ls_strategy_base *base, ls_update update, int64_t offset, float *out);
// Makes base->runs of the configuration's segments. Errors: OUT_OF_MEMORY.
ls_status ls__runs_create(ls_strategy_base *base);
static inline int ls__layerwise(const ls_strategy_base *base) { return base->head.config.optimizer->layerwise; }
// The run that element `offset` lies in.
const ls_run *ls__run_at(const ls_strategy_base *base, int64_t offset);
// Where what a run has of elements before `end` ends.
static inline int64_t ls__run_end(const ls_run *run, int64_t end) { return run->end < end ? run->end : end; }
// Updates the elements from `offset` of the vector on that `update` describes, each as its run wants it.
void ls__update(const ls_strategy_base *base, const ls_lane *lane, ls_update update, int64_t offset);
// Ends a step: meets the lanes that share the weights vector at `barrier`, which counts as `meeting`, and refreshes the working
// copies with them, as part `part` of `parts`.
void ls__finish(ls_strategy_base *base, ls_barrier *barrier, ls_step_phase meeting, int part, int parts,
                ls_step_times *times);

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

extern const ls_strategy_ops ls__strategy_allreduce, ls__strategy_reduce_broadcast;

#endif
