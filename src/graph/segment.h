// The parameter vector from outside: which elements belong to which parameter and how that may change. Plain data, so that
// who exchanges and updates need know no graph.
#ifndef LS_GRAPH_SEGMENT_H
#define LS_GRAPH_SEGMENT_H

#include <stdint.h>

// Every parameter begins at a multiple of so many floats, and the vector ends at one: nothing that is cut, summed or decided
// in such units concerns more than one parameter.
#define LS_VECTOR_ALIGN 64

typedef struct ls_segment {
    int64_t begin, end;  // multiples of LS_VECTOR_ALIGN; the padding behind a parameter belongs to it
    int kernel;          // 1: a kernel; 0: a bias, or a scale or shift of normalization
    // 1: no trained weight but a statistic of what training saw. In place of a gradient a micro-batch gives its own statistic
    // times its samples, and each step the parameter keeps `momentum` of itself.
    int statistic;
    float momentum;
} ls_segment;

#endif
