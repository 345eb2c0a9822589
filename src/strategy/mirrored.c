// allreduce among the replicas of one process: no messages, no other processes.
//
// The same code as allreduce: what is its own is that it refuses several workers, so that a recipe can say that it is for one process. In
// TensorFlow each replica has a copy of the variables; here the replicas of a process read one vector, whichever strategy it is.
#include "base/error.h"
#include "strategy/strategy_impl.h"

static ls_status assign(ls_roles *roles) {
    if (roles->workers > 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the strategy mirrored is for the replicas of one process, and this job has %d workers: choose "
                       "allreduce, which does the same between them, or start one worker with more replicas",
                       roles->workers);
    if (roles->servers > 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "servers were asked for, and the strategy mirrored has none: leave them out");
    return LS_OK;
}

const ls_strategy_ops ls__strategy_mirrored = {
    LS_OWNERS_PHASES, .name = "mirrored",      .help = "allreduce for the replicas of one worker; refuses more workers",
    .assign = assign, .slice = ls__owners_all, .topk = &ls__strategy_allreduce_topk,
};
