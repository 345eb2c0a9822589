// A mean that is too large for the caches goes past them (base/stream.h): with it reduce-broadcast has the weights of allreduce, bit for bit.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/stream.h"
#include "strategy/strategy.h"
#include "worker_check.h"

enum { LENGTH = 4 << 20, STEPS = 2 };

static void copies_all(ls_comm *comm) {
    _Alignas(64) float to[132];
    float from[133];
    for (int i = 0; i < 133; i++) from[i] = (float)i / 3;
    for (int n = 0; n <= 128; n += 4) {
        for (int i = 0; i < 132; i++) to[i] = -1;
        ls_stream(to, from + 1, n);  // only where it goes to is aligned
        for (int i = 0; i < 132; i++) CHECK(comm, to[i] == (i < n ? from[i + 1] : -1));
    }
}

// Trains, each worker two micro-batches. Returns the weights, which the caller frees.
static float *train(ls_comm *comm, const char *name) {
    ls_device *device;
    ls_queue *queue;
    ls_strategy *strategy;
    ls_strategy_config config = {.comm = comm,
                                 .replicas = 1,
                                 .length = LENGTH,
                                 .micro_batches = 2 * comm->size,
                                 .params = {-1, -1, -1, -1, -1, -1, -1, -1}};
    CHECK_OK(comm, ls_device_create("ref", NULL, &device));
    CHECK_OK(comm, ls_queue_create(device, &queue));
    CHECK_OK(comm, ls_optimizer_find("sgd", &config.optimizer));
    CHECK_OK(comm, ls_optimizer_resolve(config.optimizer, &config.params));
    config.device = device;
    CHECK_OK(comm, ls_strategy_create(name, &config, &strategy));
    float *weights = ls_span_host(ls_strategy_weights(strategy)), *out = malloc(LENGTH * sizeof *out);
    CHECK(comm, out != NULL);
    if (comm->rank == 0 || !ls_strategy_ops_of(strategy)->weights_shared) memset(weights, 0, LENGTH * sizeof *weights);
    CHECK_OK(comm, ls_comm_barrier(comm));
    for (int step = 1; step <= STEPS; step++) {
        ls_step_info info = {.micro_batches = config.micro_batches, .samples = 7, .lr = 0.1, .step = step};
        ls_step_times times = {.since = ls_clock()};
        ls_vote unused;
        int64_t begin, end;
        ls_strategy_deal(strategy, info.micro_batches, comm->position, &begin, &end);
        for (int64_t m = begin; m < end; m++) {
            float *g = ls_span_host(ls_strategy_gradient_begin(strategy, 0, &info, m));
            for (int64_t i = 0; i < LENGTH; i++) g[i] = (float)((i * 29 + m * 17 + step) % 1009) / 13;
            CHECK_OK(comm, ls_strategy_gradient_end(strategy, 0, queue, &info));
        }
        CHECK_OK(comm, ls_strategy_step(strategy, 0, queue, &info, LS_VOTE_GO_ON, &unused, &times));
    }
    memcpy(out, weights, LENGTH * sizeof *out);
    ls_strategy_destroy(&strategy);
    ls_queue_destroy(&queue);
    ls_device_destroy(&device);
    return out;
}

int main(void) {
    ls_comm *comm;
    if (ls_comm_create(&comm) != LS_OK) return 1;
    copies_all(comm);
    float *past = train(comm, "reduce-broadcast"), *through = train(comm, "allreduce");
    CHECK(comm, past[0] != 0 && past[LENGTH - 1] != 0);
    CHECK(comm, memcmp(past, through, LENGTH * sizeof *past) == 0);
    free(past);
    free(through);
    ls_comm_destroy(&comm);
    return 0;
}
