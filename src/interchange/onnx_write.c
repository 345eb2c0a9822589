// Graphs as models of ONNX. Values are named after their layers, tensors after their parameters.
// Images are (N, C, H, W); everything else is in the graph's order.
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/output.h"
#include "interchange/onnx_write.h"

#define MOST_BYTES ((int64_t)INT32_MAX)  // of a message of protocol buffers

static void fail(onnx_writer *w, ls_status status) {
    if (w->status == LS_OK) w->status = status;
}

// --- names -----------------------------------------------------------------------------------------------------------

// A layer whose activation is a node of its own, inside it, leaves the layer's name to that.
static int has_inside(const ls_graph *g, int node) { return node + 1 < g->node_count && g->nodes[node + 1].inside; }

const char *onnx_value_name(const onnx_writer *w, ls_value value, char name[ONNX_VALUE]) {
    int node = w->graph->values[value].node;
    const ls_node *n = &w->graph->nodes[node];
    snprintf(name, ONNX_VALUE, "%s%s", n->name, !n->inside && has_inside(w->graph, node) ? "/linear" : "");
    return name;
}

const char *onnx_input_name(const onnx_writer *w, int k, char name[ONNX_VALUE]) {
    return onnx_value_name(w, w->at->inputs[k], name);
}

const char *onnx_output_name(const onnx_writer *w, char name[ONNX_VALUE]) {
    return onnx_value_name(w, w->at->value, name);
}

const char *onnx_part_name(const onnx_writer *w, const char *part, char name[ONNX_VALUE]) {
    snprintf(name, ONNX_VALUE, "%s/%s", w->at->name, part);
    return name;
}

const ls_shape *onnx_sample(const onnx_writer *w, int k) { return &ls__input_type(w->graph, w->at, k)->shape; }

// --- a node ----------------------------------------------------------------------------------------------------------

void onnx_op(onnx_writer *w, const char *op, const char *part) {
    char name[ONNX_VALUE];
    ls_pb_out *m = &w->node;
    m->size = 0;
    ls_pb_put_text(m, 3, part[0] ? onnx_part_name(w, part, name) : w->at->name);
    ls_pb_put_text(m, 4, op);
    int used = onnx_use_function(op);
    if (used) ls_pb_put_text(m, 7, ONNX_OWN_DOMAIN);
    w->functions |= used;
}

void onnx_put_input(onnx_writer *w, const char *value) { ls_pb_put_text(&w->node, 1, value); }

void onnx_end(onnx_writer *w, const char *output) {
    ls_pb_put_text(&w->node, 2, output);
    fail(w, w->node.status);
    ls_pb_put_bytes(&w->out, 1, w->node.bytes, w->node.size);
}

static void end_attribute(onnx_writer *w, int64_t since, const char *name, int type) {
    ls_pb_put_text(&w->node, 1, name);
    ls_pb_put(&w->node, 20, type);
    ls_pb_wrap(&w->node, 5, since);
}

void onnx_set_int(onnx_writer *w, const char *name, int64_t value) {
    int64_t since = w->node.size;
    ls_pb_put(&w->node, 3, value);
    end_attribute(w, since, name, 2);
}

void onnx_set_real(onnx_writer *w, const char *name, float value) {
    int64_t since = w->node.size;
    ls_pb_put_float(&w->node, 2, value);
    end_attribute(w, since, name, 1);
}

void onnx_set_text(onnx_writer *w, const char *name, const char *text) {
    int64_t since = w->node.size;
    ls_pb_put_text(&w->node, 4, text);
    end_attribute(w, since, name, 3);
}

void onnx_set_ints(onnx_writer *w, const char *name, const int *values, int count) {
    int64_t since = w->node.size;
    for (int i = 0; i < count; i++) ls_pb_put(&w->node, 8, values[i]);
    end_attribute(w, since, name, 7);
}

// --- tensors ---------------------------------------------------------------------------------------------------------

static void put_tensor(onnx_writer *w, const char *name, int type, const void *elements, int64_t bytes, int ndim,
                       const int64_t *dim) {
    int64_t since = w->out.size;
    for (int i = 0; i < ndim; i++) ls_pb_put(&w->out, 1, dim[i]);
    ls_pb_put(&w->out, 2, type);
    ls_pb_put_text(&w->out, 8, name);
    ls_pb_put_bytes(&w->out, 9, elements, bytes);  // of little-endian machines, as weights in files are
    ls_pb_wrap(&w->out, 5, since);
}

void onnx_put_floats(onnx_writer *w, const char *name, const float *values, int ndim, const int64_t *dim) {
    int64_t count = 1;
    for (int i = 0; i < ndim; i++) count *= dim[i];
    put_tensor(w, name, ONNX_FLOAT, values, count * 4, ndim, dim);
}

void onnx_put_numbers(onnx_writer *w, const char *part, const int64_t *values, int count) {
    char name[ONNX_VALUE];
    onnx_part_name(w, part, name);
    put_tensor(w, name, ONNX_INT64, values, count * (int64_t)sizeof *values, 1, (int64_t[]){count});
    onnx_put_input(w, name);
}

void onnx_put_number(onnx_writer *w, const char *part, float value) {
    char name[ONNX_VALUE];
    onnx_part_name(w, part, name);
    onnx_put_floats(w, name, &value, 0, NULL);
    onnx_put_input(w, name);
}

float *onnx_param_values(onnx_writer *w, int k) {
    const ls_param *p = &w->graph->store->params[w->at->params[k]];
    int64_t count = ls_shape_count(p->shape);
    float *values = NULL;
    ls_status status = w->status;
    if (status == LS_OK && w->out.size + 4 * count > MOST_BYTES)
        status = LS_FAIL(LS_STATUS_UNSUPPORTED, "%s is larger than 2 GB, which no ONNX model in one file is",
                         w->graph->name);
    if (status == LS_OK) status = ls_calloc(count, sizeof *values, &values);
    if (status == LS_OK) status = w->weights(w->user, p->name, values, count);
    fail(w, status);
    if (status == LS_OK) return values;
    free(values);
    return NULL;
}

void onnx_put_param(onnx_writer *w, int k, const int *order, int ndim, const int64_t *dim) {
    static const int straight[] = {0, 1, 2, 3, 4};
    const ls_param *p = &w->graph->store->params[w->at->params[k]];
    int64_t own[LS_MAX_DIMS], turned[LS_MAX_DIMS], step[LS_MAX_DIMS], at[LS_MAX_DIMS] = {0}, size = 1, place = 0;
    float *from = onnx_param_values(w, k), *to = NULL;
    int axes = p->shape.ndim;
    if (from) fail(w, ls_calloc(ls_shape_count(p->shape), sizeof *to, &to));
    if (!order) order = straight;
    for (int i = axes - 1; i >= 0; i--) own[i] = size, size *= p->shape.dim[i];
    for (int i = 0; i < axes; i++) turned[i] = p->shape.dim[order[i]], step[i] = own[order[i]];
    for (int64_t e = 0; e < size && to; e++) {
        to[e] = from[place];
        for (int i = axes - 1; i >= 0; i--) {
            place += step[i];
            if (++at[i] < turned[i]) break;
            place -= step[i] * at[i];
            at[i] = 0;
        }
    }
    if (to) onnx_put_floats(w, p->name, to, dim ? ndim : axes, dim ? dim : turned);
    onnx_put_input(w, p->name);
    free(from);
    free(to);
}

// --- the graph -------------------------------------------------------------------------------------------------------

static ls_status find_live(onnx_writer *w) {
    const ls_graph *g = w->graph;
    LS_TRY(ls_calloc(g->node_count, 1, &w->live));
    LS_TRY(ls_calloc(g->node_count, sizeof *w->readers, &w->readers));
    LS_TRY(ls_calloc(g->node_count, sizeof *w->reader, &w->reader));
    for (int i = 0; i < g->output_count; i++) {
        int node = g->values[g->outputs[i].value].node;
        w->live[node] = 1;
        w->readers[node]++;
        w->reader[node] = -1;
    }
    for (int i = g->node_count - 1; i >= 0; i--)
        for (int k = 0; k < g->nodes[i].input_count && w->live[i]; k++) {
            int from = g->values[g->nodes[i].inputs[k]].node;
            w->live[from] = 1;
            if (w->readers[from]++ == 0) w->reader[from] = i;
        }
    return LS_OK;
}

// ValueInfoProto: a batch of samples, images with their channels in front.
static void put_port(onnx_writer *w, int field, const char *name, const ls_tensor_type *type) {
    ls_pb_out *m = &w->out;
    const ls_shape *s = &type->shape;
    int64_t since = m->size;
    ls_pb_put_text(m, 1, name);
    int64_t tensor = m->size;
    ls_pb_put(m, 1, type->dtype == LS_DTYPE_I32 ? ONNX_INT64 : ONNX_FLOAT);
    int64_t shape = m->size;
    ls_pb_put_text(m, 2, "batch");
    ls_pb_wrap(m, 1, shape);
    for (int i = 0; i < s->ndim; i++) {
        int64_t dim = m->size;
        ls_pb_put(m, 1, s->dim[s->ndim < 3 ? i : i == 0 ? s->ndim - 1 : i - 1]);
        ls_pb_wrap(m, 1, dim);
    }
    ls_pb_wrap(m, 2, shape);
    ls_pb_wrap(m, 1, tensor);  // Tensor, in its TypeProto
    ls_pb_wrap(m, 2, tensor);
    ls_pb_wrap(m, field, since);
}

// An output that has a name of its own is its layer's value once more.
static void put_output(onnx_writer *w, const ls_graph_output *output) {
    char value[ONNX_VALUE], name[ONNX_VALUE];
    onnx_value_name(w, output->value, value);
    w->at = ls__value_node(w->graph, output->value);
    snprintf(name, sizeof name, "%s", output->name);
    if (strcmp(value, name) != 0) {
        if (ls__graph_name_taken(w->graph, name)) onnx_part_name(w, "output", name);
        onnx_op(w, "Identity", "output");
        onnx_put_input(w, value);
        onnx_end(w, name);
    }
    put_port(w, 12, name, ls__value_type(w->graph, output->value));
}

static ls_status put_layer(onnx_writer *w, int i) {
    const ls_node *n = &w->graph->nodes[i];
    onnx_layer_writer write = onnx_find_writer(n);
    if (!w->live[i] || ls__op_find(n->op)->part != LS_PART_LAYER || onnx_is_absorbed(w, i)) return LS_OK;
    w->at = n;
    if (n->input_count == 0) {  // an input of the network
        put_port(w, 11, n->name, &n->output[0]);
        return LS_OK;
    }
    if (!write)
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s: layer %s, %s, cannot be written as ONNX", w->graph->name, n->name,
                       ls__op_find(n->op)->keras_class);
    write(w, n);
    return w->status != LS_OK ? w->status : w->out.status;
}

static ls_status put_graph(onnx_writer *w) {
    LS_TRY(find_live(w));
    ls_pb_put_text(&w->out, 2, w->graph->name);
    for (int i = 0; i < w->graph->node_count; i++) LS_TRY(put_layer(w, i));
    for (int i = 0; i < w->graph->output_count; i++) put_output(w, &w->graph->outputs[i]);
    LS_TRY(w->status);
    return w->out.status;
}

static ls_status put_model(onnx_writer *w) {
    ls_pb_out *m = &w->out;
    LS_TRY(put_graph(w));
    ls_pb_wrap(m, 7, 0);
    ls_pb_put(m, 1, ONNX_IR);
    ls_pb_put_text(m, 2, "lockstep");
    onnx_put_functions(m, w->functions);
    if (m->size > MOST_BYTES)
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s is larger than 2 GB, which no ONNX model in one file is",
                       w->graph->name);
    return m->status;
}

ls_status ls__onnx_bytes(const ls_graph *graph, ls_onnx_weights weights, void *user, ls_pb_out *out) {
    onnx_writer w = {.graph = graph, .weights = weights, .user = user};
    *out = (ls_pb_out){0};
    LS_TRY(ls__graph_check_finished(graph));
    ls_status status = put_model(&w);
    free(w.live), free(w.readers), free(w.reader), free(w.node.bytes);
    *out = w.out;
    return status;
}

static ls_status cannot_write(const char *path) {
    return LS_FAIL(LS_STATUS_IO, "cannot write %s: %s", path, strerror(errno));
}

ls_status ls_onnx_write(const ls_graph *graph, const char *path, ls_onnx_weights weights, void *user) {
    ls_pb_out model;
    ls_output file;
    LS_NEED(graph, "graph");
    LS_NEED(path, "path");
    LS_NEED(weights, "weights");
    ls_status status = ls__onnx_bytes(graph, weights, user, &model);
    if (status == LS_OK && ls_output_open(path, &file) != 0) status = cannot_write(path);
    if (status == LS_OK) {
        int whole = fwrite(model.bytes, 1, (size_t)model.size, file.file) == (size_t)model.size;
        int why = errno;
        if (ls_output_close(&file, path, whole) != 0 || !whole) {
            if (!whole) errno = why;
            status = cannot_write(path);
        }
    }
    free(model.bytes);
    return status;
}
