// Recursive halving (halving.c): who holds what after each round, and so who exchanges what with whom.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "strategy/halving.h"

// --- who holds what --------------------------------------------------------------------------------------------------

// The half of the group that the host is in, or the other one.
static ls_host_group half_of(ls_host_group g, int host, int other) {
    int left = (g.count + 1) / 2, is_right = host >= g.first + left;
    return is_right != other ? (ls_host_group){g.first + left, g.count - left} : (ls_host_group){g.first, left};
}

static int is_in(ls_host_group g, int host) { return host >= g.first && host < g.first + g.count; }

// The host's group once the hosts have been halved so often.
static ls_host_group group_at(int hosts, int host, int depth) {
    ls_host_group g = {0, hosts};
    for (; depth > 0 && g.count > 1; depth--) g = half_of(g, host, 0);
    return g;
}

// Who, in that group, holds the sums of what `owner` owns: the owner, or else whoever stands where the holder stands in the other half.
static int holder(int hosts, int owner, int host, int depth) {
    ls_host_group g = {0, hosts};
    for (; depth > 0 && g.count > 1; depth--) {
        ls_host_group mine = half_of(g, host, 0), other = half_of(g, host, 1);
        if (is_in(other, owner)) owner = mine.first + (owner - other.first) % mine.count;
        g = mine;
    }
    return owner;
}

// The worker of a host that speaks for a column.
static int speaker(const ls_strategy *s, int host, int column) {
    int first = s->host_first[host], workers = s->host_first[host + 1] - first;
    return s->config.comm->order[first + column % workers];
}

void ls__halving_owned(const ls_strategy *s, int host, int column, int bucket, int64_t *begin, int64_t *end) {
    int position = s->host_first[host] + column, replicas = s->config.replicas;
    int64_t unused;
    *begin = *end = ls__bucket_begin(s, bucket);
    if (position >= s->host_first[host + 1]) return;
    ls__owners_all(s, position * replicas, bucket, begin, &unused);
    ls__owners_all(s, (position + 1) * replicas - 1, bucket, &unused, end);
}

// --- planning --------------------------------------------------------------------------------------------------------

static void free_parcels(ls_parcel *parcels, int count) {
    for (int i = 0; i < count; i++) {
        free(parcels[i].owners);
        free(parcels[i].starts);
    }
    free(parcels);
}

void ls__halving_destroy(ls_strategy *s) {
    ls_halving *h = ls__halving_of(s);
    for (int k = 0; h->rounds && k < h->round_count; k++) {
        free_parcels(h->rounds[k].sends, h->rounds[k].send_count);
        free_parcels(h->rounds[k].receives, h->rounds[k].receive_count);
    }
    free(h->rounds);
    free(h->requests);
    free(h->pending);
    free(h->round);
    free(h->gathers);
    free(h);
}

// The parcel of this column from or to a host, which is made when it is needed first; NULL: out of memory.
static ls_parcel *find_parcel(const ls_strategy *s, ls_parcel *parcels, int *count, int host, int column,
                              ls_host_group of) {
    int rank = speaker(s, host, column);
    for (int i = 0; i < *count; i++)
        if (parcels[i].rank == rank && parcels[i].column == column) return &parcels[i];
    ls_parcel *p = &parcels[*count];
    *p = (ls_parcel){.rank = rank, .column = column, .of = of};
    if (ls_calloc(s->config.comm->hosts, sizeof *p->owners, &p->owners) != LS_OK) return NULL;
    ++*count;
    return p;
}

static ls_status plan_parcel(ls_strategy *s, ls_parcel *p) {
    int64_t before = 0, begin, end;
    int entries = p->owner_count + 1;
    LS_TRY(ls_calloc((int64_t)s->bucket_count * entries, sizeof *p->starts, &p->starts));
    for (int b = 0; b < s->bucket_count; b++) {
        for (int i = 0; i < p->owner_count; i++) {
            p->starts[b * entries + i] = before;
            ls__halving_owned(s, p->owners[i], p->column, b, &begin, &end);
            before += end - begin;
        }
        p->starts[b * entries + p->owner_count] = before;
    }
    int64_t sums = ls__most_pieces(s, p->of.first, p->of.first + p->of.count) * ls__sum_bytes(s);
    int64_t largest = 0;
    for (int b = 0; b < s->bucket_count; b++) {
        const int64_t *starts = ls__parcel_starts(p, b);
        if (starts[p->owner_count] - starts[0] > largest) largest = starts[p->owner_count] - starts[0];
    }
    if (largest > INT32_MAX / (sums / ls__sum_bytes(s)))
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "messages of %lld numbers are more than MPI can send: take smaller buckets, or the algorithm direct",
            (long long)(largest * (sums / ls__sum_bytes(s))));
    p->stride = sums > (int64_t)sizeof(float) ? sums : (int64_t)sizeof(float);
    return LS_OK;
}

// What is exchanged in a column when the two halves of this host's group at `depth` are made one.
static ls_status plan_column(ls_strategy *s, ls_halving_round *r, int depth, int column) {
    int hosts = s->config.comm->hosts, me = s->config.comm->host;
    ls_host_group mine = group_at(hosts, me, depth + 1);
    for (int owner = 0; owner < hosts; owner++) {
        if (holder(hosts, owner, me, depth + 1) != me) continue;
        int there = holder(hosts, owner, r->sibling.first, depth + 1), sends = holder(hosts, owner, me, depth) != me;
        ls_parcel *p = sends ? find_parcel(s, r->sends, &r->send_count, there, column, mine)
                             : find_parcel(s, r->receives, &r->receive_count, there, column, r->sibling);
        if (!p) return LS_STATUS_OUT_OF_MEMORY;
        p->owners[p->owner_count++] = owner;
    }
    return LS_OK;
}

static ls_status plan_round(ls_strategy *s, ls_halving_round *r, int depth) {
    ls_halving *h = ls__halving_of(s);
    const ls_comm *comm = s->config.comm;
    r->sibling = half_of(group_at(comm->hosts, comm->host, depth), comm->host, 1);
    int64_t most = (int64_t)r->sibling.count * h->columns;
    LS_TRY(ls_calloc(most, sizeof *r->sends, &r->sends));
    LS_TRY(ls_calloc(most, sizeof *r->receives, &r->receives));
    for (int column = comm->local_rank; column < h->columns; column += comm->local_size)
        LS_TRY(plan_column(s, r, depth, column));
    for (int i = 0; i < r->send_count; i++) {
        ls_parcel *p = &r->sends[i];
        LS_TRY(plan_parcel(s, p));
        int64_t length = p->starts[s->bucket_count * (p->owner_count + 1) - 1];
        LS_TRY(ls__want(s, LS_STRATEGY_SUMS, LS_WORKER, length * p->stride, &p->data.host));
    }
    for (int i = 0; i < r->receive_count; i++) {
        ls_parcel *p = &r->receives[i];
        LS_TRY(plan_parcel(s, p));
        int64_t length = p->starts[s->bucket_count * (p->owner_count + 1) - 1];
        LS_TRY(ls__want_window(s, LS_STRATEGY_SUMS, LS_WORKER, length * p->stride, &p->data));
    }
    r->first_request = h->request_count;
    h->request_count += r->send_count + r->receive_count;
    return LS_OK;
}

ls_status ls__halving_plan(ls_strategy *s) {
    const ls_comm *comm = s->config.comm;
    ls_halving *h;
    LS_TRY(ls_calloc(1, sizeof *h, &h));
    s->impl = h;
    for (int host = 0; host < comm->hosts; host++) {
        int workers = s->host_first[host + 1] - s->host_first[host];
        if (workers > h->columns) h->columns = workers;
    }
    for (int b = 0; b < s->bucket_count; b++)
        for (int host = 0; host < comm->hosts; host++)
            for (int column = comm->local_rank; column < h->columns; column += comm->local_size) {
                int64_t begin, end;
                ls__halving_owned(s, host, column, b, &begin, &end);
                s->reads += end - begin;
            }
    int levels = ls__levels(comm->hosts);
    LS_TRY(ls_calloc(levels, sizeof *h->rounds, &h->rounds));
    for (int depth = levels - 1; depth >= 0; depth--) {
        if (group_at(comm->hosts, comm->host, depth).count < 2)
            continue;  // a ls_host_group of one while others are of two
        LS_TRY(plan_round(s, &h->rounds[h->round_count++], depth));
    }
    LS_TRY(ls_calloc((int64_t)s->bucket_count * h->request_count, sizeof *h->requests, &h->requests));
    LS_TRY(ls_calloc((int64_t)s->bucket_count * h->round_count, sizeof *h->pending, &h->pending));
    LS_TRY(ls_calloc(s->bucket_count, sizeof *h->round, &h->round));
    return ls_calloc(s->bucket_count, 1, &h->gathers);
}
