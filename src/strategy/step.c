// The driver of a step: what all strategies go through, and what a lane does to its slices.
#include <string.h>

#include "strategy/strategy_impl.h"

// --- a lane's slice of a bucket --------------------------------------------------------------------------------------

// Summing and updating take turns, block by block; their times are added up apart and noted as two stretches.
typedef struct turns {
    double start, now, summing;
} turns;

static turns begin_turns(const ls_lane_step *step) { return (turns){step->times->since, step->times->since, 0}; }

static void end_sum(turns *t) {
    double now = ls_clock();
    t->summing += now - t->now;
}

static void end_update(turns *t) { t->now = ls_clock(); }

static void note_turns(const ls_lane_step *step, const turns *t) {
    ls__spent(step->times, LS_STEP_SUM, t->start, t->start + t->summing);
    ls__spent(step->times, LS_STEP_UPDATE, t->start + t->summing, t->now);
    step->times->since = t->now;
}

static int64_t block_length(ls_slice slice, int64_t at) {
    return slice.end - at < LS_BLOCK ? slice.end - at : LS_BLOCK;
}

// What the lane keeps of element `at` of the slice.
static float *kept_at(const ls_lane_step *step, ls_slice slice, int64_t at) {
    return step->lane->kept + slice.first + (at - slice.begin);
}

// The mean gradient of the block from `at` on, clipped.
static const float *read_block(const ls_lane_step *step, ls_slice slice, int64_t at) {
    const ls_strategy *s = step->strategy;
    ls_lane *lane = step->lane;
    int64_t n = block_length(slice, at);
    if (ls__clips(s)) {
        const float *mean = s->makes_mean ? s->mean + at : kept_at(step, slice, at);
        ls__clip(s, at, n, mean, step->factor, lane->blocks);
        return lane->blocks;
    }
    if (s->makes_mean) return s->mean + at;
    ls__mean_block(lane, step->info, at, n, lane->blocks);
    return lane->blocks;
}

static ls_update block_update(const ls_lane_step *step, ls_slice slice, int64_t at, const float *g) {
    const ls_lane *lane = step->lane;
    ls_update update = {.n = block_length(slice, at),
                        .w = step->strategy->weights + at,
                        .g = g,
                        .lr = step->info->lr,
                        .lr_before = step->info->lr_before,
                        .step = step->info->step};
    for (int i = 0; i < LS_MAX_OPTIMIZER_STATE; i++)
        if (lane->state[i]) update.state[i] = lane->state[i] + slice.first + (at - slice.begin);
    return update;
}

void ls__slice_measure(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    ls_slice slice = step->lane->slices[bucket];
    for (int64_t at = slice.begin; at < slice.end && !s->makes_mean; at += LS_BLOCK)
        ls__mean_block(step->lane, step->info, at, block_length(slice, at), kept_at(step, slice, at));
    const float *mean = s->makes_mean ? s->mean + slice.begin : kept_at(step, slice, slice.begin);
    ls__note_squares(s, slice.begin, ls__slice_length(slice), mean);
    ls__lap(step->times, LS_STEP_SUM);
}

void ls__slice_direct(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    ls_slice slice = step->lane->slices[bucket];
    turns t = begin_turns(step);
    for (int64_t at = slice.begin; at < slice.end; at += LS_BLOCK) {
        float *kept = kept_at(step, slice, at);
        const float *g = read_block(step, slice, at);
        end_sum(&t);
        ls__direct(s, block_update(step, slice, at, g), at, kept);
        ls__note_layers(s, at, block_length(slice, at), s->weights + at, kept);
        end_update(&t);
    }
    note_turns(step, &t);
}

void ls__slice_update(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    ls_slice slice = step->lane->slices[bucket];
    turns t = begin_turns(step);
    for (int64_t at = slice.begin; at < slice.end; at += LS_BLOCK) {
        const float *g = ls__layerwise(s) ? kept_at(step, slice, at) : read_block(step, slice, at);
        end_sum(&t);
        ls__update(s, step->lane, block_update(step, slice, at, g), at);
        end_update(&t);
    }
    note_turns(step, &t);
}

// --- phases ----------------------------------------------------------------------------------------------------------

static ls_status reduce_begin(ls_lane_step *step, int bucket) {
    const ls_strategy_ops *ops = step->strategy->ops;
    step->lane->begun[bucket] = 1;
    return ops->reduce_begin ? ops->reduce_begin(step, bucket) : LS_OK;
}

static ls_status update_and_gather(ls_lane_step *step, int bucket) {
    const ls_strategy_ops *ops = step->strategy->ops;
    ls__slice_update(step, bucket);
    return ops->gather_begin ? ops->gather_begin(step, bucket) : LS_OK;
}

// Sums of squares of all slices come to all lanes that share a weights vector.
static ls_status share(ls_lane_step *step, double *units, int columns) {
    ls_strategy *s = step->strategy;
    ls_status status = s->ops->share ? s->ops->share(step, units, columns) : LS_OK;
    int several_hosts = s->ops->share && s->config.comm->hosts > 1;
    ls__wait(s->ops->weights_shared ? s->host_barrier : s->worker_barrier, step->times,
             several_hosts ? LS_STEP_SEND : LS_STEP_WAIT);
    return status;
}

// Where a norm decides what is applied, all buckets are measured before one is updated.
static ls_status update_measured(ls_lane_step *step) {
    ls_strategy *s = step->strategy;
    ls_status status = LS_OK;
    if (ls__clips(s)) {
        ls__keep(&status, share(step, s->squares, 1));
        step->factor = ls__clip_factor(s);
        for (int b = 0; b < s->bucket_count && ls__layerwise(s); b++) ls__slice_direct(step, b);
    }
    if (ls__layerwise(s)) {
        ls__keep(&status, share(step, s->layer_squares, 2));
        for (int b = 0; b < s->bucket_count; b++)
            ls__find_norms(s, step->lane, step->lane->slices[b].begin, step->lane->slices[b].end);
        ls__lap(step->times, LS_STEP_SUM);
    }
    for (int b = 0; b < s->bucket_count; b++) ls__keep(&status, update_and_gather(step, b));
    return status;
}

// All that is done to a bucket once it is reduced, as far as it does not depend on other buckets.
static ls_status reduce_end(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    ls_status status = s->ops->reduce_end(step, bucket);
    if (ls__clips(s))
        ls__slice_measure(step, bucket);
    else if (ls__layerwise(s))
        ls__slice_direct(step, bucket);
    else
        ls__keep(&status, update_and_gather(step, bucket));
    return status;
}

// Working copies are refreshed by the lanes that share a weights vector.
static void refresh(ls_lane_step *step) {
    ls_strategy *s = step->strategy;
    const ls_strategy_config *config = &s->config;
    int shared = s->ops->weights_shared;
    if (!config->refresh) return;
    config->refresh(config->refresh_user, s->weights, s->copies, shared ? s->host_lane + step->replica : step->replica,
                    shared ? s->host_lanes : config->replicas);
    ls__lap(step->times, LS_STEP_REFRESH);
    ls__wait(shared ? s->host_barrier : s->worker_barrier, step->times, LS_STEP_WAIT);
}

ls_status ls_strategy_step(ls_strategy *s, int replica, const ls_step_info *info, ls_vote mine, ls_vote *decision,
                           ls_step_times *times) {
    ls_lane *lane = s->lane[replica];
    ls_lane_step step = {.strategy = s, .lane = lane, .replica = replica, .info = info, .times = times, .factor = 1};
    ls_status status = LS_OK;
    ls__vote_cast(&step, mine);
    ls__wait(s->host_barrier, times, LS_STEP_WAIT);
    ls__keep(&status, ls__vote_send(&step));
    for (int b = 0; b < s->bucket_count; b++)
        if (!lane->begun[b]) ls__keep(&status, reduce_begin(&step, b));
    for (int b = 0; b < s->bucket_count; b++) ls__keep(&status, reduce_end(&step, b));
    if (ls__clips(s) || ls__layerwise(s)) ls__keep(&status, update_measured(&step));
    for (int b = 0; b < s->bucket_count && s->ops->gather_end; b++) ls__keep(&status, s->ops->gather_end(&step, b));
    ls__keep(&status, ls__vote_receive(&step));
    if (status != LS_OK) ls__vote_fail(&step);
    ls__wait(s->host_barrier, times, s->ops->gather_end && s->config.comm->hosts > 1 ? LS_STEP_GATHER : LS_STEP_WAIT);
    refresh(&step);
    *decision = ls__vote_decision(&step);
    memset(lane->begun, 0, (size_t)s->bucket_count);
    lane->steps++;
    return status;
}

ls_status ls_strategy_bucket_ready(ls_strategy *s, int replica, const ls_step_info *info, int bucket,
                                   ls_step_times *times) {
    ls_lane_step step = {.strategy = s, .lane = s->lane[replica], .replica = replica, .info = info, .times = times};
    ls__wait(s->host_barrier, times, LS_STEP_WAIT);
    return reduce_begin(&step, bucket);
}

// For each bucket at most six stretches to reduce it and five to measure and update it; eight for all of them.
int64_t ls_strategy_trace_events(const ls_strategy *s) { return 12 * (int64_t)s->bucket_count + 12; }

void ls_strategy_host_barrier(ls_strategy *s) { ls_barrier_wait(s->host_barrier); }
