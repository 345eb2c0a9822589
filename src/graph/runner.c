#include "graph/runner.h"

#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/error.h"
#include "base/fp16.h"
#include "base/memory.h"
#include "graph/graph.h"
#include "graph/plan_impl.h"

static int64_t key_bytes(int64_t samples) {
    return (int64_t)sizeof(ls_random_key) + samples * (int64_t)sizeof(uint64_t);
}

static int64_t input_count(const ls_runner *r, int index) {
    return ls_shape_count(ls_graph_input_at(r->graph, index).shape) * r->batch;
}

static ls_status make_feeds(ls_runner *r) {
    int count = r->graph->input_count;
    LS_TRY(ls_calloc(count, sizeof *r->inputs, &r->inputs));
    LS_TRY(ls_calloc(count, sizeof *r->spans, &r->spans));
    for (int i = 0; i < count; i++) {
        ls_dtype dtype;
        if (!ls_plan_feed(r->plan, i, &dtype)) continue;
        LS_TRY(ls_buffer_create(r->device, input_count(r, i) * (int64_t)ls_dtype_size(dtype), &r->inputs[i]));
        r->spans[i] = (ls_span){r->inputs[i], 0};
    }
    LS_TRY(ls_buffer_create(r->device, key_bytes(r->batch), &r->random));
    r->feeds = (ls_feeds){.inputs = r->spans, .random = {r->random, 0}};
    return ls_runner_key(r, 0, 0, NULL);
}

static ls_status build(ls_runner *r, const ls_plan_config *config, ls_runner *weights) {
    if (r->device->ops->thread_begin) r->device->ops->thread_begin(r->device, NULL, NULL);
    r->borrows = weights != NULL;
    if (weights)
        r->params = weights->params;
    else
        LS_TRY(ls_params_create(r->graph->store, r->device, &r->params));
    LS_TRY(ls_plan_create(r->graph, r->device, r->params, config, &r->plan));
    LS_TRY(ls_params_seal(r->params));
    int64_t bytes = ls_params_length(r->params) * (int64_t)sizeof(float);
    LS_TRY(ls_queue_create(r->device, &r->queue));
    LS_TRY(ls_buffer_create(r->device, ls_plan_arena_bytes(r->plan), &r->arena));
    if (!weights) {
        LS_TRY(ls_buffer_create(r->device, bytes, &r->weights));
        LS_TRY(ls_buffer_create(r->device, ls_params_copies_bytes(r->params), &r->copies));
    }
    if (config->mode == LS_PLAN_TRAINING) LS_TRY(ls_buffer_create(r->device, bytes, &r->gradient));
    LS_TRY(make_feeds(r));
    ls_runner *home = weights ? weights : r;
    ls_plan_bind(r->plan, (ls_span){r->arena, 0}, (ls_span){home->weights, 0}, (ls_span){home->copies, 0});
    return LS_OK;
}

ls_status ls_runner_create(const ls_graph *graph, ls_device *device, const ls_plan_config *config, ls_runner *weights,
                           ls_runner **out) {
    ls_runner *r;
    *out = NULL;
    LS_TRY(ls_calloc(1, sizeof *r, &r));
    r->graph = graph;
    r->device = device;
    r->batch = config->batch;
    ls_status status = build(r, config, weights);
    if (status != LS_OK) {
        ls_runner_destroy(&r);
        return status;
    }
    *out = r;
    return LS_OK;
}

void ls_runner_destroy(ls_runner **runner) {
    ls_runner *r = *runner;
    *runner = NULL;
    if (!r) return;
    ls_queue_destroy(&r->queue);
    ls_plan_destroy(&r->plan);
    if (!r->borrows) ls_params_destroy(&r->params);
    for (int i = 0; r->inputs && i < r->graph->input_count; i++) ls_buffer_destroy(&r->inputs[i]);
    ls_buffer_destroy(&r->arena);
    ls_buffer_destroy(&r->weights);
    ls_buffer_destroy(&r->copies);
    ls_buffer_destroy(&r->gradient);
    ls_buffer_destroy(&r->random);
    free(r->inputs);
    free(r->spans);
    free(r);
}

// --- weights ---------------------------------------------------------------------------------------------------------

ls_status ls_runner_set(ls_runner *r, int param, const float *plain) {
    return ls_params_set(r->params, r->queue, param, r->plan->weights, plain);
}

ls_status ls_runner_get(ls_runner *r, int param, ls_buffer *vector, float *plain) {
    return ls_params_get(r->params, r->queue, param, (ls_span){vector, 0}, plain);
}

ls_status ls_runner_refresh(ls_runner *r) {
    LS_TRY(ls_params_refresh(r->params, r->queue, r->plan->weights, r->plan->copies, 0, 1));
    return ls_synchronize(r->queue);
}

ls_status ls_runner_initialize(ls_runner *r, uint64_t seed) {
    for (int i = 0; i < r->params->count; i++) {
        float *plain;
        LS_TRY(ls_memory_alloc(ls_shape_count(r->graph->store->params[i].shape) * (int64_t)sizeof *plain, &plain));
        ls_param_initialize(r->graph->store, i, seed, plain);
        ls_status status = ls_runner_set(r, i, plain);
        ls_memory_free(plain);
        LS_TRY(status);
    }
    return ls_runner_refresh(r);
}

// --- batches ---------------------------------------------------------------------------------------------------------

ls_status ls_runner_write(ls_runner *r, int index, const void *values) {
    ls_dtype dtype;
    int64_t count = input_count(r, index);
    if (!ls_plan_feed(r->plan, index, &dtype)) return LS_OK;
    if (dtype != LS_DTYPE_BF16 && dtype != LS_DTYPE_F16) {
        LS_TRY(ls_write(r->queue, r->spans[index], values, count * (int64_t)ls_dtype_size(dtype)));
        return ls_synchronize(r->queue);
    }
    uint16_t *narrow;
    LS_TRY(ls_memory_alloc(count * (int64_t)sizeof *narrow, &narrow));
    for (int64_t i = 0; i < count; i++) {
        float x = ((const float *)values)[i];
        narrow[i] = dtype == LS_DTYPE_F16 ? ls_float_to_fp16(x) : ls_float_to_bf16(x);
    }
    ls_status status = ls_write(r->queue, r->spans[index], narrow, count * (int64_t)sizeof *narrow);
    if (status == LS_OK) status = ls_synchronize(r->queue);
    ls_memory_free(narrow);
    return status;
}

ls_status ls_runner_key(ls_runner *r, uint64_t seed, uint64_t epoch, const uint64_t *samples) {
    ls_random_key *key;
    int64_t batch = r->batch;
    LS_TRY(ls_calloc(1, key_bytes(batch), &key));
    key->seed = seed;
    key->epoch = epoch;
    for (int64_t i = 0; i < batch; i++) key->samples[i] = samples ? samples[i] : (uint64_t)i;
    ls_status status = ls_write(r->queue, r->feeds.random, key, key_bytes(batch));
    if (status == LS_OK) status = ls_synchronize(r->queue);
    free(key);
    return status;
}

ls_status ls_runner_forward(ls_runner *r, double *measures) {
    LS_TRY(ls_plan_forward(r->plan, r->queue, &r->feeds));
    int64_t bytes = ls_plan_measure_count(r->plan) * (int64_t)sizeof *measures;
    if (measures && bytes) LS_TRY(ls_read(r->queue, measures, ls_plan_measures(r->plan), bytes));
    return ls_synchronize(r->queue);
}

ls_status ls_runner_rows(ls_runner *r, double *rows) {
    LS_TRY(ls_read(r->queue, rows, ls_plan_rows(r->plan), ls_plan_row_count(r->plan) * (int64_t)sizeof *rows));
    return ls_synchronize(r->queue);
}

ls_status ls_runner_backward(ls_runner *r) {
    LS_TRY(ls_plan_backward(r->plan, r->queue, &r->feeds, (ls_span){r->gradient, 0}));
    return ls_synchronize(r->queue);
}

ls_status ls_runner_read(ls_runner *r, int index, int64_t samples, float *out) {
    int64_t count = ls_shape_count(ls_graph_output_at(r->graph, index).shape) * samples;
    LS_TRY(ls_read(r->queue, out, ls_plan_output(r->plan, index), count * (int64_t)sizeof *out));
    return ls_synchronize(r->queue);
}
