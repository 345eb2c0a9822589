// <lockstep/exchange.h>: loops of a program's own give the bits of the tree, whoever computes which micro-batch, with every optimizer and strategy; and what is told wrongly.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/lockstep.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/philox.h"
#include "optim/optim.h"
#include "train/context.h"
#include "worker_check.h"

static ls_comm *world;  // for CHECK

static void says(const char *words) {
    if (strstr(ls_error_message(), words)) return;
    fprintf(stderr, "worker %d: expected \"%s\" in \"%s\"\n", world->rank, words, ls_error_message());
    ls_comm_abort(world, 1);
}

#define PARAMETERS 4
#define STEPS      4
#define MOST       9000
#define L2         0.03
static const int64_t sizes[PARAMETERS] = {1, 1000, 64, MOST};

// Gradients and weights of many sizes, so that a sum in another order has other bits.
static void fake(int step, int64_t micro_batch, int p, float *out) {
    for (int64_t i = 0; i < sizes[p]; i++) {
        ls_philox4 r = ls_philox(5, (uint32_t)i, (uint32_t)(micro_batch * PARAMETERS + p), (uint32_t)step, 0);
        out[i] = (ls_uniform(r.v[0]) - 0.5f) * (float)(1 << (r.v[1] % 20)) * 1e-4f;
    }
}

typedef struct setting {
    const char *optimizer, *strategy;
    double momentum;
    int64_t micro_batches, samples;
    double bucket_size;
    int in_place;  // 1: no arrays for gradients
} setting;

// A step of the setting: the last one of an epoch is short.
static int64_t micro_batches_of(const setting *s, int step) {
    return step == 3 && s->micro_batches > 2 ? s->micro_batches - 2 : s->micro_batches;
}

// --- what is expected ------------------------------------------------------------------------------------------------

static void tree(int step, int64_t v, int64_t first, int level, int p, float *out) {
    int64_t middle = first + ((int64_t)1 << (level > 0 ? level - 1 : 0));
    if (level == 0) {
        fake(step, first, p, out);
        return;
    }
    tree(step, v, first, level - 1, p, out);
    if (middle >= v) return;
    float *right;
    CHECK_OK(world, ls_memory_alloc(sizes[p] * 4, &right));
    tree(step, v, middle, level - 1, p, right);
    for (int64_t i = 0; i < sizes[p]; i++) out[i] += right[i];
    ls_memory_free(right);
}

// One process, one parameter, its sum and its update.
static void serial(const setting *s, int p, float *w) {
    const ls_optimizer *optimizer = NULL;
    ls_optimizer_params params = {0.1, s->momentum, -1, -1, -1, -1, 0, -1, s->momentum > 0 ? L2 : 0};
    float *g, *state[2];
    int64_t room = ls_round_up(sizes[p], 64) * 4;
    CHECK_OK(world, ls_memory_alloc(room, &g));
    for (int i = 0; i < 2; i++) CHECK_OK(world, ls_memory_alloc(room, &state[i]));
    if (strcmp(s->optimizer, "none") != 0) {
        CHECK_OK(world, ls_optimizer_find(s->optimizer, &optimizer));
        CHECK_OK(world, ls_optimizer_resolve(optimizer, &params));
    }
    fake(0, 0, p, w);
    for (int step = 1; step <= STEPS; step++) {
        int64_t v = micro_batches_of(s, step), samples = s->samples ? v * s->samples / s->micro_batches : v;
        int level = 0;
        while (((int64_t)1 << level) < v) level++;
        tree(step, v, 0, level, p, g);
        for (int64_t i = 0; i < sizes[p]; i++) g[i] *= 1.0f / (float)samples;
        if (!optimizer) {
            memcpy(w, g, (size_t)sizes[p] * 4);
            continue;
        }
        for (int64_t i = 0; i < sizes[p] && params.l2 > 0; i++) g[i] += (float)params.l2 * w[i];
        ls_update u = {.lr = step == 2 ? 0.05 : 0.1, .step = step};
        ls_formula_call call;
        optimizer->update(&params, &u, &call);
        call.formula->host(call.arguments, room / 4, (float *[]){w, g, state[0], state[1]});
    }
    ls_memory_free(g);
    for (int i = 0; i < 2; i++) ls_memory_free(state[i]);
}

// --- a loop ----------------------------------------------------------------------------------------------------------

static float *weights[PARAMETERS], *gradients[PARAMETERS];

static ls_exchange_config config_of(const setting *s, ls_exchange_parameter parameters[PARAMETERS]) {
    ls_exchange_config c;
    ls_exchange_config_init(&c);
    for (int p = 0; p < PARAMETERS; p++)
        parameters[p] = (ls_exchange_parameter){p == 2 ? NULL : "w", sizes[p], weights[p],
                                                s->in_place ? NULL : gradients[p], p == 2};
    c.parameters = parameters, c.parameter_count = PARAMETERS;
    c.micro_batches = s->micro_batches, c.samples = s->samples;
    c.optimizer = s->optimizer, c.strategy = s->strategy;
    c.bucket_size = s->bucket_size;
    if (strcmp(s->optimizer, "none") != 0) c.lr = 0.1;
    if (s->momentum > 0) c.momentum = s->momentum, c.l2 = L2;
    if (!strcmp(s->strategy, "parameter-server") && world->size > 1) c.servers = 1;
    return c;
}

static void run_step(const setting *s, ls_exchange *x, int step) {
    int64_t begin, end, v = micro_batches_of(s, step);
    if (v != s->micro_batches)
        CHECK_OK(world, ls_exchange_next(x, v, s->samples ? v * s->samples / s->micro_batches : 0));
    if (strcmp(s->optimizer, "none") != 0) CHECK_OK(world, ls_exchange_set_rate(x, step == 2 ? 0.05 : 0.1));
    CHECK_OK(world, ls_exchange_deal(x, &begin, &end));
    CHECK(world, begin >= 0 && end <= v);
    for (int64_t m = begin; m < end; m++)
        for (int p = PARAMETERS - 1; p >= 0; p--) {
            float *g = gradients[p];
            int told = m % 2 ? PARAMETERS - 1 - p : p;  // in any order
            if (s->in_place)
                CHECK_OK(world, ls_exchange_gradient(x, told, &g));
            else
                g = gradients[told];
            fake(step, m, told, g);
            CHECK_OK(world, ls_exchange_ready(x, told));
            if (!s->in_place) memset(g, 7, (size_t)sizes[told] * 4);  // it is the program's again
        }
    CHECK_OK(world, ls_exchange_wait(x));
}

static void run(ls_context *context, const setting *s) {
    ls_exchange_parameter parameters[PARAMETERS];
    ls_exchange *x;
    int updates = strcmp(s->optimizer, "none") != 0;
    ls_exchange_config c = config_of(s, parameters);
    // Worker 0's weights count.
    for (int p = 0; p < PARAMETERS; p++) fake(context->comm->rank == 0 ? 0 : 77, 0, p, weights[p]);
    CHECK_OK(world, ls_exchange_create(context, &c, &x));
    for (int step = 1; step <= STEPS; step++) run_step(s, x, step);
    float *expected;
    CHECK_OK(world, ls_memory_alloc(MOST * 4 + 256, &expected));
    for (int p = 0; p < PARAMETERS; p++) {
        const float *result, *got = updates ? weights[p] : gradients[p];
        serial(s, p, expected);
        CHECK_OK(world, ls_exchange_result(x, p, &result));
        CHECK(world, memcmp(result, expected, (size_t)sizes[p] * 4) == 0);
        if (updates || !s->in_place) CHECK(world, memcmp(got, expected, (size_t)sizes[p] * 4) == 0);
        if (updates) continue;
        fake(0, 0, p, expected);
        CHECK(world, memcmp(weights[p], expected, (size_t)sizes[p] * 4) == 0);  // worker 0's, as they were
    }
    ls_memory_free(expected);
    ls_exchange_info info = ls_exchange_describe(x);
    CHECK(world, info.steps == STEPS && info.seconds > 0 && info.overlaps == (info.buckets > 1));
    int overlaps = context->comm->any_thread && (context->comm->hosts > 1 || s->bucket_size > 0);
    CHECK(world, info.overlaps == (overlaps && s->bucket_size > 0));
    ls_exchange_destroy(&x);
}

static void test_bits(ls_context *context) {
    const setting settings[] = {
        {"none", "allreduce", 0, 5, 0, 0, 0},        {"none", "allreduce", 0, 8, 1000, 0.005, 1},
        {"sgd", "allreduce", 0, 6, 0, 0.02, 0},      {"sgd", "reduce-broadcast", 0.9, 3, 96, 0, 1},
        {"adam", "parameter-server", 0, 7, 0, 0, 0}, {"adamw", "tree", 0, 1, 32, 0.003, 0},
        {"sgd", "central", 0.9, 4, 0, 0, 1},
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) run(context, &settings[i]);
}

// --- wrong calls -----------------------------------------------------------------------------------------------------

static void refused(ls_context *context, const ls_exchange_config *c, ls_status status, const char *words) {
    ls_exchange *x;
    CHECK(world, ls_exchange_create(context, c, &x) == status && !x);
    says(words);
}

static void test_configs(ls_context *context) {
    const setting s = {"sgd", "allreduce", 0, 4, 0, 0, 0};
    ls_exchange_parameter parameters[PARAMETERS];
    ls_exchange_config right = config_of(&s, parameters), c = right;
    c.parameter_count = 0;
    refused(context, &c, LS_STATUS_INVALID_ARGUMENT, "at least one parameter");
    c = right, c.micro_batches = 0;
    refused(context, &c, LS_STATUS_INVALID_ARGUMENT, "a step of 0 micro-batches");
    c = right, c.samples = -1;
    refused(context, &c, LS_STATUS_INVALID_ARGUMENT, "a step of -1 samples");
    c = right, c.bucket_size = -1;
    refused(context, &c, LS_STATUS_INVALID_ARGUMENT, "bucket_size is -1");
    c = right, c.clip_norm = -1;
    refused(context, &c, LS_STATUS_INVALID_ARGUMENT, "clip_norm is -1");
    c = right, c.optimizer = "rprop";
    refused(context, &c, LS_STATUS_NOT_FOUND, "rprop");
    c = right, c.strategy = "gossip";
    refused(context, &c, LS_STATUS_NOT_FOUND, "gossip");
    c = right, c.algorithm = "gossip";
    refused(context, &c, LS_STATUS_INVALID_ARGUMENT, "gossip");
    c = right, c.compress = "zip";
    refused(context, &c, LS_STATUS_INVALID_ARGUMENT, "zip");
    c = right, c.optimizer = "none";
    refused(context, &c, LS_STATUS_INVALID_ARGUMENT, "there is no optimizer");
    parameters[1].weights = NULL;
    refused(context, &right, LS_STATUS_INVALID_ARGUMENT, "parameter 1 has no weights");
    parameters[1].weights = weights[1], parameters[3].count = 0;
    refused(context, &right, LS_STATUS_INVALID_ARGUMENT, "parameter 3 has 0 elements");
    parameters[3].count = sizes[3];
    if (context->comm->size == 1) return;
    c = right;
    if (context->comm->rank == 1) c.micro_batches = 5;
    refused(context, &c, LS_STATUS_MISMATCH, "micro_batches=5");
    if (context->comm->rank == 1) parameters[0].count = 2;
    refused(context, &right, LS_STATUS_MISMATCH, "workers disagree on what is exchanged");
}

// One worker leaves out a gradient: all get its sentence, and the exchange is over.
static void test_missing(ls_context *context, double bucket_size) {
    const setting s = {"sgd", "allreduce", 0, context->comm->size, 0, bucket_size, 0};
    ls_exchange_parameter parameters[PARAMETERS];
    ls_exchange_config c = config_of(&s, parameters);
    ls_exchange *x;
    int last = context->comm->rank == context->comm->size - 1;
    CHECK_OK(world, ls_exchange_create(context, &c, &x));
    for (int p = PARAMETERS - 1; p >= 0; p--)
        if (!last || p != 2) CHECK_OK(world, ls_exchange_ready(x, p));
    CHECK(world, ls_exchange_wait(x) == LS_STATUS_INVALID_ARGUMENT);
    says("ls_exchange_wait: parameter 2 of micro-batch ");
    says("call ls_exchange_ready for every parameter");
    CHECK(world, ls_exchange_ready(x, 0) == LS_STATUS_INVALID_ARGUMENT);
    says("this exchange has failed before, and can only be destroyed");
    ls_exchange_destroy(&x);
}

static void test_calls(ls_context *context) {
    const setting s = {"none", "allreduce", 0, 2 * context->comm->size, 0, 0, 0};
    ls_exchange_parameter parameters[PARAMETERS];
    ls_exchange_config c = config_of(&s, parameters);
    ls_exchange *x;
    float *where;
    CHECK_OK(world, ls_exchange_create(context, &c, &x));
    CHECK(world, ls_exchange_ready(x, PARAMETERS) == LS_STATUS_INVALID_ARGUMENT);
    says("ls_exchange_ready: parameter 4 was named; there are 0 to 3");
    CHECK(world, ls_exchange_gradient(x, 0, &where) == LS_STATUS_INVALID_ARGUMENT);
    says("has an array of the program's");
    CHECK(world, ls_exchange_set_rate(x, 1) == LS_STATUS_INVALID_ARGUMENT);
    says("there is no optimizer");
    CHECK(world, ls_exchange_next(x, c.micro_batches + 1, 0) == LS_STATUS_INVALID_ARGUMENT);
    CHECK_OK(world, ls_exchange_ready(x, 1));
    CHECK(world, ls_exchange_ready(x, 1) == LS_STATUS_INVALID_ARGUMENT);
    says("w is ready for the second time in micro-batch ");
    says(", and w is not yet");
    CHECK(world, ls_exchange_next(x, 1, 1) == LS_STATUS_INVALID_ARGUMENT);
    says("the step has begun");
    for (int p = 0; p < PARAMETERS; p++)
        if (p != 1) CHECK_OK(world, ls_exchange_ready(x, p));
    for (int p = 0; p < PARAMETERS; p++) CHECK_OK(world, ls_exchange_ready(x, p));
    CHECK(world, ls_exchange_ready(x, 0) == LS_STATUS_INVALID_ARGUMENT);
    says("this worker has 2 micro-batches in this step, and all are ready: call ls_exchange_wait");
    CHECK_OK(world, ls_exchange_wait(x));
    ls_exchange_destroy(&x);
    test_missing(context, 0);
    test_missing(context, 0.01);
}

static void test_context(ls_context *context) {
    test_bits(context);
    test_configs(context);
    test_calls(context);
}

int main(void) {
    ls_context *job, *context;
    unsetenv("LOCKSTEP_TEST_HOSTS");
    CHECK_OK((ls_comm *)NULL, ls_context_create(&job));
    world = job->comm;
    for (int p = 0; p < PARAMETERS; p++) {
        CHECK_OK(world, ls_memory_alloc(sizes[p] * 4, &weights[p]));
        CHECK_OK(world, ls_memory_alloc(sizes[p] * 4, &gradients[p]));
    }
    test_context(job);
    if (world->size > 1) {
        setenv("LOCKSTEP_TEST_HOSTS", "2", 1);
        CHECK_OK(world, ls_context_create(&context));
        CHECK(world, context->comm->hosts == 2);
        test_context(context);
        ls_context_destroy(&context);
    }
    for (int p = 0; p < PARAMETERS; p++) {
        ls_memory_free(weights[p]);
        ls_memory_free(gradients[p]);
    }
    ls_context_destroy(&job);
    return 0;
}
