// Timing the kernels of a plan one by one, beside the fastest that the kernel library has for their shapes.
#define _GNU_SOURCE
#include <lockstep/bench.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/barrier.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/median.h"
#include "base/memory.h"
#include "graph/graph.h"
#include "graph/runner.h"

// What one thread measures with, and what it measured.
typedef struct bench_thread {
    ls_layer_bench *all;
    pthread_t thread;
    ls_device *device;
    ls_graph *objective;  // the network with a loss; NULL: it has its own
    ls_runner *runner;
    int count;                         // steps of the plan
    ls_kernel **fastest;               // (count), NULL where nothing is computed
    ls_buffer *buffers[LS_ARG_COUNT];  // for the fastest kernels, one set for all
    double *seconds, *floor;           // (count, LS_LAYER_BENCH_ROUNDS)
    double floor_sum;                  // of the latest round
    ls_device_limits limits;
    ls_status status;
    char failure[1024];
} bench_thread;

struct ls_layer_bench {
    const ls_graph *graph;
    const ls_train_config *config;
    int threads, floor, rounds, leaving;
    bench_thread *thread;
    ls_barrier together;   // the threads and the caller
    cpu_set_t processors;  // the process's at its start
};

// --- setting up ------------------------------------------------------------------------------------------------------

static ls_status make_plan(bench_thread *t) {
    const ls_train_config *c = t->all->config;
    ls_device_options options = {.threads = c->threads, .isa = c->isa};
    ls_dtype precision;
    LS_TRY(ls_precision_find(c->precision, &precision));
    ls_plan_config config = {.batch = c->micro_batch, .precision = precision, .mode = LS_PLAN_TRAINING};
    LS_TRY(ls_device_create(c->device, &options, &t->device));
    const ls_graph *graph = t->all->graph;
    if (!ls__graph_has_losses(graph)) {
        LS_TRY(ls__graph_with_classifier_loss(graph, 0, 0, &t->objective));
        graph = t->objective;
    }
    LS_TRY(ls_runner_create(graph, t->device, &config, NULL, &t->runner));
    LS_TRY(ls_runner_initialize(t->runner, c->seed));
    t->count = ls_plan_step_count(t->runner->plan);
    LS_TRY(ls_calloc(t->count * LS_LAYER_BENCH_ROUNDS, sizeof(double), &t->seconds));
    LS_TRY(ls_calloc(t->count * LS_LAYER_BENCH_ROUNDS, sizeof(double), &t->floor));
    return ls_calloc(t->count, sizeof(ls_kernel *), &t->fastest);
}

static ls_status find_fastest(bench_thread *t) {
    int64_t bytes[LS_ARG_COUNT] = {0};
    for (int i = 0; i < t->count && t->all->floor; i++) {
        if (ls_plan_step(t->runner->plan, i).flops <= 0) continue;
        for (int k = 0; k < i && !t->fastest[i]; k++)
            if (t->fastest[k] && ls_plan_steps_equal(t->runner->plan, i, k)) t->fastest[i] = t->fastest[k];
        if (t->fastest[i]) continue;
        LS_TRY(ls_plan_step_fastest(t->runner->plan, i, &t->fastest[i]));
        for (int a = 0; a < LS_ARG_COUNT; a++) {
            const ls_layout *layout = t->fastest[i]->layout[a];
            int64_t needed = a == LS_ARG_SCRATCH ? t->fastest[i]->scratch_bytes : layout ? layout->bytes : 0;
            if (needed > bytes[a]) bytes[a] = needed;
        }
    }
    for (int a = 0; a < LS_ARG_COUNT; a++)
        if (bytes[a]) LS_TRY(ls_buffer_create(t->device, bytes[a], &t->buffers[a]));
    return LS_OK;
}

static void free_thread(bench_thread *t) {
    for (int i = 0; t->fastest && i < t->count; i++) {
        for (int k = i + 1; k < t->count; k++)
            if (t->fastest[k] == t->fastest[i]) t->fastest[k] = NULL;  // steps of equal work share a kernel
        ls_kernel_destroy(&t->fastest[i]);
    }
    for (int a = 0; a < LS_ARG_COUNT; a++) ls_buffer_destroy(&t->buffers[a]);
    ls_runner_destroy(&t->runner);
    ls_graph_destroy(&t->objective);
    ls_device_destroy(&t->device);
    free(t->fastest), free(t->seconds), free(t->floor);
}

// --- measuring -------------------------------------------------------------------------------------------------------

static ls_status find_limits(bench_thread *t) {
    ls_dtype precision;
    if (!t->device->ops->limits) return LS_OK;
    LS_TRY(ls_precision_find(t->all->config->precision, &precision));
    return t->device->ops->limits(t->device, precision, &t->limits);
}

static ls_status measure(bench_thread *t, int round) {
    ls_runner *r = t->runner;
    ls_span args[LS_ARG_COUNT] = {{0}};
    for (int a = 0; a < LS_ARG_COUNT; a++) args[a].buffer = t->buffers[a];
    double *took;
    if (round == 0) LS_TRY(find_limits(t));
    LS_TRY(ls_calloc(t->count, sizeof *took, &took));
    ls_status status = ls_plan_time_steps(r->plan, r->queue, &r->feeds, (ls_span){r->gradient, 0}, took);
    t->floor_sum = 0;
    for (int i = 0; i < t->count && status == LS_OK; i++) {
        double least = 0;
        // The least of three, or of one where that is long enough to tell.
        for (int k = 0; k < (least > 5e-3 ? 1 : 3) && t->fastest[i] && status == LS_OK; k++) {
            double start = ls_clock();
            status = ls_kernel_run(t->fastest[i], r->queue, args);
            double seconds = ls_clock() - start;
            if (k == 0 || seconds < least) least = seconds;
        }
        t->seconds[i * LS_LAYER_BENCH_ROUNDS + round] = took[i];
        t->floor[i * LS_LAYER_BENCH_ROUNDS + round] = least;
        t->floor_sum += t->fastest[i] && took[i] < least ? took[i] : least;
    }
    free(took);
    return status;
}

// Each thread, with those that its device makes, to processors of its own where there are enough: they would inherit the binding of the
// thread that made them.
static void spread(const bench_thread *t) {
    cpu_set_t mine;
    int own = t->all->config->threads > 1 ? t->all->config->threads : 1, first = (int)(t - t->all->thread) * own,
        seen = 0;
    CPU_ZERO(&mine);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &t->all->processors)) continue;
        if (seen >= first && seen < first + own) CPU_SET(cpu, &mine);
        seen++;
    }
    if (seen < first + own) mine = t->all->processors;
    sched_setaffinity(0, sizeof mine, &mine);
}

static void *thread_main(void *user) {
    bench_thread *t = user;
    spread(t);
    // One after the other: with two threads that run implementations for the first time, oneDNN 2.6's gemm convolution has been seen to crash.
    static pthread_mutex_t setting_up = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&setting_up);
    t->status = make_plan(t);
    if (t->status == LS_OK) t->status = find_fastest(t);
    pthread_mutex_unlock(&setting_up);
    for (;;) {
        if (t->status != LS_OK) snprintf(t->failure, sizeof t->failure, "%s", ls_error_message());
        ls_barrier_wait(&t->all->together);  // the last round, or the setting up, is done
        ls_barrier_wait(&t->all->together);  // the next begins
        if (t->all->leaving) return NULL;
        if (t->status == LS_OK) t->status = measure(t, t->all->rounds);
    }
}

ls_status ls_layer_bench_create(const ls_graph *graph, const ls_train_config *config, int floor, ls_layer_bench **out) {
    LS_NEED(out, "out");
    *out = NULL;
    LS_NEED(graph, "graph");
    LS_NEED(config, "config");
    ls_layer_bench *l;
    LS_TRY(ls_memory_alloc(sizeof *l, &l));
    *l = (ls_layer_bench){.graph = graph, .config = config, .floor = floor};
    sched_getaffinity(0, sizeof l->processors, &l->processors);
    *out = l;
    return LS_OK;
}

ls_status ls_layer_bench_start(ls_layer_bench *l, int threads) {
    LS_NEED(l, "bench");
    LS_TRY(ls_calloc(threads, sizeof *l->thread, &l->thread));
    ls_barrier_init(&l->together, threads + 1, 0);
    int status = 0;
    for (int i = 0; i < threads && status == 0; i++) {
        l->thread[i].all = l;
        status = pthread_create(&l->thread[i].thread, NULL, thread_main, &l->thread[i]);
        l->threads += status == 0;
    }
    l->together.participants = (uint32_t)l->threads + 1;  // fewer than planned when starting them failed halfway
    ls_barrier_wait(&l->together);
    if (status != 0)
        return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "could not start thread %d of %d: %s", l->threads, threads,
                       strerror(status));
    for (int i = 0; i < threads; i++)
        if (l->thread[i].status != LS_OK) return LS_FAIL(l->thread[i].status, "%s", l->thread[i].failure);
    return LS_OK;
}

void ls_layer_bench_destroy(ls_layer_bench **layers) {
    if (!layers) return;
    ls_layer_bench *l = *layers;
    if (!l) return;
    l->leaving = 1;
    if (l->threads > 0) {
        ls_barrier_wait(&l->together);
        for (int i = 0; i < l->threads; i++) {
            pthread_join(l->thread[i].thread, NULL);
            free_thread(&l->thread[i]);
        }
    }
    free(l->thread);
    ls_memory_free(l);
    *layers = NULL;
}

double ls_layer_bench_round(ls_layer_bench *l) {
    if (!l || !l->thread) return 0;
    ls_barrier_wait(&l->together);
    ls_barrier_wait(&l->together);
    double sum = 0;
    for (int i = 0; i < l->threads; i++) sum += l->thread[i].floor_sum / l->threads;
    if (l->rounds < LS_LAYER_BENCH_ROUNDS - 1) l->rounds++;
    return sum;
}

int ls_layer_bench_count(const ls_layer_bench *l) {
    if (!l || !l->thread) return 0;
    return l->thread[0].count;
}

static double over_threads(const ls_layer_bench *l, int index, size_t offset) {
    double sum = 0, values[LS_LAYER_BENCH_ROUNDS];
    for (int t = 0; t < l->threads; t++) {
        const double *all = *(double *const *)((const char *)&l->thread[t] + offset);
        memcpy(values, all + index * LS_LAYER_BENCH_ROUNDS, sizeof values);
        sum += ls_median(values, l->rounds) / l->threads;
    }
    return sum;
}

static double least_over_threads(const ls_layer_bench *l, int index) {
    double sum = 0;
    for (int t = 0; t < l->threads; t++) {
        const double *floor = l->thread[t].floor + index * LS_LAYER_BENCH_ROUNDS;
        const double *plan = l->thread[t].seconds + index * LS_LAYER_BENCH_ROUNDS;
        double least = l->rounds > 0 ? floor[0] : 0;
        for (int r = 0; r < l->rounds; r++) {
            if (floor[r] < least) least = floor[r];
            if (plan[r] < least) least = plan[r];
        }
        sum += least / l->threads;
    }
    return sum;
}

// Mean over threads.
static double limit_seconds(const ls_layer_bench *l, const ls_plan_step_info *step) {
    double sum = 0;
    for (int t = 0; t < l->threads; t++) {
        const ls_device_limits *limits = &l->thread[t].limits;
        if (!limits->instructions) return 0;
        double flops = step->flops / limits->flops, bytes = (double)step->bytes / limits->bytes;
        sum += (flops > bytes ? flops : bytes) / l->threads;
    }
    return sum;
}

ls_machine_limit ls_layer_bench_limit(const ls_layer_bench *l) {
    ls_machine_limit all = {.flops = 0};
    if (!l) return all;
    for (int t = 0; t < l->threads && l->thread[t].limits.instructions; t++) {
        const ls_device_limits *limits = &l->thread[t].limits;
        snprintf(all.instructions, sizeof all.instructions, "%s", limits->instructions);
        all.flops += limits->flops, all.bytes += limits->bytes;
    }
    for (int i = 0; i < ls_layer_bench_count(l); i++) {
        ls_plan_step_info step = ls_plan_step(l->thread[0].runner->plan, i);
        all.micro_batch_seconds += limit_seconds(l, &step);
    }
    return all;
}

ls_layer_time ls_layer_bench_get(const ls_layer_bench *l, int index) {
    if (index < 0 || index >= ls_layer_bench_count(l)) return (ls_layer_time){0};
    ls_plan_step_info info = ls_plan_step(l->thread[0].runner->plan, index);
    const ls_kernel *fastest = l->thread[0].fastest[index];
    ls_layer_time r = {.flops = info.flops,
                       .bytes = (double)info.bytes,
                       .limit_seconds = limit_seconds(l, &info),
                       .seconds = over_threads(l, index, offsetof(bench_thread, seconds)),
                       .floor_seconds = fastest ? least_over_threads(l, index) : 0};
    snprintf(r.node, sizeof r.node, "%s", info.node);
    snprintf(r.pass, sizeof r.pass, "%s", info.pass);
    snprintf(r.implementation, sizeof r.implementation, "%s", info.implementation);
    snprintf(r.fastest, sizeof r.fastest, "%s", fastest ? fastest->name : "");
    return r;
}
