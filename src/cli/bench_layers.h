// Timing a model's kernels one by one, beside the fastest the kernel library has for the same shapes, in rounds that can be
// spread over a longer measurement so that both see the same machine.
#ifndef LS_CLI_BENCH_LAYERS_H
#define LS_CLI_BENCH_LAYERS_H

#include <lockstep/lockstep.h>

#define BENCH_MAX_ROUNDS 64

typedef struct bench_layer {
    char node[48], pass[24], implementation[48], fastest[48];
    double flops;
    double seconds;  // in the plan: median over rounds, mean over threads
    // The least time any kernel for this shape took in any round, the library's fastest by itself or the plan's own, mean over threads:
    // what has been done can be done, so nothing is below it. 0 where nothing is computed.
    double floor_seconds;
} bench_layer;

typedef struct bench_layers bench_layers;

// To be called before a trainer binds the calling thread: remembers which processors there are.
ls_status bench_layers_create(const ls_graph *graph, const ls_train_config *config, int floor, bench_layers **out);
// Starts threads that each make a plan of the model for one micro-batch and, when `floor` was set, find the fastest kernel for
// each of its steps. Errors: those of plans; UNSUPPORTED when the device has no library to search.
ls_status bench_layers_start(bench_layers *layers, int threads);
void bench_layers_destroy(bench_layers **layers);
// One round on all threads at once: every step of the plan, then every fastest kernel, the least of three. Returns the sum of
// the fastest kernels' seconds, mean over threads.
double bench_layers_round(bench_layers *layers);
int bench_layers_count(const bench_layers *layers);
bench_layer bench_layers_get(const bench_layers *layers, int index);

double bench_median(double *values, int count);  // sorts them

#endif
