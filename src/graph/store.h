// Parameters, whoever computes with them: named tensors that belong to no graph and no plan. Several graphs may have theirs in one
// store; layers of one name then share their parameters.
#ifndef LS_GRAPH_STORE_H
#define LS_GRAPH_STORE_H

#include <lockstep/graph.h>

typedef enum ls_param_role {
    LS_PARAM_KERNEL,     // also an embedding's rows
    LS_PARAM_BIAS,       // also the shift of a normalization (beta)
    LS_PARAM_SCALE,      // of a normalization (gamma)
    LS_PARAM_STATISTIC,  // not trained: moves towards what training saw (moving_mean, moving_variance)
} ls_param_role;

// A parameter: what Keras calls a weight variable.
typedef struct ls_param {
    char *name;      // "conv2d/kernel"
    ls_shape shape;  // Keras's: HWIO, (in, out), (out)
    ls_param_role role;
    ls_initializer initializer;  // never DEFAULT
    int64_t fan_in, fan_out;     // as Keras counts them, for the initializers
    int decay;                   // 1: a kernel, to which weight decay can be confined
    float momentum;              // statistics: the share of itself it keeps at each step
    float rate;                  // of learning, times the step's; 0: 1
    float decay_scale;           // of weight decay, times the optimizer's; 0: 1; below 0: none
    int frozen;                  // 1: no graph trains it
    float *initial;              // values to start with, in place of the initializer's; NULL: none
} ls_param;

struct ls_store {
    ls_param *params;
    int count;
    int owners;    // graphs and callers that hold it
    void *placed;  // what trainers of several graphs share (train/trainer.c); NULL: none yet
};

// The index of a parameter by its name; -1: there is none.
int ls__store_find(const ls_store *store, const char *name);
// Adds a parameter, or finds the one of that name, whose shape and role must then be the same. Errors: INVALID_ARGUMENT,
// OUT_OF_MEMORY.
ls_status ls__store_add(ls_store *store, const ls_param *param, int *index);
// Whether a layer of that name has parameters here.
int ls__store_has_layer(const ls_store *store, const char *layer);
static inline ls_store *ls__store_hold(ls_store *store) {
    store->owners++;
    return store;
}

// The value a parameter starts with: `out` gets ls_shape_count(param->shape) floats in Keras's order, each a function of
// (seed, parameter index, element).
void ls_param_initialize(const ls_store *store, int param, uint64_t seed, float *out);

#endif
