// The trainer from inside.
//   recipe.c    what is asked for, checked and brought into the form that training goes by
//   spread.c    how many replicas and threads, and where
//   buckets.c   in which pieces gradients are exchanged
//   feeds.c     which fields of the dataset feed which inputs of the graph
//   images.c    what becomes of images before that
//   trainer.c   setting up: plans, engine, memory, weights
//   whitening.c an initializer that measures the images
//   probe.c     whether all hosts compute the same; probe_cache.c keeps what they did
//   replica.c   the lanes at work, each in a thread of its own
//   not_finite.c  where numbers come from that are none
//   loss_scale.c  what the loss is multiplied by in backward
//   fit.c       epochs and steps, as the main thread drives them
//   async.c     the same of asynchronous training, where it differs
//   views.c     evaluation that looks at images several times
//   results.c   what a run amounted to
//   memory.c    where its memory goes
#ifndef LS_TRAIN_TRAINER_IMPL_H
#define LS_TRAIN_TRAINER_IMPL_H

#include <lockstep/memory.h>
#include <lockstep/train.h>
#include <pthread.h>

#include "async/async.h"
#include "base/barrier.h"
#include "comm/comm.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "data/normalize.h"
#include "graph/graph.h"
#include "graph/plan.h"
#include "optim/lookahead.h"
#include "optim/optim.h"
#include "step/engine.h"
#include "train/measures.h"
#include "train/rows.h"
#include "train/spread.h"
#include "train/timeline.h"
#include "train/topology.h"
#include "train/tune.h"

// --- what is asked for -----------------------------------------------------------------------------------------------

// What becomes of a step whose loss or gradient is no finite number.
typedef enum ls_not_finite { LS_NOT_FINITE_STOP, LS_NOT_FINITE_SKIP, LS_NOT_FINITE_CONTINUE } ls_not_finite;

// What the gradients of losses are multiplied by.
typedef struct ls_loss_scale {
    int used;  // 0: by 1, all the time
    int dynamic;
    double initial;  // powers of two
    int64_t steps;   // of a dynamic one: in a row that are taken before it is doubled
} ls_loss_scale;

// The configuration in the form that training goes by: no words are compared in a step.
typedef struct ls_choices {
    ls_dtype precision;
    const ls_optimizer *optimizer;
    ls_optimizer_params optimizer_params;
    const ls_schedule *schedule;
    ls_schedule_params schedule_params;
    ls_lookahead lookahead;
    double rate_scale;  // of linear scaling; 1: none
    int constant_warmup;
    ls_compress compress;
    double compress_fraction;  // as in ls_engine_config
    ls_algorithm algorithm;    // once it is measured, that
    ls_tune tune;
    ls_not_finite not_finite;
    ls_loss_scale loss_scale;
    int64_t cache;       // bytes of samples of files that are kept in memory, at most
    int replace_broken;  // 1: samples that cannot be decoded are replaced
    const ls_strategy *strategy;
    int slow_worker;     // -1: none
    double slow_factor;  // above 1
} ls_choices;

// What shape an epoch, or an evaluation, has: `count` samples cut into steps of `batch`, each into micro-batches.
typedef struct ls_epoch_shape {
    int64_t count, batch, micro_batch;
    int64_t steps;
    int64_t micro_batches;  // in a full step
    int64_t rest;           // samples in the last micro-batch of a full step when it is a smaller one; else 0
    int64_t tail;           // the same of the last step when that is not a full one
} ls_epoch_shape;

// How the work is spread: decided from cores and micro-batches, the same on all workers.
typedef struct ls_spread {
    ls_cores mine;   // this worker's own
    ls_cores *have;  // (kinds): what workers have, each kind once, the same on all
    int kinds;
    int cores;            // the least that a worker has of its own; 0: fewer cores than workers
    int given_threads;    // of the trainer whose device this one shares; 0: it has one of its own
    int replicas, lanes;  // per worker; in the job
    ls_mesh roles;        // with the servers that there are
    ls_mesh team;         // those who share a batch: all, or in asynchronous training one worker
    int bound;            // replicas are bound to cores
    int *first;           // (replicas): of the cores, by replica
    int spare;            // a core that no replica has; -1: there is none
    int comm_cores;       // of them, for the exchange alone
    // Where it is to be measured whether the exchange is given one of those that compute: the replicas of one thread that there would be then; else 0.
    int replicas_without;
    int core_left_over;  // that is one that no replica has work for
    int core_pays;       // it was measured, and should be: the trainer is to be made again
    int core_measured;   // this one was
    int idle;            // cores of a worker without work
    char reason[160];    // why so many replicas
    char advice[240];    // what would give those work; "": they are few
} ls_spread;

// What batches consist of: feed i goes to input i of the graph.
typedef struct ls_inputs {
    ls_feed feed[LS_MAX_FIELDS];
    int count;
    int image;                     // the one that the recipe makes of pixels; -1: none
    int target[LS_MAX_FIELDS];     // 1: losses and metrics alone read it
    int64_t bytes[LS_MAX_FIELDS];  // of one sample
} ls_inputs;

// What becomes of images.
typedef struct ls_images {
    ls_shape shape;    // (H, W, C), as the network sees them
    ls_recipe recipe;  // of training samples
    ls_normalization normalization;
    float *offset, *divisor;   // (C), for the recipe; NULL: pixel / 255
    double *mean, *deviation;  // (C), of pixel / 255; NULL: not measured
} ls_images;

// How evaluation looks at images several times (views.c).
typedef struct ls_views {
    int count;             // 0: once, as they are
    const double *weight;  // (count): of each view's scores in their mean
    int now;               // the one that is looked at
    int label;             // the input that has the classes
    int classes;
    ls_measures measures;  // one: a row for each sample, its class and the sum of its scores so far
    ls_measure one;
    ls_rows rows;
} ls_views;

// --- replicas --------------------------------------------------------------------------------------------------------

// What all replicas of a worker do next.
typedef enum ls_command {
    LS_COMMAND_ALLOCATE,
    LS_COMMAND_BEGIN,  // an epoch, from training's position on
    LS_COMMAND_STEP,
    LS_COMMAND_END,
    LS_COMMAND_EVALUATE,
    LS_COMMAND_EXIT
} ls_command;

// The plans a replica runs, any of which it may never need. The smaller micro-batches that end steps have plans of their own:
// rests are of full steps, and the tail is of the last step of an epoch.
typedef enum ls_plan_kind {
    LS_PLAN_KIND_TRAIN,
    LS_PLAN_KIND_TRAIN_REST,
    LS_PLAN_KIND_TRAIN_TAIL,
    LS_PLAN_KIND_EVALUATE,
    LS_PLAN_KIND_EVALUATE_REST,
    LS_PLAN_KINDS
} ls_plan_kind;

// The first that is no finite number in an epoch, and where that comes from.
typedef struct ls_found_first {
    int64_t
        key;  // of the loss of micro-batch i of the epoch: 2 i + 1; of the weights after it: 2 i + 2; 0: there is none
    char text[320];
} ls_found_first;

typedef struct ls_replica {
    struct ls_trainer *trainer;
    int index, lane;   // in the worker; in the job
    pthread_t thread;  // unused for replica 0, which is the caller's thread
    int started;
    ls_plan *plan[LS_PLAN_KINDS];  // NULL: not needed
    ls_queue *queue;
    ls_event *fed;       // the latest batch is on the device
    ls_buffer *arena;    // one for all its plans: they never run at once
    void *batches;       // of its loaders, which take turns
    ls_buffer *inputs;   // the same as the device's, or room for a batch there
    ls_buffer *random;   // ls_random_key of the running micro-batch
    ls_random_key *key;  // the same on the host
    ls_buffer *scale;    // of the losses, a float; NULL where it is 1
    float scale_host;    // the same on the host
    ls_loader *train_loader, *eval_loader;
    ls_range *ranges;  // of the running epoch or evaluation
    int64_t range_count;
    int home;                        // 1: the weights of the latest step are
    int stops;                       // 1: they had what is no finite number: votes to stop
    struct ls_running *running;      // the micro-batch that is computed
    char *ready;                     // (bucket_count): of early engines, buckets whose weights may be read
    ls_phase_seconds phases;         // of the running epoch, or the latest
    double since;                    // when what is not yet in `phases` began
    ls_trace *trace, *loader_trace;  // its tracks of the timeline; NULL without one
    double *step_seconds;            // replica 0: every step's
    int64_t step_count, step_capacity;
    ls_found_first found;
    ls_status status;  // the first failure in this thread, and its sentence
    char failure[1024];
} ls_replica;

// --- where training is -----------------------------------------------------------------------------------------------

typedef struct ls_position {
    int epoch;             // from 1: the running one, or the next
    int64_t step;          // steps of it that are done
    int64_t all_steps;     // done so far in all epochs
    int64_t batch;         // asynchronous: the step of the epoch whose batch this worker has taken; -1: none
    int ended;             // asynchronous: no more batches in this epoch
    int64_t epoch_first;   // asynchronous: steps before this epoch
    int64_t steps_before;  // of them, those before this trainer was made: it has resumed from a checkpoint
    int running;           // begun and not ended
    double started;        // when it was begun, or gone on with
    double seconds;        // of it before that
    int64_t skipped;       // steps of it that were left out before that
    int64_t skipped_then;  // those that the engine had left out when it was begun, or gone on with
    double scale;          // of the losses, for the next step
    int64_t scale_steps;   // that have been taken in a row with it
    int64_t overflows;     // steps of all epochs that were left out under a dynamic one
    double *sum;           // (width): measures of the steps before that
    double *seen;          // (width): of those since, as this host has them
    ls_vote vote;          // of this worker's callbacks, for the next step
    char failure[1024];
    ls_status failed;
    double learning_rate;  // of the latest step
    ls_vote decision;      // of the latest step
    int checkpoint_due;    // this worker wants one after the next step
    int64_t shown;         // micro-batches of the epoch that are in `seen`
} ls_position;

typedef struct ls_history {
    ls_epoch_result *epochs;  // (config.epochs)
    int done;                 // of them, the last perhaps not whole
    double train_seconds, evaluate_seconds;
    double test_loss, test_accuracy;
    ls_measured *train_values, *test_values;  // (measures.value_count): of the latest epoch, of the latest evaluation
    int64_t not_finite;  // of the latest sums, the first micro-batch whose loss is no finite number; -1: none
    double finite_loss;  // mean of the latest micro-batch before that
    char cause[320];     // where that came from; "": it is not known
    char failure[512];   // what ended the latest epoch too early; "": nothing has
    ls_phase_seconds *epoch_phases;   // (2 x epochs): of each epoch the sum and the largest over this worker's replicas
    ls_phase_seconds phases;          // per step, mean over all replicas of the job; gathered after fit
    ls_phase_seconds *worker_phases;  // (workers): the same of each worker; gathered after fit
    int64_t peak_rss, planned_bytes;  // the largest worker's; gathered after fit
    char probe[65];                   // what all hosts computed alike; "": there is one host
    double exchange_hidden;           // seconds in all steps, mean over workers; gathered after fit
    int64_t replaced;                 // broken samples, on all workers; gathered likewise
    char broken[320];                 // of one of them; "": there is none
    int loader_threads,
        loader_threads_measured;  // of this worker's host, all together; whether any of its loaders has measured
} ls_history;

struct ls_trainer {
    ls_context *context;
    ls_comm *comm;
    const ls_graph *network;  // the caller's
    ls_graph *objective;      // with losses, where the network has none of its own; else NULL
    const ls_graph *graph;    // the one of the two that is trained
    ls_measures measures;     // what its losses and metrics are
    ls_rows rows;             // of evaluation, for metrics that need all samples at once
    ls_views views;
    const ls_dataset *dataset;
    ls_train_config config;
    ls_choices choices;
    ls_epoch_shape train_shape, eval_shape;
    ls_split train_split, eval_split;
    ls_inputs inputs;
    float *class_weight;  // (classes of the network); NULL: all are 1
    ls_images images;
    ls_spread spread;

    ls_trainer *home;  // whose device, places and weights this one shares: the first of the store's, or itself
    int guests;        // trainers that share this one's
    int left;          // destroyed, but for guests that are still there
    ls_device *device;
    ls_topology *topology;
    ls_params *params;
    ls_segment *segments;
    int segment_count;
    ls_tune_choice tuned;       // of the exchange; megabytes 0: nothing was measured
    int tuned_earlier;          // 1: by an earlier job
    ls_tune_measured measured;  // what that was chosen from; zeros: nothing
    int64_t *bucket_ends;       // (bucket_count)
    int bucket_count;
    ls_engine *engine;
    ls_async *async;          // NULL: all take a step together; else the engine is this worker's own
    ls_comm *solo;            // which is of this communicator
    ls_span weights, copies;  // the engine's
    ls_queue *queue;          // of the main thread, for what is set and taken outside of steps
    int exchange_failed;      // 1: this worker's communication did, which others do not know of

    ls_replica *replica;
    ls_barrier team;  // this worker's replicas
    ls_command command;
    ls_shared *shared;
    double *table;  // (table_rows, width), shared by the host: measures of every micro-batch of an epoch or evaluation
    int64_t table_rows;
    uint32_t *order;  // (order_count): of the running epoch
    int64_t order_count;
    ls_position at;
    ls_history history;
    ls_timeline *timeline;                // NULL: nothing is recorded
    struct ls_checkpointer *checkpoints;  // NULL: none are taken
    int takes_checkpoints;                // or would
    ls_memory memory;                     // what was planned
    int most_loaders;       // threads of a replica's loader that nobody has asked for; 0: as many as there may ever be
    int64_t program_bytes;  // resident in the process beside all that is told apart: complete once there are plans
    int64_t rss_begun;      // resident when the trainer was begun
};

// --- setting up ------------------------------------------------------------------------------------------------------

// recipe.c. What one worker can find wrong alone, before anything is shared.
ls_status ls__choices_resolve(ls_trainer *trainer);
ls_status ls__sizes_resolve(ls_trainer *trainer);
// The rate of step `step` (from 0) of the running epoch; step -1 is the last of the epoch before.
double ls__learning_rate(const ls_trainer *trainer, int64_t step);
ls_epoch_shape ls__epoch_shape(int64_t count, int64_t batch, int64_t micro_batch);
// Samples and micro-batches of step `step` (from 0).
void ls__epoch_step(const ls_epoch_shape *shape, int64_t step, int64_t *samples, int64_t *micro_batches);

// spread.c. Decides on replicas and threads once the cores are known (spread.mine, have, kinds, cores) and the sizes; config.threads is that
// number from then on. Errors: INVALID_ARGUMENT (more workers or replicas than micro-batches), OUT_OF_MEMORY.
ls_status ls__spread_resolve(ls_trainer *trainer);

// buckets.c. Whether gradients are exchanged while backward goes on, the same on all workers.
int ls__exchange_overlaps(const ls_trainer *trainer);
// Chooses the size of buckets and the algorithm by measuring, where that is asked for and worth it. Collective. Errors: as ls_tune_measure.
ls_status ls__exchange_tune(ls_trainer *trainer);
// Cuts the parameter vector, once it is sealed. Errors: OUT_OF_MEMORY.
ls_status ls__buckets_resolve(ls_trainer *trainer);
void ls__exchange_bind(void *trainer);  // binds the calling thread, the one that exchanges

// async.c. What is asked for, where one worker can find it wrong alone.
ls_status ls__async_check(ls_trainer *trainer);
// Plans it, and the engine. Errors: as ls_async_plan.
ls_status ls__async_plan(ls_trainer *trainer, const ls_engine_config *config);
// Once the epoch is begun: tickets, the first of this worker. Collective, but that servers do not wait for the others.
ls_status ls__async_begin(ls_trainer *trainer);
// A batch of a computing worker, or all that a server serves; what comes of it is in the position, and failures in the replicas'.
void ls__async_step(ls_trainer *trainer);
// As ls_engine_visit and ls_engine_skipped, of whatever training this is.
ls_status ls__trainer_visit(ls_trainer *trainer, ls_state_visitor visit, void *user);
int64_t ls__trainer_skipped(const ls_trainer *trainer);
// Whether another run of the same may have other weights.
int ls__async_by_timing(const ls_trainer *trainer);

// loss_scale.c. From the configuration; into the position, too. Errors: INVALID_ARGUMENT.
ls_status ls__loss_scale_resolve(ls_trainer *trainer);
// What a step is told of it, by any replica; and what comes of the step, between two steps: `skipped_before` is ls__trainer_skipped before it.
void ls__loss_scale_begin(const ls_trainer *trainer, ls_step_info *info);
void ls__loss_scale_end(ls_trainer *trainer, int64_t skipped_before);
int ls__loss_scale_valid(double scale);                  // whether it can be one
int ls__loss_scale_at_least(const ls_trainer *trainer);  // whether there is no smaller one to try

// feeds.c. Finds the fields for the graph's inputs. Errors: INVALID_ARGUMENT.
ls_status ls__inputs_resolve(ls_trainer *trainer);
ls_loader_config ls__loader_config(const ls_trainer *trainer, int training);
// Of the threads that all loaders of a host are to have together (--loader-threads), those of a replica of this worker: at least one. A server computes nothing, and has
// one for each that counts for nothing.
int ls__loader_share(const ls_trainer *trainer, int replica);
int ls__loader_serves(const ls_trainer *trainer);  // whether this worker is a server
// Whether labels are rows, since classes have weights or samples are mixed; and what the weights are: `class_weight`. Before the inputs. Reads labels of the training set, where they are not in memory. Not collective.
// Errors: INVALID_ARGUMENT (no such weights, no such classes), those of the source, OUT_OF_MEMORY.
int ls__labels_are_rows(const ls_train_config *config);
ls_status ls__class_weights_resolve(ls_trainer *trainer);
int64_t ls__batches_bytes(const ls_trainer *trainer);   // of a replica's loaders
int64_t ls__decoding_bytes(const ls_trainer *trainer);  // and of what they decode pictures into

// images.c. Size, augmentation and normalization from the options: what one worker can find wrong alone.
ls_status ls__images_resolve(ls_trainer *trainer);
// All that the config says of images of so many channels, but for a normalization's numbers. Errors: INVALID_ARGUMENT.
ls_status ls__images_recipe(const ls_train_config *config, int64_t channels, ls_recipe *out);
// Those numbers: `mean` and `deviation` (channels) of pixel / 255 as they are stored, which may be NULL where the config does not take them. offset and
// divisor, (channels), are the recipe's from then on. Errors: INVALID_ARGUMENT.
ls_status ls__images_numbers(const ls_train_config *config, int64_t channels, const double *mean,
                             const double *deviation, float *offset, float *divisor, ls_recipe *out);
// The numbers of the normalization, of which some are measured. Collective.
ls_status ls__images_normalize(ls_trainer *trainer);

// views.c. What is asked for, once inputs and sizes are known. Errors: INVALID_ARGUMENT (an unknown name, no classifier of images).
ls_status ls__views_resolve(ls_trainer *trainer);
// Adds the scores of the latest forward, of samples from `first` on, to their rows. Not collective.
ls_status ls__views_take(ls_replica *replica, const ls_plan *plan, const ls_batch *batch, int64_t first);
// Once all views are looked at: loss and accuracy, from the mean scores. Rows of what is taken for what follow these. Collective.
ls_status ls__views_finish(ls_trainer *trainer, double *loss, double *accuracy);
// Of the values of measures, (value_count): these two in their places, nothing where a measure is no row of samples.
void ls__views_values(const ls_trainer *trainer, double loss, double accuracy, ls_measured *values);

// trainer.c. What one worker can find wrong alone, before anything is shared:
ls_status ls__trainer_check(ls_trainer *trainer);
// Everything whose size matters is decided, nothing of it is allocated. Plans are made for so many replicas, 0: all. Wants
// spread.cores. Not collective.
ls_status ls__trainer_plan(ls_trainer *trainer, int replicas);
int64_t ls__shared_bytes(const ls_trainer *trainer);  // of the table's shared memory
int64_t ls__arena_bytes(const ls_replica *replica);
int64_t ls__ranges_count(const ls_trainer *trainer, const ls_epoch_shape *shape);
// The largest number of micro-batches of a step of so many that a replica of the job can have.
int64_t ls__deal_maximum(const ls_trainer *trainer, int64_t micro_batches);

// whitening.c. What the initializer patch_whitening makes of parameter `param`, in Keras's order: the same on every worker. Images are known and
// normalized. Not collective. Errors: INVALID_ARGUMENT (the layer is none that it can be made for), OUT_OF_MEMORY, those of the source.
ls_status ls__whitening_draw(const ls_trainer *trainer, int param, float *out);

// trainer.c. All that a training depends on, as text: what workers compare.
enum { LS_TRAINER_RECIPE = 4096 };
void ls__trainer_recipe(const ls_trainer *trainer, char text[LS_TRAINER_RECIPE]);

// probe.c. Of several hosts: compares what they compute from the same micro-batch. Once there are weights, before training. Collective.
// Errors: MISMATCH (names two workers), those of a plan.
ls_status ls__probe(ls_trainer *trainer);

// memory.c: what is going to be allocated, and what there is already. Not collective.
ls_memory ls__trainer_memory(const ls_trainer *trainer);
// Finds the trainer's memory, with as many loader threads that nobody has asked for as there is room for, one at the least.
void ls__memory_fit(ls_trainer *trainer);
// Whether this host has that much. Errors: OUT_OF_MEMORY.
ls_status ls__memory_check(const ls_trainer *trainer);

// checkpoint.c. Without ls_trainer_checkpoints all of these do nothing.
// Before a step, on worker 0: whether a checkpoint is to follow it. Not collective.
int ls__checkpoint_due(ls_trainer *trainer);
// After a step, and after an epoch or what was done of it: takes one where all have agreed on it. Collective.
ls_status ls__checkpoint_after_step(ls_trainer *trainer);
ls_status ls__checkpoint_after_epoch(ls_trainer *trainer);
// Where training ends, or is stopped: one more where something was done since the latest, and all that is to be written is.
ls_status ls__checkpoint_at_end(ls_trainer *trainer);
int64_t ls__snapshot_bytes(const ls_trainer *trainer);  // of the first host. Not collective.
void ls__checkpoints_destroy(ls_trainer *trainer);      // Collective on the host's workers

// --- replica.c -------------------------------------------------------------------------------------------------------

// The micro-batches of a step of so many that a replica computes, of a batch that its team shares.
void ls__replica_deal(const ls_replica *replica, int64_t micro_batches, int64_t *begin, int64_t *end);
// Keeps a replica's first failure.
void ls__replica_failed(ls_replica *replica, ls_status status);
// The time since the end of its latest phase was spent waiting, or serving.
void ls__replica_waited(ls_replica *replica);
// After a step of an engine that is early: leaves its weights to come home behind whatever the program does next (ls_comm_home brings them).
void ls__weights_away(ls_trainer *trainer);
// Brings home what is away, as ls_comm_home, for whoever looks at this trainer's weights or state. Not collective. Errors: that of the exchange which could
// not bring all of it: the weights are partly those of the latest step, partly older ones, and nobody is to have them.
ls_status ls__weights_home(ls_trainer *trainer);

// Runs a command on all replicas of this worker, the calling thread being replica 0, and returns the first failure of any worker, its
// callbacks' included. Collective.
ls_status ls__replicas_run(ls_trainer *trainer, ls_command command);
// The two halves of it. A step needs the second only when the vote was that somebody failed.
void ls__replicas_run_alone(ls_trainer *trainer, ls_command command);
ls_status ls__replicas_status(ls_trainer *trainer);
// Whether all replicas of all workers have computed all that they were told to; callbacks do not count. Collective.
ls_status ls__replicas_trained(ls_trainer *trainer);
ls_status ls__replicas_start(ls_trainer *trainer);
void ls__replicas_stop(ls_trainer *trainer);

#define LS_DIVERGED_REMEDY "A lower learning rate, a warm-up or clipping keeps it from that"

// not_finite.c
ls_status ls__not_finite_policy(const char *name, ls_not_finite *out);
// Whether a micro-batch's row is part of the epoch's loss: not where a step of no finite numbers is left out.
int ls__not_finite_counts(const ls_trainer *trainer, const double *row);
// After forward of a micro-batch, number `micro_batch` of its step, whose row is there: looks where it went wrong, if it has.
void ls__not_finite_look(ls_replica *replica, ls_plan *plan, const ls_feeds *feeds, int64_t micro_batch, int64_t batch,
                         const double *row);
// Once the weights that the replica has updated in a step, from 1, are home: looks at them. Returns whether they are the first it finds.
int ls__not_finite_after(ls_replica *replica, int64_t step);
// Whether a replica of this worker has found something in the running epoch.
int ls__not_finite_found(const ls_trainer *trainer);
// The first of what the replicas of all workers have found in the epoch: where it comes from, into history.cause, and *step becomes its step, from 1,
// and *in_weights whether it is in the weights after it; 0: nothing was found. Collective.
ls_status ls__not_finite_gather(ls_trainer *trainer, int64_t *step, int *in_weights);

// --- results.c -------------------------------------------------------------------------------------------------------

// Adds the first `count` rows of the table up in order, the same on every worker, onto sum, (width): in training those that count.
// Collective.
ls_status ls__measures_gather(ls_trainer *trainer, int training, int64_t count, double *sum);
// Keeps what the phases of the epoch that is over were; its index counts from 0. Not collective.
void ls__results_epoch(ls_trainer *trainer, int index);
// SHA-256 of the weights, as text; "" where not all are finite. Without weights: of nothing, so that what it takes is there.
ls_status ls__results_digest(ls_trainer *trainer, char text[65]);
// DIVERGED where a weight is no finite number; the parameter.
ls_status ls__results_finite(ls_trainer *trainer);
// Gathers peak memory over all workers. Collective.
ls_status ls__results_memory(ls_trainer *trainer);
// Of the latest evaluation, the mean area under the ROC curves of labels; NAN: there are none.
double ls__results_area(const ls_trainer *trainer);
// Gathers that and phases over all workers. Collective.
ls_status ls__results_gather(ls_trainer *trainer);

#endif
