// What lanes do: kernels and the sums of their own micro-batches; votes; the end of the step.
#include <string.h>

#include "step/emitter.h"

// --- a micro-batch ---------------------------------------------------------------------------------------------------

// After micro-batch `value` lies in slot `depth`: the leaf is made what it is, and siblings are
// added, of elements [begin, end).
static void merge(ls_emitter *e, int lane, const ls_piece *stack, int depth, int bucket, int64_t begin, int64_t end) {
    ls_piece now[LS_TREE_MAX_PIECES];
    memcpy(now, stack, (size_t)depth * sizeof *now);
    if (e->c->selects) {
        ls_operand leaf = ls__gradient(e, e->rank, lane, depth - 1, begin, stack[depth - 1]);
        ls_task *t = ls__emit(e, lane, LS_TASK_SELECT, bucket);
        t->lane = lane, t->begin = begin, t->end = end, t->value = stack[depth - 1].first;
        t->outputs = 1;
        ls__operand(e, leaf.region, leaf.at, leaf.node);
    }
    for (ls_piece left, right;
         left = now[depth > 1 ? depth - 2 : 0], right = now[depth - 1], ls_tree_merge(e->v, now, &depth);) {
        ls_operand a = ls__gradient(e, e->rank, lane, depth - 1, begin, left);
        ls_operand b = ls__gradient(e, e->rank, lane, depth, begin, right);
        ls_task *t = ls__emit(e, lane, LS_TASK_ADD, bucket);
        t->lane = lane, t->begin = begin, t->end = end;
        t->inputs = 2, t->outputs = 1;
        ls__operand(e, a.region, a.at, left);
        ls__operand(e, b.region, b.at, right);
        t->output = ls__operand(e, a.region, a.at, now[depth - 1]);
    }
}

static void publish(ls_emitter *e, int lane, int bucket, int64_t begin, int64_t end) {
    ls_piece nodes[LS_TREE_MAX_PIECES];
    int64_t first, last;
    if (!e->c->far || e->host_ranks == 1) return;
    ls_mesh_deal(e->c->mesh, e->v, e->rank, lane, &first, &last);
    int count = ls_tree_pieces(e->v, first, last, nodes);
    for (int k = 0; k < count; k++) {
        ls_operand from = ls__gradient(e, e->rank, lane, k, begin, nodes[k]);
        ls_region to = {.kind = LS_REGION_PUBLISHED, .scope = LS_SCOPE_HOST, .rank = e->rank, .lane = lane};
        to.dtype = LS_DTYPE_F32;
        ls_task *t = ls__emit(e, lane, LS_TASK_COPY, bucket);
        t->lane = lane, t->begin = begin, t->end = end;
        t->inputs = t->outputs = 1;
        ls__operand(e, from.region, from.at, nodes[k]);
        t->output = ls__operand(e, ls__region(e, to), from.at, nodes[k]);
    }
}

static void run(ls_emitter *e, int lane, int pass, int64_t v, int part, int parts, int bucket, int slot) {
    const ls_emit_config *c = e->c;
    ls_task *t = ls__emit(e, lane, LS_TASK_RUN, bucket);
    t->pass = (unsigned char)pass, t->lane = lane, t->value = v, t->part = part, t->parts = parts;
    t->begin = bucket < 0 ? 0 : ls_emit_bucket_begin(c, bucket);
    t->end = bucket < 0 ? c->length : c->bucket_ends[bucket];
    t->inputs = 1;
    ls__operand(e, e->weights, t->begin, (ls_piece){0, 0});
    if (pass == LS_RUN_FORWARD) return;
    ls_operand leaf = ls__gradient(e, e->rank, lane, slot, t->begin, (ls_piece){v, 0});
    t->outputs = 1;
    t->output = ls__operand(e, leaf.region, leaf.at, leaf.node);
}

static void vote(ls_emitter *e, int lane) {
    ls__emit(e, lane, LS_TASK_VOTE, -1)->lane = lane;
    ls__signal(e, lane, e->voted, -1);
}

static int forward_bucket(const ls_emit_config *c, int i) {
    return c->forward_order ? c->forward_order[i] : c->bucket_count - 1 - i;
}

// The first forward of a step goes on as its weights come, bucket by bucket; a lane that computes
// nothing waits for them all the same.
static void forward_as_they_come(ls_emitter *e, int lane, int64_t v, int runs) {
    const ls_emit_config *c = e->c;
    for (int i = 0; i < c->bucket_count; i++) {
        int b = forward_bucket(c, i);
        ls__wait(e, lane, e->fresh + b, 1, b);
        if (runs) run(e, lane, LS_RUN_FORWARD, v, i, c->bucket_count, b, 0);
    }
}

static void backward_last(ls_emitter *e, int lane, int64_t v, const ls_piece *stack, int depth) {
    const ls_emit_config *c = e->c;
    for (int b = 0; b < c->bucket_count; b++) {
        int64_t begin = ls_emit_bucket_begin(c, b), end = c->bucket_ends[b];
        run(e, lane, LS_RUN_BACKWARD, v, b, c->bucket_count, b, depth - 1);
        merge(e, lane, stack, depth, b, begin, end);
        publish(e, lane, b, begin, end);
        ls__signal(e, lane, e->ready + b, b);
    }
}

static void emit_lane(ls_emitter *e, int lane) {
    const ls_emit_config *c = e->c;
    ls_piece stack[LS_TREE_MAX_PIECES];
    int64_t first, last;
    int depth = 0;
    ls_mesh_deal(c->mesh, e->v, e->rank, lane, &first, &last);
    if (c->early) forward_as_they_come(e, lane, first, first < last);
    for (int64_t v = first; v < last; v++) {
        if (!c->early || v > first) run(e, lane, LS_RUN_FORWARD, v, 0, 1, -1, 0);
        if (c->early && v == last - 1) vote(e, lane);
        stack[depth++] = (ls_piece){v, 0};
        if (v == last - 1) {
            backward_last(e, lane, v, stack, depth);
        } else {
            run(e, lane, LS_RUN_BACKWARD, v, 0, 1, -1, depth - 1);
            merge(e, lane, stack, depth, -1, 0, c->length);
        }
        while (ls_tree_merge(e->v, stack, &depth)) continue;
    }
    if (first < last) {
        if (!c->early) vote(e, lane);
        return;
    }
    vote(e, lane);
    for (int b = 0; b < c->bucket_count; b++) ls__signal(e, lane, e->ready + b, b);
}

void ls__emit_lanes_begin(ls_emitter *e) {
    for (int lane = 0; lane < e->c->mesh->lanes; lane++) emit_lane(e, lane);
}

// --- votes -----------------------------------------------------------------------------------------------------------

// Between hosts, by the first rank of each: in round k the host 2^k further on hears the largest
// vote known so far. On one host nothing is sent.
void ls__emit_votes(ls_emitter *e) {
    const ls_mesh *m = e->c->mesh;
    int q = e->votes_queue;
    if (e->hosts == 1 || e->place != 0) return;
    ls__wait(e, q, e->voted, 0, -1);
    for (int k = 0; 1 << k < e->hosts; k++) {
        int to = m->host_first[(e->host + (1 << k)) % e->hosts];
        int from = m->host_first[(e->host + e->hosts - (1 << k)) % e->hosts];
        ls_task *t = ls__emit(e, q, LS_TASK_SEND, -1);
        t->peer = to, t->tag = ls__tag(LS_TAG_VOTES, 0), t->end = 1, t->inputs = 1;
        ls__operand(e, e->votes, LS_VOTES_OUT + k, (ls_piece){0, 0});
        t = ls__emit(e, q, LS_TASK_RECEIVE, -1);
        t->peer = from, t->tag = ls__tag(LS_TAG_VOTES, 0), t->end = 1, t->outputs = 1;
        t->output = ls__operand(e, e->votes, LS_VOTES_IN + k, (ls_piece){0, 0});
        t = ls__emit(e, q, LS_TASK_MERGE, -1);
        t->part = k;
        t->inputs = 1;
        ls__operand(e, e->votes, LS_VOTES_IN + k, (ls_piece){0, 0});
    }
    ls__signal(e, q, e->decided, -1);
}

// --- the end ---------------------------------------------------------------------------------------------------------

// What other ranks have updated comes from the host to this rank's device: this lane's share of it.
static void take_weights(ls_emitter *e, int lane) {
    const ls_emit_config *c = e->c;
    for (int b = 0; b < c->bucket_count; b++) {
        int64_t mine, end, from, to;
        ls_emit_slice(c, c->ways.updates, e->rank, b, &mine, &end);
        const int64_t parts[2][2] = {{ls_emit_bucket_begin(c, b), mine}, {end, c->bucket_ends[b]}};
        for (int i = 0; i < 2; i++) {
            ls_emit_share(parts[i][0], parts[i][1], lane, c->mesh->lanes, &from, &to);
            if (from >= to) continue;
            ls_task *t = ls__emit(e, lane, LS_TASK_COPY, b);
            t->lane = lane, t->begin = from, t->end = to;
            t->inputs = t->outputs = 1;
            ls__operand(e, e->staged, from, (ls_piece){0, 0});
            t->output = ls__operand(e, e->weights, from, (ls_piece){0, 0});
        }
    }
    ls__signal(e, lane, e->taken, -1);
    ls__wait(e, lane, e->taken, 0, -1);
}

static void refresh(ls_emitter *e, int queue, int bucket, int part, int parts) {
    ls_task *t = ls__emit(e, queue, LS_TASK_REFRESH, bucket);
    t->part = part, t->parts = parts;
    t->inputs = 1;
    ls__operand(e, e->weights, 0, (ls_piece){0, 0});
}

// Copies follow bucket by bucket, in the order of the exchange, a part of each by every rank.
static void refresh_as_they_come(ls_emitter *e) {
    const ls_emit_config *c = e->c;
    int64_t low = 0, high = c->length;
    int shared = c->ways.weights_shared;
    for (int i = 0; i < c->bucket_count; i++) {
        int b = ls__bucket_at(c, i);
        int64_t begin = ls_emit_bucket_begin(c, b), end = c->bucket_ends[b];
        ls__wait(e, e->fresh_queue, e->whole + b, 0, b);
        if (begin == low)
            low = end;
        else
            high = begin;
        refresh(e, e->fresh_queue, b, shared ? e->place : 0, shared ? e->host_ranks : 1);
        ls_task *t = &e->p->queues[e->fresh_queue].tasks[e->p->queues[e->fresh_queue].count - 1];
        t->begin = begin, t->end = end, t->value = low, t->high = high;
        ls__signal(e, e->fresh_queue, e->fresh + b, b);
    }
}

void ls__emit_lanes_end(ls_emitter *e) {
    const ls_emit_config *c = e->c;
    int lanes = c->mesh->lanes, one_vector = c->ways.weights_shared && !c->far;
    if (c->early) refresh_as_they_come(e);
    for (int lane = 0; lane < lanes; lane++) {
        for (int b = 0; b < c->bucket_count && !c->early; b++) ls__wait(e, lane, e->whole + b, 0, b);
        if (e->staged >= 0) take_weights(e, lane);
        if (!c->early) {
            int part = one_vector ? e->place * lanes + lane : lane;
            if (c->copies) refresh(e, lane, -1, part, one_vector ? e->host_ranks * lanes : lanes);
            ls__signal(e, lane, e->fresh, -1);
            ls__wait(e, lane, e->fresh, 0, -1);
        }
        ls__wait(e, lane, e->hosts > 1 ? e->decided : e->voted, 0, -1);
        ls__emit(e, lane, LS_TASK_LOOK, -1)->lane = lane;
    }
}
