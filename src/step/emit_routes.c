// Sums to their owners, and weights or totals back.
//
// Inside a host nothing is sent: owners read what lanes hold. Between hosts a rank speaks for the
// owners that have its place on their hosts (a *column*), modulo the ranks of its own. What a host
// has for an owner goes to the next host on its route, together with what came to it for that owner
// before; one message carries all slices of a column that go the same way in the same round.
// Weights go the same ways back.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "step/emitter.h"

// Slices of some owners of one column, to or from another host.
typedef struct parcel {
    int sends;        // 1: this host sends sums, and receives what comes back
    int peer, round;  // rank
    int first, end;   // the hosts whose micro-batches are in it
    int *owners;      // (owner_count): ranks
    int owner_count;
} parcel;

typedef struct routes {
    ls_emitter *e;
    parcel *parcels;  // (count), in the order of rounds and columns
    int count, rounds;
} routes;

// --- who sends what to whom ------------------------------------------------------------------------------------------

typedef struct hop {
    int parent, round, first, end;  // [first, end): the hosts that a host speaks for when it sends
} hop;

// The route to an owner's host, of all hosts.
static void find_hops(const ls_emitter *e, int owner_host, hop *hops) {
    for (int h = 0; h < e->hosts; h++) {
        hops[h] = (hop){.first = h, .end = h + 1, .round = -1};
        hops[h].parent = e->c->ways.route(e->hosts, owner_host, h, &hops[h].round);
    }
    for (int round = 0; round <= ls_tree_levels(e->hosts); round++)
        for (int h = 0; h < e->hosts; h++) {
            hop *to = hops[h].parent >= 0 && hops[h].round == round ? &hops[hops[h].parent] : NULL;
            if (to && hops[h].first < to->first) to->first = hops[h].first;
            if (to && hops[h].end > to->end) to->end = hops[h].end;
        }
}

static int speaker(const ls_emitter *e, int host, int column) {
    const ls_mesh *m = e->c->mesh;
    return m->host_first[host] + column % ls_mesh_host_ranks(m, host);
}

static parcel *find_parcel(routes *r, int *capacity, int sends, int peer, int round, int first, int end) {
    for (int i = r->count - 1; i >= 0; i--) {
        parcel *p = &r->parcels[i];
        if (p->sends == sends && p->peer == peer && p->round == round && p->first == first && p->end == end) return p;
    }
    if (r->count == *capacity) {
        int larger = *capacity ? 2 * *capacity : 16;
        parcel *grown = realloc(r->parcels, (size_t)larger * sizeof *grown);
        if (!grown) return NULL;
        r->parcels = grown;
        *capacity = larger;
    }
    parcel *p = &r->parcels[r->count];
    *p = (parcel){.sends = sends, .peer = peer, .round = round, .first = first, .end = end};
    if (ls_calloc(r->e->hosts, sizeof *p->owners, &p->owners) != LS_OK) return NULL;
    r->count++;
    return p;
}

static int owns(const ls_emitter *e, int rank) {
    for (int b = 0; b < e->c->bucket_count; b++) {
        int64_t begin, end;
        ls_emit_slice(e->c, e->c->ways.sums, rank, b, &begin, &end);
        if (begin < end) return 1;
    }
    return 0;
}

static ls_status plan_owner(routes *r, int *capacity, int owner_host, int column, hop *hops) {
    ls_emitter *e = r->e;
    const ls_mesh *m = e->c->mesh;
    int owner = m->host_first[owner_host] + column;
    if (column >= ls_mesh_host_ranks(m, owner_host) || !owns(e, owner)) return LS_OK;
    find_hops(e, owner_host, hops);
    for (int h = 0; h < e->hosts; h++) {
        int sends = h == e->host;
        if (hops[h].parent < 0 || (!sends && hops[h].parent != e->host)) continue;
        int peer = speaker(e, sends ? hops[h].parent : h, column);
        parcel *p = find_parcel(r, capacity, sends, peer, hops[h].round, hops[h].first, hops[h].end);
        if (!p) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for a step's program");
        if (p->round >= r->rounds) r->rounds = p->round + 1;
        p->owners[p->owner_count++] = owner;
    }
    return LS_OK;
}

// By rounds, so that both sides have one order; in a round each host sends to the one after it
// first, or all would send to the first at once.
static int distance(const parcel *p, const ls_emitter *e) {
    int host = ls_mesh_host(e->c->mesh, p->peer);
    return ((p->sends ? host - e->host : e->host - host) + e->hosts) % e->hosts;
}

static void sort_parcels(routes *r) {
    for (int i = 1; i < r->count; i++) {
        parcel p = r->parcels[i];
        int k = i;
        for (; k > 0; k--) {
            const parcel *q = &r->parcels[k - 1];
            if (q->round < p.round || (q->round == p.round && distance(q, r->e) <= distance(&p, r->e))) break;
            r->parcels[k] = *q;
        }
        r->parcels[k] = p;
    }
}

static ls_status plan(routes *r) {
    ls_emitter *e = r->e;
    const ls_mesh *m = e->c->mesh;
    int columns = 0, capacity = 0;
    hop *hops;
    if (e->hosts == 1) return LS_OK;
    LS_TRY(ls_calloc(e->hosts, sizeof *hops, &hops));
    for (int h = 0; h < e->hosts; h++)
        if (ls_mesh_host_ranks(m, h) > columns) columns = ls_mesh_host_ranks(m, h);
    ls_status status = LS_OK;
    for (int column = e->place; column < columns; column += e->host_ranks)
        for (int host = 0; host < e->hosts && status == LS_OK; host++)
            status = plan_owner(r, &capacity, host, column, hops);
    free(hops);
    LS_TRY(status);
    sort_parcels(r);
    return LS_OK;
}

// --- what is in a message --------------------------------------------------------------------------------------------

// Owner i's slice of a bucket, with those of the next owners that lie behind it: returns the next
// owner.
static int next_part(const routes *r, const parcel *p, int bucket, int i, int64_t *begin, int64_t *end) {
    const ls_emit_config *c = r->e->c;
    ls_emit_slice(c, c->ways.sums, p->owners[i], bucket, begin, end);
    for (i++; i < p->owner_count; i++) {
        int64_t from, to;
        ls_emit_slice(c, c->ways.sums, p->owners[i], bucket, &from, &to);
        if (from != *end) break;
        *end = to;
    }
    return i;
}

static int nodes_of(const routes *r, const parcel *p, int64_t v, ls_piece *nodes) {
    int64_t begin, end;
    ls_mesh_deal_hosts(r->e->c->mesh, v, p->first, p->end, &begin, &end);
    return ls_tree_pieces(v, begin, end, nodes);
}

static int64_t length_of(const routes *r, const parcel *p, int bucket, int *parts) {
    int64_t length = 0, begin, end;
    *parts = 0;
    for (int i = 0; i < p->owner_count; ++*parts) {
        i = next_part(r, p, bucket, i, &begin, &end);
        length += end - begin;
    }
    return length;
}

static int message(routes *r, int parcel_index, int bucket, ls_dtype dtype, int64_t elements) {
    ls_emitter *e = r->e;
    if (elements > INT32_MAX && e->status == LS_OK)
        e->status = LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                            "messages of %lld numbers are more than MPI can send: take smaller buckets, or the "
                            "algorithm direct",
                            (long long)elements);
    // In the order in which they are asked for, which all programs of a rank have alike.
    return ls__region(e, (ls_region){.kind = LS_REGION_MESSAGE,
                                     .scope = LS_SCOPE_RANK,
                                     .rank = e->rank,
                                     .lane = -1,
                                     .index = bucket * 4 * (r->count + 1) + parcel_index,
                                     .device = 0,
                                     .dtype = dtype,
                                     .elements = elements});
}

static ls_dtype sum_dtype(const ls_emitter *e) { return e->c->rounds_nodes ? LS_DTYPE_BF16 : LS_DTYPE_F32; }

static int sums_region(routes *r, int i, int bucket) {
    ls_piece nodes[LS_TREE_MAX_PIECES];
    int parts;
    int n = nodes_of(r, &r->parcels[i], r->e->v, nodes);
    if (r->e->c->any_count) n = ls_emit_most_nodes(r->e->c);
    int64_t elements = length_of(r, &r->parcels[i], bucket, &parts) * n;
    return message(r, i, bucket, sum_dtype(r->e), elements);
}

// What has come, before round `before`, of sums of what `owner` owns, at element `at`. Returns how
// many.
static int received_nodes(routes *r, int before, int owner, int bucket, int64_t at, ls_operand *out) {
    int count = 0;
    for (int i = 0; i < r->count; i++) {
        const parcel *p = &r->parcels[i];
        int64_t offset = 0, begin, end;
        if (p->sends || p->round >= before) continue;
        int has = 0;
        for (int k = 0; k < p->owner_count; k++) has |= p->owners[k] == owner;
        if (!has) continue;
        ls_piece nodes[LS_TREE_MAX_PIECES];
        int n = nodes_of(r, p, r->e->v, nodes);
        for (int k = 0; k < p->owner_count; offset += n * (end - begin)) {
            k = next_part(r, p, bucket, k, &begin, &end);
            if (at < begin || at >= end) continue;
            int region = sums_region(r, i, bucket);
            for (int j = 0; j < n; j++)
                out[count++] = (ls_operand){region, offset + j * (end - begin) + at - begin, nodes[j]};
        }
    }
    return count;
}

// All that there is here, in the order of the tree.
static int list_before(routes *r, int before, int owner, int bucket, int64_t at, ls_operand *out) {
    int count = ls__host_nodes(r->e, at, out);
    count += received_nodes(r, before, owner, bucket, at, out + count);
    for (int i = 1; i < count; i++) {
        ls_operand o = out[i];
        int k = i;
        for (; k > 0 && out[k - 1].node.first > o.node.first; k--) out[k] = out[k - 1];
        out[k] = o;
    }
    return count;
}

static int list_all(void *user, ls_emitter *e, int rank, int bucket, int64_t at, ls_operand *out) {
    routes *r = user;
    return list_before(r, r->rounds, rank, bucket, at, out);
}

// --- sums ------------------------------------------------------------------------------------------------------------

static ls_task *transfer(ls_emitter *e, int queue, int sends, int bucket, int peer, int tag, int region, int64_t at,
                         int64_t elements, ls_piece node) {
    ls_task *t = ls__emit(e, queue, sends ? LS_TASK_SEND : LS_TASK_RECEIVE, bucket);
    t->peer = peer, t->tag = tag, t->end = elements;
    int operand = ls__operand(e, region, at, node);
    if (sends)
        t->input = operand, t->inputs = 1;
    else
        t->output = operand, t->outputs = 1;
    return t;
}

// One sum, in one part, that a lane holds as it is to be sent: it is sent from there. Nobody writes
// it before the answer has come.
static int is_there(routes *r, const parcel *p, int parts, int64_t begin, ls_operand *out) {
    ls_emitter *e = r->e;
    if (parts != 1 || e->c->rounds_nodes || e->c->far || p->end - p->first != 1) return 0;
    if (ls__host_nodes(e, begin, e->scratch) != 1) return 0;
    *out = e->scratch[0];
    return 1;
}

// The sums of a round that this host sends: its adders share each part.
static void send_sums(routes *r, int bucket, int round) {
    ls_emitter *e = r->e;
    ls_crowd adders = ls__adders(e, bucket);
    int q = ls__communicates(e, bucket), any = 0;
    for (int i = 0; i < r->count; i++) {
        const parcel *p = &r->parcels[i];
        ls_piece nodes[LS_TREE_MAX_PIECES];
        int64_t begin, end, offset = 0;
        int parts;
        ls_operand there;
        if (!p->sends || p->round != round) continue;
        any = 1;
        int n = nodes_of(r, p, e->v, nodes);
        length_of(r, p, bucket, &parts);
        next_part(r, p, bucket, 0, &begin, &end);
        int region = sums_region(r, i, bucket);
        if (n == 0 || is_there(r, p, parts, begin, &there)) continue;
        for (int k = 0; k < p->owner_count; offset += n * (end - begin)) {
            int owner = p->owners[k];
            k = next_part(r, p, bucket, k, &begin, &end);
            for (int part = 0; part < adders.count; part++) {
                int64_t from, to;
                ls_emit_share(begin, end, part, adders.count, &from, &to);
                if (from == to) continue;
                int count = list_before(r, round, owner, bucket, from, e->scratch);
                ls_task *t = ls__emit(e, adders.first + part, LS_TASK_ADD, bucket);
                t->begin = from, t->end = to;
                ls__inputs(e, t, count);
                t->output = e->p->operand_count;
                t->outputs = n;
                for (int j = 0; j < n; j++) ls__operand(e, region, offset + j * (end - begin) + from - begin, nodes[j]);
            }
        }
    }
    if (!any) return;
    ls__join(e, adders, q, bucket);
    for (int i = 0; i < r->count; i++) {
        const parcel *p = &r->parcels[i];
        ls_piece nodes[LS_TREE_MAX_PIECES];
        int64_t begin, end;
        int parts;
        if (!p->sends || p->round != round) continue;
        int n = nodes_of(r, p, e->v, nodes);
        int64_t elements = length_of(r, p, bucket, &parts) * n;
        ls_operand there = {sums_region(r, i, bucket), 0, {0, 0}};
        if (elements == 0) continue;
        next_part(r, p, bucket, 0, &begin, &end);
        is_there(r, p, parts, begin, &there);
        transfer(e, q, 1, bucket, p->peer, ls__tag(LS_TAG_SUMS, bucket), there.region, there.at, elements, nodes[0]);
    }
}

static void receive_sums(routes *r, int bucket, int round) {
    ls_emitter *e = r->e;
    int q = ls__communicates(e, bucket);
    for (int i = 0; i < r->count; i++) {
        const parcel *p = &r->parcels[i];
        ls_piece nodes[LS_TREE_MAX_PIECES];
        int parts;
        if (p->sends || p->round != round) continue;
        int n = nodes_of(r, p, e->v, nodes), region = sums_region(r, i, bucket);
        int64_t elements = length_of(r, p, bucket, &parts) * n;
        if (elements == 0) continue;
        transfer(e, q, 0, bucket, p->peer, ls__tag(LS_TAG_SUMS, bucket), region, 0, elements, nodes[0]);
    }
}

// --- back ------------------------------------------------------------------------------------------------------------

// What goes back of what an owner owns: elements of a region.
typedef struct load {
    int region, flow;
    const int64_t *firsts;  // (ranks + 1): where an owner's begin; NULL: its slice of the bucket
} load;

static int next_load(const routes *r, const parcel *p, const load *l, int bucket, int i, int64_t *begin, int64_t *end) {
    if (!l->firsts) return next_part(r, p, bucket, i, begin, end);
    *begin = l->firsts[p->owners[i]], *end = l->firsts[p->owners[i] + 1];
    return i + 1;
}

// A parcel's load: as it lies, if it is in one part, else by way of a message.
static void carry(routes *r, int i, const load *l, int bucket, int queue, int sends) {
    ls_emitter *e = r->e;
    const parcel *p = &r->parcels[i];
    int64_t elements = 0, begin = 0, end = 0, at = 0;
    int parts = 0;
    for (int k = 0; k < p->owner_count;) {
        int64_t from, to;
        k = next_load(r, p, l, bucket, k, &from, &to);
        if (from == to) continue;
        parts++;
        elements += to - from;
        begin = from, end = to;
    }
    if (elements == 0) return;
    int tag = ls__tag(l->flow, bucket < 0 ? 0 : bucket);
    ls_dtype dtype = e->regions->list[l->region].dtype;
    int by = parts > 1 ? message(r, (r->count + 1) * (1 + (l->flow > LS_TAG_BACK) + (l->flow > LS_TAG_SQUARES)) + i,
                                 bucket < 0 ? 0 : bucket, dtype, elements)
                       : l->region;
    if (parts == 1) {
        transfer(e, queue, sends, bucket, p->peer, tag, by, begin, end - begin, (ls_piece){0, 0});
        return;
    }
    if (!sends) transfer(e, queue, 0, bucket, p->peer, tag, by, 0, elements, (ls_piece){0, 0});
    for (int k = 0; k < p->owner_count;) {
        k = next_load(r, p, l, bucket, k, &begin, &end);
        if (begin == end) continue;
        ls_task *t = ls__emit(e, queue, LS_TASK_COPY, bucket);
        t->begin = begin, t->end = end;
        t->inputs = t->outputs = 1;
        t->input =
            sends ? ls__operand(e, l->region, begin, (ls_piece){0, 0}) : ls__operand(e, by, at, (ls_piece){0, 0});
        t->output =
            sends ? ls__operand(e, by, at, (ls_piece){0, 0}) : ls__operand(e, l->region, begin, (ls_piece){0, 0});
        at += end - begin;
    }
    if (sends) transfer(e, queue, 1, bucket, p->peer, tag, by, 0, elements, (ls_piece){0, 0});
}

static void send_back(routes *r, const load *l, int bucket, int queue, int round) {
    for (int i = 0; i < r->count; i++)
        if (!r->parcels[i].sends && r->parcels[i].round == round) carry(r, i, l, bucket, queue, 1);
}

static void receive_back(routes *r, const load *l, int bucket, int queue, int round) {
    for (int i = 0; i < r->count; i++)
        if (r->parcels[i].sends && r->parcels[i].round == round) carry(r, i, l, bucket, queue, 0);
}

// From the last round to the first: in each, what is here goes on before what is on its way is
// waited for.
static void all_back(routes *r, const load *l, int bucket, int queue) {
    for (int round = r->rounds - 1; round >= 0; round--) {
        send_back(r, l, bucket, queue, round);
        receive_back(r, l, bucket, queue, round);
    }
}

// --- stages of a bucket ----------------------------------------------------------------------------------------------

static void begin_bucket(routes *r, int bucket) {
    ls_emitter *e = r->e;
    ls_crowd adders = ls__adders(e, bucket);
    for (int i = 0; i < adders.count; i++) ls__wait(e, adders.first + i, e->ready + bucket, 0, bucket);
    if (e->hosts > 1) send_sums(r, bucket, 0);
}

// Until all sums are there.
static void bring(routes *r, int bucket, ls_crowd to) {
    ls_emitter *e = r->e;
    int q = ls__communicates(e, bucket);
    ls_crowd adders = ls__adders(e, bucket);
    for (int round = 0; round < r->rounds; round++) {
        receive_sums(r, bucket, round);
        if (round + 1 < r->rounds) ls__fork(e, q, adders, bucket);
        if (round + 1 < r->rounds) send_sums(r, bucket, round + 1);
    }
    if (e->hosts > 1)
        ls__fork(e, q, to, bucket);
    else if (to.first != adders.first || to.count != adders.count)  // who updates has not waited for the lanes
        for (int i = 0; i < to.count; i++) ls__wait(e, to.first + i, e->ready + bucket, 0, bucket);
}

// New weights go out; those of others come.
static void weights_out(routes *r, const load *l, int bucket) {
    ls_emitter *e = r->e;
    if (e->hosts == 1) return;
    ls__join(e, ls__updaters(e, bucket), ls__communicates(e, bucket), bucket);
    send_back(r, l, bucket, ls__communicates(e, bucket), r->rounds - 1);
}

// Whether the queue that communicates is the one that updates.
static int is_one(const ls_emitter *e, int bucket) {
    ls_crowd updaters = ls__updaters(e, bucket);
    return updaters.count == 1 && updaters.first == ls__communicates(e, bucket);
}

static void weights_in(routes *r, const load *l, int bucket) {
    ls_emitter *e = r->e;
    int q = ls__communicates(e, bucket);
    for (int round = r->rounds - 1; round >= 0; round--) {
        if (round < r->rounds - 1) send_back(r, l, bucket, q, round);
        receive_back(r, l, bucket, q, round);
    }
    if (e->hosts > 1 || is_one(e, bucket)) ls__signal(e, q, e->whole + bucket, bucket);
}

// Its updaters have done their part of a bucket; where it is one queue that receives, too, it says
// so after that.
static void updated(ls_emitter *e, int bucket) {
    ls_crowd updaters = ls__updaters(e, bucket);
    if (!e->c->ways.totals && is_one(e, bucket)) return;
    for (int i = 0; i < updaters.count; i++) ls__signal(e, updaters.first + i, e->whole + bucket, bucket);
}

// Squares of what all have measured come to all: between hosts on the ways of weights.
static void share(void *user, ls_emitter *e, int layers) {
    routes *r = user;
    load l = {layers ? e->layer_squares : e->squares, layers ? LS_TAG_LAYERS : LS_TAG_SQUARES,
              layers ? e->c->layer_squares : e->c->squares};
    if (e->hosts == 1 || e->c->ways.totals) return;
    all_back(r, &l, -1, e->late);
}

static void update_with_weights(routes *r) {
    ls_emitter *e = r->e;
    const ls_emit_config *c = e->c;
    load l = {e->staged >= 0 ? e->staged : e->weights, LS_TAG_BACK, NULL};
    int norms = c->clips || c->layerwise;
    for (int i = 0; i < c->bucket_count && !c->progress; i++) begin_bucket(r, ls__bucket_at(c, i));
    if (!c->progress) ls__emit_votes(e);
    for (int i = 0; i < c->bucket_count; i++) {
        int b = ls__bucket_at(c, i);
        if (c->progress) begin_bucket(r, b);
        bring(r, b, ls__updaters(e, b));
        ls__emit_update(e, b, list_all, r);
        if (norms) continue;
        updated(e, b);
        weights_out(r, &l, b);
        if (c->progress) weights_in(r, &l, b);
    }
    if (norms) {
        ls__emit_measured(e, share, r);
        for (int i = 0; i < c->bucket_count; i++) {
            int b = ls__bucket_at(c, i);
            ls__emit_update_kept(e, b);
            updated(e, b);
            weights_out(r, &l, b);
        }
    }
    for (int i = 0; i < c->bucket_count && (!c->progress || norms); i++) weights_in(r, &l, ls__bucket_at(c, i));
}

// --- totals ----------------------------------------------------------------------------------------------------------

// The root of the tree of what this rank owns: its adders share it.
static void add_total(routes *r, int bucket) {
    ls_emitter *e = r->e;
    ls_crowd adders = ls__adders(e, bucket);
    int64_t begin, end;
    ls_emit_slice(e->c, e->c->ways.sums, e->rank, bucket, &begin, &end);
    for (int i = 0; i < adders.count; i++) {
        int64_t from, to;
        ls_emit_share(begin, end, i, adders.count, &from, &to);
        if (from < to) {
            int count = list_before(r, r->rounds, e->rank, bucket, from, e->scratch);
            ls_task *t = ls__emit(e, adders.first + i, LS_TASK_ADD, bucket);
            t->begin = from, t->end = to;
            ls__inputs(e, t, count);
            ls_piece root = {0, ls_tree_levels(e->v)};
            t->output = ls__operand(e, e->totals, from, root);
            t->outputs = 1;
        }
        if (e->hosts == 1 || !e->c->progress) ls__signal(e, adders.first + i, e->total + bucket, bucket);
    }
}

static int list_total(void *user, ls_emitter *e, int rank, int bucket, int64_t at, ls_operand *out) {
    (void)user, (void)rank, (void)bucket;
    out[0] = (ls_operand){e->totals, at, {0, ls_tree_levels(e->v)}};
    return 1;
}

static void total_back(routes *r, const load *l, int bucket) {
    ls_emitter *e = r->e;
    int q = ls__communicates(e, bucket);
    if (e->hosts == 1) return;
    ls__join(e, ls__adders(e, bucket), q, bucket);
    send_back(r, l, bucket, q, r->rounds - 1);
}

static void total_in(routes *r, const load *l, int bucket) {
    ls_emitter *e = r->e;
    int q = ls__communicates(e, bucket);
    for (int round = r->rounds - 1; round >= 0 && e->hosts > 1; round--) {
        if (round < r->rounds - 1) send_back(r, l, bucket, q, round);
        receive_back(r, l, bucket, q, round);
    }
    if (e->hosts > 1) ls__signal(e, q, e->total + bucket, bucket);
}

static void update_with_total(routes *r, int bucket) {
    ls_emitter *e = r->e;
    ls_crowd updaters = ls__updaters(e, bucket);
    for (int i = 0; i < updaters.count; i++) ls__wait(e, updaters.first + i, e->total + bucket, 0, bucket);
    ls__emit_update(e, bucket, list_total, r);
}

static void update_with_totals(routes *r) {
    ls_emitter *e = r->e;
    const ls_emit_config *c = e->c;
    load l = {e->totals, LS_TAG_BACK, NULL};
    int norms = c->clips || c->layerwise;
    for (int i = 0; i < c->bucket_count && !c->progress; i++) begin_bucket(r, ls__bucket_at(c, i));
    if (!c->progress) ls__emit_votes(e);
    for (int i = 0; i < c->bucket_count; i++) {
        int b = ls__bucket_at(c, i);
        if (c->progress) begin_bucket(r, b);
        bring(r, b, ls__adders(e, b));
        add_total(r, b);
        total_back(r, &l, b);
        if (!c->progress) continue;
        total_in(r, &l, b);
        update_with_total(r, b);
        if (!norms) updated(e, b);
    }
    for (int i = 0; i < c->bucket_count && !c->progress; i++) {
        int b = ls__bucket_at(c, i);
        total_in(r, &l, b);
        update_with_total(r, b);
        if (!norms) updated(e, b);
    }
    if (norms) {
        ls__emit_measured(e, share, r);
        for (int i = 0; i < c->bucket_count; i++) {
            ls__emit_update_kept(e, ls__bucket_at(c, i));
            updated(e, ls__bucket_at(c, i));
        }
    }
}

void ls__emit_routes(ls_emitter *e) {
    routes r = {.e = e};
    ls_status status = plan(&r);
    if (status != LS_OK && e->status == LS_OK) e->status = status;
    if (status == LS_OK && e->c->ways.totals)
        update_with_totals(&r);
    else if (status == LS_OK)
        update_with_weights(&r);
    for (int i = 0; i < r.count; i++) free(r.parcels[i].owners);
    free(r.parcels);
}
