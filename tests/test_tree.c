// The tree over micro-batches: pieces cover, are fewest, and any way of cutting gives the bits of the recursion.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "step/tree.h"

#define MOST 40

static float value_of(int64_t i) {
    ls_philox4 r = ls_philox(7, (uint32_t)i, 0, 0, 0);
    return (ls_uniform(r.v[0]) - 0.5f) * (float)(1 << (r.v[1] % 24));  // of many sizes: most orders round differently
}

// The definition, as tree.h words it.
static float recursion(int64_t v, int64_t first, int level) {
    if (level == 0) return value_of(first);
    int64_t middle = first + ((int64_t)1 << (level - 1));
    float left = recursion(v, first, level - 1);
    return middle < v ? left + recursion(v, middle, level - 1) : left;
}

static int root_level(int64_t v) {
    int level = 0;
    while (((int64_t)1 << level) < v) level++;
    return level;
}

// Adds [begin, end) as a lane does. Returns the most buffers in use.
static int add_run(int64_t v, int64_t begin, int64_t end, ls_piece *stack, float *sums, int *depth) {
    int most = 0;
    *depth = 0;
    for (int64_t i = begin; i < end; i++) {
        stack[*depth] = (ls_piece){i, 0};
        sums[(*depth)++] = value_of(i);
        if (*depth > most) most = *depth;
        while (ls_tree_merge(v, stack, depth)) sums[*depth - 1] += sums[*depth];
    }
    return most;
}

static void runs_share_the_work(void **state) {
    for (int v = 1; v <= MOST; v++)
        for (int lanes = 1; lanes <= v + 3; lanes++) {
            int64_t next = 0;
            for (int lane = 0; lane < lanes; lane++) {
                int64_t begin, end;
                ls_tree_run(v, lane, lanes, &begin, &end);
                assert_int_equal(begin, next);
                assert_in_range(end - begin, v / lanes, (v + lanes - 1) / lanes);
                next = end;
            }
            assert_int_equal(next, v);
        }
}

// The fewest nodes that cover each run, by trying all (dynamic programming over the end).
static int fewest(int v, int begin, int end) {
    int best[MOST + 1];
    best[begin] = 0;
    for (int e = begin + 1; e <= end; e++) {
        best[e] = MOST + 1;
        for (int level = 0; level <= root_level(v); level++)
            for (int first = 0; first < e; first += 1 << level) {
                int stop = first + (1 << level) < v ? first + (1 << level) : v;
                if (first >= begin && stop == e && best[first] + 1 < best[e]) best[e] = best[first] + 1;
            }
    }
    return best[end];
}

static void pieces_cover_with_the_fewest_nodes(void **state) {
    for (int v = 1; v <= MOST; v++)
        for (int begin = 0; begin <= v; begin++)
            for (int end = begin; end <= v; end++) {
                ls_piece pieces[LS_TREE_MAX_PIECES];
                int count = ls_tree_pieces(v, begin, end, pieces);
                int64_t next = begin;
                for (int i = 0; i < count; i++) {
                    assert_int_equal(pieces[i].first, next);
                    assert_int_equal(pieces[i].first & (((int64_t)1 << pieces[i].level) - 1), 0);
                    assert_in_range(pieces[i].level, 0, root_level(v));
                    next += (int64_t)1 << pieces[i].level;
                    if (next > v) next = v;
                }
                assert_int_equal(next, end);
                assert_int_equal(count, fewest(v, begin, end));
            }
}

static void a_lane_ends_with_its_pieces_in_its_slots(void **state) {
    for (int v = 1; v <= MOST; v++)
        for (int begin = 0; begin <= v; begin++)
            for (int end = begin; end <= v; end++) {
                ls_piece pieces[LS_TREE_MAX_PIECES], stack[LS_TREE_MAX_PIECES];
                float sums[LS_TREE_MAX_PIECES];
                int count = ls_tree_pieces(v, begin, end, pieces), depth;
                int used = add_run(v, begin, end, stack, sums, &depth);
                assert_int_equal(depth, count);
                assert_int_equal(used, ls_tree_slots(v, begin, end));
                for (int i = 0; i < count; i++) {
                    assert_int_equal(stack[i].first, pieces[i].first);
                    assert_int_equal(stack[i].level, pieces[i].level);
                    float expected = recursion(v, pieces[i].first, pieces[i].level);
                    assert_memory_equal(&sums[i], &expected, 4);
                }
            }
}

// Lanes grouped into hosts, hosts into the whole: sums of sums of pieces.
static void every_cut_gives_the_same_bits(void **state) {
    for (int v = 1; v <= MOST; v++) {
        float expected = recursion(v, 0, root_level(v));
        for (int lanes = 1; lanes <= v + 3; lanes++)
            for (int hosts = 1; hosts <= lanes; hosts += 1 + hosts / 3) {
                ls_piece top[LS_TREE_MAX_PIECES];
                float top_sums[LS_TREE_MAX_PIECES];
                int top_depth = 0;
                for (int host = 0; host < hosts; host++) {
                    ls_piece stack[LS_TREE_MAX_PIECES], piece[LS_TREE_MAX_PIECES];
                    float sums[LS_TREE_MAX_PIECES], lane_sums[LS_TREE_MAX_PIECES];
                    int depth = 0;
                    for (int lane = lanes * host / hosts; lane < lanes * (host + 1) / hosts; lane++) {
                        int64_t begin, end;
                        int count;
                        ls_tree_run(v, lane, lanes, &begin, &end);
                        add_run(v, begin, end, piece, lane_sums, &count);
                        for (int i = 0; i < count; i++) {
                            stack[depth] = piece[i];
                            sums[depth++] = lane_sums[i];
                            while (ls_tree_merge(v, stack, &depth)) sums[depth - 1] += sums[depth];
                        }
                    }
                    for (int i = 0; i < depth; i++) {
                        top[top_depth] = stack[i];
                        top_sums[top_depth++] = sums[i];
                        while (ls_tree_merge(v, top, &top_depth)) top_sums[top_depth - 1] += top_sums[top_depth];
                    }
                }
                assert_int_equal(top_depth, 1);
                assert_memory_equal(&top_sums[0], &expected, 4);
            }
    }
}

// The test would be worth nothing if any order gave these bits.
static void other_orders_give_other_bits(void **state) {
    int differ = 0;
    for (int v = 3; v <= MOST; v++) {
        float serial = 0, tree = recursion(v, 0, root_level(v));
        for (int i = 0; i < v; i++) serial += value_of(i);
        differ += memcmp(&serial, &tree, 4) != 0;
    }
    assert_true(differ > MOST / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_share_the_work),
        cmocka_unit_test(pieces_cover_with_the_fewest_nodes),
        cmocka_unit_test(a_lane_ends_with_its_pieces_in_its_slots),
        cmocka_unit_test(every_cut_gives_the_same_bits),
        cmocka_unit_test(other_orders_give_other_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
