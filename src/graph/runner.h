// A plan with memory of its own on its device, on one queue: for predictions, measurements and tests. Training has engines that own
// the weights, and does without.
#ifndef LS_GRAPH_RUNNER_H
#define LS_GRAPH_RUNNER_H

#include "graph/plan.h"

typedef struct ls_runner {
    const ls_graph *graph;
    ls_device *device;
    ls_params *params;
    int borrows;  // 1: params, and the weights in their layout, are another runner's
    ls_plan *plan;
    ls_queue *queue;
    int64_t batch;
    ls_buffer *arena, *weights, *copies, *gradient, *random;
    ls_buffer **inputs;  // (the graph's inputs): a batch of each that the plan reads
    ls_span *spans;      // the same
    ls_feeds feeds;
} ls_runner;

// A plan of the graph and all it needs; weights, inputs and gradient are zero, samples are numbered from 0. With `weights` those of
// another runner on the same device and store are used, which must outlive this one. Borrows graph and device. Errors: those of
// ls_plan_create, OUT_OF_MEMORY.
ls_status ls_runner_create(const ls_graph *graph, ls_device *device, const ls_plan_config *config, ls_runner *weights,
                           ls_runner **out);
void ls_runner_destroy(ls_runner **runner);

// A parameter in Keras's shape and order. After the last is set, ls_runner_refresh lets the plan know.
ls_status ls_runner_set(ls_runner *runner, int param, const float *plain);
ls_status ls_runner_get(ls_runner *runner, int param, ls_buffer *vector,
                        float *plain);  // of the weights or the gradient
ls_status ls_runner_refresh(ls_runner *runner);
// The weights that a seed draws, and the refreshing.
ls_status ls_runner_initialize(ls_runner *runner, uint64_t seed);

// A batch of input `index`: F32 or I32 values in plain order; floating ones become what the plan reads.
ls_status ls_runner_write(ls_runner *runner, int index, const void *values);
// Of what random draws are keyed by: seed, epoch, and (batch) samples, NULL: 0, 1, 2, ...
ls_status ls_runner_key(ls_runner *runner, uint64_t seed, uint64_t epoch, const uint64_t *samples);
// Runs forward, or backward after it, to the end. measures (may be NULL): ls_plan_measure_count doubles.
ls_status ls_runner_forward(ls_runner *runner, double *measures);
ls_status ls_runner_backward(ls_runner *runner);
// The rows of the latest forward of an evaluation: ls_plan_row_count doubles.
ls_status ls_runner_rows(ls_runner *runner, double *rows);
// Output `index` of a prediction, of the first `samples` of the batch: (samples, ...) F32.
ls_status ls_runner_read(ls_runner *runner, int index, int64_t samples, float *out);

#endif
