// Data-parallel training for programs that compute their gradients themselves: what Horovod's DistributedOptimizer and the reducer of PyTorch's
// DistributedDataParallel do for a loop of one's own. Four calls: create, "these gradients are ready", wait, destroy.
//
// A step's batch is cut into a fixed number of micro-batches, and the workers share these out. A worker goes through its own, one after the other, and tells of
// every parameter whose gradient it has; then it waits. The gradients of all micro-batches are added up in a binary tree over the micro-batches' numbers (docs/design.md), so the result
// has **the same bits on any number of workers**, one included, as long as the gradient of a micro-batch has.
//
//     #include <lockstep/exchange.h>
//
//     void backward(int step, int64_t micro_batch, const float *weights, float *gradient);  // the program's own
//
//     ls_status train(ls_context *workers, float *weights, float *gradient, int64_t count, int steps) {
//         const ls_exchange_parameter parameters[] = {{.count = count, .weights = weights, .gradient = gradient}};
//         ls_exchange_config config;
//         ls_exchange *exchange;
//         ls_exchange_config_init(&config);
//         config.parameters = parameters, config.parameter_count = 1;
//         config.micro_batches = 8;
//         config.optimizer = "sgd", config.lr = 0.1;
//         ls_status status = ls_exchange_create(workers, &config, &exchange);
//         for (int step = 0; status == LS_OK && step < steps; step++) {
//             int64_t m, end;
//             status = ls_exchange_deal(exchange, &m, &end);
//             for (; status == LS_OK && m < end; m++) {
//                 backward(step, m, weights, gradient);
//                 status = ls_exchange_ready(exchange, 0);
//             }
//             if (status == LS_OK) status = ls_exchange_wait(exchange);
//         }
//         ls_exchange_destroy(&exchange);
//         return status;
//     }
//
// Between hosts, gradients travel in buckets, each as soon as all workers of a host have told of its parameters in their last micro-batch, while backward goes on
// (where MPI allows a second thread to communicate); so tell of each when it is there, not of all at the end. Until ls_exchange_wait has returned, only that thread may communicate: no other collective call, and no MPI
// call of the program's own unless MPI runs with MPI_THREAD_MULTIPLE.
//
// All calls are made by each worker's main thread. A program that does so runs alone or under mpirun/srun unchanged.
#ifndef LOCKSTEP_EXCHANGE_H
#define LOCKSTEP_EXCHANGE_H

#include <lockstep/context.h>
#include <lockstep/status.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct ls_exchange ls_exchange;

#define LS_EXCHANGE_MOST_MICRO_BATCHES 65536

// A parameter, as forward uses them: backward completes the gradients of the last ones first.
typedef struct ls_exchange_parameter {
    const char *name;  // for sentences; NULL: its number
    int64_t count;     // elements
    // (count), the program's: where ls_exchange_create puts worker 0's on all workers, and, with an optimizer, ls_exchange_wait the new ones.
    // Without an optimizer NULL is fine.
    float *weights;
    // (count), the program's: a micro-batch's gradient when ls_exchange_ready is told of it, free to be written again on return. Without an optimizer
    // ls_exchange_wait puts the mean here. NULL: there is none; gradients are written where ls_exchange_gradient says, and nothing is copied.
    float *gradient;
    int bias;  // 1: a bias, or a scale or shift of a normalization: lars and lamb do not adapt its rate
} ls_exchange_parameter;

// ls_exchange_config_init sets every field to its default; then set what is to differ. The same on all workers, but for the arrays.
typedef struct ls_exchange_config {
    const ls_exchange_parameter *parameters;  // (parameter_count); copied, the arrays are borrowed
    int parameter_count;
    int64_t
        micro_batches;  // of a step, over all workers together; to be set, to LS_EXCHANGE_MOST_MICRO_BATCHES at most
    // What the sum of their gradients is divided by. 0 (the default): micro_batches, for gradients that are means over a micro-batch; where they are sums over its
    // samples, the samples of a step.
    int64_t samples;
    // "none" (the default): ls_exchange_wait gives the mean gradient. Else it updates the weights with it: "sgd", "adam", "adamw", "lars", "lamb". The optimizer's state is kept once,
    // spread over all workers.
    const char *optimizer;
    double lr, momentum, beta1, beta2, epsilon, weight_decay;  // < 0 (the default): the optimizer's own
    double l2;  // coupled weight decay, as in ls_train_config; 0 (the default): none
    int nesterov;
    double trust_coefficient;  // of lars; < 0: its own
    double clip_norm;          // a mean gradient with a larger norm is scaled down to it; 0 (the default): none
    const char *strategy;      // as in ls_train_config; default "allreduce". The same bits with all of them
    int servers;
    const char *algorithm;  // as in ls_train_config; default "auto"
    const char *compress;   // as in ls_train_config; default "none"
    double bucket_size;     // as in ls_train_config, in megabytes; default 0
} ls_exchange_config;

void ls_exchange_config_init(ls_exchange_config *config);

// Worker 0's weights come to all. Borrows the context and the parameters' arrays. Collective. The caller destroys it.
// Errors, on every worker: INVALID_ARGUMENT (what is not set or cannot be), NOT_FOUND (the optimizer, the strategy), MISMATCH (workers ask for different things),
// OUT_OF_MEMORY, LIBRARY.
ls_status ls_exchange_create(ls_context *context, const ls_exchange_config *config, ls_exchange **out);
// Collective. In the middle of a step, after a failure, it waits for nobody, and leaves the memory that messages may still come for; workers
// that wait for this one are not released by it: end the program.
void ls_exchange_destroy(ls_exchange **exchange);

// The micro-batches of the coming, or running, step that this worker computes: [*begin, *end) of 0 .. micro_batches - 1. There may be none. Not collective.
ls_status ls_exchange_deal(const ls_exchange *exchange, int64_t *begin, int64_t *end);

// The gradient of parameter `parameter` of the worker's next micro-batch is there: it goes to the exchange. Every micro-batch needs all of its parameters, in any order, before the
// next one begins. In the last micro-batch the parameter's weights, as ls_exchange_result has them, are not read any more either. Waits for nobody. Not collective.
// Errors: INVALID_ARGUMENT (there is no such parameter; it was told already, and another one is missing; there are no more micro-batches), those of an exchange that
// has failed.
ls_status ls_exchange_ready(ls_exchange *exchange, int parameter);
// Waits for the step's end: the gradients of all workers' micro-batches are added up and divided, the weights updated. Then the next step begins. Every worker calls it once in
// each step, also where it has no micro-batches. Collective.
// Errors: INVALID_ARGUMENT on every worker (one of them has not told of all its gradients; the sentence says which); LIBRARY, which may be one worker's alone: end the job with ls_context_abort.
// After either, an exchange can only be destroyed: its weights are of no use.
ls_status ls_exchange_wait(ls_exchange *exchange);

// --- more ------------------------------------------------------------------------------------------------------------

// The coming step has so many micro-batches, at most the configuration's (the last one of an epoch), and its sum is divided by `samples` (0: micro_batches).
// Before its first ls_exchange_ready; the same on all workers. Not collective. Errors: INVALID_ARGUMENT.
ls_status ls_exchange_next(ls_exchange *exchange, int64_t micro_batches, int64_t samples);
// The learning rate from the coming step on; the same on all workers. Not collective. Errors: INVALID_ARGUMENT (a negative one, no optimizer, a step has begun).
ls_status ls_exchange_set_rate(ls_exchange *exchange, double lr);
// Where the gradient of a parameter without an array is written for the worker's next micro-batch, until ls_exchange_ready is told of it; *out is (count), aligned to 64 bytes, and holds
// anything before. Not collective. Errors: INVALID_ARGUMENT.
ls_status ls_exchange_gradient(ls_exchange *exchange, int parameter, float **out);
// The weights after the latest step, or without an optimizer the mean gradient, where the exchange has them: *out is (count), to be read only, and only until ls_exchange_ready is told of
// the parameter in the worker's last micro-batch. Before the first step: the weights of the beginning, or zeros. Not collective. Errors: INVALID_ARGUMENT.
ls_status ls_exchange_result(const ls_exchange *exchange, int parameter, const float **out);

typedef struct ls_exchange_info {
    int64_t steps;  // so far
    int buckets;    // that gradients travel in
    int overlaps;   // 1: while backward goes on
    double seconds,
        hidden;  // in ls_exchange_wait, over all steps; of messages, sums and updates that went on while this worker computed
} ls_exchange_info;
ls_exchange_info ls_exchange_describe(const ls_exchange *exchange);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
