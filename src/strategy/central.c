// Variables in one place: the first lane of the job sums and updates everything, the others compute and wait.
//
// The phases are those of allreduce with one owner. On one host nothing is sent; between hosts one worker of each sends its host's sums to
// worker 0 and gets the new weights. It is kept for comparison: one lane's arithmetic and one host's wires serve all.
#include "strategy/strategy_impl.h"

static void slice(const ls_strategy *s, int lane, int bucket, int64_t *begin, int64_t *end) {
    *end = s->bucket_ends[bucket];
    *begin = lane == 0 ? ls__bucket_begin(s, bucket) : *end;
}

const ls_strategy_ops ls__strategy_central = {
    LS_OWNERS_PHASES,
    .name = "central",
    .help = "one replica, the first of all, sums and updates everything for the others",
    .slice = slice,
};
