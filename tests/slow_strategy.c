#define _GNU_SOURCE
#include "slow_strategy.h"

#include <time.h>

#include "base/error.h"
#include "strategy/overlap.h"
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

static ls_status lose_last(ls_lane_step *step, int bucket) {
    static int gathered;
    const ls_strategy *s = step->strategy;
    LS_TRY(real->gather_end(step, bucket));
    if (++gathered % s->bucket_count || !ls__is_at(&s->overlap->home[s->bucket_count], step->number)) return LS_OK;
    return LS_FAIL(LS_STATUS_LIBRARY, "the message was lost");
}

void losing_strategy(ls_strategy *s) {
    real = s->ops;
    slow = *real;
    slow.gather_end = lose_last;
    s->ops = &slow;
}
