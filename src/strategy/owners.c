// Owners of sums: who has which run of a bucket, who on other hosts speaks to them, and how sums get there.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "strategy/strategy_impl.h"

void ls__owners_all(const ls_strategy *s, int lane, int bucket, int64_t *begin, int64_t *end) {
    ls__share(ls__bucket_begin(s, bucket), s->bucket_ends[bucket], lane, s->lanes, begin, end);
}

void ls__owners_each_host(const ls_strategy *s, int lane, int bucket, int64_t *begin, int64_t *end) {
    const ls_comm *comm = s->config.comm;
    int host = comm->host_of[comm->order[lane / s->config.replicas]], replicas = s->config.replicas;
    ls__share(ls__bucket_begin(s, bucket), s->bucket_ends[bucket], lane - s->host_first[host] * replicas,
              (s->host_first[host + 1] - s->host_first[host]) * replicas, begin, end);
}

// --- planning --------------------------------------------------------------------------------------------------------

static void slices_of_worker(const ls_strategy *s, ls_cut *cut, int position, ls_slice *slices) {
    int replicas = s->config.replicas;
    ls__slices(s, cut, position * replicas, (position + 1) * replicas - 1, slices);
}

// The position of the worker on `host` that speaks to the owner at `position`.
static int speaker(const ls_strategy *s, int host, int position) {
    int owner_host = s->config.comm->host_of[s->config.comm->order[position]];
    int place = position - s->host_first[owner_host];
    return s->host_first[host] + place % (s->host_first[host + 1] - s->host_first[host]);
}

static ls_status find_served(ls_strategy *s, ls_cut *cut, ls_owners *o) {
    const ls_comm *comm = s->config.comm;
    LS_TRY(ls_calloc(comm->size, sizeof *o->served, &o->served));
    for (int i = 0; i < comm->size; i++) {
        int position = (s->host_first[comm->host + 1] + i) % comm->size, rank = comm->order[position];
        if (comm->host_of[rank] == comm->host || speaker(s, comm->host, position) != comm->position) continue;
        ls_served *to = &o->served[o->served_count];
        LS_TRY(ls_calloc(s->bucket_count, sizeof *to->slices, &to->slices));
        o->served_count++;
        to->rank = rank;
        slices_of_worker(s, cut, position, to->slices);
        int64_t length = ls__slices_length(s, to->slices);
        LS_TRY(ls__want(s, LS_STRATEGY_SUMS, LS_WORKER, s->host_pieces * length * ls__sum_bytes(s), &to->partials));
        s->reads += length;
    }
    return LS_OK;
}

static ls_status find_remotes(ls_strategy *s, ls_owners *o) {
    const ls_comm *comm = s->config.comm;
    int64_t bytes = s->host_pieces * ls__slices_length(s, o->slices) * ls__sum_bytes(s);
    LS_TRY(ls_calloc(comm->hosts, sizeof *o->remotes, &o->remotes));
    for (int host = 0; host < comm->hosts; host++) {
        if (host == comm->host) continue;
        o->remotes[host].rank = comm->order[speaker(s, host, comm->position)];
        LS_TRY(ls__want_window(s, LS_STRATEGY_SUMS, LS_WORKER, bytes, &o->remotes[host].partials));
    }
    return LS_OK;
}

ls_status ls__owners_find(ls_strategy *s, ls_cut *cut, ls_owners *out) {
    LS_TRY(ls_calloc(s->bucket_count, sizeof *out->slices, &out->slices));
    slices_of_worker(s, cut, s->config.comm->position, out->slices);
    s->reads = ls__slices_length(s, out->slices);
    if (s->config.comm->hosts == 1) return LS_OK;
    LS_TRY(find_remotes(s, out));
    return find_served(s, cut, out);
}

void ls__owners_free(ls_owners *o) {
    for (int i = 0; i < o->served_count; i++) free(o->served[i].slices);
    free(o->slices);
    free(o->served);
    free(o->remotes);
}

// --- messages --------------------------------------------------------------------------------------------------------

ls_status ls__receive(ls_strategy *s, ls_messages *m, void *data, int64_t count, ls_dtype dtype, int rank, int tag) {
    if (count == 0) return LS_OK;
    LS_TRY(ls_comm_irecv(s->config.comm, data, count, dtype, rank, tag, &m->requests[m->count]));
    m->count++;
    return LS_OK;
}

ls_status ls__send(ls_strategy *s, ls_messages *m, const void *data, int64_t count, ls_dtype dtype, int rank, int tag) {
    if (count == 0) return LS_OK;
    LS_TRY(ls_comm_isend(s->config.comm, data, count, dtype, rank, tag, &m->requests[m->count]));
    m->count++;
    return LS_OK;
}

ls_status ls__wait_messages(ls_strategy *s, ls_messages *m) {
    int count = m->count;
    m->count = 0;
    return ls_comm_wait_all(s->config.comm, m->requests, count);
}

// What another host has for what this worker owns of a bucket.
static ls_window received_at(const ls_strategy *s, const ls_owners *o, int host, int bucket) {
    return ls__window_at(o->remotes[host].partials, s->host_pieces * o->slices[bucket].first * ls__sum_bytes(s));
}

static void *partials_of(const ls_strategy *s, const ls_served *to, int bucket) {
    return to->partials + s->host_pieces * to->slices[bucket].first * ls__sum_bytes(s);
}

ls_status ls__owners_receive(ls_strategy *s, const ls_owners *o, int64_t micro_batches, int bucket, ls_messages *m) {
    const ls_comm *comm = s->config.comm;
    for (int host = 0; host < comm->hosts; host++) {
        if (host == comm->host) continue;
        int64_t count = ls__host_piece_count(s, micro_batches, host) * ls__slice_length(o->slices[bucket]);
        LS_TRY(ls__receive(s, m, received_at(s, o, host, bucket).host, count, ls__sum_dtype(s), o->remotes[host].rank,
                           ls__tag(LS_MESSAGE_GRADIENTS, bucket)));
    }
    return LS_OK;
}

// Where a host with one sum has elements from `at` on: it is sent from there, without a copy. NULL: there are several, or messages do not
// reach or have it as it is. Nobody writes it before the step's weights are home, and with them this message has gone.
static const void *only_sum(const ls_lane_step *step, int64_t at) {
    const ls_strategy *s = step->strategy;
    ls_source *sources = step->lane->sources;
    if (ls__rounds(s) || !ls__host_memory(s)) return NULL;
    if (ls__host_sources(s, step->info->micro_batches, sources) != 1) return NULL;
    return ls__window_at(sources[0].data, (at - sources[0].first) * (int64_t)sizeof(float)).host;
}

static ls_status send_all(const ls_lane_step *step, const ls_owners *o, int bucket, ls_messages *m) {
    ls_strategy *s = step->strategy;
    int pieces = ls__host_piece_count(s, step->info->micro_batches, s->config.comm->host);
    for (int i = 0; i < o->served_count; i++) {
        const ls_served *to = &o->served[i];
        ls_slice theirs = to->slices[bucket];
        const void *sum = only_sum(step, theirs.begin);
        LS_TRY(ls__send(s, m, sum ? sum : partials_of(s, to, bucket), pieces * ls__slice_length(theirs),
                        ls__sum_dtype(s), to->rank, ls__tag(LS_MESSAGE_GRADIENTS, bucket)));
    }
    return LS_OK;
}

ls_status ls__owners_send(ls_lane_step *step, const ls_owners *o, int bucket, ls_messages *m) {
    ls_strategy *s = step->strategy;
    ls_status status = LS_OK;
    for (int i = 0; i < o->served_count; i++) {
        const ls_served *to = &o->served[i];
        ls_slice theirs = to->slices[bucket];
        if (only_sum(step, theirs.begin)) continue;
        ls__keep(&status, ls__host_partials(step, theirs.begin, theirs.end, partials_of(s, to, bucket)));
    }
    ls__keep(&status, ls_synchronize(step->queue));
    ls__lap(step->times, LS_STEP_SUM);
    ls__meet(step, LS_STEP_WAIT);
    if (step->replica == 0) {
        ls__keep(&status, send_all(step, o, bucket, m));
        ls__lap(step->times, LS_STEP_SEND);
    }
    return status;
}

void ls__owners_sources(const ls_lane_step *step, const ls_owners *o, int bucket) {
    const ls_strategy *s = step->strategy;
    const ls_comm *comm = s->config.comm;
    ls_lane *lane = step->lane;
    ls_slice mine = o->slices[bucket];
    int64_t v = step->info->micro_batches;
    lane->source_count = 0;
    for (int host = 0; host < comm->hosts; host++) {
        ls_source *sources = lane->sources + lane->source_count;
        lane->source_count += host == comm->host
                                  ? ls__host_sources(s, v, sources)
                                  : ls__received_sources(s, v, host, host + 1, received_at(s, o, host, bucket),
                                                         mine.begin, ls__slice_length(mine), sources);
    }
}
