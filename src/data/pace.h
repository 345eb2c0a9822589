// How many of a loader's threads keep up with whoever takes its batches, from the times at which they are taken. Reads no clock and holds no lock: the
// loader does.
#ifndef LS_DATA_PACE_H
#define LS_DATA_PACE_H

#include <stdint.h>

typedef struct ls_pace {
    int threads;   // that are to work now; it begins with one
    int measured;  // 1: what was taken has settled how many
    // Its own:
    int most, depth;
    int settled;
    double latest;            // when a batch was taken; of an epoch's first one nobody knows since when
    double seconds, waited;   // in which `batches` were taken
    int64_t batches, passed;  // passed: so many more do not count, as they come from before
    double rate;              // with `before` threads; 0: none were fewer
    int before;
} ls_pace;

// Of a loader of up to `most` threads and a ring of `depth` batches. adapt 0: all of them work, and nothing is measured.
ls_pace ls_pace_create(int most, int depth, int adapt);
// An epoch begins.
void ls_pace_start(ls_pace *pace);
// A batch was taken `now`, after it was waited for; both in seconds. 1: other threads than before are to work.
int ls_pace_take(ls_pace *pace, double now, double waited);

#endif
