// A classifier's plan on one thread of a device, with memory of its own (graph/runner.h) and a batch to run it on.
#ifndef LS_TESTS_PLAN_RIG_H
#define LS_TESTS_PLAN_RIG_H

#include "graph/plan_impl.h"
#include "graph/runner.h"

typedef struct rig {
    ls_graph *network;  // as it was given
    ls_graph *graph;    // what is run: with its loss and accuracy
    ls_store *store;    // of both
    ls_device *device;
    ls_runner *run;
    int64_t length;             // of a vector of parameters
    float *weights, *gradient;  // (length)
    float *images;              // (batch, ...)
    int32_t *labels;            // (batch)
    uint64_t *samples;          // (batch)
} rig;

// The sums of a batch.
typedef struct rig_sums {
    double loss, correct;
} rig_sums;

// All of it, with zeros for weights, images and labels, and samples numbered from 0. Takes the graph. Returns 0, having
// printed why and with nothing to be freed, where the device does not have the configuration's precision.
int rig_create(rig *r, ls_graph *graph, const char *device, const ls_plan_config *config);
void rig_free(rig *r);
// Another plan with the rig's weights, of the same graph or of one with the same store. The caller destroys it. Its arena, too, is
// full of NaN.
ls_runner *rig_runner(rig *r, const ls_graph *graph, const ls_plan_config *config);

// Feeds the rig's batch to a plan of the rig's graph (fewer samples than the rig's: the first ones) and runs it.
void rig_feed(const rig *r, ls_runner *run);
rig_sums rig_forward_of(const rig *r, ls_runner *run);
rig_sums rig_forward(rig *r);  // the rig's own
void rig_backward(rig *r);
// What the loss read in the latest forward, (batch, classes); until the next one, or backward.
const float *rig_logits(const ls_runner *run);
// Fills a plan's arena with NaN: nothing may be read before it is written.
void rig_poison(ls_runner *run);

// A parameter in Keras's order. rig_plain has zeros for one, rig_get those of a vector of parameters: the caller frees them.
// rig_set makes them the rig's weights and frees them; after the last, rig_refresh lets the plan know.
float *rig_plain(const rig *r, int param);
float *rig_get(const rig *r, int param, const float *vector);
void rig_set(rig *r, int param, float *plain);
void rig_refresh(rig *r);

// The norm of a - b over that of b, or over `least` where that is more.
double relative_distance(const float *a, const float *b, int64_t n, double least);

#endif
