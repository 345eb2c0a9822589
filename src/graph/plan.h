// A plan: a graph compiled for one device, one batch size and one precision. Kernels are created, layouts chosen, ReLU and
// bias fused, every buffer placed in one arena by its lifetime. Running it walks two flat lists of steps; it allocates
// nothing. A plan belongs to one replica (one thread at a time).
#ifndef LS_GRAPH_PLAN_H
#define LS_GRAPH_PLAN_H

#include "base/trace.h"
#include "device/device.h"
#include "graph/graph.h"
#include "graph/segment.h"

// The parameter vector: where each parameter lives in the one F32 vector that gradients, masters and optimizer state
// share the shape of, and which working copies of it kernels read. The first training plan decides the layouts; later
// plans (another batch size, inference) follow them, adding copies where their kernels want other ones.
// Parameters stand in the order in which backward completes their gradients, last layer first.
typedef struct ls_params ls_params;

ls_status ls_params_create(const ls_graph *graph, ls_device *device, ls_params **out);
void ls_params_destroy(ls_params **params);
int64_t ls_params_length(const ls_params *params);        // floats in the vector, a multiple of LS_VECTOR_ALIGN
int64_t ls_params_copies_bytes(const ls_params *params);  // final once all plans are made
// Makes the working copies from the masters; part of parts, for several threads to share. Thread-safe across parts.
void ls_params_refresh(ls_params *params, const float *weights, void *copies, int part, int parts);
// Between Keras's shape and order (`plain`, ls_shape_count floats) and the vector.
ls_status ls_params_get(ls_params *params, int index, const float *vector, float *plain);
ls_status ls_params_set(ls_params *params, int index, float *vector, const float *plain);
// The placed parameters in the order of the vector, without gaps from 0 to its length. Final once all plans are made; the
// caller frees *segments. Errors: OUT_OF_MEMORY.
ls_status ls_params_segments(const ls_params *params, ls_segment **segments, int *count);

typedef struct ls_plan ls_plan;

// Which activations forward does not keep for backward, which makes them again. Same bits in all cases.
typedef enum ls_remat {
    LS_REMAT_NONE,
    LS_REMAT_LIGHT,  // what passes over memory make: batch normalization, ReLU, dropout
    LS_REMAT_FULL,   // convolutions as well, between the sums that end a residual network's blocks
} ls_remat;

typedef struct ls_plan_config {
    int64_t batch;           // samples a run takes
    ls_dtype precision;      // F32 or BF16: activations and working weights; masters, gradients and loss are F32
    int training;            // 0: forward only
    int one_hot;             // labels are rows of class weights instead of class numbers
    double label_smoothing;  // of the loss: ls_op_attrs
    ls_remat remat;          // of a training plan
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

// Gives the plan its memory and its weights: arena (aligned), master vector, copies. Must be called before running; may be
// called again.
void ls_plan_bind(ls_plan *plan, void *arena, float *weights, void *copies);

typedef struct ls_plan_input {
    const void *images;  // (batch, H, W, C) plain, in the plan's precision
    const void *labels;  // int32_t (batch); with one_hot float (batch, classes)
    ls_random_key random;
} ls_plan_input;

// Forward and loss. `metrics` gets sums over the batch.
ls_status ls_plan_forward(ls_plan *plan, const ls_plan_input *input, ls_loss_metrics *metrics);

// Told when gradients [offset, offset + count) of the vector are complete, in ascending order of offset.
typedef void (*ls_bucket_ready_fn)(void *user, int64_t offset, int64_t count);

// Backward of the same input: the gradient of the *sum* of the losses, written to `gradient` (length floats, every element
// but padding overwritten).
ls_status ls_plan_backward(ls_plan *plan, const ls_plan_input *input, float *gradient, ls_bucket_ready_fn ready,
                           void *user);

// From now on runs record each step in `trace` while that is on, step i under the name `first` + i. NULL: nowhere. Not while running.
void ls_plan_record(ls_plan *plan, ls_trace *trace, int first);

// The logits of the latest forward: (batch, classes) F32, borrowed until the next run.
const float *ls_plan_logits(const ls_plan *plan);

// For `lockstep bench` and reports: the steps of the plan.
typedef struct ls_plan_step_info {
    const char *node, *pass, *implementation;
    double flops;
} ls_plan_step_info;
int ls_plan_step_count(const ls_plan *plan);
ls_plan_step_info ls_plan_step(const ls_plan *plan, int index);
// The kernel library's fastest implementation for a step that computes (flops > 0), whatever layouts it wants; found by
// measuring all of them now. The caller destroys it. Errors: UNSUPPORTED (the device has no library to search).
ls_status ls_plan_step_fastest(ls_plan *plan, int index, ls_kernel **out);
// Whether two steps are the same work for the kernel library: one search serves both.
int ls_plan_steps_equal(const ls_plan *plan, int one, int other);
// Runs forward and backward once, adding each step's seconds to seconds[i] (ls_plan_step_count of them).
ls_status ls_plan_time_steps(ls_plan *plan, const ls_plan_input *input, float *gradient, double *seconds);

#endif
