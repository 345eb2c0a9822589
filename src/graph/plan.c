// Compiling a graph into a plan. Forward is laid down first, node by node, each kernel saying how it wants its input; then
// the loss; then backward in reverse. A reorder goes wherever two kernels do not agree on a layout. A ReLU directly after a
// convolution or dense layer is folded into it; its backward is folded into whoever computes the gradient of its output.
#include "graph/plan.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "graph/plan_impl.h"

// A tensor as the builder knows it: where it is and how it lies.
typedef struct tensor {
    ls_step_arg at;
    const ls_layout *layout;
} tensor;

// A kernel's wish for a parameter in a layout, settled when all layouts of masters are known.
typedef struct wish {
    int step, param;
    ls_arg arg;
} wish;

// What is known of a node while building.
typedef struct node_state {
    int folded;    // a ReLU that is part of its input's kernel
    int relu;      // its kernel ends in a ReLU
    tensor value;  // what it computes
    tensor input;  // what its kernel read, after any reorder
    ls_step_arg workspace;
    ls_kernel_spec spec;  // of its forward kernel
} node_state;

typedef struct builder {
    ls_plan *plan;
    const ls_graph *graph;
    ls_device *device;
    node_state *nodes;
    wish *wishes;
    int wish_count, wish_capacity;
} builder;

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

static ls_status buffer_add(builder *b, int64_t bytes, int activation, ls_step_arg *out) {
    ls_plan *p = b->plan;
    LS_TRY(grow(&p->buffers, &p->buffer_capacity, p->buffer_count, sizeof *p->buffers));
    p->buffers[p->buffer_count] = (ls_buffer){.bytes = bytes, .first = -1, .last = -1, .activation = activation};
    *out = (ls_step_arg){LS_PLACE_ARENA, p->buffer_count++};
    return LS_OK;
}

// Appends a step; takes the kernel over, also when it fails. The arguments are filled in by the caller.
static ls_status step_add(builder *b, ls_kernel *kernel, int node, const char *pass, const ls_kernel_spec *spec,
                          ls_plan_step_impl **out) {
    ls_plan *p = b->plan;
    ls_status status = grow(&p->steps, &p->step_capacity, p->step_count, sizeof *p->steps);
    if (status != LS_OK) {
        ls_kernel_destroy(&kernel);
        return status;
    }
    ls_plan_step_impl *step = &p->steps[p->step_count++];
    *step = (ls_plan_step_impl){.kernel = kernel, .node = node, .pass = pass};
    if (spec) step->spec = *spec;
    for (int a = 0; a < LS_ARG_COUNT; a++) step->spec.layout[a] = NULL;
    if (kernel->scratch_bytes) LS_TRY(buffer_add(b, kernel->scratch_bytes, 0, &step->arg[LS_ARG_SCRATCH]));
    *out = step;
    return LS_OK;
}

// The tensor in another layout: itself, or the result of a reorder step.
static ls_status in_layout(builder *b, tensor from, const ls_layout *layout, int node, tensor *out) {
    *out = from;
    if (!layout || from.layout == layout) return LS_OK;
    ls_kernel *kernel;
    ls_plan_step_impl *step;
    LS_TRY(b->device->ops->reorder_create(b->device, from.layout, layout, &kernel));
    LS_TRY(step_add(b, kernel, node, "reorder", NULL, &step));
    out->layout = layout;
    LS_TRY(buffer_add(b, layout->bytes, 1, &out->at));
    step->arg[LS_ARG_X] = from.at;
    step->arg[LS_ARG_Y] = out->at;
    return LS_OK;
}

static ls_status wish_add(builder *b, const ls_plan_step_impl *step, int param, ls_arg arg) {
    LS_TRY(grow(&b->wishes, &b->wish_capacity, b->wish_count, sizeof *b->wishes));
    b->wishes[b->wish_count++] = (wish){(int)(step - b->plan->steps), param, arg};
    return LS_OK;
}

static ls_shape batched(const ls_plan *plan, ls_shape sample) {
    ls_shape s = {.ndim = sample.ndim + 1, .dim = {plan->config.batch}};
    for (int i = 0; i < sample.ndim; i++) s.dim[i + 1] = sample.dim[i];
    return s;
}

static int has_weights(ls_op_kind op) { return op == LS_OP_CONV2D || op == LS_OP_DENSE; }

// Which ReLUs fold into the layer before them. Every value has one reader: the graph is a chain.
static void analyse(builder *b) {
    const ls_graph *g = b->graph;
    for (int i = 1; i < g->node_count; i++) {
        const ls_node *n = &g->nodes[i], *before = &g->nodes[n->inputs[0]];
        if (has_weights(n->op)) b->nodes[i].relu = n->attrs.activation == LS_ACTIVATION_RELU;
        if (n->op != LS_OP_RELU || !has_weights(before->op)) continue;
        b->nodes[i].folded = 1;
        b->nodes[n->inputs[0]].relu = 1;
    }
}

// The node whose kernel computes what node `v` stands for.
static ls_value computed_by(const builder *b, ls_value v) {
    while (b->nodes[v].folded) v = b->graph->nodes[v].inputs[0];
    return v;
}

// --- forward ---------------------------------------------------------------------------------------------------------

static ls_status forward_node(builder *b, int i) {
    const ls_node *n = &b->graph->nodes[i];
    node_state *s = &b->nodes[i], *from = &b->nodes[computed_by(b, n->inputs[0])];
    ls_dtype precision = b->plan->config.precision;
    int is_output = i == computed_by(b, b->graph->output);
    s->spec = (ls_kernel_spec){.op = n->op,
                               .attrs = n->attrs,
                               .pass = b->plan->config.training ? LS_PASS_TRAINING : LS_PASS_INFERENCE,
                               .x = batched(b->plan, b->graph->nodes[n->inputs[0]].shape),
                               .y = batched(b->plan, n->shape),
                               .x_dtype = precision,
                               .y_dtype = is_output && has_weights(n->op) ? LS_DTYPE_F32 : precision,
                               .dy_dtype = precision,
                               .w_dtype = precision,
                               .mask_dx = from->relu};
    if (s->relu) s->spec.attrs.activation = LS_ACTIVATION_RELU;
    ls_kernel_spec spec = s->spec;
    // Layers with weights choose their layout; the rest take what comes.
    if (!has_weights(n->op)) spec.layout[LS_ARG_X] = from->value.layout;
    ls_kernel *kernel;
    ls_plan_step_impl *step;
    LS_TRY(ls_kernel_create(b->device, &spec, &kernel));
    ls_status status = in_layout(b, from->value, kernel->layout[LS_ARG_X], i, &s->input);
    if (status != LS_OK) {
        ls_kernel_destroy(&kernel);
        return status;
    }
    LS_TRY(step_add(b, kernel, i, "forward", &spec, &step));
    s->value.layout = kernel->layout[LS_ARG_Y];
    // What only renames its input shares its memory.
    int alias = n->op == LS_OP_FLATTEN || (n->op == LS_OP_DROPOUT && !b->plan->config.training);
    if (alias && s->input.at.place == LS_PLACE_ARENA)
        s->value.at = s->input.at;
    else
        LS_TRY(buffer_add(b, s->value.layout->bytes, 1, &s->value.at));
    step->arg[LS_ARG_X] = s->input.at;
    step->arg[LS_ARG_Y] = s->value.at;
    if (kernel->workspace_bytes) LS_TRY(buffer_add(b, kernel->workspace_bytes, 0, &s->workspace));
    step->arg[LS_ARG_WORKSPACE] = s->workspace;
    if (n->op == LS_OP_DROPOUT) step->arg[LS_ARG_RANDOM].place = LS_PLACE_RANDOM;
    if (n->param_count > 0) LS_TRY(wish_add(b, step, n->params[0], LS_ARG_W));
    if (n->param_count > 1) LS_TRY(wish_add(b, step, n->params[1], LS_ARG_B));
    return LS_OK;
}

static ls_kernel_spec loss_spec(const builder *b, ls_pass pass) {
    ls_shape x = batched(b->plan, b->graph->nodes[b->graph->output].shape);
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

static ls_status forward_loss(builder *b, tensor *logits) {
    ls_kernel_spec spec = loss_spec(b, LS_PASS_INFERENCE);
    ls_kernel *kernel;
    ls_plan_step_impl *step;
    const ls_layout *plain;
    LS_TRY(b->device->ops->layout_plain(b->device, spec.x, LS_DTYPE_F32, 0, &plain));
    int node = computed_by(b, b->graph->output);
    LS_TRY(in_layout(b, b->nodes[node].value, plain, node, logits));
    LS_TRY(ls_kernel_create(b->device, &spec, &kernel));
    LS_TRY(step_add(b, kernel, b->graph->output, "loss", &spec, &step));
    step->arg[LS_ARG_X] = logits->at;
    step->arg[LS_ARG_LABELS].place = LS_PLACE_LABELS;
    step->arg[LS_ARG_METRICS].place = LS_PLACE_METRICS;
    b->plan->logits = logits->at.index;
    return LS_OK;
}

// --- backward --------------------------------------------------------------------------------------------------------

// DW in the master's layout: straight into the gradient vector, or through a buffer and a reorder.
static ls_status weight_gradient(builder *b, int i, int step_index) {
    const ls_node *n = &b->graph->nodes[i];
    ls_kernel *kernel = b->plan->steps[step_index].kernel;
    ls_params *params = b->plan->params;
    LS_TRY(ls__params_place(params, n->params[0], kernel->layout[LS_ARG_DW]));
    if (n->param_count > 1) {
        LS_TRY(ls__params_place(params, n->params[1], kernel->layout[LS_ARG_DB]));
        b->plan->steps[step_index].arg[LS_ARG_DB] = (ls_step_arg){LS_PLACE_GRADIENT, n->params[1]};
    }
    const ls_param_place *place = &params->place[n->params[0]], *last = &params->place[n->params[n->param_count - 1]];
    ls_step_arg gradient = {LS_PLACE_GRADIENT, n->params[0]};
    int ready = step_index;
    if (kernel->layout[LS_ARG_DW] == place->layout) {
        b->plan->steps[step_index].arg[LS_ARG_DW] = gradient;
    } else {
        tensor dw = {.layout = kernel->layout[LS_ARG_DW]};
        LS_TRY(buffer_add(b, dw.layout->bytes, 0, &dw.at));
        b->plan->steps[step_index].arg[LS_ARG_DW] = dw.at;
        ls_kernel *reorder;
        ls_plan_step_impl *step;
        LS_TRY(b->device->ops->reorder_create(b->device, dw.layout, place->layout, &reorder));
        LS_TRY(step_add(b, reorder, i, "reorder", NULL, &step));
        step->arg[LS_ARG_X] = dw.at;
        step->arg[LS_ARG_Y] = gradient;
        ready = b->plan->step_count - 1;
    }
    b->plan->steps[ready].ready_offset = place->offset;
    b->plan->steps[ready].ready_count = last->offset + last->layout->bytes / 4 - place->offset;
    return LS_OK;
}

static ls_status backward_weights(builder *b, int i, tensor dy) {
    node_state *s = &b->nodes[i];
    ls_kernel_spec spec = s->spec;
    spec.pass = LS_PASS_BACKWARD_WEIGHTS;
    spec.layout[LS_ARG_X] = s->input.layout;
    spec.layout[LS_ARG_DY] = dy.layout;
    ls_kernel *kernel;
    ls_plan_step_impl *step;
    LS_TRY(ls_kernel_create(b->device, &spec, &kernel));
    LS_TRY(step_add(b, kernel, i, "backward weights", &spec, &step));
    step->arg[LS_ARG_X] = s->input.at;
    step->arg[LS_ARG_DY] = dy.at;
    return weight_gradient(b, i, (int)(step - b->plan->steps));
}

static ls_status backward_data(builder *b, int i, tensor dy, tensor *dx) {
    const ls_node *n = &b->graph->nodes[i];
    node_state *s = &b->nodes[i];
    ls_kernel_spec spec = s->spec;
    spec.pass = LS_PASS_BACKWARD_DATA;
    spec.layout[LS_ARG_DX] = s->input.layout;
    spec.layout[LS_ARG_DY] = dy.layout;
    ls_kernel *kernel;
    ls_plan_step_impl *step;
    LS_TRY(ls_kernel_create(b->device, &spec, &kernel));
    ls_status status = in_layout(b, dy, kernel->layout[LS_ARG_DY], i, &dy);
    if (status != LS_OK) {
        ls_kernel_destroy(&kernel);
        return status;
    }
    LS_TRY(step_add(b, kernel, i, "backward data", &spec, &step));
    dx->layout = kernel->layout[LS_ARG_DX];
    if (n->op == LS_OP_FLATTEN && !spec.mask_dx)
        dx->at = dy.at;
    else
        LS_TRY(buffer_add(b, dx->layout->bytes, 1, &dx->at));
    step->arg[LS_ARG_DX] = dx->at;
    step->arg[LS_ARG_DY] = dy.at;
    if (kernel->layout[LS_ARG_X]) step->arg[LS_ARG_X] = s->input.at;
    if (kernel->layout[LS_ARG_Y]) step->arg[LS_ARG_Y] = s->value.at;
    step->arg[LS_ARG_WORKSPACE] = s->workspace;
    if (n->op == LS_OP_DROPOUT) step->arg[LS_ARG_RANDOM].place = LS_PLACE_RANDOM;
    if (n->param_count > 0) LS_TRY(wish_add(b, step, n->params[0], LS_ARG_W));
    return LS_OK;
}

static ls_status backward(builder *b, tensor logits) {
    ls_kernel_spec spec = loss_spec(b, LS_PASS_BACKWARD_DATA);
    ls_kernel *kernel;
    ls_plan_step_impl *step;
    tensor d;
    LS_TRY(ls_kernel_create(b->device, &spec, &kernel));
    LS_TRY(step_add(b, kernel, b->graph->output, "loss gradient", &spec, &step));
    d.layout = kernel->layout[LS_ARG_DX];
    LS_TRY(buffer_add(b, d.layout->bytes, 1, &d.at));
    step->arg[LS_ARG_X] = logits.at;
    step->arg[LS_ARG_LABELS].place = LS_PLACE_LABELS;
    step->arg[LS_ARG_DX] = d.at;
    for (ls_value v = computed_by(b, b->graph->output); v != 0; v = computed_by(b, b->graph->nodes[v].inputs[0])) {
        const ls_node *n = &b->graph->nodes[v];
        const ls_layout *y = b->nodes[v].value.layout;  // the gradient of Y lies as Y does, where their types agree
        if (y->dtype == b->plan->config.precision) LS_TRY(in_layout(b, d, y, v, &d));
        if (n->param_count > 0) LS_TRY(backward_weights(b, v, d));
        if (computed_by(b, n->inputs[0]) != 0) LS_TRY(backward_data(b, v, d, &d));
    }
    return LS_OK;
}

// --- the whole -------------------------------------------------------------------------------------------------------

static ls_status settle_wishes(builder *b) {
    ls_params *params = b->plan->params;
    for (int i = 0; i < b->wish_count; i++) {
        wish w = b->wishes[i];
        ls_plan_step_impl *step = &b->plan->steps[w.step];
        int copy;
        LS_TRY(ls__params_place(params, w.param, NULL));
        LS_TRY(ls__params_want(params, w.param, step->kernel->layout[w.arg], &copy));
        step->arg[w.arg] =
            copy == LS_MASTER ? (ls_step_arg){LS_PLACE_WEIGHT, w.param} : (ls_step_arg){LS_PLACE_COPY, copy};
    }
    return LS_OK;
}

static ls_status place_buffers(ls_plan *p) {
    for (int i = 0; i < p->step_count; i++)
        for (int a = 0; a < LS_ARG_COUNT; a++) {
            if (p->steps[i].arg[a].place != LS_PLACE_ARENA) continue;
            ls_buffer *buffer = &p->buffers[p->steps[i].arg[a].index];
            if (buffer->first < 0) buffer->first = i;
            buffer->last = i;
        }
    p->buffers[p->logits].last = p->step_count;  // ls_plan_logits reads them afterwards
    p->arena_bytes = ls__arena_place(p->buffers, p->buffer_count);
    return p->arena_bytes < 0 ? LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory") : LS_OK;
}

static ls_status check(const ls_graph *g) {
    if (g->output == LS_NO_VALUE || g->nodes[g->output].shape.ndim != 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "model %s does not end in one score per class: finish it with a layer of shape (None, classes)",
                       g->name);
    const ls_node *last = &g->nodes[g->output];
    if (last->op == LS_OP_RELU || last->attrs.activation != LS_ACTIVATION_NONE || last->op == LS_OP_INPUT)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "model %s ends in layer %s: the last layer must give logits, without an activation", g->name,
                       last->name);
    return LS_OK;
}

static ls_status build(builder *b) {
    ls_plan *p = b->plan;
    LS_TRY(check(b->graph));
    LS_TRY(ls_calloc(b->graph->node_count, sizeof *b->nodes, &b->nodes));
    analyse(b);
    ls_shape input = batched(p, b->graph->nodes[0].shape);
    b->nodes[0].value.at.place = LS_PLACE_IMAGES;
    LS_TRY(b->device->ops->layout_plain(b->device, input, p->config.precision, 0, &b->nodes[0].value.layout));
    for (int i = 1; i < b->graph->node_count; i++)
        if (!b->nodes[i].folded) LS_TRY(forward_node(b, i));
    tensor logits;
    LS_TRY(forward_loss(b, &logits));
    p->forward_count = p->step_count;
    if (p->config.training) LS_TRY(backward(b, logits));
    LS_TRY(settle_wishes(b));
    return place_buffers(p);
}

ls_status ls_plan_create(const ls_graph *graph, ls_device *device, ls_params *params, const ls_plan_config *config,
                         ls_plan **out) {
    ls_plan *p;
    LS_TRY(ls_calloc(1, sizeof *p, &p));
    *p = (ls_plan){.graph = graph, .device = device, .params = params, .config = *config};
    builder b = {.plan = p, .graph = graph, .device = device};
    ls_status status = build(&b);
    free(b.nodes);
    free(b.wishes);
    if (status != LS_OK) {
        ls_plan_destroy(&p);
        return status;
    }
    *out = p;
    return LS_OK;
}
