#include "train/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/output.h"
#include "train/weights_file.h"
#include "train/weights_hdf5.h"

static ls_stored_tensor as_stored(const ls_param *param) {
    ls_stored_tensor t = {.name = param->name, .dtype = "F32", .ndim = param->shape.ndim};
    t.count = ls_shape_count(param->shape);
    for (int i = 0; i < t.ndim; i++) t.dim[i] = param->shape.dim[i];
    return t;
}

static int same_shape(const ls_stored_tensor *a, const ls_stored_tensor *b) {
    return a->ndim == b->ndim && memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof a->dim[0]) == 0;
}

static int64_t largest_parameter(const ls_graph *graph) {
    int64_t most = 0;
    for (int i = 0; i < graph->store->count; i++) {
        int64_t count = ls_shape_count(graph->store->params[i].shape);
        if (count > most) most = count;
    }
    return most;
}

// --- which of a file's tensors are the network's ---------------------------------------------------------------------

// The layer that has a parameter, and its number among the layer's.
static int layer_of(const ls_graph *graph, int param, int *number) {
    for (int i = 0; i < graph->node_count; i++)
        for (*number = 0; *number < graph->nodes[i].param_count; ++*number)
            if (graph->nodes[i].params[*number] == param) return i;
    return -1;
}

// The tensor of that number of the layer that the file calls so.
static const ls_stored_tensor *find_named(const ls_weights_file *file, const char *layer, int number) {
    char last[16];
    snprintf(last, sizeof last, "/%d", number);
    for (int i = 0; i < file->count; i++) {
        const ls_stored_tensor *t = &file->tensors[i];
        if (t->layer && strcmp(t->layer, layer) == 0 && strcmp(strrchr(t->name, '/'), last) == 0) return t;
    }
    return NULL;
}

static int has_layer_names(const ls_weights_file *file) {
    for (int i = 0; i < file->count; i++)
        if (file->tensors[i].layer) return 1;
    return 0;
}

// By its name. A file of Keras 3 has the weights of a layer in order, at the layer's place among those of its kind: only
// that says which layer it is, and its name where names are asked for.
static const ls_stored_tensor *find_stored(const ls_graph *graph, const ls_weights_file *file, int by_name, int param) {
    char name[512], place[128];
    int number, layer;
    const ls_stored_tensor *t = ls_weights_file_find(file, graph->store->params[param].name);
    if (t || (layer = layer_of(graph, param, &number)) < 0) return t;
    if (by_name && has_layer_names(file)) return find_named(file, graph->nodes[layer].name, number);
    if (ls__hdf5_place(graph, layer, place) != LS_OK) return NULL;
    snprintf(name, sizeof name, "%s/%d", place, number);
    return ls_weights_file_find(file, name);
}

// Two layers of one name: which is meant is not known.
static ls_status check_layer_names(const ls_weights_file *file) {
    for (int i = 0; i < file->count; i++) {
        const ls_stored_tensor *t = &file->tensors[i];
        char name[LS_WEIGHTS_NAME_TEXT], other[LS_WEIGHTS_NAME_TEXT];
        const ls_stored_tensor *same = t->layer ? find_named(file, t->layer, atoi(strrchr(t->name, '/') + 1)) : NULL;
        if (same && same != t)
            return LS_FAIL(LS_STATUS_BAD_DATA,
                           "%s cannot be taken by name: '%s' and '%s' are both of a layer that is called '%s'",
                           file->path, ls__stored_name(same, name), ls__stored_name(t, other), t->layer);
    }
    return LS_OK;
}

// The first tensor the network has no parameter for, and how many there are of them.
static const ls_stored_tensor *first_foreign(const ls_graph *graph, const ls_weights_file *file, int *count) {
    const ls_stored_tensor *first = NULL;
    char *known = calloc((size_t)file->count + 1, 1);
    *count = 0;
    if (!known) return NULL;
    for (int k = 0; k < graph->store->count; k++) {
        const ls_stored_tensor *t = find_stored(graph, file, 0, k);
        if (t) known[t - file->tensors] = 1;
    }
    for (int i = 0; i < file->count; i++) {
        if (known[i]) continue;
        if (!first) first = &file->tensors[i];
        ++*count;
    }
    free(known);
    return first;
}

// "FILE has not the weights of resnet50, but of resnet20", as far as it says so: what a refusal begins with.
enum { REFUSAL = 600 };
static const char *refusal(const ls_graph *graph, const ls_weights_file *file, char text[REFUSAL]) {
    char name[LS_WEIGHTS_NAME_TEXT];
    const char *model = ls__stored_model(file, name);
    int other = model && strcmp(model, graph->name) != 0;
    snprintf(text, REFUSAL, "%.400s has not the weights of %.60s%s%s", file->path, graph->name,
             other ? ", but of " : "", other ? model : "");
    return text;
}

static ls_status missing(const ls_graph *graph, const ls_weights_file *file, const ls_stored_tensor *want) {
    char shape[LS_WEIGHTS_SHAPE_TEXT], name[LS_WEIGHTS_NAME_TEXT], others[400] = "", begin[REFUSAL];
    int count;
    const ls_stored_tensor *foreign = first_foreign(graph, file, &count);
    if (foreign) {
        char foreign_shape[LS_WEIGHTS_SHAPE_TEXT];
        snprintf(others, sizeof others, "; it has %d that %s lacks, first '%s' %s", count, graph->name,
                 ls__stored_name(foreign, name), ls__stored_shape(foreign, foreign_shape));
    }
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s: parameter '%s' %s is not in it%s%s", refusal(graph, file, begin),
                   want->name, ls__stored_shape(want, shape), others,
                   has_layer_names(file) ? "; by name those of layers with these names can be taken" : "");
}

static int is_wanted(const ls_weights *w, int param) {
    return !w->body || ls__store_find(w->body, w->graph->store->params[param].name) >= 0;
}

// A head that is drawn anew and then not trained is worth nothing: a pattern like conv* freezes some networks' classifiers, too.
static ls_status check_head_learns(const ls_weights *w) {
    const ls_param *frozen = NULL;
    if (!w->body) return LS_OK;
    for (int i = w->graph->param_count - 1; i >= 0; i--) {
        if (is_wanted(w, i) || w->graph->uses[i] != LS_USE_TRAINED) continue;
        if (ls__graph_trains(w->graph, i)) return LS_OK;
        frozen = &w->graph->store->params[i];
    }
    if (!frozen) return LS_OK;
    return LS_FAIL(
        LS_STATUS_INVALID_ARGUMENT,
        "'%s' is frozen, and so is all of the head that is drawn anew: nothing of it would be trained; freeze the "
        "body's layers alone ('lockstep summary %s' tells their names)",
        frozen->name, w->graph->name);
}

// All of the file's tensors for all of the network's parameters.
static ls_status check_all(const ls_weights *w, const ls_weights_file *file) {
    const ls_graph *graph = w->graph;
    char shape[LS_WEIGHTS_SHAPE_TEXT], other[LS_WEIGHTS_SHAPE_TEXT], name[LS_WEIGHTS_NAME_TEXT], begin[REFUSAL];
    int count;
    for (int i = 0; i < graph->store->count; i++) {
        ls_stored_tensor want = as_stored(&graph->store->params[i]);
        if (!is_wanted(w, i)) continue;
        const ls_stored_tensor *have = find_stored(graph, file, 0, i);
        if (!have) return missing(graph, file, &want);
        if (!same_shape(have, &want))
            return LS_FAIL(
                LS_STATUS_BAD_DATA,
                "%s: parameter '%s' is %s there, and %s in the network; by name the others can be taken without it",
                refusal(graph, file, begin), want.name, ls__stored_shape(have, other), ls__stored_shape(&want, shape));
    }
    if (w->body) return LS_OK;  // what else there is was the other network's top
    const ls_stored_tensor *foreign = first_foreign(graph, file, &count);
    if (!foreign) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA,
                   "%s: it has %d parameter%s too many, first '%s' %s; by name the others can be taken without",
                   refusal(graph, file, begin), count, count == 1 ? "" : "s", ls__stored_name(foreign, name),
                   ls__stored_shape(foreign, shape));
}

// Whether a tensor is of a file of Keras 2, in which layers have an order and names.
static int is_ordered(const ls_stored_tensor *t) {
    size_t n = t->layer ? strlen(t->layer) : 0;
    return n > 0 && strncmp(t->name, t->layer, n) == 0 && t->name[n] == '/';
}

// Whether the file's layers, in their order, have the shapes of the network's. first[i]: the first tensor of layer i.
static int order_fits(const ls_weights *w, const ls_weights_file *file, const int *nodes, int *count, int *first) {
    const ls_graph *graph = w->graph;
    int at = 0;
    for (int i = 0; i < *count; i++) {
        const ls_node *n = &graph->nodes[nodes[i]];
        first[i] = at;
        if (!is_wanted(w, n->params[0])) *count = i;  // a head that is drawn anew
        for (int k = 0; k < n->param_count && i < *count; k++, at++) {
            ls_stored_tensor want = as_stored(&graph->store->params[n->params[k]]);
            if (at == file->count || !is_ordered(&file->tensors[at]) || !same_shape(&file->tensors[at], &want))
                return 0;
        }
    }
    return w->body || at == file->count;
}

// Keras goes by the layers' order, and numbers names as layers are made, in a whole session. Where both ways fit and do not
// lead to the same layers, nobody knows which was meant.
static ls_status check_order(const ls_weights *w, const ls_weights_file *file) {
    int count, *nodes, *first = NULL;
    char name[LS_WEIGHTS_NAME_TEXT];
    LS_TRY(ls__hdf5_order(w->graph, &nodes, &count));
    ls_status status = ls_calloc(count, sizeof *first, &first);
    int fits = status == LS_OK && order_fits(w, file, nodes, &count, first);
    for (int i = 0; i < count && fits && status == LS_OK; i++) {
        const char *mine = w->graph->nodes[nodes[i]].name;
        if (strcmp(file->tensors[first[i]].layer, mine) != 0)
            status = LS_FAIL(LS_STATUS_BAD_DATA,
                             "%s: by its layers' order, as Keras reads it, '%s' is the network's layer %s, by their "
                             "names another one; load it by name if the names are right, or save it as .weights.h5",
                             file->path, ls__stored_name(&file->tensors[first[i]], name), mine);
    }
    free(first);
    free(nodes);
    return status;
}

// Sets `take` for the parameters that are in the file: all, or by name those that fit.
static ls_status choose(const ls_weights *w, const ls_weights_file *file, int by_name, uint8_t *take) {
    const ls_graph *graph = w->graph;
    int taken = 0;
    LS_TRY(by_name ? check_layer_names(file) : check_all(w, file));
    if (!by_name) LS_TRY(check_order(w, file));
    for (int i = 0; i < graph->store->count; i++) {
        ls_stored_tensor want = as_stored(&graph->store->params[i]);
        const ls_stored_tensor *have = find_stored(graph, file, by_name, i);
        take[i] = have && same_shape(have, &want) && is_wanted(w, i);
        taken += take[i];
    }
    if (taken) return LS_OK;
    char begin[REFUSAL];
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s: none of its %d tensors has name and shape of a parameter",
                   refusal(graph, file, begin), file->count);
}

// --- loading ---------------------------------------------------------------------------------------------------------

static ls_status agree(const ls_weights *w, ls_status mine) { return w->comm ? ls_comm_agree(w->comm, mine) : mine; }

static int reads(const ls_weights *w) { return !w->comm || w->comm->rank == 0; }

static ls_status broadcast(const ls_weights *w, void *data, int64_t count, ls_dtype dtype) {
    return w->comm ? ls_comm_broadcast(w->comm, data, count, dtype, 0) : LS_OK;
}

// All that will be taken is looked at first, so that a file which is refused has changed nothing.
static ls_status check_values(const ls_weights *w, const ls_weights_file *file, int by_name, const uint8_t *take) {
    float *values = NULL;
    ls_status status = ls_memory_alloc(largest_parameter(w->graph) * (int64_t)sizeof *values, &values);
    for (int i = 0; i < w->graph->store->count && status == LS_OK; i++) {
        const ls_param *p = &w->graph->store->params[i];
        int64_t count = ls_shape_count(p->shape);
        if (!take[i]) continue;
        status = ls_weights_file_read(file, find_stored(w->graph, file, by_name, i), values);
        for (int64_t k = 0; k < count && status == LS_OK; k++)
            if (!isfinite(values[k]))
                status = LS_FAIL(LS_STATUS_BAD_DATA,
                                 "%s: parameter '%s' has a value that is no finite number, the %" PRId64 ". of %" PRId64
                                 ": the file is damaged, or of a training that had diverged",
                                 file->path, p->name, k + 1, count);
    }
    ls_memory_free(values);
    return status;
}

// What fails on one worker is kept until all next agree: they make the same calls whatever happens. Collective.
static ls_status load(const ls_weights *w, const ls_weights_file *file, int by_name, const uint8_t *take) {
    float *values = NULL;
    ls_status status = LS_OK;
    ls_status mine = ls_memory_alloc(largest_parameter(w->graph) * (int64_t)sizeof *values, &values);
    for (int i = 0; i < w->graph->store->count && status == LS_OK; i++) {
        const ls_param *p = &w->graph->store->params[i];
        if (!take[i]) continue;
        if (mine == LS_OK && file && reads(w))
            mine = ls_weights_file_read(file, find_stored(w->graph, file, by_name, i), values);
        status = agree(w, mine);
        if (status == LS_OK) status = broadcast(w, values, ls_shape_count(p->shape), LS_DTYPE_F32);
        if (status == LS_OK) mine = w->set(w->user, i, values);
    }
    ls_memory_free(values);
    LS_TRY(status);
    LS_TRY(agree(w, mine));
    return w->changed(w->user);
}

ls_status ls__weights_load(const ls_weights *w, const char *path, int by_name, int *taken) {
    ls_weights_file *file = NULL;
    uint8_t *take = NULL;
    int count = w->graph->store->count;
    ls_status status = ls_calloc(count, sizeof *take, &take);
    if (status == LS_OK) status = check_head_learns(w);
    if (status == LS_OK && reads(w)) status = ls_weights_file_open(path, &file);
    if (status == LS_OK && reads(w)) status = choose(w, file, by_name, take);
    if (status == LS_OK && reads(w) && w->finite) status = check_values(w, file, by_name, take);
    status = agree(w, status);
    if (status == LS_OK) status = broadcast(w, take, count, LS_DTYPE_U8);
    if (status == LS_OK) status = load(w, file, by_name, take);
    int all = 0;
    for (int i = 0; i < count && status == LS_OK; i++) all += take[i];
    if (taken) *taken = all;
    ls_weights_file_close(&file);
    free(take);
    return status;
}

// --- saving ----------------------------------------------------------------------------------------------------------

static ls_status write_values(const ls_weights *w, FILE *out, const char *path, float *values) {
    for (int i = 0; i < w->graph->store->count; i++) {
        size_t count = (size_t)ls_shape_count(w->graph->store->params[i].shape);
        LS_TRY(w->get(w->user, i, values));
        if (fwrite(values, sizeof *values, count, out) != count) return ls__weights_file_failed(path);
    }
    return LS_OK;
}

ls_status ls__weights_write(const ls_weights *w, FILE *out, const char *path) {
    int count = w->graph->store->count;
    ls_stored_tensor *tensors;
    float *values;
    LS_TRY(ls_calloc(count, sizeof *tensors, &tensors));
    for (int i = 0; i < count; i++) tensors[i] = as_stored(&w->graph->store->params[i]);
    ls_status status = ls_weights_header_write(out, path, w->graph->name, tensors, count);
    free(tensors);
    LS_TRY(status);
    LS_TRY(ls_memory_alloc(largest_parameter(w->graph) * (int64_t)sizeof *values, &values));
    status = write_values(w, out, path, values);
    ls_memory_free(values);
    return status;
}

static ls_status save_alone(const ls_weights *w, const char *path) {
    ls_output out;
    if (ls_output_open(path, &out) != 0) return ls__weights_file_failed(path);
    ls_status status =
        ls__hdf5_is_named(path) ? ls__hdf5_write(w, out.file, path) : ls__weights_write(w, out.file, path);
    int failed = ls_output_close(&out, path, status == LS_OK) != 0;
    return status == LS_OK && failed ? ls__weights_file_failed(path) : status;
}

ls_status ls__weights_save(const ls_weights *w, const char *path) {
    return agree(w, reads(w) ? save_alone(w, path) : LS_OK);
}

// --- one of them -----------------------------------------------------------------------------------------------------

static ls_status find(const ls_graph *graph, const char *name, int64_t count, int *index) {
    for (*index = 0; *index < graph->store->count; ++*index) {
        const ls_param *p = &graph->store->params[*index];
        if (strcmp(p->name, name) != 0) continue;
        if (ls_shape_count(p->shape) == count) return LS_OK;
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "parameter %s has %lld values, not %lld", name,
                       (long long)ls_shape_count(p->shape), (long long)count);
    }
    return LS_FAIL(LS_STATUS_NOT_FOUND, "model %s has no parameter %s", graph->name, name);
}

ls_status ls__weights_get(const ls_weights *weights, const char *name, float *out, int64_t count) {
    int index;
    LS_TRY(find(weights->graph, name, count, &index));
    return weights->get(weights->user, index, out);
}

ls_status ls__weights_set(const ls_weights *weights, const char *name, const float *values, int64_t count) {
    int index;
    ls_status status = find(weights->graph, name, count, &index);
    if (status == LS_OK) status = weights->set(weights->user, index, values);
    LS_TRY(weights->comm ? ls_comm_agree(weights->comm, status) : status);
    return weights->changed(weights->user);
}
