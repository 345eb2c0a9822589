// Waiting, counted in looks of which each counts for little. While this process stood still, with its whole machine or by itself, it has seen nothing of
// others, and others nothing of it: no limit on waiting may be reached by that.
#ifndef LS_BASE_PATIENCE_H
#define LS_BASE_PATIENCE_H

#include <unistd.h>

#include "base/clock.h"

typedef struct ls_patience {
    double most;    // seconds that a look counts for at most
    double looked;  // ls_clock() at the last look
    double waited;  // seconds that count
} ls_patience;

static inline ls_patience ls_patience_begin(double most) { return (ls_patience){.most = most, .looked = ls_clock()}; }

// Takes a look: returns the seconds since the last one that do not count.
static inline double ls_patience_look(ls_patience *p) {
    double now = ls_clock(), since = now - p->looked, counts = since < p->most ? since : p->most;
    p->looked = now;
    p->waited += counts;
    return since - counts;
}

// Sleeps so long, and longer where the other threads of this process stood still with it.
static inline void ls_patience_sleep(double seconds) {
    for (ls_patience p = ls_patience_begin(0.1); p.waited < seconds; ls_patience_look(&p)) usleep(50000);
}

#endif
