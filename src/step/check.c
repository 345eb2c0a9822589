#include "step/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "step/check_symbols.h"

const char *const ls_check_words[LS_CHECK_FAULTS] = {
#define X(name, words) words,
    LS_CHECK_LIST(X)
#undef X
};

typedef struct queue {
    int rank, index, step, task;
    int looked;                    // in this step
    uint32_t clipped, clipped_in;  // a lane's: when it knew the factor of clipping, in the step before this number
    uint32_t normed, normed_in;    // likewise the norms of layers
} queue;

// A message on its way, with what it holds.
typedef struct letter {
    struct letter *next;
    int from, to, tag;
    ls_dtype dtype;
    int64_t elements;
    ls__content content;
    ls__send *source;
    uint32_t *clock;
    uint64_t *votes;  // of which hosts it knows; NULL: it brings something else
} letter;

enum { LS__ARRIVALS = 32 };

typedef struct signal_step {
    int count;
    uint32_t *clock;
} signal_step;

typedef struct checker {
    const ls_check_input *in;
    ls__symbols memory;
    int *region_of;     // (ranks' regions): the global number
    int *first_region;  // (ranks + 1): where a rank's begin there
    queue *queues;      // (queue_count)
    int queue_count;
    uint32_t *clocks;  // (queue_count, queue_count)
    letter *letters, **last;
    signal_step *signals;  // (signal slots, steps)
    int *signal_of;        // (ranks): where its own begin
    int *host_signal_of;   // (hosts)
    uint32_t *votes;       // (steps, queue_count): when a lane has voted
    int vote_words;        // of a set of hosts
    uint64_t *known;       // (steps, hosts, vote_words): whose votes a host has merged
    uint64_t *arrived;     // (steps, hosts, LS__ARRIVALS, vote_words): and received
    int *copies_of;        // (ranks): the number of what stands for working copies; -1: there are none
    ls_check_fault fault;
} checker;

static const ls_program *program_of(const checker *x, const queue *q) {
    return x->in->programs[q->step * x->in->config->mesh->ranks + q->rank];
}

static uint32_t *clock_of(const checker *x, int q) { return &x->clocks[(int64_t)q * x->queue_count]; }

static ls_status fail(checker *x, const queue *q, ls_check_fault fault, const char *more) {
    const ls_program *p = program_of(x, q);
    const ls_task *t = q->task < p->queues[q->index].count ? &p->queues[q->index].tasks[q->task] : NULL;
    x->fault = fault;
    return LS_FAIL(LS_STATUS_INTERNAL, "the program of step %d, rank %d, queue %d, task %d (%s, bucket %d): %s%s%s",
                   q->step, q->rank, q->index, q->task, t ? ls_task_words[t->kind] : "end", t ? t->bucket : -1,
                   ls_check_words[fault], more[0] ? ": " : "", more);
}

// --- vector clocks ---------------------------------------------------------------------------------------------------

static void take_over(uint32_t *clock, const uint32_t *from, int count) {
    for (int i = 0; i < count; i++)
        if (from[i] > clock[i]) clock[i] = from[i];
}

static int covers(const uint32_t *clock, const uint32_t *earlier, int count) {
    for (int i = 0; i < count; i++)
        if (earlier[i] > clock[i]) return 0;
    return 1;
}

// --- operands --------------------------------------------------------------------------------------------------------

static int region_at(const checker *x, const queue *q, const ls_operand *o) {
    return x->region_of[x->first_region[q->rank] + o->region];
}

static const ls_region *described(const checker *x, const queue *q, const ls_operand *o) {
    return &x->in->regions[q->rank]->list[o->region];
}

static ls_status note(checker *x, const queue *q, ls_check_fault fault) {
    return fault == LS_CHECK_NONE ? LS_OK : fail(x, q, fault, x->memory.words);
}

// [at, at + n) of an operand's region, read by the task.
static ls_status read_as(checker *x, int queue_index, const ls_operand *o, int64_t n, ls__content expected) {
    const queue *q = &x->queues[queue_index];
    return note(x, q,
                ls__symbols_read(&x->memory, region_at(x, q, o), o->at, o->at + n, &expected, queue_index,
                                 clock_of(x, queue_index)));
}

static ls_status write_as(checker *x, int queue_index, const ls_operand *o, int64_t n, ls__content content) {
    const queue *q = &x->queues[queue_index];
    return note(x, q,
                ls__symbols_write(&x->memory, region_at(x, q, o), o->at, o->at + n, &content, queue_index,
                                  clock_of(x, queue_index)));
}

static int64_t end_of(ls_piece node, int64_t v) {
    int64_t end = node.level < 62 ? node.first + ((int64_t)1 << node.level) : v;
    return end < v ? end : v;
}

static ls__content node_content(const checker *x, const queue *q, const ls_task *t, const ls_operand *o) {
    int64_t v = program_of(x, q)->micro_batches;
    return (ls__content){.kind = LS__NODE,
                         .step = q->step,
                         .first = o->node.first,
                         .last = end_of(o->node, v),
                         .shift = t->begin - o->at};
}

static ls__content versioned(int kind, int step, int64_t shift) {
    return (ls__content){.kind = kind, .step = step, .shift = shift};
}

// --- sums ------------------------------------------------------------------------------------------------------------

// Sparse nodes lie somewhere in the messages of a bucket from a host: all of them have to be there.
static ls_status read_sparse(checker *x, int qi, const ls_task *t, const ls_operand *o) {
    const ls_emit_config *c = x->in->config;
    const queue *q = &x->queues[qi];
    int host = described(x, q, o)->index;
    ls_operand all = *o;
    int64_t words = 0;
    all.at = 0;
    for (int b = 0; b <= t->bucket; b++)
        for (int k = 0; k < c->column_count; k++) {
            int64_t n = c->sparse_words(c->sparse_user, host, b, k);
            if (b < t->bucket)
                all.at += n;
            else
                words += n;
        }
    return read_as(x, qi, &all, words, versioned(LS__SPARSE, q->step, LS__ANY_SHIFT));
}

// Reads a task's inputs; `nodes` become what they add up to. Returns how many through *count.
static ls_status read_nodes(checker *x, int qi, const ls_task *t, ls_piece *nodes, int *count) {
    const queue *q = &x->queues[qi];
    const ls_program *p = program_of(x, q);
    int depth = 0;
    for (int i = 0; i < t->inputs; i++) {
        const ls_operand *o = &p->operands[t->input + i];
        if (described(x, q, o)->kind == LS_REGION_SPARSE)
            LS_TRY(read_sparse(x, qi, t, o));
        else
            LS_TRY(read_as(x, qi, o, t->end - t->begin, node_content(x, q, t, o)));
        if (depth == LS_TREE_MAX_PIECES) return fail(x, q, LS_CHECK_SIBLINGS, "");
        nodes[depth++] = o->node;
        while (ls_tree_merge(p->micro_batches, nodes, &depth)) continue;
    }
    *count = depth;
    return LS_OK;
}

static ls_status add(checker *x, int qi, const ls_task *t) {
    const queue *q = &x->queues[qi];
    const ls_program *p = program_of(x, q);
    ls_piece nodes[LS_TREE_MAX_PIECES];
    int count;
    LS_TRY(read_nodes(x, qi, t, nodes, &count));
    if (count != t->outputs) return fail(x, q, LS_CHECK_SIBLINGS, "");
    for (int i = 0; i < count; i++) {
        const ls_operand *o = &p->operands[t->output + i];
        if (o->node.first != nodes[i].first || end_of(o->node, p->micro_batches) != end_of(nodes[i], p->micro_batches))
            return fail(x, q, LS_CHECK_SIBLINGS, "");
        if (described(x, q, o)->dtype == LS_DTYPE_BF16 && !x->in->config->rounds_nodes)
            return fail(x, q, LS_CHECK_TYPE, "");
        LS_TRY(write_as(x, qi, o, t->end - t->begin, node_content(x, q, t, o)));
    }
    return LS_OK;
}

static ls_status encode(checker *x, int qi, const ls_task *t) {
    const queue *q = &x->queues[qi];
    const ls_program *p = program_of(x, q);
    ls_piece nodes[LS_TREE_MAX_PIECES];
    int count;
    LS_TRY(read_nodes(x, qi, t, nodes, &count));
    if (count != t->parts) return fail(x, q, LS_CHECK_SIBLINGS, "");
    const ls_operand *o = &p->operands[t->output];
    return write_as(x, qi, o, described(x, q, o)->elements, versioned(LS__SPARSE, q->step, 0));
}

// --- updates ---------------------------------------------------------------------------------------------------------

// What a lane has to know before it goes on with what it kept: the factor of clipping, or norms.
static int knows(const checker *x, int qi, const ls_task *t, int layers) {
    const queue *q = &x->queues[qi], *lane = q - q->index + t->lane;
    uint32_t at = layers ? lane->normed : lane->clipped, in = layers ? lane->normed_in : lane->clipped_in;
    return in == (uint32_t)q->step + 1 && clock_of(x, qi)[lane - x->queues] >= at;
}

// What an update begins with: the root of the tree, or what was kept.
static ls_status read_root(checker *x, int qi, const ls_task *t) {
    const queue *q = &x->queues[qi];
    const ls_program *p = program_of(x, q);
    const ls_operand *first = &p->operands[t->input];
    ls_piece nodes[LS_TREE_MAX_PIECES];
    int count;
    if (t->inputs == 1 && described(x, q, first)->kind == LS_REGION_PUSH) return LS_OK;  // a push is a whole sum
    if (t->inputs == 1 && described(x, q, first)->kind == LS_REGION_KEPT)
        return read_as(x, qi, first, t->end - t->begin, versioned(LS__KEPT, q->step, t->begin - first->at));
    LS_TRY(read_nodes(x, qi, t, nodes, &count));
    if (count != 1 || nodes[0].first != 0 || end_of(nodes[0], p->micro_batches) != p->micro_batches)
        return fail(x, q, LS_CHECK_ROOT, "");
    return LS_OK;
}

static ls_status update(checker *x, int qi, const ls_task *t) {
    const queue *q = &x->queues[qi];
    const ls_program *p = program_of(x, q);
    LS_TRY(read_root(x, qi, t));
    if (x->in->config->clips && !x->in->config->layerwise && !knows(x, qi, t, 0))
        return fail(x, q, LS_CHECK_UNWRITTEN, "the factor of clipping");
    if (x->in->config->layerwise && !knows(x, qi, t, 1)) return fail(x, q, LS_CHECK_UNWRITTEN, "norms");
    for (int i = 0; i < t->outputs; i++) {  // weights, state
        const ls_operand *o = &p->operands[t->output + i];
        int kind = described(x, q, o)->kind == LS_REGION_STATE ? LS__STATE : LS__WEIGHTS;
        int64_t shift = t->begin - o->at;
        ls_status status = read_as(x, qi, o, t->end - t->begin, versioned(kind, q->step, shift));
        if (status != LS_OK && x->fault == LS_CHECK_CONTENT) return fail(x, q, LS_CHECK_TWICE, "");
        LS_TRY(status);
        LS_TRY(write_as(x, qi, o, t->end - t->begin, versioned(kind, q->step + 1, shift)));
    }
    return LS_OK;
}

// The squares of a rank, of which each of its measurements writes a part.
static ls_status write_squares(checker *x, int qi, ls_region_kind kind) {
    const ls_emit_config *c = x->in->config;
    const queue *q = &x->queues[qi];
    const ls_regions *regions = x->in->regions[q->rank];
    const int64_t *firsts = kind == LS_REGION_SQUARES ? c->squares : c->layer_squares;
    for (int i = 0; i < regions->count; i++) {
        ls_operand o = {i, firsts[q->rank], {0, 0}};
        if (regions->list[i].kind != kind) continue;
        ls__content content = versioned(LS__SQUARES, q->step, 0);
        content.joint = 1;
        LS_TRY(write_as(x, qi, &o, firsts[q->rank + 1] - firsts[q->rank], content));
    }
    return LS_OK;
}

static ls_status measure(checker *x, int qi, const ls_task *t) {
    const queue *q = &x->queues[qi];
    const ls_operand *kept = &program_of(x, q)->operands[t->output];
    LS_TRY(read_root(x, qi, t));
    if (t->kind == LS_TASK_DIRECT && x->in->config->clips && !knows(x, qi, t, 0))
        return fail(x, q, LS_CHECK_UNWRITTEN, "the factor of clipping");
    LS_TRY(write_as(x, qi, kept, t->end - t->begin, versioned(LS__KEPT, q->step, t->begin - kept->at)));
    return write_squares(x, qi, t->kind == LS_TASK_MEASURE ? LS_REGION_SQUARES : LS_REGION_LAYER_SQUARES);
}

static ls_status look_at_squares(checker *x, int qi, const ls_task *t) {
    queue *q = &x->queues[qi], *lane = q - q->index + t->lane;
    const ls_operand *o = &program_of(x, q)->operands[t->input];
    LS_TRY(read_as(x, qi, o, t->end - t->begin, versioned(LS__SQUARES, q->step, LS__ANY_SHIFT)));
    if (t->kind == LS_TASK_CLIP)
        lane->clipped = clock_of(x, qi)[qi], lane->clipped_in = (uint32_t)q->step + 1;
    else
        lane->normed = clock_of(x, qi)[qi], lane->normed_in = (uint32_t)q->step + 1;
    return LS_OK;
}

// --- working copies --------------------------------------------------------------------------------------------------

// Which part of the copies of a bucket is whose is the kernels' own: for the checker each of the
// parts is a whole vector.
static int copies_parts(const checker *x, int rank) {
    const ls_emit_config *c = x->in->config;
    int ranks = c->ways.weights_shared && !c->far ? ls_mesh_host_ranks(c->mesh, ls_mesh_host(c->mesh, rank)) : 1;
    return c->early ? ranks : ranks * c->mesh->lanes;
}

static ls_status refresh(checker *x, int qi, const ls_task *t) {
    const ls_emit_config *c = x->in->config;
    const queue *q = &x->queues[qi];
    const ls_operand *o = &program_of(x, q)->operands[t->input];
    ls_operand some = *o;
    int64_t begin = t->bucket >= 0 ? t->begin : 0, end = t->bucket >= 0 ? t->end : c->length;
    ls__content fresh = versioned(LS__WEIGHTS, q->step + 1, 0);
    some.at = begin;
    LS_TRY(read_as(x, qi, &some, end - begin, fresh));
    if (t->parts != copies_parts(x, q->rank) || t->part >= t->parts) return fail(x, q, LS_CHECK_BOUNDS, "no such part");
    int copies = x->copies_of[q->rank];
    int64_t at = t->part * c->length;
    fresh.shift = -at;
    LS_TRY(note(x, q, ls__symbols_write(&x->memory, copies, at + begin, at + end, &fresh, qi, clock_of(x, qi))));
    if (t->bucket < 0 || t->value > t->high || t->value < 0 || t->high > c->length) return LS_OK;
    int whole = ls__symbols_holds(&x->memory, copies, at, at + t->value, &fresh) &&
                ls__symbols_holds(&x->memory, copies, at + t->high, at + c->length, &fresh);
    return whole ? LS_OK : fail(x, q, LS_CHECK_CONTENT, "copies are said to be new that are not");
}

static ls_status read_copies(checker *x, int qi, const ls_task *t) {
    const queue *q = &x->queues[qi];
    int copies = x->copies_of[q->rank], parts = copies_parts(x, q->rank);
    for (int part = 0; part < parts && copies >= 0; part++) {
        int64_t at = part * x->in->config->length;
        ls__content held = versioned(LS__WEIGHTS, q->step, -at);
        LS_TRY(
            note(x, q, ls__symbols_read(&x->memory, copies, at + t->begin, at + t->end, &held, qi, clock_of(x, qi))));
    }
    return LS_OK;
}

// --- kernels ---------------------------------------------------------------------------------------------------------

static ls_status run(checker *x, int qi, const ls_task *t) {
    const queue *q = &x->queues[qi];
    const ls_program *p = program_of(x, q);
    LS_TRY(read_as(x, qi, &p->operands[t->input], t->end - t->begin, versioned(LS__WEIGHTS, q->step, 0)));
    LS_TRY(read_copies(x, qi, t));
    if (t->pass == LS_RUN_FORWARD) return LS_OK;
    ls__content leaf = node_content(x, q, t, &p->operands[t->output]);
    leaf.raw = x->in->config->selects;
    return write_as(x, qi, &p->operands[t->output], t->end - t->begin, leaf);
}

static ls_status select_leaf(checker *x, int qi, const ls_task *t) {
    const queue *q = &x->queues[qi];
    const ls_operand *o = &program_of(x, q)->operands[t->output];
    ls__content leaf = node_content(x, q, t, o), raw = leaf;
    raw.raw = 1;
    LS_TRY(read_as(x, qi, o, t->end - t->begin, raw));
    return write_as(x, qi, o, t->end - t->begin, leaf);
}

static ls_status copy(checker *x, int qi, const ls_task *t) {
    const queue *q = &x->queues[qi];
    const ls_program *p = program_of(x, q);
    const ls_operand *from = &p->operands[t->input], *to = &p->operands[t->output];
    return note(x, q,
                ls__symbols_copy(&x->memory, region_at(x, q, from), from->at, region_at(x, q, to), to->at,
                                 t->end - t->begin, qi, clock_of(x, qi)));
}

// --- votes -----------------------------------------------------------------------------------------------------------

// The hosts whose votes this one has.
static uint64_t *known_to(const checker *x, const queue *q) {
    const ls_mesh *m = x->in->config->mesh;
    return &x->known[((int64_t)q->step * m->hosts + ls_mesh_host(m, q->rank)) * x->vote_words];
}

static uint64_t *arrived_at(const checker *x, const queue *q, int round) {
    const ls_mesh *m = x->in->config->mesh;
    int64_t host = (int64_t)q->step * m->hosts + ls_mesh_host(m, q->rank);
    return &x->arrived[(host * LS__ARRIVALS + round) * x->vote_words];
}

static void merge(checker *x, int qi, const ls_task *t) {
    uint64_t *known = known_to(x, &x->queues[qi]), *arrived = arrived_at(x, &x->queues[qi], t->part % LS__ARRIVALS);
    for (int i = 0; i < x->vote_words; i++) known[i] |= arrived[i];
}

static ls_status look(checker *x, int qi) {
    const ls_mesh *m = x->in->config->mesh;
    queue *q = &x->queues[qi];
    for (int other = 0; other < x->queue_count; other++) {
        if (x->queues[other].index >= m->lanes) continue;
        uint32_t at = x->votes[(int64_t)q->step * x->queue_count + other];
        if (at == 0 || clock_of(x, qi)[other] < at) return fail(x, q, LS_CHECK_VOTE, "");
    }
    for (int host = 0; host < m->hosts; host++)
        if (!(known_to(x, q)[host / 64] >> host % 64 & 1)) return fail(x, q, LS_CHECK_VOTE, "a host's is not merged");
    q->looked++;
    return LS_OK;
}

// --- messages --------------------------------------------------------------------------------------------------------

static ls_status send(checker *x, int qi, const ls_task *t) {
    const queue *q = &x->queues[qi];
    const ls_operand *o = &program_of(x, q)->operands[t->input];
    letter *l;
    LS_TRY(ls_calloc(1, sizeof *l, &l));
    *x->last = l;
    x->last = &l->next;
    l->from = q->rank, l->to = t->peer, l->tag = t->tag, l->elements = t->end;
    l->dtype = described(x, q, o)->dtype;
    LS_TRY(ls_calloc(x->queue_count, sizeof *l->clock, &l->clock));
    memcpy(l->clock, clock_of(x, qi), (size_t)x->queue_count * sizeof *l->clock);
    if (described(x, q, o)->kind == LS_REGION_VOTES) {
        LS_TRY(ls_calloc(x->vote_words, sizeof *l->votes, &l->votes));
        memcpy(l->votes, known_to(x, q), (size_t)x->vote_words * sizeof *l->votes);
        return LS_OK;
    }
    return note(
        x, q, ls__symbols_send(&x->memory, region_at(x, q, o), o->at, o->at + t->end, qi, clock_of(x, qi), &l->source));
}

static void free_letter(letter *l) {
    free(l->votes);
    free(l->clock);
    free(l);
}

// *blocked: nothing has come.
static ls_status receive(checker *x, int qi, const ls_task *t, int *blocked) {
    const queue *q = &x->queues[qi];
    const ls_operand *o = &program_of(x, q)->operands[t->output];
    letter **at = &x->letters;
    while (*at && !((*at)->from == t->peer && (*at)->to == q->rank && (*at)->tag == t->tag)) at = &(*at)->next;
    letter *l = *at;
    *blocked = !l;
    if (!l) return LS_OK;
    *at = l->next;
    if (x->last == &l->next) x->last = at;
    take_over(clock_of(x, qi), l->clock, x->queue_count);
    ls_status status = LS_OK;
    if (l->dtype != described(x, q, o)->dtype) status = fail(x, q, LS_CHECK_TYPE, "");
    if (status == LS_OK && l->elements != t->end) status = fail(x, q, LS_CHECK_SIZE, "");
    if (status == LS_OK && l->source)
        status = note(x, q, ls__symbols_receive(&x->memory, l->source, region_at(x, q, o), o->at, qi, clock_of(x, qi)));
    if (status == LS_OK && l->votes) {
        int64_t round = o->at - LS_VOTES_IN;
        if (described(x, q, o)->kind != LS_REGION_VOTES || round < 0 || round >= LS__ARRIVALS)
            status = fail(x, q, LS_CHECK_CONTENT, "votes belong elsewhere");
        else
            memcpy(arrived_at(x, q, (int)round), l->votes, (size_t)x->vote_words * sizeof *l->votes);
    }
    free_letter(l);
    return status;
}

// --- signals ---------------------------------------------------------------------------------------------------------

static signal_step *signal_at(checker *x, const queue *q, int signal, int step) {
    const ls_program *p = program_of(x, q);
    int base = p->signals[signal].host ? x->host_signal_of[ls_mesh_host(x->in->config->mesh, q->rank)] + signal
                                       : x->signal_of[q->rank] + signal - p->host_signals;
    return &x->signals[(int64_t)base * x->in->steps + step];
}

static ls_status give(checker *x, int qi, const ls_task *t) {
    const queue *q = &x->queues[qi];
    signal_step *s = signal_at(x, q, t->signal, q->step);
    int per_step = program_of(x, q)->signals[t->signal].per_step;
    if (++s->count > per_step) return fail(x, q, LS_CHECK_SIGNAL, "given more often than planned");
    if (q->step > 0) {
        const signal_step *before = signal_at(x, q, t->signal, q->step - 1);
        if (before->count < per_step || !covers(clock_of(x, qi), before->clock, x->queue_count))
            return fail(x, q, LS_CHECK_SIGNAL, "");
    }
    if (!s->clock) LS_TRY(ls_calloc(x->queue_count, sizeof *s->clock, &s->clock));
    take_over(s->clock, clock_of(x, qi), x->queue_count);
    return LS_OK;
}

static void await(checker *x, int qi, const ls_task *t, int *blocked) {
    const queue *q = &x->queues[qi];
    *blocked = 0;
    if (q->step - t->lag < 0) return;
    const signal_step *s = signal_at(x, q, t->signal, q->step - t->lag);
    *blocked = s->count < program_of(x, q)->signals[t->signal].per_step;
    if (!*blocked && s->clock) take_over(clock_of(x, qi), s->clock, x->queue_count);
}

// --- running ---------------------------------------------------------------------------------------------------------

static ls_status do_task(checker *x, int qi, const ls_task *t, int *blocked) {
    *blocked = 0;
    switch ((ls_task_kind)t->kind) {
    case LS_TASK_RUN: return run(x, qi, t);
    case LS_TASK_SELECT: return select_leaf(x, qi, t);
    case LS_TASK_ADD: return add(x, qi, t);
    case LS_TASK_ENCODE: return encode(x, qi, t);
    case LS_TASK_MEASURE:
    case LS_TASK_DIRECT: return measure(x, qi, t);
    case LS_TASK_CLIP:
    case LS_TASK_NORMS: return look_at_squares(x, qi, t);
    case LS_TASK_UPDATE: return update(x, qi, t);
    case LS_TASK_COPY: return copy(x, qi, t);
    case LS_TASK_REFRESH: return refresh(x, qi, t);
    case LS_TASK_SEND: return send(x, qi, t);
    case LS_TASK_RECEIVE: return receive(x, qi, t, blocked);
    case LS_TASK_SIGNAL: return give(x, qi, t);
    case LS_TASK_WAIT: await(x, qi, t, blocked); return LS_OK;
    case LS_TASK_VOTE: x->votes[(int64_t)x->queues[qi].step * x->queue_count + qi] = clock_of(x, qi)[qi]; return LS_OK;
    case LS_TASK_LOOK: return look(x, qi);
    case LS_TASK_MERGE: merge(x, qi, t); return LS_OK;
    case LS_TASK_CALL:
    case LS_TASK_KINDS: break;
    }
    return LS_OK;
}

// As far as the queue goes; *moved: it went on.
static ls_status advance(checker *x, int qi, int *moved) {
    queue *q = &x->queues[qi];
    while (q->step < x->in->steps) {
        const ls_task_queue *tasks = &program_of(x, q)->queues[q->index];
        if (q->task == tasks->count) {
            ls__symbols_sent(&x->memory, qi, clock_of(x, qi));
            if (q->index < x->in->config->mesh->lanes && q->looked != 1)
                return fail(x, q, LS_CHECK_VOTE, "no decision");
            q->looked = 0;
            q->task = 0;
            q->step++;
            continue;
        }
        int blocked;
        clock_of(x, qi)[qi]++;
        LS_TRY(do_task(x, qi, &tasks->tasks[q->task], &blocked));
        if (blocked) {
            clock_of(x, qi)[qi]--;
            return LS_OK;
        }
        q->task++;
        *moved = 1;
    }
    return LS_OK;
}

static ls_status check_end(checker *x) {
    const ls_emit_config *c = x->in->config;
    queue end = {.step = x->in->steps - 1};
    for (int i = 0; i < x->queue_count; i++)
        if (x->queues[i].step < x->in->steps) return fail(x, &x->queues[i], LS_CHECK_DEADLOCK, "");
    if (x->letters) {
        end.rank = x->letters->from;
        return fail(x, &end, LS_CHECK_UNMATCHED, "");
    }
    for (int rank = 0; rank < c->mesh->ranks && !c->ways.push; rank++)
        for (int i = 0; i < x->in->regions[rank]->count; i++) {
            const ls_region *r = &x->in->regions[rank]->list[i];
            end.rank = rank;
            if (r->kind != LS_REGION_WEIGHTS) continue;
            ls__content all = versioned(LS__WEIGHTS, x->in->steps, 0);
            if (!ls__symbols_holds(&x->memory, x->region_of[x->first_region[rank] + i], 0, c->length, &all))
                return fail(x, &end, LS_CHECK_OLD, "");
        }
    return LS_OK;
}

// --- setting up ------------------------------------------------------------------------------------------------------

static ls_status number_regions(checker *x) {
    const ls_mesh *m = x->in->config->mesh;
    int all = 0;
    LS_TRY(ls_calloc(m->ranks + 1, sizeof(int), &x->first_region));
    for (int r = 0; r < m->ranks; r++) x->first_region[r + 1] = all += x->in->regions[r]->count;
    LS_TRY(ls_calloc(all, sizeof(int), &x->region_of));
    LS_TRY(ls_calloc(m->ranks, sizeof(int), &x->copies_of));
    for (int r = 0; r < m->ranks; r++) {
        const ls_emit_config *c = x->in->config;
        int first = m->host_first[ls_mesh_host(m, r)];
        x->copies_of[r] = -1;
        if (c->ways.weights_shared && !c->far && r > first) {
            x->copies_of[r] = x->copies_of[first];
        } else if (c->copies || c->early) {
            int64_t elements = copies_parts(x, r) * c->length;
            ls__content begins = versioned(LS__WEIGHTS, 0, LS__ANY_SHIFT);
            LS_TRY(ls__symbols_region(&x->memory, elements, &x->copies_of[r]));
            ls__symbols_write(&x->memory, x->copies_of[r], 0, elements, &begins, -1, NULL);
        }
        for (int i = 0; i < x->in->regions[r]->count; i++) {
            const ls_region *region = &x->in->regions[r]->list[i];
            int *number = &x->region_of[x->first_region[r] + i];
            if (r > first && i < x->in->regions[r]->shared)
                *number = x->region_of[x->first_region[first] + i];
            else
                LS_TRY(ls__symbols_region(&x->memory, region->elements, number));
            // Weights and state are there before the first step.
            if (region->kind == LS_REGION_WEIGHTS || region->kind == LS_REGION_STATE ||
                region->kind == LS_REGION_STAGED) {
                ls__content begins = versioned(region->kind == LS_REGION_STATE ? LS__STATE : LS__WEIGHTS, 0,
                                               region->kind == LS_REGION_STATE ? LS__ANY_SHIFT : 0);
                ls__symbols_write(&x->memory, *number, 0, region->elements, &begins, -1, NULL);
            }
        }
    }
    return LS_OK;
}

static ls_status set_up(checker *x) {
    const ls_mesh *m = x->in->config->mesh;
    int signals = 0, all = 0;
    x->last = &x->letters;
    LS_TRY(number_regions(x));
    for (int r = 0; r < m->ranks; r++) x->queue_count += x->in->programs[r]->queue_count;
    LS_TRY(ls_calloc(x->queue_count, sizeof *x->queues, &x->queues));
    for (int r = 0; r < m->ranks; r++)
        for (int i = 0; i < x->in->programs[r]->queue_count; i++) x->queues[all++] = (queue){.rank = r, .index = i};
    LS_TRY(ls_calloc((int64_t)x->queue_count * x->queue_count, sizeof *x->clocks, &x->clocks));
    LS_TRY(ls_calloc((int64_t)x->queue_count * x->in->steps, sizeof *x->votes, &x->votes));
    x->vote_words = m->hosts / 64 + 1;
    LS_TRY(ls_calloc((int64_t)x->in->steps * m->hosts * x->vote_words, sizeof *x->known, &x->known));
    LS_TRY(ls_calloc((int64_t)x->in->steps * m->hosts * LS__ARRIVALS * x->vote_words, sizeof *x->arrived, &x->arrived));
    for (int step = 0; step < x->in->steps; step++)  // one's own
        for (int h = 0; h < m->hosts; h++)
            x->known[((int64_t)step * m->hosts + h) * x->vote_words + h / 64] = (uint64_t)1 << h % 64;
    LS_TRY(ls_calloc(m->ranks, sizeof(int), &x->signal_of));
    LS_TRY(ls_calloc(m->hosts, sizeof(int), &x->host_signal_of));
    for (int h = 0; h < m->hosts; h++) {
        x->host_signal_of[h] = signals;
        signals += x->in->programs[m->host_first[h]]->host_signals;
    }
    for (int r = 0; r < m->ranks; r++) {
        x->signal_of[r] = signals;
        signals += x->in->programs[r]->signal_count - x->in->programs[r]->host_signals;
    }
    LS_TRY(ls_calloc((int64_t)signals * x->in->steps, sizeof *x->signals, &x->signals));
    return LS_OK;
}

static void clean_up(checker *x) {
    const ls_mesh *m = x->in->config->mesh;
    int64_t signals = 0;
    for (letter *l = x->letters, *next; l; l = next) {
        next = l->next;
        free_letter(l);
    }
    if (x->signals) {
        for (int r = 0; r < m->ranks; r++)
            signals += x->in->programs[r]->signal_count - x->in->programs[r]->host_signals;
        for (int h = 0; h < m->hosts; h++) signals += x->in->programs[m->host_first[h]]->host_signals;
    }
    for (int64_t i = 0; i < signals * x->in->steps; i++) free(x->signals[i].clock);
    free(x->signals);
    free(x->signal_of);
    free(x->host_signal_of);
    free(x->votes);
    free(x->known);
    free(x->arrived);
    free(x->copies_of);
    free(x->clocks);
    free(x->queues);
    free(x->region_of);
    free(x->first_region);
    ls__symbols_free(&x->memory);
}

ls_status ls_check(const ls_check_input *input, ls_check_fault *fault) {
    checker x = {.in = input};
    ls_status status = set_up(&x);
    for (int moved = 1; status == LS_OK && moved;) {
        moved = 0;
        for (int i = 0; i < x.queue_count && status == LS_OK; i++) status = advance(&x, i, &moved);
    }
    if (status == LS_OK) status = check_end(&x);
    clean_up(&x);
    *fault = x.fault;
    return status == LS_OK ? LS_OK : ls__fail_passed(status, __FILE__, __LINE__);
}
