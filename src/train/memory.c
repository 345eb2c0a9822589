// Where the memory of a run goes: sums over what the trainer is about to allocate, asked of those who allocate it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/memory.h"
#include "train/context.h"
#include "train/trainer_impl.h"

const char *ls_memory_part_name(ls_memory_part part) {
    static const char *const names[] = {
#define X(name, text) text,
        LS_MEMORY_LIST(X)
#undef X
    };
    return (unsigned)part < LS_MEMORY_PARTS ? names[part] : NULL;
}

// Of which every replica has as much.
static void add_per_replica(ls_memory *m, ls_memory_part part, int64_t bytes) {
    m->part[part].replica += bytes;
    m->part[part].worker += bytes * m->replicas_per_worker;
    m->part[part].host += bytes * m->replicas_per_worker * m->workers_per_host;
}

static void add_per_worker(ls_memory *m, ls_memory_part part, int64_t bytes) {
    m->part[part].worker += bytes;
    m->part[part].host += bytes * m->workers_per_host;
}

// Shared by the workers of a host, all of which read all of it.
static void add_per_host(ls_memory *m, ls_memory_part part, int64_t bytes) {
    m->part[part].worker += bytes;
    m->part[part].host += bytes;
}

static void add_arenas(ls_memory *m, const ls_trainer *t) {
    // The first replica has all kinds of plans, the others may lack those of tails.
    const ls_replica *first = &t->replica[0];
    const ls_plan *largest = NULL;
    ls_memory_arena *const arenas[LS_PLAN_KINDS] = {[LS_PLAN_KIND_TRAIN] = &m->train,
                                                    [LS_PLAN_KIND_TRAIN_REST] = &m->train_rest,
                                                    [LS_PLAN_KIND_TRAIN_TAIL] = &m->train_tail,
                                                    [LS_PLAN_KIND_EVALUATE] = &m->evaluate,
                                                    [LS_PLAN_KIND_EVALUATE_REST] = &m->evaluate_tail};
    const int64_t samples[LS_PLAN_KINDS] = {[LS_PLAN_KIND_TRAIN] = t->train_shape.micro_batch,
                                            [LS_PLAN_KIND_TRAIN_REST] = t->train_shape.rest,
                                            [LS_PLAN_KIND_TRAIN_TAIL] = t->train_shape.tail,
                                            [LS_PLAN_KIND_EVALUATE] = t->eval_shape.micro_batch,
                                            [LS_PLAN_KIND_EVALUATE_REST] = t->eval_shape.rest};
    for (int i = 0; i < LS_PLAN_KINDS; i++) {
        const ls_plan *plan = first->plan[i];
        if (!plan) continue;
        *arenas[i] = (ls_memory_arena){samples[i], ls_plan_arena_bytes(plan)};
        if (!largest || ls_plan_arena_bytes(plan) > ls_plan_arena_bytes(largest)) largest = plan;
    }
    ls_arena_parts parts = ls_plan_arena_parts(largest);
    add_per_replica(m, LS_MEMORY_ACTIVATIONS, parts.activations);
    add_per_replica(m, LS_MEMORY_BACKWARD, parts.backward);
    add_per_replica(m, LS_MEMORY_WORKSPACE, parts.workspace);
    add_per_replica(m, LS_MEMORY_UNUSED,
                    ls_memory_size(ls__arena_bytes(first)) - ls__arena_bytes(first) + parts.unused);
}

static void add_engine(ls_memory *m, const ls_trainer *t, const ls_engine *engine) {
    static const ls_memory_part parts[LS_ENGINE_PARTS] = {
        [LS_ENGINE_WEIGHTS] = LS_MEMORY_WEIGHTS,     [LS_ENGINE_COPIES] = LS_MEMORY_COPIES,
        [LS_ENGINE_GRADIENTS] = LS_MEMORY_GRADIENTS, [LS_ENGINE_STATE] = LS_MEMORY_STATE,
        [LS_ENGINE_RESIDUALS] = LS_MEMORY_RESIDUALS, [LS_ENGINE_SUMS] = LS_MEMORY_SUMS};
    ls_engine_memory s = ls_engine_memory_of(engine);
    for (int i = 0; i < LS_ENGINE_PARTS; i++) {
        ls_memory_bytes *b = &m->part[parts[i]];
        int64_t alone = t->async ? s.part[i].shared : 0;  // of a worker that shares it with nobody
        b->replica += s.part[i].lane;
        b->worker += s.part[i].own + s.part[i].seen;
        b->host += (s.part[i].own + alone) * m->workers_per_host + s.part[i].shared - alone;
    }
}

static void add_engines(ls_memory *m, const ls_trainer *t) {
    ls_engine *server = t->async ? ls_async_server(t->async) : NULL;
    m->gradient_buffers = ls_engine_memory_of(t->engine).gradient_buffers;
    add_engine(m, t, t->engine);
    if (!server) return;
    add_engine(m, t, server);
    add_per_worker(m, LS_MEMORY_SUMS, ls_async_server_bytes(t->async));
}

// The largest parameter in Keras's layout, on its way in or out, beside everything else.
static int64_t parameter_bytes(const ls_graph *graph) {
    int64_t most = 0;
    for (int i = 0; i < graph->store->count; i++) {
        int64_t bytes = ls_shape_count(graph->store->params[i].shape) * (int64_t)sizeof(float);
        if (bytes > most) most = bytes;
    }
    return ls_memory_size(most);
}

static void add_records(ls_memory *m, const ls_trainer *t) {
    int64_t train = ls__ranges_count(t, &t->train_shape), eval = ls__ranges_count(t, &t->eval_shape);
    add_per_host(m, LS_MEMORY_RECORDS, ls__shared_bytes(t));
    add_per_host(m, LS_MEMORY_RECORDS, ls__rows_bytes(&t->measures, t->eval_split.count));
    if (t->views.count) add_per_host(m, LS_MEMORY_RECORDS, ls__rows_bytes(&t->views.measures, t->eval_split.count));
    add_per_worker(m, LS_MEMORY_RECORDS, ls__shared_bytes(t));  // summing them up takes a copy
    add_per_worker(m, LS_MEMORY_RECORDS, t->order_count * (int64_t)sizeof *t->order);
    add_per_replica(m, LS_MEMORY_RECORDS, (train > eval ? train : eval) * (int64_t)sizeof(ls_range));
}

// Of the first host, all of whose workers copy to it; worker 0 reads it all.
static void add_snapshot(ls_memory *m, const ls_trainer *t) {
    if (t->takes_checkpoints) add_per_host(m, LS_MEMORY_CHECKPOINT, ls__snapshot_bytes(t));
}

ls_memory ls__trainer_memory(const ls_trainer *t) {
    ls_memory m = {.workers = t->comm->size,
                   .hosts = t->comm->hosts,
                   .workers_per_host = t->comm->local_size,
                   .replicas_per_worker = t->spread.replicas,
                   .threads_per_replica = t->config.threads,
                   .cores_per_worker = t->spread.cores,
                   .idle_cores = t->spread.idle,
                   .global_batch = t->config.batch_size,
                   .micro_batch = t->config.micro_batch};
    memcpy(m.replicas_reason, t->spread.reason, sizeof m.replicas_reason);
    memcpy(m.cores_advice, t->spread.advice, sizeof m.cores_advice);
    add_engines(&m, t);
    add_arenas(&m, t);
    add_per_replica(&m, LS_MEMORY_BATCHES, ls_memory_size(ls__batches_bytes(t)));
    add_per_replica(&m, LS_MEMORY_BATCHES, ls__decoding_bytes(t));
    add_records(&m, t);
    add_snapshot(&m, t);
    if (t->dataset->shared)
        add_per_host(&m, LS_MEMORY_DATASET, ls_data_bytes(t->dataset));
    else
        add_per_worker(&m, LS_MEMORY_DATASET, ls_data_bytes(t->dataset));
    int64_t cache = t->dataset->cache_bytes;
    if (!cache && t->choices.cache) cache = ls_data_cache_size(t->dataset, t->choices.cache, t->config.cache_decoded);
    add_per_host(&m, LS_MEMORY_DATASET, cache);
    add_per_worker(&m, LS_MEMORY_WEIGHTS, parameter_bytes(t->graph));
    add_per_worker(&m, LS_MEMORY_PROGRAM, t->program_bytes);
    for (int i = 0; i < LS_MEMORY_PARTS; i++) {
        m.total.replica += m.part[i].replica;
        m.total.worker += m.part[i].worker;
        m.total.host += m.part[i].host;
    }
    return m;
}

static int fits(const ls_memory *m) {
    double limit = ls_limits_memory();
    return limit < 0 || (double)m->total.host <= 1.02 * limit;
}

void ls__memory_fit(ls_trainer *t) {
    ls_loader_config loader = ls__loader_config(t, 1);
    int takes = t->takes_checkpoints;
    t->takes_checkpoints =
        1;  // which may be asked for later, and are not to be refused for loader threads that nobody has asked for
    t->memory = ls__trainer_memory(t);
    for (int most = loader.threads - 1; loader.adapt && most > 0 && !fits(&t->memory); most--) {
        t->most_loaders = most;
        t->memory = ls__trainer_memory(t);
    }
    t->takes_checkpoints = takes;
    t->memory = ls__trainer_memory(t);
}

// What most of a host's memory goes to.
static ls_memory_part largest(const ls_memory *m) {
    ls_memory_part most = LS_MEMORY_WEIGHTS;
    for (int i = 0; i < LS_MEMORY_PARTS; i++)
        if (m->part[i].host > m->part[most].host) most = (ls_memory_part)i;
    return most;
}

ls_status ls__memory_check(const ls_trainer *t) {
    const ls_memory *m = &t->memory;
    double limit = ls_limits_memory(), need = (double)m->total.host;
    if (fits(m)) return LS_OK;
    ls_memory_part most = largest(m);
    // Caches and loader threads are not spoken of where the network would not fit without them.
    int data = need - (double)(m->part[LS_MEMORY_BATCHES].host + m->part[LS_MEMORY_DATASET].host) <= limit;
    return LS_FAIL(
        LS_STATUS_OUT_OF_MEMORY,
        "the %d worker%s of this host would need %.1f MB (%s: %.1f MB), and there are only %.1f MB (%s): use %s%sa "
        "smaller micro-batch, rematerialization, fewer replicas or fewer workers; 'lockstep plan' says what each of "
        "them gives",
        m->workers_per_host, m->workers_per_host == 1 ? "" : "s", need / 1e6, ls_memory_part_name(most),
        (double)m->part[most].host / 1e6, limit / 1e6,
        ls_limits_group_memory() >= 0 ? "its control group's limit" : "all memory of the machine",
        data && t->choices.cache ? "a smaller cache (--cache), " : "",
        data && ls__loader_config(t, 1).threads > 1 ? "fewer loader threads (--loader-threads), " : "");
}
