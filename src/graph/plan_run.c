// Running a plan: two walks over flat lists.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "graph/plan.h"
#include "graph/plan_impl.h"

void ls_plan_destroy(ls_plan **plan) {
    ls_plan *p = *plan;
    if (!p) return;
    for (int i = 0; i < p->step_count; i++)
        if (!p->steps[i].borrowed) ls_kernel_destroy(&p->steps[i].kernel);
    free(p->steps);
    free(p->buffers);
    free(p);
    *plan = NULL;
}

int64_t ls_plan_arena_bytes(const ls_plan *p) { return p->arena_bytes; }

int64_t ls_plan_activation_bytes(const ls_plan *p) {
    int64_t bytes = 0;
    for (int i = 0; i < p->buffer_count; i++) bytes += p->buffers[i].activation ? p->buffers[i].bytes : 0;
    return bytes;
}

void ls_plan_bind(ls_plan *p, void *arena, float *weights, void *copies) {
    p->arena = arena;
    p->weights = weights;
    p->copies = copies;
}

// What one run brings along.
typedef struct run_input {
    const ls_plan_input *input;
    ls_loss_metrics *metrics;
    float *gradient;
} run_input;

static void *resolve(const ls_plan *p, ls_step_arg at, const run_input *run) {
    switch ((ls_place)at.place) {
    case LS_PLACE_NONE: return NULL;
    case LS_PLACE_ARENA: return p->arena + p->buffers[at.index].offset;
    case LS_PLACE_WEIGHT: return p->weights + p->params->place[at.index].offset;
    case LS_PLACE_COPY: return p->copies + p->params->copies[at.index].offset;
    case LS_PLACE_GRADIENT: return run->gradient + p->params->place[at.index].offset;
    case LS_PLACE_IMAGES: return (void *)run->input->images;
    case LS_PLACE_LABELS: return (void *)run->input->labels;
    case LS_PLACE_RANDOM: return (void *)&run->input->random;
    case LS_PLACE_METRICS: return run->metrics;
    }
    return NULL;
}

static ls_status run_step(const ls_plan *p, const ls_plan_step_impl *step, const run_input *run) {
    void *args[LS_ARG_COUNT];
    for (int a = 0; a < LS_ARG_COUNT; a++) args[a] = resolve(p, step->arg[a], run);
    return ls_kernel_run(step->kernel, args);
}

void ls_plan_record(ls_plan *p, ls_trace *trace, int first) {
    p->trace = trace;
    p->trace_first = first;
}

// Steps [begin, end) with each in the trace. The end of one is the beginning of the next, unless `ready` came between.
static ls_status run_recorded(ls_plan *p, int begin, int end, const run_input *run, ls_bucket_ready_fn ready,
                              void *user) {
    double since = ls_clock();
    for (int i = begin; i < end; i++) {
        const ls_plan_step_impl *step = &p->steps[i];
        LS_TRY(run_step(p, step, run));
        double now = ls_clock();
        ls_trace_add(p->trace, p->trace_first + i, 0, since, now);
        since = now;
        if (ready && step->ready_count) {
            ready(user, step->ready_offset, step->ready_count);
            since = ls_clock();
        }
    }
    return LS_OK;
}

ls_status ls_plan_forward(ls_plan *p, const ls_plan_input *input, ls_loss_metrics *metrics) {
    run_input run = {input, metrics, NULL};
    if (ls_trace_on(p->trace)) return run_recorded(p, 0, p->forward_count, &run, NULL, NULL);
    for (int i = 0; i < p->forward_count; i++) LS_TRY(run_step(p, &p->steps[i], &run));
    return LS_OK;
}

ls_status ls_plan_backward(ls_plan *p, const ls_plan_input *input, float *gradient, ls_bucket_ready_fn ready,
                           void *user) {
    run_input run = {input, NULL, gradient};
    if (ls_trace_on(p->trace)) return run_recorded(p, p->forward_count, p->step_count, &run, ready, user);
    for (int i = p->forward_count; i < p->step_count; i++) {
        const ls_plan_step_impl *step = &p->steps[i];
        LS_TRY(run_step(p, step, &run));
        if (ready && step->ready_count) ready(user, step->ready_offset, step->ready_count);
    }
    return LS_OK;
}

const float *ls_plan_logits(const ls_plan *p) { return (const float *)(p->arena + p->buffers[p->logits].offset); }

int ls_plan_step_count(const ls_plan *p) { return p->step_count; }

ls_plan_step_info ls_plan_step(const ls_plan *p, int index) {
    const ls_plan_step_impl *s = &p->steps[index];
    return (ls_plan_step_info){p->graph->nodes[s->node].name, s->pass, s->kernel->name, s->kernel->flops};
}

ls_status ls_plan_step_fastest(ls_plan *p, int index, ls_kernel **out) {
    if (!p->device->ops->fastest)
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "device %s has no kernel library to search for a floor",
                       p->device->ops->name);
    return p->device->ops->fastest(p->device, &p->steps[index].spec, out);
}

int ls_plan_steps_equal(const ls_plan *p, int one, int other) {
    const ls_kernel_spec *a = &p->steps[one].spec, *b = &p->steps[other].spec;
    return a->op == b->op && a->pass == b->pass && ls_shape_equal(a->x, b->x) && ls_shape_equal(a->y, b->y) &&
           a->x_dtype == b->x_dtype && a->y_dtype == b->y_dtype && a->dy_dtype == b->dy_dtype &&
           a->w_dtype == b->w_dtype && memcmp(a->attrs.kernel, b->attrs.kernel, sizeof a->attrs.kernel) == 0 &&
           memcmp(a->attrs.strides, b->attrs.strides, sizeof a->attrs.strides) == 0 &&
           memcmp(a->attrs.pad, b->attrs.pad, sizeof a->attrs.pad) == 0 && a->attrs.use_bias == b->attrs.use_bias &&
           a->attrs.activation == b->attrs.activation;
}

ls_status ls_plan_time_steps(ls_plan *p, const ls_plan_input *input, float *gradient, double *seconds) {
    ls_loss_metrics metrics;
    run_input run = {input, &metrics, gradient};
    for (int i = 0; i < p->step_count; i++) {
        double start = ls_clock();
        LS_TRY(run_step(p, &p->steps[i], &run));
        seconds[i] += ls_clock() - start;
    }
    return LS_OK;
}
