// The part of a network behind the layer that draws a sample, as a network of its own.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "graph/graph.h"

typedef struct decoder {
    const ls_graph *from;
    ls_graph *to;
    const ls_node *sample;
    char *needed;   // (values of `from`): the output is made of it
    ls_value *map;  // (values of `from`): what it is in `to`
} decoder;

static const ls_node *find_sample(const ls_graph *g) {
    for (int i = 0; i < g->node_count; i++)
        if (ls__op_find(g->nodes[i].op)->traits & LS_OP_DRAWS) return &g->nodes[i];
    return NULL;
}

static void mark_needed(decoder *d) {
    d->needed[d->from->outputs[0].value] = 1;
    for (const ls_node *n = d->from->nodes + d->from->node_count - 1; n > d->sample; n--)
        for (int k = 0; k < n->input_count && d->needed[n->value]; k++) d->needed[n->inputs[k]] = 1;
}

// The attributes that people can give, as they came out; all else is found again.
static void copy_attributes(const ls_node *n, ls_attrs *attrs) {
    *attrs = (ls_attrs){{0}};
    const char *name = n->name;
    memcpy(attrs->bytes, &name, sizeof name);
    for (const ls_attr *row = ls__op_find(n->op)->attrs; row && row->name; row++)
        for (int i = 0; i < ls__attr_count(row); i++) ls__attr_set(row, attrs, i, ls__attr_get(row, &n->attrs, i));
}

static ls_status add_layer(decoder *d, const ls_node *n) {
    ls_value inputs[LS_MAX_INPUTS];
    ls_attrs attrs;
    for (int k = 0; k < n->input_count; k++) {
        inputs[k] = d->map[n->inputs[k]];
        if (inputs[k] == LS_NO_VALUE)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: layer %s reads more than what comes of the sample %s draws",
                           d->from->name, n->name, d->sample->name);
    }
    copy_attributes(n, &attrs);
    ls_value v = ls__graph_add(d->to, n->op, inputs, n->input_count, attrs.bytes);
    for (int k = 0; k < n->output_count && v != LS_NO_VALUE; k++) d->map[n->value + k] = v + k;
    // An activation inside it has come with it.
    if (n + 1 < d->from->nodes + d->from->node_count && n[1].inside) d->map[n[1].value] = v;
    return LS_OK;
}

static ls_status build(decoder *d) {
    const ls_graph *g = d->from;
    LS_TRY(ls_calloc(g->value_count, sizeof *d->needed, &d->needed));
    LS_TRY(ls_calloc(g->value_count, sizeof *d->map, &d->map));
    for (int i = 0; i < g->value_count; i++) d->map[i] = LS_NO_VALUE;
    mark_needed(d);
    if (!d->needed[d->sample->value])
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: its output %s is not made of what %s draws", g->name,
                       g->outputs[0].name, d->sample->name);
    LS_TRY(ls_graph_create_empty(g->name, g->store, &d->to));
    d->map[d->sample->value] =
        ls_graph_add_input(d->to, LS_INPUT_NOISE, d->sample->output[0].shape, d->sample->output[0].dtype);
    for (const ls_node *n = d->sample + 1; n < g->nodes + g->node_count; n++)
        if (d->needed[n->value] && !n->inside) LS_TRY(add_layer(d, n));
    return ls_graph_finish_features(d->to, d->map[g->outputs[0].value]);
}

ls_status ls_graph_decoder(const ls_graph *network, ls_graph **out) {
    LS_NEED(out, "out");
    *out = NULL;
    LS_NEED(network, "network");
    LS_TRY(ls__graph_check_finished(network));
    decoder d = {.from = network, .sample = find_sample(network)};
    if (!d.sample)
        return LS_FAIL(LS_STATUS_NOT_FOUND, "%s has no layer that draws a sample (normal_sample): nothing is decoded",
                       network->name);
    if (network->output_count != 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s has %d outputs, and a decoder is what leads to one",
                       network->name, network->output_count);
    ls_status status = build(&d);
    free(d.needed);
    free(d.map);
    if (status != LS_OK) ls_graph_destroy(&d.to);
    *out = d.to;
    return status;
}
