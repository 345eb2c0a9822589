// Setting a trainer up: plans, engine, memory, weights.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/flight.h"
#include "base/memory.h"
#include "base/options.h"
#include "train/context.h"
#include "train/trainer_impl.h"

// --- checks ----------------------------------------------------------------------------------------------------------

// Everything that must be equal on all workers, for the bits to be.
void ls__trainer_recipe(const ls_trainer *t, char text[LS_TRAINER_RECIPE]) {
    const ls_option_set options[] = {{ls_train_options(), (void *)&t->config}, {NULL, NULL}};
    char device[256];
    t->device->ops->describe(t->device, device, sizeof device);
    int n = snprintf(text, LS_TRAINER_RECIPE,
                     "version=%s; model=%s; layers=%016llx; dataset=%016llx; kernels=%s; weights-follow=%d; ",
                     ls_version(), t->graph->name, (unsigned long long)ls__graph_fingerprint(t->graph),
                     (unsigned long long)t->dataset->fingerprint, device, t->config.weights_follow);
    if (n > 0 && n < LS_TRAINER_RECIPE) ls_options_line(options, text + n, (size_t)(LS_TRAINER_RECIPE - n));
}

static ls_status check_workers_agree(ls_trainer *t) {
    char text[LS_TRAINER_RECIPE];
    ls__trainer_recipe(t, text);
    return ls_comm_check_equal(t->comm, "the options", text);
}

// Of more classes than these, so many largest scores count beside the largest: of ten, five tell little.
enum { TOP_CLASSES = 10, TOP = 5 };

// What is trained: the network with the losses it has, or else as a classifier.
static ls_status find_objective(ls_trainer *t) {
    const ls_train_config *c = &t->config;
    int labels = ls_dataset_labels(t->dataset), own = ls__graph_has_losses(t->network);
    t->graph = t->network;
    if (c->positive_weight != 1 && (own || !labels))
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "a weight of %g for labels that are there belongs to samples with several labels at once, and %s "
            "%s: leave it at 1",
            c->positive_weight, own ? t->network->name : t->dataset->name,
            own ? "has losses of its own" : "has no rows of them");
    if (!own && labels) {
        LS_TRY(ls__graph_with_label_losses(t->network, c->label_smoothing, c->positive_weight, &t->objective));
        t->graph = t->objective;
    } else if (!own && ls_dataset_targets(t->dataset)) {
        if (c->label_smoothing > 0 || ls__labels_are_rows(c))
            return LS_FAIL(
                LS_STATUS_INVALID_ARGUMENT,
                "dataset %s has numbers to be learned and no classes: leave label smoothing, mixup and class "
                "weights out",
                t->dataset->name);
        LS_TRY(ls__graph_with_target_losses(t->network, &t->objective));
        t->graph = t->objective;
    } else if (!own) {
        // Rows are smoothed where they are made.
        int k = ls_graph_classes(t->network) > TOP_CLASSES ? TOP : 0, rows = ls__labels_are_rows(c);
        LS_TRY(ls__graph_with_top_k(t->network, rows, rows ? 0 : c->label_smoothing, k, &t->objective));
        t->graph = t->objective;
    } else if (t->config.label_smoothing > 0) {
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "label smoothing belongs to a loss, and model %s has losses of its own: give it to them",
                       t->network->name);
    }
    return ls__measures_create(t->graph, &t->measures);
}

// The device: that of the store's first trainer, where there is one. A trainer that is only thought of is alone.
static ls_status find_device(ls_trainer *t) {
    const ls_train_config *c = &t->config;
    t->home = t->context && t->graph->store->placed ? t->graph->store->placed : t;
    if (t->home != t) {
        const ls_trainer *home = t->home;  // of a destroyed one only what is its own is left: no graph, no texts
        int threads = home->device->options.threads;
        t->home->guests++;
        if (c->lookahead || home->config.lookahead)
            return LS_FAIL(
                LS_STATUS_INVALID_ARGUMENT,
                "model %s shares its weights with another, and with lookahead slow weights would follow only "
                "one of the two: leave lookahead out",
                t->network->name);
        if (t->comm != home->comm || strcmp(c->device, home->device->ops->name) != 0 ||
            t->choices.precision != home->choices.precision || t->choices.strategy != home->choices.strategy ||
            c->threads != threads)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "model %s shares its weights with %s, whose trainer was made with device %s, precision %s, "
                           "strategy %s and %d thread%s: make this one so, too, in the same context",
                           t->network->name, home->left ? "another model" : home->network->name,
                           home->device->ops->name, ls_dtype_name(home->choices.precision),
                           home->choices.strategy->name, threads, threads == 1 ? "" : "s");
        t->device = home->device;
        t->params = t->home->params;
        return LS_OK;
    }
    ls_device_options options = {.threads = c->threads, .isa = c->isa};
    LS_TRY(ls_device_create(c->device, &options, &t->device));
    if (t->device->ops->supports) LS_TRY(t->device->ops->supports(t->device, t->choices.precision));
    return LS_OK;
}

ls_status ls__trainer_check(ls_trainer *t) {
    LS_TRY(ls__graph_check_finished(t->network));
    LS_TRY(ls__choices_resolve(t));
    LS_TRY(ls__images_resolve(t));
    LS_TRY(find_objective(t));
    LS_TRY(ls__class_weights_resolve(t));
    LS_TRY(ls__inputs_resolve(t));
    LS_TRY(ls__sizes_resolve(t));
    LS_TRY(ls__views_resolve(t));
    const ls_trainer *placed = t->context ? t->graph->store->placed : NULL;
    t->spread.given_threads = placed ? placed->device->options.threads : 0;
    LS_TRY(ls__spread_resolve(t));
    ls_history *h = &t->history;
    LS_TRY(ls_calloc(t->config.epochs, sizeof *h->epochs, &h->epochs));
    LS_TRY(ls_calloc(2 * (int64_t)t->config.epochs, sizeof *h->epoch_phases, &h->epoch_phases));
    LS_TRY(ls_calloc(t->comm->size, sizeof *h->worker_phases, &h->worker_phases));
    LS_TRY(ls_calloc(t->measures.value_count, sizeof *h->train_values, &h->train_values));
    LS_TRY(ls_calloc(t->measures.value_count, sizeof *h->test_values, &h->test_values));
    for (int i = 0; i < t->measures.value_count; i++) h->train_values[i] = h->test_values[i] = t->measures.values[i];
    LS_TRY(ls_calloc(t->measures.width, sizeof *t->at.sum, &t->at.sum));
    LS_TRY(ls_calloc(t->measures.width, sizeof *t->at.seen, &t->at.seen));
    t->at.epoch = 1;
    LS_TRY(find_device(t));
    // Kernels may be chosen by how many threads they will have: say so before the first is made.
    if (t->device->ops->thread_begin) t->device->ops->thread_begin(t->device, NULL, NULL);
    return LS_OK;
}

// --- planning --------------------------------------------------------------------------------------------------------

static ls_status make_plan(ls_trainer *t, ls_replica *r, ls_plan_kind kind, int64_t batch) {
    ls_plan_config config = {.batch = batch,
                             .precision = t->choices.precision,
                             .mode = kind <= LS_PLAN_KIND_TRAIN_TAIL ? LS_PLAN_TRAINING : LS_PLAN_EVALUATION,
                             .outputs = t->views.count > 0,
                             .remat = t->config.remat ? LS_REMAT_FULL : LS_REMAT_NONE};
    return ls_plan_create(t->graph, t->device, t->params, &config, &r->plan[kind]);
}

// Whether the lane computes the last micro-batch of a step, which may be a smaller one.
static int runs_last(const ls_trainer *t, const ls_epoch_shape *shape, const ls_replica *r, int64_t step) {
    int64_t samples, micro_batches, begin, end;
    ls__epoch_step(shape, step, &samples, &micro_batches);
    if (shape == &t->train_shape)
        ls__replica_deal(r, micro_batches, &begin, &end);
    else
        ls_mesh_deal_lane(&t->spread.roles, micro_batches, r->lane, &begin, &end);
    return begin < end && end == micro_batches;
}

// Replica 0 of every worker makes every kind of plan, needed there or not: plans decide which working copies of the weights
// exist, and all workers of a host share those. The others make what they will run.
static ls_status make_plans(ls_trainer *t, ls_replica *r) {
    const ls_epoch_shape *train = &t->train_shape, *eval = &t->eval_shape;
    LS_TRY(make_plan(t, r, LS_PLAN_KIND_TRAIN, train->micro_batch));
    if (train->rest && (r->index == 0 || runs_last(t, train, r, 0)))
        LS_TRY(make_plan(t, r, LS_PLAN_KIND_TRAIN_REST, train->rest));
    if (train->tail && (r->index == 0 || runs_last(t, train, r, train->steps - 1)))
        LS_TRY(make_plan(t, r, LS_PLAN_KIND_TRAIN_TAIL, train->tail));
    if (t->eval_split.count == 0) return LS_OK;
    LS_TRY(make_plan(t, r, LS_PLAN_KIND_EVALUATE, eval->micro_batch));
    if (eval->rest && (r->index == 0 || runs_last(t, eval, r, 0)))
        LS_TRY(make_plan(t, r, LS_PLAN_KIND_EVALUATE_REST, eval->rest));
    return LS_OK;
}

static ls_status make_replica(ls_trainer *t, int index) {
    ls_replica *r = &t->replica[index];
    r->trainer = t;
    r->index = index;
    r->lane = t->comm->position * t->spread.replicas + index;
    return make_plans(t, r);
}

static ls_status refresh(void *user, ls_queue *queue, ls_span weights, ls_span copies, int part, int parts) {
    ls_trainer *t = user;
    return ls_params_refresh(t->params, queue, weights, copies, part, parts);
}

static ls_status refresh_some(void *user, ls_queue *queue, ls_span weights, ls_span copies, const ls_homecoming *h,
                              int part, int parts) {
    ls_trainer *t = user;
    return ls_params_refresh_some(t->params, queue, weights, copies, h->begin, h->end, h->low, h->high, part, parts);
}

// Steps of fewer micro-batches: the last of an epoch.
static int64_t short_step(const ls_trainer *t) {
    int64_t samples, micro_batches;
    ls__epoch_step(&t->train_shape, t->train_shape.steps - 1, &samples, &micro_batches);
    return micro_batches;
}

static ls_status plan_engine(ls_trainer *t) {
    int skips = t->choices.not_finite == LS_NOT_FINITE_SKIP || t->choices.loss_scale.dynamic;
    int host_lanes = t->comm->local_size * t->spread.replicas * t->config.threads, *order;
    int64_t other = short_step(t);
    ls_engine_config config = {.comm = t->comm,
                               .device = t->device,
                               .lanes = t->spread.replicas,
                               .threads = ls__vector_threads(t->device),
                               .servers = t->config.servers,
                               .length = ls_params_length(t->params),
                               .micro_batches = t->train_shape.micro_batches,
                               .other_counts = &other,
                               .other_count_count = 1,
                               .optimizer = t->choices.optimizer,
                               .params = t->choices.optimizer_params,
                               .spin = host_lanes <= ls_topology_host_cores(t->topology) ? 20000 : 0,
                               .progress = t->bucket_count > 1,
                               .early = t->bucket_count > 1 && t->config.early_forward && t->comm->between,
                               .in_order = t->bucket_count / 2,
                               .own_core = t->spread.comm_cores > 0 && !t->spread.core_left_over,
                               .progress_begin = ls__exchange_bind,
                               .progress_user = t,
                               .bucket_ends = t->bucket_ends,
                               .bucket_count = t->bucket_count,
                               .clip_norm = t->config.clip_norm,
                               .find_not_finite = t->choices.not_finite == LS_NOT_FINITE_STOP,
                               .skip_not_finite = skips,
                               .compress = t->choices.compress,
                               .compress_fraction = t->choices.compress_fraction,
                               .algorithm = t->choices.algorithm,
                               .segments = t->segments,
                               .segment_count = t->segment_count,
                               .decay_kernels_only = !t->config.decay_biases,
                               .lookahead = t->config.lookahead > 0,
                               .copies_bytes = ls_params_copies_bytes(t->params),
                               .refresh = refresh,
                               .refresh_some = refresh_some,
                               .refresh_user = t->home,
                               .weights_of = t->home == t ? NULL : t->home->engine};
    if (t->config.async) return ls__async_plan(t, &config);
    LS_TRY(ls_calloc(t->bucket_count, sizeof *order, &order));
    ls_plan_forward_order(t->replica[0].plan[LS_PLAN_KIND_TRAIN], t->bucket_ends, t->bucket_count, order);
    config.forward_order = order;
    ls_status status = ls_engine_plan(t->config.strategy, &config, &t->engine);
    free(order);
    return status;
}

ls_status ls__trainer_plan(ls_trainer *t, int replicas) {
    t->table_rows = t->train_shape.steps * t->train_shape.micro_batches;
    if (t->eval_shape.micro_batches > t->table_rows) t->table_rows = t->eval_shape.micro_batches;
    t->order_count = t->train_split.count > t->eval_split.count ? t->train_split.count : t->eval_split.count;
    if (t->home == t) LS_TRY(ls_params_create(t->graph->store, t->device, &t->params));
    LS_TRY(ls_queue_create(t->device, &t->queue));
    LS_TRY(ls_calloc(t->spread.replicas, sizeof *t->replica, &t->replica));
    int made = replicas > 0 && replicas < t->spread.replicas ? replicas : t->spread.replicas;
    int64_t before = 0, after = ls_memory_rss();
    for (int i = 0; i < made; i++) {
        before = after;
        LS_TRY(make_replica(t, i));
        after = ls_memory_rss();
    }
    t->program_bytes += after - t->rss_begun + (after - before) * (t->spread.replicas - made);
    LS_TRY(ls_params_seal(t->params));
    LS_TRY(ls_params_segments(t->params, t->graph, &t->segments, &t->segment_count));
    LS_TRY(ls__buckets_resolve(t));
    return plan_engine(t);
}

// --- memory ----------------------------------------------------------------------------------------------------------

int64_t ls__shared_bytes(const ls_trainer *t) {
    return ls_round_up(t->table_rows * t->measures.width * (int64_t)sizeof *t->table, LS_ALIGN);
}

static ls_status make_shared(ls_trainer *t) {
    LS_TRY(ls_comm_host_alloc(t->comm, ls__shared_bytes(t), &t->shared));
    t->table = t->shared->base;
    LS_TRY(ls__rows_create(t->comm, &t->measures, t->eval_split.count, &t->rows));
    if (t->views.count) LS_TRY(ls__rows_create(t->comm, &t->views.measures, t->eval_split.count, &t->views.rows));
    return ls_comm_agree(t->comm, ls_calloc(t->order_count, sizeof *t->order, &t->order));
}

// Training and evaluation take turns, so their loaders share the memory of batches.
static ls_status make_loaders(ls_trainer *t) {
    ls_loader_config train = ls__loader_config(t, 1), eval = ls__loader_config(t, 0);
    for (int i = 0; i < t->spread.replicas; i++) {
        train.memory = eval.memory = t->replica[i].batches;
        if (t->config.loader_threads) train.threads = eval.threads = ls__loader_share(t, i);
        LS_TRY(ls_loader_create(&train, &t->replica[i].train_loader));
        if (t->eval_split.count) LS_TRY(ls_loader_create(&eval, &t->replica[i].eval_loader));
    }
    return LS_OK;
}

static ls_status draw_weights(ls_trainer *t) {
    for (int i = 0; ls_engine_writes_weights(t->engine) && i < t->graph->store->count; i++) {
        float *values;
        LS_TRY(ls_memory_alloc(ls_shape_count(t->graph->store->params[i].shape) * 4, &values));
        ls_param_initialize(t->graph->store, i, t->config.seed, values);
        ls_status status = LS_OK;
        if (t->graph->store->params[i].initializer == LS_INITIALIZER_PATCH_WHITENING && !t->config.weights_follow)
            status = ls__whitening_draw(t, i, values);
        if (status == LS_OK) status = ls_params_set(t->params, t->queue, i, t->weights, values);
        ls_memory_free(values);
        LS_TRY(status);
    }
    return LS_OK;
}

static ls_status allocate(ls_trainer *t, ls_dataset *dataset) {
    LS_TRY(make_shared(t));
    if (t->choices.cache) LS_TRY(ls__dataset_cache(dataset, t->choices.cache, t->config.cache_decoded));
    LS_TRY(ls_comm_agree(t->comm, ls_engine_allocate(t->engine)));
    if (t->async) LS_TRY(ls_async_allocate(t->async));
    t->weights = ls_engine_weights(t->engine);
    t->copies = ls_engine_copies(t->engine);
    LS_TRY(ls_comm_agree(t->comm, ls__replicas_start(t)));
    LS_TRY(ls__replicas_run(t, LS_COMMAND_ALLOCATE));
    if (t->spread.bound) ls_topology_unbind(t->topology);  // threads of loaders run where there is room
    LS_TRY(ls_comm_agree(t->comm, make_loaders(t)));
    if (t->home != t) return LS_OK;
    LS_TRY(ls_comm_agree(t->comm, draw_weights(t)));
    return ls_engine_weights_changed(t->engine, t->queue);
}

// --- create, destroy -------------------------------------------------------------------------------------------------

static ls_status find_cores(ls_trainer *t) {
    ls_spread *s = &t->spread;
    LS_TRY(ls__topology_create(t->comm, t->config.hyperthreads, &t->topology));
    s->cores = ls_topology_cores_least(t->topology);
    s->mine = ls__topology_mine(t->topology);
    return ls__topology_kinds(t->topology, &s->have, &s->kinds);
}

static ls_status prepare(ls_trainer *t, ls_dataset *dataset) {
    ls_flight_mark(LS_FLIGHT_SET_UP, 0, 0);
    LS_TRY(find_cores(t));
    LS_TRY(ls_comm_agree(t->comm, ls__trainer_check(t)));
    LS_TRY(check_workers_agree(t));
    LS_TRY(ls__images_normalize(t));
    char unused[65];
    LS_TRY(ls_comm_agree(t->comm, ls__results_digest(t, unused)));
    LS_TRY(ls__exchange_tune(t));
    ls_comm_enter(t->comm, "ls_trainer_create");
    LS_TRY(ls_comm_agree(t->comm, ls__trainer_plan(t, 0)));
    ls__memory_fit(t);
    LS_TRY(ls_comm_agree(t->comm, ls__memory_check(t)));
    LS_TRY(allocate(t, dataset));
    LS_TRY(ls__probe(t));
    return ls__results_gather(t);
}

typedef struct measured_before {
    ls_tune_measured measured;
    int tuned_earlier;
} measured_before;

// `before`: what one was made by that told that its exchange should have a core; NULL: there was none.
static ls_status create(ls_context *context, const ls_graph *graph, ls_dataset *dataset, const ls_train_config *config,
                        const measured_before *before, ls_trainer **out) {
    ls_trainer *t;
    *out = NULL;
    LS_TRY(ls_calloc(1, sizeof *t, &t));
    t->context = context;
    t->comm = context->comm;
    t->program_bytes = context->rss;
    t->rss_begun = ls_memory_rss();
    t->network = graph;
    t->dataset = dataset;
    t->config = *config;
    if (before) {
        t->config.comm_cores = 1;
        t->spread.core_measured = 1;
        t->measured = before->measured;
        t->tuned_earlier = before->tuned_earlier;
    }
    ls_status status = prepare(t, dataset);
    if (status != LS_OK) {
        ls_trainer_destroy(&t);
        ls__fail_passed(status, __FILE__, __LINE__);
        return status;
    }
    *out = t;
    return LS_OK;
}

ls_status ls_trainer_create(ls_context *context, const ls_graph *graph, ls_dataset *dataset,
                            const ls_train_config *config, ls_trainer **out) {
    ls_trainer *t;
    LS_NEED(out, "out");
    *out = NULL;
    if (!context || !graph || !dataset || !config)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a trainer was to be made without %s",
                       !context   ? "a context"
                       : !graph   ? "a graph"
                       : !dataset ? "a dataset"
                                  : "a configuration");
    ls_comm_enter(context->comm, __func__);
    LS_TRY(create(context, graph, dataset, config, NULL, &t));
    if (t->spread.core_pays) {
        measured_before before = {t->measured, t->tuned_earlier};
        ls_trainer_destroy(&t);
        ls_comm_enter(context->comm, __func__);
        LS_TRY(create(context, graph, dataset, config, &before, &t));
    }
    if (t->home == t) graph->store->placed = t;
    *out = t;
    return LS_OK;
}

static void destroy_replica(ls_replica *r) {
    ls_loader_destroy(&r->train_loader);
    ls_loader_destroy(&r->eval_loader);
    for (int i = 0; i < LS_PLAN_KINDS; i++) ls_plan_destroy(&r->plan[i]);
    ls_queue_destroy(&r->queue);
    ls_event_destroy(&r->fed);
    ls_buffer_destroy(&r->inputs);
    ls_memory_free(r->batches);
    ls_buffer_destroy(&r->arena);
    ls_buffer_destroy(&r->random);
    ls_buffer_destroy(&r->scale);
    free(r->key);
    free(r->ranges);
    free(r->step_seconds);
    free(r->running);
    free(r->ready);
}

static void destroy_history(ls_history *h) {
    free(h->epochs);
    free(h->train_values);
    free(h->test_values);
    free(h->epoch_phases);
    free(h->worker_phases);
}

// What reads the dataset, and all that only this trainer uses.
static void stop(ls_trainer *t) {
    ls__replicas_stop(t);
    ls__timeline_destroy(t);
    ls__checkpoints_destroy(t);
    for (int i = 0; t->replica && i < t->spread.replicas; i++) destroy_replica(&t->replica[i]);
    free(t->replica);
    t->replica = NULL;
}

// The weights go with the last of those who train them, in whatever order they are destroyed.
static void leave_home(ls_trainer *t) {
    ls_trainer *home = t->home;
    if (!home || home == t || --home->guests > 0 || !home->left) return;
    home->graph = t->graph;  // its own may be gone; the store is the same
    ls_trainer_destroy(&home);
}

void ls_trainer_destroy(ls_trainer **trainer) {
    if (!trainer) return;
    ls_trainer *t = *trainer;
    if (!t) return;
    *trainer = NULL;
    ls_comm_enter(t->comm, __func__);
    if (!t->left) stop(t);
    t->left = 1;
    if (t->guests > 0) return;
    ls_async_destroy(&t->async);
    ls_engine_destroy(&t->engine);
    ls_comm_destroy(&t->solo);
    ls__rows_destroy(&t->rows);
    ls__rows_destroy(&t->views.rows);
    ls_comm_host_free(&t->shared);
    ls_queue_destroy(&t->queue);
    if (t->home == t || !t->home) {
        if (t->graph && t->graph->store->placed == t) t->graph->store->placed = NULL;
        ls_params_destroy(&t->params);
        ls_device_destroy(&t->device);
    }
    leave_home(t);
    ls_topology_destroy(&t->topology);
    ls__measures_destroy(&t->measures);
    ls_graph_destroy(&t->objective);
    destroy_history(&t->history);
    free(t->at.sum);
    free(t->at.seen);
    free(t->spread.have);
    free(t->spread.first);
    free(t->segments);
    free(t->bucket_ends);
    free(t->class_weight);
    free(t->images.offset);
    free(t->images.divisor);
    free(t->images.mean);
    free(t->images.deviation);
    free(t->order);
    free(t);
}
