#include "graph/graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

const char *ls__shape_text(ls_shape sample, char text[LS_SHAPE_TEXT]) {
    int used = snprintf(text, LS_SHAPE_TEXT, "(None");
    for (int i = 0; i < sample.ndim; i++)
        used += snprintf(text + used, LS_SHAPE_TEXT - (size_t)used, ", %" PRId64, sample.dim[i]);
    snprintf(text + used, LS_SHAPE_TEXT - (size_t)used, ")");
    return text;
}

// The first failure is the one worth reading: what follows it is a consequence.
static ls_value fail_graph(ls_graph *graph, ls_status status) {
    if (!graph->failed) {
        graph->failed = status;
        snprintf(graph->failure, sizeof graph->failure, "%s", ls_error_message());
    }
    return LS_NO_VALUE;
}

// Makes room for one more element in an array that doubles: room is needed when the count reaches a power of two.
static ls_status reserve(void *array, int count, size_t size) {
    if (count & (count - 1)) return LS_OK;
    void *grown = realloc(*(void **)array, (size_t)(count ? 2 * count : 1) * size);
    if (!grown) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for a graph of %d layers or values", count);
    *(void **)array = grown;
    return LS_OK;
}

// --- names -----------------------------------------------------------------------------------------------------------

int ls__graph_name_taken(const ls_graph *graph, const char *name) {
    for (int i = 0; i < graph->node_count; i++)
        if (strcmp(graph->nodes[i].name, name) == 0) return 1;
    return 0;
}

// Keras's automatic name: the first free of conv2d, conv2d_1, conv2d_2, ... In a store that others have parameters in, one that is
// free there too: layers share parameters when they are told to, by a name, never by accident.
static ls_status choose_name(ls_graph *graph, const ls_op *op, const char *asked, char **out) {
    if (asked) {
        if (!asked[0] || strchr(asked, '/'))
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "a %s layer cannot be named \"%s\": a name is not empty and has no \"/\"", op->keras_class,
                           asked);
        if (ls__graph_name_taken(graph, asked))
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "two layers are named %s; give each layer its own name, or none for an automatic one",
                           asked);
        return ls_strdup(asked, out);
    }
    char name[64];
    int *i = &graph->next_name[op->kind];  // names are never given back: what is below stays taken
    do {
        snprintf(name, sizeof name, *i ? "%s_%d" : "%s", op->keras_name, *i);
        ++*i;
    } while (ls__graph_name_taken(graph, name) || ls__store_has_layer(graph->store, name));
    return ls_strdup(name, out);
}

// --- create, destroy -------------------------------------------------------------------------------------------------

static ls_status check_sample(const char *name, ls_shape input, int least) {
    char shape[LS_SHAPE_TEXT];
    if (input.ndim < least || input.ndim > LS_MAX_DIMS - 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: a sample has %d to %d dimensions, such as (H, W, C), but %d were given", name, least,
                       LS_MAX_DIMS - 1, input.ndim);
    for (int i = 0; i < input.ndim; i++)
        if (input.dim[i] < 1)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "%s: every dimension of a sample is at least 1, but the input is %s", name,
                           ls__shape_text(input, shape));
    return LS_OK;
}

ls_status ls_graph_create_empty(const char *name, ls_store *store, ls_graph **out) {
    LS_NEED(out, "out");
    *out = NULL;
    if (!name || !name[0]) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a graph needs a name");
    ls_status status = LS_OK;
    ls_graph *graph = NULL;
    LS_TRY(ls_calloc(1, sizeof *graph, &graph));
    if (store)
        graph->store = ls__store_hold(store);
    else
        LS_TRY_GOTO(ls_store_create(&graph->store), failed);
    LS_TRY_GOTO(ls_strdup(name, &graph->name), failed);
    *out = graph;
    return LS_OK;
failed:
    ls_graph_destroy(&graph);
    return status;
}

ls_status ls_graph_create(const char *name, ls_shape input, ls_graph **out) {
    LS_NEED(out, "out");
    *out = NULL;
    ls_graph *graph;
    if (!name || !name[0]) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a graph needs a name");
    LS_TRY(check_sample(name, input, 1));
    LS_TRY(ls_graph_create_empty(name, NULL, &graph));
    if (ls_graph_add_input(graph, NULL, input, LS_DTYPE_F32) == LS_NO_VALUE) {
        ls_status status = graph->failed;
        ls_graph_destroy(&graph);
        return status;
    }
    *out = graph;
    return LS_OK;
}

static void free_node(ls_node *node) {
    free(node->name);
    free(node->inputs);
}

void ls_graph_destroy(ls_graph **graph) {
    if (!graph) return;
    ls_graph *g = *graph;
    *graph = NULL;
    if (!g) return;
    for (int i = 0; i < g->node_count; i++) free_node(&g->nodes[i]);
    for (int i = 0; i < g->output_count; i++) free(g->outputs[i].name);
    free(g->nodes);
    free(g->values);
    free(g->inputs);
    free(g->outputs);
    free(g->uses);
    free(g->frozen);
    free(g->name);
    ls_store_destroy(&g->store);
    free(g);
}

// --- nodes -----------------------------------------------------------------------------------------------------------

// As many as can be counted with a batch of them.
static ls_status check_size(const char *name, const char *what, ls_shape shape) {
    char text[LS_SHAPE_TEXT];
    if (ls_shape_count(shape) <= LS_MOST_ELEMENTS) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: the elements of %s %s are more than any memory holds", name, what,
                   ls__shape_text(shape, text));
}

ls_status ls__node_output(ls_node *node, ls_shape shape, ls_dtype dtype) {
    if (node->output_count == LS_MAX_OUTPUTS)
        return LS_FAIL(LS_STATUS_INTERNAL, "%s: a layer has at most %d outputs", node->name, LS_MAX_OUTPUTS);
    LS_TRY(check_size(node->name, "a sample of its output", shape));
    node->output[node->output_count++] = (ls_tensor_type){.shape = shape, .dtype = dtype, .gradient = dtype};
    return LS_OK;
}

ls_status ls__graph_param(ls_graph *graph, ls_node *node, const char *suffix, ls_shape shape, ls_param_role role,
                          ls_initializer initializer, ls_initializer standard, int64_t fan_in, int64_t fan_out) {
    if (node->param_count == LS_MAX_PARAMS)
        return LS_FAIL(LS_STATUS_INTERNAL, "%s: a layer has at most %d parameters", node->name, LS_MAX_PARAMS);
    LS_TRY(check_size(node->name, "its parameter", shape));
    ls_param param = {.shape = shape,
                      .role = role,
                      .initializer = initializer == LS_INITIALIZER_DEFAULT ? standard : initializer,
                      .fan_in = fan_in,
                      .fan_out = fan_out,
                      .decay = role == LS_PARAM_KERNEL};
    size_t size = strlen(node->name) + strlen(suffix) + 2;
    LS_TRY(ls_calloc(1, (int64_t)size, &param.name));
    snprintf(param.name, size, "%s/%s", node->name, suffix);
    ls_status status = ls__store_add(graph->store, &param, &node->params[node->param_count]);
    free(param.name);
    LS_TRY(status);
    node->param_count++;
    return LS_OK;
}

ls_status ls__graph_scale_and_shift(ls_graph *graph, ls_node *node, int64_t channels) {
    LS_TRY(ls__graph_param(graph, node, "gamma", LS_SHAPE(channels), LS_PARAM_SCALE, LS_INITIALIZER_DEFAULT,
                           LS_INITIALIZER_ONES, channels, channels));
    return ls__graph_param(graph, node, "beta", LS_SHAPE(channels), LS_PARAM_BIAS, LS_INITIALIZER_DEFAULT,
                           LS_INITIALIZER_ZEROS, channels, channels);
}

static ls_status check_inputs(const ls_graph *graph, const ls_op *op, const ls_value *x, int count) {
    int most = op->inputs_maximum ? op->inputs_maximum : op->inputs;
    if (count < op->inputs || count > most)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a %s layer has %d to %d inputs, but %d were given", op->keras_class,
                       op->inputs, most, count);
    if (!x)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a %s layer was given NULL in place of its inputs", op->keras_class);
    for (int i = 0; i < count; i++)
        if (x[i] < 0 || x[i] >= graph->value_count)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "a %s layer was given value %d as its input, which is no layer of %s", op->keras_class, x[i],
                           graph->name);
    for (int i = 0; i < count; i++) {
        const ls_node *from = &graph->nodes[graph->values[x[i]].node];
        if (ls__op_find(from->op)->part != LS_PART_LAYER)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "a %s layer was given %s as its input, and no layer computes with a loss or a metric: its "
                           "value is what training and evaluation tell",
                           op->keras_class, from->name);
    }
    return LS_OK;
}

static ls_status infer(ls_graph *graph, const ls_op *op, ls_node *node) {
    LS_TRY(ls__attrs_resolve(op, node->name, &node->attrs));
    const ls_tensor_type *x = ls__input_type(graph, node, 0);
    LS_TRY(op->infer ? op->infer(graph, node) : ls__node_output(node, x->shape, x->dtype));
    if (op->part != LS_PART_LAYER || op->traits & LS_OP_WHOLE_NUMBERS || x->dtype == LS_DTYPE_F32) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%s: a %s layer computes with floating values, but its input is whole numbers (i32), which go into "
                   "an embedding or a loss",
                   node->name, op->keras_class);
}

// Takes the node's memory over. Its values follow those there are.
static ls_status append(ls_graph *graph, ls_node *node) {
    LS_TRY(reserve(&graph->nodes, graph->node_count, sizeof *graph->nodes));
    node->value = graph->value_count;
    for (int i = 0; i < node->output_count; i++) {
        LS_TRY(reserve(&graph->values, graph->value_count, sizeof *graph->values));
        graph->values[graph->value_count++] = (ls_graph_value){graph->node_count, i};
    }
    graph->nodes[graph->node_count++] = *node;
    return LS_OK;
}

static int is_open(const ls_graph *graph) {
    if (!graph) {
        LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a layer was to be added to a graph that is NULL");
        return 0;
    }
    if (graph->finished)  // no failure of the graph, which is complete and stays as it is
        LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s is finished; layers are added before ls_graph_finish", graph->name);
    return !graph->finished && !graph->failed;
}

// Adds the activation that the kernels of the latest node do not have, under the node's own name.
static ls_value add_inside(ls_graph *graph, ls_value value, ls_activation activation) {
    int i = graph->node_count, next[LS_OP_COUNT];
    memcpy(next, graph->next_name, sizeof next);
    value = ls_activate(graph, value, activation, NULL);
    memcpy(graph->next_name, next, sizeof next);  // its automatic name is given back
    if (value == LS_NO_VALUE) return value;
    char *name;
    ls_status status = ls_strdup(graph->nodes[i - 1].name, &name);
    if (status != LS_OK) return fail_graph(graph, status);
    free(graph->nodes[i].name);
    graph->nodes[i].name = name;
    graph->nodes[i].inside = 1;
    return value;
}

ls_value ls__graph_add(ls_graph *graph, ls_op_kind kind, const ls_value *x, int count, const void *attrs) {
    const ls_op *op = ls__op_find(kind);
    ls_node node = {.op = kind, .input_count = count};
    if (!is_open(graph)) return LS_NO_VALUE;
    const char *name = attrs ? *(const char *const *)attrs : NULL;
    if (attrs) memcpy(node.attrs.bytes, attrs, (size_t)op->attrs_bytes);
    memset(node.attrs.bytes, 0, sizeof name);  // the node has its own
    ls_status status = check_inputs(graph, op, x, count);
    if (status == LS_OK) status = ls_calloc(count, sizeof *node.inputs, &node.inputs);
    if (status == LS_OK) memcpy(node.inputs, x, (size_t)count * sizeof *x);
    if (status == LS_OK) status = choose_name(graph, op, name, &node.name);
    if (status == LS_OK) status = infer(graph, op, &node);
    if (status == LS_OK) status = append(graph, &node);
    if (status != LS_OK) {
        free_node(&node);
        return fail_graph(graph, status);
    }
    ls_activation inside = ls__activation_inside(op, &node.attrs);
    return inside == LS_ACTIVATION_NONE ? node.value : add_inside(graph, node.value, inside);
}

ls_value ls_graph_add_input(ls_graph *graph, const char *name, ls_shape shape, ls_dtype dtype) {
    if (!is_open(graph)) return LS_NO_VALUE;
    ls_node node = {.op = LS_OP_INPUT};
    ls_status status = check_sample(name ? name : graph->name, shape, 0);
    if (status == LS_OK && dtype != LS_DTYPE_F32 && dtype != LS_DTYPE_I32)
        status = LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: an input is floating (fp32) or whole numbers (i32), not %s",
                         name ? name : graph->name, ls_dtype_name(dtype));
    if (status == LS_OK) status = choose_name(graph, ls__op_find(LS_OP_INPUT), name, &node.name);
    if (status == LS_OK) status = ls__node_output(&node, shape, dtype);
    if (status == LS_OK) status = reserve(&graph->inputs, graph->input_count, sizeof *graph->inputs);
    if (status == LS_OK) status = append(graph, &node);
    if (status != LS_OK) {
        free_node(&node);
        return fail_graph(graph, status);
    }
    graph->inputs[graph->input_count++] = node.value;
    return node.value;
}

ls_value ls_graph_input(const ls_graph *graph) {
    if (!graph) return LS_NO_VALUE;
    return graph->input_count ? graph->inputs[0] : LS_NO_VALUE;
}

// --- finishing -------------------------------------------------------------------------------------------------------

ls_status ls_graph_add_output(ls_graph *graph, ls_value value, const char *name) {
    LS_NEED(graph, "graph");
    if (graph->failed) return LS_FAIL(graph->failed, "%s", graph->failure);
    if (graph->finished) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s is finished already", graph->name);
    if (value < 0 || value >= graph->value_count)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: value %d was given as the output, which is no layer of it",
                       graph->name, value);
    if (ls__op_find(ls__value_node(graph, value)->op)->part != LS_PART_LAYER)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: %s was given as the output, and a loss or a metric is none: its value is what training and "
                       "evaluation tell",
                       graph->name, ls__value_node(graph, value)->name);
    ls_graph_output output = {.value = value};
    LS_TRY(reserve(&graph->outputs, graph->output_count, sizeof *graph->outputs));
    LS_TRY(ls_strdup(name ? name : ls__value_node(graph, value)->name, &output.name));
    graph->outputs[graph->output_count++] = output;
    return LS_OK;
}

// Every layer is an output, a loss or a metric, or has a reader that leads to one.
static ls_status check_all_used(const ls_graph *graph) {
    char *used;
    LS_TRY(ls_calloc(graph->value_count, 1, &used));
    for (int i = 0; i < graph->output_count; i++) used[graph->outputs[i].value] = 1;
    int i = graph->node_count - 1;
    for (; i >= 0; i--) {
        const ls_node *n = &graph->nodes[i];
        int any = ls__op_find(n->op)->part != LS_PART_LAYER;
        for (int k = 0; k < n->output_count; k++) any |= used[n->value + k];
        if (!any) break;
        for (int k = 0; k < n->input_count; k++) used[n->inputs[k]] = 1;
    }
    free(used);
    if (i < 0) return LS_OK;
    if (graph->output_count == 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: layer %s does not lead to the output %s; remove it, or pass its value to the next layer",
                       graph->name, graph->nodes[i].name, graph->outputs[0].name);
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%s: layer %s leads to no output, loss or metric; remove it, or pass its value on", graph->name,
                   graph->nodes[i].name);
}

// Which values losses are computed from; of a graph without losses, all.
static ls_status mark_trained_towards(const ls_graph *graph, char **marks) {
    int any = ls__graph_has_losses(graph);
    LS_TRY(ls_calloc(graph->value_count, 1, marks));
    if (!any) memset(*marks, 1, (size_t)graph->value_count);
    for (int i = graph->node_count - 1; i >= 0 && any; i--) {
        const ls_node *n = &graph->nodes[i];
        int leads = ls__op_find(n->op)->part == LS_PART_LOSS;
        for (int k = 0; k < n->output_count; k++) leads |= (*marks)[n->value + k];
        for (int k = 0; k < n->input_count && leads; k++) (*marks)[n->inputs[k]] = 1;
        for (int k = 0; k < n->output_count && leads; k++) (*marks)[n->value + k] = 1;
    }
    return LS_OK;
}

static ls_status list_params(ls_graph *graph) {
    int count = graph->store->count;
    char *uses = NULL, *frozen = NULL, *marks = NULL;
    ls_status status = mark_trained_towards(graph, &marks);
    if (status == LS_OK) status = ls_calloc(count, 1, &uses);
    if (status == LS_OK) status = ls_calloc(count, 1, &frozen);
    if (status != LS_OK) {
        free(uses), free(frozen), free(marks);
        return status;
    }
    if (graph->param_count) memcpy(frozen, graph->frozen, (size_t)graph->param_count);
    for (int i = 0; i < graph->node_count; i++) {
        const ls_node *n = &graph->nodes[i];
        for (int k = 0; k < n->param_count; k++)
            uses[n->params[k]] = (char)(marks[n->value] ? LS_USE_TRAINED : LS_USE_UNTRAINED);
    }
    free(marks), free(graph->uses), free(graph->frozen);
    graph->uses = uses;
    graph->frozen = frozen;
    graph->param_count = count;
    return LS_OK;
}

// Removes an output that was added in vain.
ls_status ls__graph_close(ls_graph *graph) {
    ls_status status = check_all_used(graph);
    if (status == LS_OK) status = list_params(graph);
    if (status == LS_OK) {
        graph->finished = 1;
        return LS_OK;
    }
    while (graph->output_count > 0) free(graph->outputs[--graph->output_count].name);
    return status;
}

ls_status ls__graph_check_scores(const ls_graph *graph, ls_value logits) {
    char text[LS_SHAPE_TEXT];
    ls_shape shape = ls__value_type(graph, logits)->shape;
    if (shape.ndim == 1) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%s: the output has one value per class, (None, classes), but its shape is %s; end with a dense "
                   "layer, or give the graph a loss of its own",
                   graph->name, ls__shape_text(shape, text));
}

int ls__graph_has_losses(const ls_graph *graph) {
    for (int i = 0; i < graph->node_count; i++)
        if (ls__op_find(graph->nodes[i].op)->part == LS_PART_LOSS) return 1;
    return 0;
}

int64_t ls__graph_target_classes(const ls_graph *graph, ls_value input) {
    int64_t least = 0;
    for (int i = 0; i < graph->node_count; i++) {
        const ls_node *n = &graph->nodes[i];
        if (ls__op_find(n->op)->part == LS_PART_LAYER || n->input_count < 2 || n->inputs[1] != input) continue;
        const ls_tensor_type *scores = ls__input_type(graph, n, 0);
        int ndim = scores->shape.ndim;  // (classes), or (T, classes) of a sequence
        if (ls__input_type(graph, n, 1)->dtype != LS_DTYPE_I32 || (ndim != 1 && ndim != 2)) continue;
        if (!least || scores->shape.dim[ndim - 1] < least) least = scores->shape.dim[ndim - 1];
    }
    return least;
}

// What has kept a graph open is what is wrong with it when it is used all the same.
static ls_status note_open(ls_graph *graph, ls_status status) {
    if (status != LS_OK && !graph->failed && !graph->finished)
        snprintf(graph->failure, sizeof graph->failure, "%s", ls_error_message());
    return status;
}

ls_status ls__graph_check_finished(const ls_graph *graph) {
    if (graph->finished) return LS_OK;
    if (graph->failure[0])
        return LS_FAIL(graph->failed ? graph->failed : LS_STATUS_INVALID_ARGUMENT, "model %s is not finished: %s",
                       graph->name, graph->failure);
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "model %s is not finished: call ls_graph_finish first", graph->name);
}

static ls_status finish(ls_graph *graph, ls_value logits) {
    if (graph->failed) return LS_FAIL(graph->failed, "%s", graph->failure);
    if (graph->finished) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s is finished already", graph->name);
    if (logits != LS_NO_VALUE && logits >= 0 && logits < graph->value_count && !ls__graph_has_losses(graph))
        LS_TRY(ls__graph_check_scores(graph, logits));
    if (logits != LS_NO_VALUE || graph->output_count == 0) LS_TRY(ls_graph_add_output(graph, logits, NULL));
    return ls__graph_close(graph);
}

ls_status ls_graph_finish(ls_graph *graph, ls_value logits) {
    LS_NEED(graph, "graph");
    LS_TRY(note_open(graph, finish(graph, logits)));
    return LS_OK;
}

ls_status ls_graph_finish_features(ls_graph *graph, ls_value features) {
    LS_NEED(graph, "graph");
    LS_TRY(note_open(graph, ls_graph_add_output(graph, features, NULL)));
    LS_TRY(note_open(graph, ls__graph_close(graph)));
    graph->features = 1;
    return LS_OK;
}

ls_status ls_graph_check_classifier(const ls_graph *graph) {
    LS_NEED(graph, "graph");
    if (!graph->features) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%s was built without its top and ends in features, not in one score per class: there is nothing to "
                   "train it towards; build it with its classifier, or add a loss of your own",
                   graph->name);
}

int ls_graph_has_losses(const ls_graph *graph) { return graph && ls__graph_has_losses(graph); }

// --- copies ----------------------------------------------------------------------------------------------------------

static ls_status copy_node(ls_graph *to, const ls_node *from) {
    ls_node node = *from;
    node.name = NULL;
    node.inputs = NULL;
    ls_status status = ls_strdup(from->name, &node.name);
    if (status == LS_OK) status = ls_calloc(from->input_count, sizeof *node.inputs, &node.inputs);
    if (status == LS_OK && from->input_count)
        memcpy(node.inputs, from->inputs, (size_t)from->input_count * sizeof *node.inputs);
    if (status == LS_OK) status = append(to, &node);
    if (status != LS_OK) free_node(&node);
    return status;
}

ls_status ls__graph_copy(const ls_graph *graph, ls_graph **out) {
    ls_graph *g;
    LS_TRY(ls_graph_create_empty(graph->name, graph->store, &g));
    ls_status status = LS_OK;
    for (int i = 0; i < graph->node_count && status == LS_OK; i++) status = copy_node(g, &graph->nodes[i]);
    for (int i = 0; i < graph->input_count && status == LS_OK; i++) {
        status = reserve(&g->inputs, g->input_count, sizeof *g->inputs);
        if (status == LS_OK) g->inputs[g->input_count++] = graph->inputs[i];
    }
    for (int i = 0; i < graph->output_count && status == LS_OK; i++)
        status = ls_graph_add_output(g, graph->outputs[i].value, graph->outputs[i].name);
    if (status == LS_OK) status = ls_calloc(graph->param_count, 1, &g->frozen);
    if (status == LS_OK && graph->param_count) {
        memcpy(g->frozen, graph->frozen, (size_t)graph->param_count);
        g->param_count = graph->param_count;
    }
    if (status != LS_OK) ls_graph_destroy(&g);
    *out = g;
    return status;
}
