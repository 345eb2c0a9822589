// Making strategies, and what is asked of them outside of steps.
#include "strategy/strategy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "optim/lookahead.h"
#include "strategy/strategy_impl.h"
#include "strategy/topk.h"

static const ls_strategy_ops *const strategies[] = {
    &ls__strategy_allreduce,
    &ls__strategy_reduce_broadcast,
    &ls__strategy_mirrored,
    &ls__strategy_central,
    &ls__strategy_tree,
    &ls__strategy_parameter_server,
    NULL,
};

const char *const ls_step_phase_words[LS_STEP_PHASES] = {
#define X(name, words) words,
    LS_STEP_PHASE_LIST(X)
#undef X
};

const ls_strategy_ops *const *ls_strategies(void) { return strategies; }

ls_status ls_strategy_find(const char *name, const ls_strategy_ops **out) {
    char names[256] = "";
    size_t used = 0;
    *out = NULL;
    for (const ls_strategy_ops *const *s = strategies; *s; s++) {
        if (!strcmp((*s)->name, name)) {
            *out = *s;
            return LS_OK;
        }
        int n = snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", (*s)->name);
        if (n > 0 && (size_t)n < sizeof names - used) used += (size_t)n;
    }
    return LS_FAIL(LS_STATUS_NOT_FOUND, "there is no strategy \"%s\"; there are: %s", name, names);
}

ls_status ls_compress_find(const char *name, ls_compress *out, double *fraction) {
    *out = strcmp(name, "bf16") == 0 ? LS_COMPRESS_BF16 : LS_COMPRESS_NONE;
    *fraction = 1;
    if (*out || strcmp(name, "none") == 0) return LS_OK;
    if (strncmp(name, "topk", 4) == 0 && (!name[4] || name[4] == ':')) {
        char *end = NULL;
        *out = LS_COMPRESS_TOPK;
        *fraction = name[4] ? strtod(name + 5, &end) : 0.01;
        if (name[4] && (end == name + 5 || *end || !(*fraction > 0 && *fraction <= 1)))
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "what part of the gradients is to count is a number above 0 and at most 1, as in topk:0.01, "
                           "and not '%.40s'",
                           name + 5);
        return LS_OK;
    }
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "unknown compression of gradients '%.40s': there are none, bf16 and topk", name);
}

static const char *const algorithm_names[] = {"auto", "direct", "halving"};

ls_status ls_algorithm_find(const char *name, ls_algorithm *out) {
    for (int i = 0; i < 3; i++)
        if (strcmp(name, algorithm_names[i]) == 0) {
            *out = (ls_algorithm)i;
            return LS_OK;
        }
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "unknown algorithm of exchange '%s': there are auto, direct and halving",
                   name);
}

// Where nothing was measured (docs/strategies.md has what the rule comes from). From 16 hosts on rounds, however large the vector is: direct messages come from
// too many at once. Of 9 to 15 hosts, no power of two, halves are not equal, and rounds carry up to twice the bytes; small vectors mind the number of
// messages more.
static int rounds_are_better(int hosts, int64_t length) {
    if (hosts <= LS_DIRECT_HOSTS) return 0;
    return hosts > LS_DIRECT_HOSTS_MOST || length * (int64_t)sizeof(float) / hosts < LS_DIRECT_BYTES;
}

static int halves(const ls_strategy_ops *ops, ls_algorithm algorithm, int hosts, int64_t length) {
    if (!ops->halving || hosts == 1) return 0;
    return algorithm == LS_ALGORITHM_HALVING || (algorithm == LS_ALGORITHM_AUTO && rounds_are_better(hosts, length));
}

const char *ls_strategy_algorithm(const ls_strategy_ops *ops, ls_algorithm algorithm, int hosts, int64_t length) {
    if (!ops->halving || hosts == 1) return "";
    return algorithm_names[halves(ops, algorithm, hosts, length) ? LS_ALGORITHM_HALVING : LS_ALGORITHM_DIRECT];
}

// --- making one ------------------------------------------------------------------------------------------------------

// Whether the weights of the other one can be this one's.
static ls_status check_weights_of(const ls_strategy *s) {
    const ls_strategy *other = s->config.weights_of;
    if (other->config.length != s->config.length)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "weights cannot be shared: there are vectors of %lld and of %lld floats; both must have the "
                       "same parameters",
                       (long long)other->config.length, (long long)s->config.length);
    if (other->config.comm != s->config.comm || other->config.device != s->config.device)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "weights cannot be shared: the two that want to train them are of different communicators or devices");
    if (other->ops->weights_shared != s->ops->weights_shared)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "weights cannot be shared: with the strategy %s there is one vector for each %s, with %s one for each %s; "
            "choose the same strategy",
            other->ops->name, other->ops->weights_shared ? "host" : "worker", s->ops->name,
            s->ops->weights_shared ? "host" : "worker");
    return LS_OK;
}

int ls__shares_copies(const ls_strategy *s) {
    const ls_strategy_config *mine = &s->config, *other = mine->weights_of ? &mine->weights_of->config : NULL;
    return other && mine->refresh == other->refresh && mine->refresh_user == other->refresh_user &&
           mine->copies_bytes == other->copies_bytes;
}

// On the device, and for other workers, where they update them too, on the host.
static ls_status plan_far_weights(ls_strategy *s, int64_t bytes, int several) {
    if (several) LS_TRY(ls__want(s, LS_STRATEGY_WEIGHTS, LS_HOST, bytes, &s->weights.host));
    return ls__want_span(s, LS_STRATEGY_WEIGHTS, LS_WORKER, bytes, &s->weights.device);
}

static ls_status plan_weights(ls_strategy *s) {
    int whose = ls__one_vector(s) ? LS_HOST : LS_WORKER, several = s->ops->weights_shared && s->config.comm->size > 1;
    int64_t bytes = s->config.length * (int64_t)sizeof(float);
    if (s->config.weights_of)
        LS_TRY(check_weights_of(s));
    else if (ls__host_memory(s))
        LS_TRY(ls__want_window(s, LS_STRATEGY_WEIGHTS, whose, bytes, &s->weights));
    else
        LS_TRY(plan_far_weights(s, bytes, several));
    if (ls__shares_copies(s)) return LS_OK;
    return ls__want_span(s, LS_STRATEGY_COPIES, whose, s->config.copies_bytes, &s->copies);
}

static ls_status build(ls_strategy *s) {
    LS_TRY(ls__common_plan(s));
    LS_TRY(plan_weights(s));
    LS_TRY(s->ops->plan(s));
    return ls__lanes_plan(s);
}

ls_status ls__strategy_plan_ops(const ls_strategy_ops *ops, const ls_strategy_config *config, ls_strategy **out) {
    *out = NULL;
    if (config->replicas < 1 || config->micro_batches < 1 || config->length < 1 || config->length % LS_SLICE_ALIGN != 0)
        return LS_FAIL(LS_STATUS_INTERNAL,
                       "a strategy for %d replicas, %lld micro-batches and %lld floats makes no sense",
                       config->replicas, (long long)config->micro_batches, (long long)config->length);
    ls_strategy *s;
    LS_TRY(ls_calloc(1, sizeof *s, &s));
    s->ops = ops;
    s->config = *config;
    ls_status status = build(s);
    s->config.segments = NULL;
    s->config.bucket_ends = NULL;
    if (status != LS_OK) {
        ls_strategy_destroy(&s);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    *out = s;
    return LS_OK;
}

static ls_status check_topk(const ls_strategy_ops *ops, const ls_strategy_config *config) {
    if (!ops->topk)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the strategy %s sends new weights, of which no part can be left out: choose allreduce, or "
                       "another compression than topk",
                       ops->name);
    if (config->algorithm != LS_ALGORITHM_HALVING) return LS_OK;
    return LS_FAIL(
        LS_STATUS_INVALID_ARGUMENT,
        "the algorithm halving sends new weights, of which no part can be left out: leave the algorithm out, "
        "or choose another compression than topk");
}

ls_status ls_strategy_plan(const char *name, const ls_strategy_config *config, ls_strategy **out) {
    const ls_strategy_ops *ops;
    *out = NULL;
    LS_TRY(ls_strategy_find(name, &ops));
    if (config->algorithm != LS_ALGORITHM_AUTO && !ops->halving)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the strategy %s has one way between hosts: leave the algorithm out, or choose allreduce", name);
    if (config->compress == LS_COMPRESS_TOPK) LS_TRY(check_topk(ops, config));
    if (config->compress == LS_COMPRESS_TOPK && config->comm->hosts > 1)
        ops = ops->topk;
    else if (halves(ops, config->algorithm, config->comm->hosts, config->length))
        ops = ops->halving;
    if (config->compress == LS_COMPRESS_BF16 && config->comm->hosts > 1 && ops->bf16) ops = ops->bf16;
    return ls__strategy_plan_ops(ops, config, out);
}

ls_status ls_strategy_create(const char *name, const ls_strategy_config *config, ls_strategy **out) {
    ls_status status = ls_comm_agree(config->comm, ls_strategy_plan(name, config, out));
    if (status == LS_OK) status = ls_strategy_allocate(*out);
    if (status != LS_OK) {
        ls_strategy_destroy(out);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    return LS_OK;
}

void ls_strategy_destroy(ls_strategy **strategy) {
    if (!strategy || !*strategy) return;
    ls_strategy *s = *strategy;
    if (s->impl) s->ops->destroy(s);
    ls__common_free(s);
    free(s);
    *strategy = NULL;
}

void ls_strategy_abandon(ls_strategy **strategy) {
    if (!strategy || !*strategy) return;
    ls__overlap_free(*strategy);
    *strategy = NULL;
}

const ls_strategy_ops *ls_strategy_ops_of(const ls_strategy *s) { return s->ops; }
const ls_strategy_config *ls_strategy_config_of(const ls_strategy *s) { return &s->config; }

// --- weights ---------------------------------------------------------------------------------------------------------

ls_span ls_strategy_weights(ls_strategy *s) { return s->weights.device; }
ls_span ls_strategy_copies(ls_strategy *s) { return s->copies; }

int ls_strategy_writes_weights(const ls_strategy *s) { return !ls__one_vector(s) || s->config.comm->local_rank == 0; }

static ls_status refresh(ls_strategy *s, ls_queue *queue) {
    const ls_strategy_config *config = &s->config;
    int part = ls__one_vector(s) ? config->comm->local_rank : 0;
    int parts = ls__one_vector(s) ? config->comm->local_size : 1;
    LS_TRY(config->refresh(config->refresh_user, queue, s->weights.device, s->copies, part, parts));
    return ls_synchronize(queue);
}

ls_status ls_strategy_weights_changed(ls_strategy *s, ls_queue *queue) {
    // What other workers take from the host's memory comes there whole in every step: nothing is to be done for it.
    ls_status status = ls_synchronize(queue);
    LS_TRY(ls_comm_host_barrier(s->config.comm));
    if (s->config.refresh) {
        ls__keep(&status, refresh(s, queue));
        LS_TRY(ls_comm_host_barrier(s->config.comm));
    }
    return ls_comm_agree(s->config.comm, status);
}

// --- state -----------------------------------------------------------------------------------------------------------

// How many lanes before this one keep the same elements of the bucket: strategies may have every worker keep all of them.
static int copies_before(const ls_strategy *s, int lane, int bucket) {
    int64_t mine, end, begin;
    int count = 0;
    s->ops->slice(s, lane, bucket, &mine, &end);
    for (int other = 0; other < lane; other++) {
        s->ops->slice(s, other, bucket, &begin, &end);
        count += begin <= mine && mine < end;
    }
    return count;
}

typedef struct visit {
    ls_strategy *strategy;
    ls_queue *queue;
    ls_strategy_visitor fn;
    void *user;
} visit;

// Shows a piece that lies at `at`: as it is, or a copy on the host, which goes back.
static ls_status show(const visit *v, ls_strategy_piece *piece, ls_span at) {
    int64_t bytes = piece->count * (int64_t)sizeof(float);
    if (ls__host_memory(v->strategy)) {
        piece->data = ls_span_host(at);
        return v->fn(v->user, piece);
    }
    LS_TRY(ls_memory_alloc(bytes, &piece->data));
    ls_status status = ls_read(v->queue, piece->data, at, bytes);
    if (status == LS_OK) status = ls_synchronize(v->queue);
    if (status == LS_OK) status = v->fn(v->user, piece);
    if (status == LS_OK) status = ls_write(v->queue, at, piece->data, bytes);
    if (status == LS_OK) status = ls_synchronize(v->queue);
    ls_memory_free(piece->data);
    return status;
}

static ls_status visit_residuals(const visit *v, const ls_lane *lane, int number) {
    int64_t length = v->strategy->config.length;
    for (int64_t i = 0; i < lane->leaves; i++) {
        char name[32];
        snprintf(name, sizeof name, LS_RESIDUAL "%lld", (long long)(lane->first_leaf + i));
        ls_strategy_piece piece = {.vector = name, .lane = number, .count = length};
        LS_TRY(show(v, &piece, ls__topk_residual(v->strategy, lane, i)));
    }
    return LS_OK;
}

static ls_status visit_lane(const visit *v, int replica) {
    const ls_strategy *s = v->strategy;
    const ls_lane *lane = s->lane[replica];
    int number = s->config.comm->position * s->config.replicas + replica;
    LS_TRY(visit_residuals(v, lane, number));
    for (int b = 0; b < s->bucket_count; b++) {
        ls_slice slice = lane->slices[b];
        if (slice.begin == slice.end) continue;
        int copy = copies_before(s, number, b);
        for (int i = 0; i < LS_MAX_OPTIMIZER_STATE; i++) {
            if (!lane->state[i].buffer) continue;
            ls_strategy_piece piece = {.vector = s->config.optimizer->state_names[i],
                                       .lane = number,
                                       .copy = copy,
                                       .offset = slice.begin,
                                       .count = ls__slice_length(slice)};
            LS_TRY(show(v, &piece, ls_span_at(lane->state[i], slice.first * 4)));
        }
        ls_strategy_piece slow = {.vector = LS_SLOW_WEIGHTS,
                                  .lane = number,
                                  .copy = copy,
                                  .offset = slice.begin,
                                  .count = ls__slice_length(slice)};
        if (s->config.lookahead) LS_TRY(show(v, &slow, ls_span_at(lane->slow, slice.first * 4)));
    }
    return LS_OK;
}

ls_status ls_strategy_visit(ls_strategy *s, ls_queue *queue, ls_strategy_visitor fn, void *user) {
    const ls_comm *comm = s->config.comm;
    visit v = {s, queue, fn, user};
    if (ls_strategy_writes_weights(s)) {
        ls_strategy_piece piece = {.vector = "weights",
                                   .lane = comm->position * s->config.replicas,
                                   .copy = ls__one_vector(s) ? comm->host : comm->position,
                                   .count = s->config.length};
        LS_TRY(show(&v, &piece, s->weights.device));
    }
    for (int r = 0; r < s->config.replicas; r++) LS_TRY(visit_lane(&v, r));
    return LS_OK;
}
