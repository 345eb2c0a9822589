// Making engines, and what is asked of them outside of steps.
#include "step/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "step/progress.h"
#include "step/topk.h"

// --- planning --------------------------------------------------------------------------------------------------------

// A worker is a rank; ranks stand in the order of hosts.
static ls_status make_mesh(ls_engine *e) {
    const ls_comm *comm = e->config.comm;
    int *ranks_of_host;
    LS_TRY(ls_calloc(comm->hosts, sizeof *ranks_of_host, &ranks_of_host));
    for (int position = 0; position < comm->size; position++) ranks_of_host[comm->host_of[comm->order[position]]]++;
    ls_status status = ls_mesh_create(comm->hosts, ranks_of_host, e->config.lanes, NULL, &e->mesh);
    free(ranks_of_host);
    LS_TRY(status);
    e->rank = comm->position;
    e->mesh->servers = e->config.servers;
    LS_TRY(ls_strategy_assign(e->strategy, comm->size, &e->mesh->servers));
    if (e->config.compress == LS_COMPRESS_TOPK) e->mesh->whole = e->config.micro_batches;
    return LS_OK;
}

static ls_status plan_buckets(ls_engine *e) {
    const ls_engine_config *config = &e->config;
    int64_t before = 0;
    int count = config->bucket_ends ? config->bucket_count : 1;
    if (count < 1 || count > LS_MAX_BUCKETS)
        return LS_FAIL(LS_STATUS_INTERNAL, "%d buckets are asked for; there can be 1 to %d", count, LS_MAX_BUCKETS);
    LS_TRY(ls_calloc(count, sizeof *e->bucket_ends, &e->bucket_ends));
    for (int b = 0; b < count; b++) {
        int64_t end = config->bucket_ends ? config->bucket_ends[b] : config->length;
        if (end <= before || end % LS_SLICE_ALIGN != 0) break;
        e->bucket_ends[b] = before = end;
    }
    if (before != config->length)
        return LS_FAIL(LS_STATUS_INTERNAL, "the buckets of a vector of %lld floats cover it up to %lld only",
                       (long long)config->length, (long long)before);
    e->emit.bucket_ends = e->bucket_ends;
    e->emit.bucket_count = count;
    if (!config->forward_order) return LS_OK;
    LS_TRY(ls_calloc(count, sizeof *e->forward_order, &e->forward_order));
    memcpy(e->forward_order, config->forward_order, (size_t)count * sizeof *e->forward_order);
    e->emit.forward_order = e->forward_order;
    return LS_OK;
}

// A server's slice is given; it is the only bucket's.
static void cut_push(const ls_emit_config *c, int rank, int lane, int bucket, int64_t *begin, int64_t *end) {
    (void)rank, (void)lane, (void)bucket;
    *begin = c->push_begin, *end = c->push_end;
}

static void cut_nothing(const ls_emit_config *c, int rank, int lane, int bucket, int64_t *begin, int64_t *end) {
    (void)rank, (void)lane;
    *begin = *end = c->bucket_ends[bucket];
}

static ls_status plan_counts(ls_engine *e) {
    const ls_engine_config *config = &e->config;
    int count = 0, all = config->other_count_count < 0 && config->micro_batches <= LS_FEW_COUNTS;
    LS_TRY(ls_calloc(all ? config->micro_batches : LS_MAX_PROGRAMS, sizeof *e->counts, &e->counts));
    e->counts[count++] = config->micro_batches;
    for (int64_t v = 1; all && v < config->micro_batches; v++) e->counts[count++] = v;
    for (int i = 0; i < config->other_count_count && count < LS_MAX_PROGRAMS; i++) {
        int known = config->other_counts[i] < 1 || config->other_counts[i] > config->micro_batches;
        for (int k = 0; k < count; k++) known |= e->counts[k] == config->other_counts[i];
        if (!known) e->counts[count++] = config->other_counts[i];
    }
    e->emit.any_count = config->other_count_count < 0 && !all;
    e->emit.counts = e->counts;
    e->emit.count_count = count;
    return LS_OK;
}

int ls__shares_copies(const ls_engine *e) {
    const ls_engine_config *mine = &e->config, *other = mine->weights_of ? &mine->weights_of->config : NULL;
    return other && mine->refresh == other->refresh && mine->refresh_user == other->refresh_user &&
           mine->copies_bytes == other->copies_bytes;
}

// Blocks stay small where a thread of its own exchanges behind backward: it goes through them by
// itself.
static int64_t block_length(const ls_engine *e) {
    const ls_engine_config *config = &e->config;
    int64_t block = LS_BLOCK;
    if (e->far)
        block = LS_FAR_BLOCK;
    else if (config->threads > 1 && !config->progress)
        block = (int64_t)config->threads * LS_TEAM_BLOCK;
    return config->length < block ? config->length : block;
}

static ls_status plan_emission(ls_engine *e) {
    const ls_engine_config *config = &e->config;
    ls_emit_config *c = &e->emit;
    LS_TRY(
        ls_strategy_ways(e->strategy, config->algorithm, config->compress, e->mesh->hosts, config->length, &c->ways));
    if (config->push) {
        c->ways.push = config->push;
        c->ways.sums = c->ways.updates = config->push == 2 ? cut_push : cut_nothing;
        c->push_begin = config->push_begin, c->push_end = config->push_end;
    }
    c->mesh = e->mesh;
    c->length = config->length;
    c->rounds_nodes = e->rounds;
    c->selects = config->compress == LS_COMPRESS_TOPK;
    c->clips = ls__clips(e);
    c->layerwise = ls__layerwise(e);
    c->progress = config->progress;
    c->early = config->early && config->progress && !c->clips && !c->layerwise && !e->far;
    c->far = e->far;
    c->copies = config->refresh != NULL;
    c->copies_bytes = ls__shares_copies(e) ? 0 : config->copies_bytes;
    LS_TRY(plan_counts(e));
    LS_TRY(plan_buckets(e));
    c->in_order = config->in_order < c->bucket_count ? config->in_order : c->bucket_count;
    return LS_OK;
}

static ls_status plan_hand(ls_engine *e, ls_hand *h, int lane) {
    // A run's nodes rise and fall in level, so a stack holds at most two of each.
    int blocks = 2 * (64 - __builtin_clzll((uint64_t)e->config.micro_batches)) + 2;
    int64_t unit_bytes = e->block / LS_SLICE_ALIGN * 2 * (int64_t)sizeof(double);
    LS_TRY(ls__want_span(e, LS_ENGINE_SUMS, lane, blocks * e->block * 4, &h->blocks));
    if (e->rounds) LS_TRY(ls__want_span(e, LS_ENGINE_SUMS, lane, e->block * 2, &h->packed));
    if (e->norms) LS_TRY(ls__want_span(e, LS_ENGINE_SUMS, lane, unit_bytes, &h->unit_sums));
    if (e->norms && e->far) LS_TRY(ls__want(e, LS_ENGINE_SUMS, lane, unit_bytes, &h->host_sums));
    if (!e->emit.ways.sparse || !e->far) return LS_OK;
    return ls__want(e, LS_ENGINE_SUMS, lane, (int64_t)LS_TREE_MAX_PIECES * LS_TOPK_CHUNK * 4, &h->scratch);
}

static ls_status plan_lane(ls_engine *e, int index) {
    LS_TRY(ls_memory_alloc(sizeof(ls_lane), &e->lane[index]));
    ls_lane *lane = e->lane[index];
    lane->home = 1;
    lane->factor = 1;
    LS_TRY(plan_hand(e, &lane->hand, index));
    for (int b = 0; b < e->emit.bucket_count; b++) {
        int64_t begin, end;
        e->emit.ways.updates(&e->emit, e->rank, index, b, &begin, &end);
        lane->kept += end - begin;
    }
    int64_t bytes = lane->kept * (int64_t)sizeof(float);
    int states = e->config.optimizer->state_count(&e->config.params);
    for (int i = 0; i < states; i++) LS_TRY(ls__want_span(e, LS_ENGINE_STATE, index, bytes, &lane->state[i]));
    if (e->config.lookahead) LS_TRY(ls__want_span(e, LS_ENGINE_STATE, index, bytes, &lane->slow));
    if (e->config.find_not_finite) {
        LS_TRY(ls__want_span(e, LS_ENGINE_SUMS, index, LS_ALIGN, &lane->found));
        LS_TRY(ls__want(e, LS_ENGINE_SUMS, index, LS_ALIGN, &lane->found_host));
    }
    if (ls__layerwise(e))
        LS_TRY(ls__want(e, LS_ENGINE_SUMS, index, e->run_count * (int64_t)sizeof *lane->norms, &lane->norms));
    return ls__topk_plan_lane(e, index);
}

// Where any number of micro-batches may come, programs are made when they do; for now, so that it
// is known what memory they take.
static ls_status plan_programs(ls_engine *e) {
    for (int i = e->emit.count_count - 1; i >= 0; i--) {
        ls_program *p;
        LS_TRY(ls_emit(&e->emit, e->rank, e->counts[i], &e->regions, &p));
        if (i < LS_MAX_PROGRAMS)
            e->programs[i] = p;
        else
            ls_program_destroy(&p);
    }
    e->program_count = e->emit.count_count < LS_MAX_PROGRAMS ? e->emit.count_count : LS_MAX_PROGRAMS;
    e->slots = ls_emit_slots(&e->emit, ls_mesh_host(e->mesh, e->rank));
    return LS_OK;
}

static ls_status enlarge(ls_request **list, int *count, int needed) {
    if (needed <= *count) return LS_OK;
    ls_request *larger = realloc(*list, (size_t)needed * sizeof *larger);
    if (!larger) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "no memory for the requests of %d tasks", needed);
    memset(larger + *count, 0, (size_t)(needed - *count) * sizeof *larger);
    *list = larger;
    *count = needed;
    return LS_OK;
}

// Each task of a queue may be a message. Between steps, when none is on its way: a shorter step may
// have more of them.
static ls_status fit_requests(ls_engine *e, const ls_program *p) {
    if (!e->progress) return enlarge(&e->requests, &e->request_count, p->queues[0].count);
    for (int i = 0; i < e->progress->channel_count; i++) {
        ls_channel *c = &e->progress->channels[i];
        LS_TRY(enlarge(&c->requests, &c->request_count, p->queues[p->lanes + i].count));
    }
    return LS_OK;
}

// Made when it is needed, in place of the one that was made first, but never of the full step's. Of
// an engine of one lane, whose steps do not overlap: nobody is at another one.
ls_status ls__program_of(ls_engine *e, int64_t micro_batches, const ls_program **out) {
    *out = ls_engine_program(e, micro_batches, NULL);
    if (*out) return LS_OK;
    if (e->config.other_count_count >= 0 || micro_batches < 1 || micro_batches > e->config.micro_batches ||
        e->config.lanes > 1)
        return LS_FAIL(LS_STATUS_INTERNAL, "there is no program for a step of %lld micro-batches",
                       (long long)micro_batches);
    if (++e->replaced >= LS_MAX_PROGRAMS) e->replaced = 1;
    ls_program *p;
    LS_TRY(ls_emit(&e->emit, e->rank, micro_batches, &e->regions, &p));
    ls_status status = fit_requests(e, p);
    if (status != LS_OK) {
        ls_program_destroy(&p);
        return status;
    }
    ls_program_destroy(&e->programs[e->replaced]);
    e->programs[e->replaced] = p;
    if (e->program_count <= e->replaced) e->program_count = e->replaced + 1;
    *out = p;
    return LS_OK;
}

// Whether the weights of the other one can be this one's.
static ls_status check_weights_of(const ls_engine *e) {
    const ls_engine *other = e->config.weights_of;
    if (!other) return LS_OK;
    if (other->config.length != e->config.length)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "weights cannot be shared: there are vectors of %lld and of %lld floats; both must have the "
                       "same parameters",
                       (long long)other->config.length, (long long)e->config.length);
    if (!e->config.push && (other->config.comm != e->config.comm || other->config.device != e->config.device))
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "weights cannot be shared: the two that want to train them are of different communicators or devices");
    if (other->strategy->weights_shared != e->strategy->weights_shared)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "weights cannot be shared: with the strategy %s there is one vector for each %s, with %s one for each %s; "
            "choose the same strategy",
            other->strategy->name, other->strategy->weights_shared ? "host" : "worker", e->strategy->name,
            e->strategy->weights_shared ? "host" : "worker");
    return LS_OK;
}

static ls_status build(ls_engine *e, const char *strategy) {
    LS_TRY(ls_strategy_find(strategy, &e->strategy));
    e->far = !e->config.device->ops->host_memory;
    e->rounds = e->config.compress == LS_COMPRESS_BF16;
    LS_TRY(make_mesh(e));
    LS_TRY(plan_emission(e));
    LS_TRY(check_weights_of(e));
    LS_TRY(ls__runs_create(e));
    LS_TRY(ls__topk_plan(e));
    LS_TRY(ls__norms_create(e));
    e->block = block_length(e);
    LS_TRY(plan_programs(e));
    LS_TRY(ls__places_plan(e));
    LS_TRY(ls_calloc(e->config.lanes, sizeof *e->lane, &e->lane));
    for (int lane = 0; lane < e->config.lanes; lane++) LS_TRY(plan_lane(e, lane));
    if (e->config.progress) LS_TRY(plan_hand(e, &e->progress_hand, -1));
    LS_TRY(ls__progress_plan(e));
    for (int i = 0; i < e->program_count; i++) LS_TRY(fit_requests(e, e->programs[i]));
    return LS_OK;
}

ls_status ls_engine_plan(const char *strategy, const ls_engine_config *config, ls_engine **out) {
    *out = NULL;
    if (config->lanes < 1 || config->micro_batches < 1 || config->length < 1 || config->length % LS_SLICE_ALIGN != 0)
        return LS_FAIL(LS_STATUS_INTERNAL, "steps of %d lanes, %lld micro-batches and %lld floats make no sense",
                       config->lanes, (long long)config->micro_batches, (long long)config->length);
    ls_engine *e;
    LS_TRY(ls_calloc(1, sizeof *e, &e));
    e->config = *config;
    ls_status status = build(e, strategy);
    e->config.segments = NULL;
    e->config.bucket_ends = NULL;
    e->config.other_counts = NULL;
    e->config.forward_order = NULL;
    if (status != LS_OK) {
        ls_engine_destroy(&e);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    *out = e;
    return LS_OK;
}

ls_status ls_engine_allocate(ls_engine *e) {
    ls_status status = ls__places_allocate(e);
    if (status == LS_OK) status = ls__progress_start(e);
    LS_TRY(ls_comm_agree(e->config.comm, status));
    return LS_OK;
}

void ls_engine_print(const ls_engine *e, int json, FILE *out) {
    ls_program_print(e->programs[0], &e->regions, json, out);
}

ls_status ls_engine_create(const char *strategy, const ls_engine_config *config, ls_engine **out) {
    ls_status status = ls_comm_agree(config->comm, ls_engine_plan(strategy, config, out));
    if (status == LS_OK && *out) status = ls_engine_allocate(*out);
    if (status != LS_OK) {
        ls_engine_destroy(out);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    return LS_OK;
}

void ls_engine_destroy(ls_engine **engine) {
    if (!engine || !*engine) return;
    ls_engine *e = *engine;
    ls__progress_free(e);
    for (int i = 0; e->lane && i < e->config.lanes; i++) {
        if (!e->lane[i]) continue;
        free(e->lane[i]->turn);
        ls_memory_free(e->lane[i]);
    }
    free(e->lane);
    ls__places_free(e);
    for (int i = 0; i < LS_MAX_PROGRAMS; i++) ls_program_destroy(&e->programs[i]);
    ls_regions_free(&e->regions);
    ls__norms_free(&e->norms);
    ls__topk_free(e);
    ls_mesh_destroy(&e->mesh);
    free(e->requests);
    free(e->counts);
    free(e->runs);
    free(e->bucket_ends);
    free(e->forward_order);
    free(e);
    *engine = NULL;
}

void ls_engine_abandon(ls_engine **engine) {
    if (!engine || !*engine) return;
    ls__progress_free(*engine);
    *engine = NULL;
}

int ls_engine_forward_bucket(const ls_engine *e, int part) {
    return e->forward_order ? e->forward_order[part] : e->emit.bucket_count - 1 - part;
}

const ls_engine_config *ls_engine_config_of(const ls_engine *e) { return &e->config; }
const ls_mesh *ls_engine_mesh(const ls_engine *e) { return e->mesh; }
int ls_engine_sends_totals(const ls_engine *e) { return e->emit.ways.totals && e->mesh->hosts > 1; }

const ls_program *ls_engine_program(const ls_engine *e, int64_t micro_batches, const ls_regions **regions) {
    if (regions) *regions = &e->regions;
    for (int i = 0; i < e->program_count; i++)
        if (e->programs[i]->micro_batches == micro_batches) return e->programs[i];
    return NULL;
}

// --- weights ---------------------------------------------------------------------------------------------------------

static const ls_place *place_of(const ls_engine *e, ls_region_kind kind) {
    for (int i = 0; i < e->regions.count && e->places; i++)
        if (e->regions.list[i].kind == kind) return &e->places[i];
    return NULL;
}

void *ls_engine_lane_gradients(const ls_engine *e, int lane, int64_t *bytes) {
    void *at = e->far ? NULL : ls_span_host(ls_engine_scratch_gradient(e, lane));
    *bytes = at ? e->slots * e->config.length * (int64_t)sizeof(float) : 0;
    return at;
}

ls_span ls_engine_weights(const ls_engine *e) {
    const ls_place *p = place_of(e, LS_REGION_WEIGHTS);
    return p ? p->device : (ls_span){0};
}

void *ls_engine_host_weights(const ls_engine *e) {
    const ls_place *p = place_of(e, LS_REGION_WEIGHTS);
    return p ? p->host : NULL;
}

ls_span ls_engine_copies(const ls_engine *e) {
    if (ls__shares_copies(e)) return ls_engine_copies(e->config.weights_of);
    const ls_place *p = place_of(e, LS_REGION_COPIES);
    return p ? p->device : (ls_span){0};
}

int ls_engine_writes_weights(const ls_engine *e) { return !ls__one_vector(e) || e->config.comm->local_rank == 0; }

static ls_status refresh(ls_engine *e, ls_queue *queue) {
    const ls_engine_config *config = &e->config;
    int part = ls__one_vector(e) ? config->comm->local_rank : 0;
    int parts = ls__one_vector(e) ? config->comm->local_size : 1;
    LS_TRY(config->refresh(config->refresh_user, queue, ls_engine_weights(e), ls_engine_copies(e), part, parts));
    return ls_synchronize(queue);
}

ls_status ls_engine_weights_changed(ls_engine *e, ls_queue *queue) {
    // What other workers take from the host's memory comes there whole in every step: nothing is to
    // be done for it.
    ls_status status = ls_synchronize(queue);
    LS_TRY(ls_comm_host_barrier(e->config.comm));
    if (e->config.refresh) {
        ls__keep(&status, refresh(e, queue));
        LS_TRY(ls_comm_host_barrier(e->config.comm));
    }
    return ls_comm_agree(e->config.comm, status);
}

// --- events ----------------------------------------------------------------------------------------------------------

int64_t ls_engine_lane_events(const ls_engine *e) {
    int64_t most = 0;
    for (int i = 0; i < e->program_count; i++)
        for (int q = 0; q < e->programs[i]->lanes; q++)
            if (e->programs[i]->queues[q].count > most) most = e->programs[i]->queues[q].count;
    return most + 4;
}

int64_t ls_engine_progress_events(const ls_engine *e) {
    int64_t most = 0;
    for (int i = 0; i < e->program_count && e->config.progress; i++) {
        int64_t events = 2;
        for (int q = e->programs[i]->lanes; q < e->programs[i]->queue_count; q++)
            for (int k = 0; k < e->programs[i]->queues[q].count; k++) {
                int kind = e->programs[i]->queues[q].tasks[k].kind;
                events += kind == LS_TASK_WAIT || kind == LS_TASK_SIGNAL ? 0 : 2;
            }
        if (events > most) most = events;
    }
    return most;
}

// --- asynchronous training -------------------------------------------------------------------------------------------

void *ls_engine_push(const ls_engine *e) {
    const ls_place *p = place_of(e, LS_REGION_PUSH);
    return p ? p->host : NULL;
}

ls_dtype ls_engine_push_type(const ls_engine *e) { return e->rounds ? LS_DTYPE_BF16 : LS_DTYPE_F32; }

// The sum of the slice comes to where a sum of the whole vector would have it.
ls_status ls_engine_apply_push(ls_engine *e, ls_queue *queue, const ls_step_info *info, void *sum) {
    int64_t size = (int64_t)ls_dtype_size(ls_engine_push_type(e)), from = e->config.push_begin;
    ls_step_times times = {.since = ls_clock()};
    ls_vote unused;
    if (from == e->config.push_end) return LS_OK;
    memcpy((char *)ls_engine_push(e) + from * size, sum, (size_t)((e->config.push_end - from) * size));
    LS_TRY(ls_engine_begin(e, 0, queue, info, NULL, &times));
    return ls_engine_end(e, 0, &unused);
}
