// Forward: a kernel for each layer, in the graph's order, each saying how it wants its input.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "graph/plan_build.h"

static ls_shape with_batch(int64_t batch, ls_shape sample) {
    ls_shape s = {.ndim = sample.ndim + 1, .dim = {batch}};
    for (int i = 0; i < sample.ndim; i++) s.dim[i + 1] = sample.dim[i];
    return s;
}

ls_shape ls__batched(const ls_builder *b, ls_shape sample) { return with_batch(b->plan->config.batch, sample); }

static ls_tensor_type batched(const ls_plan_config *config, const ls_tensor_type *sample, ls_dtype floating) {
    int is_floating = sample->dtype == LS_DTYPE_F32;
    return (ls_tensor_type){.shape = with_batch(config->batch, sample->shape),
                            .dtype = is_floating ? floating : sample->dtype,
                            .gradient = is_floating ? config->precision : sample->dtype};
}

// Sums of losses and metrics, or rows of them.
static ls_shape measure_shape(int64_t batch, const ls_op *op, ls_shape shape) {
    return op->traits & LS_OP_ROWS ? with_batch(batch, shape) : shape;
}

// What a convolution or dense layer gives to losses, or to the caller, it gives in F32.
static int widens(const ls_builder *b, int i, const ls_op *op) {
    ls_value v = b->graph->nodes[i].value;
    for (int k = v; k < b->graph->value_count; k++)
        if (b->values[k].home == v && !b->values[k].padding) v = k;  // the last value folded into it
    return (op->traits & LS_OP_WIDENS) && b->values[v].only_measured;
}

// What the kernels of an operation read and give: losses and metrics F32.
static ls_dtype floating_inputs(const ls_op *op, const ls_plan_config *config) {
    return op->part == LS_PART_LAYER ? config->precision : LS_DTYPE_F32;
}

void ls__node_spec(const ls_graph *g, int i, const ls_plan_config *config, ls_kernel_spec *spec) {
    const ls_node *n = &g->nodes[i];
    const ls_op *op = ls__op_find(n->op);
    *spec = (ls_kernel_spec){.op = n->op,
                             .attrs = n->attrs,
                             .pass = config->mode == LS_PLAN_TRAINING ? LS_PASS_TRAINING : LS_PASS_INFERENCE,
                             .x_count = n->input_count,
                             .w_count = n->param_count,
                             .y_count = n->output_count,
                             .activation = op->activation ? op->activation(&n->attrs) : LS_ACTIVATION_NONE};
    if (ls__acts_as(op, &n->attrs) == LS_ACTS_AS_RELU) spec->op = ls__op_acting_as(LS_ACTS_AS_RELU)->kind;
    for (int k = 0; k < n->input_count; k++)
        spec->x[k] = batched(config, ls__input_type(g, n, k), floating_inputs(op, config));
    for (int k = 0; k < n->param_count; k++) {
        const ls_param *p = &g->store->params[n->params[k]];
        ls_dtype dtype = p->role == LS_PARAM_KERNEL ? config->precision : LS_DTYPE_F32;
        spec->w[k] = (ls_tensor_type){p->shape, dtype, LS_DTYPE_F32};
        // A normalization whose statistics are frozen computes as in inference.
        if (p->role == LS_PARAM_STATISTIC && !ls__graph_trains(g, n->params[k])) spec->pass = LS_PASS_INFERENCE;
    }
    for (int k = 0; k < n->output_count; k++) {
        spec->y[k] = batched(config, &n->output[k], config->precision);
        if (op->part != LS_PART_LAYER) spec->y[k].shape = measure_shape(config->batch, op, n->output[k].shape);
    }
}

// The spec of node `i`'s forward kernel with what is folded into it, all layouts free.
static void forward_spec(const ls_builder *b, int i, ls_kernel_spec *spec) {
    const ls_graph *g = b->graph;
    const ls_node *n = &g->nodes[i];
    const ls_node_state *s = &b->nodes[i];
    const ls_op *op = ls__op_find(n->op);
    const ls_plan_config *config = &b->plan->config;
    const ls_node *from = ls__value_node(g, ls__input_home(b, i, 0));
    ls__node_spec(g, i, config, spec);
    spec->activation = s->activation;
    spec->mask_dx = b->nodes[from - g->nodes].masked_by_reader;
    spec->residual = s->residual != LS_NO_VALUE;
    if (op->absorbs & LS_ABSORBS_TABLE && ls__op_find(from->op)->traits & LS_OP_PICKS)
        spec->table_rows = g->store->params[from->params[0]].shape.dim[0];
    for (int k = 0; k < n->input_count; k++) {
        if (!b->values[n->inputs[k]].padding) continue;
        const ls_node *padding = ls__value_node(g, n->inputs[k]);
        int sides[2][2];
        spec->x[k] = batched(config, ls__value_type(g, b->values[n->inputs[k]].source), floating_inputs(op, config));
        ls__op_find(padding->op)->sides(&padding->attrs, sides);
        op->absorb_padding(&spec->attrs, sides);
    }
    for (int k = 0; k < n->output_count && widens(b, i, op); k++)
        if (n->output[k].dtype == LS_DTYPE_F32) spec->y[k].dtype = LS_DTYPE_F32;
}

// Reads the inputs in the layouts the kernel wants, and lays the step down. Takes the kernel over, also when it fails.
static ls_status read_inputs(ls_builder *b, int i, ls_kernel *kernel, const ls_kernel_spec *spec,
                             ls_plan_step_impl **step) {
    const ls_node *n = &b->graph->nodes[i];
    ls_node_state *s = &b->nodes[i];
    ls_tensor residual = {0};
    ls_status status = LS_OK;
    for (int k = 0; k < n->input_count && status == LS_OK; k++)
        status =
            ls__in_layout(b, b->values[ls__input_home(b, i, k)].value, kernel->layout[LS_ARG_X + k], i, &s->input[k]);
    if (status == LS_OK && s->residual != LS_NO_VALUE)
        status = ls__in_layout(b, b->values[b->values[s->residual].home].value, kernel->layout[LS_ARG_RESIDUAL], i,
                               &residual);
    if (status != LS_OK) {
        ls_kernel_destroy(&kernel);
        return status;
    }
    LS_TRY(ls__step_add(b, kernel, i, "forward", spec, step));
    for (int k = 0; k < n->input_count; k++) (*step)->arg[LS_ARG_X + k] = s->input[k].at;
    (*step)->arg[LS_ARG_RESIDUAL] = residual.at;
    return LS_OK;
}

static ls_status place_output(ls_builder *b, int i, int k, ls_plan_step_impl *step) {
    const ls_node *n = &b->graph->nodes[i];
    const ls_op *op = ls__op_find(n->op);
    ls_value_state *v = &b->values[n->value + k];
    int step_index = (int)(step - b->plan->steps);
    v->value.layout = step->kernel->layout[LS_ARG_Y + k];
    if (op->part != LS_PART_LAYER) {  // all sums lie in one buffer, all rows in another
        int rows = (op->traits & LS_OP_ROWS) != 0, *count = rows ? &b->plan->row_count : &b->plan->measure_count;
        v->value.at =
            (ls_step_arg){LS_PLACE_ARENA, rows ? b->plan->rows : b->plan->measures, *count * (int)sizeof(double)};
        *count += (int)ls_shape_count(v->value.layout->shape);
        step->arg[LS_ARG_Y + k] = v->value.at;
        return LS_OK;
    }
    // What only renames its input shares its memory.
    int alias = op->traits & LS_OP_RENAMES ||
                (op->traits & LS_OP_RENAMES_IN_INFERENCE && b->plan->config.mode != LS_PLAN_TRAINING);
    if (alias && b->nodes[i].input[0].at.place == LS_PLACE_ARENA)
        v->value.at = b->nodes[i].input[0].at;
    else
        LS_TRY(ls__buffer_add(b, v->value.layout->bytes, 1, &v->value.at));
    b->plan->steps[step_index].arg[LS_ARG_Y + k] = v->value.at;
    return LS_OK;
}

// Notes which values the output has copies of, for backward to read them there.
static void note_holder(ls_builder *b, int i, int64_t pieces) {
    b->nodes[i].holds_pieces = pieces;
    for (int k = 0; k < b->graph->nodes[i].input_count; k++) {
        ls_value_state *v = &b->values[ls__input_home(b, i, k)];
        if (v->holder < 0) v->holder = i, v->holder_input = k;
    }
}

static ls_status forward_node(ls_builder *b, int i) {
    const ls_node *n = &b->graph->nodes[i];
    const ls_op *op = ls__op_find(n->op);
    ls_node_state *s = &b->nodes[i];
    ls_kernel *kernel;
    ls_plan_step_impl *step;
    LS_TRY(ls_calloc(1, sizeof *s->spec, &s->spec));
    forward_spec(b, i, s->spec);
    ls_kernel_spec spec = *s->spec;
    // Some choose their layout; the rest take what comes.
    const ls_layout *comes = b->values[ls__input_home(b, i, 0)].value.layout;
    if (!(op->traits & LS_OP_CHOOSES_LAYOUT) && op->part == LS_PART_LAYER) spec.layout[LS_ARG_X] = comes;
    LS_TRY(ls_kernel_create(b->device, &spec, &kernel));
    LS_TRY(read_inputs(b, i, kernel, &spec, &step));
    int at = (int)(step - b->plan->steps);
    for (int k = 0; k < n->output_count; k++) LS_TRY(place_output(b, i, k, &b->plan->steps[at]));
    if (kernel->holds_pieces) note_holder(b, i, kernel->holds_pieces);
    step = &b->plan->steps[at];
    int sum = s->residual != LS_NO_VALUE || ls__acts_as(op, &n->attrs) == LS_ACTS_AS_SUM;
    step->recompute = sum ? LS_RECOMPUTE_NEVER : op->recompute;
    if (kernel->workspace_bytes) LS_TRY(ls__buffer_add(b, kernel->workspace_bytes, 0, &s->workspace));
    step->arg[LS_ARG_WORKSPACE] = s->workspace;
    if (op->traits & LS_OP_RANDOM) step->arg[LS_ARG_RANDOM].place = LS_PLACE_RANDOM;
    ls__pass_numbers(b, i, step);
    return ls__request_params(b, i, step);
}

// Floating inputs come in the plan's precision, or in F32 where losses alone read them.
static ls_status place_inputs(ls_builder *b) {
    const ls_graph *g = b->graph;
    for (int i = 0; i < g->input_count; i++) {
        ls_value v = g->inputs[i];
        const ls_tensor_type *t = ls__value_type(g, v);
        ls_dtype dtype = t->dtype == LS_DTYPE_F32 && !b->values[v].only_measured ? b->plan->config.precision : t->dtype;
        b->plan->feeds[i] = dtype;
        if (!b->plan->reads[i]) continue;
        b->values[v].value.at = (ls_step_arg){LS_PLACE_INPUT, i, 0};
        LS_TRY(b->device->ops->layout_plain(b->device, ls__batched(b, t->shape), dtype, 0, &b->values[v].value.layout));
    }
    return LS_OK;
}

// An input that is an output as well.
static ls_status copy_input(ls_builder *b, ls_tensor from, int node, ls_tensor *out) {
    ls_kernel *kernel;
    ls_plan_step_impl *step;
    LS_TRY(b->device->ops->reorder_create(b->device, from.layout, from.layout, &kernel));
    LS_TRY(ls__step_add(b, kernel, node, "reorder", NULL, &step));
    step->arg[LS_ARG_X] = from.at;
    *out = from;
    LS_TRY(ls__buffer_add(b, from.layout->bytes, 1, &out->at));
    b->plan->steps[b->plan->step_count - 1].arg[LS_ARG_Y] = out->at;
    return LS_OK;
}

static ls_status place_outputs(ls_builder *b) {
    const ls_graph *g = b->graph;
    for (int i = 0; i < g->output_count && ls__gives_outputs(&b->plan->config); i++) {
        ls_value v = b->values[b->values[g->outputs[i].value].source].home;
        ls_shape shape = ls__batched(b, ls__value_type(g, g->outputs[i].value)->shape);
        const ls_layout *plain;
        ls_tensor out;
        ls_dtype dtype = b->values[v].value.layout->dtype;
        dtype = dtype == LS_DTYPE_BF16 || dtype == LS_DTYPE_F16 ? LS_DTYPE_F32 : dtype;
        LS_TRY(b->device->ops->layout_plain(b->device, shape, dtype, 0, &plain));
        LS_TRY(ls__in_layout(b, b->values[v].value, plain, g->values[v].node, &out));
        if (out.at.place != LS_PLACE_ARENA) LS_TRY(copy_input(b, out, g->values[v].node, &out));
        b->plan->outputs[i] = out.at;
        b->plan->buffers[out.at.index].stays = 1;
    }
    return LS_OK;
}

// A buffer of the sums of losses and metrics, or of the rows of those that have them; read after the run.
static ls_status make_measures(ls_builder *b, unsigned rows, int *buffer) {
    int64_t doubles = 0;
    for (int i = 0; i < b->graph->node_count; i++) {
        const ls_node *n = &b->graph->nodes[i];
        const ls_op *op = ls__op_find(n->op);
        if (!b->nodes[i].needed || op->part == LS_PART_LAYER || (op->traits & LS_OP_ROWS) != rows) continue;
        for (int k = 0; k < n->output_count; k++)
            doubles += ls_shape_count(measure_shape(b->plan->config.batch, op, n->output[k].shape));
    }
    ls_step_arg at;
    if (doubles == 0) return LS_OK;
    LS_TRY(ls__buffer_add(b, doubles * (int64_t)sizeof(double), 1, &at));
    *buffer = at.index;
    b->plan->buffers[at.index].stays = 1;
    return LS_OK;
}

ls_status ls__plan_forward_steps(ls_builder *b) {
    LS_TRY(place_inputs(b));
    LS_TRY(make_measures(b, 0, &b->plan->measures));
    LS_TRY(make_measures(b, LS_OP_ROWS, &b->plan->rows));
    for (int i = 0; i < b->graph->node_count; i++)
        if (ls__has_kernel(b, i)) LS_TRY(forward_node(b, i));
    LS_TRY(place_outputs(b));
    b->plan->forward_count = b->plan->step_count;
    return LS_OK;
}
