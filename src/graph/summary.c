#define _GNU_SOURCE
#include "graph/summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "graph/graph.h"

// Keras's column widths; longer entries widen them.
enum { LAYER_WIDTH = 28, SHAPE_WIDTH = 26, COUNT_WIDTH = 10 };

static const char *layer_text(const ls_node *node, char text[256]) {
    snprintf(text, 256, "%.200s (%s)", node->name, ls_op_class(node->op));
    return text;
}

static int64_t node_parameters(const ls_graph *graph, const ls_node *node) {
    int64_t count = 0;
    for (int i = 0; i < node->param_count; i++) count += ls_shape_count(graph->params[node->params[i]].shape);
    return count;
}

static void rule(FILE *out, char c, int width) {
    for (int i = 0; i < width; i++) fputc(c, out);
    fputc('\n', out);
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

ls_status ls_graph_summary(const ls_graph *graph, char **text) {
    *text = NULL;
    size_t size;
    FILE *out = open_memstream(text, &size);
    if (!out) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the summary of %s", graph->name);
    char layer[256], shape[LS_SHAPE_TEXT], count[32];
    int layer_width = LAYER_WIDTH, shape_width = SHAPE_WIDTH;
    for (int i = 0; i < graph->node_count; i++) {
        int n = (int)strlen(layer_text(&graph->nodes[i], layer)) + 2;
        int m = (int)strlen(ls__shape_text(graph->nodes[i].shape, shape)) + 2;
        if (n > layer_width) layer_width = n;
        if (m > shape_width) shape_width = m;
    }
    int width = 1 + layer_width + shape_width + COUNT_WIDTH;
    fprintf(out, "Model: \"%s\"\n", graph->name);
    rule(out, '_', width);
    fprintf(out, " %-*s%-*s%s\n", layer_width, "Layer (type)", shape_width, "Output Shape", "Param #");
    rule(out, '=', width);
    for (int i = 0; i < graph->node_count; i++) {
        const ls_node *node = &graph->nodes[i];
        if (node->op == LS_OP_INPUT) continue;  // as Keras leaves it out for its sequential models
        fprintf(out, " %-*s%-*s%" PRId64 "\n", layer_width, layer_text(node, layer), shape_width,
                ls__shape_text(node->shape, shape), node_parameters(graph, node));
    }
    rule(out, '=', width);
    int64_t total = ls_graph_parameter_count(graph);  // all trainable: no op has parameters that training leaves alone
    fprintf(out, "Total params: %s\nTrainable params: %s\nNon-trainable params: 0\n", thousands(total, count),
            thousands(total, layer));
    rule(out, '_', width);
    if (fclose(out) != 0) {
        free(*text);
        *text = NULL;
        return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the summary of %s", graph->name);
    }
    return LS_OK;
}
