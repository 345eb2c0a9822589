// A graph as text, layer by layer: what network_read.c reads as the same graph.
#define _GNU_SOURCE
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "models/network.h"

typedef struct writer {
    const ls_graph *graph, *larger, *top;
    FILE *out;
    ls_value latest;  // what the next layer reads that says nothing
} writer;

// A name as it is, or in quotes where it would be read as something else.
static ls_status write_name(const writer *w, const char *name) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    if (!net_is_name(name))
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s: the name of layer %.60s... cannot be written as text",
                       w->graph->name, name);
    if (name[strspn(name, plain)] == 0 && name[0]) return fputs(name, w->out), LS_OK;
    fputc('"', w->out);
    for (const char *p = name; *p; p++) fprintf(w->out, *p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
    fputc('"', w->out);
    return LS_OK;
}

// The fewest digits that are read as the same number.
static void write_number(const writer *w, const ls_attr *row, double x) {
    char text[40];
    int real = row->type == LS_ATTR_FLOAT || row->type == LS_ATTR_REAL;
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, real ? "%.*g" : "%.*f", real ? digits : 0, x);
        double back = strtod(text, NULL);
        if (row->type == LS_ATTR_FLOAT ? (float)back == (float)x : back == x) break;
    }
    fputs(text, w->out);
}

// Whether an attribute has a value that a text has to tell.
static int is_told(const ls_attr *row, const ls_attrs *attrs) {
    for (int i = 0; i < ls__attr_count(row); i++)
        if (ls__attr_get(row, attrs, i) != (row->type == LS_ATTR_FLOAT ? (double)(float)row->initial : row->initial))
            return 1;
    return 0;
}

static void write_attribute(const writer *w, const ls_attr *row, const ls_attrs *attrs, const ls_attrs *larger) {
    int count = ls__attr_count(row), alike = count > 1 && row->type != LS_ATTR_DIMS;
    double first = ls__attr_get(row, attrs, 0);
    fprintf(w->out, " %s", row->name);
    if (row->type == LS_ATTR_FLAG && first != 0) return;
    fputc('=', w->out);
    if (row->choices) {
        fputs(row->choices[(int)first], w->out);
        return;
    }
    int whole = row->type == LS_ATTR_INT || row->type == LS_ATTR_DIMS, comma = row->type == LS_ATTR_SIDES;
    for (int i = 0; i < count; i++) {
        alike &= ls__attr_get(row, attrs, i) == first;
        comma |= larger && whole && ls__attr_get(row, larger, i) != ls__attr_get(row, attrs, i);
    }
    if (alike) count = 1;
    for (int i = 0; i < count; i++) {
        double x = ls__attr_get(row, attrs, i);
        if (row->type == LS_ATTR_DIMS && x == 0) break;
        if (i) fputc(comma ? ',' : 'x', w->out);
        if (larger && whole && ls__attr_get(row, larger, i) == x + 1)
            fputs("classes", w->out);
        else
            write_number(w, row, x);
    }
}

static ls_status write_inputs(const writer *w, const ls_node *n) {
    if (n->input_count == 1 && n->inputs[0] == w->latest) return LS_OK;
    for (int k = 0; k < n->input_count; k++) {
        if (w->graph->values[n->inputs[k]].index != 0)
            return LS_FAIL(LS_STATUS_UNSUPPORTED,
                           "%s: %s reads a second output of a layer, which a text has no word for", w->graph->name,
                           n->name);
        fputs(k ? ", " : " from ", w->out);
        LS_TRY(write_name(w, ls__value_node(w->graph, n->inputs[k])->name));
    }
    return LS_OK;
}

static ls_status write_input(writer *w, const ls_node *n) {
    LS_TRY(write_name(w, n->name));
    fputs(" = input", w->out);
    ls_shape shape = n->output[0].shape;
    for (int d = 0; d < shape.ndim; d++) fprintf(w->out, d ? "x%lld" : " %lld", (long long)shape.dim[d]);
    fputs(n->output[0].dtype == LS_DTYPE_I32 ? " i32\n" : "\n", w->out);
    if (w->graph->inputs[0] == n->value) w->latest = n->value;
    return LS_OK;
}

static ls_status write_layer(writer *w, int i) {
    const ls_node *n = &w->graph->nodes[i];
    const ls_op *op = ls__op_find(n->op);
    if (n->inside) {
        w->latest = n->value;
        return LS_OK;
    }
    if (n->input_count == 0) return write_input(w, n);
    LS_TRY(write_name(w, n->name));
    fprintf(w->out, " = %s", ls_op_name(n->op));
    const ls_attrs *larger = w->larger && i < w->larger->node_count ? &w->larger->nodes[i].attrs : NULL;
    for (const ls_attr *row = op->attrs; row && row->name; row++)
        if (is_told(row, &n->attrs)) write_attribute(w, row, &n->attrs, larger);
    LS_TRY(write_inputs(w, n));
    fputc('\n', w->out);
    if (op->part == LS_PART_LAYER) w->latest = n->value;
    return LS_OK;
}

// How many of the first layers the network has without its classifier too.
static int body(const writer *w) {
    int n = 0;
    if (!w->top || w->top->output_count != 1) return -1;
    while (n < w->graph->node_count && n < w->top->node_count && w->graph->nodes[n].op == w->top->nodes[n].op &&
           strcmp(w->graph->nodes[n].name, w->top->nodes[n].name) == 0)
        n++;
    return n == w->top->node_count ? n : -1;
}

static ls_status write_outputs(const writer *w) {
    const ls_graph *g = w->graph;
    if (g->features) fputs("features\n", w->out);
    if (g->output_count == 1 && g->outputs[0].value == w->latest &&
        strcmp(g->outputs[0].name, ls__value_node(g, w->latest)->name) == 0)
        return LS_OK;
    for (int i = 0; i < g->output_count; i++) {
        fputs("output ", w->out);
        LS_TRY(write_name(w, g->outputs[i].name));
        fputs(" = ", w->out);
        LS_TRY(write_name(w, ls__value_node(g, g->outputs[i].value)->name));
        fputc('\n', w->out);
    }
    return LS_OK;
}

static ls_status write_all(writer *w) {
    int top = body(w);
    fputs("network ", w->out);
    LS_TRY(write_name(w, w->graph->name));
    fputc('\n', w->out);
    if (w->larger) fprintf(w->out, "classes %d\n", ls_graph_classes(w->graph));
    fputc('\n', w->out);
    for (int i = 0; i < w->graph->node_count; i++) {
        if (i == top) fputs("top\n", w->out);
        LS_TRY(write_layer(w, i));
    }
    return write_outputs(w);
}

ls_status net_write(const ls_graph *graph, const ls_graph *larger, const ls_graph *top, char **text) {
    size_t size;
    *text = NULL;
    writer w = {.graph = graph, .larger = larger, .top = top, .latest = LS_NO_VALUE};
    w.out = open_memstream(text, &size);
    if (!w.out) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the text of a network");
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0), before = plain ? uselocale(plain) : (locale_t)0;
    ls_status status = write_all(&w);
    if (plain) uselocale(before), freelocale(plain);
    int failed = ferror(w.out) | (fclose(w.out) != 0);
    if (status == LS_OK && failed) status = LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the text of a network");
    if (status != LS_OK) {
        free(*text);
        *text = NULL;
    }
    return status;
}

ls_status ls_network_text(const ls_graph *graph, char **text) {
    LS_NEED(text, "text");
    *text = NULL;
    LS_NEED(graph, "graph");
    LS_TRY(ls__graph_check_finished(graph));
    return net_write(graph, NULL, NULL, text);
}

ls_status ls_model_text(const char *name, const ls_model_config *config, char **text) {
    ls_graph *graph, *larger = NULL, *top = NULL;
    LS_NEED(text, "text");
    *text = NULL;
    LS_NEED(name, "name");
    LS_NEED(config, "config");
    LS_TRY(ls_model_build(name, config, &graph));
    ls_model_config more = *config, less = *config;
    more.classes = ls_graph_classes(graph) + 1;
    less.include_top = 0;
    // Not every network has the two: then its text says less.
    if (config->include_top && ls_graph_classes(graph) > 0 && ls_model_build(name, &more, &larger) != LS_OK)
        larger = NULL;
    if (config->include_top && ls_model_build(name, &less, &top) != LS_OK) top = NULL;
    ls_status status = net_write(graph, larger, top, text);
    ls_graph_destroy(&graph);
    ls_graph_destroy(&larger);
    ls_graph_destroy(&top);
    return status;
}
