#define _GNU_SOURCE
#include "slow_strategy.h"

#include <time.h>

#include "strategy/strategy_impl.h"
#include "worker_check.h"

static ls_strategy_ops slow;
static const ls_strategy_ops *real;

static ls_status gather_late(ls_lane_step *step, int bucket) {
    nanosleep(&(struct timespec){0, 300000}, NULL);
    return real->gather_end(step, bucket);
}

void slow_strategy(ls_strategy *s) {
    real = s->ops;
    CHECK(s->config.comm, real->gather_end != NULL);
    slow = *real;
    slow.gather_end = gather_late;
    s->ops = &slow;
}
