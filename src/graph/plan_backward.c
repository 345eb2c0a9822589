// Backward: the kernels of the gradients, from the loss back. A value with several readers gets the sum of their gradients;
// a batch normalization adds what is there already to what it computes, other layers leave it to an addition.
#include "base/error.h"
#include "graph/plan_build.h"

// Adds a gradient of the value computed at `home`.
static ls_status contribute(ls_builder *b, ls_value home, ls_tensor d, int node) {
    ls_tensor *sum = &b->nodes[home].gradient;
    if (home == 0) return LS_OK;  // nobody asks for the gradient of the images
    if (!sum->layout) {
        *sum = d;
        return LS_OK;
    }
    LS_TRY(ls__in_layout(b, d, sum->layout, node, &d));
    ls_shape shape = sum->layout->shape;
    ls_dtype dtype = sum->layout->dtype;
    ls_kernel_spec spec = {.op = LS_OP_ADD,
                           .pass = LS_PASS_TRAINING,
                           .x = shape,
                           .y = shape,
                           .x_dtype = dtype,
                           .y_dtype = dtype,
                           .dy_dtype = dtype,
                           .w_dtype = dtype,
                           .layout = {[LS_ARG_X] = sum->layout}};
    ls_kernel *kernel;
    ls_plan_step_impl *step;
    LS_TRY(ls_kernel_create(b->device, &spec, &kernel));
    LS_TRY(ls__step_add(b, kernel, node, "sum of gradients", &spec, &step));
    step->arg[LS_ARG_X] = sum->at;
    step->arg[LS_ARG_X2] = d.at;
    LS_TRY(ls__buffer_add(b, sum->layout->bytes, 1, &sum->at));
    step->arg[LS_ARG_Y] = sum->at;
    return LS_OK;
}

// --- parameters ------------------------------------------------------------------------------------------------------

// Places the node's parameters one after the other, in the layouts their gradients are computed in, and sends the gradients
// there: straight, or through a buffer and a reorder where an earlier plan has placed the parameter in another layout.
static ls_status parameter_gradients(ls_builder *b, int i, int step_index) {
    static const ls_arg args[LS_MAX_NODE_PARAMS] = {LS_ARG_DW, LS_ARG_DB, LS_ARG_DMEAN, LS_ARG_DVARIANCE};
    const ls_node *n = &b->graph->nodes[i];
    ls_kernel *kernel = b->plan->steps[step_index].kernel;
    ls_params *params = b->plan->params;
    int ready = step_index;
    for (int k = 0; k < n->param_count; k++) {
        const ls_layout *layout = kernel->layout[args[k]];
        ls_step_arg gradient = {LS_PLACE_GRADIENT, n->params[k]};
        LS_TRY(ls__params_place(params, n->params[k], layout));
        const ls_param_place *place = &params->place[n->params[k]];
        b->plan->steps[step_index].arg[args[k]] = gradient;
        if (layout == place->layout) continue;
        ls_tensor dw = {.layout = layout};
        ls_kernel *reorder;
        ls_plan_step_impl *step;
        LS_TRY(ls__buffer_add(b, layout->bytes, 0, &dw.at));
        b->plan->steps[step_index].arg[args[k]] = dw.at;
        LS_TRY(b->device->ops->reorder_create(b->device, dw.layout, place->layout, &reorder));
        LS_TRY(ls__step_add(b, reorder, i, "reorder", NULL, &step));
        step->arg[LS_ARG_X] = dw.at;
        step->arg[LS_ARG_Y] = gradient;
        ready = b->plan->step_count - 1;
    }
    const ls_param_place *first = &params->place[n->params[0]], *last = &params->place[n->params[n->param_count - 1]];
    b->plan->steps[ready].ready_offset = first->offset;
    b->plan->steps[ready].ready_count = last->offset + last->layout->bytes / 4 - first->offset;
    return LS_OK;
}

static ls_status backward_weights(ls_builder *b, int i, ls_tensor dy) {
    ls_node_state *s = &b->nodes[i];
    ls_kernel_spec spec = s->spec;
    spec.pass = LS_PASS_BACKWARD_WEIGHTS;
    spec.layout[LS_ARG_X] = s->input.layout;
    spec.layout[LS_ARG_DY] = dy.layout;
    ls_kernel *kernel;
    ls_plan_step_impl *step;
    LS_TRY(ls_kernel_create(b->device, &spec, &kernel));
    LS_TRY(ls__step_add(b, kernel, i, "backward weights", &spec, &step));
    step->arg[LS_ARG_X] = s->input.at;
    step->arg[LS_ARG_DY] = dy.at;
    return parameter_gradients(b, i, (int)(step - b->plan->steps));
}

// --- values ----------------------------------------------------------------------------------------------------------

static ls_status backward_data(ls_builder *b, int i, ls_tensor dy, ls_tensor *dx) {
    const ls_node *n = &b->graph->nodes[i];
    ls_node_state *s = &b->nodes[i];
    ls_kernel_spec spec = s->spec;
    spec.pass = LS_PASS_BACKWARD_DATA;
    spec.layout[LS_ARG_DX] = s->input.layout;
    spec.layout[LS_ARG_DY] = dy.layout;
    ls_kernel *kernel;
    ls_plan_step_impl *step;
    LS_TRY(ls_kernel_create(b->device, &spec, &kernel));
    ls_status status = ls__in_layout(b, dy, kernel->layout[LS_ARG_DY], i, &dy);
    if (status != LS_OK) {
        ls_kernel_destroy(&kernel);
        return status;
    }
    LS_TRY(ls__step_add(b, kernel, i, "backward data", &spec, &step));
    dx->layout = kernel->layout[LS_ARG_DX];
    if (n->op == LS_OP_FLATTEN && !spec.mask_dx)
        dx->at = dy.at;
    else
        LS_TRY(ls__buffer_add(b, dx->layout->bytes, 1, &dx->at));
    step->arg[LS_ARG_DX] = dx->at;
    step->arg[LS_ARG_DY] = dy.at;
    if (kernel->layout[LS_ARG_X]) step->arg[LS_ARG_X] = s->input.at;
    if (kernel->layout[LS_ARG_Y]) step->arg[LS_ARG_Y] = s->value.at;
    step->arg[LS_ARG_WORKSPACE] = s->workspace;
    if (n->op == LS_OP_DROPOUT) step->arg[LS_ARG_RANDOM].place = LS_PLACE_RANDOM;
    if (n->param_count > 0) LS_TRY(ls__wish_add(b, step, n->params[0], LS_ARG_W));
    return LS_OK;
}

// One kernel gives the gradients of input, residual and parameters, and the statistics.
static ls_status backward_batch_norm(ls_builder *b, int i, ls_tensor dy) {
    const ls_node *n = &b->graph->nodes[i];
    ls_node_state *s = &b->nodes[i];
    ls_value from = ls__input_home(b, i, 0);
    ls_tensor addend = b->nodes[from].gradient, dx = {.layout = s->input.layout}, dx2 = {0};
    ls_kernel_spec spec = s->spec;
    spec.pass = LS_PASS_BACKWARD_DATA;
    spec.addend = addend.layout != NULL;
    spec.layout[LS_ARG_DX] = dx.layout;
    spec.layout[LS_ARG_DY] = dy.layout;
    if (spec.addend) LS_TRY(ls__in_layout(b, addend, dx.layout, i, &addend));
    ls_kernel *kernel;
    ls_plan_step_impl *step;
    LS_TRY(ls_kernel_create(b->device, &spec, &kernel));
    LS_TRY(ls__step_add(b, kernel, i, "backward", &spec, &step));
    LS_TRY(ls__buffer_add(b, dx.layout->bytes, 1, &dx.at));
    step->arg[LS_ARG_X] = s->input.at;
    step->arg[LS_ARG_DX] = dx.at;
    step->arg[LS_ARG_DY] = dy.at;
    step->arg[LS_ARG_ADDEND] = addend.at;
    step->arg[LS_ARG_WORKSPACE] = s->workspace;
    if (kernel->layout[LS_ARG_Y]) step->arg[LS_ARG_Y] = s->value.at;
    if (spec.residual) {
        dx2.layout = kernel->layout[LS_ARG_DX2];
        LS_TRY(ls__buffer_add(b, dx2.layout->bytes, 1, &dx2.at));
        step->arg[LS_ARG_DX2] = dx2.at;
    }
    LS_TRY(ls__wish_add(b, step, n->params[0], LS_ARG_W));
    LS_TRY(ls__wish_add(b, step, n->params[1], LS_ARG_B));
    LS_TRY(parameter_gradients(b, i, (int)(step - b->plan->steps)));
    b->nodes[from].gradient = from ? dx : (ls_tensor){0};
    return spec.residual ? contribute(b, b->nodes[s->residual].home, dx2, i) : LS_OK;
}

// The gradient of what a kernel computed before its ReLU, for readers that have not masked it.
static ls_status mask(ls_builder *b, int i, ls_tensor *d) {
    const ls_node_state *s = &b->nodes[i];
    ls_dtype dtype = s->spec.x_dtype;
    ls_kernel_spec spec = {.op = LS_OP_RELU,
                           .pass = LS_PASS_BACKWARD_DATA,
                           .x = s->spec.y,
                           .y = s->spec.y,
                           .x_dtype = dtype,
                           .y_dtype = dtype,
                           .dy_dtype = dtype,
                           .w_dtype = dtype,
                           .layout = {[LS_ARG_DX] = s->value.layout, [LS_ARG_DY] = s->value.layout}};
    ls_kernel *kernel;
    ls_plan_step_impl *step;
    LS_TRY(ls_kernel_create(b->device, &spec, &kernel));
    LS_TRY(ls__step_add(b, kernel, i, "backward relu", &spec, &step));
    step->arg[LS_ARG_X] = s->value.at;  // positive where what went into the ReLU was
    step->arg[LS_ARG_DY] = d->at;
    LS_TRY(ls__buffer_add(b, d->layout->bytes, 1, &d->at));
    step->arg[LS_ARG_DX] = d->at;
    return LS_OK;
}

static ls_status backward_node(ls_builder *b, int i) {
    const ls_node *n = &b->graph->nodes[i];
    ls_node_state *s = &b->nodes[i];
    const ls_layout *y = s->value.layout;  // the gradient of Y lies as Y does, where their types agree
    ls_tensor d = s->gradient, dx;
    if (y->dtype == b->plan->config.precision) LS_TRY(ls__in_layout(b, d, y, i, &d));
    if (n->op == LS_OP_BATCH_NORM) return backward_batch_norm(b, i, d);
    if (n->op == LS_OP_ADD) {
        LS_TRY(contribute(b, ls__input_home(b, i, 0), d, i));
        return contribute(b, ls__input_home(b, i, 1), d, i);
    }
    if (s->relu && !s->masked_by_reader) LS_TRY(mask(b, i, &d));
    if (s->residual != LS_NO_VALUE) LS_TRY(contribute(b, b->nodes[s->residual].home, d, i));
    if (n->param_count > 0) LS_TRY(backward_weights(b, i, d));
    ls_value from = ls__input_home(b, i, 0);
    if (from == 0) return LS_OK;
    LS_TRY(backward_data(b, i, d, &dx));
    return contribute(b, from, dx, i);
}

ls_status ls__plan_backward_steps(ls_builder *b, ls_tensor logits) {
    ls_kernel_spec spec = ls__loss_spec(b, LS_PASS_BACKWARD_DATA);
    ls_kernel *kernel;
    ls_plan_step_impl *step;
    ls_tensor *d = &b->nodes[b->nodes[b->graph->output].home].gradient;
    LS_TRY(ls_kernel_create(b->device, &spec, &kernel));
    LS_TRY(ls__step_add(b, kernel, b->graph->output, "loss gradient", &spec, &step));
    d->layout = kernel->layout[LS_ARG_DX];
    LS_TRY(ls__buffer_add(b, d->layout->bytes, 1, &d->at));
    step->arg[LS_ARG_X] = logits.at;
    step->arg[LS_ARG_LABELS].place = LS_PLACE_LABELS;
    step->arg[LS_ARG_DX] = d->at;
    for (int i = b->graph->node_count - 1; i > 0; i--)
        if (b->nodes[i].home == i) LS_TRY(backward_node(b, i));
    return LS_OK;
}
