// The programs of steps, proven by the checker on hundreds of meshes, strategies and configurations; and mutants of them, each of which it must
// refuse by name.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "ok.h"
#include "step/check.h"
#include "step/strategies.h"

enum { MAX_RANKS = 16, MAX_BUCKETS = 12, MAX_COLUMNS = 16, STEPS = 3 };

typedef struct host_shape {
    int hosts, ranks[8], lanes;
} host_shape;

static const host_shape shapes[] = {
    {1, {1}, 1},
    {1, {1}, 3},
    {1, {3}, 2},
    {2, {1, 1}, 1},
    {2, {2, 2}, 1},
    {2, {3, 1}, 2},
    {3, {1, 1, 1}, 2},
    {3, {2, 3, 1}, 1},
    {4, {1, 1, 1, 1}, 1},
    {5, {1, 1, 1, 1, 1}, 1},
    {5, {2, 1, 3, 1, 2}, 1},
    {8, {1, 1, 1, 1, 1, 1, 1, 1}, 1},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

typedef struct setting {
    const char *strategy;
    int servers;
    ls_algorithm algorithm;
    ls_compress compress;
    int64_t units, full, tail;  // of LS_SLICE_ALIGN; micro-batches
    int buckets, progress, early, in_order, far, clips, layerwise, copies;
} setting;

typedef struct rig {
    ls_mesh *mesh;
    ls_emit_config config;
    int64_t ends[MAX_BUCKETS], squares[MAX_RANKS + 1], layers[MAX_RANKS + 1], counts[2];
    int64_t columns[MAX_BUCKETS * (MAX_COLUMNS + 1)];
    ls_regions regions[MAX_RANKS];
    ls_program *programs[2][MAX_RANKS];  // of full steps, of short ones
} rig;

static int64_t sparse_words(const void *user, int host, int bucket, int column) {
    const ls_emit_config *c = user;
    const int64_t *cut = c->columns + (int64_t)bucket * (c->column_count + 1) + column;
    (void)host;
    return 2 + (cut[1] - cut[0]) / 4;
}

static void set_columns(rig *r) {
    ls_emit_config *c = &r->config;
    for (int h = 0; h < c->mesh->hosts; h++) {
        int lanes = ls_mesh_host_ranks(c->mesh, h) * c->mesh->lanes;
        if (lanes > c->column_count) c->column_count = lanes;
    }
    for (int b = 0; b < c->bucket_count; b++)
        for (int k = 0; k <= c->column_count; k++) {
            int64_t unused, *at = &r->columns[b * (c->column_count + 1) + k];
            if (k < c->column_count)
                ls_emit_share(ls_emit_bucket_begin(c, b), c->bucket_ends[b], k, c->column_count, at, &unused);
            else
                *at = c->bucket_ends[b];
        }
    c->columns = r->columns;
    c->sparse_words = sparse_words;
    c->sparse_user = c;
}

static void destroy(rig *r) {
    for (int i = 0; r->mesh && i < r->mesh->ranks; i++) {
        ls_program_destroy(&r->programs[0][i]);
        ls_program_destroy(&r->programs[1][i]);
        ls_regions_free(&r->regions[i]);
    }
    ls_mesh_destroy(&r->mesh);
}

// Returns 0 where there is no such configuration.
static int make(const host_shape *shape, const setting *s, rig *r) {
    const ls_strategy *strategy;
    ls_emit_config *c = &r->config;
    memset(r, 0, sizeof *r);
    OK(ls_mesh_create(shape->hosts, shape->ranks, shape->lanes, NULL, &r->mesh));
    c->mesh = r->mesh;
    c->length = s->units * LS_SLICE_ALIGN;
    OK(ls_strategy_find(s->strategy, &strategy));
    r->mesh->servers = s->servers;
    if (ls_strategy_assign(strategy, r->mesh->ranks, &r->mesh->servers) != LS_OK ||
        ls_strategy_ways(strategy, s->algorithm, s->compress, shape->hosts, c->length, &c->ways) != LS_OK) {
        destroy(r);
        return 0;
    }
    if (s->compress == LS_COMPRESS_TOPK) r->mesh->whole = s->full;
    c->bucket_ends = r->ends;
    c->bucket_count = s->buckets;
    for (int b = 0; b < s->buckets; b++) r->ends[b] = s->units * (b + 1) / s->buckets * LS_SLICE_ALIGN;
    r->counts[0] = s->full, r->counts[1] = s->tail;
    c->counts = r->counts, c->count_count = 2;
    c->rounds_nodes = s->compress == LS_COMPRESS_BF16;
    c->selects = s->compress == LS_COMPRESS_TOPK;
    c->clips = s->clips, c->layerwise = s->layerwise;
    c->progress = s->progress, c->in_order = s->in_order, c->far = s->far, c->copies = s->copies;
    c->early = s->early && s->progress && !s->far && !s->clips && !s->layerwise;
    // Each lane of who updates has two sums for each bucket.
    for (int i = 0; i < r->mesh->ranks; i++) {
        int64_t begin, end, count = 0;
        for (int b = 0; b < s->buckets; b++) {
            ls_emit_slice(c, c->ways.updates, i, b, &begin, &end);
            count += 2 * (end > begin);
        }
        r->squares[i + 1] = r->squares[i] + count;
        r->layers[i + 1] = r->layers[i] + 2 * count;
    }
    c->squares = r->squares, c->layer_squares = r->layers;
    set_columns(r);
    for (int i = 0; i < r->mesh->ranks; i++)
        for (int k = 0; k < 2; k++) OK(ls_emit(c, i, r->counts[k], &r->regions[i], &r->programs[k][i]));
    return 1;
}

static ls_status check(rig *r, ls_check_fault *fault) {
    const ls_program *programs[STEPS * MAX_RANKS];
    const ls_regions *regions[MAX_RANKS];
    int ranks = r->mesh->ranks;
    for (int step = 0; step < STEPS; step++)
        for (int i = 0; i < ranks; i++) programs[step * ranks + i] = r->programs[step == 1][i];
    for (int i = 0; i < ranks; i++) regions[i] = &r->regions[i];
    return ls_check(&(ls_check_input){&r->config, programs, regions, STEPS}, fault);
}

static const struct {
    const char *name;
    int servers;
    ls_algorithm algorithm;
} ways[] = {{.name = "allreduce"},
            {.name = "allreduce", .algorithm = LS_ALGORITHM_HALVING},
            {.name = "reduce-broadcast"},
            {.name = "tree"},
            {.name = "central"},
            {.name = "mirrored"},
            {.name = "parameter-server", .servers = 1},
            {.name = "parameter-server", .servers = 3}};
enum { WAYS = sizeof ways / sizeof ways[0] };

static void describe(const host_shape *shape, const setting *s) {
    fprintf(stderr,
            "%s servers %d algorithm %d compress %d; hosts %d (%d, %d..) lanes %d; units %lld V %lld %lld; "
            "buckets %d progress %d early %d in order %d far %d clips %d layerwise %d\n",
            s->strategy, s->servers, s->algorithm, s->compress, shape->hosts, shape->ranks[0], shape->ranks[1],
            shape->lanes, (long long)s->units, (long long)s->full, (long long)s->tail, s->buckets, s->progress,
            s->early, s->in_order, s->far, s->clips, s->layerwise);
}

static void test_all(void **state) {
    int proven = 0;
    (void)state;
    for (int i = 0; i < SHAPES; i++)
        for (int w = 0; w < WAYS; w++)
            for (int compress = 0; compress < 3; compress++)
                for (int k = 0; k < 12; k++) {
                    static rig r;
                    setting s = {.strategy = ways[w].name,
                                 .servers = ways[w].servers,
                                 .algorithm = ways[w].algorithm,
                                 .compress = (ls_compress)compress,
                                 .units = (const int[]){40, 23, 7}[k % 3],
                                 .full = (const int[]){8, 13, 1, 6}[(k + i) % 4],
                                 .tail = (const int[]){5, 1, 3}[(k + w) % 3],
                                 .buckets = (const int[]){1, 4, 7, 2}[k % 4],
                                 .progress = k / 4 > 0,
                                 .early = k / 4 == 2,
                                 .in_order = k % 3,
                                 .far = k % 5 == 4,
                                 .clips = k % 4 == 3,
                                 .layerwise = (k + w) % 7 == 6,
                                 .copies = k % 2};
                    ls_check_fault fault;
                    if (s.tail > s.full) s.tail = s.full;
                    if (!make(&shapes[i], &s, &r)) continue;
                    if (check(&r, &fault) != LS_OK) {
                        describe(&shapes[i], &s);
                        fail_msg("%s", ls_error_message());
                    }
                    destroy(&r);
                    proven++;
                }
    print_message("%d programs' sets proven\n", proven);
    assert_true(proven >= 500);
}

// --- mutants ---------------------------------------------------------------------------------------------------------

// What is done to the `nth` task of a kind, in the program of full steps of a rank.
typedef enum operation {
    DROP,
    REPEAT,
    ASTRAY,  // repeated, with a tag that nobody waits for
    FIRST,   // moved to the begin of its queue
    LAST,    // to its end
    BEFORE,  // changes places with the one before
    PEER,
    TAG,
    LONGER,
    SHORTER,
    BEYOND,     // of its output, beyond the region
    ELSEWHERE,  // its output one slice unit further on
    INPUT_AT,   // its first input likewise
    OTHER_NODE,
    FEWER_INPUTS,
    TURNED_INPUTS,
    OTHER_SIGNAL,
    LAGS,
    ROUNDS,  // its first operand's region is of bf16
} operation;

static int count_tasks(const ls_program *p, ls_task_kind kind) {
    int count = 0;
    for (int q = 0; q < p->queue_count; q++)
        for (int i = 0; i < p->queues[q].count; i++) count += p->queues[q].tasks[i].kind == kind;
    return count;
}

static ls_task *find_task(const ls_program *p, ls_task_kind kind, int nth, ls_task_queue **queue) {
    if (nth < 0) nth += count_tasks(p, kind);
    for (int q = 0; q < p->queue_count; q++)
        for (int i = 0; i < p->queues[q].count; i++)
            if (p->queues[q].tasks[i].kind == kind && nth-- == 0) {
                *queue = &p->queues[q];
                return &p->queues[q].tasks[i];
            }
    fail_msg("there is no task %s %d", ls_task_words[kind], nth);
    return NULL;
}

static void move_task(ls_task_queue *q, int from, int to) {
    ls_task task = q->tasks[from];
    memmove(q->tasks + from, q->tasks + from + 1, (size_t)(q->count - from - 1) * sizeof task);
    memmove(q->tasks + to + 1, q->tasks + to, (size_t)(q->count - to - 1) * sizeof task);
    q->tasks[to] = task;
}

static void repeat_task(ls_task_queue *q, int at) {
    q->tasks = realloc(q->tasks, (size_t)(q->count + 1) * sizeof *q->tasks);
    assert_non_null(q->tasks);
    memmove(q->tasks + at + 1, q->tasks + at, (size_t)(q->count - at) * sizeof *q->tasks);
    q->count++;
    q->capacity = q->count;
}

static ls_operand *operand_of(const ls_program *p, const ls_task *t) {
    return &p->operands[t->kind == LS_TASK_RECEIVE || t->kind == LS_TASK_RUN ? t->output : t->input];
}

static void mutate(rig *r, int rank, ls_task_kind kind, int nth, operation op) {
    const ls_program *p = r->programs[0][rank];
    ls_task_queue *q;
    ls_task *t = find_task(p, kind, nth, &q);
    int at = (int)(t - q->tasks);
    ls_operand *in = &p->operands[t->input], *out = &p->operands[t->output], turned = in[0];
    switch (op) {
    case DROP:
        move_task(q, at, q->count - 1);
        q->count--;
        break;
    case REPEAT: repeat_task(q, at); break;
    case ASTRAY:
        repeat_task(q, at);
        q->tasks[at].tag += 1000;
        break;
    case FIRST: move_task(q, at, 0); break;
    case LAST: move_task(q, at, q->count - 1); break;
    case BEFORE: move_task(q, at, at - 1); break;
    case PEER: t->peer = (t->peer + 1) % r->mesh->ranks; break;
    case TAG: t->tag++; break;
    case LONGER: t->end += LS_SLICE_ALIGN; break;
    case SHORTER: t->end -= LS_SLICE_ALIGN; break;
    case BEYOND: out->at = r->regions[rank].list[out->region].elements; break;
    case ELSEWHERE: out->at += LS_SLICE_ALIGN; break;
    case INPUT_AT: in->at += LS_SLICE_ALIGN; break;
    case OTHER_NODE: operand_of(p, t)->node.first++; break;
    case FEWER_INPUTS: t->inputs--; break;
    case TURNED_INPUTS:
        in[0] = in[t->inputs - 1];
        in[t->inputs - 1] = turned;
        break;
    case OTHER_SIGNAL: t->signal = (t->signal + 1) % p->signal_count; break;
    case LAGS: t->lag = !t->lag; break;
    case ROUNDS: r->regions[rank].list[operand_of(p, t)->region].dtype = LS_DTYPE_BF16; break;
    }
}

static const setting
    several = {.strategy = "allreduce", .units = 23, .full = 13, .tail = 5, .buckets = 4, .progress = 1, .copies = 1},
    early = {.strategy = "allreduce", .units = 23, .full = 8, .tail = 3, .buckets = 4, .progress = 1, .early = 1},
    tree = {.strategy = "tree", .units = 23, .full = 13, .tail = 5, .buckets = 2, .progress = 1},
    central = {.strategy = "central", .units = 23, .full = 13, .tail = 5, .buckets = 2, .progress = 1},
    clipped = {.strategy = "allreduce", .units = 23, .full = 8, .tail = 3, .buckets = 2, .progress = 1, .clips = 1},
    layers = {.strategy = "allreduce", .units = 23, .full = 8, .tail = 3, .buckets = 2, .layerwise = 1},
    sparse = {.strategy = "allreduce",
              .compress = LS_COMPRESS_TOPK,
              .units = 23,
              .full = 8,
              .tail = 3,
              .buckets = 2,
              .progress = 1};

static const struct mutant {
    const setting *setting;
    int shape, rank, kind, nth;
    operation op;
    ls_check_fault fault;
} mutants[] = {
    // what is not done, or done twice
    {&several, 6, 1, LS_TASK_SEND, -1, ASTRAY, LS_CHECK_UNMATCHED},
    {&several, 6, 1, LS_TASK_SEND, 0, DROP, LS_CHECK_DEADLOCK},
    {&several, 6, 1, LS_TASK_RECEIVE, 0, DROP, LS_CHECK_UNWRITTEN},
    {&several, 6, 1, LS_TASK_RECEIVE, 0, REPEAT, LS_CHECK_DEADLOCK},
    {&several, 6, 0, LS_TASK_ADD, 0, DROP, LS_CHECK_CONTENT},
    {&several, 6, 0, LS_TASK_RUN, -1, DROP, LS_CHECK_UNWRITTEN},
    {&several, 6, 2, LS_TASK_UPDATE, 0, DROP, LS_CHECK_UNWRITTEN},
    {&several, 6, 2, LS_TASK_UPDATE, 0, REPEAT, LS_CHECK_TWICE},
    {&several, 6, 2, LS_TASK_VOTE, 0, DROP, LS_CHECK_VOTE},
    {&several, 6, 0, LS_TASK_SIGNAL, 0, DROP, LS_CHECK_DEADLOCK},
    {&several, 6, 0, LS_TASK_SIGNAL, 0, REPEAT, LS_CHECK_SIGNAL},
    {&several, 6, 0, LS_TASK_WAIT, 0, DROP, LS_CHECK_RACE},
    {&several, 6, 0, LS_TASK_WAIT, -1, DROP, LS_CHECK_VOTE},
    {&sparse, 3, 0, LS_TASK_SELECT, 0, DROP, LS_CHECK_CONTENT},
    {&sparse, 3, 0, LS_TASK_ENCODE, 0, DROP, LS_CHECK_UNWRITTEN},
    {&clipped, 3, 0, LS_TASK_MEASURE, 0, DROP, LS_CHECK_UNWRITTEN},
    {&layers, 2, 0, LS_TASK_DIRECT, 0, DROP, LS_CHECK_UNWRITTEN},
    {&several, 6, 0, LS_TASK_REFRESH, 0, DROP, LS_CHECK_UNWRITTEN},
    {&several, 6, 0, LS_TASK_MERGE, 0, DROP, LS_CHECK_VOTE},
    {&several, 6, 0, LS_TASK_LOOK, 0, DROP, LS_CHECK_VOTE},
    {&several, 6, 0, LS_TASK_LOOK, 0, REPEAT, LS_CHECK_VOTE},
    {&clipped, 3, 0, LS_TASK_CLIP, 0, DROP, LS_CHECK_UNWRITTEN},
    {&layers, 2, 1, LS_TASK_NORMS, 0, DROP, LS_CHECK_UNWRITTEN},
    // in another order
    {&several, 6, 1, LS_TASK_SEND, 0, FIRST, LS_CHECK_RACE},
    {&several, 6, 1, LS_TASK_RECEIVE, 0, LAST, LS_CHECK_UNWRITTEN},
    {&several, 6, 0, LS_TASK_UPDATE, 0, FIRST, LS_CHECK_RACE},
    {&several, 6, 0, LS_TASK_ADD, -1, FIRST, LS_CHECK_RACE},
    {&several, 6, 0, LS_TASK_WAIT, 0, LAST, LS_CHECK_RACE},
    {&several, 6, 0, LS_TASK_SIGNAL, 0, FIRST, LS_CHECK_RACE},
    {&several, 6, 1, LS_TASK_VOTE, -1, LAST, LS_CHECK_VOTE},
    {&clipped, 3, 0, LS_TASK_CLIP, 0, FIRST, LS_CHECK_UNWRITTEN},
    {&layers, 2, 1, LS_TASK_NORMS, 0, FIRST, LS_CHECK_UNWRITTEN},
    {&several, 6, 0, LS_TASK_REFRESH, 0, FIRST, LS_CHECK_UNWRITTEN},
    {&clipped, 3, 1, LS_TASK_CLIP, 0, LAST, LS_CHECK_UNWRITTEN},
    {&layers, 2, 0, LS_TASK_NORMS, 0, LAST, LS_CHECK_UNWRITTEN},
    {&several, 6, 0, LS_TASK_MERGE, 0, FIRST, LS_CHECK_VOTE},
    // elements, nodes and peers that are others
    {&several, 6, 1, LS_TASK_SEND, 0, PEER, LS_CHECK_SIZE},
    {&several, 6, 1, LS_TASK_SEND, 0, TAG, LS_CHECK_DEADLOCK},
    {&several, 6, 1, LS_TASK_SEND, 0, SHORTER, LS_CHECK_SIZE},
    {&several, 6, 1, LS_TASK_RECEIVE, 0, LONGER, LS_CHECK_SIZE},
    {&several, 6, 1, LS_TASK_RECEIVE, 0, BEYOND, LS_CHECK_BOUNDS},
    {&several, 6, 0, LS_TASK_UPDATE, 0, SHORTER, LS_CHECK_UNWRITTEN},
    {&several, 6, 0, LS_TASK_UPDATE, 0, INPUT_AT, LS_CHECK_CONTENT},
    {&several, 6, 0, LS_TASK_UPDATE, 0, FEWER_INPUTS, LS_CHECK_ROOT},
    {&several, 6, 0, LS_TASK_RUN, 1, OTHER_NODE, LS_CHECK_CONTENT},
    {&several, 6, 0, LS_TASK_ADD, 0, OTHER_NODE, LS_CHECK_CONTENT},
    {&several, 6, 0, LS_TASK_ADD, 0, TURNED_INPUTS, LS_CHECK_SIBLINGS},
    {&several, 6, 0, LS_TASK_ADD, 0, ELSEWHERE, LS_CHECK_CONTENT},
    {&several, 6, 0, LS_TASK_WAIT, 0, OTHER_SIGNAL, LS_CHECK_RACE},
    {&several, 6, 1, LS_TASK_RECEIVE, 0, ROUNDS, LS_CHECK_TYPE},
    {&tree, 9, 3, LS_TASK_ADD, -1, ROUNDS, LS_CHECK_TYPE},
    {&tree, 9, 2, LS_TASK_RECEIVE, 0, LAST, LS_CHECK_UNWRITTEN},
    {&central, 4, 0, LS_TASK_UPDATE, 0, FEWER_INPUTS, LS_CHECK_ROOT},
    {&central, 4, 2, LS_TASK_RECEIVE, -1, DROP, LS_CHECK_VOTE},
    // steps that overlap
    {&early, 3, 0, LS_TASK_REFRESH, 0, DROP, LS_CHECK_CONTENT},
    {&early, 3, 0, LS_TASK_REFRESH, 1, SHORTER, LS_CHECK_CONTENT},
    {&early, 3, 0, LS_TASK_WAIT, 0, LAGS, LS_CHECK_DEADLOCK},
    {&early, 3, 0, LS_TASK_WAIT, 0, DROP, LS_CHECK_RACE},
    {&early, 3, 1, LS_TASK_WAIT, -1, DROP, LS_CHECK_RACE},
    {&early, 3, 0, LS_TASK_RECEIVE, -1, DROP, LS_CHECK_VOTE},
    {&early, 3, 1, LS_TASK_UPDATE, -1, DROP, LS_CHECK_UNWRITTEN},
};
enum { MUTANTS = sizeof mutants / sizeof mutants[0] };

static void test_mutants(void **state) {
    int wrong = 0;
    (void)state;
    for (int i = 0; i < MUTANTS; i++) {
        const struct mutant *m = &mutants[i];
        static rig r;
        ls_check_fault fault;
        if (!make(&shapes[m->shape], m->setting, &r)) fail_msg("%s", ls_error_message());
        mutate(&r, m->rank, (ls_task_kind)m->kind, m->nth, m->op);
        ls_status status = check(&r, &fault);
        if (status == LS_OK || fault != m->fault) {
            wrong++;
            print_error("mutant %d (%s, operation %d): %s\n", i, ls_task_words[m->kind], m->op,
                        status == LS_OK ? "not refused" : ls_error_message());
        }
        destroy(&r);
    }
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_mutants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
