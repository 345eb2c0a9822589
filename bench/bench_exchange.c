// What a step costs after backward: bench_exchange [FLOATS [MICRO_BATCHES [REPLICAS [STEPS [STRATEGY [MEGABYTES]]]]]], alone or under mpirun; with STRATEGY that one
// alone, or with the word "order" the fixed tree's cost alone. Before each gradient a lane goes through so many MEGABYTES, as a network does through activations (0: none,
// and gradients of all micro-batches may stay in caches that are large enough).
//
// For each strategy the median over steps of the slowest lane's time, beside a floor: the same additions and the same update
// of each lane's slice in one plain pass over memory of its own, without meeting anyone; after the same writing of gradients,
// which leaves the caches as it does in a step. At the end what the fixed tree costs: allreduce in turn with the same that adds up lane by lane.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/median.h"
#include "base/memory.h"
#include "must.h"
#include "strategy/strategy.h"

typedef struct bench {
    ls_comm *comm;
    ls_device *device;
    ls_queue *queue;  // of all lanes: the device does everything at once
    ls_strategy *strategy;
    const ls_optimizer *optimizer;
    ls_optimizer_params params;
    int64_t length, micro_batches, between;  // between: floats of other memory
    int replicas, steps;
} bench;

typedef struct lane {
    bench *bench;
    int replica;
    double *seconds, *update;  // (steps)
    double *floor;             // (steps)
    float *activations;        // (between)
} lane;

// Writes the gradients of one lane, as backward would. Returns the seconds that adding them up took.
static double write_gradients(lane *l, const ls_step_info *info) {
    bench *b = l->bench;
    int replica = l->replica;
    int64_t begin, end;
    double adding = 0;
    ls_strategy_deal(b->strategy, info->micro_batches, b->comm->position * b->replicas + replica, &begin, &end);
    for (int64_t m = begin; m < end; m++) {
        for (int64_t i = 0; i < b->between; i++) l->activations[i] += 1;
        float *g = ls_span_host(ls_strategy_gradient_begin(b->strategy, replica, info, m));
        for (int64_t i = 0; i < b->length; i++) g[i] = (float)(i % 7) + (float)m;
        double start = ls_clock();
        MUST(ls_strategy_gradient_end(b->strategy, replica, b->queue, info));
        adding += ls_clock() - start;
    }
    ls_strategy_host_barrier(b->strategy);  // nobody waits for another's backward in what is timed
    return adding;
}

static void measure_floor(lane *l) {
    bench *b = l->bench;
    int lanes = b->comm->size * b->replicas;
    int64_t n = ls_round_up(b->length / lanes, 64);
    int sources = b->micro_batches < lanes ? (int)b->micro_batches : lanes;
    float *memory[4], *gradients;
    for (int i = 0; i < 4; i++) MUST(ls_memory_alloc(n * 4, &memory[i]));
    MUST(ls_memory_alloc(n * 4 * sources, &gradients));
    for (int s = 0; s < b->steps; s++) {
        ls_step_info info = {
            .micro_batches = b->micro_batches, .samples = b->micro_batches * 128, .lr = 1e-3, .step = s + 1};
        write_gradients(l, &info);
        double begin = ls_clock();
        for (int64_t at = 0; at < n; at += 4096) {
            int64_t count = n - at < 4096 ? n - at : 4096;
            float *restrict g = memory[0];
            for (int64_t i = 0; i < count; i++) g[i] = gradients[at + i];
            for (int k = 1; k < sources; k++)
                for (int64_t i = 0; i < count; i++) g[i] += gradients[k * n + at + i];
            ls_update u = {.lr = 1e-3, .step = s + 1};
            ls_formula_call call;
            b->optimizer->update(&b->params, &u, &call);
            float *x[LS_UPDATE_SPANS] = {memory[1] + at, g, memory[2] + at, memory[3] + at};
            call.formula->host(call.arguments, count, x);
        }
        l->floor[s] = ls_clock() - begin;
    }
    for (int i = 0; i < 4; i++) ls_memory_free(memory[i]);
    ls_memory_free(gradients);
}

static void *run(void *argument) {
    lane *l = argument;
    bench *b = l->bench;
    for (int s = 0; s < b->steps; s++) {
        ls_step_info info = {
            .micro_batches = b->micro_batches, .samples = b->micro_batches * 128, .lr = 1e-3, .step = s + 1};
        write_gradients(l, &info);
        double start = ls_clock();
        ls_step_times times = {.since = start};
        ls_vote unused;
        MUST(ls_strategy_step(b->strategy, l->replica, b->queue, &info, LS_VOTE_GO_ON, &unused, &times));
        l->seconds[s] = ls_clock() - start;
        l->update[s] = ls_step_update(&times);
    }
    measure_floor(l);
    return NULL;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The median over steps of the worst lane of this worker, in microseconds.
static double worst(lane *lanes, int replicas, int steps, size_t field) {
    double *most;
    MUST(ls_calloc(steps, sizeof *most, &most));
    for (int s = 0; s < steps; s++)
        for (int r = 0; r < replicas; r++) {
            const double *values = *(double *const *)((const char *)&lanes[r] + field);
            if (values[s] > most[s]) most[s] = values[s];
        }
    qsort(most, (size_t)steps, sizeof *most, ascending);
    double median = most[steps / 2];
    free(most);
    return median * 1e6;
}

static void create(bench *b, const char *name) {
    ls_strategy_config config = {.comm = b->comm,
                                 .device = b->device,
                                 .replicas = b->replicas,
                                 .length = b->length,
                                 .micro_batches = b->micro_batches,
                                 .optimizer = b->optimizer,
                                 .params = b->params,
                                 .spin = 20000};
    MUST(ls_strategy_create(name, &config, &b->strategy));
}

static void measure(bench *b, const char *name) {
    create(b, name);
    lane *lanes;
    pthread_t *threads;
    MUST(ls_calloc(b->replicas, sizeof *lanes, &lanes));
    MUST(ls_calloc(b->replicas, sizeof *threads, &threads));
    for (int r = 0; r < b->replicas; r++) {
        lanes[r] = (lane){.bench = b, .replica = r};
        MUST(ls_calloc(b->steps, sizeof(double), &lanes[r].seconds));
        MUST(ls_calloc(b->steps, sizeof(double), &lanes[r].update));
        MUST(ls_calloc(b->steps, sizeof(double), &lanes[r].floor));
        MUST(ls_calloc(b->between + 1, sizeof(float), &lanes[r].activations));
        if (r > 0 && pthread_create(&threads[r], NULL, run, &lanes[r]) != 0) exit(1);
    }
    run(&lanes[0]);
    for (int r = 1; r < b->replicas; r++) pthread_join(threads[r], NULL);
    double step = worst(lanes, b->replicas, b->steps, offsetof(lane, seconds));
    double update = worst(lanes, b->replicas, b->steps, offsetof(lane, update));
    double floor = worst(lanes, b->replicas, b->steps, offsetof(lane, floor));
    if (b->comm->rank == 0)
        printf("%-17s step %7.0f us (update %6.0f)   floor %6.0f us   ratio %.2f   memory %.1f MB/worker\n", name, step,
               update, floor, step / floor, (double)ls_strategy_memory_bytes(b->strategy) / 1e6);
    for (int r = 0; r < b->replicas; r++) {
        free(lanes[r].seconds);
        free(lanes[r].update);
        free(lanes[r].floor);
        free(lanes[r].activations);
    }
    free(lanes);
    free(threads);
    ls_strategy_destroy(&b->strategy);
}

// --- the order of sums -----------------------------------------------------------------------------------------------

// A lane that takes steps with the fixed tree and without in turn.
typedef struct twin {
    lane lane;
    double *seconds[2];  // (steps), in the tree's order and in any: the step, and what the lane added up before it
} twin;

// Steps of both kinds in the same memory, so that nothing but the order differs: tree, any, any, tree.
static void *run_both(void *argument) {
    twin *t = argument;
    lane *l = &t->lane;
    bench *b = l->bench;
    for (int s = 0; s < 2 * b->steps; s++) {
        int which = (s / 2 + s) % 2;
        ls_step_info info = {
            .micro_batches = b->micro_batches, .samples = b->micro_batches * 128, .lr = 1e-3, .step = s + 1};
        if (l->replica == 0) ls_strategy_any_order(b->strategy, which);
        ls_strategy_host_barrier(b->strategy);
        double adding = write_gradients(l, &info), start = ls_clock();
        ls_step_times times = {.since = start};
        ls_vote unused;
        MUST(ls_strategy_step(b->strategy, l->replica, b->queue, &info, LS_VOTE_GO_ON, &unused, &times));
        t->seconds[which][s / 2] = adding + ls_clock() - start;
    }
    return NULL;
}

// The time of the slowest lane of this worker in a step, in microseconds.
static double slowest(const twin *twins, int which, int step, int replicas) {
    double most = 0;
    for (int r = 0; r < replicas; r++)
        if (twins[r].seconds[which][step] > most) most = twins[r].seconds[which][step];
    return most * 1e6;
}

// The memory lies anew in each turn.
static void measure_order(bench *b) {
    enum { TURNS = 7 };
    double *ratios, *times[2];
    int n = 0;
    MUST(ls_calloc(TURNS * (int64_t)b->steps, sizeof *ratios, &ratios));
    for (int k = 0; k < 2; k++) MUST(ls_calloc(TURNS * (int64_t)b->steps, sizeof *times[k], &times[k]));
    for (int i = 0; i < TURNS; i++) {
        twin *twins;
        pthread_t *threads;
        create(b, "allreduce");
        MUST(ls_calloc(b->replicas, sizeof *twins, &twins));
        MUST(ls_calloc(b->replicas, sizeof *threads, &threads));
        for (int r = 0; r < b->replicas; r++) {
            twins[r].lane = (lane){.bench = b, .replica = r};
            MUST(ls_calloc(b->between + 1, sizeof(float), &twins[r].lane.activations));
            for (int k = 0; k < 2; k++) MUST(ls_calloc(b->steps, sizeof(double), &twins[r].seconds[k]));
            if (r > 0 && pthread_create(&threads[r], NULL, run_both, &twins[r]) != 0) exit(1);
        }
        run_both(&twins[0]);
        for (int r = 1; r < b->replicas; r++) pthread_join(threads[r], NULL);
        for (int s = b->steps > 1; s < b->steps; s++, n++) {  // the first pair touches the memory
            for (int k = 0; k < 2; k++) times[k][n] = slowest(twins, k, s, b->replicas);
            ratios[n] = times[0][n] / times[1][n];
        }
        for (int r = 0; r < b->replicas; r++) {
            free(twins[r].lane.activations);
            for (int k = 0; k < 2; k++) free(twins[r].seconds[k]);
        }
        free(twins);
        free(threads);
        ls_strategy_destroy(&b->strategy);
    }
    double middle = ls_median(ratios, n);  // sorts them
    if (b->comm->rank == 0)
        printf(
            "the fixed tree beside adding lane by lane: %.0f us, %.0f us: %.3f of the time (%d pairs, half of them "
            "from %.3f to %.3f)\n",
            ls_median(times[0], n), ls_median(times[1], n), middle, n, ratios[n / 4], ratios[n - 1 - n / 4]);
    for (int k = 0; k < 2; k++) free(times[k]);
    free(ratios);
}

int main(int argc, char **argv) {
    bench b = {.length = argc > 1 ? atoll(argv[1]) : 690624,
               .micro_batches = argc > 2 ? atoll(argv[2]) : 8,
               .replicas = argc > 3 ? atoi(argv[3]) : 1,
               .steps = argc > 4 ? atoi(argv[4]) : 200,
               .between = argc > 6 ? atoll(argv[6]) * 250000 : 0,
               .params = {-1, -1, -1, -1, -1, -1, -1, -1}};
    const char *only = argc > 5 ? argv[5] : NULL;
    if (b.replicas < 1 || b.steps < 1 || b.micro_batches < 1 || b.length < 1 || b.between < 0) {
        fprintf(stderr,
                "usage: bench_exchange [FLOATS [MICRO_BATCHES [REPLICAS [STEPS [STRATEGY|order [MEGABYTES]]]]]]\n");
        return 2;
    }
    b.length = ls_round_up(b.length, LS_SLICE_ALIGN);
    MUST(ls_comm_create(&b.comm));
    MUST(ls_device_create("ref", NULL, &b.device));
    MUST(ls_queue_create(b.device, &b.queue));
    MUST(ls_optimizer_find("adam", &b.optimizer));
    MUST(ls_optimizer_resolve(b.optimizer, &b.params));
    if (b.comm->rank == 0)
        printf("%lld floats, %lld micro-batches, %d workers on %d hosts, %d replicas each, adam\n", (long long)b.length,
               (long long)b.micro_batches, b.comm->size, b.comm->hosts, b.replicas);
    for (const ls_strategy_ops *const *s = ls_strategies(); *s; s++) {
        ls_roles roles = {.workers = b.comm->size, .replicas = b.replicas};
        if (only && strcmp(only, (*s)->name) != 0) continue;
        if (ls_strategy_assign(*s, &roles) == LS_OK) measure(&b, (*s)->name);
    }
    if (!only || strcmp(only, "order") == 0) measure_order(&b);
    ls_queue_destroy(&b.queue);
    ls_device_destroy(&b.device);
    ls_comm_destroy(&b.comm);
    return 0;
}
