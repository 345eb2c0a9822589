// Weights from and to files, whoever keeps them: a trainer or a predictor. Among workers the first reads and writes; the others are sent
// what it read, so that all have the same whatever their file systems hold.
#ifndef LS_TRAIN_WEIGHTS_H
#define LS_TRAIN_WEIGHTS_H

#include <stdio.h>

#include "comm/comm.h"
#include "graph/graph.h"

// Where weights are kept, and how to get at them: parameters in Keras's shape and order.
typedef struct ls_weights {
    const ls_graph *graph;
    const ls_store *body;  // loading takes the parameters that this has too, and all of them; NULL: the graph's
    ls_comm *comm;         // NULL: this process alone
    int finite;            // loading refuses values that are no finite numbers
    void *user;
    ls_status (*get)(void *user, int param, float *values);
    ls_status (*set)(void *user, int param, const float *values);
    ls_status (*changed)(void *user);  // once all are set
} ls_weights;

// As ls_trainer_load_weights and ls_trainer_load_weights_by_name; taken may be NULL. Collective over comm.
ls_status ls__weights_load(const ls_weights *weights, const char *path, int by_name, int *taken);
ls_status ls__weights_save(const ls_weights *weights, const char *path);
// The same to a stream, by this worker alone; `path` is for sentences. Not collective.
ls_status ls__weights_write(const ls_weights *weights, FILE *out, const char *path);
// One parameter, as ls_trainer_get_weights and ls_trainer_set_weights; setting is collective over comm. Errors: NOT_FOUND, INVALID_ARGUMENT (it
// has not so many values).
ls_status ls__weights_get(const ls_weights *weights, const char *name, float *out, int64_t count);
ls_status ls__weights_set(const ls_weights *weights, const char *name, const float *values, int64_t count);

#endif
