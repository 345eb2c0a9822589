// Steps, buffers and reorders: what forward and backward are laid down with.
#include <stdlib.h>

#include "base/error.h"
#include "graph/plan_build.h"

static ls_status grow(void *array, int *capacity, int count, size_t size) {
    void **pointer = array;
    if (count < *capacity) return LS_OK;
    int larger = *capacity ? *capacity * 2 : 32;
    void *grown = realloc(*pointer, (size_t)larger * size);
    if (!grown) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    *pointer = grown;
    *capacity = larger;
    return LS_OK;
}

ls_shape ls__batched(const ls_builder *b, ls_shape sample) {
    ls_shape s = {.ndim = sample.ndim + 1, .dim = {b->plan->config.batch}};
    for (int i = 0; i < sample.ndim; i++) s.dim[i + 1] = sample.dim[i];
    return s;
}

ls_status ls__buffer_add(ls_builder *b, int64_t bytes, int activation, ls_step_arg *out) {
    ls_plan *p = b->plan;
    LS_TRY(grow(&p->buffers, &p->buffer_capacity, p->buffer_count, sizeof *p->buffers));
    p->buffers[p->buffer_count] = (ls_buffer){.bytes = bytes, .first = -1, .last = -1, .activation = activation};
    *out = (ls_step_arg){LS_PLACE_ARENA, p->buffer_count++};
    return LS_OK;
}

ls_status ls__steps_reserve(ls_plan *p) { return grow(&p->steps, &p->step_capacity, p->step_count, sizeof *p->steps); }

ls_status ls__step_add(ls_builder *b, ls_kernel *kernel, int node, const char *pass, const ls_kernel_spec *spec,
                       ls_plan_step_impl **out) {
    ls_plan *p = b->plan;
    ls_status status = ls__steps_reserve(p);
    if (status != LS_OK) {
        ls_kernel_destroy(&kernel);
        return status;
    }
    ls_plan_step_impl *step = &p->steps[p->step_count++];
    *step = (ls_plan_step_impl){.kernel = kernel, .node = node, .pass = pass};
    if (spec) step->spec = *spec;
    for (int a = 0; a < LS_ARG_COUNT; a++) step->spec.layout[a] = NULL;
    if (kernel->scratch_bytes) LS_TRY(ls__buffer_add(b, kernel->scratch_bytes, 0, &step->arg[LS_ARG_SCRATCH]));
    *out = step;
    return LS_OK;
}

ls_status ls__in_layout(ls_builder *b, ls_tensor from, const ls_layout *layout, int node, ls_tensor *out) {
    *out = from;
    if (!layout || from.layout == layout) return LS_OK;
    ls_kernel *kernel;
    ls_plan_step_impl *step;
    LS_TRY(b->device->ops->reorder_create(b->device, from.layout, layout, &kernel));
    LS_TRY(ls__step_add(b, kernel, node, "reorder", NULL, &step));
    out->layout = layout;
    LS_TRY(ls__buffer_add(b, layout->bytes, 1, &out->at));
    step->arg[LS_ARG_X] = from.at;
    step->arg[LS_ARG_Y] = out->at;
    return LS_OK;
}

ls_status ls__wish_add(ls_builder *b, const ls_plan_step_impl *step, int param, ls_arg arg) {
    LS_TRY(grow(&b->wishes, &b->wish_capacity, b->wish_count, sizeof *b->wishes));
    b->wishes[b->wish_count++] = (ls_wish){(int)(step - b->plan->steps), param, arg};
    return LS_OK;
}

ls_kernel_spec ls__loss_spec(const ls_builder *b, ls_pass pass) {
    ls_shape x = ls__batched(b, b->graph->nodes[b->graph->output].shape);
    const ls_plan_config *c = &b->plan->config;
    return (ls_kernel_spec){.op = LS_OP_SOFTMAX_CROSS_ENTROPY,
                            .pass = pass,
                            .x = x,
                            .y = x,
                            .x_dtype = LS_DTYPE_F32,
                            .y_dtype = LS_DTYPE_F32,
                            .dy_dtype = c->precision,
                            .w_dtype = LS_DTYPE_F32,
                            .attrs = {.one_hot = c->one_hot, .label_smoothing = c->label_smoothing}};
}
