// Asynchronous training, where it differs for the trainer: a step is a batch of this worker's own, or all that a server serves; epochs and
// checkpoints begin where all have settled.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/options.h"
#include "train/checkpoint.h"
#include "train/trainer_impl.h"

// --- what is asked for -----------------------------------------------------------------------------------------------

static ls_status check_slow(ls_trainer *t) {
    ls_choices *c = &t->choices;
    int end = 0;
    c->slow_worker = -1;
    c->slow_factor = 1;
    if (!t->config.slow) return LS_OK;
    if (sscanf(t->config.slow, "worker=%d,factor=%lf%n", &c->slow_worker, &c->slow_factor, &end) != 2 ||
        t->config.slow[end] || !(c->slow_factor >= 1 && c->slow_factor <= 1000))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "who is to be slow is said as worker=2,factor=3, with a factor of 1 to 1000, and not as '%.80s'",
                       t->config.slow);
    if (c->slow_worker < 0 || c->slow_worker >= t->comm->size)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "worker %d is to be slow, and there are workers 0 to %d",
                       c->slow_worker, t->comm->size - 1);
    ls_mesh roles = ls_mesh_plain(t->comm->size, 1, t->config.servers);
    LS_TRY(ls_strategy_assign(c->strategy, t->comm->size, &roles.servers));
    if (ls_mesh_server(&roles, t->comm->position_of[c->slow_worker]) >= 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "worker %d is to be slow, and it is a server, which computes nothing: name another",
                       c->slow_worker);
    return LS_OK;
}

ls_status ls__async_check(ls_trainer *t) {
    const ls_train_config *c = &t->config;
    const char *what = c->staleness >= 0           ? "a bound on staleness"
                       : c->delay_compensation > 0 ? "delay compensation"
                       : c->push_log               ? "a log of pushes"
                       : c->replay                 ? "a replay"
                                                   : NULL;
    LS_TRY(check_slow(t));
    if (c->staleness < -1 || !(c->delay_compensation >= 0 && c->delay_compensation < 1e30))
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "a staleness of %d and a delay compensation of %g make no sense: neither is below 0 (a staleness of "
            "-1: any)",
            c->staleness, c->delay_compensation);
    if (!c->async && what)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s is for asynchronous training: ask for that, too, or leave it out", what);
    if (!c->async) return LS_OK;
    if (strcmp(t->choices.strategy->name, "parameter-server") != 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "with the strategy %s all workers take a step together: choose parameter-server to train "
                       "asynchronously",
                       t->choices.strategy->name);
    if (t->choices.algorithm != LS_ALGORITHM_AUTO)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the algorithm %s is for allreduce between hosts: leave it out to train asynchronously",
                       c->algorithm);
    if (t->choices.compress == LS_COMPRESS_TOPK)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "in asynchronous training a batch is computed by whoever asks for it, and what topk leaves over "
                       "would be anybody's: choose another compression");
    if (c->bucket_size > 0 || c->comm_cores > 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "in asynchronous training a push is one message to each server, after backward: leave the size "
                       "of buckets, and cores for the exchange, out");
    if (c->push_log && c->replay && strcmp(c->push_log, c->replay) == 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s is to be replayed and written at once: name another file",
                       c->replay);
    return LS_OK;
}

int ls__async_by_timing(const ls_trainer *t) {
    int computing = t->comm->size - t->spread.roles.servers;
    return t->config.async && computing > 1 && t->config.staleness != 0 && !t->config.replay;
}

// --- planning --------------------------------------------------------------------------------------------------------

// The n-th step of the training, as a server applies it. Servers go through an epoch without the others' position.
static void rate(void *user, int64_t number, ls_step_info *info) {
    const ls_trainer *t = user;
    int64_t step = number - 1 - t->at.epoch_first;
    info->step = number;
    info->lr = ls__learning_rate(t, step);
    info->lr_before = t->config.momentum_correction && number > 1 ? ls__learning_rate(t, step - 1) : 0;
}

// What must be the same for a log of pushes to lead to the same weights: all options but those that say who does the work, and the data.
static void describe(ls_trainer *t, char *text, size_t size) {
    static const char *const free_ones[] = {"epochs",         "strategy",  "servers",       "async",
                                            "staleness",      "push-log",  "replay",        "slow",
                                            "replicas",       "bind",      "remat",         "evaluate",
                                            "loader-threads", "validate",  "limit-test",    "bucket-size",
                                            "comm-cores",     "algorithm", "early-forward", "tta"};
    ls_option rows[128];
    int count = 0, n;
    for (const ls_option *o = ls_train_options(); o->name && count < 127; o++) {
        int is_free = 0;
        for (size_t i = 0; i < sizeof free_ones / sizeof free_ones[0]; i++)
            is_free |= strcmp(o->name, free_ones[i]) == 0;
        if (!is_free) rows[count++] = *o;
    }
    rows[count] = (ls_option){.name = NULL};
    n = snprintf(text, size, "model=%s; layers=%016llx; dataset=%016llx; ", t->graph->name,
                 (unsigned long long)ls__graph_fingerprint(t->graph), (unsigned long long)t->dataset->fingerprint);
    if (n > 0 && (size_t)n < size)
        ls_options_line((const ls_option_set[]){{rows, &t->config}, {NULL, NULL}}, text + n, size - (size_t)n);
    for (char *p = text; *p; p++)
        if (*p == '\n') *p = ' ';
}

ls_status ls__async_plan(ls_trainer *t, const ls_engine_config *engine) {
    char recipe[4096];
    if (t->home != t)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "model %s shares its weights with another, and each trained asynchronously would have servers of "
            "its own for them: train synchronously",
            t->network->name);
    LS_TRY(ls_comm_create_self(&t->solo));
    describe(t, recipe, sizeof recipe);
    ls_async_config config = {.comm = t->comm,
                              .solo = t->solo,
                              .mesh = &t->spread.roles,
                              .engine = *engine,
                              .staleness = t->config.staleness,
                              .compensation = t->config.delay_compensation,
                              .rate = rate,
                              .user = t,
                              .recipe = recipe,
                              .log = t->config.push_log,
                              .replay = t->config.replay};
    return ls_async_plan(&config, &t->async, &t->engine);
}

// --- an epoch --------------------------------------------------------------------------------------------------------

static int computes(const ls_trainer *t) { return t->comm->size == 1 || !ls_async_server(t->async); }

static void set_position(ls_trainer *t, int64_t version) {
    t->at.all_steps = version;
    t->at.step = version - t->at.epoch_first;
}

static ls_status give_tickets(ls_trainer *t) {
    int64_t last = t->at.epoch_first + t->train_shape.steps;
    LS_TRY(ls_comm_agree(t->comm, ls_async_begin(t->async, t->at.all_steps, last)));
    return computes(t) ? ls_async_ask(t->async, t->queue, LS_VOTE_GO_ON) : LS_OK;
}

// What a computing worker was told, or a server knows after it has served. A pause is all workers' together: they settle, take the checkpoint
// and go on.
static ls_status follow(ls_trainer *t) {
    ls_position *at = &t->at;
    for (;;) {
        int64_t ticket, version;
        ls_vote decision;
        at->decision = LS_VOTE_GO_ON;
        at->batch = -1;
        if (computes(t) && ls_async_answered(t->async, &ticket, &decision) == LS_ASYNC_TICKET) {
            at->batch = ticket - 1 - at->epoch_first;
            set_position(t, ls_async_version(t->async));
            return LS_OK;
        }
        ls_comm_enter(t->comm,
                      "ls_trainer_step");  // some come from there, and who has got no batch from the epoch's beginning
        LS_TRY(ls_async_settle(t->async, t->queue, &version));
        set_position(t, version);
        if (t->checkpoints) t->checkpoints->fresh = 0;  // steps of others count, too
        at->ended = ls_async_answered(t->async, &ticket, &at->decision) == LS_ASYNC_END;
        at->learning_rate = ls__learning_rate(t, at->step > 0 ? at->step - 1 : 0);
        if (at->ended) return LS_OK;
        LS_TRY(ls__checkpoint_after_step(t));
        LS_TRY(give_tickets(t));
        if (!computes(t)) return LS_OK;  // it serves again
    }
}

// Whatever failed here is every worker's, or its communication is broken.
static void note(ls_trainer *t, ls_status status) {
    if (status == LS_OK) return;
    ls__replica_failed(&t->replica[0], status);
    t->at.decision = LS_VOTE_FAILED;
    if (status == LS_STATUS_LIBRARY) t->exchange_failed = 1;
}

ls_status ls__async_begin(ls_trainer *t) {
    t->at.epoch_first = t->at.all_steps - t->at.step;
    t->at.ended = 0;
    t->at.batch = -1;
    LS_TRY(give_tickets(t));
    return computes(t) ? follow(t) : LS_OK;
}

void ls__async_step(ls_trainer *t) {
    ls_status status = LS_OK;
    if (computes(t)) {
        ls__replicas_run_alone(t, LS_COMMAND_STEP);
        if (t->exchange_failed) return;
    } else {
        status = ls_async_serve(t->async, t->queue);
        ls__replica_failed(&t->replica[0], status);
        if (status == LS_STATUS_LIBRARY) {
            note(t, status);
            return;
        }
    }
    note(t, follow(t));
    ls__replica_waited(&t->replica[0]);
}

// --- state -----------------------------------------------------------------------------------------------------------

typedef struct visit {
    ls_state_visitor fn;
    void *user;
    const ls_comm *comm;
    int replicas, state;  // state: 1: pieces of the optimizer's state only; 0: weights only
} visit;

// Each worker has weights, of which the first worker's count, and servers have parts of the state, each once.
static ls_status pass_on(void *user, const ls_state_piece *piece) {
    const visit *v = user;
    ls_state_piece mine = *piece;
    if ((strcmp(piece->vector, "weights") != 0) != v->state) return LS_OK;
    mine.lane = v->comm->position * v->replicas;
    mine.copy = v->state ? 0 : v->comm->position;
    return v->fn(v->user, &mine);
}

ls_status ls__trainer_visit(ls_trainer *t, ls_state_visitor fn, void *user) {
    LS_TRY(ls__weights_home(t));
    if (!t->async) return ls_engine_visit(t->engine, t->queue, fn, user);
    ls_engine *server = ls_async_server(t->async);
    visit v = {fn, user, t->comm, t->spread.replicas, 0};
    LS_TRY(ls_engine_visit(t->engine, t->queue, pass_on, &v));
    v.state = 1;
    return server ? ls_engine_visit(server, t->queue, pass_on, &v) : LS_OK;
}

int64_t ls__trainer_skipped(const ls_trainer *t) {
    return t->async ? ls_async_skipped(t->async) : ls_engine_skipped(t->engine);
}
