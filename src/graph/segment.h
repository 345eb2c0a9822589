// The parameter vector from outside: which elements belong to which parameter and how that may change. Plain data, so that
// who exchanges and updates need know no graph.
#ifndef LS_GRAPH_SEGMENT_H
#define LS_GRAPH_SEGMENT_H

#include "device/device.h"

// Every parameter begins at a multiple of LS_VECTOR_ALIGN floats (device/device.h), and the vector ends at one: nothing that is cut,
// summed or decided in such units concerns more than one parameter.

typedef struct ls_segment {
    int64_t begin, end;  // multiples of LS_VECTOR_ALIGN; the padding behind a parameter belongs to it
    int kernel;          // 1: a kernel; 0: a bias, or a scale or shift of normalization
    // 1: no trained weight but a statistic of what training saw. In place of a gradient a micro-batch gives its own statistic
    // times its samples, and each step the parameter keeps `momentum` of itself.
    int statistic;
    float momentum;
    float rate;         // of learning, times the step's; 0: 1
    float decay_scale;  // of weight decay, times the optimizer's; 0: 1; below 0: none
    int frozen;         // 1: not trained: its gradient is not written, and it stays as it is
} ls_segment;

#endif
