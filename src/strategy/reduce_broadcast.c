// Reduce to worker 0, average, broadcast; then every worker updates a full copy of the weights of its own.
//
// The scheme of many first programs with MPI, kept for comparison: worker 0 does all the adding and its wires carry everything,
// and the optimizer's state is stored once per worker. It adds in the same tree and updates with the same formulas, so
// its bits are those of `allreduce`. One lead worker of each host talks to worker 0, for all of that host.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "strategy/strategy_impl.h"

enum { TAG_GRADIENTS = 1, TAG_MEAN = 2 };

typedef struct reduce_broadcast {
    ls_strategy_base base;
    float *mean;           // (length), shared by the host
    float *direction;      // (length): of this worker's layer-wise optimizer, where that measures something of its own
    float *partials;       // (host_pieces, length), on leads but worker 0: what their host has
    float **received;      // (hosts), on worker 0: the same of each other host
    ls_request *requests;  // (hosts)
} reduce_broadcast;

static void destroy(ls_strategy *strategy) {
    reduce_broadcast *b = (reduce_broadcast *)strategy;
    free(b->received);
    free(b->requests);
    ls__base_destroy(&b->base);
    free(b);
}

static ls_status build(reduce_broadcast *b, const ls_strategy_config *config) {
    ls_strategy_base *base = &b->base;
    ls_comm *comm = config->comm;
    LS_TRY(ls__base_plan(base, &ls__strategy_reduce_broadcast, config));
    LS_TRY(ls__want(base, LS_STRATEGY_SUMS, LS_HOST, config->length * 4, &b->mean));
    LS_TRY(ls__want(base, LS_STRATEGY_WEIGHTS, LS_WORKER, config->length * 4, &base->head.weights));
    LS_TRY(ls__want(base, LS_STRATEGY_COPIES, LS_WORKER, config->copies_bytes, &base->head.copies));
    if (config->optimizer->direction)
        LS_TRY(ls__want(base, LS_STRATEGY_SUMS, LS_WORKER, config->length * 4, &b->direction));
    for (int r = 0; r < config->replicas; r++) {
        int64_t begin, end;
        ls__share(0, config->length, r, config->replicas, &begin, &end);
        LS_TRY(ls__want_state(base, r, end - begin));
    }
    if (comm->local_rank == 0) base->reads = config->length;
    if (comm->hosts == 1 || comm->local_rank != 0) return LS_OK;
    int64_t bytes = base->host_pieces * config->length * 4;
    LS_TRY(ls_calloc(comm->hosts, sizeof *b->requests, &b->requests));
    if (comm->position != 0) return ls__want(base, LS_STRATEGY_SUMS, LS_WORKER, bytes, &b->partials);
    LS_TRY(ls_calloc(comm->hosts, sizeof *b->received, &b->received));
    for (int h = 1; h < comm->hosts; h++) LS_TRY(ls__want(base, LS_STRATEGY_SUMS, LS_WORKER, bytes, &b->received[h]));
    return LS_OK;
}

static ls_status plan(const ls_strategy_config *config, ls_strategy **out) {
    reduce_broadcast *b;
    LS_TRY(ls_calloc(1, sizeof *b, &b));
    ls_status status = build(b, config);
    if (status != LS_OK) {
        destroy(&b->base.head);
        LS_TRY(status);
    }
    *out = &b->base.head;
    return LS_OK;
}

// A lead other than worker 0: this host's sums go to worker 0, the mean comes back.
static ls_status send_partials(reduce_broadcast *b, int replica, int64_t micro_batches, ls_step_times *times) {
    ls_strategy_base *base = &b->base;
    ls_comm *comm = base->head.config.comm;
    int64_t length = base->head.config.length, count = ls__host_piece_count(base, micro_batches, comm->host) * length;
    int root = comm->order[0], pending = 0;
    ls__host_partials(base, replica, micro_batches, 0, length, b->partials);
    ls__lap(times, LS_STEP_SUM);
    ls_barrier_wait(base->worker_barrier);
    ls__lap(times, LS_STEP_WAIT);
    if (replica != 0) return LS_OK;
    LS_TRY(ls_comm_irecv(comm, b->mean, length, LS_DTYPE_F32, root, TAG_MEAN, &b->requests[pending++]));
    if (count > 0)
        LS_TRY(ls_comm_isend(comm, b->partials, count, LS_DTYPE_F32, root, TAG_GRADIENTS, &b->requests[pending++]));
    return ls_comm_wait_all(comm, b->requests, pending);
}

// Worker 0's side of the messages, on its main thread.
static ls_status receive_partials(reduce_broadcast *b, int64_t micro_batches) {
    ls_strategy_base *base = &b->base;
    ls_comm *comm = base->head.config.comm;
    int pending = 0;
    for (int h = 1; h < comm->hosts; h++) {
        int64_t count = ls__host_piece_count(base, micro_batches, h) * base->head.config.length;
        if (count > 0)
            LS_TRY(ls_comm_irecv(comm, b->received[h], count, LS_DTYPE_F32, comm->order[base->host_first[h]],
                                 TAG_GRADIENTS, &b->requests[pending++]));
    }
    return ls_comm_wait_all(comm, b->requests, pending);
}

static ls_status send_mean(reduce_broadcast *b) {
    ls_strategy_base *base = &b->base;
    ls_comm *comm = base->head.config.comm;
    int pending = 0;
    for (int h = 1; h < comm->hosts; h++)
        LS_TRY(ls_comm_isend(comm, b->mean, base->head.config.length, LS_DTYPE_F32, comm->order[base->host_first[h]],
                             TAG_MEAN, &b->requests[pending++]));
    return ls_comm_wait_all(comm, b->requests, pending);
}

// Worker 0: gets the other hosts' sums, adds everything up, sends the mean.
static ls_status sum_at_root(reduce_broadcast *b, int replica, const ls_step_info *info, ls_step_times *times) {
    ls_strategy_base *base = &b->base;
    ls_lane *lane = base->lane[replica];
    int64_t length = base->head.config.length;
    int hosts = base->head.config.comm->hosts;
    if (hosts > 1) {
        if (replica == 0) LS_TRY(receive_partials(b, info->micro_batches));
        ls_barrier_wait(base->worker_barrier);
        ls__lap(times, LS_STEP_SEND);
    }

    int count = ls__host_sources(base, info->micro_batches, lane->sources);
    for (int h = 1; h < hosts; h++)
        count += ls__received_sources(base, info->micro_batches, h, b->received[h], 0, length, lane->sources + count);
    int64_t begin, end;
    ls__share(0, length, replica, base->head.config.replicas, &begin, &end);
    for (int64_t at = begin; at < end; at += LS_BLOCK)
        ls__mean_block(lane, info, count, at, end - at < LS_BLOCK ? end - at : LS_BLOCK, b->mean + at);
    ls__lap(times, LS_STEP_SUM);

    if (hosts > 1) {
        ls_barrier_wait(base->worker_barrier);
        ls__lap(times, LS_STEP_WAIT);
        if (replica == 0) LS_TRY(send_mean(b));
    }
    return LS_OK;
}

// All lanes of the host clip its mean, each a share of it, after worker 0 has sent it everywhere.
static void clip_mean(reduce_broadcast *b, int replica, ls_step_times *times) {
    ls_strategy_base *base = &b->base;
    int64_t begin, end;
    ls__share(0, base->head.config.length, base->host_lane + replica, base->host_lanes, &begin, &end);
    ls__note_squares(base, begin, end - begin, b->mean + begin);
    ls__lap(times, LS_STEP_SUM);
    ls_barrier_wait(base->host_barrier);
    ls__lap(times, LS_STEP_WAIT);
    float factor = ls__clip_factor(base);
    if (factor != 1) ls__clip(base, begin, end - begin, b->mean + begin, factor, b->mean + begin);
    ls__lap(times, LS_STEP_SUM);
    ls_barrier_wait(base->host_barrier);
    ls__lap(times, LS_STEP_WAIT);
}

// With a layer-wise optimizer: what it is going to apply to this replica's part of the vector, which `update` describes, and
// the norms. Every worker finds all directions for itself, its state being its own; norms are summed by all lanes of the host.
static void find_directions(reduce_broadcast *b, int replica, ls_update *update, int64_t offset, ls_step_times *times) {
    ls_strategy_base *base = &b->base;
    const float *g = b->mean;
    if (b->direction) {
        ls__direct(base, *update, offset, b->direction + offset);
        ls__lap(times, LS_STEP_UPDATE);
        ls_barrier_wait(base->worker_barrier);
        ls__lap(times, LS_STEP_WAIT);
        update->g = b->direction + offset;
        g = b->direction;
    }
    int64_t begin, end;
    ls__share(0, base->head.config.length, base->host_lane + replica, base->host_lanes, &begin, &end);
    ls__note_layers(base, begin, end - begin, base->head.weights + begin, g + begin);
    ls__lap(times, LS_STEP_SUM);
    ls_barrier_wait(base->host_barrier);
    ls__lap(times, LS_STEP_WAIT);
    ls__find_norms(base, base->lane[replica], offset, offset + update->n);
    ls__lap(times, LS_STEP_SUM);
}

static ls_status step(ls_strategy *strategy, int replica, const ls_step_info *info, ls_step_times *times) {
    reduce_broadcast *b = (reduce_broadcast *)strategy;
    ls_strategy_base *base = &b->base;
    ls_lane *lane = base->lane[replica];
    const ls_strategy_config *config = &strategy->config;

    ls_barrier_wait(base->host_barrier);
    ls__lap(times, LS_STEP_WAIT);
    if (config->comm->position == 0)
        LS_TRY(sum_at_root(b, replica, info, times));
    else if (config->comm->local_rank == 0)
        LS_TRY(send_partials(b, replica, info->micro_batches, times));
    ls_barrier_wait(base->host_barrier);
    ls__lap(times, LS_STEP_SEND);  // until the mean is there: nobody but worker 0 has anything to do
    if (config->clip_norm > 0) clip_mean(b, replica, times);

    int64_t begin, end;
    ls__share(0, config->length, replica, config->replicas, &begin, &end);
    ls_update update = {.n = end - begin,
                        .w = strategy->weights + begin,
                        .g = b->mean + begin,
                        .state = {lane->state[0], lane->state[1]},
                        .lr = info->lr,
                        .lr_before = info->lr_before,
                        .step = info->step};
    if (ls__layerwise(base)) find_directions(b, replica, &update, begin, times);
    ls__update(base, lane, update, begin);
    ls__lap(times, LS_STEP_UPDATE);
    ls__finish(base, base->worker_barrier, LS_STEP_WAIT, replica, config->replicas, times);
    return LS_OK;
}

const ls_strategy_ops ls__strategy_reduce_broadcast = {
    .name = "reduce-broadcast",
    .help = "worker 0 sums and averages for all, and every worker updates weights of its own",
    .plan = plan,
    .destroy = destroy,
    .step = step,
};
