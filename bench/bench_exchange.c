// What a step costs after backward: bench_exchange [FLOATS [MICRO_BATCHES [REPLICAS [STEPS [STRATEGY [MEGABYTES]]]]]], alone or under mpirun; with STRATEGY that one
// alone. Before each gradient a lane goes through so many MEGABYTES, as a network does through activations (0: none,
// and gradients of all micro-batches may stay in caches that are large enough).
//
// For each strategy the median over steps of the slowest lane's time, beside a floor: the same additions and the same update
// of each lane's slice in one plain pass over memory of its own, without meeting anyone; after the same writing of gradients,
// which leaves the caches as it does in a step.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "must.h"
#include "step/engine.h"

typedef struct bench {
    ls_comm *comm;
    ls_device *device;
    ls_queue *queue;  // of all lanes: the device does everything at once
    ls_engine *engine;
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

// Writes the gradients of one lane, as backward would.
static void write_gradients(lane *l, const ls_step_info *info, ls_step_times *times) {
    bench *b = l->bench;
    ls_step_run run;
    MUST(ls_engine_begin(b->engine, l->replica, b->queue, info, NULL, times));
    while (ls_engine_next(b->engine, l->replica, &run)) {
        if (!run.backward) continue;
        for (int64_t i = 0; i < b->between; i++) l->activations[i] += 1;
        float *g = ls_span_host(run.gradient);
        for (int64_t i = 0; i < b->length; i++) g[i] = (float)(i % 7) + (float)run.micro_batch;
        if (run.last) break;
    }
    ls_engine_host_barrier(b->engine);  // nobody waits for another's backward in what is timed
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
        ls_step_times times = {.since = ls_clock()};
        ls_vote unused;
        write_gradients(l, &info, &times);
        MUST(ls_engine_end(b->engine, l->replica, &unused));
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
        ls_step_times times = {.since = ls_clock()};
        ls_vote unused;
        write_gradients(l, &info, &times);
        double start = times.since = ls_clock();
        MUST(ls_engine_end(b->engine, l->replica, &unused));
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
    ls_engine_config config = {.comm = b->comm,
                               .device = b->device,
                               .lanes = b->replicas,
                               .length = b->length,
                               .micro_batches = b->micro_batches,
                               .optimizer = b->optimizer,
                               .params = b->params,
                               .spin = 20000};
    MUST(ls_engine_create(name, &config, &b->engine));
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
               update, floor, step / floor, (double)ls_engine_memory_bytes(b->engine) / 1e6);
    for (int r = 0; r < b->replicas; r++) {
        free(lanes[r].seconds);
        free(lanes[r].update);
        free(lanes[r].floor);
        free(lanes[r].activations);
    }
    free(lanes);
    free(threads);
    ls_engine_destroy(&b->engine);
}

int main(int argc, char **argv) {
    bench b = {.length = argc > 1 ? atoll(argv[1]) : 690624,
               .micro_batches = argc > 2 ? atoll(argv[2]) : 8,
               .replicas = argc > 3 ? atoi(argv[3]) : 1,
               .steps = argc > 4 ? atoi(argv[4]) : 200,
               .between = argc > 6 ? atoll(argv[6]) * 250000 : 0,
               .params = {-1, -1, -1, -1, -1, -1, -1, -1, 0}};
    const char *only = argc > 5 ? argv[5] : NULL;
    if (b.replicas < 1 || b.steps < 1 || b.micro_batches < 1 || b.length < 1 || b.between < 0) {
        fprintf(stderr, "usage: bench_exchange [FLOATS [MICRO_BATCHES [REPLICAS [STEPS [STRATEGY [MEGABYTES]]]]]]\n");
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
    for (const ls_strategy *s = ls_strategies(); s->name; s++) {
        int servers = 0;
        if (only && strcmp(only, s->name) != 0) continue;
        if (ls_strategy_assign(s, b.comm->size, &servers) == LS_OK) measure(&b, s->name);
    }
    ls_queue_destroy(&b.queue);
    ls_device_destroy(&b.device);
    ls_comm_destroy(&b.comm);
    return 0;
}
