// Who computes and who serves: runs of micro-batches follow each other whoever the servers are, and servers have none.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ok.h"
#include "step/strategies.h"

#define MOST_WORKERS 9

static void check_deal(const ls_mesh *r, int64_t v) {
    int64_t next = 0, least = v / ((r->ranks - r->servers) * (int64_t)r->lanes);
    for (int lane = 0; lane < r->ranks * r->lanes; lane++) {
        int64_t begin, end;
        ls_mesh_deal_lane(r, v, lane, &begin, &end);
        assert_int_equal(begin, next);
        if (ls_mesh_server(r, lane / r->lanes) >= 0)
            assert_int_equal(end, begin);
        else
            assert_in_range(end - begin, least, least + 1);
        next = end;
    }
    assert_int_equal(next, v);
}

static void runs_leave_servers_out(void **state) {
    for (int workers = 1; workers <= MOST_WORKERS; workers++)
        for (int servers = 0; servers < workers; servers++)
            for (int replicas = 1; replicas <= 3; replicas++)
                for (int64_t v = 1; v <= 30; v++) {
                    ls_mesh m = ls_mesh_plain(workers, replicas, servers);
                    check_deal(&m, v);
                }
}

// Short steps that are dealt as whole ones: every lane has what it has then, but for what there is not.
static void short_steps_may_be_dealt_as_whole_ones(void **state) {
    for (int workers = 1; workers <= MOST_WORKERS; workers++)
        for (int64_t whole = 1; whole <= 20; whole++)
            for (int64_t v = 1; v <= whole; v++)
                for (int lane = 0; lane < 2 * workers; lane++) {
                    ls_mesh r = ls_mesh_plain(workers, 2, 0);
                    int64_t first, last, begin, end;
                    ls_mesh_deal_lane(&r, whole, lane, &first, &last);
                    r.whole = whole;
                    ls_mesh_deal_lane(&r, v, lane, &begin, &end);
                    assert_int_equal(begin, first < v ? first : v);
                    assert_int_equal(end, last < v ? last : v);
                }
}

// In every stretch of workers/servers workers there is one, so that hosts of as many workers have one each; none is the first worker.
static void servers_are_spread(void **state) {
    for (int workers = 2; workers <= MOST_WORKERS; workers++)
        for (int servers = 1; servers < workers; servers++) {
            ls_mesh r = ls_mesh_plain(workers, 1, servers);
            int next = 0, before = 0;
            for (int position = 0; position < workers; position++) {
                int server = ls_mesh_server(&r, position);
                if (server < 0) continue;
                assert_int_equal(server, next++);
                assert_true(position > before && position - before <= (workers - 1 + servers - 1) / servers);
                before = position;
            }
            assert_int_equal(next, servers);
            assert_int_equal(before, workers - 1);
        }
    ls_mesh two_hosts = ls_mesh_plain(6, 2, 2);  // three workers on each
    assert_true(ls_mesh_server(&two_hosts, 2) == 0 && ls_mesh_server(&two_hosts, 5) == 1);
}

static ls_status assign(const char *name, int workers, int *servers) {
    const ls_strategy *strategy;
    OK(ls_strategy_find(name, &strategy));
    return ls_strategy_assign(strategy, workers, servers);
}

static void strategies_assign_them(void **state) {
    int servers = 0;
    OK(assign("parameter-server", 4, &servers));
    assert_int_equal(servers, 1);
    servers = 3;
    OK(assign("parameter-server", 4, &servers));
    assert_int_equal(servers, 3);
    servers = 4;
    assert_int_equal(assign("parameter-server", 4, &servers), LS_STATUS_INVALID_ARGUMENT);
    assert_string_equal(ls_error_message(),
                        "of 4 workers 4 are to be servers, and none is left to compute: start at "
                        "least 5, or ask for at most 3 servers");
    servers = 7;
    OK(assign("parameter-server", 1, &servers));  // it serves itself
    assert_int_equal(servers, 0);
    for (int workers = 1; workers < 3; workers++) {
        servers = 0;
        OK(assign("allreduce", workers, &servers));
        OK(assign("tree", workers, &servers));
        assert_int_equal(servers, 0);
        assert_int_equal(assign("mirrored", workers, &servers), workers == 1 ? LS_OK : LS_STATUS_INVALID_ARGUMENT);
        servers = 1;
        assert_int_equal(assign("central", workers, &servers), LS_STATUS_INVALID_ARGUMENT);
        assert_string_equal(ls_error_message(),
                            "1 server was asked for, and the strategy central has none: leave them "
                            "out, or choose parameter-server");
    }
}

// Members of a group differ in one coordinate, and belong to it whoever asks.
static void groups_are_meshes(void **state) {
    const int ranks_of_host[] = {6, 6, 12}, length[LS_MESH_AXES] = {2, 3, 2, 2};
    ls_mesh *m, *g;
    OK(ls_mesh_create(3, ranks_of_host, 2, length, &m));
    for (int rank = 0; rank < 24; rank++)
        for (int axis = 0; axis < LS_MESH_AXES; axis++) {
            OK(ls_mesh_group(m, rank, (ls_mesh_axis)axis, &g));
            assert_int_equal(g->ranks, length[axis]);
            int found = 0;
            for (int i = 0; i < g->ranks; i++) {
                found += g->global[i] == rank;
                for (int other = 0; other < LS_MESH_AXES; other++)
                    assert_true(other == axis || ls_mesh_coordinate(m, g->global[i], (ls_mesh_axis)other) ==
                                                     ls_mesh_coordinate(m, rank, (ls_mesh_axis)other));
                assert_int_equal(ls_mesh_coordinate(m, g->global[i], (ls_mesh_axis)axis), i);
                assert_true(i == 0 || (ls_mesh_host(g, i) == ls_mesh_host(g, i - 1)) ==
                                          (ls_mesh_host(m, g->global[i]) == ls_mesh_host(m, g->global[i - 1])));
            }
            assert_int_equal(found, 1);
            ls_mesh_destroy(&g);
        }
    ls_mesh_destroy(&m);
    const int wrong[LS_MESH_AXES] = {2, 3, 2, 1};
    assert_int_equal(ls_mesh_create(3, ranks_of_host, 2, wrong, &m), LS_STATUS_INVALID_ARGUMENT);
    assert_string_equal(ls_error_message(),
                        "a mesh of data 2 x pipeline 3 x tensor 2 x sequence 1 has 12 ranks, and there are 24");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_leave_servers_out), cmocka_unit_test(short_steps_may_be_dealt_as_whole_ones),
        cmocka_unit_test(servers_are_spread),     cmocka_unit_test(strategies_assign_them),
        cmocka_unit_test(groups_are_meshes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
