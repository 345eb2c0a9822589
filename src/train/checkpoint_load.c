// Bringing a trainer to where a checkpoint is. Worker 0 reads, and sends the others what it read.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "optim/lookahead.h"
#include "train/checkpoint.h"
#include "train/weights.h"

// A vector as the host has it, in the order of the parameter vector, on its way to those who keep parts of it.
typedef struct incoming {
    ls_trainer *trainer;
    const char *name;
    ls_buffer *buffer;  // (length) on the device
    float *values;      // (length): the buffer's memory, or a copy on the host
} incoming;

static ls_status set(void *user, int param, const float *values) {
    incoming *in = user;
    return ls_params_set(in->trainer->params, in->trainer->queue, param, ls_span_of(in->buffer, 0), values);
}

static ls_status give(void *user, const ls_state_piece *piece) {
    const incoming *in = user;
    if (strcmp(piece->vector, in->name) == 0)
        memcpy(piece->data, in->values + piece->offset, (size_t)piece->count * sizeof *piece->data);
    return LS_OK;
}

// All parameters of the vector are set: every piece of it that this worker keeps gets its values.
static ls_status changed(void *user) {
    incoming *in = user;
    ls_trainer *t = in->trainer;
    int64_t bytes = ls_params_length(t->params) * (int64_t)sizeof *in->values;
    float *copy = NULL;
    ls_status status = LS_OK;
    if (t->device->ops->host_memory) {
        in->values = ls_span_host(ls_span_of(in->buffer, 0));
    } else {
        status = ls_memory_alloc(bytes, &copy);
        if (status == LS_OK) status = ls_read(t->queue, copy, ls_span_of(in->buffer, 0), bytes);
        if (status == LS_OK) status = ls_synchronize(t->queue);
        in->values = copy;
    }
    if (status == LS_OK) status = ls__trainer_visit(t, give, in);
    ls_memory_free(copy);
    return ls_comm_agree(t->comm, status);
}

// The vector `name` of the training gets what the checkpoint has of the vector `from`.
static ls_status load_vector(ls_trainer *t, const char *folder, const char *from, const char *name) {
    incoming in = {.trainer = t, .name = name};
    char file[LS_CHECKPOINT_NAME], *path = NULL;
    ls__checkpoint_file(from, file);
    ls_status status = ls_buffer_create(t->device, ls_params_length(t->params) * 4, &in.buffer);
    if (status == LS_OK && asprintf(&path, "%s/%s", folder, file) < 0)
        status = LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    status = ls_comm_agree(t->comm, status);
    ls_weights w = {.graph = t->graph, .comm = t->comm, .user = &in, .set = set, .changed = changed};
    if (status == LS_OK) status = ls__weights_load(&w, path, 0, NULL);
    ls_buffer_destroy(&in.buffer);
    free(path);
    return status;
}

// Worker 0's text to all; the caller frees it. Collective.
static ls_status share_text(ls_comm *comm, const char *mine, char **out) {
    int64_t bytes = mine ? (int64_t)strlen(mine) + 1 : 0;
    *out = NULL;
    LS_TRY(ls_comm_broadcast(comm, &bytes, (int64_t)sizeof bytes, LS_DTYPE_U8, 0));
    LS_TRY(ls_comm_agree(comm, ls_calloc(bytes, 1, out)));
    if (mine && comm->rank == 0) memcpy(*out, mine, (size_t)bytes);
    ls_status status = ls_comm_broadcast(comm, *out, bytes, LS_DTYPE_U8, 0);
    if (status == LS_OK) return LS_OK;
    free(*out);
    *out = NULL;
    return status;
}

static ls_status check_call(const ls_trainer *t, const ls_checkpoint *c) {
    if (t->comm->rank == 0) LS_NEED(c, "checkpoint");
    if (t->at.running || t->at.all_steps > 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a checkpoint is taken up before the first epoch is begun");
    return LS_OK;
}

static ls_status apply(ls_trainer *t, const char *path, const char *text) {
    json_t *state = json_loads(text, 0, NULL);
    ls_status status = state ? ls__state_apply(t, path, state)
                             : LS_FAIL(LS_STATUS_BAD_DATA, "%s/" LS_CHECKPOINT_STATE " is no JSON", path);
    json_decref(state);
    return status;
}

// A training that begins with topk where another one ended has left nothing over so far.
static int has_residuals(const char *text) {
    json_t *state = json_loads(text, 0, NULL);
    int has = json_integer_value(json_object_get(json_object_get(state, "training"), "residuals")) > 0;
    json_decref(state);
    return has;
}

// What it is in the checkpoint that a vector goes on from: where a training with lookahead begins at a checkpoint without, slow weights are the weights, as
// at any beginning. Worker 0 looks, for all.
static ls_status find_source(ls_comm *comm, const char *folder, const char *name, const char **from) {
    char file[LS_CHECKPOINT_NAME], *path = NULL;
    uint8_t missing = 0;
    ls_status status = LS_OK;
    if (comm->rank == 0 && strcmp(name, LS_SLOW_WEIGHTS) == 0) {
        ls__checkpoint_file(name, file);
        if (asprintf(&path, "%s/%s", folder, file) < 0) status = LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
        if (status == LS_OK) missing = access(path, F_OK) != 0;
        free(path);
    }
    LS_TRY(ls_comm_agree(comm, status));
    LS_TRY(ls_comm_broadcast(comm, &missing, 1, LS_DTYPE_U8, 0));
    *from = missing ? "weights" : name;
    return LS_OK;
}

static ls_status resume(ls_trainer *t, const char *path, const char *state) {
    int vectors = ls__checkpoint_vectors(t);
    LS_TRY(ls_comm_agree(t->comm, apply(t, path, state)));
    if (!has_residuals(state)) vectors -= (int)ls__checkpoint_residuals(t);
    for (int v = 0; v < vectors; v++) {
        char name[LS_CHECKPOINT_NAME];
        const char *from;
        ls__checkpoint_vector(t, v, name);
        LS_TRY(find_source(t->comm, path, name, &from));
        LS_TRY(load_vector(t, path, from, name));
    }
    return ls_engine_weights_changed(t->engine, t->queue);
}

ls_status ls_trainer_resume(ls_trainer *t, const ls_checkpoint *c) {
    LS_NEED(t, "trainer");
    ls_comm_enter(t->comm, __func__);
    LS_TRY(ls_comm_agree(t->comm, check_call(t, c)));
    int reads = t->comm->rank == 0;
    char *text = NULL, *path = NULL;
    ls_status status = share_text(t->comm, reads ? c->text : NULL, &text);
    if (status == LS_OK) status = share_text(t->comm, reads ? c->path : NULL, &path);
    if (status == LS_OK) status = resume(t, path, text);
    free(text);
    free(path);
    return status;
}
