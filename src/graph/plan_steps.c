// Steps, buffers and reorders: what forward and backward are laid down with.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
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

ls_status ls__buffer_add(ls_builder *b, int64_t bytes, int activation, ls_step_arg *out) {
    ls_plan *p = b->plan;
    LS_TRY(grow(&p->buffers, &p->buffer_capacity, p->buffer_count, sizeof *p->buffers));
    p->buffers[p->buffer_count] = (ls_plan_buffer){.bytes = bytes, .first = -1, .last = -1, .activation = activation};
    *out = (ls_step_arg){LS_PLACE_ARENA, p->buffer_count++, 0};
    return LS_OK;
}

ls_status ls__steps_reserve(ls_plan *p) { return grow(&p->steps, &p->step_capacity, p->step_count, sizeof *p->steps); }

ls_status ls__step_add(ls_builder *b, ls_kernel *kernel, int node, const char *pass, const ls_kernel_spec *spec,
                       ls_plan_step_impl **out) {
    ls_plan *p = b->plan;
    const ls_op *op = spec ? ls__op_find(spec->op) : NULL;
    ls_kernel_spec *kept = NULL;
    ls_status status = ls__steps_reserve(p);
    if (status == LS_OK && op && op->flops) status = ls_calloc(1, sizeof *kept, &kept);
    if (status != LS_OK) {
        ls_kernel_destroy(&kernel);
        return status;
    }
    int index = p->step_count++;
    p->steps[index] = (ls_plan_step_impl){.kernel = kernel, .node = node, .pass = pass, .spec = kept};
    if (kept) {
        *kept = *spec;
        for (int a = 0; a < LS_ARG_COUNT; a++) kept->layout[a] = NULL;
        p->steps[index].flops = op->flops(spec);
    }
    if (kernel->scratch_bytes)
        LS_TRY(ls__buffer_add(b, kernel->scratch_bytes, 0, &p->steps[index].arg[LS_ARG_SCRATCH]));
    *out = &p->steps[index];
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

ls_status ls__request_params(ls_builder *b, int node, const ls_plan_step_impl *step) {
    const ls_node *n = &b->graph->nodes[node];
    for (int k = 0; k < n->param_count; k++) {
        if (!step->kernel->layout[LS_ARG_W + k]) continue;
        LS_TRY(grow(&b->requests, &b->request_capacity, b->request_count, sizeof *b->requests));
        b->requests[b->request_count++] =
            (ls_param_request){(int)(step - b->plan->steps), n->params[k], (ls_arg)(LS_ARG_W + k)};
    }
    return LS_OK;
}

void ls__pass_numbers(const ls_builder *b, int node, ls_plan_step_impl *step) {
    const ls_node *from = ls__value_node(b->graph, ls__input_home(b, node, 0));
    if (step->kernel->layout[LS_ARG_NUMBERS]) step->arg[LS_ARG_NUMBERS] = b->nodes[from - b->graph->nodes].input[0].at;
}

ls_kernel_spec ls__plain_spec(ls_acts_as what, ls_pass pass, ls_shape shape, ls_dtype dtype, int inputs) {
    ls_tensor_type t = {shape, dtype, dtype};
    ls_kernel_spec spec = {.op = ls__op_acting_as(what)->kind, .pass = pass, .x_count = inputs, .y_count = 1};
    for (int i = 0; i < inputs; i++) spec.x[i] = t;
    spec.y[0] = t;
    return spec;
}
