// Reduce-scatter in tree order, sliced update, all-gather: the default.
//
// Each lane of the job owns a slice of the vector: it adds up everyone's sums there, keeps the optimizer's state of it, and
// updates the weights of it in the vector its host shares. On one host nothing is sent: lanes read each other's gradients
// and write the one weights vector in place. Between hosts, a slice's owner gets one message of partial sums from each other
// host and sends one message of new weights to each. On a host, the worker that *serves* a foreign slice does both for all:
// the one whose place on its host is the owner's (modulo the number of workers), so that the wires are shared evenly. These
// are the bytes of a bandwidth-optimal allreduce, if the hosts' runs of micro-batches are whole subtrees.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "strategy/strategy_impl.h"

enum { TAG_GRADIENTS = 1, TAG_WEIGHTS = 2, TAG_SQUARES = 3 };

// A worker of another host whose slice this worker serves.
typedef struct served {
    int rank;
    int64_t begin, end;  // its slice
    float *partials;     // (host_pieces, end - begin): what this host has for it
} served;

// Another host, as this worker's own slice sees it.
typedef struct remote {
    int rank;         // the worker there that serves this worker's slice
    float *partials;  // (host_pieces, end - begin): what that host has for it; NULL on this worker's own host
} remote;

typedef struct allreduce {
    ls_strategy_base base;
    int64_t begin, end;  // this worker's slice
    served *served;      // (served_count)
    int served_count;
    remote *remotes;  // (hosts)
    ls_request *requests;
} allreduce;

static void slice_of_lane(const ls_strategy_base *base, int lane, int64_t *begin, int64_t *end) {
    ls__share(0, base->head.config.length, lane, base->lanes, begin, end);
}

static void slice_of_worker(const ls_strategy_base *base, int position, int64_t *begin, int64_t *end) {
    int64_t unused;
    int replicas = base->head.config.replicas;
    slice_of_lane(base, position * replicas, begin, &unused);
    slice_of_lane(base, (position + 1) * replicas - 1, &unused, end);
}

// The position of the worker on `host` that serves the slice of the worker at `position`.
static int server(const ls_strategy_base *base, int host, int position) {
    int owner_host = base->head.config.comm->host_of[base->head.config.comm->order[position]];
    int place = position - base->host_first[owner_host];
    return base->host_first[host] + place % (base->host_first[host + 1] - base->host_first[host]);
}

static void destroy(ls_strategy *strategy) {
    allreduce *a = (allreduce *)strategy;
    free(a->served);
    free(a->remotes);
    free(a->requests);
    ls__base_destroy(&a->base);
    free(a);
}

// What only jobs of several hosts need.
static ls_status plan_remote(allreduce *a) {
    ls_strategy_base *base = &a->base;
    ls_comm *comm = base->head.config.comm;
    LS_TRY(ls_calloc(comm->hosts, sizeof *a->remotes, &a->remotes));
    LS_TRY(ls_calloc(comm->size, sizeof *a->served, &a->served));
    LS_TRY(ls_calloc(comm->hosts + comm->size, sizeof *a->requests, &a->requests));
    for (int host = 0; host < comm->hosts; host++) {
        if (host == comm->host) continue;
        a->remotes[host].rank = comm->order[server(base, host, comm->position)];
        LS_TRY(ls__want(base, LS_STRATEGY_SUMS, LS_WORKER, base->host_pieces * (a->end - a->begin) * 4,
                        &a->remotes[host].partials));
    }
    for (int position = 0; position < comm->size; position++) {
        int rank = comm->order[position];
        if (comm->host_of[rank] == comm->host || server(base, comm->host, position) != comm->position) continue;
        served *s = &a->served[a->served_count++];
        s->rank = rank;
        slice_of_worker(base, position, &s->begin, &s->end);
        LS_TRY(ls__want(base, LS_STRATEGY_SUMS, LS_WORKER, base->host_pieces * (s->end - s->begin) * 4, &s->partials));
        base->reads += s->end - s->begin;
    }
    return LS_OK;
}

static ls_status build(allreduce *a, const ls_strategy_config *config) {
    ls_strategy_base *base = &a->base;
    LS_TRY(ls__base_plan(base, &ls__strategy_allreduce, config));
    LS_TRY(ls__want(base, LS_STRATEGY_WEIGHTS, LS_HOST, config->length * 4, &base->head.weights));
    LS_TRY(ls__want(base, LS_STRATEGY_COPIES, LS_HOST, config->copies_bytes, &base->head.copies));
    base->head.weights_shared = 1;
    slice_of_worker(base, config->comm->position, &a->begin, &a->end);
    base->reads = a->end - a->begin;
    for (int r = 0; r < config->replicas; r++) {
        int64_t begin, end;
        slice_of_lane(base, config->comm->position * config->replicas + r, &begin, &end);
        LS_TRY(ls__want_state(base, r, end - begin));
        if (config->clip_norm > 0 || ls__layerwise(base))
            LS_TRY(ls__want(base, LS_STRATEGY_SUMS, r, (end - begin) * 4, &base->lane[r]->mean));
    }
    return config->comm->hosts > 1 ? plan_remote(a) : LS_OK;
}

static ls_status plan(const ls_strategy_config *config, ls_strategy **out) {
    allreduce *a;
    LS_TRY(ls_calloc(1, sizeof *a, &a));
    ls_status status = build(a, config);
    if (status != LS_OK) {
        destroy(&a->base.head);
        LS_TRY(status);
    }
    *out = &a->base.head;
    return LS_OK;
}

// Partial sums of foreign slices go out, those of this worker's slice come in. Collective; every replica calls it.
static ls_status exchange_gradients(allreduce *a, int replica, int64_t micro_batches, ls_step_times *times) {
    ls_strategy_base *base = &a->base;
    ls_comm *comm = base->head.config.comm;
    int pending = 0;
    if (replica == 0) {
        for (int host = 0; host < comm->hosts; host++) {
            int64_t count = ls__host_piece_count(base, micro_batches, host) * (a->end - a->begin);
            if (host == comm->host || count == 0) continue;
            LS_TRY(ls_comm_irecv(comm, a->remotes[host].partials, count, LS_DTYPE_F32, a->remotes[host].rank,
                                 TAG_GRADIENTS, &a->requests[pending++]));
        }
    }
    for (int i = 0; i < a->served_count; i++)
        ls__host_partials(base, replica, micro_batches, a->served[i].begin, a->served[i].end, a->served[i].partials);
    ls__lap(times, LS_STEP_SUM);
    ls_barrier_wait(base->worker_barrier);
    ls__lap(times, LS_STEP_WAIT);
    if (replica == 0) {
        int pieces = ls__host_piece_count(base, micro_batches, comm->host);
        for (int i = 0; i < a->served_count; i++) {
            int64_t count = pieces * (a->served[i].end - a->served[i].begin);
            if (count == 0) continue;
            LS_TRY(ls_comm_isend(comm, a->served[i].partials, count, LS_DTYPE_F32, a->served[i].rank, TAG_GRADIENTS,
                                 &a->requests[pending++]));
        }
        LS_TRY(ls_comm_wait_all(comm, a->requests, pending));
    }
    ls_barrier_wait(base->worker_barrier);
    ls__lap(times, LS_STEP_SEND);
    return LS_OK;
}

// What there is of this worker's slice goes to every host, that of foreign slices comes straight into the host's `whole`,
// which has `per_unit` elements of dtype for each LS_SLICE_ALIGN elements of the vector.
static ls_status exchange_slices(allreduce *a, int replica, void *whole, ls_dtype dtype, int per_unit, int tag) {
    ls_strategy_base *base = &a->base;
    ls_comm *comm = base->head.config.comm;
    int64_t size = ls_dtype_size(dtype), mine = a->begin / LS_SLICE_ALIGN * per_unit;
    ls_barrier_wait(base->worker_barrier);
    if (replica != 0) return LS_OK;
    int pending = 0;
    for (int i = 0; i < a->served_count; i++) {
        const served *s = &a->served[i];
        int64_t theirs = s->begin / LS_SLICE_ALIGN * per_unit, count = s->end / LS_SLICE_ALIGN * per_unit - theirs;
        if (count > 0)
            LS_TRY(ls_comm_irecv(comm, (char *)whole + theirs * size, count, dtype, s->rank, tag,
                                 &a->requests[pending++]));
    }
    int64_t count = a->end / LS_SLICE_ALIGN * per_unit - mine;
    for (int host = 0; host < comm->hosts; host++)
        if (host != comm->host && count > 0)
            LS_TRY(ls_comm_isend(comm, (char *)whole + mine * size, count, dtype, a->remotes[host].rank, tag,
                                 &a->requests[pending++]));
    return ls_comm_wait_all(comm, a->requests, pending);
}

static int list_sources(allreduce *a, ls_lane *lane, int64_t micro_batches) {
    ls_comm *comm = a->base.head.config.comm;
    int count = 0;
    for (int host = 0; host < comm->hosts; host++)
        count += host == comm->host ? ls__host_sources(&a->base, micro_batches, lane->sources + count)
                                    : ls__received_sources(&a->base, micro_batches, host, a->remotes[host].partials,
                                                           a->begin, a->end - a->begin, lane->sources + count);
    return count;
}

// What a lane does to its slice in a step.
typedef struct work {
    allreduce *a;
    int replica;
    ls_lane *lane;
    const ls_step_info *info;
    int sources;         // of the lane
    int64_t begin, end;  // its slice
    float factor;        // of clipping
    ls_step_times *times;
} work;

// Summing and updating take turns, block by block; their times are added up apart and noted as two stretches.
typedef struct turns {
    double start, now, summing;
} turns;

static turns begin_turns(const work *w) { return (turns){w->times->since, w->times->since, 0}; }

static void end_sum(turns *t) {
    double now = ls_clock();
    t->summing += now - t->now;
}

static void end_update(turns *t) { t->now = ls_clock(); }

static void note_turns(const work *w, const turns *t) {
    ls__spent(w->times, LS_STEP_SUM, t->start, t->start + t->summing);
    ls__spent(w->times, LS_STEP_UPDATE, t->start + t->summing, t->now);
    w->times->since = t->now;
}

static int64_t block_length(const work *w, int64_t at) { return w->end - at < LS_BLOCK ? w->end - at : LS_BLOCK; }

// The mean gradient of the block from `at` on, clipped, into the lane's first block.
static void read_block(const work *w, int64_t at) {
    ls_strategy_base *base = &w->a->base;
    int64_t n = block_length(w, at);
    if (base->head.config.clip_norm > 0)
        ls__clip(base, at, n, w->lane->mean + (at - w->begin), w->factor, w->lane->blocks);
    else
        ls__mean_block(w->lane, w->info, w->sources, at, n, w->lane->blocks);
}

static ls_update block_update(const work *w, int64_t at, const float *g) {
    ls_update update = {.n = block_length(w, at),
                        .w = w->a->base.head.weights + at,
                        .g = g,
                        .lr = w->info->lr,
                        .lr_before = w->info->lr_before,
                        .step = w->info->step};
    for (int i = 0; i < LS_MAX_OPTIMIZER_STATE; i++)
        if (w->lane->state[i]) update.state[i] = w->lane->state[i] + (at - w->begin);
    return update;
}

// Sums of squares of all slices, `columns` for each unit, come to all hosts and are seen by all their lanes.
static ls_status share_squares(const work *w, double *squares, int columns) {
    ls_strategy_base *base = &w->a->base;
    int several_hosts = base->head.config.comm->hosts > 1;
    if (several_hosts)
        LS_TRY(exchange_slices(w->a, w->replica, squares, LS_DTYPE_U8, columns * (int)sizeof(double), TAG_SQUARES));
    ls_barrier_wait(base->host_barrier);
    ls__lap(w->times, several_hosts ? LS_STEP_SEND : LS_STEP_WAIT);
    return LS_OK;
}

// With clipping: the mean gradient of this lane's slice, kept, and what it is to be multiplied by, which all slices decide.
// Collective; every replica calls it.
static ls_status find_clip(work *w) {
    ls_strategy_base *base = &w->a->base;
    for (int64_t at = w->begin; at < w->end; at += LS_BLOCK)
        ls__mean_block(w->lane, w->info, w->sources, at, block_length(w, at), w->lane->mean + (at - w->begin));
    ls__note_squares(base, w->begin, w->end - w->begin, w->lane->mean);
    ls__lap(w->times, LS_STEP_SUM);
    LS_TRY(share_squares(w, base->squares, 1));
    w->factor = ls__clip_factor(base);
    return LS_OK;
}

// With a layer-wise optimizer: what it is going to apply to this lane's slice, kept, and the norms, which all slices decide.
// Collective; every replica calls it.
static ls_status find_directions(const work *w) {
    ls_strategy_base *base = &w->a->base;
    turns t = begin_turns(w);
    for (int64_t at = w->begin; at < w->end; at += LS_BLOCK) {
        float *kept = w->lane->mean + (at - w->begin);
        read_block(w, at);
        end_sum(&t);
        ls__direct(base, block_update(w, at, w->lane->blocks), at, kept);
        ls__note_layers(base, at, block_length(w, at), base->head.weights + at, kept);
        end_update(&t);
    }
    note_turns(w, &t);
    LS_TRY(share_squares(w, base->layer_squares, 2));
    ls__find_norms(base, w->lane, w->begin, w->end);
    ls__lap(w->times, LS_STEP_SUM);
    return LS_OK;
}

static void update_slice(const work *w) {
    ls_strategy_base *base = &w->a->base;
    int layerwise = ls__layerwise(base);
    turns t = begin_turns(w);
    for (int64_t at = w->begin; at < w->end; at += LS_BLOCK) {
        if (!layerwise) read_block(w, at);
        end_sum(&t);
        const float *g = layerwise ? w->lane->mean + (at - w->begin) : w->lane->blocks;
        ls__update(base, w->lane, block_update(w, at, g), at);
        end_update(&t);
    }
    note_turns(w, &t);
}

static ls_status step(ls_strategy *strategy, int replica, const ls_step_info *info, ls_step_times *times) {
    allreduce *a = (allreduce *)strategy;
    ls_strategy_base *base = &a->base;
    const ls_strategy_config *config = &strategy->config;
    int several_hosts = config->comm->hosts > 1;
    work w = {.a = a, .replica = replica, .lane = base->lane[replica], .info = info, .factor = 1, .times = times};

    ls_barrier_wait(base->host_barrier);
    ls__lap(times, LS_STEP_WAIT);
    if (several_hosts) LS_TRY(exchange_gradients(a, replica, info->micro_batches, times));

    w.sources = list_sources(a, w.lane, info->micro_batches);
    slice_of_lane(base, config->comm->position * config->replicas + replica, &w.begin, &w.end);
    if (config->clip_norm > 0) LS_TRY(find_clip(&w));
    if (ls__layerwise(base)) LS_TRY(find_directions(&w));
    update_slice(&w);

    if (several_hosts)
        LS_TRY(exchange_slices(a, replica, strategy->weights, LS_DTYPE_F32, LS_SLICE_ALIGN, TAG_WEIGHTS));
    ls__finish(base, base->host_barrier, several_hosts ? LS_STEP_GATHER : LS_STEP_WAIT, base->host_lane + replica,
               base->host_lanes, times);
    return LS_OK;
}

const ls_strategy_ops ls__strategy_allreduce = {
    .name = "allreduce",
    .help = "each lane sums and updates its slice of the parameters, then all gather them",
    .plan = plan,
    .destroy = destroy,
    .step = step,
};
