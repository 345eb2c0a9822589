// How cores are shared out: against looking at every pair of replicas and threads there is, on nodes of many shapes; and where replicas are put.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include <lockstep/train.h>

#include "train/spread.h"

static ls_cores cores_of(int domains, int each) {
    ls_cores c = {.domains = domains};
    for (int d = 0; d < domains; d++) c.count[d] = each;
    return c;
}

static int fits(const ls_cores *c, int replicas, int threads) {
    int room = 0;
    for (int d = 0; d < c->domains; d++) room += c->count[d] / threads;
    return room >= replicas;
}

// As many replicas as there are micro-batches or cores for, of as many threads as fit, found by trying all.
static void check_choice(const ls_cores *c, int64_t v, int workers) {
    ls_spread_question q = {.have = c, .kinds = 1, .workers = workers, .micro_batches = v, .most_threads = 1024};
    int replicas, threads, most = (int)(v / workers), cores = ls__cores_count(c), r = 0, t = 1;
    ls__spread_choose(&q, &replicas, &threads);
    while (r + 1 <= most && fits(c, r + 1, 1)) r++;
    for (int more = 1; more <= cores; more++)
        if (fits(c, r, more)) t = more;
    if (replicas != r || threads != t)
        fail_msg("%lld micro-batches, %d workers of %d cores: %d replicas of %d threads, not %d of %d", (long long)v,
                 workers, cores, replicas, threads, r, t);
}

static void every_core_that_helps_is_used(void **state) {
    static const int domains[] = {1, 2, 4, 8}, each[] = {1, 2, 3, 7, 20, 28, 64};
    for (int d = 0; d < 4; d++)
        for (int e = 0; e < 7; e++) {
            ls_cores c = cores_of(domains[d], each[e]);
            for (int64_t v = 1; v < 40; v++) check_choice(&c, v, 1);
            for (int64_t v = 40; v <= 512; v += 59) check_choice(&c, v, 1 + (int)(v % 5));
        }
    ls_cores uneven = {.domains = 3, .count = {5, 11, 2}};
    for (int64_t v = 1; v < 40; v++) check_choice(&uneven, v, 1);
}

// The batches that people take, on a node of 2 x 28 cores and on one of 2 x 20.
static void known_nodes(void **state) {
    static const struct {
        int each, replicas, threads;
        int64_t batch;
    } known[] = {{28, 1, 28, 16},   {28, 2, 28, 32},   {28, 4, 14, 64},   {28, 8, 7, 128},   {28, 8, 7, 256},
                 {28, 8, 7, 1024},  {28, 16, 3, 2048}, {28, 32, 1, 4096}, {28, 56, 1, 8192}, {20, 1, 20, 16},
                 {20, 2, 20, 32},   {20, 4, 10, 64},   {20, 8, 5, 128},   {20, 8, 5, 256},   {20, 8, 5, 1024},
                 {20, 16, 2, 2048}, {20, 32, 1, 4096}, {20, 40, 1, 8192}, {1, 2, 1, 128},    {1, 1, 1, 16}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        ls_cores c = cores_of(2, known[i].each);
        int64_t v = known[i].batch / ls_micro_batch_default(known[i].batch);
        ls_spread_question q = {.have = &c, .kinds = 1, .workers = 1, .micro_batches = v, .most_threads = 1024};
        int replicas, threads;
        ls__spread_choose(&q, &replicas, &threads);
        if (replicas != known[i].replicas || threads != known[i].threads)
            fail_msg("batch %lld on 2 x %d cores: %d replicas of %d threads, not %d of %d", (long long)known[i].batch,
                     known[i].each, replicas, threads, known[i].replicas, known[i].threads);
    }
}

static void what_is_asked_for_is_taken(void **state) {
    ls_cores c[] = {cores_of(2, 28), cores_of(1, 12)};
    ls_spread_question q = {.have = c, .kinds = 2, .workers = 2, .micro_batches = 16, .most_threads = 1024};
    int replicas, threads;
    ls__spread_choose(&q, &replicas, &threads);  // as the smaller worker can
    assert_true(replicas == 8 && threads == 1);
    q.reserved = 1;
    ls__spread_choose(&q, &replicas, &threads);
    assert_true(replicas * threads <= 11 && fits(&c[1], replicas, threads));
    q.reserved = 0, q.threads = 5;
    ls__spread_choose(&q, &replicas, &threads);
    assert_true(replicas == 2 && threads == 5);
    q.replicas = 7;
    ls__spread_choose(&q, &replicas, &threads);
    assert_true(replicas == 7 && threads == 5);
    q.threads = 0;
    ls__spread_choose(&q, &replicas, &threads);
    assert_true(replicas == 7 && threads == 1);
    q = (ls_spread_question){.have = c, .kinds = 1, .workers = 1, .micro_batches = 4, .most_threads = 1};
    ls__spread_choose(&q, &replicas, &threads);  // a device whose kernels have one thread
    assert_true(replicas == 4 && threads == 1);
    c[0] = (ls_cores){.domains = 1};
    ls__spread_choose(&q, &replicas, &threads);  // fewer cores than workers
    assert_true(replicas == 1 && threads == 1);
    c[0] = cores_of(1, 2), q.threads = 3, q.most_threads = 1024;
    ls__spread_choose(&q, &replicas, &threads);
    assert_true(replicas == 1 && threads == 3);
}

static int domain_at(const ls_cores *c, int core) {
    int d = 0;
    for (; core >= c->count[d]; d++) core -= c->count[d];
    return d;
}

static void replicas_stay_inside_domains(void **state) {
    for (int domains = 1; domains <= 4; domains++)
        for (int each = 1; each <= 12; each++)
            for (int threads = 1; threads <= 13; threads++)
                for (int replicas = 1; replicas * threads <= domains * each; replicas++) {
                    ls_cores c = cores_of(domains, each);
                    int *first = calloc((size_t)replicas, sizeof *first), spare, in[4] = {0};
                    char used[64] = {0};
                    assert_non_null(first);
                    ls__spread_place(&c, replicas, threads, first, &spare);
                    for (int r = 0; r < replicas; r++) {
                        assert_true(first[r] >= 0 && first[r] + threads <= domains * each);
                        for (int t = 0; t < threads; t++) assert_false(used[first[r] + t]++);
                        if (!fits(&c, replicas, threads)) continue;
                        assert_int_equal(domain_at(&c, first[r]), domain_at(&c, first[r] + threads - 1));
                        in[domain_at(&c, first[r])]++;
                    }
                    assert_true(spare < 0 ? replicas * threads == domains * each : !used[spare]);
                    for (int d = 1; d < domains; d++) assert_true(in[d - 1] - in[d] <= 1 && in[d] <= in[d - 1]);
                    free(first);
                }
}

static void workers_divide_domains(void **state) {
    ls_cores host = cores_of(2, 28);
    for (int of = 1; of <= 56; of++) {
        int sum = 0;
        for (int i = 0; i < of; i++) {
            ls_cores mine = ls__cores_share(&host, i, of);
            int count = ls__cores_count(&mine);
            assert_true(count == 56 / of || count == 56 / of + 1);
            assert_true(of % 2 || mine.count[0] == 0 || mine.count[1] == 0);
            sum += count;
        }
        assert_int_equal(sum, 56);
    }
    ls_cores none = ls__cores_share(&host, 3, 57);
    assert_int_equal(ls__cores_count(&none), 0);
}

static void programs_ask_before_there_is_a_job(void **state) {
    ls_train_config c;
    int replicas, threads;
    ls_train_config_init(&c);
    c.batch_size = 256;
    assert_int_equal(ls_train_spread(&c, 1, 56, &replicas, &threads), LS_OK);
    assert_true(replicas == 8 && threads == 7);
    c.device = "ref";
    assert_int_equal(ls_train_spread(&c, 1, 56, &replicas, &threads), LS_OK);
    assert_true(replicas == 8 && threads == 1);
    assert_int_equal(ls_train_spread(&c, 9, 56, &replicas, &threads), LS_STATUS_INVALID_ARGUMENT);
    assert_int_equal(ls_train_spread(NULL, 1, 1, &replicas, &threads), LS_STATUS_INVALID_ARGUMENT);
}

// A core for the exchange: where it takes more of the others than what that core would compute; never where micro-batches no longer fit.
static void a_core_for_the_exchange(void **state) {
    // 8 cores, 8 micro-batches of 10 ms: seven replicas take 20 ms in place of 10.
    assert_false(ls__spread_core_pays(8, 8, 8, 7, 0.01, 0.07));
    assert_true(ls__spread_core_pays(8, 8, 8, 7, 0.01, 0.09));
    // 7 of them: the eighth core has nothing to do.
    assert_true(ls__spread_core_pays(7, 8, 7, 7, 0.01, 0.003));
    assert_false(ls__spread_core_pays(7, 8, 7, 7, 0.01, 0.001));  // not worth it
    assert_false(ls__spread_core_pays(56, 8, 8, 7, 0.01, 0.08));  // 80 ms in place of 70 and 10
    assert_true(ls__spread_core_pays(56, 8, 8, 7, 0.01, 0.1));
    assert_false(ls__spread_core_pays(4, 1, 1, 0, 0.01, 1));
    assert_false(ls__spread_core_pays(4, 2, 2, 1, 0, 1));  // nobody has measured
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_core_that_helps_is_used),      cmocka_unit_test(known_nodes),
        cmocka_unit_test(what_is_asked_for_is_taken),         cmocka_unit_test(a_core_for_the_exchange),
        cmocka_unit_test(replicas_stay_inside_domains),       cmocka_unit_test(workers_divide_domains),
        cmocka_unit_test(programs_ask_before_there_is_a_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
