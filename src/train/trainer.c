// Setting a trainer up, and the loop over epochs.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "train/context.h"
#include "train/options.h"
#include "train/trainer_impl.h"

void ls_train_config_init(ls_train_config *c) {
    *c = (ls_train_config){.epochs = 5,
                           .batch_size = 128,
                           .precision = "fp32",
                           .device = "cpu",
                           .strategy = "allreduce",
                           .threads = 1,
                           .bind = 1,
                           .seed = 42,
                           .shuffle = 1,
                           .evaluate = 1,
                           .augment = "none",
                           .normalize = "unit",
                           .optimizer = "adam",
                           .lr = -1,
                           .momentum = -1,
                           .beta1 = -1,
                           .beta2 = -1,
                           .epsilon = -1,
                           .weight_decay = -1,
                           .trust_coefficient = -1,
                           .decay_biases = 1,
                           .lr_scaling = "none",
                           .lr_base_batch = 128,
                           .warmup = "gradual",
                           .schedule = "constant",
                           .schedule_step_epochs = 1,
                           .schedule_gamma = 0.1,
                           .schedule_power = 1,
                           .schedule_start = 0.04,
                           .schedule_rise = 0.3,
                           .schedule_period_epochs = 4};
}

// Eight micro-batches, so that up to eight workers share a step, but none larger than 128 samples (more does not make
// kernels faster) and, where the batch allows it, none smaller than 16 (less makes them slow). Divisors of the batch only.
int64_t ls_micro_batch_default(int64_t batch) {
    int64_t least = batch < 16 ? 1 : 16, best = 0;
    for (int64_t m = 1; m <= batch && m <= 128; m++)
        if (batch % m == 0 && m >= least && (best == 0 || batch / m >= 8)) best = m;
    return best ? best : batch <= 128 ? batch : 1;
}

// --- checks ----------------------------------------------------------------------------------------------------------

static ls_status resolve_schedule(ls_trainer *t) {
    const ls_train_config *c = &t->config;
    LS_TRY(ls_schedule_find(c->schedule, &t->schedule));
    t->schedule_params = (ls_schedule_params){.total_epochs = c->epochs,
                                              .step_epochs = c->schedule_step_epochs,
                                              .gamma = c->schedule_gamma,
                                              .power = c->schedule_power,
                                              .end = c->schedule_end,
                                              .start = c->schedule_start,
                                              .rise = c->schedule_rise,
                                              .period_epochs = c->schedule_period_epochs};
    if (c->schedule_steps && strcmp(c->schedule, "step") != 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "--schedule-steps %s are of the schedule 'step', and this one is '%s'", c->schedule_steps,
                       c->schedule);
    if (c->schedule_steps) LS_TRY(ls_schedule_read_steps(c->schedule_steps, &t->schedule_params));
    if (strcmp(c->schedule, "step") == 0 && !(c->schedule_step_epochs > 0))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the schedule 'step' reduces the rate every %g epochs: give --schedule-step a number above 0",
                       c->schedule_step_epochs);
    if (strcmp(c->schedule, "cyclic") == 0 && !(c->schedule_period_epochs > 0))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the schedule 'cyclic' has a period of %g epochs: give --schedule-period a number above 0",
                       c->schedule_period_epochs);
    return LS_OK;
}

static ls_status resolve_names(ls_trainer *t) {
    const ls_train_config *c = &t->config;
    if (strcmp(c->precision, "fp32") != 0 && strcmp(c->precision, "bf16") != 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "unknown precision '%s': there are fp32 and bf16", c->precision);
    t->precision = strcmp(c->precision, "bf16") == 0 ? LS_DTYPE_BF16 : LS_DTYPE_F32;
    if (!(c->clip_norm >= 0 && c->clip_norm < 1e30))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the gradient norm to clip at is %g; it must be at least 0 and less than 1e30", c->clip_norm);
    if (!(c->label_smoothing >= 0 && c->label_smoothing < 1))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the label smoothing is %g; it must be at least 0 and less than 1",
                       c->label_smoothing);
    if (strcmp(c->lr_scaling, "none") != 0 && strcmp(c->lr_scaling, "linear") != 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "unknown learning-rate scaling '%s': there are none and linear",
                       c->lr_scaling);
    if (c->lr_base_batch < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the batch that the learning rate was chosen for is %lld; it must be at least 1",
                       (long long)c->lr_base_batch);
    if (strcmp(c->warmup, "gradual") != 0 && strcmp(c->warmup, "constant") != 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "unknown warm-up '%s': there are gradual and constant", c->warmup);
    if (strcmp(c->warmup, "constant") == 0 && c->warmup_epochs > 0 && strcmp(c->lr_scaling, "linear") != 0)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "constant warm-up keeps the rate unscaled for %g epoch%s, but without --lr-scaling linear it is never "
            "scaled: ask for linear scaling, or for gradual warm-up",
            c->warmup_epochs, c->warmup_epochs == 1 ? "" : "s");
    LS_TRY(ls_optimizer_find(c->optimizer, &t->optimizer));
    t->optimizer_params = (ls_optimizer_params){c->lr,      c->momentum,     c->beta1,    c->beta2,
                                                c->epsilon, c->weight_decay, c->nesterov, c->trust_coefficient};
    LS_TRY(ls_optimizer_resolve(t->optimizer, &t->optimizer_params));
    if (c->momentum_correction && !t->optimizer->has_momentum)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "there is no momentum in %s to correct: leave --momentum-correction out, or choose sgd or lars",
                       t->optimizer->name);
    return resolve_schedule(t);
}

static ls_status resolve_sizes(ls_trainer *t) {
    ls_train_config *c = &t->config;
    if (c->epochs < 0) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "epochs must not be negative, got %d", c->epochs);
    if (c->batch_size < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the global batch must hold at least 1 sample, got %lld",
                       (long long)c->batch_size);
    if (c->batch_size > LS_BATCH_MOST)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the global batch is to hold %lld samples; at most %lld make sense",
                       (long long)c->batch_size, (long long)LS_BATCH_MOST);
    if (c->micro_batch <= 0) c->micro_batch = ls_micro_batch_default(c->batch_size);
    if (c->batch_size % c->micro_batch != 0)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "the global batch of %lld samples is not a multiple of the micro-batch of %lld: choose a micro-batch "
            "that divides it, or leave --micro-batch out",
            (long long)c->batch_size, (long long)c->micro_batch);
    if (c->threads < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a replica needs at least 1 thread, got %d", c->threads);
    t->train_split = (ls_split){t->dataset->train, ls_dataset_train_count(t->dataset)};
    t->eval_split = (ls_split){t->dataset->test, ls_dataset_test_count(t->dataset)};
    if (c->limit_train > 0 && c->limit_train < t->train_split.count) t->train_split.count = c->limit_train;
    if (c->limit_test > 0 && c->limit_test < t->eval_split.count) t->eval_split.count = c->limit_test;
    int64_t eval_batch = c->micro_batch < 32 ? 32 : c->micro_batch;
    t->train_shape = ls__epoch_shape(t->train_split.count, c->batch_size, c->micro_batch);
    if (t->eval_split.count == 0 && c->validate)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the dataset %s has no test set to evaluate on after each epoch: leave validation out",
                       t->dataset->name);
    t->eval_shape = t->eval_split.count ? ls__epoch_shape(t->eval_split.count, t->eval_split.count, eval_batch)
                                        : (ls_epoch_shape){.batch = eval_batch, .micro_batch = eval_batch};
    return LS_OK;
}

// How many replicas each worker gets, the same number on all: what was asked for, else one per core while there are
// micro-batches for them. One thread each: without a barrier per layer that is fastest while a step has enough
// micro-batches, and it keeps the bits the same on every machine.
static ls_status resolve_replicas(ls_trainer *t) {
    int64_t v = t->train_shape.micro_batches;
    int workers = t->comm->size, threads = t->config.threads, cores = t->cores;
    if (workers > v)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "%d workers for %lld micro-batches of %lld in a global batch of %lld: start at most %lld, or make "
            "--micro-batch smaller or --batch-size larger",
            workers, (long long)v, (long long)t->config.micro_batch, (long long)t->config.batch_size, (long long)v);
    int most = (int)(v / workers);
    if (t->config.replicas > 0) {
        t->replicas = t->config.replicas;
        if (t->replicas > most)
            return LS_FAIL(
                LS_STATUS_INVALID_ARGUMENT,
                "%d worker%s with %d replicas each are %lld replicas for %lld micro-batches in a step: ask for at "
                "most %d per worker, or make --micro-batch smaller",
                workers, workers == 1 ? "" : "s", t->replicas, (long long)workers * t->replicas, (long long)v, most);
        snprintf(t->replicas_reason, sizeof t->replicas_reason, "as asked for");
    } else {
        t->replicas = cores / threads < 1 ? 1 : cores / threads;
        if (t->replicas > most) {
            t->replicas = most;
            snprintf(t->replicas_reason, sizeof t->replicas_reason, "the step has %lld micro-batch%s", (long long)v,
                     v == 1 ? "" : "es");
        } else if (cores / threads < 1) {
            snprintf(t->replicas_reason, sizeof t->replicas_reason, "more workers or threads than cores");
        } else {
            snprintf(t->replicas_reason, sizeof t->replicas_reason, "%d core%s per worker, %d thread%s each", cores,
                     cores == 1 ? "" : "s", threads, threads == 1 ? "" : "s");
        }
    }
    t->lanes = workers * t->replicas;
    t->bound = t->config.bind && t->replicas * threads <= cores;
    return LS_OK;
}

// Everything that must be equal on all workers, for the bits to be.
static ls_status check_workers_agree(ls_trainer *t) {
    const ls_option_set options[] = {{ls_train_options(), &t->config}, {NULL, NULL}};
    char device[256], text[4096];
    t->device->ops->describe(t->device, device, sizeof device);
    int n =
        snprintf(text, sizeof text, "version=%s; model=%s; layers=%016llx; dataset=%016llx; kernels=%s; ", ls_version(),
                 t->graph->name, (unsigned long long)ls__graph_fingerprint(t->graph), (unsigned long long)t->dataset->fingerprint, device);
    if (n > 0 && n < (int)sizeof text) ls_options_line(options, text + n, sizeof text - (size_t)n);
    return ls_comm_check_equal(t->comm, "the options", text);
}

static ls_status check_fits(const ls_trainer *t) {
    ls_shape want = ls_graph_input_at(t->network, 0).shape, have = t->image;
    int classes = ls_graph_classes(t->network);
    if (!ls__graph_has_losses(t->network)) LS_TRY(ls__graph_check_classifier(t->network));
    if (want.ndim != 3 || !ls_shape_equal(want, have))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "model %s takes images of %lldx%lldx%lld, dataset %s %s %lldx%lldx%lld: build the model for the "
                       "%s shape",
                       t->network->name, (long long)want.dim[0], (long long)want.dim[1], (long long)want.dim[2],
                       t->dataset->name, t->config.image_size ? "is resized to" : "has", (long long)have.dim[0],
                       (long long)have.dim[1], (long long)have.dim[2], t->config.image_size ? "resized" : "dataset's");
    if (classes < ls_dataset_classes(t->dataset))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "model %s tells %d classes apart, dataset %s has %d: give it as many", t->network->name, classes,
                       t->dataset->name, ls_dataset_classes(t->dataset));
    return LS_OK;
}

// --- setting up ------------------------------------------------------------------------------------------------------

static ls_status make_plan(ls_trainer *t, int64_t batch, int training, ls_plan **out) {
    ls_plan_config config = {.batch = batch,
                             .precision = t->precision,
                             .mode = training ? LS_PLAN_TRAINING : LS_PLAN_EVALUATION,
                             .remat = t->config.remat ? LS_REMAT_FULL : LS_REMAT_NONE};
    return ls_plan_create(t->graph, t->device, t->params, &config, out);
}

// Replica 0 of every worker makes every kind of plan, needed there or not: plans decide which working copies of the weights
// exist, and all workers of a host share those. The others make what they will run.
static ls_status make_plans(ls_trainer *t, ls_replica *r) {
    int64_t samples, micro_batches, begin, end;
    const ls_strategy_ops *strategy = t->strategy_ops;
    ls__epoch_step(&t->train_shape, t->train_shape.steps - 1, &samples, &micro_batches);
    ls_strategy_ops_deal(strategy, micro_batches, r->lane, t->lanes, &begin, &end);
    int runs_tail = begin < end && end == micro_batches;
    LS_TRY(make_plan(t, t->train_shape.micro_batch, 1, &r->plans.train));
    if (t->train_shape.tail && (r->index == 0 || runs_tail))
        LS_TRY(make_plan(t, t->train_shape.tail, 1, &r->plans.train_tail));
    if (t->eval_split.count == 0) return LS_OK;
    ls_strategy_ops_deal(strategy, t->eval_shape.micro_batches, r->lane, t->lanes, &begin, &end);
    int runs_eval_tail = begin < end && end == t->eval_shape.micro_batches;
    LS_TRY(make_plan(t, t->eval_shape.micro_batch, 0, &r->plans.eval));
    if (t->eval_shape.tail && (r->index == 0 || runs_eval_tail))
        LS_TRY(make_plan(t, t->eval_shape.tail, 0, &r->plans.eval_tail));
    return LS_OK;
}

static ls_loader_config loader_config(const ls_trainer *t, int training) {
    ls_loader_config config = {
        .split = training ? t->train_split : t->eval_split,
        .feed = {[LS_FEED_IMAGE] = {"image", t->precision, t->prepares, t->recipe},
                 [LS_FEED_LABEL] = {"label", LS_DTYPE_I32, 0, {0}}},
        .feed_count = LS_FEEDS,
        .micro_batch = training ? t->train_shape.micro_batch : t->eval_shape.micro_batch,
        .depth = 3,
    };
    if (!training) config.feed[LS_FEED_IMAGE].recipe.augment = 0;
    return config;
}

int64_t ls__batches_bytes(const ls_trainer *t) {
    ls_loader_config train = loader_config(t, 1), eval = loader_config(t, 0);
    int64_t a = ls_loader_bytes(&train), b = t->eval_split.count ? ls_loader_bytes(&eval) : 0;
    return a > b ? a : b;
}

// Training and evaluation take turns, so their loaders share the memory of batches.
static ls_status make_loaders(ls_trainer *t) {
    ls_loader_config train = loader_config(t, 1), eval = loader_config(t, 0);
    for (int i = 0; i < t->replicas; i++) {
        LS_TRY(ls_memory_alloc(ls__batches_bytes(t), &t->replica[i].batches));
        train.memory = eval.memory = t->replica[i].batches;
        LS_TRY(ls_buffer_wrap(t->device, t->replica[i].batches, ls__batches_bytes(t), &t->replica[i].feeds));
        LS_TRY(ls_loader_create(&train, &t->replica[i].train_loader));
        if (t->eval_split.count) LS_TRY(ls_loader_create(&eval, &t->replica[i].eval_loader));
    }
    return LS_OK;
}

static ls_status make_replica(ls_trainer *t, int index) {
    ls_replica *r = &t->replica[index];
    r->trainer = t;
    r->index = index;
    r->lane = t->comm->position * t->replicas + index;
    return make_plans(t, r);
}

static void refresh(void *user, const float *weights, void *copies, int part, int parts) {
    ls_trainer *t = user;
    ls_params_refresh(t->params, t->queue, (ls_span){t->weights, 0}, (ls_span){t->copies, 0}, part, parts);
}

static ls_status plan_strategy(ls_trainer *t) {
    int host_lanes = t->comm->local_size * t->replicas * t->config.threads;
    ls_strategy_config config = {.comm = t->comm,
                                 .device = t->device,
                                 .replicas = t->replicas,
                                 .length = ls_params_length(t->params),
                                 .micro_batches = t->train_shape.micro_batches,
                                 .optimizer = t->optimizer,
                                 .params = t->optimizer_params,
                                 .spin = host_lanes <= ls_topology_host_cores(t->topology) ? 20000 : 0,
                                 .clip_norm = t->config.clip_norm,
                                 .segments = t->segments,
                                 .segment_count = t->segment_count,
                                 .decay_kernels_only = !t->config.decay_biases,
                                 .copies_bytes = ls_params_copies_bytes(t->params),
                                 .refresh = refresh,
                                 .refresh_user = t};
    return ls_strategy_plan(t->config.strategy, &config, &t->strategy);
}

static ls_status draw_weights(ls_trainer *t) {
    if (ls_strategy_writes_weights(t->strategy))
        for (int i = 0; i < t->graph->store->count; i++) {
            float *values;
            LS_TRY(ls_memory_alloc(ls_shape_count(t->graph->store->params[i].shape) * 4, &values));
            ls_param_initialize(t->graph->store, i, t->config.seed, values);
            ls_status status = ls_params_set(t->params, t->queue, i, (ls_span){t->weights, 0}, values);
            ls_memory_free(values);
            LS_TRY(status);
        }
    return ls_strategy_weights_changed(t->strategy);
}

int64_t ls__shared_bytes(const ls_trainer *t) {
    return ls_round_up(t->metrics_count * t->measures.width * (int64_t)sizeof *t->metrics, LS_ALIGN);
}

static ls_status make_shared(ls_trainer *t) {
    LS_TRY(ls_comm_host_alloc(t->comm, ls__shared_bytes(t), &t->shared));
    t->metrics = t->shared->base;
    return ls_calloc(t->order_count, sizeof *t->order, &t->order);
}

// What is trained: the network with the losses it has, or else as a classifier.
static ls_status find_objective(ls_trainer *t) {
    t->graph = t->network;
    if (!ls__graph_has_losses(t->network)) {
        LS_TRY(ls__graph_with_classifier_loss(t->network, 0, t->config.label_smoothing, &t->objective));
        t->graph = t->objective;
    }
    return ls__measures_create(t->graph, &t->measures);
}

ls_status ls__trainer_check(ls_trainer *t) {
    LS_TRY(resolve_names(t));
    LS_TRY(ls_strategy_find(t->config.strategy, &t->strategy_ops));
    LS_TRY(ls__images_resolve(t));
    LS_TRY(check_fits(t));
    LS_TRY(find_objective(t));
    LS_TRY(resolve_sizes(t));
    LS_TRY(ls_calloc(t->config.epochs, sizeof *t->epochs, &t->epochs));
    LS_TRY(ls_calloc(2 * (int64_t)t->config.epochs, sizeof *t->epoch_phases, &t->epoch_phases));
    LS_TRY(ls_calloc(t->comm->size, sizeof *t->worker_phases, &t->worker_phases));
    ls_device_options options = {.threads = t->config.threads};
    LS_TRY(ls_device_create(t->config.device, &options, &t->device));
    if (t->device->ops->supports) LS_TRY(t->device->ops->supports(t->device, t->precision));
    // Kernels may be chosen by how many threads they will have: say so before the first is made.
    if (t->device->ops->thread_begin) t->device->ops->thread_begin(t->device);
    return LS_OK;
}

ls_status ls__trainer_plan(ls_trainer *t, int replicas) {
    LS_TRY(resolve_replicas(t));
    t->metrics_count = t->train_shape.steps * t->train_shape.micro_batches;
    if (t->eval_shape.micro_batches > t->metrics_count) t->metrics_count = t->eval_shape.micro_batches;
    t->order_count = t->train_split.count > t->eval_split.count ? t->train_split.count : t->eval_split.count;
    LS_TRY(ls_params_create(t->graph->store, t->device, &t->params));
    LS_TRY(ls_queue_create(t->device, &t->queue));
    LS_TRY(ls_calloc(t->replicas, sizeof *t->replica, &t->replica));
    int made = replicas > 0 && replicas < t->replicas ? replicas : t->replicas;
    int64_t before = 0, after = ls_memory_rss();
    for (int i = 0; i < made; i++) {
        before = after;
        LS_TRY(make_replica(t, i));
        after = ls_memory_rss();
    }
    t->program_bytes += after - t->rss_begun + (after - before) * (t->replicas - made);
    LS_TRY(ls_params_seal(t->params));
    LS_TRY(ls_params_segments(t->params, t->graph, &t->segments, &t->segment_count));
    return plan_strategy(t);
}

static ls_status wrap_weights(ls_trainer *t) {
    LS_TRY(ls_buffer_wrap(t->device, ls_strategy_weights(t->strategy), ls_params_length(t->params) * 4, &t->weights));
    return ls_buffer_wrap(t->device, ls_strategy_copies(t->strategy), ls_params_copies_bytes(t->params), &t->copies);
}

static ls_status allocate(ls_trainer *t) {
    LS_TRY(make_shared(t));
    LS_TRY(ls_strategy_allocate(t->strategy));
    LS_TRY(ls_comm_agree(t->comm, wrap_weights(t)));
    LS_TRY(ls_comm_agree(t->comm, make_loaders(t)));
    LS_TRY(ls_comm_agree(t->comm, ls__replicas_start(t)));
    LS_TRY(ls__replicas_run(t, LS_COMMAND_ALLOCATE));
    return draw_weights(t);
}

static ls_status prepare(ls_trainer *t) {
    LS_TRY(ls_comm_agree(t->comm, ls__trainer_check(t)));
    LS_TRY(check_workers_agree(t));
    LS_TRY(ls__images_normalize(t));
    LS_TRY(ls_topology_create(t->comm, &t->topology));
    t->cores = ls_topology_cores_least(t->topology);
    char unused[65];
    LS_TRY(ls_comm_agree(t->comm, ls__results_digest(t, unused)));
    LS_TRY(ls_comm_agree(t->comm, ls__trainer_plan(t, 0)));
    t->memory = ls__trainer_memory(t);
    LS_TRY(ls_comm_agree(t->comm, ls__memory_check(t)));
    LS_TRY(allocate(t));
    return ls__results_gather(t);
}

ls_status ls_trainer_create(ls_context *context, const ls_graph *graph, ls_dataset *dataset,
                            const ls_train_config *config, ls_trainer **out) {
    ls_trainer *t;
    LS_TRY(ls_calloc(1, sizeof *t, &t));
    t->context = context;
    t->comm = context->comm;
    t->program_bytes = context->rss;
    t->rss_begun = ls_memory_rss();
    t->network = graph;
    t->dataset = dataset;
    t->config = *config;
    ls_status status = prepare(t);
    if (status != LS_OK) {
        ls_trainer_destroy(&t);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    *out = t;
    return LS_OK;
}

static void destroy_replica(ls_replica *r) {
    ls_loader_destroy(&r->train_loader);
    ls_loader_destroy(&r->eval_loader);
    ls_plan_destroy(&r->plans.train);
    ls_plan_destroy(&r->plans.train_tail);
    ls_plan_destroy(&r->plans.eval);
    ls_plan_destroy(&r->plans.eval_tail);
    ls_buffer_destroy(&r->feeds);
    ls_memory_free(r->batches);
    ls_buffer_destroy(&r->arena);
    ls_buffer_destroy(&r->random);
    free(r->key);
    ls_queue_destroy(&r->queue);
    free(r->ranges);
    free(r->step_seconds);
}

void ls_trainer_destroy(ls_trainer **trainer) {
    ls_trainer *t = *trainer;
    if (!t) return;
    ls__replicas_stop(t);
    ls__timeline_destroy(t);
    for (int i = 0; t->replica && i < t->replicas; i++) destroy_replica(&t->replica[i]);
    free(t->replica);
    ls_buffer_destroy(&t->weights);
    ls_buffer_destroy(&t->copies);
    ls_strategy_destroy(&t->strategy);
    ls_comm_host_free(&t->shared);
    ls_params_destroy(&t->params);
    ls_queue_destroy(&t->queue);
    ls_device_destroy(&t->device);
    ls_topology_destroy(&t->topology);
    ls__measures_destroy(&t->measures);
    ls_graph_destroy(&t->objective);
    free(t->segments);
    free(t->channel_offset);
    free(t->channel_divisor);
    free(t->channel_mean);
    free(t->channel_deviation);
    free(t->order);
    free(t->epochs);
    free(t->epoch_phases);
    free(t->worker_phases);
    free(t);
    *trainer = NULL;
}

// --- training --------------------------------------------------------------------------------------------------------

static ls_status fit_epoch(ls_trainer *t, int *stopped) {
    ls_sampler_order(t->config.seed, (uint32_t)t->epoch, t->config.shuffle, t->train_split.count, t->order);
    if (t->comm->local_rank == 0) memset(t->metrics, 0, (size_t)(t->metrics_count * t->measures.width) * sizeof *t->metrics);
    LS_TRY(ls_comm_barrier(t->comm));
    t->epoch_start = ls_clock();
    LS_TRY(ls__replicas_run(t, LS_COMMAND_EPOCH));
    double seconds = ls_clock() - t->epoch_start;
    double sum[LS_MAX_MEASURES];
    LS_TRY(ls__metrics_sum(t, t->train_shape.steps * t->train_shape.micro_batches, sum));
    double before = t->finite_loss;
    int64_t began = t->not_finite < 0 ? 0 : t->not_finite / t->train_shape.micro_batches + 1;
    int64_t stop = atomic_load(&t->stop_step), all = t->train_shape.steps;
    ls_epoch_result *e = &t->epochs[t->epochs_done++];
    *e = (ls_epoch_result){.epoch = t->epoch,
                           .steps = stop && stop < all ? stop : all,
                           .seconds = seconds,
                           .loss = ls__measures_loss(&t->measures, sum),
                           .accuracy = ls__measures_accuracy(&t->measures, sum),
                           .images_per_second = sum[0] / seconds,
                           .learning_rate = t->learning_rate,
                           .val_loss = NAN,
                           .val_accuracy = NAN,
                           .val_seconds = NAN};
    ls__results_epoch(t, t->epochs_done - 1);
    *stopped = stop != 0;
    t->step += e->steps;
    t->train_seconds += seconds;
    if (t->config.validate && e->steps == all && !began) {
        LS_TRY(ls_trainer_evaluate(t, &e->val_loss, &e->val_accuracy));
        e->val_seconds = t->evaluate_seconds;
    }
    if (t->on_epoch && t->on_epoch(t->epoch_user, e)) *stopped = 1;
    if (!began) return LS_OK;
    return LS_FAIL(LS_STATUS_DIVERGED,
                   "training diverged: the loss of step %lld in epoch %d is no finite number any more; before it was "
                   "%.4g. " LS_DIVERGED_REMEDY,
                   (long long)began, e->epoch, before);
}

void ls_trainer_on_epoch(ls_trainer *t, ls_epoch_fn fn, void *user) {
    t->on_epoch = fn;
    t->epoch_user = user;
}

ls_status ls_trainer_fit(ls_trainer *t, ls_progress_fn progress, void *user) {
    t->progress = progress;
    t->progress_user = user;
    int stopped = 0;
    atomic_store(&t->stop_step, 0);
    atomic_store(&t->held_step, t->step + 1);
    for (t->epoch = t->epochs_done + 1; t->epoch <= t->config.epochs && !stopped; t->epoch++)
        LS_TRY(fit_epoch(t, &stopped));
    LS_TRY(ls_comm_agree(t->comm, ls__results_finite(t)));
    return ls__results_gather(t);
}

ls_status ls_trainer_evaluate(ls_trainer *t, double *loss, double *accuracy) {
    double start = ls_clock();
    if (t->eval_split.count == 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the dataset %s has no test set to evaluate on", t->dataset->name);
    for (int64_t i = 0; i < t->eval_split.count; i++) t->order[i] = (uint32_t)i;
    if (t->comm->local_rank == 0) memset(t->metrics, 0, (size_t)(t->metrics_count * t->measures.width) * sizeof *t->metrics);
    LS_TRY(ls_comm_barrier(t->comm));
    LS_TRY(ls__replicas_run(t, LS_COMMAND_EVALUATE));
    double sum[LS_MAX_MEASURES];
    LS_TRY(ls__metrics_sum(t, t->eval_shape.micro_batches, sum));
    t->test_loss = ls__measures_loss(&t->measures, sum);
    t->test_accuracy = ls__measures_accuracy(&t->measures, sum);
    t->evaluate_seconds = ls_clock() - start;
    LS_TRY(ls__results_memory(t));
    if (t->not_finite >= 0)
        return LS_FAIL(LS_STATUS_DIVERGED,
                       "evaluation: the loss of samples %lld and following is no finite number: the weights have "
                       "diverged. " LS_DIVERGED_REMEDY,
                       (long long)(t->not_finite * t->eval_shape.micro_batch));
    if (loss) *loss = t->test_loss;
    if (accuracy) *accuracy = t->test_accuracy;
    return LS_OK;
}
