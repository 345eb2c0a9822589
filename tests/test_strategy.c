// The strategies as real processes with replica threads: after several steps, on any number of workers, replicas and hosts,
// every worker's weights are to the bit those of a serial loop.
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/philox.h"
#include "strategy/strategy_impl.h"
#include "worker_check.h"

#define STEPS         5
#define MOST_REPLICAS 2
#define MOST_LENGTH   (64 * 150)

typedef struct setting {
    ls_comm *comm;
    const char *strategy;
    const ls_optimizer *optimizer;
    ls_optimizer_params params;
    int replicas;
    int64_t length, micro_batches;
    const ls_segment *segments;
    int segment_count;
    double clip_norm;
} setting;

// Kernels, what else is trained, statistics: in each order, of one unit and of more than a block, on and off the cuts
// between lanes.
static const ls_segment long_segments[] = {
    {0, 64, .kernel = 0},
    {64, 64 * 2, .kernel = 1},
    {64 * 2, 64 * 3, .statistic = 1, .momentum = 0.9f},
    {64 * 3, 64 * 11, .kernel = 1},
    {64 * 11, 64 * 12, .kernel = 1},
    {64 * 12, 64 * 13, .kernel = 0},
    {64 * 13, 64 * 14, .statistic = 1, .momentum = 0.9f},
    {64 * 14, 64 * 15, .statistic = 1, .momentum = 0.9f},
    {64 * 15, 64 * 16, .statistic = 1, .momentum = 0.5f},
    {64 * 16, 64 * 75, .kernel = 1},
    {64 * 75, 64 * 141, .statistic = 1, .momentum = 0.99f},
    {64 * 141, 64 * 149, .kernel = 1},
    {64 * 149, MOST_LENGTH, .kernel = 0},
};
#define LONG_SEGMENTS (sizeof long_segments / sizeof long_segments[0])
static const ls_segment short_segments[] = {{0, 64, .kernel = 1}, {64, 128, .statistic = 1}, {128, 192, .kernel = 0}};

// What element `at` belongs to; without segments all is one kernel.
static ls_segment segment_at(const setting *s, int64_t at) {
    for (int i = 0; i < s->segment_count; i++)
        if (at < s->segments[i].end) return s->segments[i];
    return (ls_segment){.end = s->length, .kernel = 1};
}

// The last step of an epoch is short, and another epoch follows.
static ls_step_info step_info(const setting *s, int step) {
    int64_t v = s->micro_batches;
    const int64_t sizes[STEPS] = {v, v, v > 3 ? v - 3 : 1, v, 1};
    int64_t samples = sizes[step - 1] * 4 - (sizes[step - 1] < v ? 1 : 0);
    return (ls_step_info){.micro_batches = sizes[step - 1],
                          .samples = samples,
                          .lr = s->params.lr / step,
                          .lr_before = step > 2 ? s->params.lr / (step - 1) : 0,
                          .step = step};
}

// The gradient of a micro-batch: of many sizes, so that a sum in another order would have other bits.
static void fake_gradient(int step, int64_t micro_batch, float *out, int64_t length) {
    for (int64_t i = 0; i < length; i += 4) {
        ls_philox4 r = ls_philox(5, (uint32_t)i, (uint32_t)micro_batch, (uint32_t)step, 0);
        for (int k = 0; k < 4; k++)
            out[i + k] = (ls_uniform(r.v[k]) - 0.5f) * (float)(1 << (r.v[(k + 1) % 4] % 20)) * 1e-4f;
    }
}

static void initial_weights(float *out, int64_t length) { fake_gradient(0, 0, out, length); }

// The tree, by its definition.
static void tree_sum(int step, int64_t v, int64_t first, int level, float *out, int64_t length) {
    if (level == 0) {
        fake_gradient(step, first, out, length);
        return;
    }
    int64_t middle = first + ((int64_t)1 << (level - 1));
    tree_sum(step, v, first, level - 1, out, length);
    if (middle >= v) return;
    float *right;
    CHECK_OK((ls_comm *)NULL, ls_memory_alloc(length * 4, &right));
    tree_sum(step, v, middle, level - 1, right, length);
    for (int64_t i = 0; i < length; i++) out[i] += right[i];
    ls_memory_free(right);
}

// The sum of squares as documented: those of 64 elements in a tree, then one 64 after the other.
static double sum_squares(const float *x, int64_t length) {
    double sum = 0, exact = 0;
    for (int64_t at = 0; at < length; at += 64) {
        double squares[64];
        for (int i = 0; i < 64; i++) exact += squares[i] = (double)x[at + i] * (double)x[at + i];
        for (int half = 32; half > 0; half /= 2)
            for (int i = 0; i < half; i++) squares[i] = squares[i] + squares[i + half];
        sum += squares[0];
    }
    CHECK((ls_comm *)NULL, fabs(sum - exact) <= 1e-12 * exact);
    return sum;
}

// Clips to the norm of all that is trained. Adding up 64 at a time is what the sum over all does.
static void clip(const setting *s, float *g) {
    double sum = 0;
    for (int64_t at = 0; at < s->length; at += 64)
        if (!segment_at(s, at).statistic) sum += sum_squares(g + at, 64);
    CHECK(s->comm, sqrt(sum) > s->clip_norm);
    for (int64_t i = 0; i < s->length; i++)
        if (!segment_at(s, i).statistic) g[i] *= (float)(s->clip_norm / sqrt(sum));
}

// A whole segment, which begins at `at`, with its mean gradient, as its kind wants it.
static void update(const setting *s, ls_segment segment, float *w, float *g, float *const state[2],
                   const ls_step_info *info) {
    int64_t n = segment.end - segment.begin;
    ls_optimizer_params params = s->params;
    ls_update u = {n, w, g, {state[0], state[1]}, info->lr, info->lr_before, info->step, 0, 0};
    if (segment.statistic) {
        for (int i = 0; i < n; i++) w[i] = segment.momentum * w[i] + (1 - segment.momentum) * g[i];
        return;
    }
    if (!segment.kernel) params.weight_decay = 0;
    if (s->optimizer->direction) {
        float *direction;
        CHECK_OK(s->comm, ls_memory_alloc(n * 4, &direction));
        s->optimizer->direction(&params, &u, direction);
        memcpy(g, direction, (size_t)n * 4);
        ls_memory_free(direction);
    }
    if (s->optimizer->layerwise && segment.kernel)
        u.w_norm = sqrt(sum_squares(w, n)), u.g_norm = sqrt(sum_squares(g, n));
    s->optimizer->update(&params, &u);
}

// weights: (STEPS, length): after each step.
static void serial(const setting *s, float *weights) {
    float *w, *g, *state[2];
    CHECK_OK(s->comm, ls_memory_alloc(s->length * 4, &w));
    CHECK_OK(s->comm, ls_memory_alloc(s->length * 4, &g));
    for (int i = 0; i < 2; i++) CHECK_OK(s->comm, ls_memory_alloc(s->length * 4, &state[i]));
    initial_weights(w, s->length);
    for (int step = 1; step <= STEPS; step++) {
        ls_step_info info = step_info(s, step);
        int level = 0;
        while (((int64_t)1 << level) < info.micro_batches) level++;
        tree_sum(step, info.micro_batches, 0, level, g, s->length);
        for (int64_t i = 0; i < s->length; i++) g[i] *= 1.0f / (float)info.samples;
        if (s->clip_norm > 0) clip(s, g);
        for (int64_t at = 0; at < s->length; at = segment_at(s, at).end)
            update(s, segment_at(s, at), w + at, g + at, (float *[]){state[0] + at, state[1] + at}, &info);
        memcpy(weights + (step - 1) * s->length, w, (size_t)s->length * 4);
    }
    ls_memory_free(w);
    ls_memory_free(g);
    ls_memory_free(state[0]);
    ls_memory_free(state[1]);
}

static void accumulate(ls_device *device, float *y, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] += x[i];
}

static const ls_device_ops fake_ops = {.name = "fake", .accumulate = accumulate};

// The working copies of this test: the weights with the other sign.
static void refresh(void *user, const float *weights, void *copies, int part, int parts) {
    int64_t length = *(const int64_t *)user, begin = length * part / parts, end = length * (part + 1) / parts;
    for (int64_t i = begin; i < end; i++) ((float *)copies)[i] = -weights[i];
}

typedef struct replica {
    const setting *setting;
    ls_strategy *strategy;
    int index;
    const float *expected;
} replica;

// From the beginning of a step to its end every moment is in one phase, in the sums and in the trace.
static void check_times(ls_comm *comm, const ls_step_times *times, double began) {
    double spent[LS_STEP_PHASES] = {0};
    const ls_trace *trace = times->trace;
    CHECK(comm, trace->count >= 3 && trace->dropped == 0 && trace->events[0].start == began);
    for (int64_t i = 0; i < trace->count; i++) {
        const ls_trace_event *e = &trace->events[i];
        CHECK(comm, e->name >= 7 && e->name < 7 + LS_STEP_PHASES);
        CHECK(comm, e->end >= e->start && (i == 0 || e->start == trace->events[i - 1].end));
        spent[e->name - 7] += e->end - e->start;
    }
    CHECK(comm, trace->events[trace->count - 1].end == times->since && times->since <= ls_clock());
    for (int i = 0; i < LS_STEP_PHASES; i++) CHECK(comm, spent[i] == times->seconds[i]);
}

static void *train(void *argument) {
    replica *r = argument;
    const setting *s = r->setting;
    ls_trace trace = {0};
    CHECK_OK(s->comm, ls_trace_allocate(&trace, 64));
    ls_trace_switch(&trace, 1);
    int lane = s->comm->position * s->replicas + r->index, lanes = s->comm->size * s->replicas;
    for (int step = 1; step <= STEPS; step++) {
        ls_step_info info = step_info(s, step);
        int64_t begin, end;
        ls_tree_run(info.micro_batches, lane, lanes, &begin, &end);
        for (int64_t m = begin; m < end; m++) {
            float *gradient = ls_strategy_gradient_begin(r->strategy, r->index, &info, m);
            CHECK(s->comm, (uintptr_t)gradient % 64 == 0);
            fake_gradient(step, m, gradient, s->length);
            ls_strategy_gradient_end(r->strategy, r->index, &info);
        }
        trace.count = 0;
        double began = ls_clock();
        ls_step_times times = {.since = began, .trace = &trace, .trace_first = 7};
        CHECK_OK(s->comm, r->strategy->ops->step(r->strategy, r->index, &info, &times));
        check_times(s->comm, &times, began);
        // Right after its step each replica sees all new weights and copies, at the same moment as the others.
        const float *expected = r->expected + (step - 1) * s->length, *copies = r->strategy->copies;
        CHECK(s->comm, memcmp(r->strategy->weights, expected, (size_t)s->length * 4) == 0);
        for (int64_t i = 0; i < s->length; i++) CHECK(s->comm, copies[i] == -expected[i]);
    }
    ls_trace_release(&trace);
    return NULL;
}

// What a job that is only thought of would take is what this one has, on the worker that it is worker 0 of.
static void check_memory(const setting *s, const ls_strategy *strategy, ls_strategy_config config) {
    const ls_strategy_base *base = (const ls_strategy_base *)strategy;
    ls_strategy_memory m = ls_strategy_memory_of(strategy), planned;
    ls_strategy *only_planned;
    int64_t shared = 0, seen = 0, alone = s->comm->local_size == 1;
    for (int p = 0; p < LS_STRATEGY_PARTS; p++) {
        CHECK(s->comm, m.part[p].own >= 0 && m.part[p].shared >= m.part[p].seen && m.part[p].seen >= 0);
        shared += m.part[p].shared;
        seen += m.part[p].seen;
    }
    int64_t common = base->common->bytes, gradients = base->gradients->bytes;
    CHECK(s->comm, shared == (alone ? ls_memory_size(common) + ls_memory_size(gradients) : common + gradients));
    CHECK(s->comm, alone ? seen == shared : seen > shared / s->comm->local_size);
    CHECK(s->comm, m.part[LS_STRATEGY_GRADIENTS].replica == m.gradient_buffers * s->length * 4);
    if (s->comm->rank != 0) return;
    CHECK_OK(s->comm, ls_comm_create_planned(s->comm->size, s->comm->hosts, &config.comm));
    CHECK_OK(s->comm, ls_strategy_plan(s->strategy, &config, &only_planned));
    planned = ls_strategy_memory_of(only_planned);
    CHECK(s->comm, memcmp(planned.part, m.part, sizeof m.part) == 0 && planned.gradient_buffers == m.gradient_buffers);
    ls_strategy_destroy(&only_planned);
    ls_comm_destroy(&config.comm);
}

static void run(const setting *s, const float *expected) {
    ls_device device = {.ops = &fake_ops};
    int64_t length = s->length;
    ls_strategy_config config = {.comm = s->comm,
                                 .device = &device,
                                 .replicas = s->replicas,
                                 .length = length,
                                 .micro_batches = s->micro_batches,
                                 .optimizer = s->optimizer,
                                 .params = s->params,
                                 .clip_norm = s->clip_norm,
                                 .segments = s->segments,
                                 .segment_count = s->segment_count,
                                 .decay_kernels_only = 1,
                                 .spin = 0,
                                 .copies_bytes = length * 4,
                                 .refresh = refresh,
                                 .refresh_user = &length};
    ls_strategy *strategy;
    CHECK_OK(s->comm, ls_strategy_create(s->strategy, &config, &strategy));
    CHECK(s->comm, ls_strategy_memory_bytes(strategy) >= length * 4 / s->comm->local_size);
    check_memory(s, strategy, config);
    if (!strategy->weights_shared || s->comm->local_rank == 0) initial_weights(strategy->weights, length);
    CHECK_OK(s->comm, ls_strategy_weights_changed(strategy));
    CHECK(s->comm, ((float *)strategy->copies)[length - 1] == -strategy->weights[length - 1]);

    replica replicas[MOST_REPLICAS];
    pthread_t threads[MOST_REPLICAS];
    for (int i = 0; i < s->replicas; i++) replicas[i] = (replica){s, strategy, i, expected};
    for (int i = 1; i < s->replicas; i++) CHECK(s->comm, pthread_create(&threads[i], NULL, train, &replicas[i]) == 0);
    train(&replicas[0]);  // replica 0 is the main thread, the one that may communicate
    for (int i = 1; i < s->replicas; i++) CHECK(s->comm, pthread_join(threads[i], NULL) == 0);
    ls_strategy_destroy(&strategy);
    CHECK(s->comm, strategy == NULL);
}

// A length with slices of several blocks, dividing and not dividing steps; and one with fewer units than lanes.
static const struct {
    const char *optimizer;
    double momentum;
    int64_t length, micro_batches;
    const ls_segment *segments;
    int segment_count;
    double clip_norm;
} cases[] = {{"adam", -1, MOST_LENGTH, 8, long_segments, LONG_SEGMENTS, 0},
             {"sgd", 0.9, MOST_LENGTH, 7, NULL, 0, 0},
             {"adam", -1, 64 * 3, 7, short_segments, 3, 0},
             {"sgd", 0.9, MOST_LENGTH, 8, long_segments, LONG_SEGMENTS, 1},
             {"adam", -1, 64 * 3, 7, NULL, 0, 0.1},
             {"lars", 0.9, MOST_LENGTH, 8, long_segments, LONG_SEGMENTS, 0},
             {"lars", 0, 64 * 3, 7, short_segments, 3, 0.1},
             {"lamb", -1, MOST_LENGTH, 7, long_segments, LONG_SEGMENTS, 1},
             {"lamb", -1, MOST_LENGTH, 8, NULL, 0, 0}};

static void test_hosts(ls_comm *comm, float *expected) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setting s = {.comm = comm,
                     .length = cases[i].length,
                     .micro_batches = cases[i].micro_batches,
                     .segments = cases[i].segments,
                     .segment_count = cases[i].segment_count,
                     .clip_norm = cases[i].clip_norm};
        s.params = (ls_optimizer_params){-1, cases[i].momentum, -1, -1, -1, 0.01, cases[i].momentum > 0, -1};
        CHECK_OK(comm, ls_optimizer_find(cases[i].optimizer, &s.optimizer));
        CHECK_OK(comm, ls_optimizer_resolve(s.optimizer, &s.params));
        serial(&s, expected);
        for (s.replicas = 1; s.replicas <= MOST_REPLICAS; s.replicas++)
            for (const ls_strategy_ops *const *ops = ls_strategies(); *ops; ops++) {
                s.strategy = (*ops)->name;
                run(&s, expected);
            }
    }
}

static void test_failures(ls_comm *comm) {
    ls_strategy *strategy;
    ls_strategy_config config = {.comm = comm, .replicas = 1, .length = 64, .micro_batches = 1};
    CHECK(comm, ls_strategy_create("gossip", &config, &strategy) == LS_STATUS_NOT_FOUND && strategy == NULL);
    CHECK(comm, strstr(ls_error_message(), "allreduce, reduce-broadcast"));
    // Gradients that do not fit the memory of a host: all workers hear of it, and nothing is left behind.
    CHECK_OK(comm, ls_optimizer_find("sgd", &config.optimizer));
    const ls_segment gap[] = {{0, 64, .kernel = 1}, {128, 192, .kernel = 1}};
    const ls_segment odd[] = {{0, 32, .kernel = 1}, {32, 192, .kernel = 1}};
    const ls_segment beyond[] = {{0, 192, .kernel = 1}, {192, 256, .kernel = 1}};
    const ls_segment *const wrong[] = {gap, odd, beyond};
    config.length = 192, config.segment_count = 2;
    for (int i = 0; i < 3; i++) {
        config.segments = wrong[i];
        CHECK(comm, ls_strategy_create("allreduce", &config, &strategy) == LS_STATUS_INTERNAL && strategy == NULL);
        CHECK(comm, strstr(ls_error_message(), "the segments of a vector of 192 floats cover it up to"));
    }
    config.segments = NULL;
    config.length = (int64_t)1 << 47;
    CHECK(comm, ls_strategy_create("allreduce", &config, &strategy) == LS_STATUS_OUT_OF_MEMORY && strategy == NULL);
}

int main(void) {
    ls_comm *world, *comm;
    float *expected;
    unsetenv("LOCKSTEP_TEST_HOSTS");
    if (ls_comm_create(&world) != LS_OK) {
        fprintf(stderr, "%s\n", ls_error_message());
        return 1;
    }
    CHECK_OK(world, ls_memory_alloc((int64_t)STEPS * MOST_LENGTH * 4, &expected));
    test_hosts(world, expected);
    test_failures(world);
    for (int hosts = 2; hosts <= 3 && hosts <= world->size; hosts++) {
        setenv("LOCKSTEP_TEST_HOSTS", hosts == 2 ? "2" : "3", 1);
        CHECK_OK(world, ls_comm_create(&comm));
        CHECK(world, comm->hosts == hosts);
        test_hosts(comm, expected);
        test_failures(comm);
        ls_comm_destroy(&comm);
    }
    ls_memory_free(expected);
    ls_comm_destroy(&world);
    return 0;
}
