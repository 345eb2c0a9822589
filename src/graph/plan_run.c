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
    for (int i = 0; i < p->step_count; i++) {
        if (!p->steps[i].borrowed) ls_kernel_destroy(&p->steps[i].kernel);
        free(p->steps[i].spec);
    }
    free(p->steps);
    free(p->buffers);
    free(p->feeds);
    free(p->reads);
    free(p->outputs);
    free(p);
    *plan = NULL;
}

int64_t ls_plan_arena_bytes(const ls_plan *p) { return p->arena_bytes; }

int64_t ls_plan_activation_bytes(const ls_plan *p) {
    int64_t bytes = 0;
    for (int i = 0; i < p->buffer_count; i++) bytes += p->buffers[i].activation ? p->buffers[i].bytes : 0;
    return bytes;
}

void ls_plan_bind(ls_plan *p, ls_span arena, ls_span weights, ls_span copies) {
    p->arena = arena;
    p->weights = weights;
    p->copies = copies;
}

int ls_plan_feed(const ls_plan *p, int index, ls_dtype *dtype) {
    *dtype = p->feeds[index];
    return p->reads[index];
}

// What one run brings along.
typedef struct run_input {
    ls_queue *queue;
    const ls_feeds *feeds;
    ls_span gradient;
} run_input;

static ls_span resolve(const ls_plan *p, ls_step_arg at, const run_input *run) {
    switch ((ls_place)at.place) {
    case LS_PLACE_NONE: break;
    case LS_PLACE_ARENA: return ls_span_at(p->arena, p->buffers[at.index].offset + at.offset);
    case LS_PLACE_WEIGHT: return ls_span_at(p->weights, p->params->place[at.index].offset * 4);
    case LS_PLACE_COPY: return ls_span_at(p->copies, p->params->copies[at.index].offset);
    case LS_PLACE_GRADIENT: return ls_span_at(run->gradient, p->params->place[at.index].offset * 4);
    case LS_PLACE_INPUT: return run->feeds->inputs[at.index];
    case LS_PLACE_RANDOM: return run->feeds->random;
    case LS_PLACE_SCALE: return run->feeds->scale;
    }
    return (ls_span){0};
}

ls_span ls__plan_span(const ls_plan *p, ls_step_arg at, ls_queue *queue, const ls_feeds *feeds) {
    return resolve(p, at, &(run_input){queue, feeds, {0}});
}

static ls_status run_step(const ls_plan *p, const ls_plan_step_impl *step, const run_input *run) {
    ls_span args[LS_ARG_COUNT];
    for (int a = 0; a < LS_ARG_COUNT; a++) args[a] = resolve(p, step->arg[a], run);
    return ls_kernel_run(step->kernel, run->queue, args);
}

ls_status ls__plan_run_step(const ls_plan *p, const ls_plan_step_impl *step, ls_queue *queue, const ls_feeds *feeds) {
    return run_step(p, step, &(run_input){queue, feeds, {0}});
}

void ls_plan_record(ls_plan *p, ls_trace *trace, int first) {
    p->trace = trace;
    p->trace_first = first;
}

// Steps [begin, end), each in the trace: the end of one is the beginning of the next.
static ls_status run_recorded(ls_plan *p, int begin, int end, const run_input *run) {
    double since = ls_clock();
    for (int i = begin; i < end; i++) {
        LS_TRY(run_step(p, &p->steps[i], run));
        double now = ls_clock();
        ls_trace_add(p->trace, p->trace_first + i, 0, since, now);
        since = now;
    }
    return LS_OK;
}

static ls_status run_steps(ls_plan *p, int begin, int end, const run_input *run) {
    if (ls_trace_on(p->trace)) return run_recorded(p, begin, end, run);
    for (int i = begin; i < end; i++) LS_TRY(run_step(p, &p->steps[i], run));
    return LS_OK;
}

ls_status ls_plan_forward(ls_plan *p, ls_queue *queue, const ls_feeds *feeds) {
    return run_steps(p, 0, p->forward_count, &(run_input){queue, feeds, {0}});
}

int ls_plan_forward_steps(const ls_plan *p) { return p->forward_count; }

ls_status ls_plan_backward(ls_plan *p, ls_queue *queue, const ls_feeds *feeds, ls_span gradient) {
    return run_steps(p, p->forward_count, p->step_count, &(run_input){queue, feeds, gradient});
}

// --- in parts --------------------------------------------------------------------------------------------------------

static int bucket_of(const int64_t *ends, int count, int64_t element) {
    int low = 0, high = count - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (element < ends[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static int may_run(const ls_plan_step_impl *step, const ls_buckets_ready *r) {
    if (step->needs_count == 0) return 1;
    int last = bucket_of(r->ends, r->count, step->needs_offset + step->needs_count - 1);
    for (int b = bucket_of(r->ends, r->count, step->needs_offset); b <= last; b++)
        if (!r->ready[b]) return 0;
    return 1;
}

ls_status ls_plan_forward_some(ls_plan *p, ls_queue *queue, const ls_feeds *feeds, const ls_buckets_ready *ready,
                               int *next) {
    int begin = *next;
    while (*next < p->forward_count && may_run(&p->steps[*next], ready)) ++*next;
    return run_steps(p, begin, *next, &(run_input){queue, feeds, {0}});
}

void ls_plan_forward_order(const ls_plan *p, const int64_t *ends, int count, int *order) {
    int found = 0;
    for (int i = 0; i < p->forward_count; i++) {
        const ls_plan_step_impl *step = &p->steps[i];
        if (step->needs_count == 0) continue;
        int first = bucket_of(ends, count, step->needs_offset);
        for (int b = bucket_of(ends, count, step->needs_offset + step->needs_count - 1); b >= first; b--) {
            int known = 0;
            for (int k = 0; k < found && !known; k++) known = order[k] == b;
            if (!known) order[found++] = b;
        }
    }
    for (int b = count - 1; b >= 0 && found < count; b--) {
        int known = 0;
        for (int k = 0; k < found && !known; k++) known = order[k] == b;
        if (!known) order[found++] = b;
    }
}

ls_backward ls_plan_backward_begin(const ls_plan *p) { return (ls_backward){p->forward_count, 0}; }

ls_status ls_plan_backward_until(ls_plan *p, ls_queue *queue, const ls_feeds *feeds, ls_span gradient, int64_t end,
                                 ls_backward *at) {
    int begin = at->next, all = end >= ls_params_length(p->params);
    while (at->next < p->step_count && (all || at->complete < end)) {
        const ls_plan_step_impl *step = &p->steps[at->next++];
        if (step->ready_count) at->complete = step->ready_offset + step->ready_count;
    }
    return run_steps(p, begin, at->next, &(run_input){queue, feeds, gradient});
}

int ls_plan_measure_count(const ls_plan *p) { return p->measure_count; }

ls_span ls_plan_measures(const ls_plan *p) {
    return p->measures < 0 ? (ls_span){0} : ls_span_at(p->arena, p->buffers[p->measures].offset);
}

int ls_plan_row_count(const ls_plan *p) { return p->row_count; }

ls_span ls_plan_rows(const ls_plan *p) {
    return p->rows < 0 ? (ls_span){0} : ls_span_at(p->arena, p->buffers[p->rows].offset);
}

ls_span ls_plan_output(const ls_plan *p, int index) {
    ls_step_arg at = p->outputs[index];
    return at.place == LS_PLACE_ARENA ? ls_span_at(p->arena, p->buffers[at.index].offset + at.offset) : (ls_span){0};
}

int ls_plan_step_count(const ls_plan *p) { return p->step_count; }

ls_plan_step_info ls_plan_step(const ls_plan *p, int index) {
    const ls_plan_step_impl *s = &p->steps[index];
    int64_t bytes = 0;
    for (int i = 0; i < LS_ARG_COUNT; i++) bytes += s->kernel->layout[i] ? s->kernel->layout[i]->bytes : 0;
    return (ls_plan_step_info){p->graph->nodes[s->node].name, s->pass, s->kernel->name, s->flops, bytes};
}

ls_status ls_plan_step_fastest(ls_plan *p, int index, ls_kernel **out) {
    if (!p->device->ops->fastest)
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "device %s has no kernel library to search for a floor",
                       p->device->ops->name);
    return p->device->ops->fastest(p->device, p->steps[index].spec, out);
}

static int types_equal(const ls_tensor_type *a, const ls_tensor_type *b, int count) {
    for (int i = 0; i < count; i++)
        if (!ls_shape_equal(a[i].shape, b[i].shape) || a[i].dtype != b[i].dtype || a[i].gradient != b[i].gradient)
            return 0;
    return 1;
}

int ls_plan_steps_equal(const ls_plan *p, int one, int other) {
    const ls_kernel_spec *a = p->steps[one].spec, *b = p->steps[other].spec;
    return a && b && a->op == b->op && a->pass == b->pass && a->x_count == b->x_count && a->w_count == b->w_count &&
           a->y_count == b->y_count && types_equal(a->x, b->x, a->x_count) && types_equal(a->w, b->w, a->w_count) &&
           types_equal(a->y, b->y, a->y_count) && memcmp(&a->attrs, &b->attrs, sizeof a->attrs) == 0 &&
           a->activation == b->activation;
}

ls_status ls_plan_time_steps(ls_plan *p, ls_queue *queue, const ls_feeds *feeds, ls_span gradient, double *seconds) {
    run_input run = {queue, feeds, gradient};
    for (int i = 0; i < p->step_count; i++) {
        double start = ls_clock();
        LS_TRY(run_step(p, &p->steps[i], &run));
        LS_TRY(ls_synchronize(queue));
        seconds[i] += ls_clock() - start;
    }
    return LS_OK;
}
