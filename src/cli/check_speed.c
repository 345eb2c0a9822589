// Memory bandwidth and what an exchange costs: measured by all workers at once, as in training.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/clones.h"
#include "base/error.h"
#include "base/median.h"
#include "base/memory.h"
#include "cli/check.h"

// --- memory bandwidth ------------------------------------------------------------------------------------------------

#define TRIAD_SECONDS 0.25
#define TRIAD_CACHES  4                    // the arrays together are so many times the caches under them
#define TRIAD_LEAST   ((int64_t)24 << 20)  // bytes per thread

typedef struct triad {
    const ls_topology *topology;
    int core;   // -1: unbound
    int64_t n;  // doubles in each of the three arrays
    atomic_int *ready, *go;
    double bytes_per_second;  // 0: there was no memory for the arrays
} triad;

LS_CLONES static void pass(double *restrict a, const double *restrict b, const double *restrict c, int64_t n) {
    for (int64_t i = 0; i < n; i++) a[i] = b[i] + 3.0 * c[i];
}

static void *run_triad(void *argument) {
    triad *t = argument;
    double *a[3] = {NULL, NULL, NULL};
    if (t->core >= 0) ls_topology_bind(t->topology, t->core, 1);
    int ok = 1;
    for (int i = 0; i < 3 && ok; i++) ok = ls_memory_alloc(t->n * (int64_t)sizeof(double), &a[i]) == LS_OK;
    atomic_fetch_add(t->ready, 1);
    while (!atomic_load(t->go)) usleep(100);
    double start = ls_clock(), seconds = 0, passes = 0;
    for (; ok && seconds < TRIAD_SECONDS; passes++, seconds = ls_clock() - start) {
        pass(a[0], a[1], a[2], t->n);
        // Another pass may read what this one wrote, for all the compiler knows.
        __asm__ volatile("" ::: "memory");
    }
    t->bytes_per_second = ok ? passes * 3.0 * sizeof(double) * (double)t->n / seconds : 0;
    for (int i = 0; i < 3; i++) ls_memory_free(a[i]);
    return NULL;
}

// Doubles per array, such that the threads together go far beyond the caches and stay far within the memory.
static int64_t triad_length(const check_facts *f, int threads) {
    int sharers;
    int64_t cache = check_cache(&sharers);
    if (cache <= 0) cache = 32 << 20;
    int64_t on_host = (int64_t)threads * f->sharers, sharing = sharers < on_host ? sharers : on_host;
    int64_t bytes = TRIAD_CACHES * cache / (sharing > 0 ? sharing : 1);
    if (bytes < TRIAD_LEAST) bytes = TRIAD_LEAST;
    if (f->memory_available > 0 && bytes > f->memory_available / 4 / on_host) bytes = f->memory_available / 4 / on_host;
    return bytes / 3 / (int64_t)sizeof(double) + 1;
}

ls_status check_bandwidth(check *c) {
    check_facts *f = &c->mine.facts;
    int wanted = f->cores > 0 ? f->cores : 1, threads = 0;
    atomic_int ready = 0, go = 0;
    triad *t;
    pthread_t *thread;
    LS_TRY(ls_calloc(wanted, sizeof *t, &t));
    ls_status status = ls_calloc(wanted, sizeof *thread, &thread);
    int64_t n = triad_length(f, wanted);
    for (int i = 0; i < wanted && status == LS_OK; i++) {
        t[i] = (triad){.topology = c->topology, .core = f->cores > 0 ? i : -1, .n = n, .ready = &ready, .go = &go};
        if (pthread_create(&thread[i], NULL, run_triad, &t[i]) != 0) break;
        threads++;
    }
    while (atomic_load(&ready) < threads) usleep(100);
    if (status == LS_OK) status = ls_context_barrier(c->context);
    atomic_store(&go, 1);
    double sum = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        sum += t[i].bytes_per_second;
    }
    free(t);
    free(thread);
    LS_TRY(status);
    f->bandwidth = sum;
    f->bandwidth_per_core = f->cores > 0 && threads > 0 ? sum / threads : 0;  // of shared cores it says nothing
    if (sum > 0)
        check_say(&c->mine.line[CHECK_BANDWIDTH], CHECK_OK, NULL, "%.1f GB/s, triad on %d core%s", sum / 1e9, threads,
                  threads == 1 ? "" : "s");
    else
        check_say(&c->mine.line[CHECK_BANDWIDTH], CHECK_WARN, "Free memory and look again.",
                  "could not be measured: no memory for its arrays");
    return LS_OK;
}

// --- exchange --------------------------------------------------------------------------------------------------------

#define EXCHANGE_FLOATS  690624  // the parameters of mnist-cnn, padded
#define EXCHANGE_SECONDS 0.25
#define EXCHANGE_BLOCK   4
#define EXCHANGE_STEPS   300  // at most: a multiple of the block

// The median over steps. Worker 0's clock says after each few whether there is time for more: on a busy machine one step can
// take as long as hundreds do on an idle one.
static ls_status measure_exchange(check *c, ls_exchange_bench *bench, double *median) {
    double seconds[EXCHANGE_STEPS], unused;
    int32_t more = 1;
    int steps = 0;
    for (int i = 0; i < 3; i++) LS_TRY(ls_exchange_bench_step(bench, &unused));
    double start = ls_clock();
    while (more) {
        for (int i = 0; i < EXCHANGE_BLOCK; i++) LS_TRY(ls_exchange_bench_step(bench, &seconds[steps++]));
        more = steps < EXCHANGE_STEPS && ls_clock() - start < EXCHANGE_SECONDS;
        LS_TRY(ls_context_broadcast(c->context, &more, sizeof more, 0));
    }
    *median = ls_median(seconds, steps);
    return LS_OK;
}

ls_status check_exchange(check *c) {
    check_line *l = &c->mine.line[CHECK_EXCHANGE];
    if (c->info.size == 1) {
        check_say(l, CHECK_OK, NULL, "not measured for one worker (--workers 2 does)");
        return LS_OK;
    }
    ls_exchange_bench *bench;
    if (ls_exchange_bench_create(c->context, EXCHANGE_FLOATS, "adam", "none", "auto", c->mine.facts.cores > 0,
                                 &bench) != LS_OK) {  // on every worker
        check_say(l, CHECK_FAIL, "Without it several workers cannot train; one worker with more replicas can.", "%s",
                  ls_error_message());
        return LS_OK;
    }
    double seconds = 0;
    c->cli->stage = CLI_STAGE_ALONE;
    LS_TRY(measure_exchange(c, bench, &seconds));
    c->cli->stage = CLI_STAGE_TOGETHER;
    ls_exchange_bench_destroy(&bench);
    c->mine.facts.exchange = seconds;
    double rate = 4.0 * EXCHANGE_FLOATS / seconds / 1e9;
    if (c->info.hosts > 1 && rate < 0.3)
        check_say(
            l, CHECK_WARN,
            "Is that the fast network? Ask the site which of MPI's settings choose it; large models will wait for it.",
            "%.2f GB/s between hosts: %.2f ms a step of 690,624 gradients", rate, 1e3 * seconds);
    else if (rate < 0.3)
        check_say(l, CHECK_WARN,
                  "Workers wait for each other: use no more of them than cores, and see what else runs here.",
                  "%.2f GB/s: %.2f ms a step of 690,624 gradients", rate, 1e3 * seconds);
    else
        check_say(l, CHECK_OK, NULL, "%.1f GB/s: %.2f ms to exchange and update 690,624 parameters", rate,
                  1e3 * seconds);
    return LS_OK;
}
