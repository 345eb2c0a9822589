// A plan: a graph compiled for one device, one batch size and one precision. Kernels are created, layouts chosen, ReLU and
// bias fused, every buffer placed in one arena by its lifetime. Running it walks two flat lists of steps; it allocates
// nothing. A plan belongs to one replica (one thread at a time).
#ifndef LS_GRAPH_PLAN_H
#define LS_GRAPH_PLAN_H

#include "base/trace.h"
#include "device/device.h"
#include "graph/graph.h"
#include "graph/segment.h"

// The parameter vector: where each parameter of a store lives in the one F32 vector that gradients, masters and optimizer state
// share the shape of, and which working copies of it kernels read. The first training plan decides the layouts; later
// plans (another batch size, inference, another graph) follow them, adding copies where their kernels want other ones.
// Parameters stand in the order in which backward completes their gradients, last layer first.
typedef struct ls_params ls_params;

// Borrows store and device.
ls_status ls_params_create(const ls_store *store, ls_device *device, ls_params **out);
void ls_params_destroy(ls_params **params);
int64_t ls_params_length(const ls_params *params);  // floats in the vector, a multiple of LS_VECTOR_ALIGN
int64_t ls_params_offset(const ls_params *params,
                         int index);  // where parameter `index` begins, in floats; -1: it is not placed
int64_t ls_params_copies_bytes(const ls_params *params);  // final once sealed
// From now on, places and copies stay as they are, because memory was made for them. Plans made later that want another copy of a
// parameter make it in every run, in their arena.
ls_status ls_params_seal(ls_params *params);
// Makes the working copies from the masters; part of parts, for several threads to share. Thread-safe across parts.
ls_status ls_params_refresh(ls_params *params, ls_queue *queue, ls_span weights, ls_span copies, int part, int parts);
// Between Keras's shape and order (`plain`, ls_shape_count floats on the host) and the vector; done on return.
// The same places, with kernels and memory of their own: what a thread reads vectors by (ls_params_get) while others do. Once sealed;
// destroyed before `params`. Errors: OUT_OF_MEMORY, those of the device.
ls_status ls_params_twin(const ls_params *params, ls_params **out);
ls_status ls_params_get(ls_params *params, ls_queue *queue, int index, ls_span vector, float *plain);
ls_status ls_params_set(ls_params *params, ls_queue *queue, int index, ls_span vector, const float *plain);
// Of a vector that comes home in pieces: the copies of parameters that have elements in [begin, end) and none in [low, high), which is all that is
// not home yet. Each copy is made once if each piece is named once. Threads as above.
ls_status ls_params_refresh_some(ls_params *params, ls_queue *queue, ls_span weights, ls_span copies, int64_t begin,
                                 int64_t end, int64_t low, int64_t high, int part, int parts);
// The placed parameters in the order of the vector, without gaps from 0 to its length, as `graph` trains them. Final once all plans
// are made; the caller frees *segments. Errors: OUT_OF_MEMORY.
ls_status ls_params_segments(const ls_params *params, const ls_graph *graph, ls_segment **segments, int *count);

typedef struct ls_plan ls_plan;

// Which activations forward does not keep for backward, which makes them again. Same bits in all cases.
typedef enum ls_remat {
    LS_REMAT_NONE,
    LS_REMAT_FULL,  // what passes over memory make, and convolutions between the sums that end a residual network's blocks
} ls_remat;

// What a plan is for, and so which part of its graph it computes.
typedef enum ls_plan_mode {
    LS_PLAN_TRAINING,    // losses, metrics, and backward
    LS_PLAN_EVALUATION,  // losses and metrics, as inference computes them
    LS_PLAN_PREDICTION,  // outputs; no targets, losses or metrics
} ls_plan_mode;

typedef struct ls_plan_config {
    int64_t batch;       // samples a run takes
    ls_dtype precision;  // F32, BF16 or F16: activations and working weights; masters, gradients and losses are F32
    ls_plan_mode mode;
    ls_remat remat;  // of a training plan
    int outputs;     // of an evaluation, 1: gives outputs, too
} ls_plan_config;

// The plan and what it adds to `params`. Borrows graph, device and params. Errors: UNSUPPORTED, OUT_OF_MEMORY, LIBRARY.
ls_status ls_plan_create(const ls_graph *graph, ls_device *device, ls_params *params, const ls_plan_config *config,
                         ls_plan **out);
void ls_plan_destroy(ls_plan **plan);

// Bytes of working memory a run needs: activations, workspaces, scratch. Plans that never run at once may share it.
int64_t ls_plan_arena_bytes(const ls_plan *plan);
// Bytes of the activations alone, before sharing memory by lifetime (for reports).
int64_t ls_plan_activation_bytes(const ls_plan *plan);

// What the arena holds at the step at which most of it is in use; the parts add up to its bytes.
typedef struct ls_arena_parts {
    int64_t activations;      // made by forward and still needed
    int64_t backward;         // gradients of activations, activations made again
    int64_t workspace;        // what kernels need beside: workspaces, scratch
    int64_t unused;           // between buffers
    const char *node, *pass;  // that step, as in ls_plan_step_info
} ls_arena_parts;
ls_arena_parts ls_plan_arena_parts(const ls_plan *plan);

// Gives the plan its memory and its weights: arena, master vector, copies. Must be called before running; may be
// called again.
void ls_plan_bind(ls_plan *plan, ls_span arena, ls_span weights, ls_span copies);

// What input `index` of the graph is fed with: (batch, ...) plain in this type. In a mode that does not read it: 0.
int ls_plan_feed(const ls_plan *plan, int index, ls_dtype *dtype);

// What one run brings along, in device memory.
typedef struct ls_feeds {
    const ls_span *inputs;  // by the graph's inputs; those it does not read may be empty
    ls_span random;         // ls_random_key of the batch
    ls_span scale;          // a float that the losses' gradients are multiplied by; empty: 1
} ls_feeds;

// Puts forward into the queue: up to the losses and metrics, or the outputs.
ls_status ls_plan_forward(ls_plan *plan, ls_queue *queue, const ls_feeds *feeds);

// Which buckets of the vector may be read: where each ends, and a flag of each.
typedef struct ls_buckets_ready {
    const int64_t *ends;  // (count)
    int count;
    const char *ready;
} ls_buckets_ready;

// Forward of a training plan, from step *next on, as far as it reads nothing of other buckets, neither masters nor copies; *next becomes where it goes
// on, or ls_plan_forward_steps.
ls_status ls_plan_forward_some(ls_plan *plan, ls_queue *queue, const ls_feeds *feeds, const ls_buckets_ready *ready,
                               int *next);
int ls_plan_forward_steps(const ls_plan *plan);
// The buckets in the order in which forward of a training plan reads them first, those that it does not read last: order is (count).
void ls_plan_forward_order(const ls_plan *plan, const int64_t *ends, int count, int *order);

// Backward of the same input: the gradient of the *sum* of the losses times feeds->scale, and statistics as they are, written to `gradient` (length
// floats, every element of a parameter that the graph trains overwritten).
ls_status ls_plan_backward(ls_plan *plan, ls_queue *queue, const ls_feeds *feeds, ls_span gradient);

// Where a backward is that is put into the queue in parts.
typedef struct ls_backward {
    int next;          // step
    int64_t complete;  // gradients before this one are complete
} ls_backward;
ls_backward ls_plan_backward_begin(const ls_plan *plan);
// Until the gradients [0, end) of the vector are complete and this run reads the weights of that part no more, neither masters nor copies; with all of the
// vector, to its end.
ls_status ls_plan_backward_until(ls_plan *plan, ls_queue *queue, const ls_feeds *feeds, ls_span gradient, int64_t end,
                                 ls_backward *at);

// What was the first in a forward that is no finite number.
typedef enum ls_found {
    LS_FOUND_NOTHING,
    LS_FOUND_INPUT,    // what the node was fed with
    LS_FOUND_WEIGHTS,  // a parameter of it
    LS_FOUND_OUTPUT,   // what it made of finite inputs and weights
} ls_found;

typedef struct ls_finding {
    ls_found what;
    const char *node, *parameter;  // the graph's, the store's; NULL: none
    char *samples;  // (batch), the caller's: 1 for those that it shows in, as soon as a layout tells samples apart
} ls_finding;

// Does forward once more, looking at all that each step reads and makes: what the run before left is the same afterwards. Slow. Errors:
// UNSUPPORTED (memory that is not the host's), those of the device.
ls_status ls_plan_examine(ls_plan *plan, ls_queue *queue, const ls_feeds *feeds, ls_finding *out);

// From now on runs record each step in `trace` while that is on, step i under the name `first` + i. NULL: nowhere. Not while running.
void ls_plan_record(ls_plan *plan, ls_trace *trace, int first);

// The losses and metrics of the latest forward, one after the other in the order of the graph: sums over its samples, doubles in
// device memory.
int ls_plan_measure_count(const ls_plan *plan);  // doubles
ls_span ls_plan_measures(const ls_plan *plan);
// The rows of those that have them (LS_OP_ROWS) in evaluation: (batch, row) of each, one after the other in the order of the graph.
int ls_plan_row_count(const ls_plan *plan);  // doubles
ls_span ls_plan_rows(const ls_plan *plan);
// Output `index` of the graph as of the latest forward of a plan that gives them: (batch, ...) plain F32, until the next run.
ls_span ls_plan_output(const ls_plan *plan, int index);

// For `lockstep bench` and reports: the steps of the plan.
typedef struct ls_plan_step_info {
    const char *node, *pass, *implementation;
    double flops;
    int64_t bytes;  // of what it reads and writes, each once
} ls_plan_step_info;
int ls_plan_step_count(const ls_plan *plan);
ls_plan_step_info ls_plan_step(const ls_plan *plan, int index);
// The kernel library's fastest implementation for a step that computes (flops > 0), whatever layouts it wants; found by
// measuring all of them now. The caller destroys it. Errors: UNSUPPORTED (the device has no library to search).
ls_status ls_plan_step_fastest(ls_plan *plan, int index, ls_kernel **out);
// Whether two steps are the same work for the kernel library: one search serves both.
int ls_plan_steps_equal(const ls_plan *plan, int one, int other);
// Runs forward and backward once, one step after the other, adding each step's seconds to seconds[i] (ls_plan_step_count of them).
ls_status ls_plan_time_steps(ls_plan *plan, ls_queue *queue, const ls_feeds *feeds, ls_span gradient, double *seconds);

#endif
