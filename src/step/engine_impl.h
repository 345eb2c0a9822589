// The engine from inside.
//   engine.c    planning: mesh, programs, who keeps what
//   places.c    regions become memory
//   run_host.c  the executor: lanes, their waits and votes
//   progress.c  the progress thread
//   messages.c  SEND and RECEIVE
//   sums.c      ADD and what it takes: nodes brought together, block by block
//   updates.c   MEASURE, DIRECT, UPDATE: the vector run by run, each with its formula
//   norms.c     sums of squares in a fixed tree
//   topk.c      leaves and messages of LS_COMPRESS_TOPK
//   visit.c     state from outside
#ifndef LS_STEP_ENGINE_IMPL_H
#define LS_STEP_ENGINE_IMPL_H

#include <pthread.h>

#include "base/barrier.h"
#include "base/clock.h"
#include "step/emitter.h"
#include "step/engine.h"
#include "step/signal.h"

// Sums go through the caches in blocks of so many floats: a few of them fit the first level, and a
// block is large enough that its calls cost little around it.
#define LS_BLOCK 4096
// Of each thread of a lane's team, which goes through a block together: several of them fit the
// second level, and are worth its meeting.
#define LS_TEAM_BLOCK (1 << 14)
// On devices whose memory is not host-accessible, where each call costs more.
#define LS_FAR_BLOCK (1 << 18)

enum {
    LS_MAX_PROGRAMS = 16,
    LS_FEW_COUNTS = 64
};  // up to so many micro-batches memory is found by making all programs

// Where a region is: on the host, on the device, or both, where the device's memory is the host's.
typedef struct ls_place {
    char *host;
    ls_span device;  // no buffer: not there
    void *memory;    // of this process's own
    ls_buffer *buffer;
    int borrowed;  // 1: another engine's
} ls_place;

// Consecutive elements that are updated alike.
typedef struct ls_run {
    int64_t begin, end;
    int frozen;
    int statistic;
    int segment;                 // of a kernel of a layer-wise optimizer: its number among norms; else -1
    float momentum;              // of a statistic
    float rate;                  // of learning, times the step's
    ls_optimizer_params params;  // without weight decay where there is none
} ls_run;

typedef struct ls_norms ls_norms;
typedef struct ls_topk ls_topk;
typedef struct ls_progress ls_progress;

// What a thread needs to do tasks.
typedef struct ls_hand {
    ls_span blocks;     // (block_count, block): partial sums; the first is for the mean gradient
    ls_span packed;     // (block): bf16, on the way into a message or out of one
    ls_span unit_sums;  // (block / LS_SLICE_ALIGN, 2): doubles
    double *host_sums;  // the same on the host, where the device's memory is not
    float *scratch;     // (nodes, LS_TOPK_CHUNK): on the way into sparse messages, likewise
    // What was called last, for the blocks of a run that follow.
    const ls_run *called;
    int called_direction;
    int64_t called_step;
    ls_formula_call call;
} ls_hand;

typedef struct ls_lane ls_lane;

// A thread at work on a step.
typedef struct ls_worker {
    ls_engine *engine;
    ls_hand *hand;
    ls_queue *queue;
    const ls_step_info *info;
    const ls_program *program;
    uint64_t number;  // of the step, from 1, as this engine counts them
    ls_step_times *times;
    int lane;  // -1: the progress thread
} ls_worker;

// A queue of tasks that communicates, in a step.
typedef struct ls_channel {
    int task;              // the next one
    int posted;            // receives before this task are posted
    int sent;              // sends before this task have left
    ls_request *requests;  // (request_count): one for each task, of whatever program
    int request_count;
} ls_channel;

// A lane in a step.
typedef struct ls_lane_step {
    ls_worker w;
    ls_lane *lane;
    ls_step_info info;
    ls_step_client client;
    ls_status status;  // the first failure, and its sentence
    char failure[1024];
    ls_channel channel;  // its queue; it communicates where it has requests
    int runs;            // 1: kernels are running
    int flying;          // 1: what it has sent may not have left
    int64_t end;         // of its micro-batches
    ls_vote decision;
} ls_lane_step;

// What one lane keeps; in memory of its own, so that lanes do not disturb each other's caches.
struct ls_lane {
    int64_t steps;    // it has been through
    int64_t skipped;  // of them, those that have updated nothing
    ls_hand hand;
    ls_span state[LS_MAX_OPTIMIZER_STATE];  // of its slices
    ls_span slow;                           // likewise, with config.lookahead
    int64_t kept;                           // elements of its slices
    ls_span found;        // an int64: 1 + the first element of new weights that is no finite number; 0: none
    int64_t *found_host;  // the same on the host, as of the latest step
    double (*norms)[2];   // of layer-wise optimizers: of each adapted parameter, its weights' and its direction's
    float factor;         // of clipping
    int skips;            // 1: this step updates nothing; known, as the factor is, from CLIP on to the next one
    // (leaves, length), with LS_COMPRESS_TOPK: of the micro-batches from first_leaf on, in parts of
    // the mean gradient. Where steps may be left out there are two of each (step/topk.h).
    ls_span residuals[2];
    char *turn;  // (leaves): which of the two counts
    int64_t first_leaf, leaves;
    int home;           // 1: the latest step is whole, and known to be
    ls_lane_step step;  // the running one
};

// The votes of a step: the maximum over the host's lanes, and over all hosts. Three of them take
// turns.
typedef struct ls_ballot {
    _Alignas(64) _Atomic int host;
    _Atomic int all;
} ls_ballot;

// What the workers of a host share beside regions.
typedef struct ls_common {
    ls_barrier barrier;
    ls_ballot ballots[3];
    _Atomic int failed[2];       // steps that a task of this host has failed in, in turn: 1 + its number
    _Atomic int broken;          // 1: a worker's messages have failed; nothing is waited for any more
    _Atomic int writing, whole;  // whose sentence it is; it is there
    int rank;
    char sentence[800];
} ls_common;

// Memory that is no region: decided while planning, allocated afterwards.
typedef struct ls_want {
    ls_engine_part part;
    int lane;  // -1: the worker's
    int device;
    int64_t bytes;
    void *out;  // a pointer's, or a span's
    void *memory;
    ls_buffer *buffer;
} ls_want;

struct ls_engine {
    const ls_strategy *strategy;
    ls_engine_config config;
    ls_mesh *mesh;
    ls_emit_config emit;
    int64_t *bucket_ends;
    int *forward_order;
    int64_t *counts;                        // (emit.count_count): micro-batches of steps, the full one first
    ls_program *programs[LS_MAX_PROGRAMS];  // (program_count)
    int program_count, replaced;
    ls_regions regions;
    ls_place *places;  // (regions.count)
    int rank;          // of the mesh: the position of this worker
    int64_t block;     // sums are made of so many floats at a time
    int far, rounds;
    int slots;  // gradient buffers of each lane
    ls_run *runs;
    int run_count;
    ls_norms *norms;
    ls_topk *topk;
    int64_t *columns;
    ls_shared *shared;  // the host's regions, but gradients
    ls_shared *gradients;
    ls_common *common;
    ls_signal *host_signals, *own_signals;
    ls_lane **lane;
    ls_hand progress_hand;
    ls_progress *progress;  // NULL: none
    ls_request *requests;   // of lane 0, where it communicates: one for each task of its queue
    int request_count;
    ls_want *wants;
    int want_count, want_capacity;
    char about[2][64];  // what lane 0 waits for, in turn (ls_comm.about)
    int about_turn;
};

// --- planning --------------------------------------------------------------------------------------------------------

// Memory, zeroed when it comes; `out` stays where it is until then. 0 bytes: none.
// ls_engine_destroy frees it.
ls_status ls__want(ls_engine *engine, ls_engine_part part, int lane, int64_t bytes, void *out);
ls_status ls__want_span(ls_engine *engine, ls_engine_part part, int lane, int64_t bytes, ls_span *out);
int ls__shares_copies(const ls_engine *engine);
ls_status ls__places_plan(ls_engine *engine);
ls_status ls__places_allocate(ls_engine *engine);
void ls__places_free(ls_engine *engine);
ls_status ls__runs_create(ls_engine *engine);
ls_status ls__norms_create(ls_engine *engine);
void ls__norms_free(ls_norms **norms);
ls_status ls__topk_plan(ls_engine *engine);
ls_status ls__topk_plan_lane(ls_engine *engine, int lane);
void ls__topk_free(ls_engine *engine);
ls_status ls__progress_plan(ls_engine *engine);
ls_status ls__progress_start(ls_engine *engine);
void ls__progress_free(ls_engine *engine);

static inline int ls__clips(const ls_engine *e) { return e->config.clip_norm > 0 || e->config.skip_not_finite; }
static inline int ls__layerwise(const ls_engine *e) { return e->config.optimizer->layerwise; }
static inline int ls__one_vector(const ls_engine *e) { return e->emit.ways.weights_shared && !e->far; }
static inline int64_t ls__size_of(const ls_region *r) { return (int64_t)ls_dtype_size(r->dtype); }

// --- tasks -----------------------------------------------------------------------------------------------------------

static inline const ls_operand *ls__input(const ls_worker *w, const ls_task *t, int i) {
    return &w->program->operands[t->input + i];
}
static inline const ls_operand *ls__output(const ls_worker *w, const ls_task *t, int i) {
    return &w->program->operands[t->output + i];
}
// Where element `delta` of a task is in the region of an operand.
ls_place ls__place_at(const ls_engine *engine, const ls_operand *operand, int64_t delta);
static inline ls_span ls__block(const ls_worker *w, int index) {
    return ls_span_at(w->hand->blocks, index * w->engine->block * 4);
}
// Keeps the first failure and its place.
static inline void ls__keep(ls_status *first, ls_status status) {
    if (*first == LS_OK) *first = status;
}

// sums.c. What follows works on `n` elements from element `delta` of the task on, n <=
// engine->block, and is in the queue on return. Where the device can read an operand as floats:
// there, or in the block `block`.
ls_status ls__bring(ls_worker *w, const ls_task *t, const ls_operand *o, int64_t delta, int64_t n, int block,
                    ls_span *out);
// Adds a task's inputs as far as the tree allows: results[k] are the sums of node k, in blocks or
// in an input. Returns how many through *count.
ls_status ls__reduce_block(ls_worker *w, const ls_task *t, int64_t delta, int64_t n, ls_span *results, int *count);
// The mean gradient of inputs that are the whole tree, or its part; without the loss scale.
ls_status ls__mean_block(ls_worker *w, const ls_task *t, int64_t delta, int64_t n, ls_span out);
ls_status ls__add(ls_worker *w, const ls_task *t);
ls_status ls__copy(ls_worker *w, const ls_task *t);
static inline float ls__gradient_scale(const ls_step_info *info) {
    return info->loss_scale > 0 ? (float)info->loss_scale : 1;
}

// updates.c
const ls_run *ls__run_at(const ls_engine *engine, int64_t offset);
static inline int64_t ls__run_end(const ls_run *run, int64_t end) { return run->end < end ? run->end : end; }
// The next stretch of [*begin, end) that is not frozen, at most `maximum` floats of it: *begin
// becomes where it begins. Returns its length; 0: none.
int64_t ls__trained(const ls_engine *engine, int64_t *begin, int64_t end, int64_t maximum);
ls_status ls__measure(ls_worker *w, const ls_task *t);
ls_status ls__direct(ls_worker *w, const ls_task *t);
ls_status ls__update(ls_worker *w, const ls_task *t);

// norms.c
typedef struct ls_norm_cursor ls_norm_cursor;
// For clipping: squares of elements [offset, offset + n) of the vector, at x; the slice of a task
// in order, without what is not counted.
ls_status ls__norms_begin(ls_worker *w, const ls_task *t, int layers, ls_norm_cursor *cursor);
ls_status ls__norms_note(ls_worker *w, ls_norm_cursor *cursor, int64_t offset, const ls_span *x, int64_t n);
void ls__norms_end(ls_norm_cursor *cursor);
// The squares of the mean gradient, summed over all that is trained; *statistics: over the
// statistics, of those that were noted.
double ls__norms_sum(const ls_engine *engine, double *statistics);
// What the mean gradient must be multiplied by, and whether all of it and the statistics are
// finite.
float ls__norms_clip(const ls_engine *engine, int *finite);
void ls__norms_of_layers(const ls_engine *engine, double (*norms)[2]);
struct ls_norm_cursor {
    const ls_engine *engine;
    double *out;  // the next sum of this slice
    int layers;   // 1: of two columns
    int segment;  // that is open; -1: none
    ls_piece stack[LS_TREE_MAX_PIECES];
    double sums[LS_TREE_MAX_PIECES][2];
    int depth;
};

// topk.c
ls_status ls__topk_select(ls_worker *w, const ls_task *t);
ls_status ls__topk_bring(ls_worker *w, const ls_task *t, const ls_operand *o, int64_t delta, int64_t n, ls_span out);
ls_status ls__topk_encode(ls_worker *w, const ls_task *t);
void ls__topk_taken(ls_engine *engine, int lane, int64_t micro_batches);
ls_span ls__topk_residual(const ls_engine *engine, const ls_lane *lane, int64_t leaf);

// messages.c
ls_status ls__send(ls_worker *w, const ls_task *t, ls_request *request);
ls_status ls__receive(ls_worker *w, const ls_task *t, ls_request *request);

// engine.c. The program of a step of so many micro-batches, which may have to be made. Errors:
// OUT_OF_MEMORY, INTERNAL (there is none).
ls_status ls__program_of(ls_engine *engine, int64_t micro_batches, const ls_program **out);
// run_host.c. Does a task that waits for nothing.
ls_status ls__do_task(ls_worker *w, const ls_task *t);
ls_signal *ls__signal_of(const ls_engine *engine, const ls_program *program, int signal);
static inline uint32_t ls__target_of(const ls_program *p, const ls_task *t, uint64_t number) {
    return (uint32_t)((number - (uint64_t)t->lag) * (uint64_t)p->signals[t->signal].per_step);
}
ls_step_phase ls__phase_of(const ls_engine *engine, const ls_program *program, const ls_task *t);

// [start, end) was spent in `phase`.
static inline void ls__spent(ls_step_times *times, ls_step_phase phase, double start, double end) {
    times->seconds[phase] += end - start;
    if (ls_trace_on(times->trace)) ls_trace_add(times->trace, times->trace_first + (int)phase, 0, start, end);
}
static inline void ls__lap(ls_step_times *times, ls_step_phase phase) {
    double now = ls_clock();
    ls__spent(times, phase, times->since, now);
    times->since = now;
}

// messages.c, of the communication that is broken.
void ls__break(ls_engine *engine, const char *sentence);  // the first one's sentence counts
int ls__is_broken(const ls_engine *engine);
ls_status ls__broken_status(const ls_engine *engine);  // as this worker reports it

#endif
