// Forward: a kernel for each layer, in the graph's order, each saying how it wants its input; then the loss.
#include "base/error.h"
#include "graph/plan_build.h"

// The spec of node `i`'s forward kernel, all layouts free.
static ls_kernel_spec forward_spec(const ls_builder *b, int i) {
    const ls_node *n = &b->graph->nodes[i], *read = &b->graph->nodes[n->inputs[0]];
    const ls_node_state *s = &b->nodes[i], *from = &b->nodes[ls__input_home(b, i, 0)];
    ls_dtype precision = b->plan->config.precision;
    int is_output = i == b->nodes[b->graph->output].home;
    ls_kernel_spec spec = {.op = n->op == LS_OP_ACTIVATION ? LS_OP_RELU : n->op,
                           .attrs = n->attrs,
                           .pass = b->plan->config.training ? LS_PASS_TRAINING : LS_PASS_INFERENCE,
                           .x = ls__batched(b, b->graph->nodes[b->nodes[n->inputs[0]].source].shape),
                           .y = ls__batched(b, n->shape),
                           .x_dtype = precision,
                           .y_dtype = is_output && ls__has_weights(n->op) ? LS_DTYPE_F32 : precision,
                           .dy_dtype = precision,
                           .w_dtype = precision,
                           .mask_dx = from->masked_by_reader,
                           .residual = s->residual != LS_NO_VALUE};
    if (s->relu) spec.attrs.activation = LS_ACTIVATION_RELU;
    if (b->nodes[n->inputs[0]].padding) {
        for (int k = 0; k < 4; k++) spec.attrs.pad[k] = read->attrs.pad[k];
        spec.attrs.pad_zeros = n->op == LS_OP_MAX_POOL2D;
    }
    return spec;
}

// Reads the inputs in the layouts the kernel wants, and lays the step down. Takes the kernel over, also when it fails.
static ls_status read_inputs(ls_builder *b, int i, ls_kernel *kernel, const ls_kernel_spec *spec,
                             ls_plan_step_impl **step) {
    ls_node_state *s = &b->nodes[i];
    ls_status status =
        ls__in_layout(b, b->nodes[ls__input_home(b, i, 0)].value, kernel->layout[LS_ARG_X], i, &s->input);
    ls_value other = LS_NO_VALUE;
    if (spec->op == LS_OP_ADD) other = ls__input_home(b, i, 1);
    if (s->residual != LS_NO_VALUE) other = b->nodes[s->residual].home;
    if (status == LS_OK && other != LS_NO_VALUE)
        status = ls__in_layout(b, b->nodes[other].value, kernel->layout[LS_ARG_X2], i, &s->other);
    if (status != LS_OK) {
        ls_kernel_destroy(&kernel);
        return status;
    }
    LS_TRY(ls__step_add(b, kernel, i, "forward", spec, step));
    (*step)->arg[LS_ARG_X] = s->input.at;
    (*step)->arg[LS_ARG_X2] = s->other.at;
    return LS_OK;
}

static ls_status wish_parameters(ls_builder *b, int i, const ls_plan_step_impl *step) {
    static const ls_arg args[LS_MAX_NODE_PARAMS] = {LS_ARG_W, LS_ARG_B, LS_ARG_MEAN, LS_ARG_VARIANCE};
    const ls_node *n = &b->graph->nodes[i];
    for (int k = 0; k < n->param_count; k++)
        if (step->kernel->layout[args[k]]) LS_TRY(ls__wish_add(b, step, n->params[k], args[k]));
    return LS_OK;
}

static ls_status forward_node(ls_builder *b, int i) {
    const ls_node *n = &b->graph->nodes[i];
    ls_node_state *s = &b->nodes[i];
    ls_kernel_spec spec = s->spec = forward_spec(b, i);
    // Layers with weights choose their layout; the rest take what comes.
    if (!ls__has_weights(n->op)) spec.layout[LS_ARG_X] = b->nodes[ls__input_home(b, i, 0)].value.layout;
    ls_kernel *kernel;
    ls_plan_step_impl *step;
    LS_TRY(ls_kernel_create(b->device, &spec, &kernel));
    LS_TRY(read_inputs(b, i, kernel, &spec, &step));
    s->value.layout = kernel->layout[LS_ARG_Y];
    // What only renames its input shares its memory.
    int alias = n->op == LS_OP_FLATTEN || (n->op == LS_OP_DROPOUT && !b->plan->config.training);
    if (alias && s->input.at.place == LS_PLACE_ARENA)
        s->value.at = s->input.at;
    else
        LS_TRY(ls__buffer_add(b, s->value.layout->bytes, 1, &s->value.at));
    step->arg[LS_ARG_Y] = s->value.at;
    if (kernel->workspace_bytes) LS_TRY(ls__buffer_add(b, kernel->workspace_bytes, 0, &s->workspace));
    step->arg[LS_ARG_WORKSPACE] = s->workspace;
    if (n->op == LS_OP_DROPOUT) step->arg[LS_ARG_RANDOM].place = LS_PLACE_RANDOM;
    return wish_parameters(b, i, step);
}

static ls_status forward_loss(ls_builder *b, ls_tensor *logits) {
    ls_kernel_spec spec = ls__loss_spec(b, LS_PASS_INFERENCE);
    ls_kernel *kernel;
    ls_plan_step_impl *step;
    const ls_layout *plain;
    LS_TRY(b->device->ops->layout_plain(b->device, spec.x, LS_DTYPE_F32, 0, &plain));
    int node = b->nodes[b->graph->output].home;
    LS_TRY(ls__in_layout(b, b->nodes[node].value, plain, node, logits));
    LS_TRY(ls_kernel_create(b->device, &spec, &kernel));
    LS_TRY(ls__step_add(b, kernel, b->graph->output, "loss", &spec, &step));
    step->arg[LS_ARG_X] = logits->at;
    step->arg[LS_ARG_LABELS].place = LS_PLACE_LABELS;
    step->arg[LS_ARG_METRICS].place = LS_PLACE_METRICS;
    b->plan->logits = logits->at.index;
    return LS_OK;
}

ls_status ls__plan_forward_steps(ls_builder *b, ls_tensor *logits) {
    ls_shape input = ls__batched(b, b->graph->nodes[0].shape);
    ls_tensor *images = &b->nodes[0].value;
    images->at.place = LS_PLACE_IMAGES;
    LS_TRY(b->device->ops->layout_plain(b->device, input, b->plan->config.precision, 0, &images->layout));
    for (int i = 1; i < b->graph->node_count; i++)
        if (b->nodes[i].home == i) LS_TRY(forward_node(b, i));
    LS_TRY(forward_loss(b, logits));
    b->plan->forward_count = b->plan->step_count;
    return LS_OK;
}
