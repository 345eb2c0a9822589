// A network's plan on one thread of a device, with memory of its own and a batch to run it on.
#ifndef LS_TESTS_PLAN_RIG_H
#define LS_TESTS_PLAN_RIG_H

#include "graph/plan_impl.h"

typedef struct rig {
    ls_graph *graph;
    ls_device *device;
    ls_params *params;
    ls_plan *plan;
    int64_t length;             // of a vector of parameters
    float *weights, *gradient;  // (length)
    void *copies, *arena;
    void *images;       // (batch, ...) in the plan's precision
    int32_t *labels;    // (batch)
    uint64_t *samples;  // (batch)
    ls_plan_input input;
} rig;

// All of it, with zeros for weights, images and labels, and samples numbered from 0. Takes the graph. Returns 0, having
// printed why and with nothing to be freed, where the device does not have the configuration's precision.
int rig_create(rig *r, ls_graph *graph, const char *device, const ls_plan_config *config);
void rig_free(rig *r);

// Pixel i of the batch, rounded to the plan's precision.
void rig_set_pixel(rig *r, int64_t i, float x);

// A parameter in Keras's order. rig_plain has zeros for one, rig_get those of a vector of parameters: the caller frees them.
// rig_set makes them the rig's weights and frees them; after the last, rig_refresh lets the plan know.
float *rig_plain(const rig *r, int param);
float *rig_get(const rig *r, int param, const float *vector);
void rig_set(rig *r, int param, float *plain);
void rig_refresh(rig *r);

// The norm of a - b over that of b, or over `least` where that is more.
double relative_distance(const float *a, const float *b, int64_t n, double least);

#endif
