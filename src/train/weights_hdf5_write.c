// Weights as Keras writes them: HDF5 in memory, then in the file.
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/hdf5_library.h"
#include "train/weights_hdf5.h"

enum { ATTRIBUTE_BYTES = 64512 };  // at most; Keras cuts longer lists into several

typedef struct writer {
    const ls_weights *weights;
    const char *path;
    hid_t file;
    float *values;  // of the largest parameter
} writer;

static ls_status failed(const writer *w) {
    return LS_FAIL(LS_STATUS_LIBRARY, "the HDF5 library could not write the weights %s", w->path);
}

static int ends_in(const char *text, const char *ending) {
    size_t n = strlen(text), m = strlen(ending);
    return n > m && strcmp(text + n - m, ending) == 0;
}

int ls__hdf5_is_named(const char *path) { return ends_in(path, ".h5"); }

static ls_status write_values(writer *w, hid_t group, const char *name, int param) {
    const ls_param *p = &w->weights->graph->store->params[param];
    hsize_t dims[LS_MAX_DIMS];
    for (int i = 0; i < p->shape.ndim; i++) dims[i] = (hsize_t)p->shape.dim[i];
    LS_TRY(w->weights->get(w->weights->user, param, w->values));
    hid_t space = p->shape.ndim ? H5Screate_simple(p->shape.ndim, dims, NULL) : H5Screate(H5S_SCALAR);
    hid_t plan = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(plan, 1);
    hid_t set = H5Dcreate2(group, name, H5T_IEEE_F32LE, space, plan, H5P_DEFAULT, H5P_DEFAULT);
    int fine = set >= 0 && H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, w->values) >= 0;
    if (set >= 0) H5Dclose(set);
    H5Pclose(plan);
    H5Sclose(space);
    return fine ? LS_OK : failed(w);
}

static ls_status write_text(const writer *w, hid_t of, const char *name, const char *text) {
    hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    H5Tset_size(type, H5T_VARIABLE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    hid_t attribute = H5Acreate2(of, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    int fine = attribute >= 0 && H5Awrite(attribute, type, &text) >= 0;
    if (attribute >= 0) H5Aclose(attribute);
    H5Sclose(space);
    H5Tclose(type);
    return fine ? LS_OK : failed(w);
}

// --- as Keras 3 does -------------------------------------------------------------------------------------------------

// Weights of recurrent layers are those of the cell in them.
static int has_cell(const writer *w, const ls_node *n) {
    for (int k = 0; k < n->param_count; k++)
        if (ends_in(w->weights->graph->store->params[n->params[k]].name, "/recurrent_kernel")) return 1;
    return 0;
}

// A group of the values of `count` parameters, in order, with the name of what they belong to.
static ls_status write_vars(writer *w, const char *place, const char *name, const int *params, int count) {
    char path[160], number[16];
    snprintf(path, sizeof path, "%s/vars", place);
    hid_t plan = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(plan, 1);
    hid_t vars = H5Gcreate2(w->file, path, plan, H5P_DEFAULT, H5P_DEFAULT);
    H5Pclose(plan);
    if (vars < 0) return failed(w);
    ls_status status = write_text(w, vars, "name", name);
    for (int k = 0; k < count && status == LS_OK; k++) {
        snprintf(number, sizeof number, "%d", k);
        status = write_values(w, vars, number, params[k]);
    }
    H5Gclose(vars);
    return status;
}

static ls_status write_layer_3(writer *w, int node) {
    const ls_node *n = &w->weights->graph->nodes[node];
    char place[128], cell[140];
    LS_TRY(ls__hdf5_place(w->weights->graph, node, place));
    if (!has_cell(w, n)) return write_vars(w, place, n->name, n->params, n->param_count);
    LS_TRY(write_vars(w, place, n->name, NULL, 0));
    snprintf(cell, sizeof cell, "%s/cell", place);
    return write_vars(w, cell, "cell", n->params, n->param_count);
}

static ls_status write_keras_3(writer *w) {
    const ls_graph *g = w->weights->graph;
    for (int i = 0; i < g->node_count; i++)
        if (g->nodes[i].param_count > 0) LS_TRY(write_layer_3(w, i));
    return LS_OK;
}

// --- as Keras 2 did --------------------------------------------------------------------------------------------------

// A list of texts, cut into several attributes where it is longer than one may be.
static ls_status write_texts(const writer *w, hid_t of, const char *name, const char *texts, int count, size_t width) {
    int most = (int)(ATTRIBUTE_BYTES / width), parts = (count + most - 1) / most;
    char numbered[64];
    for (int at = 0, part = 0; at < count; at += most, part++) {
        hsize_t n = (hsize_t)(count - at < most ? count - at : most);
        hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate_simple(1, &n, NULL);
        H5Tset_size(type, width);
        H5Tset_strpad(type, H5T_STR_NULLPAD);
        snprintf(numbered, sizeof numbered, parts > 1 ? "%s%d" : "%s", name, part);
        hid_t attribute = H5Acreate2(of, numbered, type, space, H5P_DEFAULT, H5P_DEFAULT);
        int fine = attribute >= 0 && H5Awrite(attribute, type, texts + (size_t)at * width) >= 0;
        if (attribute >= 0) H5Aclose(attribute);
        H5Sclose(space);
        H5Tclose(type);
        if (!fine) return failed(w);
    }
    return LS_OK;
}

static ls_status write_layer_2(writer *w, const ls_node *n) {
    size_t width = 1;
    char *names = NULL;
    for (int k = 0; k < n->param_count; k++) {
        size_t length = strlen(w->weights->graph->store->params[n->params[k]].name) + 2;
        if (length > width) width = length;
    }
    hid_t group = H5Gcreate2(w->file, n->name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (group < 0) return failed(w);
    ls_status status = ls_calloc(n->param_count, (int64_t)width + 1, &names);
    for (int k = 0; k < n->param_count && status == LS_OK; k++) {
        char name[512];
        snprintf(name, sizeof name, "%s:0", w->weights->graph->store->params[n->params[k]].name);
        snprintf(names + (size_t)k * width, width + 1, "%s", name);  // its 0 is overwritten by the next
        status = write_values(w, group, name, n->params[k]);
    }
    if (status == LS_OK) status = write_texts(w, group, "weight_names", names, n->param_count, width);
    free(names);
    H5Gclose(group);
    return status;
}

static ls_status write_layers_2(writer *w, hid_t root) {
    const ls_graph *g = w->weights->graph;
    size_t width = 1;
    int count, *nodes;
    char *names = NULL;
    LS_TRY(ls__hdf5_order(g, &nodes, &count));
    for (int i = 0; i < count; i++)
        if (strlen(g->nodes[nodes[i]].name) > width) width = strlen(g->nodes[nodes[i]].name);
    ls_status status = ls_calloc(count, (int64_t)width, &names);
    for (int i = 0; i < count && status == LS_OK; i++) {
        const ls_node *n = &g->nodes[nodes[i]];
        memcpy(names + (size_t)i * width, n->name, strlen(n->name));
        status = write_layer_2(w, n);
    }
    if (status == LS_OK) status = write_texts(w, root, "layer_names", names, count, width);
    free(names);
    free(nodes);
    return status;
}

static ls_status write_keras_2(writer *w) {
    hid_t root = H5Gopen2(w->file, "/", H5P_DEFAULT);
    if (root < 0) return failed(w);
    ls_status status = write_layers_2(w, root);
    if (status == LS_OK) status = write_text(w, root, "backend", "tensorflow");
    if (status == LS_OK) status = write_text(w, root, "keras_version", "2.15.0");  // whose layout it is
    H5Gclose(root);
    return status;
}

// --- the file --------------------------------------------------------------------------------------------------------

static ls_status write_image(const writer *w, FILE *out) {
    if (H5Fflush(w->file, H5F_SCOPE_GLOBAL) < 0) return failed(w);
    ssize_t size = H5Fget_file_image(w->file, NULL, 0);
    if (size <= 0) return failed(w);
    void *image = malloc((size_t)size);
    if (!image) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the weights %s", w->path);
    ls_status status = H5Fget_file_image(w->file, image, (size_t)size) == size ? LS_OK : failed(w);
    if (status == LS_OK && fwrite(image, 1, (size_t)size, out) != (size_t)size)
        status = ls__weights_file_failed(w->path);
    free(image);
    return status;
}

ls_status ls__hdf5_write(const ls_weights *weights, FILE *out, const char *path) {
    writer w = {.weights = weights, .path = path};
    int64_t most = 1;
    for (int i = 0; i < weights->graph->store->count; i++) {
        int64_t n = ls_shape_count(weights->graph->store->params[i].shape);
        if (n > most) most = n;
    }
    LS_TRY(ls_memory_alloc(most * (int64_t)sizeof *w.values, &w.values));
    pthread_mutex_lock(&ls__hdf5_library);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_core(access, 1 << 20, 0);
    w.file = H5Fcreate("weights", H5F_ACC_TRUNC, H5P_DEFAULT, access);
    H5Pclose(access);
    ls_status status = w.file < 0 ? failed(&w) : ends_in(path, ".weights.h5") ? write_keras_3(&w) : write_keras_2(&w);
    if (status == LS_OK) status = write_image(&w, out);
    if (w.file >= 0) H5Fclose(w.file);
    pthread_mutex_unlock(&ls__hdf5_library);
    ls_memory_free(w.values);
    return status;
}
