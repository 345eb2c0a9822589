// The fields of ls_train_config as an option table.
#include <lockstep/train.h>

#include "data/augment.h"
#include "data/filter.h"
#include "data/normalize.h"
#include "device/device.h"
#include "optim/optim.h"
#include "step/strategies.h"
#include "train/views.h"

static const char *device_choice(int index, const char **help) {
    const ls_device_ops *device = ls_device_ops_at(index);
    *help = device ? device->help : NULL;
    return device ? device->name : NULL;
}

static const char *strategy_choice(int index, const char **help) {
    const ls_strategy *s = ls_strategies();
    for (int i = 0; s->name; s++, i++)
        if (i == index) {
            *help = s->help;
            return s->name;
        }
    return NULL;
}

static const char *optimizer_choice(int index, const char **help) {
    const ls_optimizer *const *list = ls_optimizers();
    for (int i = 0; list[i]; i++)
        if (i == index) {
            *help = list[i]->help;
            return list[i]->name;
        }
    return NULL;
}

static const char *schedule_choice(int index, const char **help) {
    const ls_schedule *const *list = ls_schedules();
    for (int i = 0; list[i]; i++)
        if (i == index) {
            *help = list[i]->help;
            return list[i]->name;
        }
    return NULL;
}

static const char *views_choice(int index, const char **help) {
    const ls_views_kind *kind = ls__views_kind(index);
    if (!kind) return NULL;
    *help = kind->help;
    return kind->name;
}

#define AT(member)     .offset = offsetof(ls_train_config, member)
#define TRAINING       .group = "Training"
#define IMAGES         .group = "Images"
#define WORKERS        .group = "Workers, replicas, threads"
#define OPTIMIZER      .group = "Optimizer"
#define RATE           .group = "Learning rate over time"
#define OPTIMIZERS_OWN .initial = "the optimizer's own"

static const ls_option table[] = {
    {"epochs", LS_OPTION_INT, AT(epochs), .metavar = "N", .min = 1, TRAINING, .help = "passes over the training set"},
    {"batch-size", LS_OPTION_COUNT, AT(batch_size), .metavar = "B", .min = 1, .max = LS_MAX_BATCH, TRAINING,
     .help =
         "the GLOBAL batch: samples per step over ALL workers together, NOT per worker. More workers share the same "
         "batch; the result stays the same"},
    {"micro-batch", LS_OPTION_COUNT, AT(micro_batch), .metavar = "M", .min = 1, .max = LS_MAX_BATCH, TRAINING,
     .initial = "a fixed function of the batch size",
     .help =
         "samples per micro-batch, the piece of a batch that one replica computes at a time; where it does not divide "
         "the batch, the last one is shorter. Batch normalization normalizes over a micro-batch"},
    {"seed", LS_OPTION_SEED, AT(seed), .metavar = "N", TRAINING,
     .help = "what everything random is drawn from: initial weights, order of samples, augmentation, dropout"},
    {"shuffle", LS_OPTION_FLAG, AT(shuffle), TRAINING, .help = "keep the order of the samples in every epoch"},
    {"limit-train", LS_OPTION_COUNT, AT(limit_train), .metavar = "N", .min = 1, .max = 1e12, TRAINING, .initial = "all",
     .help = "use only the first N training samples"},
    {"limit-test", LS_OPTION_COUNT, AT(limit_test), .metavar = "N", .min = 1, .max = 1e12, TRAINING, .initial = "all",
     .help = "use only the first N test samples"},
    {"drop-remainder", LS_OPTION_FLAG, AT(drop_remainder), TRAINING,
     .help =
         "end an epoch with its last whole batch, as drop_last does: what is left over, other samples in each epoch, "
         "is not trained on"},
    {"label-smoothing", LS_OPTION_REAL, AT(label_smoothing), .metavar = "S", .max = 1, TRAINING,
     .help = "train towards 1 - S + S/classes for a sample's class and S/classes for the others; evaluation does not"},
    {"class-weight", LS_OPTION_TEXT, AT(class_weight), .metavar = "WEIGHTS", TRAINING, .initial = "none",
     .help = "multiply what a training sample adds to the loss by the weight of its class: a number for each, or "
             "balanced: samples / "
             "(classes x samples of the class)"},
    {"positive-weight", LS_OPTION_REAL, AT(positive_weight), .metavar = "X", .max = 1e6, TRAINING,
     .help =
         "of samples with several labels: what a label that is there adds to the loss is multiplied by X, for labels "
         "that are rare"},
    {"evaluate", LS_OPTION_FLAG, AT(evaluate), TRAINING, .help = "do not evaluate on the test set at the end"},
    {"validate", LS_OPTION_FLAG, AT(validate), TRAINING,
     .help = "evaluate on the test set after every epoch (val_loss, val_accuracy); an epoch's time does not count it"},
    {"precision", LS_OPTION_TEXT, AT(precision), .metavar = "fp32|bf16|fp16", TRAINING,
     .help = "type of activations and working weights; bf16 and fp16 keep fp32 master weights and sums. fp16 has a "
             "dynamic loss scale, and wants a processor with avx512_fp16, or the device ref"},
    {"compress", LS_OPTION_TEXT, AT(compress), .metavar = "WAY", TRAINING,
     .help = "what becomes of gradients: none, bf16, topk or topk:PART. bf16: they and their sums are rounded to bf16 "
             "and take half the bytes between hosts. topk:0.01, as topk is: of each micro-batch's gradient the largest "
             "hundredth counts, and the rest is added to that of the next step. Both CHANGE the result, to the same "
             "one for any number of workers"},
    {"remat", LS_OPTION_FLAG, AT(remat), TRAINING,
     .help = "compute activations again in backward instead of keeping them: less memory, more time, the same bits"},
    {"device", LS_OPTION_TEXT, AT(device), .metavar = "NAME", .choices = device_choice, TRAINING,
     .help = "what computes"},
    {"isa", LS_OPTION_TEXT, AT(isa), .metavar = "avx2|avx512|avx512-bf16|avx512-fp16|amx|amx-fp16", TRAINING,
     .initial = "all that the processor has",
     .help =
         "the instruction set to keep to, so that hosts with more compute the same bits as those that have no more; "
         "other bits with each"},

    {"image-size", LS_OPTION_INT, AT(image_size), .metavar = "N", .min = 1, .max = 4096, IMAGES,
     .initial = "as they are; of any size: the network's own",
     .help = "resize images to N x N pixels, the network is built for that size"},
    {"resize", LS_OPTION_INT, AT(resize), .metavar = "N", .max = 4096, IMAGES, .initial = "the whole image",
     .help =
         "bring the shorter side of images to N pixels first, and cut --image-size out of the middle; training cuts "
         "anywhere with --augment random-crop"},
    {"interpolation", LS_OPTION_TEXT, AT(interpolation), .metavar = "NAME", .choices = ls_interpolation_choice, IMAGES,
     .help = "how images are resized"},
    {"augment", LS_OPTION_TEXT, AT(augment), .metavar = "LIST", .choices = ls_augment_choice, .several = 1, IMAGES,
     .help = "change training images at random, differently in each epoch; several names with commas between them"},
    {"mixup", LS_OPTION_REAL, AT(mixup), .metavar = "A", .max = 1, IMAGES,
     .help =
         "mix each training image and its label with another's, in a share drawn from Beta(A, A); A from 0.05 to 1"},
    {"noise", LS_OPTION_REAL, AT(noise), .metavar = "S", .max = 10, IMAGES,
     .help =
         "normal noise of deviation S on images, black to white being 1, and not on those that are trained towards: "
         "for denoising"},
    {"tta", LS_OPTION_TEXT, AT(tta), .metavar = "NAME", .choices = views_choice, IMAGES,
     .help = "test-time augmentation: what evaluation averages a classifier's scores over"},
    {"broken", LS_OPTION_TEXT, AT(broken), .metavar = "stop|skip", IMAGES,
     .help =
         "a sample that cannot be decoded ends training, or the next one that can stands in for it, and is counted"},
    {"normalize", LS_OPTION_TEXT, AT(normalize), .metavar = "NAME", .choices = ls_normalization_choice, IMAGES,
     .help = "what the pixels 0 to 255 become"},
    {"mean", LS_OPTION_TEXT, AT(mean), .metavar = "A,B,C", IMAGES, .initial = "none",
     .help =
         "subtract these from the pixels 0 to 255 of the channels, as 104,117,123; with --std and --scale: (pixel - "
         "mean) / std * scale, in place of --normalize"},
    {"std", LS_OPTION_TEXT, AT(std), .metavar = "A,B,C", IMAGES, .initial = "none",
     .help = "divide by these, after --mean"},
    {"scale", LS_OPTION_REAL, AT(scale), .metavar = "X", .max = 1e6, IMAGES,
     .help = "multiply by X, after --mean and --std: 0.0078125 with a mean of 128 makes -1 to 1"},
    {"channel-order", LS_OPTION_TEXT, AT(channel_order), .metavar = "rgb|bgr", IMAGES,
     .help = "the order in which the network gets the channels; --mean and --std are in it"},

    {"strategy", LS_OPTION_TEXT, AT(strategy), .metavar = "NAME", .choices = strategy_choice, WORKERS,
     .help = "how workers exchange gradients and update"},
    {"servers", LS_OPTION_INT, AT(servers), .metavar = "S", .min = 1, .max = 65535, WORKERS,
     .initial = "1 with parameter-server",
     .help = "with --strategy parameter-server: workers that update the weights for the others and compute nothing"},
    {"async", LS_OPTION_FLAG, AT(async), WORKERS,
     .help =
         "with --strategy parameter-server: each worker takes batches, pushes gradients and pulls weights at its own "
         "pace, and servers apply pushes as they come. The result then DEPENDS ON TIMING"},
    {"staleness", LS_OPTION_INT, AT(staleness), .metavar = "N", .max = 1000000, WORKERS, .initial = "any",
     .help = "with --async: let at most N other pushes come between a pull and its push; 0: the bits of synchronous "
             "training"},
    {"delay-compensation", LS_OPTION_REAL, AT(delay_compensation), .metavar = "L", .max = 1e6, WORKERS,
     .help =
         "with --async: correct stale gradients by L times their squares times what the weights have moved (DC-ASGD)"},
    {"push-log", LS_OPTION_TEXT, AT(push_log), .metavar = "FILE", WORKERS, .initial = "none",
     .help = "with --async: write down in which order weights were pulled and gradients pushed"},
    {"replay", LS_OPTION_TEXT, AT(replay), .metavar = "FILE", WORKERS, .initial = "none",
     .help = "with --async: repeat the order of such a log, to the same weights bit for bit"},
    {"slow", LS_OPTION_TEXT, AT(slow), .metavar = "worker=W,factor=F", WORKERS, .initial = "none",
     .help = "for studies: worker W computes F times slower, by sleeping; workers count from 0"},
    {"algorithm", LS_OPTION_TEXT, AT(algorithm), .metavar = "auto|direct|halving", WORKERS,
     .help = "how allreduce sends between hosts: each piece directly to all others, or by recursive halving and "
             "doubling, to a few; auto: what --tune measures, else direct up to 8 hosts, or 15. The same bits"},
    {"tune", LS_OPTION_TEXT, AT(tune), .metavar = "off|auto|again", WORKERS,
     .help = "measure the exchange between hosts at start-up, in about 0.3 s, to choose --bucket-size and --algorithm "
             "where they are not given. auto: for networks of 4 MB at least, and measurements are kept for later jobs; "
             "again: measure anew. The same bits"},
    {"replicas", LS_OPTION_INT, AT(replicas), .metavar = "R", .min = 1, WORKERS,
     .initial = "as there are cores and micro-batches for",
     .help = "replicas per worker, each computing micro-batches of its own"},
    {"threads", LS_OPTION_INT, AT(threads), .metavar = "T", .min = 1, .max = 1024, WORKERS,
     .initial = "such that every core works; 1 with --replicas",
     .help = "threads per replica, which share the work of each layer: more where a step has fewer micro-batches than "
             "there are cores. The result stays the same"},
    {"hyperthreads", LS_OPTION_FLAG, AT(hyperthreads), WORKERS,
     .help = "count every hardware thread as a core; they are left out otherwise"},
    {"bucket-size", LS_OPTION_REAL, AT(bucket_size), .metavar = "MB", .min = 0.001, .max = 1e6, WORKERS,
     .initial = "as --tune measures; else a twelfth of all, 0.25 to 2, on several hosts; all on one",
     .help = "exchange gradients in pieces of so many megabytes, each as soon as backward has written it"},
    {"early-forward", LS_OPTION_FLAG, AT(early_forward), WORKERS,
     .help = "end a step once all new weights have come, not before; each layer of the next forward waits for its own "
             "otherwise. The result stays the same"},
    {"comm-cores", LS_OPTION_INT, AT(comm_cores), .metavar = "N", .max = 1, WORKERS,
     .initial = "1 between hosts where a core is left over, or by a measurement; else 0",
     .help = "cores of each worker for nothing but that exchange; 0: it shares those of the replicas"},
    {"loader-threads", LS_OPTION_INT, AT(loader_threads), .metavar = "N", .min = 0, .max = 1024, WORKERS,
     .initial = "what keeps up: of samples in files by a measurement in the first steps, else 1 for each replica",
     .help = "threads of each host that read, decode and prepare samples, shared out to its replicas, at least one for "
             "each: more where training waits for them"},
    {"cache", LS_OPTION_TEXT, AT(cache), .metavar = "SIZE", WORKERS, .initial = "none",
     .help = "keep up to so much of the samples that are read of files in the memory of each host, as 8G: the first "
             "ones, as they "
             "are in their files (of hdf5:FILE those that are read first, unpacked); the rest is read in each epoch. "
             "The result stays the same"},
    {"cache-decoded", LS_OPTION_FLAG, AT(cache_decoded), WORKERS,
     .help =
         "with --cache: keep images as they were decoded, in place of their files' bytes: more memory for each, and "
         "they are decoded once. The result stays the same"},
    {"bind", LS_OPTION_FLAG, AT(bind), WORKERS, .help = "let the system move replicas between cores"},

    {"optimizer", LS_OPTION_TEXT, AT(optimizer), .metavar = "NAME", .choices = optimizer_choice, OPTIMIZER,
     .help = "how gradients change weights"},
    {"lr", LS_OPTION_REAL, AT(lr), .metavar = "X", OPTIMIZERS_OWN, OPTIMIZER, .help = "the base learning rate"},
    {"momentum", LS_OPTION_REAL, AT(momentum), .metavar = "X", .max = 1, OPTIMIZERS_OWN, OPTIMIZER,
     .help = "of sgd and lars"},
    {"nesterov", LS_OPTION_FLAG, AT(nesterov), OPTIMIZER, .help = "Nesterov's form of the momentum of sgd and lars"},
    {"beta1", LS_OPTION_REAL, AT(beta1), .metavar = "X", .max = 1, OPTIMIZERS_OWN, OPTIMIZER,
     .help = "decay of the mean gradient in adam, adamw and lamb"},
    {"beta2", LS_OPTION_REAL, AT(beta2), .metavar = "X", .max = 1, OPTIMIZERS_OWN, OPTIMIZER,
     .help = "decay of the mean squared gradient in adam, adamw and lamb"},
    {"epsilon", LS_OPTION_REAL, AT(epsilon), .metavar = "X", OPTIMIZERS_OWN, OPTIMIZER,
     .help = "added to the denominator in adam, adamw, lars and lamb"},
    {"weight-decay", LS_OPTION_REAL, AT(weight_decay), .metavar = "X", OPTIMIZERS_OWN, OPTIMIZER,
     .help =
         "decoupled weight decay: weights shrink by X times the rate, outside of the gradient (AdamW; weight_decay of "
         "Keras's optimizers). In lars it is part of the gradient, in lamb of the direction, as in their papers"},
    {"l2", LS_OPTION_REAL, AT(l2), .metavar = "X", OPTIMIZER, .initial = "none",
     .help =
         "coupled weight decay: X times the weights is added to the gradient before momentum and moments (weight_decay "
         "of PyTorch's SGD and Adam, Caffe and MXNet; twice the factor of Keras's regularizers.L2). Losses are "
         "reported without it"},
    {"decay-biases", LS_OPTION_FLAG, AT(decay_biases), OPTIMIZER,
     .help = "weight decay and L2 are of kernels only, neither of biases nor of the scales and shifts of batch "
             "normalization"},
    {"trust-coefficient", LS_OPTION_REAL, AT(trust_coefficient), .metavar = "X", OPTIMIZERS_OWN, OPTIMIZER,
     .help = "of lars: at rate 1, how far the gradient moves a kernel in a step, in norms of the kernel"},
    {"lookahead", LS_OPTION_INT, AT(lookahead), .metavar = "K", .min = 1, .max = 1000000, OPTIMIZER, .initial = "none",
     .help = "every K steps, slow weights go part of the way to the weights, which become them; at the end, too"},
    {"lookahead-step", LS_OPTION_REAL, AT(lookahead_step), .metavar = "A", .max = 1, OPTIMIZER,
     .help = "of lookahead: which part of the way"},
    {"lookahead-power", LS_OPTION_REAL, AT(lookahead_power), .metavar = "P", .max = 100, OPTIMIZER,
     .help = "of lookahead: that part goes from 1 to A with the P-th power of how much of training is done; 0: it is A "
             "all the time"},
    {"not-finite", LS_OPTION_TEXT, AT(not_finite), .metavar = "stop|skip|continue", OPTIMIZER,
     .help = "when the loss or a gradient is no finite number (NaN, infinity) any more: end training and say in which "
             "layer and of which "
             "samples it began; leave out the steps whose gradient is not finite; or go on all the same"},
    {"loss-scale", LS_OPTION_TEXT, AT(loss_scale), .metavar = "SCALE", OPTIMIZER,
     .initial = "dynamic with --precision fp16, else 1",
     .help = "multiply the loss's gradient by this power of two, and divide the mean gradient by it; dynamic, or "
             "dynamic:N to begin with N: halved after a step whose gradient is not finite, which is left out"},
    {"loss-scale-steps", LS_OPTION_INT, AT(loss_scale_steps), .metavar = "N", .min = 1, .max = 1000000000, OPTIMIZER,
     .help = "of a dynamic loss scale: steps in a row that are taken before it is doubled"},
    {"clip-norm", LS_OPTION_REAL, AT(clip_norm), .metavar = "X", OPTIMIZER, .initial = "no clipping",
     .help = "scale gradients down whose norm over all parameters is larger than X"},

    {"lr-scaling", LS_OPTION_TEXT, AT(lr_scaling), .metavar = "none|linear", RATE,
     .help = "linear: multiply the rate by the global batch over --lr-base-batch"},
    {"lr-base-batch", LS_OPTION_COUNT, AT(lr_base_batch), .metavar = "B", .min = 1, RATE,
     .help = "linear scaling: the global batch that --lr was chosen for"},
    {"warmup-epochs", LS_OPTION_REAL, AT(warmup_epochs), .metavar = "X", RATE,
     .help = "epochs before the rate is the full one"},
    {"warmup", LS_OPTION_TEXT, AT(warmup), .metavar = "gradual|constant", RATE,
     .help = "the rate meanwhile grows from the unscaled rate (linear scaling) or 0, or stays at the unscaled one"},
    {"momentum-correction", LS_OPTION_FLAG, AT(momentum_correction), RATE,
     .help = "when the rate changes, momentum of sgd and lars changes in proportion (in Keras it does not)"},
    {"schedule", LS_OPTION_TEXT, AT(schedule), .metavar = "NAME", .choices = schedule_choice, RATE,
     .help = "the rate over the course of training"},
    {"schedule-step", LS_OPTION_REAL, AT(schedule_step_epochs), .metavar = "X", RATE,
     .help = "step: epochs between two reductions"},
    {"schedule-steps", LS_OPTION_TEXT, AT(schedule_steps), .metavar = "X,X,...", RATE,
     .initial = "every --schedule-step", .help = "step: the epochs after which it is reduced, as 30,60,80"},
    {"schedule-gamma", LS_OPTION_REAL, AT(schedule_gamma), .metavar = "X", RATE, .help = "step: factor of a reduction"},
    {"schedule-power", LS_OPTION_REAL, AT(schedule_power), .metavar = "X", RATE, .help = "polynomial: the power"},
    {"schedule-end", LS_OPTION_REAL, AT(schedule_end), .metavar = "X", RATE,
     .help = "polynomial, cosine, one-cycle: the fraction of the rate to end at"},
    {"schedule-start", LS_OPTION_REAL, AT(schedule_start), .metavar = "X", RATE,
     .help = "one-cycle: the fraction of the rate to start at; cyclic: the lowest"},
    {"schedule-rise", LS_OPTION_REAL, AT(schedule_rise), .metavar = "X", .max = 1, RATE,
     .help = "one-cycle: the share of training in which the rate rises"},
    {"schedule-period", LS_OPTION_REAL, AT(schedule_period_epochs), .metavar = "X", RATE,
     .help = "cyclic: epochs from one low to the next"},
    {.name = NULL},
};

const ls_option *ls_train_options(void) { return table; }
