// Parts of training measured apart from it: what the kernels of a network take, beside the fastest there are, what an exchange costs, and what
// a loader gives.
#ifndef LOCKSTEP_BENCH_H
#define LOCKSTEP_BENCH_H

#include <lockstep/context.h>
#include <lockstep/data.h>
#include <lockstep/graph.h>
#include <lockstep/train.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// --- layers ----------------------------------------------------------------------------------------------------------
//
// In rounds that can be spread over a longer measurement, so that both see the same machine. Not collective: of this worker's cores.

#define LS_LAYER_BENCH_ROUNDS 64  // what is kept of them; a later round takes the place of the last

// A step of the plan: one pass of one layer, or of several that are computed together. Seconds are of a micro-batch.
typedef struct ls_layer_time {
    char node[48], pass[24], implementation[48], fastest[48];  // fastest: "" where nothing is computed
    double flops;
    double bytes;          // read and written, each once
    double seconds;        // in the plan: median over rounds, mean over threads
    double limit_seconds;  // what the machine's limit would allow: its arithmetic or its bytes, whichever takes longer
    // The least time any kernel for this shape took in any round, the library's fastest by itself or the plan's own, mean over
    // threads: what has been done can be done, so nothing is below it. 0 where nothing is computed.
    double floor_seconds;
} ls_layer_time;

typedef struct ls_layer_bench ls_layer_bench;

// Of a graph without losses, trained as a classifier with config's micro_batch (resolved), precision, device, threads and seed.
// floor: 1: the fastest kernels are looked for too. To be called before a trainer binds the calling thread: it remembers which
// processors there are. Borrows graph and config. The caller destroys it. Errors: OUT_OF_MEMORY.
ls_status ls_layer_bench_create(const ls_graph *graph, const ls_train_config *config, int floor, ls_layer_bench **out);
// Starts `threads` threads, as many as there are to be replicas, that each make a plan of the graph for one micro-batch and find the
// fastest kernel for each of its steps. Once. Errors: OUT_OF_MEMORY, those of plans; UNSUPPORTED when the device has no library to search.
ls_status ls_layer_bench_start(ls_layer_bench *bench, int threads);
void ls_layer_bench_destroy(ls_layer_bench **bench);
// The machine's limit, measured by the threads at once in the first round: what they can do together.
typedef struct ls_machine_limit {
    char instructions[32];       // by which the arithmetic was measured; "": the device does not know
    double flops, bytes;         // a second
    double micro_batch_seconds;  // of all steps of the plan
} ls_machine_limit;

// One round on all threads at once: every step of the plan, then every fastest kernel, the least of three. Returns the sum over steps
// of what took least, that kernel or the plan's own, mean over threads.
double ls_layer_bench_round(ls_layer_bench *bench);
int ls_layer_bench_count(const ls_layer_bench *bench);  // steps of the plan, once started
ls_layer_time ls_layer_bench_get(const ls_layer_bench *bench, int index);
ls_machine_limit ls_layer_bench_limit(const ls_layer_bench *bench);  // after the first round

// --- exchange --------------------------------------------------------------------------------------------------------

// Exchange and update as a training step has them, with nothing computed in between: each worker brings one micro-batch's gradient.
typedef struct ls_exchange_bench ls_exchange_bench;

// For `count` parameters (rounded up to what divides well), by the strategy allreduce and an optimizer ("adam", "sgd"), with gradients
// compressed and sent as ls_train_config.compress and .algorithm say. `own_cores`: 1: each worker has cores of its own and may
// spin while it waits; 0: they share cores. Borrows the context. Collective. The caller destroys it.
// Errors, on every worker: INVALID_ARGUMENT (no parameters, an unknown compression or algorithm), NOT_FOUND (the optimizer), OUT_OF_MEMORY, and those of a communication that is not possible here.
ls_status ls_exchange_bench_create(ls_context *context, int64_t count, const char *optimizer, const char *compress,
                                   const char *algorithm, int own_cores, ls_exchange_bench **out);
void ls_exchange_bench_destroy(ls_exchange_bench **bench);
// One step: *seconds from the last worker's gradient to the new weights. Collective. Errors: LIBRARY, which may be one worker's alone.
ls_status ls_exchange_bench_step(ls_exchange_bench *bench, double *seconds);

// What the same gradients take otherwise, in seconds of the slowest worker.
typedef struct ls_exchange_times {
    double step;       // as ls_exchange_bench_step: summed, applied, and the new weights are with all
    double allreduce;  // MPI_Allreduce of the gradients alone
    double
        update;  // what then is left to do without us: each worker applies the sum to all weights, of its own (plain descent)
    double
        limit;  // the least for the bytes that must move: between hosts as messages to a neighbour take them, on one host as loops over memory do
} ls_exchange_times;
// One of each, one after the other, each begun by all workers at once. Takes memory of its own on the first call: three times the gradients. Collective.
// Errors: OUT_OF_MEMORY, on every worker; LIBRARY, which may be one worker's alone.
ls_status ls_exchange_bench_compare(ls_exchange_bench *bench, ls_exchange_times *out);

// --- data ------------------------------------------------------------------------------------------------------------

// A loader by itself: samples of the training set are read, decoded and prepared as for training, in the order of training, and given back at once.
typedef struct ls_data_bench ls_data_bench;

// By config's options of images, precision, seed, shuffle and loader_threads (which are all there are); batches have `batch` samples. Borrows
// the dataset. Not collective. The caller destroys it. Errors: INVALID_ARGUMENT (no images of U8; images of different sizes, and no image_size; those of the
// options), LIBRARY (no threads), OUT_OF_MEMORY.
ls_status ls_data_bench_create(const ls_dataset *dataset, const ls_train_config *config, int64_t batch,
                               ls_data_bench **out);
void ls_data_bench_destroy(ls_data_bench **bench);

typedef struct ls_data_round {
    int64_t samples;
    double seconds;
    double cpu_seconds;  // that this process computed meanwhile, in all threads
} ls_data_round;

// Loads the next `samples` of the training set, fewer at the end of an epoch; the next round goes on there. Errors: INVALID_ARGUMENT (none), those of reading a sample.
ls_status ls_data_bench_round(ls_data_bench *bench, int64_t samples, ls_data_round *out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
