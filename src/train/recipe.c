// What is asked for, checked and brought into the form that training goes by.
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "train/trainer_impl.h"

void ls_train_config_init(ls_train_config *c) {
    if (!c) return;
    *c = (ls_train_config){.epochs = 5,
                           .batch_size = 128,
                           .precision = "fp32",
                           .device = "cpu",
                           .strategy = "allreduce",
                           .staleness = -1,
                           .compress = "none",
                           .algorithm = "auto",
                           .tune = "auto",
                           .not_finite = "stop",
                           .loss_scale_steps = 2000,
                           .broken = "stop",
                           .bind = 1,
                           .comm_cores = -1,
                           .early_forward = 1,
                           .seed = 42,
                           .shuffle = 1,
                           .positive_weight = 1,
                           .evaluate = 1,
                           .interpolation = "bilinear",
                           .augment = "none",
                           .tta = "none",
                           .normalize = "unit",
                           .scale = 1,
                           .channel_order = "rgb",
                           .optimizer = "adam",
                           .lr = -1,
                           .momentum = -1,
                           .beta1 = -1,
                           .beta2 = -1,
                           .epsilon = -1,
                           .weight_decay = -1,
                           .trust_coefficient = -1,
                           .decay_biases = 1,
                           .lookahead_step = 0.5,
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

// Eight micro-batches, so that up to eight workers share a step, but none larger than 128 samples
// (more does not make kernels faster) and none smaller than 16 (less makes them slow, and batch
// normalization needs samples), unless the batch is. Divisors of the batch come first. Where it has
// none of that size, the last micro-batch is shorter, and at least half of the others.
int64_t ls_micro_batch_default(int64_t batch) {
    if (batch < 1) return 0;
    int64_t best = 0;
    for (int64_t m = 16; m <= batch && m <= 128; m++)
        if (batch % m == 0 && (best == 0 || batch / m >= 8)) best = m;
    if (best) return best;
    for (int64_t m = 16; m <= batch && m <= 128; m++)
        if (2 * (batch % m) >= m && (batch - 1) / m >= 7) best = m;
    return best ? best : batch;
}

static ls_optimizer_params params_of(const ls_train_config *c) {
    return (ls_optimizer_params){c->lr,       c->momentum,          c->beta1, c->beta2, c->epsilon, c->weight_decay,
                                 c->nesterov, c->trust_coefficient, c->l2};
}

ls_status ls_train_base_rate(const ls_train_config *c, double *out) {
    LS_NEED(out, "out");
    LS_NEED(c, "config");
    const ls_optimizer *optimizer;
    ls_optimizer_params params = params_of(c);
    LS_TRY(ls_optimizer_find(c->optimizer, &optimizer));
    LS_TRY(ls_optimizer_resolve(optimizer, &params));
    *out = params.lr;
    return LS_OK;
}

ls_status ls_train_servers(const ls_train_config *c, int workers, int *out) {
    LS_NEED(out, "out");
    LS_NEED(c, "config");
    const ls_strategy *strategy;
    LS_TRY(ls_strategy_find(c->strategy, &strategy));
    *out = c->servers;
    return ls_strategy_assign(strategy, workers, out);
}

// --- checks ----------------------------------------------------------------------------------------------------------

static ls_status resolve_schedule(ls_trainer *t) {
    const ls_train_config *c = &t->config;
    LS_TRY(ls_schedule_find(c->schedule, &t->choices.schedule));
    t->choices.schedule_params = (ls_schedule_params){.total_epochs = c->epochs,
                                                      .step_epochs = c->schedule_step_epochs,
                                                      .gamma = c->schedule_gamma,
                                                      .power = c->schedule_power,
                                                      .end = c->schedule_end,
                                                      .start = c->schedule_start,
                                                      .rise = c->schedule_rise,
                                                      .period_epochs = c->schedule_period_epochs};
    if (c->schedule_steps && strcmp(c->schedule, "step") != 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the epochs %s to reduce the rate after are of the schedule 'step', and this one is '%s'",
                       c->schedule_steps, c->schedule);
    if (c->schedule_steps) LS_TRY(ls_schedule_read_steps(c->schedule_steps, &t->choices.schedule_params));
    if (strcmp(c->schedule, "step") == 0 && !(c->schedule_step_epochs > 0))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the schedule 'step' reduces the rate every %g epochs: it takes a number above 0",
                       c->schedule_step_epochs);
    if (strcmp(c->schedule, "cyclic") == 0 && !(c->schedule_period_epochs > 0))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the schedule 'cyclic' has a period of %g epochs: it takes a number above 0",
                       c->schedule_period_epochs);
    return LS_OK;
}

// What no default stands behind: a text that is missing, a count below none.
static ls_status check_filled_in(const ls_train_config *c) {
    ls_train_config initial;
    ls_train_config_init(&initial);
    for (const ls_option *o = ls_train_options(); o->name; o++) {
        const void *mine = (const char *)c + o->offset, *its = (const char *)&initial + o->offset;
        if (o->type == LS_OPTION_TEXT && !*(const char *const *)mine && *(const char *const *)its)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "the configuration has no %s: call ls_train_config_init first, then set what differs",
                           o->name);
    }
    if (c->replicas < 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%d replicas were asked for: ask for 1 at least, or 0 for one per core", c->replicas);
    if (c->micro_batch < 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the micro-batch is to hold %lld samples: give it 1 at least, or 0 to leave it to the library",
                       (long long)c->micro_batch);
    if (c->limit_train < 0 || c->limit_test < 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "only %lld samples were to be used: give 1 at least, or 0 for all that there are",
                       (long long)(c->limit_train < 0 ? c->limit_train : c->limit_test));
    if (!(c->bucket_size >= 0))
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "gradients were to be exchanged in buckets of %g MB: give a size above 0, or 0 to leave it to the "
            "library",
            c->bucket_size);
    if (c->servers < 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%d servers were asked for: ask for 1 at least, or 0 to leave it to the strategy", c->servers);
    if (c->comm_cores < -1 || c->comm_cores > 1)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "the exchange was to have %d cores of each worker for itself: it takes 0 or 1, or -1 to leave it "
            "to the library",
            c->comm_cores);
    if (!(c->warmup_epochs >= 0))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the warm-up takes %g epochs; it must be at least 0",
                       c->warmup_epochs);
    return LS_OK;
}

// Where images lie is in a table in front of them, for which there has to be room.
static ls_status check_table(const ls_trainer *t) {
    int64_t least = t->config.cache_decoded ? ls_data_cache_least(t->dataset) : 0;
    if (t->choices.cache >= least) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "--cache %.40s: decoded images (--cache-decoded) of %s begin behind a table of all of them, and "
                   "none has room: give more than --cache %lldK, and as much again as the images are to take",
                   t->config.cache, t->dataset->name, (long long)((least + 1023) / 1024));
}

static ls_status resolve_cache(ls_trainer *t) {
    if (t->config.cache_decoded && !t->config.cache)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "decoded samples are to be kept (--cache-decoded), and nothing says how much memory they may "
                       "take: add --cache SIZE, as --cache 8G");
    if (!t->config.cache) return LS_OK;
    ls_status status = ls_bytes_parse(t->config.cache, &t->choices.cache);
    if (status != LS_OK) return ls__fail_context(status, "--cache: ");
    if (t->dataset->cache_bytes) return LS_OK;
    if (ls_data_cache_size(t->dataset, INT64_MAX / 4, t->config.cache_decoded) > 0) return check_table(t);
    return LS_FAIL(
        LS_STATUS_INVALID_ARGUMENT,
        "--cache %.40s: nothing is read of files while training on %s, which has no use for it: leave it out",
        t->config.cache, t->dataset->name);
}

static ls_status check_lookahead(const ls_train_config *c, const ls_choices *choices) {
    LS_TRY(ls_lookahead_check(&choices->lookahead));
    if (c->lookahead == 0 || (!c->async && choices->not_finite != LS_NOT_FINITE_SKIP)) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "lookahead does not go together with %s: leave one of them out",
                   c->async ? "asynchronous training, in which weights have no common steps"
                            : "steps that are left out (not-finite skip), of which the first could be one");
}

ls_status ls__choices_resolve(ls_trainer *t) {
    const ls_train_config *c = &t->config;
    LS_TRY(check_filled_in(c));
    LS_TRY(ls_precision_find(c->precision, &t->choices.precision));
    LS_TRY(ls_compress_find(c->compress, &t->choices.compress, &t->choices.compress_fraction));
    LS_TRY(ls_algorithm_find(c->algorithm, &t->choices.algorithm));
    LS_TRY(ls_tune_find(c->tune, &t->choices.tune));
    LS_TRY(ls__not_finite_policy(c->not_finite, &t->choices.not_finite));
    LS_TRY(ls__loss_scale_resolve(t));
    t->choices.replace_broken = strcmp(c->broken, "skip") == 0;
    if (!t->choices.replace_broken && strcmp(c->broken, "stop") != 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "unknown policy '%.64s' for broken samples: there are stop and skip",
                       c->broken);
    LS_TRY(resolve_cache(t));
    if (!(c->clip_norm >= 0 && c->clip_norm < 1e30))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the gradient norm to clip at is %g; it must be at least 0 and less than 1e30", c->clip_norm);
    if (!(c->noise >= 0 && c->noise <= 10))
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "noise on images was to have a deviation of %g; it lies from 0 to 10, where 1 is from black to white",
            c->noise);
    if (!(c->mixup == 0 || (c->mixup >= 0.05 && c->mixup <= 1)))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "mixup is %g; it is from 0.05 to 1, or 0 for none", c->mixup);
    if (!(c->positive_weight > 0 && c->positive_weight < 1e6))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "labels that are there were to weigh %g; a weight lies above 0 and below 1e6",
                       c->positive_weight);
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
            "constant warm-up keeps the rate unscaled for %g epoch%s, but without linear scaling it is never "
            "scaled: ask for linear scaling, or for gradual warm-up",
            c->warmup_epochs, c->warmup_epochs == 1 ? "" : "s");
    LS_TRY(ls_optimizer_find(c->optimizer, &t->choices.optimizer));
    t->choices.optimizer_params = params_of(c);
    LS_TRY(ls_optimizer_resolve(t->choices.optimizer, &t->choices.optimizer_params));
    if (c->momentum_correction && !t->choices.optimizer->has_momentum)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "there is no momentum in %s to correct: leave its correction out, or choose sgd or lars",
                       t->choices.optimizer->name);
    t->choices.lookahead = (ls_lookahead){c->lookahead, c->lookahead_step, c->lookahead_power};
    LS_TRY(check_lookahead(c, &t->choices));
    t->choices.rate_scale = strcmp(c->lr_scaling, "linear") == 0 ? (double)c->batch_size / (double)c->lr_base_batch : 1;
    t->choices.constant_warmup = strcmp(c->warmup, "constant") == 0;
    LS_TRY(ls_strategy_find(c->strategy, &t->choices.strategy));
    LS_TRY(ls__async_check(t));
    return resolve_schedule(t);
}

ls_status ls__sizes_resolve(ls_trainer *t) {
    ls_train_config *c = &t->config;
    if (c->epochs < 0) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "epochs must not be negative, got %d", c->epochs);
    if (c->batch_size < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the global batch must hold at least 1 sample, got %lld",
                       (long long)c->batch_size);
    if (c->batch_size > LS_MAX_BATCH)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the global batch is to hold %lld samples; at most %lld make sense",
                       (long long)c->batch_size, (long long)LS_MAX_BATCH);
    if (c->micro_batch <= 0) c->micro_batch = ls_micro_batch_default(c->batch_size);
    if (c->micro_batch > c->batch_size)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the micro-batch of %lld samples is larger than the global batch of %lld: choose a smaller one, "
                       "or leave it to the library",
                       (long long)c->micro_batch, (long long)c->batch_size);
    if (c->loader_threads < 0 || c->loader_threads > 1024)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "a host was to have %d threads that read its samples: choose 1 to 1024, or 0 for as many as keep up",
            c->loader_threads);
    if (c->threads < 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "a replica needs at least 1 thread, got %d; 0 leaves it to the library", c->threads);
    t->train_split = (ls_split){t->dataset->train, ls_dataset_train_count(t->dataset)};
    t->eval_split = (ls_split){t->dataset->test, ls_dataset_test_count(t->dataset)};
    if (c->limit_train > 0 && c->limit_train < t->train_split.count) t->train_split.count = c->limit_train;
    if (c->limit_test > 0 && c->limit_test < t->eval_split.count) t->eval_split.count = c->limit_test;
    int64_t eval_batch = c->micro_batch < 32 ? 32 : c->micro_batch;
    int64_t left_over = c->drop_remainder ? t->train_split.count % c->batch_size : 0;
    if (left_over == t->train_split.count && left_over > 0)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "%lld samples do not fill the global batch of %lld, and what does not is to be left out: choose a "
            "smaller batch, or keep the remainder",
            (long long)left_over, (long long)c->batch_size);
    t->train_shape = ls__epoch_shape(t->train_split.count - left_over, c->batch_size, c->micro_batch);
    if (t->eval_split.count == 0 && c->validate)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the dataset %s has no test set to evaluate on after each epoch: leave validation out",
                       t->dataset->name);
    t->eval_shape = t->eval_split.count ? ls__epoch_shape(t->eval_split.count, t->eval_split.count, eval_batch)
                                        : (ls_epoch_shape){.batch = eval_batch, .micro_batch = eval_batch};
    return LS_OK;
}

// --- epochs and rates ------------------------------------------------------------------------------------------------

ls_epoch_shape ls__epoch_shape(int64_t count, int64_t batch, int64_t micro_batch) {
    int64_t steps = (count + batch - 1) / batch, last = count - (steps - 1) * batch;
    return (ls_epoch_shape){.count = count,
                            .batch = batch,
                            .micro_batch = micro_batch,
                            .steps = steps,
                            .micro_batches = (batch + micro_batch - 1) / micro_batch,
                            .rest = steps > 1 || last == batch ? batch % micro_batch : 0,
                            .tail = last < batch ? last % micro_batch : 0};
}

void ls__epoch_step(const ls_epoch_shape *s, int64_t step, int64_t *samples, int64_t *micro_batches) {
    int64_t left = s->count - step * s->batch;
    *samples = left < s->batch ? left : s->batch;
    *micro_batches = (*samples + s->micro_batch - 1) / s->micro_batch;
}

double ls__learning_rate(const ls_trainer *t, int64_t step) {
    const ls_choices *c = &t->choices;
    return ls_learning_rate(c->schedule, &c->schedule_params, c->optimizer_params.lr, c->rate_scale,
                            t->config.warmup_epochs, c->constant_warmup,
                            t->at.epoch - 1 + (double)step / (double)t->train_shape.steps);
}
