// Epochs and steps, as the main thread drives them. Replicas compute when they are told to; between two steps they wait.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "train/trainer_impl.h"

// --- step by step ----------------------------------------------------------------------------------------------------

static ls_status clear_table(ls_trainer *t) {
    if (t->comm->local_rank == 0) memset(t->table, 0, (size_t)(t->table_rows * t->measures.width) * sizeof *t->table);
    return ls_comm_barrier(t->comm);
}

ls_status ls_trainer_begin_epoch(ls_trainer *t) {
    LS_NEED(t, "trainer");
    ls_position *at = &t->at;
    if (at->running)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "epoch %d is running: end it before the next is begun", at->epoch);
    if (at->epoch > t->config.epochs)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "all %d epochs are done", t->config.epochs);
    ls_comm_enter(t->comm, __func__);
    ls_sampler_order(t->config.seed, (uint32_t)at->epoch, t->config.shuffle, t->train_split.count, t->order);
    memset(at->seen, 0, (size_t)t->measures.width * sizeof *at->seen);
    at->shown = at->step * t->train_shape.micro_batches;
    LS_TRY(clear_table(t));
    at->started = ls_clock();
    at->running = 1;
    at->skipped_then = ls__trainer_skipped(t);
    t->history.cause[0] = 0;
    at->vote = at->decision = LS_VOTE_GO_ON;
    t->history.failure[0] = 0;
    ls_status status = ls__replicas_run(t, LS_COMMAND_BEGIN);
    if (status == LS_OK && t->async) status = ls__async_begin(t);
    if (status != LS_OK) at->running = 0;
    return status;
}

int64_t ls_trainer_steps_left(const ls_trainer *t) {
    if (!t) return 0;
    if (!t->at.running || (t->async && t->at.ended)) return 0;
    int64_t left = t->train_shape.steps - t->at.step;
    return t->async && left < 1 ? 1 : left;  // others may have done the last, and this worker not have heard of its end
}

// Samples in the first `steps` steps of an epoch.
static int64_t samples_in(const ls_trainer *t, int64_t steps) {
    int64_t samples = steps * t->train_shape.batch;
    return samples < t->train_shape.count ? samples : t->train_shape.count;
}

// NAN where no micro-batch counts.
static double loss_of(const ls_trainer *t, const double *sum) {
    return sum[0] > 0 ? ls__measures_loss(&t->measures, sum) : NAN;
}

// Where training is, from what this host has seen of the epoch.
static void report(ls_trainer *t, int64_t batch_done, ls_step_report *out) {
    ls_position *at = &t->at;
    int64_t micro_batches = t->train_shape.micro_batches, up_to = at->step * micro_batches;
    if (t->async) {  // of its own batches only; a server has none
        at->shown = batch_done < 0 ? 0 : batch_done * micro_batches;
        up_to = batch_done < 0 ? 0 : at->shown + micro_batches;
    }
    double batch[LS_MAX_MEASURES] = {0}, epoch[LS_MAX_MEASURES];
    for (; at->shown < up_to; at->shown++) {
        const double *row = t->table + at->shown * t->measures.width;
        if (ls__not_finite_counts(t, row)) ls__measures_add(&t->measures, batch, row);
    }
    ls__measures_add(&t->measures, at->seen, batch);
    // What has diverged does not come back: all stop after the next step, and the end of the epoch says since when.
    int finite = isfinite(ls__measures_loss(&t->measures, batch)) || batch[0] <= 0;
    if ((!finite || ls__not_finite_found(t)) && t->choices.not_finite == LS_NOT_FINITE_STOP &&
        at->vote == LS_VOTE_GO_ON)
        at->vote = LS_VOTE_STOP;
    if (!out) return;
    memcpy(epoch, at->sum, (size_t)t->measures.width * sizeof *epoch);
    ls__measures_add(&t->measures, epoch, at->seen);
    double seconds = at->seconds + ls_clock() - at->started;
    *out = (ls_step_report){.epoch = at->epoch,
                            .epochs = t->config.epochs,
                            .step = at->step,
                            .steps = t->train_shape.steps,
                            .seconds = seconds,
                            .loss = loss_of(t, epoch),
                            .accuracy = ls__measures_accuracy(&t->measures, epoch),
                            .images_per_second = (double)samples_in(t, at->step) / seconds,
                            .batch_loss = loss_of(t, batch),
                            .batch_accuracy = ls__measures_accuracy(&t->measures, batch),
                            .learning_rate = at->learning_rate,
                            .rank = t->comm->rank};
}

// Steps of the epoch that were left out so far, while it runs.
static int64_t skipped(const ls_trainer *t) { return t->at.skipped + ls__trainer_skipped(t) - t->at.skipped_then; }

// Without its end, of which nobody wants to know; what is gone on with later has the measures of the steps before.
static void leave_epoch(ls_trainer *t) {
    ls_comm_home(t->comm);
    double seconds = ls_clock() - t->at.started;
    ls__replicas_run_alone(t, LS_COMMAND_END);
    t->at.running = 0;
    t->at.seconds += seconds;
    t->at.skipped = skipped(t);
    t->history.train_seconds += seconds;
    if (!t->exchange_failed) ls__measures_gather(t, 1, t->train_shape.steps * t->train_shape.micro_batches, t->at.sum);
}

static void note_failure(ls_trainer *t) {
    snprintf(t->history.failure, sizeof t->history.failure, "%s", ls_error_message());
}

ls_status ls_trainer_step(ls_trainer *t, ls_step_report *out) {
    LS_NEED(t, "trainer");
    ls_position *at = &t->at;
    if (ls_trainer_steps_left(t) == 0 && t->history.failure[0])
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "there is no step to do, since training has failed: %s",
                       t->history.failure);
    if (ls_trainer_steps_left(t) == 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "there is no step to do: begin an epoch first, or the next one");
    ls_comm_enter_again(t->comm, __func__, t);
    at->checkpoint_due = ls__checkpoint_due(t);
    int64_t batch_done = at->batch, skipped_before = ls__trainer_skipped(t);
    t->comm->away = (ls_away){NULL, NULL};  // the step brings it home, and may communicate before all is
    if (t->async)
        ls__async_step(t);
    else
        ls__replicas_run_alone(t, LS_COMMAND_STEP);
    ls__weights_away(t);
    if (at->decision == LS_VOTE_FAILED || t->exchange_failed) {  // on all workers
        at->step += !t->async;  // the weights have taken it: what is gone on with begins behind it
        at->all_steps += !t->async;
        leave_epoch(t);
        ls_status status = ls__replicas_status(t);
        if (status == LS_OK) status = LS_FAIL(LS_STATUS_INTERNAL, "a worker failed without a word");
        note_failure(t);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    at->step += !t->async;
    at->all_steps += !t->async;
    ls__loss_scale_end(t, skipped_before);
    report(t, batch_done, out);
    return t->async ? LS_OK : ls__checkpoint_after_step(t);
}

static ls_epoch_result result_of(const ls_trainer *t, double seconds, const double *sum) {
    return (ls_epoch_result){.epoch = t->at.epoch,
                             .steps = t->at.step,
                             .skipped = skipped(t),
                             .seconds = seconds,
                             .loss = ls__measures_loss(&t->measures, sum),
                             .accuracy = ls__measures_accuracy(&t->measures, sum),
                             .images_per_second = (double)samples_in(t, t->at.step) / seconds,
                             .learning_rate = t->at.learning_rate,
                             .loss_scale = t->at.scale,
                             .val_loss = NAN,
                             .val_accuracy = NAN,
                             .val_area = NAN,
                             .val_seconds = NAN};
}

// What ends training at the end of an epoch in which numbers were not finite any more, from step `began` on: in the loss or, with `in_weights`, in
// the weights after it.
static ls_status diverged(ls_trainer *t, const ls_epoch_result *e, int64_t began, int in_weights) {
    const ls_history *h = &t->history;
    const char *cause = *h->cause ? ". The first such number was " : "";
    if (t->choices.not_finite == LS_NOT_FINITE_SKIP)
        LS_FAIL(LS_STATUS_DIVERGED,
                "training diverged: each of the %lld steps of epoch %d had a gradient that is not finite, and was left "
                "out%s%s. " LS_DIVERGED_REMEDY,
                (long long)e->skipped, e->epoch, cause, h->cause);
    else if (in_weights)
        LS_FAIL(LS_STATUS_DIVERGED,
                "training diverged: the weights after step %lld in epoch %d are no finite numbers any "
                "more%s%s. " LS_DIVERGED_REMEDY,
                (long long)began, e->epoch, cause, h->cause);
    else
        LS_FAIL(LS_STATUS_DIVERGED,
                "training diverged: the loss of step %lld in epoch %d is no finite number any more; before it was "
                "%.4g%s%s. " LS_DIVERGED_REMEDY,
                (long long)began, e->epoch, h->finite_loss, cause, h->cause);
    note_failure(t);
    return LS_STATUS_DIVERGED;
}

// The step of the epoch from which on its numbers are not finite any more; 0: none, or nobody minds. Collective.
static ls_status diverged_at(ls_trainer *t, const ls_epoch_result *e, int64_t *began, int *in_weights) {
    *began = *in_weights = 0;
    if (t->choices.not_finite == LS_NOT_FINITE_CONTINUE) return LS_OK;
    LS_TRY(ls__not_finite_gather(t, began, in_weights));
    int64_t loss = t->history.not_finite < 0 ? 0 : t->history.not_finite / t->train_shape.micro_batches + 1;
    if (loss && (!*began || loss < *began || (loss == *began && *in_weights))) *began = loss, *in_weights = 0;
    if (t->choices.not_finite == LS_NOT_FINITE_SKIP)
        *began = e->steps == t->train_shape.steps && e->skipped == e->steps && ls__loss_scale_at_least(t);
    return LS_OK;
}

ls_status ls_trainer_end_epoch(ls_trainer *t, ls_epoch_result *out) {
    LS_NEED(t, "trainer");
    ls_position *at = &t->at;
    ls_history *h = &t->history;
    int64_t all = t->train_shape.steps, micro_batches = t->train_shape.micro_batches;
    if (!at->running) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "no epoch is running that could be ended");
    ls_comm_enter(t->comm, __func__);
    double seconds = at->seconds + ls_clock() - at->started;
    LS_TRY(ls__replicas_run(t, LS_COMMAND_END));
    at->running = 0;
    LS_TRY(ls__measures_gather(t, 1, all * micro_batches, at->sum));
    if (!h->done || h->epochs[h->done - 1].epoch != at->epoch) h->done++;  // else it is gone on with
    ls_epoch_result *e = &h->epochs[h->done - 1];
    *e = result_of(t, seconds, at->sum);
    ls__results_epoch(t, h->done - 1);
    LS_TRY(ls__measures_values(&t->measures, at->sum, NULL, 0, h->train_values));
    h->train_seconds += seconds - at->seconds;
    at->seconds = seconds;
    int64_t began;
    int in_weights;
    LS_TRY(diverged_at(t, e, &began, &in_weights));
    at->skipped = e->skipped;
    if (e->steps == all) {
        memset(at->sum, 0, (size_t)t->measures.width * sizeof *at->sum);
        at->seconds = 0;
        at->skipped = 0;
        at->step = 0;
        at->epoch++;
    }
    if (t->config.validate && e->steps == all && !began) {
        LS_TRY(ls_trainer_evaluate(t, &e->val_loss, &e->val_accuracy));
        e->val_seconds = h->evaluate_seconds;
        e->val_area = ls__results_area(t);
    }
    if (out) *out = *e;
    return began ? diverged(t, e, began, in_weights) : ls__checkpoint_after_epoch(t);
}

// --- all at once -----------------------------------------------------------------------------------------------------

// A callback's failure is this worker's alone: the next step carries it to the others.
static void note_callback(ls_trainer *t, ls_status status) {
    if (status == LS_OK || t->at.failed != LS_OK) return;
    t->at.failed = ls__callback_status(status, "a callback");
    t->at.vote = LS_VOTE_FAILED;
    snprintf(t->at.failure, sizeof t->at.failure, "%s", ls_error_message());
}

static void note_stop(ls_trainer *t, int stop) {
    if (stop && t->at.vote == LS_VOTE_GO_ON) t->at.vote = LS_VOTE_STOP;
}

// Until the epoch's end, or until the step after which all know that one of them wants to stop.
static ls_status fit_steps(ls_trainer *t, const ls_callbacks *c) {
    while (ls_trainer_steps_left(t) > 0 && t->at.decision <= LS_VOTE_CHECKPOINT) {
        ls_step_report step;
        int stop = 0;
        LS_TRY(ls_trainer_step(t, &step));
        ls__error_set("");  // so that an earlier failure's sentence does not pass for the callback's
        if (c->on_step) note_callback(t, c->on_step(c->user, &step, &stop));
        note_stop(t, stop);
    }
    return LS_OK;
}

// Whether any worker wants to stop, or has failed in a callback. Collective.
static ls_status agree(ls_trainer *t, int *stop) {
    ls_comm_enter(t->comm, "ls_trainer_fit");  // callbacks may have called something
    int mine = t->at.vote != LS_VOTE_GO_ON || t->at.decision > LS_VOTE_CHECKPOINT, *all;
    LS_TRY(ls__replicas_status(t));
    LS_TRY(ls_comm_agree(t->comm, ls_calloc(t->comm->size, sizeof *all, &all)));
    ls_status status = ls_comm_allgather(t->comm, &mine, all, sizeof mine);
    for (int i = 0; i < t->comm->size; i++) *stop |= all[i];
    free(all);
    return status;
}

static ls_status fit_epoch(ls_trainer *t, const ls_callbacks *c, int *stop) {
    LS_TRY(ls_trainer_begin_epoch(t));
    LS_TRY(fit_steps(t, c));
    ls_status status = agree(t, stop);
    if (status != LS_OK) leave_epoch(t);
    LS_TRY(status);
    ls_epoch_result epoch;
    char sentence[1024] = "";
    status = ls_trainer_end_epoch(t, &epoch);
    if (status == LS_STATUS_DIVERGED) {
        snprintf(sentence, sizeof sentence, "%s", ls_error_message());
        epoch = t->history.epochs[t->history.done - 1];
    } else {
        LS_TRY(status);
    }
    int mine = 0;
    ls__error_set("");
    if (c->on_epoch) note_callback(t, c->on_epoch(c->user, &epoch, &mine));
    note_stop(t, mine);
    if (status != LS_OK) return LS_FAIL(status, "%s", sentence);
    return agree(t, stop);
}

ls_status ls_trainer_fit(ls_trainer *t, const ls_callbacks *callbacks) {
    LS_NEED(t, "trainer");
    static const ls_callbacks none;
    int stop = 0;
    ls_status status = LS_OK;
    while (status == LS_OK && t->at.epoch <= t->config.epochs && !stop)
        status = fit_epoch(t, callbacks ? callbacks : &none, &stop);
    t->at.failed = LS_OK;  // every worker has been told: what is called next does not fail for it
    t->at.failure[0] = 0;
    LS_TRY(status);
    ls_comm_enter(t->comm, __func__);
    if (t->choices.not_finite != LS_NOT_FINITE_CONTINUE) LS_TRY(ls_comm_agree(t->comm, ls__results_finite(t)));
    LS_TRY(ls__checkpoint_at_end(t));
    return ls__results_gather(t);
}

// --- evaluation ------------------------------------------------------------------------------------------------------

// All samples once, in one of the views of them.
static ls_status look(ls_trainer *t, int view, double sum[LS_MAX_MEASURES]) {
    memset(sum, 0, LS_MAX_MEASURES * sizeof *sum);
    t->views.now = view;
    ls__rows_begin(&t->rows, t->comm);
    LS_TRY(clear_table(t));
    LS_TRY(ls__replicas_run(t, LS_COMMAND_EVALUATE));
    return ls__measures_gather(t, 0, t->eval_shape.micro_batches, sum);
}

// The first view is the last that is looked at, and what metrics without rows have.
static ls_status look_often(ls_trainer *t, double sum[LS_MAX_MEASURES]) {
    ls__rows_begin(&t->views.rows, t->comm);
    for (int view = t->views.count - 1; view > 0; view--) LS_TRY(look(t, view, sum));
    return look(t, 0, sum);
}

ls_status ls_trainer_evaluate(ls_trainer *t, double *loss, double *accuracy) {
    LS_NEED(t, "trainer");
    double start = ls_clock(), sum[LS_MAX_MEASURES];
    ls_history *h = &t->history;
    if (t->eval_split.count == 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the dataset %s has no test set to evaluate on", t->dataset->name);
    if (t->at.running)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "epoch %d is running: end it before evaluating", t->at.epoch);
    ls_comm_enter(t->comm, __func__);
    for (int64_t i = 0; i < t->eval_split.count; i++) t->order[i] = (uint32_t)i;
    LS_TRY(look_often(t, sum));
    h->test_loss = ls__measures_loss(&t->measures, sum);
    h->test_accuracy = ls__measures_accuracy(&t->measures, sum);
    if (t->views.count) LS_TRY(ls__views_finish(t, &h->test_loss, &h->test_accuracy));
    LS_TRY(ls__rows_values(&t->rows, t->comm, sum, h->test_values));
    if (t->views.count) ls__views_values(t, h->test_loss, h->test_accuracy, h->test_values);
    h->evaluate_seconds = ls_clock() - start;
    LS_TRY(ls__results_memory(t));
    if (h->not_finite >= 0 && t->choices.not_finite != LS_NOT_FINITE_CONTINUE)
        return LS_FAIL(LS_STATUS_DIVERGED,
                       "evaluation: the loss of samples %lld and following is no finite number: the weights have "
                       "diverged. " LS_DIVERGED_REMEDY,
                       (long long)(h->not_finite * t->eval_shape.micro_batch));
    if (loss) *loss = h->test_loss;
    if (accuracy) *accuracy = h->test_accuracy;
    return LS_OK;
}
