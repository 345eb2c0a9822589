// ONNX models as graphs: which nodes lead to the outputs, in which order they become constants or
// layers, and what the graph's inputs and its output are.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "interchange/onnx.h"

// --- nodes, as the builders see them ---------------------------------------------------------------------------------

const onnx_attribute *onnx_find(const onnx_node *n, const char *name) {
    for (int i = 0; i < n->attribute_count; i++)
        if (strcmp(n->attributes[i].name, name) == 0) return &n->attributes[i];
    return NULL;
}

int64_t onnx_int(const onnx_node *n, const char *name, int64_t otherwise) {
    const onnx_attribute *a = onnx_find(n, name);
    return a ? a->i : otherwise;
}

float onnx_real(const onnx_node *n, const char *name, float otherwise) {
    const onnx_attribute *a = onnx_find(n, name);
    return a ? a->f : otherwise;
}

int onnx_is(const onnx_node *n, const char *name, const char *word, const char *otherwise) {
    const onnx_attribute *a = onnx_find(n, name);
    return strcmp(a && a->s ? a->s : otherwise, word) == 0;
}

onnx_value *onnx_in(const onnx_reader *r, int k) {
    return k < r->node->input_count && r->node->inputs[k] >= 0 ? &r->model->values[r->node->inputs[k]] : NULL;
}

onnx_value *onnx_out(const onnx_reader *r, int k) {
    return k < r->node->output_count && r->node->outputs[k] >= 0 ? &r->model->values[r->node->outputs[k]] : NULL;
}

ls_status onnx_list(onnx_reader *r, const char *name, int k, int most, int64_t *out, int *count) {
    const onnx_attribute *a = onnx_find(r->node, name);
    const int64_t *from = a ? a->ints : NULL;
    int64_t n = a ? a->count : 0;
    onnx_tensor *t = NULL;
    *count = 0;
    if (!a && k >= 0 && onnx_in(r, k)) {
        LS_TRY(onnx_constant(r, k, &t));
        from = t ? t->ints : NULL;
        n = t ? t->count : 0;
        if (!from && n) return onnx_wrong(r->model, r->node, LS_STATUS_BAD_DATA, "its %s are not whole numbers", name);
    }
    if (n > most)
        return onnx_wrong(r->model, r->node, LS_STATUS_UNSUPPORTED, "it has %lld %s, more than %d", (long long)n, name,
                          most);
    if (n) memcpy(out, from, (size_t)n * sizeof *out);
    *count = (int)n;
    return LS_OK;
}

ls_status onnx_data(onnx_reader *r, int k, onnx_value **out) {
    *out = onnx_in(r, k);
    if (*out && !(*out)->tensor) return LS_OK;
    return onnx_wrong(r->model, r->node, *out ? LS_STATUS_UNSUPPORTED : LS_STATUS_BAD_DATA,
                      *out ? "its input %d is a constant, and a value of the network is read there"
                           : "its input %d is left out, which it needs",
                      k);
}

ls_status onnx_constant(onnx_reader *r, int k, onnx_tensor **out) {
    onnx_value *v = onnx_in(r, k);
    if (!v) return onnx_wrong(r->model, r->node, LS_STATUS_BAD_DATA, "its input %d is left out, which it needs", k);
    if (!v->tensor)
        return onnx_wrong(r->model, r->node, LS_STATUS_UNSUPPORTED,
                          "its input %d is computed, and only constants are read there", k);
    *out = v->tensor;
    return onnx_values(r->model, *out);
}

int onnx_is_scalar(const onnx_reader *r, int k) {
    const onnx_value *v = onnx_in(r, k);
    return v && v->tensor && v->tensor->count == 1;
}

ls_status onnx_scalar(onnx_reader *r, int k, double *out) {
    onnx_tensor *t = NULL;
    LS_TRY(onnx_constant(r, k, &t));
    if (!t || t->count != 1)
        return onnx_wrong(r->model, r->node, LS_STATUS_UNSUPPORTED,
                          "its input %d has %lld elements, and one is read there", k, t ? (long long)t->count : 0LL);
    *out = t->floats ? (double)t->floats[0] : (double)t->ints[0];
    return LS_OK;
}

ls_status onnx_axis(onnx_reader *r, int64_t asked, int ndim, int *out) {
    *out = (int)(asked < 0 ? asked + ndim : asked);
    if (asked >= -ndim && asked < ndim) return LS_OK;
    return onnx_wrong(r->model, r->node, LS_STATUS_BAD_DATA, "axis %lld of a value of %d", (long long)asked, ndim);
}

ls_status onnx_make(onnx_reader *r, int k, int type, int ndim, const int64_t *dim, onnx_tensor **out) {
    onnx_value *v = onnx_out(r, k);
    onnx_tensor *t;
    int64_t count = 1;
    for (int i = 0; i < ndim; i++)
        if (dim[i] < 0 || __builtin_mul_overflow(count, dim[i], &count) || count > LS_MOST_ELEMENTS)
            return onnx_wrong(r->model, r->node, LS_STATUS_BAD_DATA,
                              "a constant of more elements than any memory holds");
    LS_TRY(onnx_alloc(r->model, 1, sizeof *t, &t));
    *t = (onnx_tensor){.name = v ? v->name : "", .type = type, .ndim = ndim, .count = count};
    for (int i = 0; i < ndim; i++) t->dim[i] = dim[i];
    if (type == ONNX_FLOAT)
        LS_TRY(onnx_alloc(r->model, count, sizeof *t->floats, &t->floats));
    else
        LS_TRY(onnx_alloc(r->model, count, sizeof *t->ints, &t->ints));
    if (v) v->tensor = t;
    *out = t;
    return LS_OK;
}

void onnx_same(onnx_reader *r, int k, const onnx_value *as) {
    onnx_value *v = onnx_out(r, k);
    if (!v) return;
    v->tensor = as->tensor;
    v->value = as->value;
    v->ndim = as->ndim;
    memcpy(v->dim, as->dim, sizeof v->dim);
    memcpy(v->axis, as->axis, sizeof v->axis);
    v->flat = as->flat;
    v->not_negative = as->not_negative;
    v->pending = as->pending;
}

static ls_status failed(const onnx_reader *r) {
    return onnx_wrong(r->model, r->node, r->graph->failed, "%s", r->graph->failure);
}

// The shape that a value of the graph has by its axes.
static void set_dims(const onnx_reader *r, onnx_value *v) {
    const ls_shape *shape = &ls__value_type(r->graph, v->value)->shape;
    int halves = 1;
    for (int i = 0; i < v->ndim; i++)
        if (v->axis[i] == ONNX_HALVES) halves = 2;
    for (int i = 0; i < v->ndim; i++) {
        int axis = v->axis[i];
        v->dim[i] = axis == ONNX_HALVES ? 2
                    : axis < 0          ? 1
                    : axis == 0         ? ONNX_BATCH
                                        : shape->dim[axis - 1] / (axis == shape->ndim ? halves : 1);
    }
}

ls_status onnx_give(onnx_reader *r, int k, ls_value value, const onnx_value *like) {
    if (value == LS_NO_VALUE) return failed(r);
    onnx_value *v = onnx_out(r, k);
    if (!v) return LS_OK;
    int not_negative = v->not_negative;
    onnx_same(r, k, like);
    v->not_negative = not_negative;
    v->pending = 0;
    v->value = value;
    set_dims(r, v);
    return LS_OK;
}

ls_status onnx_give_plain(onnx_reader *r, int k, ls_value value) {
    onnx_value like = {.ndim = 0};
    if (value == LS_NO_VALUE) return failed(r);
    like.ndim = ls__value_type(r->graph, value)->shape.ndim + 1;
    for (int i = 0; i < like.ndim; i++) like.axis[i] = i;
    return onnx_give(r, k, value, &like);
}

ls_status onnx_give_images(onnx_reader *r, int k, ls_value value) {
    onnx_value like = {.ndim = 0};
    if (value == LS_NO_VALUE) return failed(r);
    like.ndim = ls__value_type(r->graph, value)->shape.ndim + 1;
    like.axis[1] = like.ndim - 1;
    for (int i = 2; i < like.ndim; i++) like.axis[i] = i - 1;
    return onnx_give(r, k, value, &like);
}

int onnx_is_images(const onnx_value *v) {
    int fine = (v->ndim == 4 || v->ndim == 5) && v->axis[0] == 0 && v->axis[1] == v->ndim - 1;
    for (int i = 2; i < v->ndim; i++) fine &= v->axis[i] == i - 1;
    return fine;
}

int onnx_is_plain(const onnx_value *v) {
    int fine = 1;
    for (int i = 0; i < v->ndim; i++) fine &= v->axis[i] == i;
    return fine;
}

ls_status onnx_need_images(onnx_reader *r, const onnx_value *v) {
    if (onnx_is_images(v)) return LS_OK;
    return onnx_wrong(r->model, r->node, LS_STATUS_UNSUPPORTED,
                      "its input has %d dimensions in another order than samples, channels, rows, columns: only such "
                      "images, and volumes, are read",
                      v->ndim);
}

onnx_node *onnx_only_reader(const onnx_reader *r, int k, const char *op) {
    const onnx_value *v = onnx_out(r, k);
    if (!v || v->uses != 1 || v->output || v->reader < 0) return NULL;
    onnx_node *n = &r->model->nodes[v->reader];
    return strcmp(n->op, op) == 0 && !n->domain[0] ? n : NULL;
}

// --- layers ----------------------------------------------------------------------------------------------------------

static int free_name(const onnx_reader *r, const char *name) {
    return name[0] && !ls__graph_name_taken(r->graph, name) && !ls__store_has_layer(r->graph->store, name);
}

// Weights are named after their layer: "conv1/kernel", "features.0.weight".
const char *onnx_name(const onnx_reader *r, const onnx_tensor *weights, char name[ONNX_NAME]) {
    if (weights) {
        onnx_clean(weights->name, name, ONNX_NAME);
        char *slash = strrchr(name, '/'), *dot = strrchr(name, '.');
        char *end = slash && (!dot || slash > dot) ? slash : dot;
        if (end) *end = 0;
        if (end && !strchr(name, '/') && free_name(r, name)) return name;
    }
    onnx_clean(r->node->name[0] == '/' ? r->node->name + 1 : r->node->name, name, ONNX_NAME);
    for (char *p = name; *p; p++)
        if (*p == '/') *p = '_';
    return free_name(r, name) ? name : NULL;
}

void onnx_begin_with(onnx_reader *r, ls_value value, int k, float *values) {
    ls_param *p = &r->graph->store->params[ls__value_node(r->graph, value)->params[k]];
    free(p->initial);
    p->initial = values;
}

// Element i of `to` (shape) is the element of `from` at the place that `order` says.
static void permute(const float *from, const int64_t *dim, ls_shape shape, const int *order, float *to) {
    int64_t stride[LS_MAX_DIMS] = {0}, at[LS_MAX_DIMS] = {0}, own[ONNX_DIMS] = {0}, step = 1, place = 0;
    for (int i = shape.ndim - 1; i >= 0; i--) own[i] = step, step *= dim[i];
    for (int i = 0; i < shape.ndim; i++) stride[i] = own[order[i]];
    for (int64_t n = ls_shape_count(shape), e = 0; e < n; e++) {
        to[e] = from[place];
        for (int i = shape.ndim - 1; i >= 0; i--) {
            place += stride[i];
            if (++at[i] < shape.dim[i]) break;
            place -= stride[i] * at[i];
            at[i] = 0;
        }
    }
}

ls_status onnx_begin(onnx_reader *r, ls_value value, int k, const onnx_tensor *t, const int *order) {
    static const int straight[] = {0, 1, 2, 3, 4};
    if (value == LS_NO_VALUE) return failed(r);
    const ls_param *p = &r->graph->store->params[ls__value_node(r->graph, value)->params[k]];
    int64_t count = ls_shape_count(p->shape);
    float *values;
    int fits = t->count == count && t->floats;
    for (int i = 0; i < p->shape.ndim && fits && order; i++)
        fits = t->ndim == p->shape.ndim && t->dim[order[i]] == p->shape.dim[i];
    if (!fits) {
        char shape[LS_SHAPE_TEXT], name[100];
        onnx_clean(t->name, name, sizeof name);
        return onnx_wrong(r->model, r->node, LS_STATUS_BAD_DATA,
                          "its tensor '%s' has %lld elements of type %d, and for its input it should have %lld numbers "
                          "(%s without the batch)",
                          name, (long long)t->count, t->type, (long long)count, ls__shape_text(p->shape, shape));
    }
    LS_TRY(ls_calloc(count, sizeof *values, &values));
    permute(t->floats, order ? t->dim : p->shape.dim, p->shape, order ? order : straight, values);
    onnx_begin_with(r, value, k, values);
    return LS_OK;
}

int64_t onnx_row(const onnx_value *v, int64_t i) {
    if (v->flat.ndim == 0) return i;
    int64_t channels = v->flat.dim[v->flat.ndim - 1], pixels = ls_shape_count(v->flat) / channels;
    return i % channels * pixels + i / channels;
}

// --- which nodes, and in which order ---------------------------------------------------------------------------------

// Marks what outputs depend on, from the last node to the first. Nodes stand in order, so that one pass does.
static ls_status mark_live(onnx_model *m) {
    char *needed;
    LS_TRY(onnx_alloc(m, m->value_count + 1, 1, &needed));
    for (int i = 0; i < m->output_count; i++) {
        onnx_value *v = &m->values[m->outputs[i].value];
        v->output = 1;
        v->uses++;
        needed[m->outputs[i].value] = 1;
    }
    for (int i = m->node_count - 1; i >= 0; i--) {
        onnx_node *n = &m->nodes[i];
        for (int k = 0; k < n->output_count; k++) n->live |= n->outputs[k] >= 0 && needed[n->outputs[k]];
        for (int k = 0; k < n->input_count && n->live; k++) {
            if (n->inputs[k] < 0) continue;
            onnx_value *v = &m->values[n->inputs[k]];
            if (v->maker >= i)
                return onnx_wrong(m, n, LS_STATUS_BAD_DATA,
                                  "it reads '%.80s', which is made behind it, by node '%.80s': nodes stand in order, "
                                  "without cycles",
                                  v->name, m->nodes[v->maker].name);
            needed[n->inputs[k]] = 1;
            v->uses++;
            v->reader = i;
        }
    }
    return LS_OK;
}

static onnx_builder find_builder(const onnx_node *n) {
    onnx_builder b = onnx_find_window(n);
    if (!b) b = onnx_find_layer(n);
    if (!b) b = onnx_find_shape(n);
    return b ? b : onnx_find_sequence(n);
}

// All operations that are not read, at once.
static ls_status check_known(const onnx_model *m) {
    char list[1400] = "", name[80], op[60], domain[60], output[80];
    size_t used = 0;
    int count = 0;
    for (int i = 0; i < m->node_count; i++) {
        const onnx_node *n = &m->nodes[i];
        if (!n->live || find_builder(n) || onnx_find_fold(n)) continue;
        onnx_clean(n->name, name, sizeof name);
        onnx_clean(n->op, op, sizeof op);
        onnx_clean(n->domain, domain, sizeof domain);
        onnx_clean(n->output_count && n->outputs[0] >= 0 ? m->values[n->outputs[0]].name : "", output, sizeof output);
        if (count++ < 12)
            ls_text_add(list, sizeof list, &used, "%s%s%s%s (node '%s', output '%s')", count > 1 ? ", " : "", domain,
                        domain[0] ? "." : "", op, name, output);
    }
    if (!count) return LS_OK;
    return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s has %d node%s of operations that are not read: %s%s", m->path, count,
                   count == 1 ? "" : "s", list, count > 12 ? ", ..." : "");
}

// The layer whose units are the classes: the last one, behind which is nothing but a bias and a softmax.
static int find_head(const onnx_model *m) {
    if (m->output_count != 1) return -1;
    for (int value = m->outputs[0].value; value >= 0;) {
        int i = m->values[value].maker;
        if (i < 0 || m->values[value].uses != 1) return -1;
        const onnx_node *n = &m->nodes[i];
        if (n->input_count == 0 || n->inputs[0] < 0) return -1;
        if (strcmp(n->op, "Gemm") == 0 || strcmp(n->op, "MatMul") == 0) return i;
        int passes =
            strcmp(n->op, "Softmax") == 0 || strcmp(n->op, "LogSoftmax") == 0 || strcmp(n->op, "Identity") == 0;
        int bias = strcmp(n->op, "Add") == 0 && n->input_count == 2 && n->inputs[1] >= 0;
        if (bias) {
            value = m->values[n->inputs[0]].maker >= 0 ? n->inputs[0] : n->inputs[1];
            continue;
        }
        if (!passes) return -1;
        value = n->inputs[0];
    }
    return -1;
}

// --- inputs ----------------------------------------------------------------------------------------------------------

// Images are (N, C, H, W), but for models that begin by transposing (N, H, W, C) to that.
static int comes_plain(const onnx_model *m, const onnx_port *port) {
    for (int i = 0; i < m->node_count; i++) {
        const onnx_node *n = &m->nodes[i];
        if (!n->live || strcmp(n->op, "Transpose") != 0 || !n->input_count || n->inputs[0] != port->value) continue;
        const onnx_attribute *a = onnx_find(n, "perm");
        if (a && a->count == port->ndim && a->ints[1] == port->ndim - 1) return 1;
    }
    return 0;
}

static ls_status input_shape(const onnx_reader *r, const onnx_port *port, int images, int first, ls_shape *out) {
    const ls_shape *asked = &r->config->input;
    char name[100];
    onnx_clean(r->model->values[port->value].name, name, sizeof name);
    if (port->ndim < 1 || port->ndim > LS_MAX_DIMS)
        return onnx_wrong(r->model, NULL, LS_STATUS_UNSUPPORTED,
                          "its input '%s' has %d dimensions: 1 to %d, the batch among them, are read", name, port->ndim,
                          LS_MAX_DIMS);
    out->ndim = port->ndim - 1;
    for (int i = 0; i < out->ndim; i++) {
        int64_t d = port->dim[!images ? i + 1 : i == out->ndim - 1 ? 1 : i + 2];
        if (first && asked->ndim == out->ndim && asked->dim[i]) d = asked->dim[i];
        if (d < 1)
            return onnx_wrong(r->model, NULL, LS_STATUS_INVALID_ARGUMENT,
                              "its input '%s' does not tell how large a sample is: say it (--input-shape), as the "
                              "dataset has it",
                              name);
        out->dim[i] = d;
    }
    return LS_OK;
}

static ls_status add_input(onnx_reader *r, const onnx_port *port, int first) {
    onnx_value *v = &r->model->values[port->value];
    char name[ONNX_NAME];
    ls_shape shape, asked = r->config->input;
    int whole = port->type == ONNX_INT32 || port->type == ONNX_INT64;
    if (!whole && port->type != ONNX_FLOAT && port->type != ONNX_FLOAT16 && port->type != ONNX_BFLOAT16 &&
        port->type != ONNX_DOUBLE)
        return onnx_wrong(r->model, NULL, LS_STATUS_UNSUPPORTED,
                          "its input '%.80s' is of type %d: floating and whole numbers are read", v->name, port->type);
    int images = port->ndim >= 4 && !comes_plain(r->model, port);
    LS_TRY(input_shape(r, port, images, first, &shape));
    onnx_clean(v->name, name, sizeof name);
    for (char *p = name; *p; p++)
        if (*p == '/') *p = '_';
    // A network of vectors takes images that have as many values.
    int flattens = first && shape.ndim == 1 && asked.ndim == 3 && ls_shape_count(asked) == shape.dim[0];
    if (first && asked.ndim && asked.ndim != shape.ndim && !flattens) {
        char one[LS_SHAPE_TEXT], other[LS_SHAPE_TEXT];
        return onnx_wrong(r->model, NULL, LS_STATUS_INVALID_ARGUMENT, "it takes samples %s, and %s are asked for",
                          ls__shape_text(shape, one), ls__shape_text(asked, other));
    }
    onnx_node self = {.name = v->name, .op = "input", .outputs = (int[]){port->value}, .output_count = 1};
    r->node = &self;
    ls_value value = ls_graph_add_input(r->graph, free_name(r, name) ? name : NULL, flattens ? asked : shape,
                                        whole ? LS_DTYPE_I32 : LS_DTYPE_F32);
    if (flattens) value = ls_flatten(r->graph, value, NULL);
    if (flattens && asked.dim[2] > 1 && asked.dim[0] * asked.dim[1] > 1) v->flat = asked;
    ls_shape flat = v->flat;
    ls_status status = images ? onnx_give_images(r, 0, value) : onnx_give_plain(r, 0, value);
    v->flat = flat;
    r->node = NULL;
    return status;
}

static ls_status add_inputs(onnx_reader *r) {
    const onnx_model *m = r->model;
    for (int i = 0; i < m->input_count; i++) {
        const onnx_port *port = &m->inputs[i];
        if (m->values[port->value].tensor || m->values[port->value].uses == 0) continue;
        LS_TRY(add_input(r, port, ls_graph_input_count(r->graph) == 0));
        m->values[port->value].made = 1;
    }
    if (ls_graph_input_count(r->graph)) return LS_OK;
    return onnx_wrong(m, NULL, LS_STATUS_BAD_DATA, "its outputs depend on no input");
}

// --- the graph -------------------------------------------------------------------------------------------------------

static ls_status run_node(onnx_reader *r, onnx_node *n) {
    int constant = 1;
    r->node = n;
    for (int k = 0; k < n->input_count && !n->done; k++) {
        onnx_value *v = onnx_in(r, k);
        if (v && !v->made)
            return onnx_wrong(r->model, n, LS_STATUS_BAD_DATA,
                              "it reads '%.80s', which is no input, no tensor, and made by no node", v->name);
        constant &= !v || v->tensor;
    }
    onnx_builder build = onnx_find_fold(n);
    // The shape of a value is a constant, too.
    if (!build || (!constant && strcmp(n->op, "Shape") != 0)) build = find_builder(n);
    if (!build) return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "this operation is read of constants alone");
    if (!n->done) LS_TRY(build(r, n));
    r->node = n;
    for (int k = 0; k < n->output_count; k++) {
        onnx_value *v = onnx_out(r, k);
        if (v) v->made |= v->tensor || v->value != LS_NO_VALUE || v->pending;
    }
    return LS_OK;
}

// Where the classifier is left out, what it reads is the output.
static ls_status cut_head(onnx_reader *r) {
    onnx_model *m = r->model;
    if (r->config->include_top) return LS_OK;
    if (r->head < 0)
        return onnx_wrong(m, NULL, LS_STATUS_INVALID_ARGUMENT,
                          "it does not end in one dense layer (Gemm, MatMul): there is no classifier to leave out");
    m->outputs[0].value = m->nodes[r->head].inputs[0];
    r->head = -1;
    for (int i = 0; i < m->value_count; i++) m->values[i].uses = m->values[i].output = 0, m->values[i].reader = -1;
    for (int i = 0; i < m->node_count; i++) m->nodes[i].live = 0;
    return mark_live(m);
}

static ls_status check_output(const onnx_reader *r, int k) {
    const onnx_value *v = &r->model->values[r->model->outputs[k].value];
    if (v->made && !v->tensor && v->value != LS_NO_VALUE) return LS_OK;
    return onnx_wrong(r->model, NULL, LS_STATUS_BAD_DATA, "its output '%.80s' is %s", v->name,
                      v->tensor ? "a constant" : "made by no node");
}

static ls_status finish(onnx_reader *r) {
    const onnx_model *m = r->model;
    ls_graph *g = r->graph;
    for (int k = 0; k < m->output_count; k++) LS_TRY(check_output(r, k));
    ls_value first = m->values[m->outputs[0].value].value;
    ls_status status = LS_OK;
    if (m->output_count > 1) {
        for (int k = 0; k < m->output_count && status == LS_OK; k++) {
            char name[ONNX_NAME];
            onnx_clean(m->values[m->outputs[k].value].name, name, sizeof name);
            status = ls_graph_add_output(g, m->values[m->outputs[k].value].value, name);
        }
        if (status == LS_OK) status = ls_graph_finish(g, LS_NO_VALUE);
    } else if (r->config->include_top && ls__value_type(g, first)->shape.ndim == 1) {
        status = ls_graph_finish(g, first);
    } else {
        status = ls_graph_finish_features(g, first);
    }
    if (status != LS_OK) return ls__fail_context(status, "%s: ", m->path);
    int classes = ls_graph_classes(g), asked = r->config->classes;
    if (!asked || !classes || asked == classes) return LS_OK;
    return onnx_wrong(m, NULL, LS_STATUS_INVALID_ARGUMENT,
                      "it tells %d classes apart, and %d are asked for; it does not end in one dense layer that could "
                      "be made anew for them",
                      classes, asked);
}

static ls_status read_model(onnx_reader *r) {
    onnx_model *m = r->model;
    if (m->output_count < 1) return onnx_wrong(m, NULL, LS_STATUS_BAD_DATA, "it has no output");
    LS_TRY(mark_live(m));
    r->head = find_head(m);
    LS_TRY(cut_head(r));
    LS_TRY(check_known(m));
    LS_TRY(add_inputs(r));
    for (int i = 0; i < m->node_count; i++)
        if (m->nodes[i].live) LS_TRY(run_node(r, &m->nodes[i]));
    return finish(r);
}

static ls_status check_config(const char *path, const ls_model_config *c) {
    if (c->vocabulary)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: the model's own tables say how many tokens there are", path);
    if (c->pooling && strcmp(c->pooling, "none") != 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: its features are what its classifier reads, without pooling",
                       path);
    return LS_OK;
}

static ls_status build(onnx_model *m, const ls_model_config *config, ls_graph **out) {
    char name[ONNX_NAME];
    const char *slash = strrchr(m->path, '/');
    onnx_clean(slash ? slash + 1 : m->path, name, sizeof name);
    char *ending = strrchr(name, '.');
    if (ending && ending > name) *ending = 0;
    onnx_reader r = {.model = m, .config = config};
    LS_TRY(ls_graph_create_empty(name[0] ? name : "onnx", NULL, &r.graph));
    ls_status status = read_model(&r);
    if (status != LS_OK) ls_graph_destroy(&r.graph);
    *out = r.graph;
    return status;
}

ls_status ls_onnx_read(const char *path, const ls_model_config *config, ls_graph **out) {
    onnx_model m;
    LS_NEED(out, "out");
    *out = NULL;
    LS_NEED(path, "path");
    LS_NEED(config, "config");
    LS_TRY(check_config(path, config));
    ls_status status = onnx_parse(path, &m);
    if (status == LS_OK) status = build(&m, config, out);
    onnx_free(&m);
    return status;
}

ls_status ls__onnx_read_bytes(const char *path, const void *bytes, int64_t size, ls_graph **out) {
    onnx_model m;
    unsigned char *own;
    ls_model_config config = {.include_top = 1};
    *out = NULL;
    LS_TRY(ls_calloc(size, 1, &own));
    if (size) memcpy(own, bytes, (size_t)size);
    ls_status status = onnx_parse_bytes(path, own, size, &m);
    if (status == LS_OK) status = build(&m, &config, out);
    onnx_free(&m);
    return status;
}
