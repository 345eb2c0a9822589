// Backward: the kernels of the gradients, from the losses back, as each op emits them. A value with several readers gets the sum of
// their gradients; an operation whose kernel adds what is there already does that, for others it is an addition.
#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "graph/plan_build.h"

// --- sums of gradients -----------------------------------------------------------------------------------------------

// Adds a gradient of the value computed at `home`.
static ls_status add_gradient(ls_builder *b, ls_value home, ls_tensor d, int node) {
    ls_tensor *sum = &b->values[home].gradient;
    if (!b->values[home].wants_gradient) return LS_OK;
    if (!sum->layout) {
        *sum = d;
        return LS_OK;
    }
    LS_TRY(ls__in_layout(b, d, sum->layout, node, &d));
    ls_kernel_spec spec = ls__plain_spec(LS_ACTS_AS_SUM, LS_PASS_TRAINING, sum->layout->shape, sum->layout->dtype, 2);
    spec.layout[LS_ARG_X] = sum->layout;
    ls_kernel *kernel;
    ls_plan_step_impl *step;
    LS_TRY(ls_kernel_create(b->device, &spec, &kernel));
    LS_TRY(ls__step_add(b, kernel, node, "sum of gradients", NULL, &step));
    step->arg[LS_ARG_X] = sum->at;
    step->arg[LS_ARG_X + 1] = d.at;
    LS_TRY(ls__buffer_add(b, sum->layout->bytes, 1, &sum->at));
    step->arg[LS_ARG_Y] = sum->at;
    return LS_OK;
}

ls_status ls__contribute(ls_builder *b, int node, int index, ls_tensor d) {
    if (!d.layout) return LS_OK;
    return add_gradient(b, ls__input_home(b, node, index), d, node);
}

// The gradient of what a kernel computed before its ReLU, for readers that have not masked it.
static ls_status mask(ls_builder *b, int i, ls_tensor *d) {
    assert(d->layout);  // gradients pass backward only where there are some
    ls_tensor y = b->values[b->graph->nodes[i].value].value;
    const ls_kernel_spec *forward = b->nodes[i].spec;
    ls_kernel_spec spec =
        ls__plain_spec(LS_ACTS_AS_RELU, LS_PASS_BACKWARD_DATA, forward->y[0].shape, b->plan->config.precision, 1);
    LS_TRY(ls__in_layout(b, y, d->layout, i, &y));  // what losses read is F32, and gradients are not
    spec.layout[LS_ARG_DX] = spec.layout[LS_ARG_DY] = d->layout;
    ls_kernel *kernel;
    ls_plan_step_impl *step;
    LS_TRY(ls_kernel_create(b->device, &spec, &kernel));
    LS_TRY(ls__step_add(b, kernel, i, "backward relu", NULL, &step));
    step->arg[LS_ARG_X] = y.at;  // positive where what went into the ReLU was
    step->arg[LS_ARG_DY] = d->at;
    LS_TRY(ls__buffer_add(b, d->layout->bytes, 1, &d->at));
    step->arg[LS_ARG_DX] = d->at;
    return LS_OK;
}

ls_status ls__gradient_of(ls_builder *b, int i, int index, ls_tensor *out) {
    const ls_value_state *v = &b->values[b->graph->nodes[i].value + index];
    *out = v->gradient;
    // It lies as the output does, where their types agree.
    if (out->layout && v->value.layout->dtype == b->plan->config.precision)
        LS_TRY(ls__in_layout(b, *out, v->value.layout, i, out));
    return LS_OK;
}

// --- parameters ------------------------------------------------------------------------------------------------------

// Sends the gradient of parameter k where it belongs: straight, or through a buffer and a reorder where an earlier plan has placed
// the parameter in another layout; of one that is not trained, nowhere.
static ls_status parameter_gradient(ls_builder *b, int i, int k, int step_index) {
    int param = b->graph->nodes[i].params[k];
    const ls_layout *layout = b->plan->steps[step_index].kernel->layout[LS_ARG_DW + k];
    ls_params *params = b->plan->params;
    ls_step_arg gradient = {LS_PLACE_GRADIENT, param, 0};
    LS_TRY(ls__params_place(params, param, layout));
    const ls_param_place *place = &params->place[param];
    b->plan->steps[step_index].arg[LS_ARG_DW + k] = gradient;
    int trained = ls__graph_trains(b->graph, param);
    if (trained && layout == place->layout) return LS_OK;
    ls_tensor dw = {.layout = layout};
    ls_kernel *reorder;
    ls_plan_step_impl *step;
    LS_TRY(ls__buffer_add(b, layout->bytes, 0, &dw.at));
    b->plan->steps[step_index].arg[LS_ARG_DW + k] = dw.at;
    if (!trained) return LS_OK;
    LS_TRY(b->device->ops->reorder_create(b->device, dw.layout, place->layout, &reorder));
    LS_TRY(ls__step_add(b, reorder, i, "reorder", NULL, &step));
    step->arg[LS_ARG_X] = dw.at;
    step->arg[LS_ARG_Y] = gradient;
    return LS_OK;
}

// Places the node's parameters one after the other, in the layouts their gradients are computed in.
static ls_status parameter_gradients(ls_builder *b, int i, int step_index) {
    const ls_node *n = &b->graph->nodes[i];
    const ls_kernel *kernel = b->plan->steps[step_index].kernel;
    for (int k = 0; k < n->param_count; k++) {
        if (!kernel->layout[LS_ARG_DW + k]) continue;
        LS_TRY(parameter_gradient(b, i, k, step_index));
    }
    return LS_OK;
}

// --- emitting --------------------------------------------------------------------------------------------------------

// Whether backward, as far as it is laid down, reads a buffer.
static int read_in_backward(const ls_plan *p, int buffer) {
    for (int i = p->forward_count; i < p->step_count; i++)
        for (int a = 0; a < LS_ARG_COUNT; a++)
            if (p->steps[i].arg[a].place == LS_PLACE_ARENA && p->steps[i].arg[a].index == buffer) return 1;
    return 0;
}

// Finds the last of the concatenations, each a part of the next, that have a copy of node i's first input and are kept for backward
// anyway: the input itself need not be, if the node's kernel reads the copy. Tells the spec of its pieces and sets `at` to the first of
// them. What is made again in backward is not kept anyway.
static void find_copy(const ls_builder *b, int i, ls_kernel_spec *spec, ls_step_arg *at) {
    ls_value v = ls__input_home(b, i, 0);
    const ls_layout *layout = b->nodes[i].input[0].layout;
    int64_t offset = 0;
    while (b->plan->config.remat == LS_REMAT_NONE && b->values[v].holder >= 0) {
        const ls_node_state *holder = &b->nodes[b->values[v].holder];
        int index = b->values[v].holder_input;
        int64_t pieces = holder->holds_pieces;
        if (holder->input[index].layout != layout || (spec->pieces && pieces != spec->pieces)) break;
        spec->pieces = pieces;
        for (int k = 0; k < index; k++) offset += holder->input[k].layout->bytes / pieces;
        v = b->graph->nodes[b->values[v].holder].value;
        ls_tensor whole = b->values[v].value;
        layout = whole.layout;
        if (offset > INT_MAX || whole.at.place != LS_PLACE_ARENA || !read_in_backward(b->plan, whole.at.index))
            continue;
        *at = (ls_step_arg){LS_PLACE_ARENA, whole.at.index, whole.at.offset + (int)offset};
        spec->apart = layout->bytes / pieces;
    }
}

// What a backward kernel is asked for: forward's spec, and the layouts that are settled.
static ls_kernel_spec backward_spec(const ls_builder *b, int i, ls_pass pass, const ls_tensor *dy) {
    const ls_node_state *s = &b->nodes[i];
    ls_kernel_spec spec = *s->spec;
    spec.pass = pass;
    for (int k = 0; k < spec.x_count; k++) {
        if (pass != LS_PASS_BACKWARD_WEIGHTS) spec.layout[LS_ARG_DX + k] = s->input[k].layout;
        if (pass != LS_PASS_BACKWARD_DATA) spec.layout[LS_ARG_X + k] = s->input[k].layout;
        // Where types differ (losses read F32 and give gradients in the plan's precision) the kernel chooses.
        if (s->input[k].layout->dtype != spec.x[k].gradient) spec.layout[LS_ARG_DX + k] = NULL;
    }
    for (int k = 0; k < spec.y_count && dy; k++) spec.layout[LS_ARG_DY + k] = dy[k].layout;
    for (int k = 0; k < spec.w_count; k++)
        if (!ls__graph_trains(b->graph, b->graph->nodes[i].params[k])) spec.frozen |= 1u << k;
    return spec;
}

// The gradients of inputs that the kernel gives: memory for each, or its output's where it only renames.
static ls_status place_gradients(ls_builder *b, int i, const ls_kernel_spec *spec, const ls_tensor *dy, int step_index,
                                 ls_tensor *dx) {
    const ls_op *op = ls__op_find(b->graph->nodes[i].op);
    const ls_kernel *kernel = b->plan->steps[step_index].kernel;
    for (int k = 0; k < spec->x_count; k++) {
        ls_tensor d = {.layout = kernel->layout[LS_ARG_DX + k]};
        if (d.layout && dy && op->traits & LS_OP_RENAMES && !spec->mask_dx)
            d.at = dy[0].at;
        else if (d.layout)
            LS_TRY(ls__buffer_add(b, d.layout->bytes, 1, &d.at));
        b->plan->steps[step_index].arg[LS_ARG_DX + k] = d.at;
        if (dx) dx[k] = d;
    }
    return LS_OK;
}

ls_status ls__emit_backward(ls_builder *b, int i, ls_pass pass, const char *pass_name, const ls_tensor *dy,
                            ls_tensor *dx) {
    const ls_node *n = &b->graph->nodes[i];
    const ls_op *op = ls__op_find(n->op);
    const ls_node_state *s = &b->nodes[i];
    ls_value from = ls__input_home(b, i, 0);
    ls_kernel_spec spec = backward_spec(b, i, pass, dy);
    ls_step_arg copy = {0};
    find_copy(b, i, &spec, &copy);
    ls_tensor addend = b->values[from].gradient, d[LS_MAX_OUTPUTS] = {{.layout = NULL}};
    spec.addend = pass == LS_PASS_BACKWARD && op->absorbs & LS_ABSORBS_ADDEND && addend.layout;
    if (spec.addend) LS_TRY(ls__in_layout(b, addend, s->input[0].layout, i, &addend));
    ls_kernel *kernel;
    ls_plan_step_impl *step;
    LS_TRY(ls_kernel_create(b->device, &spec, &kernel));
    ls_status status = LS_OK;
    for (int k = 0; k < spec.y_count && dy && status == LS_OK; k++)
        status = ls__in_layout(b, dy[k], kernel->layout[LS_ARG_DY + k], i, &d[k]);
    if (status != LS_OK) {
        ls_kernel_destroy(&kernel);
        return status;
    }
    LS_TRY(ls__step_add(b, kernel, i, pass_name, &spec, &step));
    int at = (int)(step - b->plan->steps);
    for (int k = 0; k < spec.x_count; k++)
        if (kernel->layout[LS_ARG_X + k]) step->arg[LS_ARG_X + k] = k == 0 && kernel->apart ? copy : s->input[k].at;
    for (int k = 0; k < spec.y_count; k++) {
        if (kernel->layout[LS_ARG_Y + k]) step->arg[LS_ARG_Y + k] = b->values[n->value + k].value.at;
        if (dy) step->arg[LS_ARG_DY + k] = d[k].at;
    }
    if (spec.addend) step->arg[LS_ARG_ADDEND] = addend.at;
    step->arg[LS_ARG_WORKSPACE] = s->workspace;
    if (op->traits & LS_OP_RANDOM) step->arg[LS_ARG_RANDOM].place = LS_PLACE_RANDOM;
    if (op->part == LS_PART_LOSS) step->arg[LS_ARG_SCALE].place = LS_PLACE_SCALE;
    ls__pass_numbers(b, i, step);
    LS_TRY(place_gradients(b, i, &spec, dy ? d : NULL, at, dx));
    LS_TRY(ls__request_params(b, i, &b->plan->steps[at]));
    if (spec.addend) b->values[from].gradient = (ls_tensor){0};  // DX has it
    return parameter_gradients(b, i, at);
}

// --- the common cases ------------------------------------------------------------------------------------------------

static int any_gradient_wanted(const ls_builder *b, int i) {
    for (int k = 0; k < b->graph->nodes[i].input_count; k++)
        if (b->values[ls__input_home(b, i, k)].wants_gradient) return 1;
    return 0;
}

static ls_status contribute_all(ls_builder *b, int i, const ls_tensor *dx) {
    for (int k = 0; k < b->graph->nodes[i].input_count; k++) LS_TRY(ls__contribute(b, i, k, dx[k]));
    return LS_OK;
}

ls_status ls__backward_layer(ls_builder *b, int i) {
    const ls_node *n = &b->graph->nodes[i];
    const ls_node_state *s = &b->nodes[i];
    ls_tensor d[LS_MAX_OUTPUTS] = {{.layout = NULL}}, dx[LS_MAX_INPUTS] = {{.layout = NULL}};
    for (int k = 0; k < n->output_count; k++) LS_TRY(ls__gradient_of(b, i, k, &d[k]));
    if (s->activation != LS_ACTIVATION_NONE && !s->masked_by_reader) LS_TRY(mask(b, i, &d[0]));
    if (s->residual != LS_NO_VALUE) LS_TRY(add_gradient(b, b->values[s->residual].home, d[0], i));
    if (s->trains) LS_TRY(ls__emit_backward(b, i, LS_PASS_BACKWARD_WEIGHTS, "backward weights", d, NULL));
    if (!any_gradient_wanted(b, i)) return LS_OK;
    LS_TRY(ls__emit_backward(b, i, LS_PASS_BACKWARD_DATA, "backward data", d, dx));
    return contribute_all(b, i, dx);
}

ls_status ls__backward_joint(ls_builder *b, int i) {
    const ls_node *n = &b->graph->nodes[i];
    const ls_node_state *s = &b->nodes[i];
    ls_tensor d[LS_MAX_OUTPUTS] = {{.layout = NULL}}, dx[LS_MAX_INPUTS] = {{.layout = NULL}};
    if (s->spec->pass == LS_PASS_INFERENCE)
        return LS_FAIL(LS_STATUS_UNSUPPORTED,
                       "%s: its statistics are frozen, but what comes before it is trained; freeze that too, or train "
                       "this layer",
                       n->name);
    for (int k = 0; k < n->output_count; k++) LS_TRY(ls__gradient_of(b, i, k, &d[k]));
    LS_TRY(ls__emit_backward(b, i, LS_PASS_BACKWARD, "backward", d, dx));
    int at = b->plan->step_count - 1;
    while (b->plan->steps[at].node != i || strcmp(b->plan->steps[at].pass, "backward") != 0) at--;
    if (s->residual == LS_NO_VALUE) return contribute_all(b, i, dx);
    ls_tensor dresidual = {.layout = b->plan->steps[at].kernel->layout[LS_ARG_DRESIDUAL]};
    LS_TRY(ls__buffer_add(b, dresidual.layout->bytes, 1, &dresidual.at));
    b->plan->steps[at].arg[LS_ARG_DRESIDUAL] = dresidual.at;
    LS_TRY(contribute_all(b, i, dx));
    return add_gradient(b, b->values[s->residual].home, dresidual, i);
}

ls_status ls__backward_seed(ls_builder *b, int i) {
    const ls_node *n = &b->graph->nodes[i];
    ls_tensor dx[LS_MAX_INPUTS] = {{.layout = NULL}};
    for (int k = 1; k < n->input_count; k++)
        if (b->values[ls__input_home(b, i, k)].wants_gradient)
            return LS_FAIL(LS_STATUS_UNSUPPORTED,
                           "%s: its targets are computed by layers that are trained, and no gradient passes through "
                           "targets; freeze those layers, or take what an input brings along",
                           n->name);
    if (!any_gradient_wanted(b, i)) return LS_OK;
    LS_TRY(ls__emit_backward(b, i, LS_PASS_BACKWARD_DATA, "loss gradient", NULL, dx));
    return ls__contribute(b, i, 0, dx[0]);
}

// Whether a gradient comes to a node, or begins there.
static int has_gradient(const ls_builder *b, int i) {
    const ls_node *n = &b->graph->nodes[i];
    if (ls__op_find(n->op)->part == LS_PART_LOSS) return 1;
    for (int k = 0; k < n->output_count; k++)
        if (b->values[n->value + k].gradient.layout) return 1;
    return 0;
}

ls_status ls__plan_backward_steps(ls_builder *b) {
    for (int i = b->graph->node_count - 1; i >= 0; i--) {
        const ls_node *n = &b->graph->nodes[i];
        const ls_op *op = ls__op_find(n->op);
        if (!ls__has_kernel(b, i) || !has_gradient(b, i)) continue;
        if (!op->backward)
            return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s: no gradient passes through a %s layer", n->name,
                           op->keras_class);
        LS_TRY(op->backward(b, i));
    }
    return LS_OK;
}
