// The driver of a step: what all strategies go through, and what a lane does to its slices.
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/flight.h"
#include "base/watch.h"
#include "strategy/overlap.h"
#include "strategy/strategy_impl.h"
#include "strategy/topk.h"

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

// What the lane keeps of element `at` of the slice.
static ls_span kept_at(const ls_lane_step *step, ls_slice slice, int64_t at) {
    return ls_span_at(step->lane->kept, (slice.first + (at - slice.begin)) * 4);
}

// The mean gradient of a block that was made as a whole, or kept.
static ls_status known_mean(ls_lane_step *step, ls_slice slice, int64_t at, int64_t n, ls_span *mean) {
    const ls_strategy *s = step->strategy;
    *mean = kept_at(step, slice, at);
    return s->makes_mean ? ls__bring(step, ls__window_at(s->mean, at * 4), n, 1, mean) : LS_OK;
}

// The mean gradient of the block from `at` on, clipped.
static ls_status read_clipped(ls_lane_step *step, ls_slice slice, int64_t at, int64_t n, ls_span *g) {
    const ls_strategy *s = step->strategy;
    ls_span first = ls__block(step, 0);
    *g = first;
    if (!ls__clips(s) && !s->makes_mean) return ls__mean_block(step, at, n, first);
    LS_TRY(known_mean(step, slice, at, n, g));
    if (!ls__clips(s)) return LS_OK;
    LS_TRY(ls__clip(step, at, n, *g, first));
    *g = first;
    return LS_OK;
}

// The same with the gradient of the L2 penalty, which clipping has no part in.
static ls_status read_block(ls_lane_step *step, ls_slice slice, int64_t at, int64_t n, ls_span *g) {
    LS_TRY(read_clipped(step, slice, at, n, g));
    if (!(step->strategy->config.params.l2 > 0)) return LS_OK;
    ls_span mean = *g;
    *g = ls__block(step, 0);
    return ls__add_l2(step, at, n, mean, *g);
}

static ls_update_block block_update(const ls_lane_step *step, ls_slice slice, int64_t at, int64_t n, ls_span g) {
    const ls_lane *lane = step->lane;
    ls_update_block block = {.offset = at, .n = n};
    block.x[LS_UPDATE_W] = ls_span_at(step->strategy->weights.device, at * 4);
    block.x[LS_UPDATE_G] = g;
    for (int i = 0; i < LS_MAX_OPTIMIZER_STATE; i++)
        if (lane->state[i].buffer)
            block.x[LS_UPDATE_STATE + i] = ls_span_at(lane->state[i], (slice.first + (at - slice.begin)) * 4);
    if (step->strategy->config.lookahead)
        block.x[LS_UPDATE_SLOW] = ls_span_at(lane->slow, (slice.first + (at - slice.begin)) * 4);
    return block;
}

ls_status ls__slice_measure(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    ls_slice slice = step->lane->slices[bucket];
    ls_status status = LS_OK;
    for (int64_t at = slice.begin, n; (n = ls__trained(s, &at, slice.end, s->block)) > 0; at += n) {
        ls_span mean;
        if (!s->makes_mean) ls__keep(&status, ls__mean_block(step, at, n, kept_at(step, slice, at)));
        ls__keep(&status, known_mean(step, slice, at, n, &mean));
        ls__keep(&status, ls__note_squares(step, at, n, mean));
    }
    ls__lap(step->times, LS_STEP_SUM);
    return status;
}

ls_status ls__slice_direct(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    ls_slice slice = step->lane->slices[bucket];
    ls_status status = LS_OK;
    turns t = begin_turns(step);
    for (int64_t at = slice.begin, n; (n = ls__trained(s, &at, slice.end, s->block)) > 0; at += n) {
        ls_span g;
        ls__keep(&status, read_block(step, slice, at, n, &g));
        end_sum(&t);
        ls_update_block block = block_update(step, slice, at, n, g);
        block.x[LS_UPDATE_OUT] = kept_at(step, slice, at);
        ls__keep(&status, ls__direct(step, &block));
        ls__keep(&status, ls__note_layers(step, at, n, block.x[LS_UPDATE_W], block.x[LS_UPDATE_OUT]));
        end_update(&t);
    }
    note_turns(step, &t);
    return status;
}

// Among new weights, while they are in the caches still.
static ls_status find_not_finite(ls_lane_step *step, int64_t at, int64_t n) {
    ls_span w = ls_span_at(step->strategy->weights.device, at * 4);
    return ls__vector(step->queue)->find_not_finite(step->queue, step->lane->found, w, at, n);
}

ls_status ls__slice_update(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    ls_slice slice = step->lane->slices[bucket];
    ls_status status = LS_OK;
    turns t = begin_turns(step);
    for (int64_t at = slice.begin, n; (n = ls__trained(s, &at, slice.end, s->block)) > 0; at += n) {
        ls_span g = {0};
        if (ls__layerwise(s))
            g = kept_at(step, slice, at);
        else
            ls__keep(&status, read_block(step, slice, at, n, &g));
        end_sum(&t);
        ls_update_block block = block_update(step, slice, at, n, g);
        ls__keep(&status, ls__update(step, &block));
        if (s->config.find_not_finite) ls__keep(&status, find_not_finite(step, at, n));
        end_update(&t);
    }
    note_turns(step, &t);
    return status;
}

// --- devices that are far from the host's memory ---------------------------------------------------------------------

// Waits until what the lane's queue wrote is there, on the device or on the host: before a barrier, after which others look at it.
static ls_status settle(ls_lane_step *step, ls_step_phase phase) {
    if (ls__host_memory(step->strategy)) return LS_OK;
    ls_status status = ls_synchronize(step->queue);
    ls__lap(step->times, phase);
    return status;
}

// The lane's sums of buckets [first, last), which are not begun, for lanes of other workers.
static ls_status publish(ls_lane_step *step, int first, int last) {
    ls_strategy *s = step->strategy;
    ls_status status = LS_OK;
    for (int b = first; b < last; b++)
        if (!step->lane->begun[b]) ls__keep(&status, ls__publish(step, ls__bucket_begin(s, b), s->bucket_ends[b]));
    ls__keep(&status, settle(step, LS_STEP_SEND));
    return status;
}

// The new weights of the lane's slice of a bucket, for lanes of other workers.
static ls_status put_weights(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    ls_slice slice = step->lane->slices[bucket];
    if (ls__host_memory(s) || !s->weights.host || slice.begin == slice.end) return LS_OK;
    ls_window at = ls__window_at(s->weights, slice.begin * 4);
    return ls_read(step->queue, at.host, at.device, ls__slice_length(slice) * 4);
}

// This lane's share of elements [begin, end) of the weights, as the host has them.
static ls_status take_share(ls_lane_step *step, int64_t begin, int64_t end) {
    ls_strategy *s = step->strategy;
    int64_t from, to;
    ls__share(begin, end, step->replica, s->config.replicas, &from, &to);
    if (from == to) return LS_OK;
    ls_window at = ls__window_at(s->weights, from * 4);
    return ls_write(step->queue, at.device, at.host, (to - from) * 4);
}

// The weights that other workers have updated.
static ls_status take_weights(ls_lane_step *step) {
    ls_strategy *s = step->strategy;
    int first = s->config.comm->position * s->config.replicas, last = first + s->config.replicas - 1;
    ls_status status = LS_OK;
    if (ls__host_memory(s) || !s->weights.host) return LS_OK;
    for (int b = 0; b < s->bucket_count; b++) {
        int64_t begin, end, unused;
        s->ops->slice(s, first, b, &begin, &unused);
        s->ops->slice(s, last, b, &unused, &end);
        ls__keep(&status, take_share(step, ls__bucket_begin(s, b), begin));
        ls__keep(&status, take_share(step, end, s->bucket_ends[b]));
    }
    ls__keep(&status, settle(step, LS_STEP_GATHER));
    ls__wait(s->worker_barrier, step->times, LS_STEP_WAIT);
    return status;
}

// --- phases ----------------------------------------------------------------------------------------------------------

static ls_status update_and_gather(ls_lane_step *step, int bucket) {
    const ls_strategy_ops *ops = step->strategy->ops;
    ls_status status = step->skips ? LS_OK : ls__slice_update(step, bucket);
    ls__keep(&status, put_weights(step, bucket));
    if (!ops->gather_begin) return status;
    ls__keep(&status, settle(step, LS_STEP_UPDATE));
    ls__keep(&status, ops->gather_begin(step, bucket));
    return status;
}

// What lanes that exchange themselves are about to wait for, should the watch be asked: a bucket, or what comes before or after one.
static void say_about(const ls_lane_step *step, const char *before, int bucket) {
    ls_strategy *s = step->strategy;
    if (step->replica != 0 || step->alone) return;
    int several = s->config.comm->hosts > 1;
    ls_watch_within(several ? before : "", bucket, s->bucket_count);
    ls_flight_bucket(before[0] ? s->bucket_count : bucket, s->bucket_count);
    if (!several) return;                        // nobody is sent anything
    char *about = s->about[s->about_turn ^= 1];  // the watch may read the other one
    snprintf(about, sizeof s->about[0], "%sbucket %d of %d", before, bucket, s->bucket_count);
    s->config.comm->about = about;
}

// What lanes meet for that have ended backward: of what is exchanged behind it the first bucket that is not there, else the first of all.
static void say_meeting(const ls_lane_step *step) {
    const ls_strategy *s = step->strategy;
    if (step->replica != 0) return;
    int bucket = s->overlap ? ls__overlap_awaited(s, step->number) : 0;
    const char *words = ls__bucket_words(&bucket, 0, s->bucket_count);
    ls_watch_within(words, bucket, s->bucket_count);
}

static const char before_all[] = "norms of all buckets before ", after_all[] = "votes of other hosts after ";

// Keeps the first failure, and its sentence; where hosts speak to each other that says about which bucket, or before or after which.
static void keep_at(const ls_lane_step *step, ls_status *first, ls_status status, const char *before, int bucket) {
    if (status != LS_OK && *first == LS_OK && !step->lane->failure[0]) {
        if (step->strategy->config.comm->hosts > 1)
            ls__fail_context(status, "%sbucket %d of %d: ", before, bucket, step->strategy->bucket_count);
        snprintf(step->lane->failure, sizeof step->lane->failure, "%s", ls_error_message());
    }
    ls__keep(first, status);
}

static void keep_of(const ls_lane_step *step, ls_status *first, ls_status status, int bucket) {
    keep_at(step, first, status, "", bucket);
}

// Others may have failed since, which the first one is the cause of.
static ls_status first_failure(const ls_lane_step *step, ls_status status) {
    if (status != LS_OK && step->lane->failure[0]) ls__error_set(step->lane->failure);
    return status;
}

// Sums of squares of all slices come to all lanes that share a weights vector.
static ls_status share(ls_lane_step *step, double *units, int columns) {
    ls_strategy *s = step->strategy;
    ls_status status = settle(step, LS_STEP_SUM);
    say_about(step, before_all, 0);
    if (s->ops->share) keep_at(step, &status, s->ops->share(step, units, columns), before_all, 0);
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
        ls__keep(&status, share(step, s->squares.host, 1));
        int finite;
        step->factor = ls__clip_factor(s, &finite);
        step->skips = s->config.skip_not_finite && !step->info->takes_all && !finite;
        step->lane->skipped += step->skips;
        for (int b = 0; b < s->bucket_count && ls__layerwise(s) && !step->skips; b++)
            ls__keep(&status, ls__slice_direct(step, b));
    }
    if (ls__layerwise(s) && !step->skips) {
        ls__keep(&status, share(step, s->layer_squares.host, 2));
        for (int b = 0; b < s->bucket_count; b++)
            ls__find_norms(s, step->lane, step->lane->slices[b].begin, step->lane->slices[b].end);
        ls__lap(step->times, LS_STEP_SUM);
    }
    for (int b = 0; b < s->bucket_count; b++) {
        say_about(step, "", b);
        keep_of(step, &status, update_and_gather(step, b), b);
    }
    return status;
}

ls_status ls__reduce_end(ls_lane_step *step, int bucket) {
    ls_strategy *s = step->strategy;
    ls_status status = s->ops->reduce_end(step, bucket);
    if (ls__clips(s))
        ls__keep(&status, ls__slice_measure(step, bucket));
    else if (ls__layerwise(s))
        ls__keep(&status, ls__slice_direct(step, bucket));
    else
        ls__keep(&status, update_and_gather(step, bucket));
    return status;
}

// Working copies are refreshed by the lanes that work on one weights vector.
static ls_status refresh(ls_lane_step *step) {
    ls_strategy *s = step->strategy;
    const ls_strategy_config *config = &s->config;
    int shared = ls__one_vector(s);
    if (!config->refresh) return LS_OK;
    ls_status status = config->refresh(config->refresh_user, step->queue, s->weights.device, s->copies,
                                       shared ? s->host_lane + step->replica : step->replica,
                                       shared ? s->host_lanes : config->replicas);
    if (!ls__host_memory(s)) ls__keep(&status, ls_synchronize(step->queue));
    ls__lap(step->times, LS_STEP_REFRESH);
    ls__wait(shared ? s->host_barrier : s->worker_barrier, step->times, LS_STEP_WAIT);
    return status;
}

// What follows once all buckets are on their way.
static ls_status update(ls_lane_step *step) {
    ls_strategy *s = step->strategy;
    ls_status status = LS_OK;
    for (int b = 0; b < s->bucket_count; b++) {
        say_about(step, "", b);
        keep_of(step, &status, ls__reduce_end(step, b), b);
    }
    if (ls__clips(s) || ls__layerwise(s)) ls__keep(&status, update_measured(step));
    for (int b = 0; b < s->bucket_count && s->ops->gather_end; b++) {
        say_about(step, "", b);
        keep_of(step, &status, s->ops->gather_end(step, b), b);
    }
    ls__keep(&status, settle(step, LS_STEP_UPDATE));
    return status;
}

ls_status ls__read_found(const ls_lane_step *step) {
    const ls_lane *lane = step->lane;
    ls_status status = ls_read(step->queue, lane->found_host, lane->found, sizeof *lane->found_host);
    return status == LS_OK && !ls__host_memory(step->strategy) ? ls_synchronize(step->queue) : status;
}

// --- a step ----------------------------------------------------------------------------------------------------------

ls_status ls_strategy_vote(ls_strategy *s, int replica, ls_queue *queue, const ls_step_info *info, ls_vote mine,
                           ls_step_times *times) {
    ls_lane_step step = {.strategy = s, .lane = s->lane[replica], .replica = replica, .queue = queue, .info = info};
    uint64_t before = (uint64_t)step.lane->steps;
    step.times = times;
    step.number = before + 1;
    if (!ls__early(s) || step.lane->voted) return LS_OK;
    ls_status status = ls_strategy_home(s, replica, queue, times);
    if (ls__overlap_broken(s, before)) return status;
    ls__vote_cast(&step, status == LS_OK ? mine : LS_VOTE_FAILED, ls__overlap_reached(s));
    ls__overlap_tell(&step, s->bucket_count);
    step.lane->voted = 1;
    return status;
}

static void end_lane_step(const ls_strategy *s, ls_lane *lane) {
    memset(lane->begun, 0, (size_t)s->bucket_count);
    lane->voted = 0;
    lane->steps++;
}

// Of a strategy that is early: waits for nobody's weights, only for the votes.
static ls_status step_early(ls_lane_step *step, ls_vote mine, ls_vote *decision) {
    ls_strategy *s = step->strategy;
    ls_lane *lane = step->lane;
    ls_status status = ls_strategy_vote(s, step->replica, step->queue, step->info, mine, step->times);
    *decision = LS_VOTE_FAILED;
    if (!lane->voted) return status;  // the step before has not come to its end
    for (int b = 0; b < s->bucket_count; b++)
        if (!lane->begun[b]) ls__overlap_tell(step, b);
    ls__overlap_end(step);
    ls__lap(step->times, LS_STEP_WAIT);  // in a trace it says when this lane was through
    if (ls__overlap_decided(step)) *decision = ls__vote_decision(step);
    end_lane_step(s, lane);
    return status;
}

ls_status ls_strategy_step(ls_strategy *s, int replica, ls_queue *queue, const ls_step_info *info, ls_vote mine,
                           ls_vote *decision, ls_step_times *times) {
    ls_lane *lane = s->lane[replica];
    ls_lane_step step = {.strategy = s, .lane = lane, .replica = replica, .queue = queue, .info = info, .times = times};
    step.factor = 1;
    step.number = (uint64_t)lane->steps + 1;
    if (ls__early(s)) return step_early(&step, mine, decision);
    int broken = 0;
    lane->failure[0] = 0;
    ls_status status = publish(&step, 0, s->bucket_count);
    say_meeting(&step);
    ls__vote_cast(&step, status == LS_OK ? mine : LS_VOTE_FAILED, 0);
    if (s->overlap) {
        for (int b = 0; b <= s->bucket_count; b++)
            if (b == s->bucket_count || !lane->begun[b]) ls__overlap_tell(&step, b);
        ls__overlap_end(&step);
        ls__wait(s->host_barrier, times, LS_STEP_WAIT);
        ls__keep(&status, ls__overlap_wait(&step));
        if (!ls__overlap_updates(s)) ls__wait(s->host_barrier, times, LS_STEP_WAIT);
        broken = ls__overlap_broken(s, step.number);
    } else {
        ls__wait(s->host_barrier, times, LS_STEP_WAIT);
        keep_at(&step, &status, ls__vote_send(&step), "votes of other hosts before ", 0);
        for (int b = 0; b < s->bucket_count && s->ops->reduce_begin; b++) {
            say_about(&step, "", b);
            keep_of(&step, &status, s->ops->reduce_begin(&step, b), b);
        }
    }
    if (!ls__overlap_updates(s) && !broken) ls__keep(&status, update(&step));
    if (s->config.find_not_finite) ls__keep(&status, ls__read_found(&step));
    say_about(&step, after_all, s->bucket_count - 1);
    if (!s->overlap) keep_at(&step, &status, ls__vote_receive(&step), after_all, s->bucket_count - 1);
    if (replica == 0) s->config.comm->about = NULL;
    if (status != LS_OK || broken) ls__vote_fail(&step);
    ls__wait(s->host_barrier, times, s->ops->gather_end && s->config.comm->hosts > 1 ? LS_STEP_GATHER : LS_STEP_WAIT);
    ls_status after = take_weights(&step);
    ls__keep(&after, refresh(&step));
    *decision = after == LS_OK ? ls__vote_decision(&step) : LS_VOTE_FAILED;
    ls__keep(&status, after);
    if (!step.skips) ls__topk_taken(&step);
    if (replica == 0) ls_watch_within(NULL, 0, 0);
    if (replica == 0) ls_flight_bucket(0, s->bucket_count);
    end_lane_step(s, lane);
    return first_failure(&step, status);
}

ls_status ls_strategy_bucket_ready(ls_strategy *s, int replica, ls_queue *queue, const ls_step_info *info, int bucket,
                                   ls_step_times *times) {
    ls_lane_step step = {.strategy = s, .lane = s->lane[replica], .replica = replica, .queue = queue, .info = info};
    ls_status status = LS_OK;
    step.times = times;
    step.number = (uint64_t)step.lane->steps + 1;
    if (!s->overlap || step.lane->begun[bucket] || (ls__early(s) && !step.lane->voted)) return LS_OK;
    int64_t begin = ls__bucket_begin(s, bucket), end = s->bucket_ends[bucket];
    if (step.lane->open) {
        status = ls__gradient_merge(s, replica, queue, info, begin, end);
        ls__lap(times, LS_STEP_SUM);
    }
    ls__keep(&status, publish(&step, bucket, bucket + 1));
    step.lane->begun[bucket] = 1;
    ls__overlap_tell(&step, bucket);
    return status;
}

// For each bucket at most eight stretches to reduce it, two more for each level of a tree of the host's workers, four for each level of
// hosts, six to measure and update it, and one to wait until it is home; sixteen for all of them.
int64_t ls_strategy_trace_events(const ls_strategy *s) {
    const ls_comm *comm = s->config.comm;
    return (15 + 2 * ls__levels(comm->local_size) + 4 * ls__levels(comm->hosts)) * (int64_t)s->bucket_count + 16;
}

int64_t ls_strategy_not_finite(const ls_strategy *s, int replica) {
    return s->config.find_not_finite ? *s->lane[replica]->found_host - 1 : -1;
}

ls_status ls_strategy_forget_not_finite(ls_strategy *s, int replica, ls_queue *queue) {
    if (!s->config.find_not_finite) return LS_OK;
    *s->lane[replica]->found_host = 0;
    return queue->device->ops->memory->zero(queue, s->lane[replica]->found, sizeof(int64_t));
}

int64_t ls_strategy_skipped(const ls_strategy *s) { return s->lane[0]->skipped; }

void ls_strategy_host_barrier(ls_strategy *s) { ls_barrier_wait(s->host_barrier); }
