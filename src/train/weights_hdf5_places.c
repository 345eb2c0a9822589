// Where Keras has a layer's weights. Keras 2: in the order of the model's layers. Keras 3: under its class and its number among the model's layers of that class. Its models of layers with branches sort
// them by their depth, the longest way to an output, the deepest first, and layers of one depth as a walk from the outputs back along the inputs meets them
// (keras/src/ops/function.py, map_graph).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "train/weights_hdf5.h"

typedef struct place {
    int met;    // when the walk met it, from 1; 0: no output depends on it
    int depth;  // layers between it and an output
} place;

static int reads(const ls_graph *graph, int node, int k) { return graph->values[graph->nodes[node].inputs[k]].node; }

// Numbers what outputs depend on as they are met: a node, then all behind its first input, then behind its second.
static ls_status walk_back(const ls_graph *graph, place *places) {
    int *stack = NULL, top = 0, met = 0;
    int64_t room = graph->output_count;
    for (int i = 0; i < graph->node_count; i++) room += graph->nodes[i].input_count;
    LS_TRY(ls_calloc(room + 1, sizeof *stack, &stack));
    for (int i = graph->output_count - 1; i >= 0; i--) stack[top++] = graph->values[graph->outputs[i].value].node;
    while (top > 0) {
        int node = stack[--top];
        if (places[node].met) continue;
        places[node].met = ++met;
        for (int k = graph->nodes[node].input_count - 1; k >= 0; k--) stack[top++] = reads(graph, node, k);
    }
    free(stack);
    return LS_OK;
}

// Readers come behind what they read. An activation inside a layer is no layer of its own.
static void measure_depths(const ls_graph *graph, place *places) {
    for (int i = graph->node_count - 1; i >= 0; i--) {
        const ls_node *n = &graph->nodes[i];
        int before = places[i].depth + !n->inside;
        for (int k = 0; k < n->input_count && places[i].met; k++) {
            place *p = &places[reads(graph, i, k)];
            if (p->depth < before) p->depth = before;
        }
    }
}

static int comes_before(const place *a, const place *b) {
    if (!a->met || !b->met) return a->met && !b->met;
    return a->depth != b->depth ? a->depth > b->depth : a->met < b->met;
}

static ls_status find_places(const ls_graph *graph, place **places) {
    LS_TRY(ls_calloc(graph->node_count, sizeof **places, places));
    ls_status status = walk_back(graph, *places);
    measure_depths(graph, *places);
    if (status != LS_OK) free(*places);
    return status;
}

ls_status ls__hdf5_place(const ls_graph *graph, int node, char out[128]) {
    const char *kind = ls__op_find(graph->nodes[node].op)->keras_name;
    place *places = NULL;
    int before = 0;
    LS_TRY(find_places(graph, &places));
    for (int i = 0; i < graph->node_count; i++)
        before += !graph->nodes[i].inside && strcmp(ls__op_find(graph->nodes[i].op)->keras_name, kind) == 0 &&
                  comes_before(&places[i], &places[node]);
    snprintf(out, 128, before ? "layers/%.90s_%d" : "layers/%.90s", kind, before);
    free(places);
    return LS_OK;
}

ls_status ls__hdf5_order(const ls_graph *graph, int **nodes, int *count) {
    place *places = NULL;
    *count = 0;
    LS_TRY(ls_calloc(graph->node_count, sizeof **nodes, nodes));
    ls_status status = find_places(graph, &places);
    for (int i = 0; i < graph->node_count && status == LS_OK; i++) {
        if (graph->nodes[i].param_count == 0) continue;
        int at = (*count)++;
        for (; at > 0 && comes_before(&places[i], &places[(*nodes)[at - 1]]); at--) (*nodes)[at] = (*nodes)[at - 1];
        (*nodes)[at] = i;
    }
    if (status == LS_OK)
        free(places);
    else
        free(*nodes);
    return status;
}
