#include "plan_rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/memory.h"
#include "ok.h"

int rig_create(rig *r, ls_graph *graph, const char *device, const ls_plan_config *config) {
    *r = (rig){.graph = graph};
    OK(ls_device_create(device, &(ls_device_options){.threads = 1}, &r->device));
    if (r->device->ops->supports(r->device, config->precision) != LS_OK) {
        print_message("skipped: %s\n", ls_error_message());
        rig_free(r);
        return 0;
    }
    r->device->ops->thread_begin(r->device);
    OK(ls_params_create(graph, r->device, &r->params));
    OK(ls_plan_create(graph, r->device, r->params, config, &r->plan));
    r->length = ls_params_length(r->params);
    OK(ls_memory_alloc(r->length * 4, (void **)&r->weights));
    OK(ls_memory_alloc(r->length * 4, (void **)&r->gradient));
    OK(ls_memory_alloc(ls_params_copies_bytes(r->params), &r->copies));
    OK(ls_memory_alloc(ls_plan_arena_bytes(r->plan), &r->arena));
    memset(r->arena, 0xFF, (size_t)ls_plan_arena_bytes(r->plan));  // NaN: nothing may be read before it is written
    int64_t pixels = config->batch * ls_shape_count(graph->nodes[0].shape);
    OK(ls_memory_alloc(pixels * (int64_t)ls_dtype_size(config->precision), &r->images));
    OK(ls_calloc(config->batch, sizeof *r->labels, &r->labels));
    OK(ls_calloc(config->batch, sizeof *r->samples, &r->samples));
    for (int64_t n = 0; n < config->batch; n++) r->samples[n] = (uint64_t)n;
    r->input = (ls_plan_input){
        .images = r->images, .labels = r->labels, .random = {.seed = 9, .epoch = 1, .samples = r->samples}};
    ls_plan_bind(r->plan, r->arena, r->weights, r->copies);
    return 1;
}

void rig_free(rig *r) {
    ls_plan_destroy(&r->plan);
    ls_params_destroy(&r->params);
    ls_device_destroy(&r->device);
    ls_graph_destroy(&r->graph);
    ls_memory_free(r->weights), ls_memory_free(r->gradient), ls_memory_free(r->images);
    ls_memory_free(r->copies), ls_memory_free(r->arena);
    free(r->labels), free(r->samples);
}

void rig_set_pixel(rig *r, int64_t i, float x) {
    if (r->plan->config.precision == LS_DTYPE_BF16)
        ((ls_bf16 *)r->images)[i] = ls_float_to_bf16(x);
    else
        ((float *)r->images)[i] = x;
}

float *rig_plain(const rig *r, int param) {
    float *plain;
    OK(ls_calloc(ls_shape_count(r->graph->params[param].shape), sizeof *plain, &plain));
    return plain;
}

float *rig_get(const rig *r, int param, const float *vector) {
    float *plain = rig_plain(r, param);
    OK(ls_params_get(r->params, param, vector, plain));
    return plain;
}

void rig_set(rig *r, int param, float *plain) {
    OK(ls_params_set(r->params, param, r->weights, plain));
    free(plain);
}

void rig_refresh(rig *r) { ls_params_refresh(r->params, r->weights, r->copies, 0, 1); }

double relative_distance(const float *a, const float *b, int64_t n, double least) {
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        norm += (double)b[i] * b[i];
    }
    return sqrt(difference) / fmax(sqrt(norm), least);
}
