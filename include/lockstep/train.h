// Training: a trainer fits and evaluates a graph on a dataset, in one call or step by step.
//
// Everything here is collective over the workers unless it says otherwise: each worker of the job makes the same calls
// with the same arguments. A program that does so runs alone or under mpirun/srun unchanged.
//
//     #include <lockstep/train.h>
//
//     ls_status train(ls_context *workers, const ls_graph *net, ls_dataset *data, double *accuracy) {
//         ls_train_config config;
//         ls_train_config_init(&config);
//         config.epochs = 2;
//         ls_trainer *trainer;
//         ls_status status = ls_trainer_create(workers, net, data, &config, &trainer);
//         if (status == LS_OK) status = ls_trainer_fit(trainer, NULL);
//         if (status == LS_OK) status = ls_trainer_evaluate(trainer, NULL, accuracy);
//         ls_trainer_destroy(&trainer);
//         return status;
//     }
#ifndef LOCKSTEP_TRAIN_H
#define LOCKSTEP_TRAIN_H

#include <lockstep/context.h>
#include <lockstep/data.h>
#include <lockstep/graph.h>
#include <lockstep/options.h>
#include <lockstep/status.h>
#include <lockstep/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct ls_trainer ls_trainer;

// How to train. ls_train_config_init sets every field to its default; then set what is to differ.
typedef struct ls_train_config {
    int epochs;          // default 5
    int64_t batch_size;  // GLOBAL batch: samples per step over all workers together; default 128
    // Samples per micro-batch, at most batch_size; where it does not divide that, the last micro-batch of a step is shorter. 0: a fixed
    // function of batch_size (ls_micro_batch_default).
    int64_t micro_batch;
    const char *precision;  // "fp32", "bf16", "fp16" (on the device "cpu" with AVX512-FP16 and oneDNN 3)
    const char *device;     // "cpu", "ref"
    // The instruction set that the device "cpu" keeps to, for the same bits on processors that have more: "avx2", "avx512", "avx512-bf16", "amx", with oneDNN 3 "avx512-fp16" and "amx-fp16".
    // One for all of a process. NULL (the default): all that the processor has.
    const char *isa;
    int remat;  // 1: activations are computed again in backward instead of kept: less memory, same bits
    // "allreduce" (the default), "reduce-broadcast", "mirrored" (one worker only), "central", "tree", "parameter-server": the same weights
    // with all of them.
    const char *strategy;
    // Of parameter-server: workers that update the weights for the others and compute nothing; there must be more workers than these. 0 (the
    // default): 1. A job of one worker has none: it updates what it computes.
    int servers;
    // 1: of parameter-server, workers push gradients and pull weights each at its own pace: a worker takes a whole batch, and servers apply pushes
    // as they come. The weights then depend on timing, except with a staleness of 0 or one computing worker. 0 (the default): all take a step together.
    int async;
    int staleness;  // of async: how many other pushes at most come between a pull and the push that it was for; -1 (the default): any number
    // Of async: lambda of DC-ASGD; a mean gradient g is applied as g + lambda g g (weights now - weights that it was computed from). 0 (the default): none.
    double delay_compensation;
    const char
        *push_log;  // of async: a file that worker 0 writes the order of pushes and pulls to; NULL (the default): none
    const char *
        replay;  // of async: such a file, whose order this training repeats, to the same bits; NULL (the default): none
    // "worker=2,factor=3": worker 2 computes at a third of its speed, for studies: it sleeps after each micro-batch. NULL (the default): none.
    const char *slow;
    // "none" (the default); "bf16": every micro-batch's gradient, and every sum of them, is rounded to bf16, so that sums travel between hosts in
    // half the bytes. Changes the weights, to the same ones for any number of workers, replicas and hosts, and with every strategy.
    const char *compress;
    // Whom the workers of a host speak to, with allreduce on several hosts: "direct": for each piece those of all other hosts, at once;
    // "halving": by recursive halving and doubling, one after the other and log2(hosts) of them; "auto" (the default): direct up to 8 hosts, and of larger vectors up to 15.
    // Never shows in the bits.
    const char *algorithm;
    // Whether the size of buckets and the algorithm, where both are left to the library, come from a measurement at start-up: "auto" (the default):
    // of allreduce between hosts, with 4 MB of parameters at least; a measurement of an earlier job counts that was made on such machines with as
    // many workers (in $XDG_CACHE_HOME/lockstep, or ~/.cache/lockstep). "again": now, whatever the size. "off": never. Never shows in the bits.
    const char *tune;
    int replicas;  // per worker; 0 (the default): as many as there are cores and micro-batches for
    int threads;  // per replica; 0 (the default): 1 where replicas are asked for, else such that every core works. Never shows in the bits.
    int hyperthreads;  // 1: every hardware thread counts as a core; 0 (the default): a core is one, however many threads it has
    // Megabytes (1e6 bytes) of gradients that are exchanged at a time, each as soon as backward has written it, while it goes on; a size of
    // the whole network or more: all of them after backward. Never shows in the bits. 0 (the default): on several hosts a twelfth of it, but 0.25 to 2; on one all.
    double bucket_size;
    // 1 (the default): where gradients are exchanged in buckets, the next step's forward begins before the last weights have come, and each layer waits
    // for its own; 0: a step ends with all of them. Never shows in the bits. It is 0 anyway where norms are taken over all gradients (clip_norm, not_finite
    // "skip", lars, lamb), and where the program has started MPI itself with less than MPI_THREAD_MULTIPLE.
    int early_forward;
    // Cores of each worker that only its exchange uses, of jobs whose exchange has a thread: 0, 1, or -1 (the default): 1 between hosts where replicas leave a
    // core over, and where a measurement at start-up (`tune`) says that steps get shorter with it; else 0. Never shows in the bits.
    int comm_cores;
    // Threads of each host that read, decode and prepare samples: its replicas share them, and have at least one each. 0 (the default): of samples in files as
    // many as keep up, which each replica finds in the first steps, at most two for each core that it has, and 16; else one. Never shows in the bits.
    int loader_threads;
    // "8G": up to so many bytes (K, M, G, T) of samples of files, as they are in their files (arrays of HDF5 unpacked), stay in memory that the workers of a
    // host share once they were read; the rest is read each time. Never shows in the bits. NULL (the default): none.
    const char *cache;
    // 1: in that memory are images as they were decoded, in place of their files' bytes; as they come, until it is full. Never shows in the bits.
    int cache_decoded;
    int bind;                         // 1: bind replicas to cores (the default); 0: leave them to the system
    uint64_t seed;                    // default 42
    int shuffle;                      // 1 (the default): a new order of the samples each epoch
    int64_t limit_train, limit_test;  // use only the first so many samples; 0: all
    // 1: an epoch ends with its last whole batch, and the samples left over wait for the next, where others are left over unless `shuffle` is 0. 0 (the
    // default): the last batch is a smaller one.
    int drop_remainder;
    int image_size;  // N: images are resized to N x N as tf.image.resize does it; 0 (the default): as they are, or, where their sizes differ,
                     // to what the network takes
    // N: the shorter side of images becomes N, and image_size x image_size are cut out of the middle, or where an augmentation has it; 0 (the
    // default): all of an image becomes image_size x image_size.
    int resize;
    const char *interpolation;  // "bilinear" (the default), "bicubic", "area", "pillow-bilinear", "pillow-bicubic"
    // "none" (the default), or some of "flip", "crop", "resized-crop", "random-crop", "rotate", "brightness", "contrast", "saturation", "hue",
    // "lighting", "cutout", "translate", "alternate-flip" with commas between, from "rotate" to "lighting" with an amount: "hue=0.1".
    const char *augment;
    const char *normalize;  // "unit" (the default): [0, 1]; "symmetric": [-1, 1]; "dataset": mean 0, deviation 1
    // Numbers of one's own instead: (pixel - mean) / std * scale, pixels from 0 to 255; "104,117,123", a number for each channel in the order that
    // channel_order makes, or one for all. NULL (the default): mean 0, std 1. With scale 1 (the default) and neither, normalize counts.
    const char *mean, *std;
    double scale;
    const char *channel_order;  // "rgb" (the default); "bgr": blue first, as Caffe's and OpenCV's users have it
    // Normal noise of this deviation, of pixel / 255, on the images that the network sees; what it is trained towards has none. Drawn for each sample and
    // epoch; black and white are the limits. Evaluation has some too where images are what is trained towards, as denoising is. Default 0.
    double noise;
    // What becomes of samples that cannot be decoded: "stop" (the default): training ends with the sample, the file and what is wrong; "skip": the next sample
    // of the set that can be read stands in for it, the same one for any number of workers and threads (ls_train_result.samples_replaced).
    const char *broken;
    // S, 0 <= S < 1: what is trained towards is 1 - S + S / classes for a sample's class and S / classes for the others; the
    // training loss is with respect to that, evaluation is not smoothed. Default 0.
    double label_smoothing;
    // Of samples with several labels at once: what a label that is there adds to the loss is multiplied by it; default 1.
    double positive_weight;
    // Of samples with one class each: what a training sample adds to the loss is multiplied by the weight of its class. "none" or NULL: by 1; "balanced": by samples /
    // (classes * samples of the class); or a number for each class, "1,2,0.5". The mean is still over samples; evaluation has no weights.
    const char *class_weight;
    // A, 0.05 <= A <= 1: training images are mixed with others, and their labels: the share of each is drawn from Beta(A, A), keyed by (seed, epoch, sample); the training accuracy is by the class that has
    // more, with class_weight by the one whose part times its weight is more. 0 (the default): they are not. Of classifiers of images, with one class each.
    double mixup;
    // How evaluation looks at the images of a classifier: "none" (the default): once, as they are; "flip": mirrored, too; "flip-translate": these two
    // count half, and moved by a pixel up and left, and down and right, each mirrored, too, the other half. Scores are averaged.
    const char *tta;
    int evaluate;  // 1 (the default): evaluate on the test set at the end
    int validate;  // 1: evaluate on the test set after every epoch, as Keras's validation_data; 0 (the default): do not
    // 1: weights are loaded or set before they are used, so that initializers which measure images ("patch_whitening") need not: ls_trainer_create reads no samples
    // for them. 0 (the default): they measure. Has no option.
    int weights_follow;

    const char *optimizer;                   // "adam", "adamw", "sgd", "lars", "lamb"
    double lr;                               // < 0: the optimizer's default
    double momentum, beta1, beta2, epsilon;  // < 0: the optimizer's default
    // Decoupled from the gradient in sgd, adam and adamw: weights shrink by weight_decay times the rate, as in AdamW and by weight_decay of
    // Keras's optimizers. In lars it is added to the gradient behind its norm, in lamb to the direction, as in their papers. < 0: the
    // optimizer's default.
    double weight_decay;
    // Coupled decay: l2 times the weights is added to the mean gradient, behind clipping and before the optimizer's momentum, moments and
    // norms: the gradient of l2 / 2 |weights|^2, which is not part of the losses that are reported. It is weight_decay of PyTorch's SGD
    // and Adam and of Caffe, and twice the factor of Keras's regularizers.L2. 0 (the default): none.
    double l2;
    int nesterov;
    double trust_coefficient;  // of lars; < 0: its default
    int decay_biases;  // 1 (the default): weight decay and l2 are of all weights; 0: of kernels only, neither of biases nor of batch norm
    double
        clip_norm;  // a mean gradient whose norm over all parameters is larger is scaled down to it; 0 (default): none
    // Beside the weights slow ones are kept, which every `lookahead` steps go a part of the way to them, and they become those; 0 (the default):
    // none. The part is lookahead_step (default 0.5) with a power of 0 (the default); else it goes from 1 to that with the power of how much of
    // training is done. Training that does all its steps ends on the slow weights; where it is stopped, on those that the optimizer moves. Zhang et al. 2019.
    int lookahead;
    double lookahead_step, lookahead_power;
    // When the loss or a gradient is no finite number any more: "stop" (the default): training ends after the next step, with
    // LS_STATUS_DIVERGED; "skip": a step whose gradient is not finite leaves weights and optimizer state as they are (it counts as a step for schedules and bias
    // correction), and micro-batches whose loss is not do not count in the
    // epoch's, an epoch of nothing else is an error; "continue": nothing is done about it.
    const char *not_finite;
    // What a loss's gradient is multiplied by, and the mean gradient divided by again: a power of two from 1 to 16777216, "1024"; or "dynamic", from 32768
    // on, "dynamic:1024", from that: halved after a step whose gradient is not finite, which is left out, and doubled after loss_scale_steps (default 2000)
    // in a row that were taken. NULL (the default): dynamic with precision "fp16", else 1. In other precisions it changes no bit that neither overflows nor
    // is flushed to zero. Not with async; dynamic not with lookahead. Micikevicius et al. 2018; Keras's LossScaleOptimizer.
    const char *loss_scale;
    int loss_scale_steps;
    const char *lr_scaling;  // "none"; "linear": times batch_size / lr_base_batch
    int64_t lr_base_batch;   // the batch that lr was chosen for; default 128, which is batch_size's
    double warmup_epochs;    // epochs before the rate is the full one; 0 (the default): none
    // "gradual" (the default): meanwhile it grows linearly from lr (linear scaling) or 0 (none) to the full one;
    // "constant": meanwhile it stays at lr, which takes linear scaling. Goyal et al. 2017, section 2.2.
    const char *warmup;
    // 1: when the rate changes, the momentum of sgd and lars, a sum of past gradients at the rates of their steps, is multiplied by
    // new rate / old rate; 0 (the default): it is not, as in Keras. Goyal et al. 2017, section 3, remark 2.
    int momentum_correction;
    const char *schedule;  // "constant", "step", "cosine", "polynomial", "one-cycle", "one-cycle-linear", "cyclic"
    double schedule_step_epochs, schedule_gamma;  // step: times gamma every so many epochs
    const char *schedule_steps;     // step: the epochs after which it does so instead, "30,60,80"; default NULL
    double schedule_power;          // polynomial
    double schedule_end;            // polynomial, cosine, one-cycle: the fraction of lr to end at; default 0
    double schedule_start;          // one-cycle: the fraction of lr to start at; cyclic: the lowest; default 0.04
    double schedule_rise;           // one-cycle: the share of all epochs in which the rate rises; default 0.3
    double schedule_period_epochs;  // cyclic: epochs from one low to the next; default 4
} ls_train_config;

void ls_train_config_init(ls_train_config *config);

#define LS_MAX_BATCH 1000000000  // samples in a step: far below what overflows when they are counted
// A table over ls_train_config, one row per field: what `lockstep train` offers, records, and workers compare. Rows of names, as of
// devices, strategies, optimizers, schedules and augmentations, list them (ls_option.choices). Not collective.
const ls_option *ls_train_options(void);

// The base learning rate, before scaling: what is asked for, else the optimizer's own. Not collective. Errors: NOT_FOUND (the
// optimizer), INVALID_ARGUMENT (what it does not take).
ls_status ls_train_base_rate(const ls_train_config *config, double *out);

// How many of so many workers only serve, with the strategy of `config`: the others compute micro-batches. Not collective. Errors: NOT_FOUND (the
// strategy), INVALID_ARGUMENT (it is not for so many workers, or servers; says what to do).
ls_status ls_train_servers(const ls_train_config *config, int workers, int *out);

// How each of so many workers, with so many cores in one NUMA domain, would share them: replicas, and threads of each. Not collective. Errors:
// INVALID_ARGUMENT (more workers than micro-batches).
ls_status ls_train_spread(const ls_train_config *config, int workers, int cores, int *replicas, int *threads);

// The shape (H, W, C) in which a network sees a dataset's images of shape `image`: what to build it for. Not collective.
ls_shape ls_train_image_shape(const ls_train_config *config, ls_shape image);
// Tells a network of what shape the dataset's samples are, as it will see them (images, or sequences), and, where `model` leaves it open, how
// many classes and tokens there are. Not collective.
void ls_train_fit_model(const ls_train_config *config, const ls_dataset *dataset, ls_model_config *model);

// What the recipe makes of one image, as evaluation sees it: resized to `shape` (H, W, C), normalized, into out (H, W, C). Where normalize
// is "dataset", mean and deviation are those of ls_train_result or ls_dataset_channels, (C) each; else they may be NULL. Not collective.
// Errors: INVALID_ARGUMENT (an image of other channels, no mean), OUT_OF_MEMORY.
ls_status ls_train_prepare_image(const ls_train_config *config, const ls_image *image, ls_shape shape,
                                 const double *mean, const double *deviation, float *out);

// The same of a PNG or JPEG file, to the pixels that training on files would have of it. Errors: those of ls_image_read, too.
ls_status ls_train_prepare_file(const ls_train_config *config, const char *path, ls_shape shape, const double *mean,
                                const double *deviation, float *out);
// The same with the noise that evaluation adds to sample `sample`, where config has some. Errors: as above.
ls_status ls_train_prepare_sample(const ls_train_config *config, const ls_image *image, int64_t sample, ls_shape shape,
                                  const double *mean, const double *deviation, float *out);

// What a trainer feeds to an input LS_INPUT_NOISE of `count` elements for sample `sample` in evaluation. Not collective.
void ls_train_draw_noise(const ls_train_config *config, int64_t sample, int64_t count, float *out);

// The micro-batch for a global batch when none is asked for: a function of the batch alone, so that the same command
// gives the same bits on any machine. Below 16: the whole batch. From 16 on: 16 to 128 samples, of the batch's divisors the
// largest that gives eight micro-batches, else the smallest. Where it has no such divisor, the last micro-batch is shorter, by half at most. Not collective.
int64_t ls_micro_batch_default(int64_t batch_size);

// The members of ls_phase_seconds, for those that go over all of them.
#define LS_PHASE_LIST(X) X(load) X(forward) X(backward) X(exchange) X(wait) X(update) X(serial)

// Where a replica's time goes: every moment of an epoch is in one of these.
typedef struct ls_phase_seconds {
    double load;  // waiting for its next micro-batch
    double forward, backward;
    double exchange;  // adding gradients up, sending and receiving them and the new weights
    double wait;      // for the other replicas of its host, and for what the main thread does between steps
    double update;    // of the weights, and of kernels' copies of them
    double serial;    // what is done besides: setting the epoch up, the learning rate, showing progress
} ls_phase_seconds;

// One epoch as it went; what the progress display and the records are made from.
typedef struct ls_epoch_result {
    int epoch;      // from 1
    int64_t steps;  // fewer than ls_train_result.steps_per_epoch where training was stopped in it
    double seconds, loss, accuracy, images_per_second;  // of training; not of the evaluation after it
    double learning_rate;                               // of the last step
    double val_loss, val_accuracy, val_seconds;  // on the test set after it; NAN without ls_train_config.validate
    ls_phase_seconds mean, most;  // over all replicas of the job, of the whole epoch; zero until training is over
    // Steps of it that were left out, as ls_train_config.not_finite = "skip" has it, or a dynamic loss scale
    int64_t skipped;
    double
        val_area;  // of several labels, the mean area under their ROC curves on the test set after it; NAN: there is none
    double loss_scale;  // after it, for the next step; 1: none
} ls_epoch_result;

// How good an epoch left the network, by what the test set says, to compare epochs of one training with: the larger the better. Of several labels
// the mean area, else the accuracy, where there is neither the negative loss; NAN without ls_train_config.validate, and of NULL. Not collective.
double ls_epoch_score(const ls_epoch_result *epoch);

typedef struct ls_train_result {
    int epochs;
    const ls_epoch_result *epoch;  // (epochs); owned by the trainer
    int64_t steps_per_epoch;
    double step_seconds_median, epoch_seconds_median;  // the latter over whole epochs; 0 where there is none
    double images_per_second;           // median over whole epochs, or over all where there is no whole one
    double train_loss, train_accuracy;  // of the last epoch
    double test_loss, test_accuracy;
    double train_seconds, evaluate_seconds;
    ls_phase_seconds phases;                // per step: mean over steps of the mean over replicas
    const ls_phase_seconds *worker_phases;  // (workers), by rank: the same of each worker; owned by the trainer
    // A tree of SHA-256 (docs/bits.md) over the parameters as little-endian floats in Keras's order and layout; "": not all are finite.
    char weights_digest[65];
    char probe
        [65];  // SHA-256 of the gradient of a micro-batch of fixed numbers, which all hosts had alike before training; "": one host
    int64_t peak_rss_bytes;  // of the largest worker
    int64_t planned_bytes;   // what it was planned to be (ls_memory.total.worker)
    int workers, hosts, replicas_per_worker, threads_per_replica;
    int servers;            // of the workers: they update for the others and compute nothing
    int comm_cores;         // of each worker, for its exchange alone; replicas_reason says why
    int buckets;            // that gradients are exchanged in; 1: after backward
    const char *algorithm;  // "direct", "halving"; "": one host, or a strategy that has one way only
    const char *
        tuned;  // where the size of buckets and the algorithm come from: "measured", "cached" (by an earlier job); "": no measurement
    double bucket_megabytes;  // where measured; what a bucket costs, however small, and bytes of parameters a second
    double bucket_seconds, exchange_bytes_per_second;
    double
        exchange_hidden;  // seconds per step in which the exchange was at work while replicas computed: mean over workers
    int synchronous;      // 1: by its strategy, weights are the same bits for any number of workers and replicas
    int digest_by_timing;  // 1: of asynchronous training, another run of the same command may have another digest
    // Of asynchronous training: pushes that the first server has applied, and how many others came between a push and its pull, in the mean and at most.
    int64_t pushes, staleness_largest;
    double staleness_mean;
    int64_t global_batch, micro_batch;
    ls_shape image;  // (H, W, C), as the network sees it
    // Of pixel / 255 over the training set, (C) each and owned by the trainer; NULL where normalize is not "dataset".
    const double *channel_mean, *channel_deviation;
    // Broken samples that others stood in for, in all steps and evaluations of this process's training; the sentence of one of them, "" for none.
    int64_t samples_replaced;
    char broken_sample[320];
    // Seconds that the threads that load this worker's training samples have spent, all together: reading, and decoding and preparing.
    double load_reading, load_preparing;
    int loader_threads;  // of all replicas of this worker's host, as of creation, the end of ls_trainer_fit or the latest evaluation
    int loader_threads_measured;  // 1: because the first steps wanted so many
    char replicas_reason[160];    // why so many replicas
    int cores_per_worker;         // the least that a worker has of its own; 0: fewer cores than workers
    int idle_cores;               // of them without work
    char cores_advice[240];       // what would give those work; "": they are few
    char
        normalization_advice[240];  // a layer of batch normalization that sees too few samples at a time; "": none does
    int oversubscribed;             // 1: some worker has fewer cores than threads
    char device_description[256], comm_description[256];
    double weight_decay, l2;        // as they are gone by
    const char *weight_decay_form;  // what weight_decay is: "decoupled", "as in LARS", "as in LAMB"
    double loss_scale;              // for the step that would come next; 1: none
    int loss_scale_dynamic;         // 1: it changes with the gradients
} ls_train_result;

// --- a trainer -------------------------------------------------------------------------------------------------------

// Sets up training of a finished graph on a dataset: checks that all workers agree, builds plans, allocates, draws the
// initial weights. What a batch feeds to an input of the graph is the dataset's field of its name; where there is none, a floating
// input takes "image", class numbers "label", and what losses alone read "target", "label" or "image", whichever fits. An input may
// itself be a loss's target: an auto-encoder's is ls_graph_input(graph). A graph
// without losses is trained as a classifier (graph.h); where the dataset's "label" is a row of 0 and 1, as one of several labels at once: binary
// cross-entropy "loss", binary accuracy "accuracy" and, in evaluation, the area under the ROC curve of each, "auc". Trainers of graphs that share a store train the same weights in turn; the
// first sets the device, the precision and the strategy for all. They are destroyed in any order, the same on all workers.
// Borrows context, graph, dataset and the texts of config. The caller destroys it.
// Errors: INVALID_ARGUMENT, UNSUPPORTED (precision), MISMATCH (which worker differs, in what), OUT_OF_MEMORY.
ls_status ls_trainer_create(ls_context *context, const ls_graph *graph, ls_dataset *dataset,
                            const ls_train_config *config, ls_trainer **out);
void ls_trainer_destroy(ls_trainer **trainer);

// --- step by step ----------------------------------------------------------------------------------------------------
//
//     CHECK(ls_trainer_begin_epoch(t));
//     while (ls_trainer_steps_left(t) > 0) CHECK(ls_trainer_step(t, &report));
//     CHECK(ls_trainer_end_epoch(t, &epoch));
//
// ls_trainer_fit is this loop. All workers call these together, as often as each other. With ls_train_config.async each calls
// ls_trainer_step as often as ls_trainer_steps_left says that something is left: of a computing worker each is a batch of its own, of a server
// all that it serves in the epoch.

// A step as it went.
typedef struct ls_step_report {
    int epoch, epochs;
    int64_t step, steps;  // in this epoch, from 1
    double seconds;       // since the epoch began, or was gone on with
    double loss,
        accuracy;  // mean over the epoch so far, of what this worker's host computed; accuracy NAN where there is none
    double images_per_second;
    double batch_loss, batch_accuracy, learning_rate;  // of this step alone; the first two as above
    int rank;
} ls_step_report;

// Begins the next epoch, or goes on with one that was left before its end: its order of samples, its loaders. Errors: INVALID_ARGUMENT
// (one is running, or all are done), OUT_OF_MEMORY.
ls_status ls_trainer_begin_epoch(ls_trainer *trainer);
// Steps until the end of the running epoch; 0: none is running, or it is at its end.
int64_t ls_trainer_steps_left(const ls_trainer *trainer);
// The next batch on all workers (with async: of this worker): forward and backward, exchange, update. *out may be NULL. Errors, on every worker and with the sentence of
// the one that failed: whatever a loader, a kernel or the exchange fails with; LIBRARY may be one worker's alone (ls_context_abort).
// After one of these the trainer takes no step any more, and its weights are not to be used: part of the step may be in them.
ls_status ls_trainer_step(ls_trainer *trainer, ls_step_report *out);
// Ends the running epoch, at its end or before: sums over all workers, validation where it is asked for and the epoch is whole. An epoch
// that is left is gone on with by the next ls_trainer_begin_epoch. Errors: DIVERGED (since which step), as above.
// *out may be NULL. val_loss and val_accuracy are the same numbers on every worker: a loop that stops by them stops everywhere.
ls_status ls_trainer_end_epoch(ls_trainer *trainer, ls_epoch_result *out);

// --- all at once -----------------------------------------------------------------------------------------------------

// Called by ls_trainer_fit on every worker, in its main thread. Any member may be NULL. When one worker or several set *stop, all of
// them stop: after the step that follows, or this one where it is the epoch's last, or after this epoch. A callback that fails ends
// training on all workers in the same way, with its status and sentence (ls_error_set).
typedef struct ls_callbacks {
    void *user;
    ls_status (*on_step)(void *user, const ls_step_report *step, int *stop);     // after each step
    ls_status (*on_epoch)(void *user, const ls_epoch_result *epoch, int *stop);  // after each epoch and its validation
} ls_callbacks;

// Trains all epochs that are left, and what is left of one. callbacks may be NULL. Errors, the same on every worker: DIVERGED (a loss or a
// weight is no finite number any more: since which step), LIBRARY, a callback's; LIBRARY may be one worker's alone.
// A step that is asked for after one of these fails and repeats its sentence, until an epoch is begun again.
ls_status ls_trainer_fit(ls_trainer *trainer, const ls_callbacks *callbacks);

// Mean loss and accuracy over the test set. Either pointer may be NULL.
ls_status ls_trainer_evaluate(ls_trainer *trainer, double *loss, double *accuracy);

// --- what came of it -------------------------------------------------------------------------------------------------

// A loss or a metric of the graph. What has several parts, as an area under a curve for each label, is there with their mean first and
// then with each: "auc", "auc/0", "auc/1", ...
typedef struct ls_measure_result {
    const char *name;  // the layer's; owned by the trainer
    int is_loss;
    double train,
        test;  // of the latest epoch and the latest evaluation; NAN: none, as of those that only an evaluation has
} ls_measure_result;

// Where the first number of the latest epoch came from that was no finite one, once it has ended with that or with steps left out: "in what layer
// conv2d_1 made, of finite inputs and weights, of sample 17". "": there was none, or it is not known. Owned by the trainer. Not collective.
const char *ls_trainer_not_finite(const ls_trainer *trainer);
int ls_trainer_measure_count(const ls_trainer *trainer);
ls_measure_result ls_trainer_measure(const ls_trainer *trainer, int index);

// What the latest evaluation took for what, of a graph with a balanced accuracy: counts[i * classes + k] samples of class i had their
// largest score at class k. (classes, classes). The same on every worker. Not collective. Errors: INVALID_ARGUMENT (no such metric, no
// evaluation yet, another number of classes).
ls_status ls_trainer_confusion(const ls_trainer *trainer, int64_t *counts, int classes);

// The scores that the latest evaluation gave, of a graph with areas under ROC curves, as one that is trained on labels has them. Row n is of sample n:
// `labels` scores, logits mostly, then for each label 1 where it is there and 0 where not.
typedef struct ls_label_scores {
    int64_t samples;
    int labels;
    const double *rows;  // (samples, 2 labels); the trainer's, until it evaluates again or is destroyed
} ls_label_scores;
// The same on every worker. Not collective. Errors: INVALID_ARGUMENT (no such metric, no evaluation yet).
ls_status ls_trainer_label_scores(const ls_trainer *trainer, ls_label_scores *out);

// A timeline of what every replica of every worker does, for people to look at. Records the first `steps` steps after the
// first two of every epoch, or fewer, so that the whole job has no more than about a million spans; costs a reading of the clock for
// each layer and pass. Between ls_trainer_create and ls_trainer_fit, once. Collective.
// Errors: INVALID_ARGUMENT, OUT_OF_MEMORY.
ls_status ls_trainer_trace(ls_trainer *trainer, int64_t steps);
// Gathers the timeline, all clocks brought to worker 0's, which writes it to `path` as Chrome trace JSON (docs/trace.md); the
// others' path does not count. Collective. Errors: IO (the path, the system's words), OUT_OF_MEMORY; the trainer is as it was.
ls_status ls_trainer_trace_write(ls_trainer *trainer, const char *path);
// Fills in what is known so far; computes the digest.
ls_status ls_trainer_result(ls_trainer *trainer, ls_train_result *out);
// Copies a parameter out of, or into, the model, in Keras's shape and order: `count` floats.
ls_status ls_trainer_get_weights(ls_trainer *trainer, const char *parameter, float *out, int64_t count);
ls_status ls_trainer_set_weights(ls_trainer *trainer, const char *parameter, const float *values, int64_t count);

// Weights in files of the format safetensors, under Keras's names and in Keras's shapes (docs/models.md). Worker 0 reads and
// writes; a failure is every worker's.
//
// Takes every parameter from a file that has these and no others: safetensors, of F32, F16 or BF16, or HDF5 as Keras writes it. All is looked at before
// anything is taken. Errors: NOT_FOUND, IO, BAD_DATA (a damaged file; a value that is no finite number; another network's: the first parameter that
// is missing, of another shape, or too many), UNSUPPORTED (another type).
ls_status ls_trainer_load_weights(ls_trainer *trainer, const char *path);
// Takes those that the file has under the same name and in the same shape, *taken of them (may be NULL), and leaves the others:
// Keras's load_weights(by_name=True, skip_mismatch=True). Errors: as above; BAD_DATA (there is none).
ls_status ls_trainer_load_weights_by_name(ls_trainer *trainer, const char *path, int *taken);
// Takes those that `body` has too, a graph of the same network without its top: a new head on what was trained for other classes.
// Errors: as above; BAD_DATA (one of the body's is missing, or of another shape); INVALID_ARGUMENT (all of the head is frozen).
ls_status ls_trainer_load_body(ls_trainer *trainer, const char *path, const ls_graph *body, int *taken);
// Writes all parameters as F32: safetensors, or as Keras does where the name ends in .weights.h5 (Keras 3) or .h5; beside `path` first and then into place in one move. Errors: IO, OUT_OF_MEMORY.
ls_status ls_trainer_save_weights(ls_trainer *trainer, const char *path);
// Whether that can be done to `path`, asked before hours of training. Not collective. Errors: IO (the path and the system's words).
ls_status ls_weights_file_check(const char *path);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
