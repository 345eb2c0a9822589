#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "graph/graph.h"

enum { TEXT = 256 };

typedef struct table {
    const ls_graph *graph;
    FILE *out;
    int layer, shape, count, connected;  // widths of the columns; connected is 0 without that column
} table;

// Whether every layer reads the one before it, as in Keras's sequential models; others are its functional ones.
static int is_chain(const ls_graph *graph) {
    for (int i = 1; i < graph->node_count; i++)
        if (graph->nodes[i].input_count != 1 || graph->nodes[i].inputs[0] != i - 1) return 0;
    return 1;
}

static const char *layer_text(const ls_node *node, char text[TEXT]) {
    snprintf(text, TEXT, "%.200s (%s)", node->name, ls__op_find(node->op)->keras_class);
    return text;
}

static const char *shape_text(const ls_node *node, char text[TEXT]) {
    char shape[LS_SHAPE_TEXT];
    int bare = node->input_count > 0;  // Keras shows an input as a list
    snprintf(text, TEXT, "%s%s%s", bare ? "" : "[", ls__shape_text(node->output[0].shape, shape), bare ? "" : "]");
    return text;
}

// The k-th line of what a layer is connected to: "['conv2_block1_0_conv[0][0]',".
static const char *connected_text(const ls_graph *graph, const ls_node *node, int k, char text[TEXT]) {
    if (node->input_count == 0)
        snprintf(text, TEXT, "[]");
    else
        snprintf(text, TEXT, "%s'%.200s[0][0]'%s", k ? " " : "[", ls__value_node(graph, node->inputs[k])->name,
                 k + 1 < node->input_count ? "," : "]");
    return text;
}

static int64_t node_parameters(const ls_graph *graph, const ls_node *node) {
    int64_t count = 0;
    for (int i = 0; i < node->param_count; i++) count += ls_shape_count(graph->store->params[node->params[i]].shape);
    return count;
}

// Keras's widths; longer entries widen them.
static void set_widths(table *t) {
    char text[TEXT];
    int functional = !is_chain(t->graph);
    t->layer = functional ? 31 : 28;
    t->shape = functional ? 21 : 26;
    t->count = functional ? 12 : 10;
    t->connected = functional ? 33 : 0;
    for (int i = 0; i < t->graph->node_count; i++) {
        const ls_node *node = &t->graph->nodes[i];
        if (node->inside) continue;
        int n = (int)strlen(layer_text(node, text)) + 2;
        int m = (int)strlen(shape_text(node, text)) + 2;
        if (n > t->layer) t->layer = n;
        if (m > t->shape && (functional || node->input_count > 0)) t->shape = m;
        for (int k = 0; functional && k < node->input_count; k++) {
            n = (int)strlen(connected_text(t->graph, node, k, text)) + 1;
            if (n > t->connected) t->connected = n;
        }
    }
}

static void rule(const table *t, char c) {
    for (int i = 0; i < 1 + t->layer + t->shape + t->count + t->connected; i++) fputc(c, t->out);
    fputc('\n', t->out);
}

static void row(const table *t, const char *layer, const char *shape, const char *count, const char *connected) {
    fprintf(t->out, " %-*s%-*s", t->layer, layer, t->shape, shape);
    if (t->connected)
        fprintf(t->out, "%-*s%s\n", t->count, count, connected);
    else
        fprintf(t->out, "%s\n", count);
}

static void layer_rows(const table *t, const ls_node *node) {
    char layer[TEXT], shape[TEXT], connected[TEXT], count[24];
    snprintf(count, sizeof count, "%" PRId64, node_parameters(t->graph, node));
    row(t, layer_text(node, layer), shape_text(node, shape), count, connected_text(t->graph, node, 0, connected));
    for (int k = 1; t->connected && k < node->input_count; k++)
        row(t, "", "", "", connected_text(t->graph, node, k, connected));
}

// 690590 as 690,590.
static const char *thousands(int64_t n, char text[32]) {
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRId64, n), used = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0) text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = 0;
    return text;
}

static void print(const table *t) {
    const ls_graph *graph = t->graph;
    fprintf(t->out, "Model: \"%s\"\n", graph->name);
    rule(t, '_');
    row(t, "Layer (type)", "Output Shape", "Param #", "Connected to");
    rule(t, '=');
    for (int i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].input_count == 0 && !t->connected) continue;  // as Keras leaves it out of sequential models
        if (graph->nodes[i].inside) continue;                             // it is part of the layer above it
        layer_rows(t, &graph->nodes[i]);
    }
    rule(t, '=');
    char all[32], trainable[32], fixed[32];
    int64_t total = ls_graph_parameter_count(graph), trained = ls_graph_trainable_parameter_count(graph);
    fprintf(t->out, "Total params: %s\nTrainable params: %s\nNon-trainable params: %s\n", thousands(total, all),
            thousands(trained, trainable), thousands(total - trained, fixed));
    rule(t, '_');
}

ls_status ls_graph_summary(const ls_graph *graph, char **text) {
    LS_NEED(graph, "graph");
    LS_NEED(text, "text");
    *text = NULL;
    size_t size;
    table t = {.graph = graph, .out = open_memstream(text, &size)};
    if (!t.out) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the summary of %s", graph->name);
    set_widths(&t);
    print(&t);
    if (fclose(t.out) != 0) {
        free(*text);
        *text = NULL;
        return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the summary of %s", graph->name);
    }
    return LS_OK;
}
