// What a step costs after backward: bench_exchange [FLOATS [MICRO_BATCHES [REPLICAS [STEPS [STRATEGY]]]]], alone or under mpirun; with STRATEGY that one alone, or
// with the word "order" the fixed tree's cost alone.
//
// For each strategy the median over steps of the slowest lane's time, beside a floor: the same additions and the same update
// of each lane's slice in one plain pass over memory of its own, without meeting anyone; after the same writing of gradients,
// which leaves the caches as it does in a step. At the end what the fixed tree costs: allreduce in turn with the same that adds up lane by lane.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
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
    int64_t length, micro_batches;
    int replicas, steps, prints;
} bench;

typedef struct lane {
    bench *bench;
    int replica;
    double *seconds, *update;  // (steps)
    double *floor, *whole;     // (steps): whole: the step, and what the lane added up before it
} lane;

// Writes the gradients of one lane, as backward would. Returns the seconds that adding them up took.
static double write_gradients(bench *b, int replica, const ls_step_info *info) {
    int64_t begin, end;
    double adding = 0;
    ls_strategy_deal(b->strategy, info->micro_batches, b->comm->position * b->replicas + replica, &begin, &end);
    for (int64_t m = begin; m < end; m++) {
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
        write_gradients(b, l->replica, &info);
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
        double adding = write_gradients(b, l->replica, &info), start = ls_clock();
        ls_step_times times = {.since = start};
        ls_vote unused;
        MUST(ls_strategy_step(b->strategy, l->replica, b->queue, &info, LS_VOTE_GO_ON, &unused, &times));
        l->seconds[s] = ls_clock() - start;
        l->whole[s] = adding + l->seconds[s];
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

// Returns the median of steps in microseconds, with what lanes add up before.
static double measure(bench *b, const char *name, int any_order) {
    ls_strategy_config config = {.comm = b->comm,
                                 .device = b->device,
                                 .replicas = b->replicas,
                                 .length = b->length,
                                 .micro_batches = b->micro_batches,
                                 .optimizer = b->optimizer,
                                 .params = b->params,
                                 .any_order = any_order,
                                 .spin = 20000};
    MUST(ls_strategy_create(name, &config, &b->strategy));
    lane *lanes;
    pthread_t *threads;
    MUST(ls_calloc(b->replicas, sizeof *lanes, &lanes));
    MUST(ls_calloc(b->replicas, sizeof *threads, &threads));
    for (int r = 0; r < b->replicas; r++) {
        lanes[r] = (lane){.bench = b, .replica = r};
        MUST(ls_calloc(b->steps, sizeof(double), &lanes[r].seconds));
        MUST(ls_calloc(b->steps, sizeof(double), &lanes[r].update));
        MUST(ls_calloc(b->steps, sizeof(double), &lanes[r].floor));
        MUST(ls_calloc(b->steps, sizeof(double), &lanes[r].whole));
        if (r > 0 && pthread_create(&threads[r], NULL, run, &lanes[r]) != 0) exit(1);
    }
    run(&lanes[0]);
    for (int r = 1; r < b->replicas; r++) pthread_join(threads[r], NULL);
    double step = worst(lanes, b->replicas, b->steps, offsetof(lane, seconds));
    double update = worst(lanes, b->replicas, b->steps, offsetof(lane, update));
    double floor = worst(lanes, b->replicas, b->steps, offsetof(lane, floor));
    double whole = worst(lanes, b->replicas, b->steps, offsetof(lane, whole));
    if (b->comm->rank == 0 && b->prints)
        printf("%-17s step %7.0f us (update %6.0f)   floor %6.0f us   ratio %.2f   memory %.1f MB/worker\n", name, step,
               update, floor, step / floor, (double)ls_strategy_memory_bytes(b->strategy) / 1e6);
    for (int r = 0; r < b->replicas; r++) {
        free(lanes[r].seconds);
        free(lanes[r].update);
        free(lanes[r].floor);
        free(lanes[r].whole);
    }
    free(lanes);
    free(threads);
    ls_strategy_destroy(&b->strategy);
    return whole;
}

static void measure_tree(bench *b) {
    enum { PAIRS = 7 };
    double ratios[PAIRS];
    b->prints = 0;
    for (int i = 0; i < PAIRS; i++) {
        double tree = measure(b, "allreduce", 0);
        ratios[i] = tree / measure(b, "allreduce", 1);
    }
    qsort(ratios, PAIRS, sizeof *ratios, ascending);
    if (b->comm->rank == 0)
        printf("the fixed tree beside adding lane by lane: %.3f of the time (%d pairs, %.3f to %.3f)\n",
               ratios[PAIRS / 2], PAIRS, ratios[0], ratios[PAIRS - 1]);
}

int main(int argc, char **argv) {
    bench b = {.length = argc > 1 ? atoll(argv[1]) : 690624,
               .micro_batches = argc > 2 ? atoll(argv[2]) : 8,
               .replicas = argc > 3 ? atoi(argv[3]) : 1,
               .steps = argc > 4 ? atoi(argv[4]) : 200,
               .params = {-1, -1, -1, -1, -1, -1, -1, -1},
               .prints = 1};
    const char *only = argc > 5 ? argv[5] : NULL;
    if (b.replicas < 1 || b.steps < 1 || b.micro_batches < 1 || b.length < 1) {
        fprintf(stderr, "usage: bench_exchange [FLOATS [MICRO_BATCHES [REPLICAS [STEPS [STRATEGY|order]]]]]\n");
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
        if (ls_strategy_assign(*s, &roles) == LS_OK) measure(&b, (*s)->name, 0);
    }
    if (!only || strcmp(only, "order") == 0) measure_tree(&b);
    ls_queue_destroy(&b.queue);
    ls_device_destroy(&b.device);
    ls_comm_destroy(&b.comm);
    return 0;
}
