#ifndef LS_BASE_CLOCK_H
#define LS_BASE_CLOCK_H

#include <time.h>

// Seconds on a clock that only goes forward; the zero is arbitrary but the same for all processes of a host.
static inline double ls_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
