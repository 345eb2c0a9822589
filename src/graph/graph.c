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
    if (!grown) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for a graph of %d layers or parameters", count);
    *(void **)array = grown;
    return LS_OK;
}

static ls_status append_node(ls_graph *graph, const ls_node *node) {
    LS_TRY(reserve(&graph->nodes, graph->node_count, sizeof *graph->nodes));
    graph->nodes[graph->node_count++] = *node;
    return LS_OK;
}

static int name_taken(const ls_graph *graph, const char *name) {
    for (int i = 0; i < graph->node_count; i++)
        if (strcmp(graph->nodes[i].name, name) == 0) return 1;
    return 0;
}

// Keras's automatic name: the first free of conv2d, conv2d_1, conv2d_2, ...
static ls_status choose_name(const ls_graph *graph, ls_op_kind op, const char *asked, char **out) {
    if (asked) {
        if (!asked[0] || strchr(asked, '/'))
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "a %s layer cannot be named \"%s\": a name is not empty and has no \"/\"", ls_op_class(op),
                           asked);
        if (name_taken(graph, asked))
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "two layers are named %s; give each layer its own name, or none for an automatic one",
                           asked);
        return ls_strdup(asked, out);
    }
    char name[64];
    snprintf(name, sizeof name, "%s", ls_op_auto_name(op));
    for (int i = 1; name_taken(graph, name); i++) snprintf(name, sizeof name, "%s_%d", ls_op_auto_name(op), i);
    return ls_strdup(name, out);
}

ls_status ls_graph_create(const char *name, ls_shape input, ls_graph **out) {
    *out = NULL;
    char shape[LS_SHAPE_TEXT];
    if (!name || !name[0]) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a graph needs a name");
    if (input.ndim < 1 || input.ndim > 3)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: a sample has 1 to 3 dimensions, such as (H, W, C), but %d were given", name, input.ndim);
    for (int i = 0; i < input.ndim; i++)
        if (input.dim[i] < 1)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "%s: every dimension of a sample is at least 1, but the input is %s", name,
                           ls__shape_text(input, shape));
    ls_status status = LS_OK;
    ls_graph *graph = NULL;
    ls_node node = {.op = LS_OP_INPUT, .shape = input};
    LS_TRY(ls_calloc(1, sizeof *graph, &graph));
    graph->output = LS_NO_VALUE;
    LS_TRY_GOTO(ls_strdup(name, &graph->name), failed);
    LS_TRY_GOTO(choose_name(graph, LS_OP_INPUT, NULL, &node.name), failed);
    LS_TRY_GOTO(append_node(graph, &node), failed);
    *out = graph;
    return LS_OK;
failed:
    if (!graph->node_count) free(node.name);
    ls_graph_destroy(&graph);
    return status;
}

void ls_graph_destroy(ls_graph **graph) {
    ls_graph *g = *graph;
    *graph = NULL;
    if (!g) return;
    for (int i = 0; i < g->node_count; i++) free(g->nodes[i].name);
    for (int i = 0; i < g->param_count; i++) free(g->params[i].name);
    free(g->nodes);
    free(g->params);
    free(g->name);
    free(g);
}

ls_value ls_graph_input(const ls_graph *graph) { return 0; }

static void set_initializers(ls_graph *graph, const ls_node *node, ls_initializer kernel, ls_initializer bias) {
    for (int i = 0; i < node->param_count; i++) {
        ls_param *param = &graph->params[node->params[i]];
        ls_initializer asked = param->role == LS_PARAM_KERNEL ? kernel : bias;
        int replaced = param->role == LS_PARAM_KERNEL || param->role == LS_PARAM_BIAS;
        if (replaced && asked != LS_INITIALIZER_DEFAULT) param->initializer = asked;
    }
}

ls_value ls__graph_add_inputs(ls_graph *graph, ls_op_kind op, const ls_value *x, int count, const char *name,
                              const ls_op_attrs *attrs) {
    if (graph->output != LS_NO_VALUE) {  // no failure of the graph, which is complete and stays as it is
        LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s is finished; layers are added before ls_graph_finish", graph->name);
        return LS_NO_VALUE;
    }
    if (graph->failed) return LS_NO_VALUE;
    ls_node node = {.op = op, .attrs = *attrs, .input_count = count};
    for (int i = 0; i < count; i++) {
        if (x[i] < 0 || x[i] >= graph->node_count)
            return fail_graph(graph, LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                                             "a %s layer was given value %d as its input, which is no layer of %s",
                                             ls_op_class(op), x[i], graph->name));
        node.inputs[i] = x[i];
    }
    ls_status status = choose_name(graph, op, name, &node.name);
    if (status == LS_OK) status = ls__op_find(op)->infer(graph, &node, graph->nodes[x[0]].shape);
    if (status == LS_OK) status = append_node(graph, &node);
    if (status != LS_OK) {
        free(node.name);
        return fail_graph(graph, status);
    }
    return graph->node_count - 1;
}

ls_value ls__graph_add(ls_graph *graph, ls_op_kind op, ls_value x, const char *name, const ls_op_attrs *attrs,
                       ls_initializer kernel_initializer, ls_initializer bias_initializer) {
    ls_value v = ls__graph_add_inputs(graph, op, &x, 1, name, attrs);
    if (v != LS_NO_VALUE) set_initializers(graph, &graph->nodes[v], kernel_initializer, bias_initializer);
    return v;
}

ls_status ls__graph_param(ls_graph *graph, ls_node *node, const char *suffix, ls_shape shape, ls_param_role role,
                          ls_initializer initializer, int64_t fan_in, int64_t fan_out) {
    if (node->param_count == LS_MAX_NODE_PARAMS)
        return LS_FAIL(LS_STATUS_INTERNAL, "%s: a layer has at most %d parameters", node->name, LS_MAX_NODE_PARAMS);
    LS_TRY(reserve(&graph->params, graph->param_count, sizeof *graph->params));
    ls_param param = {.shape = shape,
                      .role = role,
                      .initializer = initializer,
                      .fan_in = fan_in,
                      .fan_out = fan_out,
                      .decay = role == LS_PARAM_KERNEL};
    size_t size = strlen(node->name) + strlen(suffix) + 2;
    LS_TRY(ls_calloc(1, (int64_t)size, &param.name));
    snprintf(param.name, size, "%s/%s", node->name, suffix);
    node->params[node->param_count++] = graph->param_count;
    graph->params[graph->param_count++] = param;
    return LS_OK;
}

// Every layer is the output or has a reader that leads to it.
static ls_status check_all_used(const ls_graph *graph, ls_value logits) {
    char *used;
    LS_TRY(ls_calloc(graph->node_count, 1, &used));
    used[logits] = 1;
    int i = graph->node_count - 1;
    for (; i >= 0 && used[i]; i--)
        for (int k = 0; k < graph->nodes[i].input_count; k++) used[graph->nodes[i].inputs[k]] = 1;
    free(used);
    if (i < 0) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%s: layer %s does not lead to the output %s; remove it, or pass its value to the next layer",
                   graph->name, graph->nodes[i].name, graph->nodes[logits].name);
}

static ls_status check_output(const ls_graph *graph, ls_value output) {
    if (graph->failed) return LS_FAIL(graph->failed, "%s", graph->failure);
    if (graph->output != LS_NO_VALUE) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s is finished already", graph->name);
    if (output < 0 || output >= graph->node_count)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: value %d was given as the output, which is no layer of it",
                       graph->name, output);
    return LS_OK;
}

ls_status ls_graph_finish(ls_graph *graph, ls_value logits) {
    LS_TRY(check_output(graph, logits));
    ls_node loss = {.op = LS_OP_SOFTMAX_CROSS_ENTROPY, .name = graph->name, .inputs = {logits}, .input_count = 1};
    LS_TRY(ls__op_find(loss.op)->infer(graph, &loss, graph->nodes[logits].shape));
    LS_TRY(check_all_used(graph, logits));
    graph->output = logits;
    return LS_OK;
}

ls_status ls_graph_finish_features(ls_graph *graph, ls_value features) {
    LS_TRY(check_output(graph, features));
    LS_TRY(check_all_used(graph, features));
    graph->output = features;
    graph->features = 1;
    return LS_OK;
}

ls_status ls__graph_check_classifier(const ls_graph *graph) {
    if (!graph->features) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%s was built without its top and ends in features, not in one score per class: there is nothing to "
                   "train it towards; leave out --no-top, or add a classifier of your own",
                   graph->name);
}

const char *ls_graph_name(const ls_graph *graph) { return graph->name; }

int64_t ls_graph_parameter_count(const ls_graph *graph) {
    int64_t count = 0;
    for (int i = 0; i < graph->param_count; i++) count += ls_shape_count(graph->params[i].shape);
    return count;
}

int64_t ls_graph_trainable_parameter_count(const ls_graph *graph) {
    int64_t count = 0;
    for (int i = 0; i < graph->param_count; i++)
        if (graph->params[i].role != LS_PARAM_STATISTIC) count += ls_shape_count(graph->params[i].shape);
    return count;
}

int ls_graph_classes(const ls_graph *graph) {
    return graph->output == LS_NO_VALUE || graph->features ? 0 : (int)graph->nodes[graph->output].shape.dim[0];
}
