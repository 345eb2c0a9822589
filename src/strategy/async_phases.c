// The strategies behind asynchronous training. A computing worker's: its replicas add up the batch that it has taken, as those of a job of one worker
// do; a push follows in place of an update. A server's: one lane whose sum is a push, and which updates the server's slice of the
// weights as any other lane does.
#include <string.h>

#include "base/error.h"
#include "strategy/async_impl.h"

// What they are for belongs to somebody else.
static void destroy(ls_strategy *s) { s->impl = NULL; }

// --- a computing worker ----------------------------------------------------------------------------------------------

static ls_status push_plan(ls_strategy *s) {
    ls_async *a = s->impl = s->config.behind;
    return ls__want(s, LS_STRATEGY_SUMS, LS_WORKER, s->config.length * ls__sum_bytes(s), &a->sums);
}

// It updates nothing.
static void push_slice(const ls_strategy *s, int lane, int bucket, int64_t *begin, int64_t *end) {
    *begin = *end = s->bucket_ends[bucket];
}

static ls_status push_reduce_begin(ls_lane_step *step, int bucket) {
    ls_async *a = step->strategy->impl;
    ls_status status = ls__host_partials(step, 0, step->strategy->config.length, a->sums);
    ls__keep(&status, ls_synchronize(step->queue));
    ls__lap(step->times, LS_STEP_SUM);
    ls__meet(step, LS_STEP_WAIT);
    return status;
}

static ls_status push_reduce_end(ls_lane_step *step, int bucket) {
    step->lane->source_count = 0;
    return LS_OK;
}

static ls_status push_gather_end(ls_lane_step *step, int bucket) {
    if (step->replica != 0) return LS_OK;
    ls_status status = ls__async_exchange(step->strategy->impl, step, ls__vote_decision(step));
    ls__lap(step->times, LS_STEP_GATHER);
    return status;
}

const ls_strategy_ops ls__strategy_push = {
    .name = "push",
    .help = "the batches of one worker, pushed to servers",
    .plan = push_plan,
    .destroy = destroy,
    .slice = push_slice,
    .reduce_begin = push_reduce_begin,
    .reduce_end = push_reduce_end,
    .gather_end = push_gather_end,
};

// --- a server --------------------------------------------------------------------------------------------------------

static ls_status serve_plan(ls_strategy *s) {
    ls_server *server = s->impl = s->config.behind;
    const ls_async *a = server->async;
    int64_t length = server->end - server->begin, bytes = length * (int64_t)sizeof(float);
    int compensates = a->config.compensation > 0;
    for (int i = 0; i < server->room_count; i++) {
        ls_room *room = &server->rooms[i];
        LS_TRY(ls__want_window(s, LS_STRATEGY_SUMS, LS_WORKER, length * ls__sum_bytes(s), &room->sum));
        if (compensates) LS_TRY(ls__want(s, LS_STRATEGY_SUMS, LS_WORKER, bytes, &room->seen));
    }
    // A job of one worker reads the weights where they are.
    for (int i = 0; i < a->clients && (compensates || !ls__async_alone(a)); i++)
        LS_TRY(ls__want(s, LS_STRATEGY_SUMS, LS_WORKER, bytes, &server->clients[i].sent));
    return LS_OK;
}

static void serve_slice(const ls_strategy *s, int lane, int bucket, int64_t *begin, int64_t *end) {
    const ls_server *server = s->impl;
    *begin = server->begin;
    *end = server->end;
}

// Delay compensation (Zheng et al. 2017, DC-ASGD): g g is the cheap estimate of the second derivative, by which the gradient is moved from
// the weights that it was computed for to those of now. What has waited for nothing stays as it is.
static void compensate(const ls_lane_step *step, const ls_server *server) {
    const ls_strategy *s = step->strategy;
    const ls_room *room = server->applied;
    if (!room->seen || room->pulled == server->version) return;
    float *sum = room->sum.host;
    const float *now = ls_span_host(s->weights.device);
    float factor = (float)(server->async->config.compensation / (double)room->samples);
    for (int64_t at = server->begin; at < server->end;) {
        const ls_run *run = ls__run_at(s, at);
        int64_t end = ls__run_end(run, server->end);
        for (; at < end && !run->frozen && !run->statistic; at++) {
            float g = sum[at - server->begin];
            sum[at - server->begin] = g + factor * (g * g) * (now[at] - room->seen[at - server->begin]);
        }
        at = end;
    }
}

static ls_status serve_reduce_end(ls_lane_step *step, int bucket) {
    const ls_server *server = step->strategy->impl;
    compensate(step, server);
    step->lane->sources[0] =
        (ls_source){.data = server->applied->sum, .first = server->begin, .dtype = ls__sum_dtype(step->strategy)};
    step->lane->source_count = 1;
    return LS_OK;
}

const ls_strategy_ops ls__strategy_serve = {
    .name = "serve",
    .help = "a slice of the weights, updated with the batches that others push",
    .plan = serve_plan,
    .destroy = destroy,
    .slice = serve_slice,
    .reduce_end = serve_reduce_end,
};
