// Reductions of a group in the fixed tree (step/tree.h): its leaves are numbered, and every member
// brings a run of them.
//
// Small ones go up a binomial tree of the members to the first, and down again: each takes the
// nodes of those behind it and joins what the tree has for siblings. Large ones are shared out:
// every member is sent all nodes of its slice, chunk by chunk, and joins them; then slices go
// around a ring. Where each run is one node, that is two times (size - 1) / size of the data sent
// and received by each. Either way each node is made of the same two others.
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/group.h"
#include "step/elements.h"
#include "step/tree.h"

#define SMALL_BYTES (32 << 10)   // up to here messages cost more than bytes
#define CHUNK_BYTES (256 << 10)  // of a slice that is on its way at a time
#define LEAST_CHUNK (4 << 10)
#define ROUND_BYTES (64 << 20)  // of a round's chunks together, as far as they can be so small
#define ROUNDS      2           // of chunks on their way

typedef struct reduction {
    ls_group *group;
    ls_reduce_op op;
    ls_dtype dtype;
    int64_t size;         // of an element, in bytes
    int64_t total;        // leaves
    int64_t begin, end;   // this member's
    const char *leaves;   // (end - begin, stride elements)
    int64_t stride;       // elements from one leaf to the next
    int64_t count;        // elements that are reduced: in all, or of rows, in each
    int rows;             // 1: member i is to have row i of each leaf; 0: its slice of `count`
    int slots;            // buffers to join this member's leaves in
    int64_t chunk;        // elements
    int64_t pieces;       // of all members together
    char *own, *rounds;   // scratch: (slots, chunk); two rounds
    int64_t round_bytes;  // of one of them
} reduction;

// Nodes that have come so far: with the rule of the tree, siblings become their parent.
typedef struct stack {
    ls_piece piece[LS_TREE_MAX_PIECES];
    const char *data[LS_TREE_MAX_PIECES];
    char *own[LS_TREE_MAX_PIECES];  // the same, where it may be written
    int depth;
} stack;

static void push(const reduction *r, stack *s, ls_piece piece, const char *data, char *own, int64_t n) {
    s->piece[s->depth] = piece;
    s->data[s->depth] = data;
    s->own[s->depth++] = own;
    while (ls_tree_merge(r->total, s->piece, &s->depth)) {
        int left = s->depth - 1, right = s->depth;
        char *out = s->own[left] ? s->own[left] : s->own[right];
        ls__elements_join(r->op, r->dtype, out, s->data[left], s->data[right], n);
        s->data[left] = s->own[left] = out;
    }
}

// The stack of what this member has, for elements [at, at + n) of its leaves: node i in slot i, (n)
// each from `slots` on; or a leaf that is one, as it is.
static void join_own(const reduction *r, stack *s, int64_t at, int64_t n, char *slots) {
    s->depth = 0;
    for (int64_t leaf = r->begin; leaf < r->end; leaf++) {
        const char *data = r->leaves + ((leaf - r->begin) * r->stride + at) * r->size;
        char *slot = r->slots > 1 ? slots + s->depth * n * r->size : NULL;
        if (slot) memcpy(slot, data, (size_t)(n * r->size));
        push(r, s, (ls_piece){leaf, 0}, slot ? slot : data, slot, n);
    }
}

// Of members [first, end), who may be none.
static int pieces_of(const reduction *r, int first, int end, ls_piece *pieces) {
    int64_t from, to, unused;
    ls_tree_run(r->total, first, r->group->size, &from, &unused);
    ls_tree_run(r->total, end - 1, r->group->size, &unused, &to);
    return ls_tree_pieces(r->total, from, to, pieces);
}

// --- small -----------------------------------------------------------------------------------------------------------

static int small_slots(int64_t total) { return 4 * (64 - __builtin_clzll((uint64_t)total)) + 4; }

// The nodes of the members behind this one, (pieces, count) at slot `depth` on, to those it has:
// node i is in slot i.
static void push_received(const reduction *r, stack *s, const ls_piece *pieces, int count, char *slots) {
    int64_t bytes = r->count * r->size;
    const char *received = slots + s->depth * bytes;
    for (int i = 0; i < count; i++, received += bytes) {
        char *slot = slots + s->depth * bytes;
        if (slot != received) memmove(slot, received, (size_t)bytes);
        push(r, s, pieces[i], slot, slot, r->count);
    }
}

// All of it, at the first member, in `slots`: (small_slots, count).
static ls_status reduce_small(const reduction *r, char *slots) {
    ls_group *g = r->group;
    stack s;
    reduction copies = *r;  // its leaves go to slots, even one
    copies.slots = 2;
    join_own(&copies, &s, 0, r->count, slots);
    for (int step = 1; step < g->size; step *= 2) {
        ls_request request;
        ls_posts posts = {&request, 0};
        if (g->rank & step) {
            LS_TRY(ls__group_post_send(g, &posts, slots, s.depth * r->count, r->dtype, g->rank - step));
            return ls__group_wait(g, &posts);
        }
        if (g->rank + step >= g->size) continue;
        ls_piece pieces[LS_TREE_MAX_PIECES];
        int last = g->rank + 2 * step < g->size ? g->rank + 2 * step : g->size;
        int count = pieces_of(r, g->rank + step, last, pieces);
        LS_TRY(ls__group_post_recv(g, &posts, slots + s.depth * r->count * r->size, count * r->count, r->dtype,
                                   g->rank + step));
        LS_TRY(ls__group_wait(g, &posts));
        push_received(r, &s, pieces, count, slots);
    }
    if (r->op == LS_REDUCE_MEAN) ls__elements_divide(r->dtype, slots, r->count, r->total);
    return LS_OK;
}

// --- large -----------------------------------------------------------------------------------------------------------

// Chunks of every member's slice, on their way.
typedef struct chunks {
    ls_posts posts;
    char *incoming;  // (pieces of the others, chunk)
    char *outgoing;  // (size, slots, chunk); of single leaves none
} chunks;

static int64_t round_up(int64_t bytes) { return ls_round_up(bytes, LS_ALIGN); }

static int64_t incoming_bytes(const reduction *r) { return round_up(r->pieces * r->chunk * r->size); }
static int64_t outgoing_bytes(const reduction *r) {
    return r->slots > 1 ? round_up(r->group->size * (int64_t)r->slots * r->chunk * r->size) : 0;
}
static int64_t request_bytes(const reduction *r) {
    ls_piece unused[LS_TREE_MAX_PIECES];
    int mine = pieces_of(r, r->group->rank, r->group->rank + 1, unused);
    return round_up((r->pieces + (int64_t)mine * r->group->size) * (int64_t)sizeof(ls_request));
}

// Elements of a leaf that the member gets in a round: at *at, *n of them.
static void chunk_of(const reduction *r, int64_t round, int member, int64_t *at, int64_t *n) {
    int64_t begin = member * r->count, end = begin + r->count;
    if (!r->rows) ls__group_slice(r->group, r->count, member, &begin, &end);
    *at = begin + round * r->chunk;
    *n = *at >= end ? 0 : end - *at < r->chunk ? end - *at : r->chunk;
}

static ls_status start_round(const reduction *r, chunks *c, int64_t round) {
    ls_group *g = r->group;
    ls_piece pieces[LS_TREE_MAX_PIECES];
    int64_t at, n;
    char *in = c->incoming;
    chunk_of(r, round, g->rank, &at, &n);
    for (int member = 0; member < g->size; member++) {
        int count = member == g->rank ? 0 : pieces_of(r, member, member + 1, pieces);
        for (int i = 0; i < count; i++, in += n * r->size)
            LS_TRY(ls__group_post_recv(g, &c->posts, in, n, r->dtype, member));
    }
    for (int i = 1; i < g->size; i++) {
        int member = (g->rank + i) % g->size;  // not all to the same one at once
        stack s;
        chunk_of(r, round, member, &at, &n);
        join_own(r, &s, at, n, c->outgoing ? c->outgoing + member * r->slots * r->chunk * r->size : NULL);
        for (int k = 0; k < s.depth; k++) LS_TRY(ls__group_post_send(g, &c->posts, s.data[k], n, r->dtype, member));
    }
    return LS_OK;
}

// This member's chunk, to out.
static ls_status end_round(const reduction *r, chunks *c, int64_t round, char *out) {
    ls_group *g = r->group;
    ls_piece pieces[LS_TREE_MAX_PIECES];
    stack own, s = {.depth = 0};
    int64_t at, n;
    char *in = c->incoming;
    LS_TRY(ls__group_wait(g, &c->posts));
    chunk_of(r, round, g->rank, &at, &n);
    if (n == 0) return LS_OK;
    join_own(r, &own, at, n, r->own);
    for (int member = 0; member < g->size; member++) {
        if (member == g->rank) {
            for (int i = 0; i < own.depth; i++) push(r, &s, own.piece[i], own.data[i], own.own[i], n);
            continue;
        }
        int count = pieces_of(r, member, member + 1, pieces);
        for (int i = 0; i < count; i++, in += n * r->size) push(r, &s, pieces[i], in, in, n);
    }
    assert(s.depth == 1 && s.data[0]);  // the root of the tree
    if (out != s.data[0]) memmove(out, s.data[0], (size_t)(n * r->size));
    if (r->op == LS_REDUCE_MEAN) ls__elements_divide(r->dtype, out, n, r->total);
    return LS_OK;
}

// This member's slice, or row, to out.
static ls_status reduce_slices(const reduction *r, char *out) {
    chunks c[ROUNDS];
    int64_t longest = r->rows ? r->count : 0, begin, end;
    assert(r->chunk > 0);
    for (int i = 0; i < ROUNDS; i++) {
        char *memory = r->rounds + i * r->round_bytes;
        c[i] = (chunks){.incoming = memory, .outgoing = outgoing_bytes(r) ? memory + incoming_bytes(r) : NULL};
        c[i].posts.requests = (ls_request *)(void *)(memory + incoming_bytes(r) + outgoing_bytes(r));
    }
    for (int member = 0; !r->rows && member < r->group->size; member++) {
        ls__group_slice(r->group, r->count, member, &begin, &end);
        if (end - begin > longest) longest = end - begin;
    }
    int64_t rounds = (longest + r->chunk - 1) / r->chunk;
    for (int64_t round = 0; round < rounds + ROUNDS - 1; round++) {
        if (round < rounds) LS_TRY(start_round(r, &c[round % ROUNDS], round));
        int64_t last = round - (ROUNDS - 1);
        if (last >= 0) LS_TRY(end_round(r, &c[last % ROUNDS], last, out + last * r->chunk * r->size));
    }
    return LS_OK;
}

// --- calls -----------------------------------------------------------------------------------------------------------

static int is_whole(ls_dtype dtype) { return dtype == LS_DTYPE_U8 || dtype == LS_DTYPE_I32 || dtype == LS_DTYPE_I64; }

static ls_status check_op(const char *function, ls_reduce_op op, ls_dtype dtype) {
    if ((unsigned)op > LS_REDUCE_MAX)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: there is no operation of number %d: see LS_REDUCE_LIST",
                       function, (int)op);
    if (op == LS_REDUCE_MEAN && is_whole(dtype))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: the mean of whole numbers (%s) is none: take their sum, or floats", function,
                       ls_dtype_name(dtype));
    return LS_OK;
}

static ls_status check(const char *function, const void *in, const char *in_name, const void *out, int64_t count,
                       ls_dtype dtype, ls_reduce_op op) {
    LS_TRY(ls__group_check(function, count, dtype));
    LS_TRY(ls__group_check_pointer(function, in, count, in_name));
    LS_TRY(ls__group_check_pointer(function, out, count, "out"));
    return check_op(function, op, dtype);
}

// What all reductions have; one leaf for each member.
static reduction of_members(ls_group *g, const void *mine, int64_t count, ls_dtype dtype, ls_reduce_op op) {
    return (reduction){.group = g,
                       .op = op,
                       .dtype = dtype,
                       .size = (int64_t)ls_dtype_size(dtype),
                       .total = g->size,
                       .begin = g->rank,
                       .end = g->rank + 1,
                       .leaves = mine,
                       .stride = count,
                       .count = count,
                       .slots = 1};
}

static int is_small(const reduction *r) { return r->group->size > 1 && r->count * r->size <= SMALL_BYTES; }

// Scratch of a small reduction, or of a large one: *memory is (small_slots, count), or (extra)
// bytes.
static ls_status plan(reduction *r, int small, int64_t extra, char **memory) {
    ls_piece unused[LS_TREE_MAX_PIECES];
    if (small) return ls__group_scratch(r->group, small_slots(r->total) * r->count * r->size, memory);
    for (int member = 0; member < r->group->size; member++) r->pieces += pieces_of(r, member, member + 1, unused);
    assert(r->pieces > 0);  // there is a leaf
    int64_t bytes = ROUND_BYTES / r->pieces;
    if (bytes > CHUNK_BYTES) bytes = CHUNK_BYTES;
    if (bytes < LEAST_CHUNK) bytes = LEAST_CHUNK;
    r->chunk = bytes / 512 * 512 / r->size;
    r->round_bytes = incoming_bytes(r) + outgoing_bytes(r) + request_bytes(r);
    int64_t own = round_up((int64_t)r->slots * r->chunk * r->size);
    LS_TRY(ls__group_scratch(r->group, ROUNDS * r->round_bytes + own + extra, &r->rounds));
    r->own = r->rounds + ROUNDS * r->round_bytes;
    *memory = r->own + own;
    return LS_OK;
}

static ls_status run_all(const reduction *r, int small, char *memory, char *out) {
    int64_t begin, end;
    if (small) {
        LS_TRY(reduce_small(r, memory));
        if (r->group->rank == 0) memcpy(out, memory, (size_t)(r->count * r->size));
        return ls__group_spread(r->group, out, r->count, r->dtype, 0);
    }
    ls__group_slice(r->group, r->count, r->group->rank, &begin, &end);
    LS_TRY(reduce_slices(r, out + begin * r->size));
    return ls__group_ring(r->group, out, r->count, r->dtype, -1);
}

ls_status ls_group_all_reduce(ls_group *group, const void *mine, void *out, int64_t count, ls_dtype dtype,
                              ls_reduce_op op) {
    char *memory = NULL;
    LS_NEED(group, "group");
    reduction r = of_members(group, mine, count, dtype, op);
    ls_status status = check(__func__, mine, "mine", out, count, dtype, op);
    int small = status == LS_OK && is_small(&r);
    if (status == LS_OK) status = plan(&r, small, 0, &memory);
    LS_TRY(ls__group_begin(group, status, __func__, "%lld elements of %s, their %s", (long long)count,
                           ls_dtype_name(dtype), ls__reduce_name(op)));
    if (count == 0) return LS_OK;
    return ls__group_end(group, run_all(&r, small, memory, out), __func__);
}

ls_status ls_group_deal(const ls_group *group, int64_t total, int64_t *begin, int64_t *end) {
    LS_NEED(group, "group");
    LS_NEED(begin, "begin");
    LS_NEED(end, "end");
    if (total < 0 || total > INT64_MAX / group->size)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%lld things cannot be dealt to %d workers", (long long)total,
                       group->size);
    ls_tree_run(total, group->rank, group->size, begin, end);
    return LS_OK;
}

ls_status ls_group_all_reduce_leaves(ls_group *group, const void *leaves, void *out, int64_t count, ls_dtype dtype,
                                     ls_reduce_op op, int64_t total) {
    char *memory = NULL;
    LS_NEED(group, "group");
    reduction r = of_members(group, leaves, count, dtype, op);
    ls_status status = LS_OK;
    r.total = total;
    if (total < 1)
        status = LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: a reduction of %lld arrays was asked for; it takes one",
                         __func__, (long long)total);
    if (status == LS_OK) status = ls_group_deal(group, total, &r.begin, &r.end);
    if (status == LS_OK) status = check(__func__, r.begin == r.end ? out : leaves, "leaves", out, count, dtype, op);
    if (status == LS_OK && r.end - r.begin > 1) r.slots = ls_tree_slots(total, r.begin, r.end);
    int small = status == LS_OK && is_small(&r);
    if (status == LS_OK) status = plan(&r, small, 0, &memory);
    LS_TRY(ls__group_begin(group, status, __func__, "%lld elements of %s, the %s of %lld", (long long)count,
                           ls_dtype_name(dtype), ls__reduce_name(op), (long long)total));
    if (count == 0) return LS_OK;
    return ls__group_end(group, run_all(&r, small, memory, out), __func__);
}

// --- to one, and to each its own -------------------------------------------------------------------------------------

// What the first member has, for the root.
static ls_status move_to_root(const reduction *r, const char *result, char *out, int root) {
    ls_group *g = r->group;
    ls_request request;
    ls_posts posts = {&request, 0};
    if (g->rank == 0 && root == 0) memcpy(out, result, (size_t)(r->count * r->size));
    if (g->rank == 0 && root != 0) LS_TRY(ls__group_post_send(g, &posts, result, r->count, r->dtype, root));
    if (g->rank == root && root != 0) LS_TRY(ls__group_post_recv(g, &posts, out, r->count, r->dtype, 0));
    return ls__group_wait(g, &posts);
}

// Every member's slice, for the root: it has its own already.
static ls_status gather_slices(const reduction *r, const char *slice, char *out, int root, ls_request *requests) {
    ls_group *g = r->group;
    ls_posts posts = {requests, 0};
    int64_t begin, end;
    for (int member = 0; member < g->size; member++) {
        if (member == root) continue;
        ls__group_slice(g, r->count, member, &begin, &end);
        if (g->rank == root)
            LS_TRY(ls__group_post_recv(g, &posts, out + begin * r->size, end - begin, r->dtype, member));
        if (g->rank == member) LS_TRY(ls__group_post_send(g, &posts, slice, end - begin, r->dtype, root));
    }
    return ls__group_wait(g, &posts);
}

static ls_status run_to_root(const reduction *r, int small, char *memory, char *out, int root) {
    int64_t begin, end;
    if (small) {
        LS_TRY(reduce_small(r, memory));
        return move_to_root(r, memory, out, root);
    }
    ls_request *requests = (ls_request *)(void *)memory;
    char *slice = memory + round_up(r->group->size * (int64_t)sizeof *requests);
    ls__group_slice(r->group, r->count, r->group->rank, &begin, &end);
    if (r->group->rank == root) slice = out + begin * r->size;
    LS_TRY(reduce_slices(r, slice));
    return gather_slices(r, slice, out, root, requests);
}

ls_status ls_group_reduce(ls_group *group, const void *mine, void *out, int64_t count, ls_dtype dtype, ls_reduce_op op,
                          int root) {
    char *memory = NULL;
    LS_NEED(group, "group");
    reduction r = of_members(group, mine, count, dtype, op);
    ls_status status = check(__func__, mine, "mine", group->rank == root ? out : mine, count, dtype, op);
    if (status == LS_OK) status = ls__group_check_root(group, __func__, root);
    int small = status == LS_OK && is_small(&r);
    int64_t extra = round_up(group->size * (int64_t)sizeof(ls_request)) + (count / group->size + 128) * r.size;
    if (status == LS_OK) status = plan(&r, small, extra, &memory);
    LS_TRY(ls__group_begin(group, status, __func__, "%lld elements of %s, their %s, to worker %d", (long long)count,
                           ls_dtype_name(dtype), ls__reduce_name(op), root));
    if (count == 0) return LS_OK;
    return ls__group_end(group, run_to_root(&r, small, memory, out, root), __func__);
}

ls_status ls_group_reduce_scatter(ls_group *group, const void *mine, void *out, int64_t count, ls_dtype dtype,
                                  ls_reduce_op op) {
    char *memory = NULL;
    LS_NEED(group, "group");
    reduction r = of_members(group, mine, count, dtype, op);
    r.rows = 1;
    ls_status status = check(__func__, mine, "mine", out, count, dtype, op);
    if (status == LS_OK) status = plan(&r, 0, 0, &memory);
    LS_TRY(ls__group_begin(group, status, __func__, "%lld elements of %s for each, their %s", (long long)count,
                           ls_dtype_name(dtype), ls__reduce_name(op)));
    if (count == 0) return LS_OK;
    return ls__group_end(group, reduce_slices(&r, out), __func__);
}
