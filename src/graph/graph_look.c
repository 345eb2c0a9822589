// What a graph is: its fingerprint, and what programs ask of it.
#include <string.h>

#include "graph/graph.h"
#include "graph/plan_build.h"

static uint64_t hash(uint64_t h, const void *bytes, size_t size) {  // FNV-1a
    for (size_t i = 0; i < size; i++) h = (h ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
    return h;
}

static uint64_t hash_text(uint64_t h, const char *text) { return hash(h, text, strlen(text) + 1); }

static uint64_t hash_shape(uint64_t h, ls_shape shape) {
    return hash(hash(h, &shape.ndim, sizeof shape.ndim), shape.dim, (size_t)shape.ndim * sizeof shape.dim[0]);
}

static uint64_t hash_node(uint64_t h, const ls_graph *graph, const ls_node *n) {
    char attrs[1024];
    h = hash_text(hash_text(h, ls_op_name(n->op)), n->name);
    ls__attrs_text(ls__op_find(n->op), &n->attrs, attrs, sizeof attrs);
    h = hash(hash_text(h, attrs), n->inputs, (size_t)n->input_count * sizeof *n->inputs);
    for (int i = 0; i < n->output_count; i++)
        h = hash(hash_shape(h, n->output[i].shape), &n->output[i].dtype, sizeof n->output[i].dtype);
    for (int i = 0; i < n->param_count; i++) {
        const ls_param *p = &graph->store->params[n->params[i]];
        int trains = ls__graph_trains(graph, n->params[i]);
        h = hash_shape(hash_text(h, p->name), p->shape);
        h = hash(hash(h, &p->role, sizeof p->role), &p->initializer, sizeof p->initializer);
        h = hash(hash(h, &trains, sizeof trains), &p->momentum, sizeof p->momentum);
        if (p->rate > 0 && p->rate != 1) h = hash(h, &p->rate, sizeof p->rate);
        if (p->initial) h = hash(h, p->initial, (size_t)ls_shape_count(p->shape) * sizeof *p->initial);
        if (p->decay_scale != 0) h = hash(hash_text(h, "decay"), &p->decay_scale, sizeof p->decay_scale);
    }
    return h;
}

uint64_t ls__graph_fingerprint(const ls_graph *graph) {
    uint64_t h = 1469598103934665603u;
    for (int i = 0; i < graph->node_count; i++) h = hash_node(h, graph, &graph->nodes[i]);
    for (int i = 0; i < graph->output_count; i++)
        h = hash(hash_text(h, graph->outputs[i].name), &graph->outputs[i].value, sizeof graph->outputs[i].value);
    return h;
}

const char *ls_graph_name(const ls_graph *graph) { return graph ? graph->name : NULL; }
ls_store *ls_graph_store(const ls_graph *graph) { return graph ? graph->store : NULL; }

static int64_t count_parameters(const ls_graph *graph, int trained_only) {
    int64_t count = 0;
    for (int i = 0; i < graph->store->count; i++) {
        const ls_param *p = &graph->store->params[i];
        if (!ls__graph_uses(graph, i)) continue;
        if (!trained_only || (p->role != LS_PARAM_STATISTIC && ls__graph_trains(graph, i)))
            count += ls_shape_count(p->shape);
    }
    return count;
}

int64_t ls_graph_parameter_count(const ls_graph *graph) { return graph ? count_parameters(graph, 0) : 0; }
int64_t ls_graph_trainable_parameter_count(const ls_graph *graph) { return graph ? count_parameters(graph, 1) : 0; }

int ls_graph_classes(const ls_graph *graph) {
    if (!graph) return 0;
    if (!graph->finished || graph->features || graph->output_count != 1) return 0;
    ls_shape shape = ls__value_type(graph, graph->outputs[0].value)->shape;
    return shape.ndim == 1 ? (int)shape.dim[0] : 0;
}

static int is_made_in_passing(const ls_op *op, const ls_attrs *attrs) {
    return op->traits & (LS_OP_RENAMES | LS_OP_RENAMES_IN_INFERENCE) || ls__acts_as(op, attrs) != LS_ACTS_AS_ITSELF;
}

ls_cost ls_graph_cost(const ls_graph *graph) {
    const ls_plan_config one = {.batch = 1, .precision = LS_DTYPE_F32, .mode = LS_PLAN_PREDICTION};
    ls_cost cost = {.flops = 0};
    for (int i = 0; graph && graph->finished && i < graph->node_count; i++) {
        const ls_node *n = &graph->nodes[i];
        const ls_op *op = ls__op_find(n->op);
        if (n->input_count == 0 || op->part != LS_PART_LAYER) continue;
        ls_kernel_spec spec;
        ls__node_spec(graph, i, &one, &spec);
        if (op->flops || op->products) cost.flops += (op->flops ? op->flops : op->products)(&spec);
        if (is_made_in_passing(op, &n->attrs)) continue;
        for (int k = 0; k < n->output_count; k++) cost.activations += ls_shape_count(n->output[k].shape);
    }
    return cost;
}

int ls_graph_input_count(const ls_graph *graph) { return graph ? graph->input_count : 0; }

ls_port ls_graph_input_at(const ls_graph *graph, int index) {
    if (!graph || index < 0 || index >= graph->input_count) return (ls_port){0};
    const ls_node *n = ls__value_node(graph, graph->inputs[index]);
    return (ls_port){n->name, n->output[0].shape, n->output[0].dtype};
}

int ls_graph_output_count(const ls_graph *graph) { return graph ? graph->output_count : 0; }

ls_port ls_graph_output_at(const ls_graph *graph, int index) {
    if (!graph || index < 0 || index >= graph->output_count) return (ls_port){0};
    const ls_tensor_type *t = ls__value_type(graph, graph->outputs[index].value);
    return (ls_port){graph->outputs[index].name, t->shape, t->dtype};
}
