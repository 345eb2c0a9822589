// Timing exchange and update without training.
#include <lockstep/bench.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "strategy/strategy.h"
#include "train/context.h"

#define SPINS 20000  // while waiting, where every worker has cores of its own

struct ls_exchange_bench {
    ls_comm *comm;
    int64_t count, done;  // floats; steps
    ls_device *device;
    ls_queue *queue;
    ls_strategy *strategy;
};

// On the simplest device there is: exchange and update need no kernels.
static ls_status set_up(ls_exchange_bench *b, ls_strategy_config *config) {
    LS_TRY(ls_device_create("ref", NULL, &b->device));
    LS_TRY(ls_queue_create(b->device, &b->queue));
    config->device = b->device;
    LS_TRY(ls_optimizer_find("adam", &config->optimizer));
    return ls_optimizer_resolve(config->optimizer, &config->params);
}

ls_status ls_exchange_bench_create(ls_context *context, int64_t count, int own_cores, ls_exchange_bench **out) {
    LS_NEED(out, "out");
    *out = NULL;
    LS_NEED(context, "context");
    ls_exchange_bench *b = NULL;
    ls_comm *comm = context->comm;
    if (count < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "an exchange is of at least one parameter, not of %lld",
                       (long long)count);
    count = (count + LS_SLICE_ALIGN - 1) / LS_SLICE_ALIGN * LS_SLICE_ALIGN;
    ls_strategy_config config = {.comm = comm,
                                 .replicas = 1,
                                 .length = count,
                                 .micro_batches = comm->size,
                                 .params = {-1, -1, -1, -1, -1, -1, -1, -1},
                                 .spin = own_cores ? SPINS : 0};
    ls_status status = ls_calloc(1, sizeof *b, &b);
    if (status == LS_OK) status = set_up(b, &config);
    LS_TRY_GOTO(ls_comm_agree(comm, status), fail);
    b->comm = comm;
    b->count = count;
    LS_TRY_GOTO(ls_strategy_create("allreduce", &config, &b->strategy), fail);
    *out = b;
    return LS_OK;
fail:
    ls_exchange_bench_destroy(&b);
    return status;
}

void ls_exchange_bench_destroy(ls_exchange_bench **bench) {
    if (!bench) return;
    ls_exchange_bench *b = *bench;
    if (!b) return;
    ls_strategy_destroy(&b->strategy);
    ls_queue_destroy(&b->queue);
    ls_device_destroy(&b->device);
    free(b);
    *bench = NULL;
}

ls_status ls_exchange_bench_step(ls_exchange_bench *b, double *seconds) {
    LS_NEED(b, "bench");
    LS_NEED(seconds, "seconds");
    ls_step_info info = {.micro_batches = b->comm->size, .samples = b->comm->size, .lr = 1e-3, .step = ++b->done};
    ls_step_times times = {.since = ls_clock()};
    float *g = ls_span_host(ls_strategy_gradient_begin(b->strategy, 0, &info, b->comm->position));
    for (int64_t i = 0; i < b->count; i++) g[i] = (float)(i % 7);
    LS_TRY(ls_strategy_gradient_end(b->strategy, 0, b->queue, &info));
    LS_TRY(ls_comm_barrier(b->comm));
    double start = ls_clock();
    ls_vote unused;
    LS_TRY(ls_strategy_step(b->strategy, 0, b->queue, &info, LS_VOTE_GO_ON, &unused, &times));
    *seconds = ls_clock() - start;
    return LS_OK;
}
