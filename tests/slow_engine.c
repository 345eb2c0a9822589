#define _GNU_SOURCE
#include "slow_engine.h"

#include <time.h>

#include "base/error.h"
#include "step/engine_impl.h"
#include "worker_check.h"

static ls_status (*real)(void *, ls_queue *, ls_span, ls_span, const ls_homecoming *, int, int);

static ls_status refresh_late(void *user, ls_queue *queue, ls_span weights, ls_span copies, const ls_homecoming *home,
                              int part, int parts) {
    nanosleep(&(struct timespec){0, 300000}, NULL);
    return real(user, queue, weights, copies, home, part, parts);
}

void slow_engine(ls_engine *e) {
    CHECK(e->config.comm, e->config.refresh_some != NULL);
    if (e->config.refresh_some != refresh_late) real = e->config.refresh_some;
    e->config.refresh_some = refresh_late;
}

static ls_status lose_last(void *user, ls_queue *queue, ls_span weights, ls_span copies, const ls_homecoming *home,
                           int part, int parts) {
    LS_TRY(real(user, queue, weights, copies, home, part, parts));
    if (home->low != home->high) return LS_OK;
    nanosleep(&(struct timespec){0, 20000000}, NULL);  // votes have come
    return LS_FAIL(LS_STATUS_LIBRARY, "the message was lost");
}

void losing_engine(ls_engine *e) {
    real = e->config.refresh_some;
    e->config.refresh_some = lose_last;
}
