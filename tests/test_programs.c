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
    {1, {1}, 1},       {1, {1}, 3},          {1, {3}, 2},
    {2, {1, 1}, 1},    {2, {2, 2}, 1},       {2, {3, 1}, 2},
    {3, {1, 1, 1}, 2}, {3, {2, 3, 1}, 1},    {4, {1, 1, 1, 1}, 1},
    {5, {1, 1, 1, 1, 1}, 1}, {5, {2, 1, 3, 1, 2}, 1}, {8, {1, 1, 1, 1, 1, 1, 1, 1}, 1},
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
    fprintf(stderr, "%s servers %d algorithm %d compress %d; hosts %d (%d, %d..) lanes %d; units %lld V %lld %lld; "
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
