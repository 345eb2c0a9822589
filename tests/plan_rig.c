#include "plan_rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "ok.h"

void rig_poison(ls_runner *run) { memset(run->arena->memory, 0xFF, (size_t)ls_plan_arena_bytes(run->plan)); }

ls_runner *rig_runner(rig *r, const ls_graph *graph, const ls_plan_config *config) {
    ls_runner *run;
    OK(ls_runner_create(graph, r->device, config, r->run, &run));
    rig_poison(run);
    return run;
}

int rig_create(rig *r, ls_graph *graph, const char *device, const ls_plan_config *config) {
    *r = (rig){.network = graph, .store = ls_graph_store(graph)};
    OK(ls_device_create(device, &(ls_device_options){.threads = 1}, &r->device));
    if (r->device->ops->supports(r->device, config->precision) != LS_OK) {
        print_message("skipped: %s\n", ls_error_message());
        rig_free(r);
        return 0;
    }
    assert_true(r->device->ops->host_memory);
    OK(ls__graph_with_classifier_loss(graph, 0, 0, &r->graph));
    r->run = rig_runner(r, r->graph, config);
    r->length = ls_params_length(r->run->params);
    r->weights = r->run->weights->memory;
    r->gradient = r->run->gradient ? r->run->gradient->memory : NULL;
    OK(ls_memory_alloc(config->batch * ls_shape_count(ls_graph_input_at(graph, 0).shape) * 4, (void **)&r->images));
    OK(ls_calloc(config->batch, sizeof *r->labels, &r->labels));
    OK(ls_calloc(config->batch, sizeof *r->samples, &r->samples));
    for (int64_t n = 0; n < config->batch; n++) r->samples[n] = (uint64_t)n;
    return 1;
}

void rig_free(rig *r) {
    ls_runner_destroy(&r->run);
    ls_device_destroy(&r->device);
    ls_graph_destroy(&r->graph);
    ls_graph_destroy(&r->network);
    ls_memory_free(r->images);
    free(r->labels), free(r->samples);
}

void rig_feed(const rig *r, ls_runner *run) {
    OK(ls_runner_write(run, 0, r->images));
    if (run->graph->input_count > 1) OK(ls_runner_write(run, 1, r->labels));
    OK(ls_runner_key(run, 9, 1, r->samples));
}

rig_sums rig_forward_of(const rig *r, ls_runner *run) {
    double measures[2];
    assert_int_equal(ls_plan_measure_count(run->plan), 2);
    rig_feed(r, run);
    OK(ls_runner_forward(run, measures));
    return (rig_sums){measures[0], measures[1]};
}

rig_sums rig_forward(rig *r) { return rig_forward_of(r, r->run); }
void rig_backward(rig *r) { OK(ls_runner_backward(r->run)); }

const float *rig_logits(const ls_runner *run) {
    const ls_plan *p = run->plan;
    int i = 0;
    while (i < p->forward_count && ls__op_find(run->graph->nodes[p->steps[i].node].op)->part != LS_PART_LOSS) i++;
    assert_true(i < p->forward_count);
    const ls_step_arg *at = &p->steps[i].arg[LS_ARG_X];
    const ls_layout *layout = p->steps[i].kernel->layout[LS_ARG_X];
    assert_true(at->place == LS_PLACE_ARENA && layout->plain && layout->dtype == LS_DTYPE_F32);
    return (const float *)((char *)run->arena->memory + p->buffers[at->index].offset + at->offset);
}

float *rig_plain(const rig *r, int param) {
    float *plain;
    OK(ls_calloc(ls_shape_count(r->store->params[param].shape), sizeof *plain, &plain));
    return plain;
}

float *rig_get(const rig *r, int param, const float *vector) {
    float *plain = rig_plain(r, param);
    ls_buffer *buffer;
    OK(ls_buffer_wrap(r->device, (float *)vector, r->length * 4, &buffer));
    OK(ls_runner_get(r->run, param, buffer, plain));
    ls_buffer_destroy(&buffer);
    return plain;
}

void rig_set(rig *r, int param, float *plain) {
    OK(ls_runner_set(r->run, param, plain));
    free(plain);
}

void rig_refresh(rig *r) { OK(ls_runner_refresh(r->run)); }

double relative_distance(const float *a, const float *b, int64_t n, double least) {
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        norm += (double)b[i] * b[i];
    }
    return sqrt(difference) / fmax(sqrt(norm), least);
}
