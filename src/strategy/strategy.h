// How replicas and workers exchange gradients and update parameters. One file per strategy.
//
// The *lanes* of a job are its replicas over all workers: lane = (worker's position in comm order) * replicas + replica.
// In each step a lane computes a contiguous run of the micro-batches (ls_tree_run), its gradients go to memory the strategy
// gives it, added up in the tree as it goes; then all lanes call `step` together.
//
// The parameter vector: all parameters behind one another as F32, in the layouts the plan wants, each start aligned and
// padding zero. Its length is a multiple of LS_SLICE_ALIGN, and whatever is cut is cut at multiples of it, so vector tails
// never move.
//
// Not all of it is trained. A *statistic* (ls_segment) has no gradient: its sum divided by the samples is the mean of the
// micro-batches' statistics, and it moves towards that by a rule of its own, whatever the optimizer is. It neither decays nor
// counts in the norm of clipping.
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

typedef struct ls_strategy_config {
    ls_comm *comm;
    ls_device *device;
    int replicas;           // per worker, the same on all
    int64_t length;         // floats in the parameter vector, a multiple of LS_SLICE_ALIGN
    int64_t micro_batches;  // in a full step
    const ls_optimizer *optimizer;
    ls_optimizer_params params;  // resolved
    // The parameters, from 0 to `length` without gaps; borrowed while creating. NULL: all is one kernel.
    const ls_segment *segments;
    int segment_count;
    int decay_kernels_only;  // 1: weight decay leaves alone what is no kernel
    double clip_norm;        // the largest norm of a mean gradient; a larger one is scaled down to it. 0: none
    int spin;                // barriers spin this often before sleeping
    // Working copies: what kernels read instead of the masters (other layouts, bf16). After every update the lanes that
    // share one weights vector share the work of refreshing the copies that belong to it: refresh(user, part, parts).
    int64_t copies_bytes;
    void (*refresh)(void *user, const float *weights, void *copies, int part, int parts);
    void *refresh_user;
} ls_strategy_config;

typedef struct ls_step_info {
    int64_t micro_batches;  // in this step; fewer in the last of an epoch
    int64_t samples;        // the true number: the gradient sum is divided by it once
    double lr, lr_before;   // as in ls_update
    int64_t step;           // from 1, over the whole training
} ls_step_info;

// What a lane does in a strategy's step, in the words of traces.
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

// One strategy; its file ends in this.
typedef struct ls_strategy_ops {
    const char *name, *help;
    // Decides what memory there will be and allocates none of it (strategy_impl.h: wants). Not collective.
    ls_status (*plan)(const ls_strategy_config *config, ls_strategy **out);
    void (*destroy)(ls_strategy *strategy);  // Collective once allocated
    // Sums all lanes' pieces in the tree, divides, updates, and makes the new weights (and copies) visible to the lanes of
    // this worker. Called by every lane of every worker, each from its own thread; replica 0 is the worker's main thread,
    // the only one that may communicate. Collective over all lanes. A failure (LIBRARY) comes back on the main thread of the
    // worker that saw it only, while other lanes may wait for it for ever: end the job with ls_comm_abort.
    ls_status (*step)(ls_strategy *strategy, int replica, const ls_step_info *info, ls_step_times *times);
    // The gradients [offset, offset + count) of the running micro-batch are complete. May be NULL: overlapping exchange
    // with backward is not done yet; the plan's hook ends here when it is.
    void (*bucket_ready)(ls_strategy *strategy, int replica, int64_t offset, int64_t count);
} ls_strategy_ops;

// The head every strategy starts with; what all of them share is in strategy_base.c.
struct ls_strategy {
    const ls_strategy_ops *ops;
    ls_strategy_config config;
    float *weights;      // (length): the vector this worker's lanes read; shared by the host where the strategy says so
    void *copies;        // (copies_bytes): the same for working copies
    int weights_shared;  // 1: one vector per host; 0: one per worker
};

const ls_strategy_ops *const *ls_strategies(void);  // NULL-terminated
// A strategy that knows what memory it is going to have. Of the communicator it asks who is who, nothing more. Not collective.
// Errors: NOT_FOUND with the names there are, INTERNAL, OUT_OF_MEMORY.
ls_status ls_strategy_plan(const char *name, const ls_strategy_config *config, ls_strategy **out);
// Gives it that memory; then it can be used. Collective. Errors: OUT_OF_MEMORY, LIBRARY.
ls_status ls_strategy_allocate(ls_strategy *strategy);
// Both at once. Collective.
ls_status ls_strategy_create(const char *name, const ls_strategy_config *config, ls_strategy **out);
void ls_strategy_destroy(ls_strategy **strategy);  // Collective once allocated

// Called by replica threads around each micro-batch: where to write its gradient (length floats; the padding must stay
// zero), and that it is complete. Between the two nothing else may be asked of this replica.
float *ls_strategy_gradient_begin(ls_strategy *strategy, int replica, const ls_step_info *info, int64_t micro_batch);
void ls_strategy_gradient_end(ls_strategy *strategy, int replica, const ls_step_info *info);

// After the weights were set from outside on every worker (initial weights, a checkpoint; worker 0's are not sent, every
// worker of a host that shares a vector writes the same or only local rank 0 writes): refreshes all copies. Collective;
// main threads only, no lane running.
ls_status ls_strategy_weights_changed(ls_strategy *strategy);

// What a strategy's memory is for.
typedef enum ls_strategy_part {
    LS_STRATEGY_WEIGHTS,
    LS_STRATEGY_COPIES,
    LS_STRATEGY_GRADIENTS,
    LS_STRATEGY_STATE,  // of the optimizer
    LS_STRATEGY_SUMS,   // partial sums, received sums, norms, barriers
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
// A barrier of all lanes of this host, for the trainer's own use.
void ls_strategy_host_barrier(ls_strategy *strategy);

#endif
