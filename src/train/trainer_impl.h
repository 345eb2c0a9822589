// The trainer from inside. trainer.c sets it up, replica.c runs the lanes, results.c reports.
#ifndef LS_TRAIN_TRAINER_IMPL_H
#define LS_TRAIN_TRAINER_IMPL_H

#include <lockstep/lockstep.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/barrier.h"
#include "comm/comm.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "data/normalize.h"
#include "graph/graph.h"
#include "graph/plan.h"
#include "optim/optim.h"
#include "strategy/strategy.h"
#include "train/measures.h"
#include "train/timeline.h"
#include "train/topology.h"

// What all replicas of a worker do next.
typedef enum ls_command { LS_COMMAND_ALLOCATE, LS_COMMAND_EPOCH, LS_COMMAND_EVALUATE, LS_COMMAND_EXIT } ls_command;

// The plans a replica runs; any may be NULL where it never needs it. `tail` takes the last, smaller micro-batch.
typedef struct ls_plans {
    ls_plan *train, *train_tail, *eval, *eval_tail;
} ls_plans;

typedef struct ls_replica {
    struct ls_trainer *trainer;
    int index, lane;   // in the worker; in the job
    pthread_t thread;  // unused for replica 0, which is the caller's thread
    int started;
    ls_plans plans;
    ls_queue *queue;
    ls_buffer *arena;    // one for all its plans: they never run at once
    void *batches;       // of its loaders, which take turns
    ls_buffer *feeds;    // the same as the device's
    ls_buffer *random;   // ls_random_key of the running micro-batch
    ls_random_key *key;  // the same on the host
    ls_loader *train_loader, *eval_loader;
    ls_range *ranges;  // of the running epoch or evaluation
    int64_t range_count;
    ls_phase_seconds phases;         // of the running epoch, or the latest
    double since;                    // when what is not yet in `phases` began
    ls_trace *trace, *loader_trace;  // its tracks of the timeline; NULL without one
    double *step_seconds;            // replica 0: every step's
    int64_t step_count, step_capacity;
    ls_status status;  // the first failure in this thread, and its sentence
    char failure[1024];
} ls_replica;

// What the loaders make of a sample, in this order.
enum { LS_FEED_IMAGE, LS_FEED_LABEL, LS_FEEDS };

// What shape an epoch, or an evaluation, has: `count` samples cut into steps of `batch`, each into micro-batches.
typedef struct ls_epoch_shape {
    int64_t count, batch, micro_batch;
    int64_t steps;
    int64_t micro_batches;  // in a full step
    int64_t tail;           // samples in the last micro-batch of all when it is a smaller one; else 0
} ls_epoch_shape;

struct ls_trainer {
    ls_context *context;
    ls_comm *comm;
    const ls_graph *network;  // the caller's
    ls_graph *objective;      // with losses, where the network has none of its own; else NULL
    const ls_graph *graph;    // the one of the two that is trained
    ls_measures measures;     // what its losses and metrics are
    const ls_dataset *dataset;
    ls_train_config config;
    ls_dtype precision;
    const ls_optimizer *optimizer;
    ls_optimizer_params optimizer_params;
    const ls_schedule *schedule;
    ls_schedule_params schedule_params;
    ls_device *device;
    ls_topology *topology;
    ls_params *params;
    ls_segment *segments;
    int segment_count;
    const ls_strategy_ops *strategy_ops;
    ls_strategy *strategy;
    ls_buffer *weights, *copies;  // the strategy's, as the device sees them
    ls_queue *queue;              // of the main thread, for what is set and taken outside of steps
    int exchange_failed;  // 1: this worker's communication did, which others do not know of
    ls_epoch_shape train_shape, eval_shape;
    ls_split train_split, eval_split;
    int prepares;      // images are stored as pixels, which the recipe says what becomes of; else as numbers
    ls_shape image;    // (H, W, C), as the network sees it
    ls_recipe recipe;  // of training samples
    ls_normalization normalization;
    float *channel_offset, *channel_divisor;   // (C), for the recipe; NULL: its own
    double *channel_mean, *channel_deviation;  // (C), of pixel / 255; NULL: not measured
    int cores;                                 // each worker's own; 0: fewer cores than workers
    int replicas, lanes;                       // per worker; in the job
    int bound;                                 // replicas are bound to cores
    char replicas_reason[160];
    ls_replica *replica;
    ls_barrier team;  // this worker's replicas
    ls_command command;
    // Metrics of every micro-batch of an epoch, in shared memory.
    ls_shared *shared;
    double *metrics;  // (largest number of micro-batches in an epoch or evaluation, width): samples, then the measures
    int64_t metrics_count;
    uint32_t *order;  // (order_count): of the running epoch
    int64_t order_count;
    int epoch;                  // running, from 1
    double epoch_start;         // when it was begun
    int64_t step;               // done so far in all epochs
    _Atomic int64_t stop_step;  // progress asked to end the epoch after this step, from 1; 0: it did not
    _Atomic int64_t
        held_step;  // after which all replicas wait for what progress answers, counted over all epochs from 1
    ls_progress_fn progress;
    void *progress_user;
    ls_epoch_fn on_epoch;
    void *epoch_user;
    double learning_rate;  // of the latest step
    ls_epoch_result *epochs;
    int epochs_done;
    double train_seconds, evaluate_seconds;
    double test_loss, test_accuracy;
    int64_t not_finite;     // of the latest sums, the first micro-batch whose loss is no finite number; -1: none
    double finite_loss;     // mean of the latest micro-batch before that
    ls_timeline *timeline;  // NULL: nothing is recorded
    ls_phase_seconds *epoch_phases;   // (2 x epochs): of each epoch the sum and the most over this worker's replicas
    ls_phase_seconds phases;          // per step, mean over all replicas of the job; gathered after fit
    ls_phase_seconds *worker_phases;  // (workers): the same of each worker; gathered after fit
    ls_memory memory;                 // what was planned
    int64_t program_bytes;  // resident in the process beside all that is told apart: complete once there are plans
    int64_t rss_begun;      // resident when the trainer was begun
    int64_t peak_rss, planned_bytes;  // the largest worker's; gathered after fit
};

// The stages of setting up. What one worker can find wrong alone, before anything is shared:
ls_status ls__trainer_check(ls_trainer *trainer);
// Everything whose size matters is decided, nothing of it is allocated. Plans are made for so many replicas, 0: all. Wants
// trainer->cores. Not collective.
ls_status ls__trainer_plan(ls_trainer *trainer, int replicas);
// memory.c: what is going to be allocated, and what there is already. Not collective.
ls_memory ls__trainer_memory(const ls_trainer *trainer);
// Whether trainer->memory fits into this host: more than that is a kill without a word. Not collective. Errors: OUT_OF_MEMORY.
ls_status ls__memory_check(const ls_trainer *trainer);

// What the parts are made with, and what their sizes are found by.
int64_t ls__batches_bytes(const ls_trainer *trainer);  // of a replica's loaders
int64_t ls__shared_bytes(const ls_trainer *trainer);   // of the metrics' shared memory
int64_t ls__arena_bytes(const ls_replica *replica);
int64_t ls__ranges_count(const ls_trainer *trainer, const ls_epoch_shape *shape);

// Size, augmentation and normalization from the options: what one worker can find wrong alone.
ls_status ls__images_resolve(ls_trainer *trainer);
// The numbers of the normalization, of which some are measured. Collective.
ls_status ls__images_normalize(ls_trainer *trainer);

ls_epoch_shape ls__epoch_shape(int64_t count, int64_t batch, int64_t micro_batch);
// Samples and micro-batches of step `step` (from 0).
void ls__epoch_step(const ls_epoch_shape *shape, int64_t step, int64_t *samples, int64_t *micro_batches);

// Runs a command on all replicas of this worker, the calling thread being replica 0, and returns the first failure of any worker, with its
// sentence. Collective. Where this worker's communication failed: at once, with LIBRARY.
ls_status ls__replicas_run(ls_trainer *trainer, ls_command command);
ls_status ls__replicas_start(ls_trainer *trainer);
void ls__replicas_stop(ls_trainer *trainer);

// Sums the metrics of an epoch over all micro-batches in order, the same on every worker. Collective.
ls_status ls__metrics_sum(ls_trainer *trainer, int64_t micro_batches, double *sum);  // sum: (width)

// Keeps what the phases of the epoch that is over were; its index counts from 0. Not collective.
void ls__results_epoch(ls_trainer *trainer, int index);

#define LS_DIVERGED_REMEDY                                                                                             \
    "A lower learning rate (--lr), a warm-up (--warmup-epochs) or clipping (--clip-norm) keeps it from that"

// Whether all weights are finite numbers. Not collective. Errors: DIVERGED (which are not, and when), OUT_OF_MEMORY.
ls_status ls__results_finite(ls_trainer *trainer);

// SHA-256 of the weights, as text; "" where they are not all finite. Without weights: of nothing, so that what it takes is there.
ls_status ls__results_digest(ls_trainer *trainer, char text[65]);

// Gathers peak memory over all workers. Collective.
ls_status ls__results_memory(ls_trainer *trainer);

// Gathers that and phases over all workers. Collective.
ls_status ls__results_gather(ls_trainer *trainer);

#endif
