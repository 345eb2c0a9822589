// Exchanges without owners: of top-k, whose nodes go to all hosts as they are; and those of
// asynchronous training, which is between a worker and servers.
#include "step/emitter.h"

// --- top-k -----------------------------------------------------------------------------------------------------------

// The lane of a host that encodes a column, and the rank that sends and takes it.
static int encoder(const ls_emitter *e, int host, int column) {
    return column % (ls_mesh_host_ranks(e->c->mesh, host) * e->c->mesh->lanes);
}
static int speaker(const ls_emitter *e, int host, int column) {
    return e->c->mesh->host_first[host] + encoder(e, host, column) / e->c->mesh->lanes;
}

static int nodes_of_host(const ls_emitter *e, int host, ls_piece *nodes) {
    int64_t begin, end;
    ls_mesh_deal_hosts(e->c->mesh, e->v, host, host + 1, &begin, &end);
    return ls_tree_pieces(e->v, begin, end, nodes);
}

// Words before a column of a bucket in what comes from a host.
static int64_t received_at(const ls_emitter *e, int host, int bucket, int column) {
    const ls_emit_config *c = e->c;
    int64_t words = 0;
    for (int b = 0; b <= bucket; b++)
        for (int k = 0; k < (b < bucket ? c->column_count : column); k++)
            words += c->sparse_words(c->sparse_user, host, b, k);
    return words;
}

static int received_region(ls_emitter *e, int host) {
    ls_region region = {.kind = LS_REGION_SPARSE, .scope = LS_SCOPE_HOST, .lane = -1, .index = host};
    region.rank = e->c->mesh->host_first[e->host];
    region.dtype = LS_DTYPE_I32;
    return ls__region(e, region);
}

static int sent_region(ls_emitter *e, int bucket, int column) {
    const ls_emit_config *c = e->c;
    return ls__region(e, (ls_region){.kind = LS_REGION_MESSAGE,
                                     .scope = LS_SCOPE_RANK,
                                     .rank = e->rank,
                                     .lane = -1,
                                     .index = bucket * c->column_count + column,
                                     .dtype = LS_DTYPE_I32,
                                     .elements = c->sparse_words(c->sparse_user, e->host, bucket, column)});
}

static void column_of(const ls_emit_config *c, int bucket, int column, int64_t *begin, int64_t *end) {
    const int64_t *cuts = c->columns + (int64_t)bucket * (c->column_count + 1) + column;
    *begin = cuts[0], *end = cuts[1];
}

static void encode(ls_emitter *e, int bucket) {
    const ls_emit_config *c = e->c;
    ls_crowd adders = ls__adders(e, bucket);
    ls_piece nodes[LS_TREE_MAX_PIECES];
    int n = nodes_of_host(e, e->host, nodes);
    for (int i = 0; i < adders.count; i++) ls__wait(e, adders.first + i, e->ready + bucket, 0, bucket);
    for (int column = 0; column < c->column_count; column++) {
        if (speaker(e, e->host, column) != e->rank) continue;
        int lane = encoder(e, e->host, column) % c->mesh->lanes;
        int64_t begin, end;
        column_of(c, bucket, column, &begin, &end);
        int count = ls__host_nodes(e, begin, e->scratch), region = sent_region(e, bucket, column);
        ls_task *t = ls__emit(e, adders.count == 1 ? adders.first : adders.first + lane, LS_TASK_ENCODE, bucket);
        t->lane = lane, t->begin = begin, t->end = end, t->part = column, t->parts = n;
        ls__inputs(e, t, count);
        t->output = ls__operand(e, region, 0, n > 0 ? nodes[0] : (ls_piece){0, 0});
        t->outputs = 1;
    }
    ls__join(e, adders, ls__communicates(e, bucket), bucket);
    for (int i = 1; i < e->hosts; i++)
        for (int column = 0; column < c->column_count; column++) {
            int host = (e->host + i) % e->hosts;
            if (speaker(e, e->host, column) != e->rank) continue;
            int region = sent_region(e, bucket, column);
            ls_task *t = ls__emit(e, ls__communicates(e, bucket), LS_TASK_SEND, bucket);
            t->peer = speaker(e, host, column), t->tag = ls__tag(LS_TAG_SUMS, bucket);
            t->end = c->sparse_words(c->sparse_user, e->host, bucket, column), t->value = 1;  // its length is in it
            t->inputs = 1;
            ls__operand(e, region, 0, n > 0 ? nodes[0] : (ls_piece){0, 0});
        }
}

static void receive(ls_emitter *e, int bucket) {
    const ls_emit_config *c = e->c;
    int q = ls__communicates(e, bucket);
    for (int host = 0; host < e->hosts; host++)
        for (int column = 0; column < c->column_count && host != e->host; column++) {
            ls_piece nodes[LS_TREE_MAX_PIECES];
            if (speaker(e, e->host, column) != e->rank) continue;
            int n = nodes_of_host(e, host, nodes), region = received_region(e, host);
            ls_task *t = ls__emit(e, q, LS_TASK_RECEIVE, bucket);
            t->peer = speaker(e, host, column), t->tag = ls__tag(LS_TAG_SUMS, bucket);
            t->end = c->sparse_words(c->sparse_user, host, bucket, column), t->value = 1;
            t->outputs = 1;
            t->output =
                ls__operand(e, region, received_at(e, host, bucket, column), n > 0 ? nodes[0] : (ls_piece){0, 0});
        }
    ls__signal(e, q, e->total + bucket, bucket);
}

// Own lanes' nodes, and other hosts', of which `at` says where the bucket's messages begin.
static int list_nodes(void *user, ls_emitter *e, int rank, int bucket, int64_t at, ls_operand *out) {
    int count = 0;
    (void)user, (void)rank;
    for (int host = 0; host < e->hosts; host++) {
        ls_piece nodes[LS_TREE_MAX_PIECES];
        if (host == e->host) {
            count += ls__host_nodes(e, at, out + count);
            continue;
        }
        int n = nodes_of_host(e, host, nodes);
        for (int k = 0; k < n; k++) out[count++] = (ls_operand){received_region(e, host), k, nodes[k]};
    }
    (void)bucket;
    return count;
}

void ls__emit_sparse(ls_emitter *e) {
    const ls_emit_config *c = e->c;
    int norms = c->clips || c->layerwise;
    for (int i = 0; i < c->bucket_count && !c->progress; i++) encode(e, ls__bucket_at(c, i));
    if (!c->progress) ls__emit_votes(e);
    for (int i = 0; i < c->bucket_count; i++) {
        int b = ls__bucket_at(c, i);
        ls_crowd updaters = ls__updaters(e, b);
        if (c->progress) encode(e, b);
        receive(e, b);
        for (int k = 0; k < updaters.count; k++) ls__wait(e, updaters.first + k, e->total + b, 0, b);
        ls__emit_update(e, b, list_nodes, NULL);
        for (int k = 0; k < updaters.count && !norms; k++) ls__signal(e, updaters.first + k, e->whole + b, b);
    }
    if (!norms) return;
    ls__emit_measured(e, ls__share_nothing, NULL);
    for (int i = 0; i < c->bucket_count; i++) {
        int b = ls__bucket_at(c, i);
        ls_crowd updaters = ls__updaters(e, b);
        ls__emit_update_kept(e, b);
        for (int k = 0; k < updaters.count; k++) ls__signal(e, updaters.first + k, e->whole + b, b);
    }
}

// --- asynchronous training -------------------------------------------------------------------------------------------

static int push_region(ls_emitter *e) {
    ls_region region = {.kind = LS_REGION_PUSH, .scope = LS_SCOPE_RANK, .rank = e->rank, .lane = -1};
    region.dtype = e->c->rounds_nodes ? LS_DTYPE_BF16 : LS_DTYPE_F32;
    region.elements = e->c->length;
    return ls__region(e, region);
}

static int list_push(void *user, ls_emitter *e, int rank, int bucket, int64_t at, ls_operand *out) {
    (void)user, (void)rank, (void)bucket;
    out[0] = (ls_operand){push_region(e), at, {0, 0}};
    return 1;
}

// A server updates its slice by a push, which is the sum of a whole step.
static void serve(ls_emitter *e) {
    ls__emit_update(e, 0, list_push, NULL);
    if (e->c->clips || e->c->layerwise) {
        ls__emit_measured(e, ls__share_nothing, NULL);
        ls__emit_update_kept(e, 0);
    }
}

// The sum of the batch of one worker; then the driver pushes it, and pulls weights, before lanes go
// on.
void ls__emit_push(ls_emitter *e) {
    const ls_emit_config *c = e->c;
    int lanes = c->mesh->lanes;
    if (c->ways.push == 2) {
        serve(e);
        return;
    }
    ls__emit_lanes_begin(e);
    ls_crowd adders = {0, lanes};
    for (int lane = 0; lane < lanes; lane++) {
        int64_t begin, end;
        ls__wait(e, lane, e->ready, 0, 0);
        ls_emit_share(0, c->length, lane, lanes, &begin, &end);
        if (begin == end) continue;
        int count = ls__host_nodes(e, begin, e->scratch), region = push_region(e);
        ls_task *t = ls__emit(e, lane, LS_TASK_ADD, 0);
        t->begin = begin, t->end = end;
        ls__inputs(e, t, count);
        t->output = ls__operand(e, region, begin, (ls_piece){0, ls_tree_levels(e->v)});
        t->outputs = 1;
    }
    ls__join(e, adders, 0, 0);
    ls__wait(e, 0, e->voted, 0, -1);
    ls__emit(e, 0, LS_TASK_CALL, -1);
    ls__signal(e, 0, e->whole, 0);
    ls__emit_lanes_end(e);
}
