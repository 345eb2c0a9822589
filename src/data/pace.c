#include "data/pace.h"

#include <math.h>

// So many batches and seconds at least are looked at, of which more than this part is waited for, and so much faster it has to be with more threads.
enum { LOOKED_AT = 8 };
#define LOOKED_SECONDS 0.25
#define MUCH_WAITED    0.05
#define FASTER         1.03

ls_pace ls_pace_create(int most, int depth, int adapt) {
    int threads = adapt ? 1 : most;
    return (ls_pace){.threads = threads, .most = most, .depth = depth, .settled = threads == most, .passed = depth};
}

void ls_pace_start(ls_pace *p) {
    if (p->passed == 0) p->passed = 1;
}

static void more_threads(ls_pace *p, double share, double rate) {
    double enough = share < 0.9 ? ceil(p->threads / (1 - share)) : p->most;
    p->before = p->threads;
    p->rate = rate;
    p->threads = enough < p->most ? (int)enough : p->most;
    if (p->threads == p->before) p->threads++;
    p->seconds = p->waited = 0;
    p->batches = 0;
    p->passed = p->depth;
}

// Whoever takes batches is as fast as it is: it waits too long, or it does not. Threads that make nothing faster, as all cores are busy, go back to waiting.
int ls_pace_take(ls_pace *p, double now, double waited) {
    if (p->settled) return 0;
    double since = now - p->latest;
    p->latest = now;
    if (p->passed > 0) {
        p->passed--;
        return 0;
    }
    p->seconds += since;
    p->waited += waited;
    p->batches++;
    if (p->batches < LOOKED_AT || p->seconds < LOOKED_SECONDS) return 0;
    int threads = p->threads;
    double share = p->waited / p->seconds, rate = (double)p->batches / p->seconds;
    if (p->rate > 0 && rate < FASTER * p->rate) {
        p->threads = p->before;
        p->settled = p->measured = 1;
    } else if (share <= MUCH_WAITED || p->threads == p->most) {
        p->settled = p->measured = 1;
    } else {
        more_threads(p, share, rate);
    }
    return p->threads != threads;
}
