// Exchange and update for programs with loops of their own: an engine whose kernels are the program's.
//
// Parameters lie in the engine's vector in the order in which backward completes them, the last first. With an optimizer the vector of weights is what the program
// gets; without one, an "update" puts the mean gradient there, and the engine brings it to all workers as it would weights.
#include <lockstep/exchange.h>
#include <lockstep/machine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "step/engine.h"
#include "train/buckets.h"
#include "train/context.h"

#define SPINS 20000  // while waiting, where every worker has a core of its own

typedef struct parameter {
    ls_exchange_parameter given;  // the name is a copy
    int64_t offset;               // in the vector
    int ready;                    // of the running micro-batch
    int first_bucket, last_bucket;
} parameter;

struct ls_exchange {
    ls_comm *comm;
    ls_exchange_config config;
    ls_device *device;
    ls_queue *queue;
    ls_engine *engine;
    parameter *parameters;
    int count, updates;  // updates: 1: there is an optimizer
    int64_t length;
    ls_segment *segments;  // (count), in the order of the vector
    int64_t *bucket_ends;
    int bucket_count, overlaps;
    int *missing;  // (bucket_count): parameters of the running micro-batch that are not ready yet
    // The step:
    ls_step_info info;
    ls_step_times times;
    ls_step_run run;  // whose gradient is being written
    int stepping;     // 1: the engine's step has begun
    ls_vote vote;
    int64_t begin, end, next;  // this worker's micro-batches; the one that is running, or comes
    int open;                  // 1: a gradient of it is being written
    int told;                  // parameters of it that are ready
    ls_span slot;              // where its gradient goes
    double waited;
    int64_t steps;
    ls_status failed;
    char failure[512];
};

// --- without an optimizer --------------------------------------------------------------------------------------------

static void keep_mean(const void *arguments, int64_t n, float *const *x) {
    memcpy(x[LS_UPDATE_W], x[LS_UPDATE_G], (size_t)n * sizeof(float));
}

static const ls_formula mean_formula = {"mean gradient", keep_mean};

static int no_state(const ls_optimizer_params *params) { return 0; }

static void mean_update(const ls_optimizer_params *params, const ls_update *update, ls_formula_call *out) {
    *out = (ls_formula_call){.formula = &mean_formula};
}

static const ls_optimizer no_optimizer = {.name = "none", .state_count = no_state, .update = mean_update};

// --- making one ------------------------------------------------------------------------------------------------------

void ls_exchange_config_init(ls_exchange_config *c) {
    if (!c) return;
    *c = (ls_exchange_config){.optimizer = "none",
                              .lr = -1,
                              .momentum = -1,
                              .beta1 = -1,
                              .beta2 = -1,
                              .epsilon = -1,
                              .weight_decay = -1,
                              .trust_coefficient = -1,
                              .strategy = "allreduce",
                              .algorithm = "auto",
                              .compress = "none"};
}

static const char *name_of(const parameter *p, int index, char text[32]) {
    if (p->given.name) return p->given.name;
    snprintf(text, 32, "parameter %d", index);
    return text;
}

static ls_status check_parameter(const ls_exchange *x, const ls_exchange_parameter *p, int index) {
    if (p->count < 1 || p->count > INT32_MAX)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "parameter %d has %lld elements; it has to have 1 to %d", index,
                       (long long)p->count, INT32_MAX);
    if (x->updates && !p->weights)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "parameter %d has no weights, and the optimizer is to update them: give their address", index);
    return LS_OK;
}

static ls_status check_config(const ls_exchange *x, const ls_exchange_config *c) {
    if (!c->parameters || c->parameter_count < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "an exchange is of at least one parameter: set parameters and "
                       "parameter_count");
    if (c->micro_batches < 1 || c->micro_batches > LS_EXCHANGE_MOST_MICRO_BATCHES)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "a step of %lld micro-batches was asked for; set micro_batches to 1 to %d",
                       (long long)c->micro_batches, LS_EXCHANGE_MOST_MICRO_BATCHES);
    if (c->samples < 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a step of %lld samples was asked for", (long long)c->samples);
    if (!(c->clip_norm >= 0 && c->clip_norm < 1e30))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "clip_norm is %g; it must be at least 0", c->clip_norm);
    if (!(c->bucket_size >= 0 && c->bucket_size < 1e9))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "bucket_size is %g megabytes; it must be at least 0",
                       c->bucket_size);
    for (int i = 0; i < c->parameter_count; i++) LS_TRY(check_parameter(x, &c->parameters[i], i));
    return LS_OK;
}

// Copies the parameters and places them, the last first.
static ls_status place(ls_exchange *x) {
    const ls_exchange_config *c = &x->config;
    LS_TRY(ls_calloc(c->parameter_count, sizeof *x->parameters, &x->parameters));
    x->count = c->parameter_count;
    for (int i = x->count - 1; i >= 0; i--) {
        parameter *p = &x->parameters[i];
        p->given = c->parameters[i];
        p->given.name = NULL;
        if (c->parameters[i].name) {
            char *name;
            LS_TRY(ls_strdup(c->parameters[i].name, &name));
            p->given.name = name;
        }
        p->offset = x->length;
        x->length += ls_round_up(p->given.count, LS_SLICE_ALIGN);
    }
    x->config.parameters = NULL;
    return LS_OK;
}

static ls_status make_segments(ls_exchange *x) {
    LS_TRY(ls_calloc(x->count, sizeof *x->segments, &x->segments));
    for (int i = 0; i < x->count; i++) {
        const parameter *p = &x->parameters[x->count - 1 - i];
        x->segments[i] = (ls_segment){.begin = p->offset,
                                      .end = p->offset + ls_round_up(p->given.count, LS_SLICE_ALIGN),
                                      .kernel = !p->given.bias};
    }
    return LS_OK;
}

// Which buckets each parameter has a part in.
static ls_status cut(ls_exchange *x, ls_compress compress) {
    x->overlaps = ls__comm_overlaps(x->comm, x->config.bucket_size);
    LS_TRY(ls__buckets_cut(x->length, x->config.bucket_size, x->overlaps, &x->bucket_ends, &x->bucket_count));
    ls_engine_bucket_ends(compress, x->segments, x->count, x->bucket_ends, &x->bucket_count);
    x->overlaps = x->bucket_count > 1;
    LS_TRY(ls_calloc(x->bucket_count, sizeof *x->missing, &x->missing));
    for (int i = 0; i < x->count; i++) {
        parameter *p = &x->parameters[i];
        while (x->bucket_ends[p->first_bucket] <= p->offset) p->first_bucket++;
        p->last_bucket = p->first_bucket;
        int64_t end = p->offset + ls_round_up(p->given.count, LS_SLICE_ALIGN);
        while (x->bucket_ends[p->last_bucket] < end) p->last_bucket++;
    }
    return LS_OK;
}

static ls_status choose_optimizer(ls_exchange *x, ls_engine_config *out) {
    const ls_exchange_config *c = &x->config;
    out->params = (ls_optimizer_params){.lr = c->lr,
                                        .momentum = c->momentum,
                                        .beta1 = c->beta1,
                                        .beta2 = c->beta2,
                                        .epsilon = c->epsilon,
                                        .weight_decay = c->weight_decay,
                                        .nesterov = c->nesterov,
                                        .trust_coefficient = c->trust_coefficient,
                                        .l2 = c->l2};
    out->optimizer = &no_optimizer;
    if (!x->updates) {
        if (c->lr < 0 && c->momentum < 0 && c->weight_decay < 0 && c->l2 == 0) return LS_OK;
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "lr, momentum, weight_decay or l2 is set, and there is no optimizer: set optimizer, or leave them out");
    }
    LS_TRY(ls_optimizer_find(c->optimizer, &out->optimizer));
    LS_TRY(ls_optimizer_resolve(out->optimizer, &out->params));
    x->info.lr = out->params.lr;
    return LS_OK;
}

static ls_status plan(ls_exchange *x, const ls_exchange_config *config, ls_engine_config *out) {
    x->updates = strcmp(config->optimizer, "none") != 0;
    LS_TRY(check_config(x, config));
    LS_TRY(ls_compress_find(config->compress, &out->compress, &out->compress_fraction));
    LS_TRY(place(x));
    LS_TRY(make_segments(x));
    LS_TRY(cut(x, out->compress));
    LS_TRY(choose_optimizer(x, out));
    LS_TRY(ls_algorithm_find(config->algorithm, &out->algorithm));
    LS_TRY(ls_device_create("ref", NULL, &x->device));
    return ls_queue_create(x->device, &x->queue);
}

// What all workers have to ask for.
static ls_status check_alike(const ls_exchange *x) {
    const ls_exchange_config *c = &x->config;
    char line[640];
    uint64_t sizes = 1469598103934665603u;
    for (int i = 0; i < x->count; i++) sizes = (sizes ^ (uint64_t)x->parameters[i].given.count) * 1099511628211u;
    snprintf(line, sizeof line,
             "parameters=%d; elements=%lld; sizes=%016llx; micro_batches=%lld; samples=%lld; optimizer=%s; lr=%a; "
             "momentum=%a; beta1=%a; beta2=%a; epsilon=%a; weight_decay=%a; l2=%a; nesterov=%d; trust_coefficient=%a; "
             "clip_norm=%a; strategy=%s; servers=%d; algorithm=%s; compress=%s; bucket_size=%a",
             x->count, (long long)x->length, (unsigned long long)sizes, (long long)c->micro_batches,
             (long long)c->samples, c->optimizer, c->lr, c->momentum, c->beta1, c->beta2, c->epsilon, c->weight_decay,
             c->l2, c->nesterov, c->trust_coefficient, c->clip_norm, c->strategy, c->servers, c->algorithm, c->compress,
             c->bucket_size);
    return ls_comm_check_equal(x->comm, "what is exchanged", line);
}

static ls_status make_engine(ls_exchange *x, ls_context *context, ls_engine_config *config) {
    ls_topology *topology;
    LS_TRY(ls_topology_create(context, &topology));
    config->spin =
        x->comm->local_size + x->overlaps * x->comm->local_size <= ls_topology_host_cores(topology) ? SPINS : 0;
    ls_topology_destroy(&topology);
    config->comm = x->comm;
    config->device = x->device;
    config->lanes = 1;
    config->other_count_count = -1;
    config->servers = x->config.servers;
    config->length = x->length;
    config->micro_batches = x->config.micro_batches;
    config->bucket_ends = x->bucket_ends;
    config->bucket_count = x->bucket_count;
    config->segments = x->segments;
    config->segment_count = x->count;
    config->clip_norm = x->config.clip_norm;
    config->progress = x->overlaps;
    return ls_engine_create(x->config.strategy, config, &x->engine);
}

static float *result_of(const ls_exchange *x, const parameter *p) {
    return (float *)ls_span_host(ls_engine_weights(x->engine)) + p->offset;
}

// Worker 0's weights, for all.
static ls_status share_weights(ls_exchange *x) {
    for (int i = 0; i < x->count; i++) {
        const parameter *p = &x->parameters[i];
        int32_t there = p->given.weights != NULL, theirs = there;
        LS_TRY(ls_comm_broadcast(x->comm, &theirs, 1, LS_DTYPE_I32, 0));
        ls_status mine = LS_OK;
        if (there != theirs)
            mine = LS_FAIL(LS_STATUS_MISMATCH, "parameter %d has weights on %s only", i,
                           there ? "some workers" : "worker 0");
        LS_TRY(ls_comm_agree(x->comm, mine));
        if (!there) continue;
        LS_TRY(ls_comm_broadcast(x->comm, p->given.weights, p->given.count, LS_DTYPE_F32, 0));
        if (x->updates && ls_engine_writes_weights(x->engine))
            memcpy(result_of(x, p), p->given.weights, (size_t)p->given.count * sizeof(float));
    }
    return ls_engine_weights_changed(x->engine, x->queue);
}

static void begin_micro_batch(ls_exchange *x) {
    x->open = x->told = 0;
    for (int b = 0; b < x->bucket_count; b++) x->missing[b] = 0;
    for (int i = 0; i < x->count; i++) {
        parameter *p = &x->parameters[i];
        p->ready = 0;
        for (int b = p->first_bucket; b <= p->last_bucket; b++) x->missing[b]++;
    }
}

static void deal(ls_exchange *x) {
    ls_mesh_deal(ls_engine_mesh(x->engine), x->info.micro_batches, x->comm->position, 0, &x->begin, &x->end);
    x->next = x->begin;
}

static void begin_step(ls_exchange *x) {
    x->info.micro_batches = x->config.micro_batches;
    x->info.samples = x->config.samples ? x->config.samples : x->config.micro_batches;
    x->info.step = x->steps + 1;
    deal(x);
    begin_micro_batch(x);
}

// Strings of the configuration that are needed later are copied nowhere: after this, numbers count.
static ls_status create(ls_context *context, const ls_exchange_config *config, ls_exchange *x) {
    ls_engine_config s = {0};
    LS_TRY(ls_comm_agree(x->comm, plan(x, config, &s)));
    LS_TRY(check_alike(x));
    LS_TRY(make_engine(x, context, &s));
    LS_TRY(share_weights(x));
    x->config.optimizer = x->config.strategy = x->config.algorithm = x->config.compress = NULL;
    begin_step(x);
    return LS_OK;
}

ls_status ls_exchange_create(ls_context *context, const ls_exchange_config *config, ls_exchange **out) {
    ls_exchange *x = NULL;
    LS_NEED(out, "out");
    *out = NULL;
    LS_NEED(context, "context");
    LS_NEED(config, "config");
    LS_NEED(config->optimizer, "config->optimizer");
    LS_NEED(config->strategy, "config->strategy");
    LS_NEED(config->algorithm, "config->algorithm");
    LS_NEED(config->compress, "config->compress");
    ls_comm_enter(context->comm, __func__);
    LS_TRY(ls_comm_agree(context->comm, ls_calloc(1, sizeof *x, &x)));
    x->comm = context->comm;
    x->config = *config;
    ls_status status = create(context, config, x);
    if (status != LS_OK) {
        ls_exchange_destroy(&x);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    *out = x;
    return LS_OK;
}

void ls_exchange_destroy(ls_exchange **exchange) {
    if (!exchange || !*exchange) return;
    ls_exchange *x = *exchange;
    if (x->comm) ls_comm_home(x->comm);
    if (x->comm && x->overlaps && x->comm->busy) {
        ls_engine_abandon(&x->engine);
        x->comm->busy = 0;
    }
    ls_engine_destroy(&x->engine);
    ls_queue_destroy(&x->queue);
    ls_device_destroy(&x->device);
    for (int i = 0; i < x->count; i++) free((char *)x->parameters[i].given.name);
    free(x->parameters);
    free(x->segments);
    free(x->bucket_ends);
    free(x->missing);
    free(x);
    *exchange = NULL;
}

// --- a step ----------------------------------------------------------------------------------------------------------

static ls_status check_usable(const ls_exchange *x, const char *function) {
    ls_comm_home(x->comm);
    if (x->failed == LS_OK) return LS_OK;
    return LS_FAIL(x->failed, "%s: this exchange has failed before, and can only be destroyed: %s", function,
                   x->failure);
}

static ls_status fail(ls_exchange *x, ls_status status) {
    if (status == LS_OK) return LS_OK;
    x->failed = status;
    snprintf(x->failure, sizeof x->failure, "%s", ls_error_message());
    return ls__fail_passed(status, __FILE__, __LINE__);
}

static ls_status check_index(const ls_exchange *x, const char *function, int index) {
    LS_TRY(check_usable(x, function));
    if (index >= 0 && index < x->count) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: parameter %d was named; there are 0 to %d", function, index,
                   x->count - 1);
}

static int has_begun(const ls_exchange *x) { return x->next > x->begin || x->open; }

ls_status ls_exchange_deal(const ls_exchange *x, int64_t *begin, int64_t *end) {
    LS_NEED(x, "exchange");
    LS_NEED(begin, "begin");
    LS_NEED(end, "end");
    *begin = x->begin;
    *end = x->end;
    return LS_OK;
}

ls_status ls_exchange_next(ls_exchange *x, int64_t micro_batches, int64_t samples) {
    LS_NEED(x, "exchange");
    LS_TRY(check_usable(x, __func__));
    if (has_begun(x))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: the step has begun; this is for before its first ls_exchange_ready", __func__);
    if (micro_batches < 1 || micro_batches > x->config.micro_batches || samples < 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: a step of %lld micro-batches and %lld samples; it has 1 to %lld micro-batches", __func__,
                       (long long)micro_batches, (long long)samples, (long long)x->config.micro_batches);
    x->info.micro_batches = micro_batches;
    x->info.samples = samples ? samples : micro_batches;
    deal(x);
    return LS_OK;
}

ls_status ls_exchange_set_rate(ls_exchange *x, double lr) {
    LS_NEED(x, "exchange");
    LS_TRY(check_usable(x, __func__));
    if (!x->updates || has_begun(x) || !(lr >= 0 && lr < 1e30))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: a rate of %g cannot be set: %s", __func__, lr,
                       !x->updates    ? "there is no optimizer"
                       : has_begun(x) ? "the step has begun; this is for before its first ls_exchange_ready"
                                      : "it must be at least 0 and less than 1e30");
    x->info.lr = lr;
    return LS_OK;
}

static ls_vote vote(void *user, int lane) {
    const ls_exchange *x = user;
    (void)lane;
    return x->vote;
}

static ls_status begin_engine(ls_exchange *x) {
    ls_step_client client = {.user = x, .vote = vote};
    if (x->stepping) return LS_OK;
    x->times = (ls_step_times){.since = ls_clock()};
    x->vote = LS_VOTE_GO_ON;
    if (x->overlaps) x->comm->busy = 1;
    LS_TRY(fail(x, ls_engine_begin(x->engine, 0, x->queue, &x->info, &client, &x->times)));
    x->stepping = 1;
    return LS_OK;
}

static ls_status open_micro_batch(ls_exchange *x, const char *function) {
    if (x->open) return LS_OK;
    if (x->next >= x->end)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: this worker has %lld micro-batches in this step, and all are ready: call ls_exchange_wait",
                       function, (long long)(x->end - x->begin));
    LS_TRY(begin_engine(x));
    while (ls_engine_next(x->engine, 0, &x->run) && !x->run.backward) continue;
    x->slot = x->run.gradient;
    x->open = 1;
    return LS_OK;
}

static int first_missing(const ls_exchange *x) {
    int i = x->count - 1;
    while (i > 0 && x->parameters[i].ready) i--;
    return i;
}

ls_status ls_exchange_gradient(ls_exchange *x, int index, float **out) {
    LS_NEED(out, "out");
    *out = NULL;
    LS_NEED(x, "exchange");
    LS_TRY(check_index(x, __func__, index));
    if (x->parameters[index].given.gradient)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: parameter %d has an array of the program's for its gradient",
                       __func__, index);
    LS_TRY(open_micro_batch(x, __func__));
    if (x->parameters[index].ready)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: the gradient of parameter %d is ready already in this micro-batch", __func__, index);
    *out = (float *)ls_span_host(x->slot) + x->parameters[index].offset;
    return LS_OK;
}

ls_status ls_exchange_result(const ls_exchange *x, int index, const float **out) {
    LS_NEED(out, "out");
    *out = NULL;
    LS_NEED(x, "exchange");
    LS_TRY(check_index(x, __func__, index));
    *out = result_of(x, &x->parameters[index]);
    return LS_OK;
}

// The buckets that are complete with this parameter: in the last micro-batch they are handed over in their order.
static void hand_over(ls_exchange *x, const parameter *p) {
    for (int b = p->first_bucket; b <= p->last_bucket; b++) x->missing[b]--;
    while (x->run.last && x->run.part < x->run.parts - 1 && x->missing[x->run.part] == 0)
        ls_engine_next(x->engine, 0, &x->run);
}

ls_status ls_exchange_ready(ls_exchange *x, int index) {
    char text[2][32];
    LS_NEED(x, "exchange");
    LS_TRY(check_index(x, __func__, index));
    LS_TRY(open_micro_batch(x, __func__));
    parameter *p = &x->parameters[index];
    if (p->ready)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: %s is ready for the second time in micro-batch %lld, and %s is not yet", __func__,
                       name_of(p, index, text[0]), (long long)x->next,
                       name_of(&x->parameters[first_missing(x)], first_missing(x), text[1]));
    if (p->given.gradient)
        LS_TRY(fail(x, ls_write(x->queue, ls_span_at(x->slot, p->offset * (int64_t)sizeof(float)), p->given.gradient,
                                p->given.count * (int64_t)sizeof(float))));
    p->ready = 1;
    x->told++;
    hand_over(x, p);
    if (x->told < x->count) return LS_OK;
    ls_engine_pass(x->engine, 0);
    x->next++;
    begin_micro_batch(x);
    return LS_OK;
}

// Whether this worker has told all that is its own.
static ls_status check_complete(const ls_exchange *x) {
    char text[32];
    if (x->next == x->end) return LS_OK;
    int missing = first_missing(x);
    return LS_FAIL(
        LS_STATUS_INVALID_ARGUMENT,
        "ls_exchange_wait: %s of micro-batch %lld is not ready, and the micro-batches of worker %d are %lld to "
        "%lld: call ls_exchange_ready for every parameter in each of them",
        name_of(&x->parameters[missing], missing, text), (long long)x->next, x->comm->rank, (long long)x->begin,
        (long long)x->end - 1);
}

// What the program gets.
static void give_results(const ls_exchange *x) {
    for (int i = 0; i < x->count; i++) {
        const parameter *p = &x->parameters[i];
        float *to = x->updates ? p->given.weights : p->given.gradient;
        if (to) memcpy(to, result_of(x, p), (size_t)p->given.count * sizeof(float));
    }
}

ls_status ls_exchange_wait(ls_exchange *x) {
    LS_NEED(x, "exchange");
    LS_TRY(check_usable(x, __func__));
    ls_comm_enter(x->comm, __func__);
    double start = ls_clock();
    ls_vote decision;
    ls_status mine = check_complete(x);
    char sentence[512] = "";
    if (mine != LS_OK) snprintf(sentence, sizeof sentence, "%s", ls_error_message());
    LS_TRY(begin_engine(x));
    x->vote = mine == LS_OK ? LS_VOTE_GO_ON : LS_VOTE_FAILED;
    ls_status status = ls_engine_end(x->engine, 0, &decision);
    x->stepping = 0;
    x->comm->busy = 0;
    LS_TRY(fail(x, status));
    if (decision == LS_VOTE_FAILED) {
        if (mine != LS_OK) ls__error_set(sentence);
        status = ls_comm_agree(x->comm, mine);
        if (status == LS_OK) status = LS_FAIL(LS_STATUS_LIBRARY, "%s: the step failed on another worker", __func__);
        LS_TRY(fail(x, status));
    }
    give_results(x);
    x->waited += ls_clock() - start;
    x->steps++;
    begin_step(x);
    return LS_OK;
}

ls_exchange_info ls_exchange_describe(const ls_exchange *x) {
    if (!x) return (ls_exchange_info){0};
    return (ls_exchange_info){.steps = x->steps,
                              .buckets = x->bucket_count,
                              .overlaps = x->overlaps,
                              .seconds = x->waited,
                              .hidden = ls_engine_hidden_seconds(x->engine)};
}
