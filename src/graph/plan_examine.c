// Where a number came from that is none: forward once more, looked at step by step.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/error.h"
#include "base/fp16.h"
#include "graph/plan.h"
#include "graph/plan_impl.h"

// Element i of what lies there as `dtype`; whole numbers are always finite.
static double value_at(const void *data, ls_dtype dtype, int64_t i) {
    switch (dtype) {
    case LS_DTYPE_F32: return ((const float *)data)[i];
    case LS_DTYPE_F64: return ((const double *)data)[i];
    case LS_DTYPE_BF16: return ls_bf16_to_float(((const ls_bf16 *)data)[i]);
    case LS_DTYPE_F16: return ls_fp16_to_float(((const ls_fp16 *)data)[i]);
    case LS_DTYPE_U8:
    case LS_DTYPE_I32:
    case LS_DTYPE_I64: break;
    }
    return 0;
}

static int is_number(const void *data, ls_dtype dtype, int64_t i) { return isfinite(value_at(data, dtype, i)) != 0; }

// Whether all of an argument is finite; where it is laid out sample by sample, those of which it is not are noted.
static void look(const ls_plan *p, ls_queue *queue, const ls_plan_step_impl *step, int arg, const ls_feeds *feeds,
                 int *finite, char *bad_samples) {
    const ls_layout *layout = step->kernel->layout[arg];
    const void *data = ls_span_host(ls__plan_span(p, step->arg[arg], queue, feeds));
    *finite = 1;
    int64_t count = layout->bytes / (int64_t)ls_dtype_size(layout->dtype), batch = p->config.batch;
    int by_sample = bad_samples && layout->plain && layout->shape.ndim > 0 && layout->shape.dim[0] == batch;
    for (int64_t i = 0; i < count && (*finite || by_sample); i++) {
        if (is_number(data, layout->dtype, i)) continue;
        *finite = 0;
        if (by_sample) bad_samples[i / (count / batch)] = 1;
    }
}

static int is_there(const ls_plan_step_impl *step, int arg, int place) {
    return step->kernel->layout[arg] && step->arg[arg].place == place;
}

// What a step reads that no step before it has made.
static void look_at_given(const ls_plan *p, ls_queue *queue, const ls_plan_step_impl *step, const ls_feeds *feeds,
                          ls_finding *out) {
    int finite = 1;
    for (int a = LS_ARG_X; a < LS_ARG_W && out->what == LS_FOUND_NOTHING; a++) {
        if (!is_there(step, a, LS_PLACE_INPUT)) continue;
        look(p, queue, step, a, feeds, &finite, out->samples);
        if (!finite) out->what = LS_FOUND_INPUT;
    }
    for (int a = LS_ARG_X; a < LS_ARG_Y && out->what == LS_FOUND_NOTHING; a++) {
        int master = is_there(step, a, LS_PLACE_WEIGHT), copy = is_there(step, a, LS_PLACE_COPY), index;
        if (!master && !copy) continue;
        look(p, queue, step, a, feeds, &finite, NULL);
        if (finite) continue;
        index = copy ? p->params->copies[step->arg[a].index].param : step->arg[a].index;
        out->what = LS_FOUND_WEIGHTS;
        out->parameter = p->params->store->params[index].name;
    }
}

static void look_at_outputs(const ls_plan *p, ls_queue *queue, const ls_plan_step_impl *step, const ls_feeds *feeds,
                            ls_finding *out) {
    for (int a = LS_ARG_Y; a < LS_ARG_DX; a++) {
        int finite;
        if (!is_there(step, a, LS_PLACE_ARENA)) continue;
        look(p, queue, step, a, feeds, &finite, out->samples);
        if (!finite && out->what == LS_FOUND_NOTHING) out->what = LS_FOUND_OUTPUT;
    }
}

ls_status ls_plan_examine(ls_plan *p, ls_queue *queue, const ls_feeds *feeds, ls_finding *out) {
    char *samples = out->samples;
    if (!p->device->ops->host_memory)
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "the memory of device %s cannot be looked at", p->device->ops->name);
    *out = (ls_finding){.samples = samples};
    memset(samples, 0, (size_t)p->config.batch);
    for (int i = 0; i < p->forward_count; i++) {
        const ls_plan_step_impl *step = &p->steps[i];
        if (out->what == LS_FOUND_NOTHING) look_at_given(p, queue, step, feeds, out);
        LS_TRY(ls__plan_run_step(p, step, queue, feeds));
        // What comes after the first finding tells of which samples it was, as soon as one is laid out sample by sample.
        if (out->what == LS_FOUND_NOTHING || !memchr(samples, 1, (size_t)p->config.batch))
            look_at_outputs(p, queue, step, feeds, out);
        if (out->what != LS_FOUND_NOTHING && !out->node) out->node = p->graph->nodes[step->node].name;
    }
    return LS_OK;
}
